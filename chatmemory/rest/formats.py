"""The formats of messages over the wire, by ``?format=``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from chatmemory.codec import message_to_data
from chatmemory.formats.openai import from_openai, to_openai
from chatmemory.messages import ChatMessage
from chatmemory.reader import read_messages
from chatmemory.rest.problems import invalid

__all__ = ["FORMATS", "MessageFormat", "MessageFormatNegotiation", "asked_format"]


@dataclass(frozen=True)
class MessageFormat:
    """One way to write messages as JSON."""

    read: Callable[[Any, str], list[ChatMessage]]
    """Messages from a parsed list and its place; raises ``InvalidMessageError``."""

    write: Callable[[Sequence[ChatMessage]], list[Any]]
    """One JSON value a message; raises ``UnsupportedContentError``."""


FORMATS = {
    "langchain4j": MessageFormat(read_messages, lambda messages: [message_to_data(message) for message in messages]),
    "openai": MessageFormat(from_openai, lambda messages: to_openai(messages, repair=False)),
}


class MessageFormatNegotiation(DefaultContentNegotiation):
    """REST framework takes ``?format=`` for a renderer's; here it may be a message format as well."""

    def filter_renderers(self, renderers: Iterable[BaseRenderer], format: str) -> list[BaseRenderer]:
        return [renderer for renderer in renderers if renderer.format == format] or list(renderers)


def asked_format(request: Request, renderers: Sequence[type[BaseRenderer]]) -> MessageFormat:
    """The format of the messages in the request and its answer: LangChain4j's unless another is asked for.

    Raises:
        ValidationError: nobody knows the format.
    """
    name = request.query_params.get("format", "langchain4j")
    if name in FORMATS:
        return FORMATS[name]
    if name in [renderer.format for renderer in renderers]:
        return FORMATS["langchain4j"]
    raise invalid("format", f"unknown format {name[:100]!r}; expected one of {', '.join(FORMATS)}")
