"""The formats of messages over the wire, by ``?format=``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.permissions import SAFE_METHODS
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from chatmemory.formats.registry import message_formats, one_for_one
from chatmemory.rest.problems import invalid

__all__ = ["DEFAULT_FORMAT", "MessageFormatNegotiation", "asked_format"]

DEFAULT_FORMAT = "langchain4j"
"""The format of messages unless another is asked for, and the only one of ``stores/``."""


class MessageFormatNegotiation(DefaultContentNegotiation):
    """The negotiation that lets ``?format=`` name a message format. REST framework takes it for a renderer."""

    def filter_renderers(self, renderers: Iterable[BaseRenderer], format: str) -> list[BaseRenderer]:
        return [renderer for renderer in renderers if renderer.format == format] or list(renderers)


def asked_format(request: Request, renderers: Sequence[type[BaseRenderer]], *, whole_memory: bool) -> str:
    """Return the name of the message format that the request asks for.

    Args:
        whole_memory: whether the answer is a whole memory and nothing else. Then the format need not have a value for
            each message.

    Raises:
        ValidationError: the format is unknown, or does not fit this request.
    """
    name = request.query_params.get("format", DEFAULT_FORMAT)
    known = message_formats()
    if name not in known and name in [renderer.format for renderer in renderers]:
        name = DEFAULT_FORMAT
    if name not in known:
        raise invalid("format", f"unknown format {name[:100]!r}; expected one of {', '.join(known)}")
    if whole_memory:
        return name
    here = one_for_one(readable=request.method not in SAFE_METHODS)
    if name not in here:
        choices = ", ".join(here)
        raise invalid("format", f"{name} is for GET conversations/{{id}}/memory/ only; expected one of {choices}")
    return name
