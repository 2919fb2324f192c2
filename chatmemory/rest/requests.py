"""What comes with a request: its body, the format of its messages, how often its user may send one, what it may read.

One request reads, counts and writes all of a memory. A window does not bound its characters: thinking, attributes and
media have few tokens or none, however long they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any

from django.utils.translation import gettext_noop as _
from rest_framework.exceptions import ParseError
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.permissions import SAFE_METHODS
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.throttling import UserRateThrottle

from chatmemory.conf import setting
from chatmemory.core.json_text import MAX_NESTING, levels, loads
from chatmemory.database.operations.compaction_plan import left_size
from chatmemory.database.reading import request_bound
from chatmemory.formats.registry import message_formats, one_for_one
from chatmemory.models import Conversation
from chatmemory.rest.problems import MemoryTooLarge, TooLarge, invalid

_MOST_VALUES = 200_000

# It matches a string that does not end, too: otherwise the search would begin again at each quotation mark in it.
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)


class StrictJSONParser(BaseParser):
    """A parser of JSON in UTF-8. It refuses a body that is too long, nested too deep or no JSON."""

    media_type = "application/json"

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        most = setting("MAX_BODY_BYTES")
        try:
            body = stream.read(most + 1)
        except ValueError as error:  # under ASGI Django closes the body of a client that has gone
            raise ParseError("The request cannot be read.") from error
        if len(body) > most:
            raise TooLarge(_("The body has more than %(most)s bytes. Send less at once."), most=most)
        # Values may take thirty times as many bytes as their JSON, so they are counted before the body is parsed. The
        # count of the bytes is at most twice that of the values.
        most_counted = 2 * _MOST_VALUES
        if _counted(body) > most_counted and _counted(_STRING.sub(b"", body)) > most_counted:
            raise _too_many_values()
        try:
            value = loads(body.decode("utf-8"))
            _require_small(value)
        except UnicodeDecodeError as error:
            raise ParseError(f"The body is not UTF-8: {error}.") from error
        except ValueError as error:
            raise ParseError(f"The body cannot be read: {error}.") from error
        return value


def _require_small(value: Any) -> None:
    """Raise if ``value`` is nested too deep or has too many values: each of them costs time at every later step."""
    count = 0
    for depth, level in enumerate(levels(value)):
        count += len(level)
        if depth > MAX_NESTING:
            raise ValueError(f"nested more than {MAX_NESTING} levels deep")
        if count > _MOST_VALUES:
            raise _too_many_values()


def _counted(body: bytes) -> int:
    """Return the number of values in a body, or more: empty containers, and what is in strings, count too."""
    return 1 + body.count(b",") + body.count(b"[") + body.count(b"{")


def _too_many_values() -> TooLarge:
    return TooLarge("The body has more than %(most)s values. Send less at once.", most=_MOST_VALUES)


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
        raise invalid(
            "format",
            "unknown format %(format)s; expected one of %(formats)s",
            code="invalid_choice",
            format=repr(name[:100]),
            formats=list(known),
        )
    if whole_memory:
        return name
    here = one_for_one(readable=request.method not in SAFE_METHODS)
    if name not in here:
        raise invalid(
            "format",
            "%(format)s is for GET conversations/{id}/memory/ only; expected one of %(formats)s",
            code="not_supported",
            format=name,
            formats=list(here),
        )
    return name


class _ScopeThrottle(UserRateThrottle):
    def __init__(self, scope: str, rate: str) -> None:
        self.scope = f"chatmemory-{scope}"
        self.rate = rate
        super().__init__()


def throttles(scope: str) -> list[UserRateThrottle]:
    """Return the throttles of a key of ``THROTTLE_RATES``: one, or none if it has no rate."""
    rate = setting("THROTTLE_RATES").get(scope)
    return [_ScopeThrottle(scope, rate)] if rate else []


def require_bounded(conversation: Conversation, version: int | None = None) -> None:
    """Check that one request may read a memory.

    Args:
        conversation: its conversation.
        version: the version of a past memory; by default the present memory.

    Raises:
        MemoryTooLargeError: it exceeds ``MAX_MEMORY_MESSAGES`` or ``MAX_MEMORY_CHARS``.
    """
    request_bound().check(*conversation.memory.size(version))


def require_summarizable(conversation: Conversation) -> None:
    """Check that one request may read all that a summary would stand for: the memory, and what left it.

    Raises:
        MemoryTooLargeError: the memory exceeds ``MAX_MEMORY_MESSAGES`` or ``MAX_MEMORY_CHARS``.
        MemoryTooLarge: what left it does.
    """
    require_bounded(conversation)
    if not request_bound().allows(*left_size(conversation)):
        raise MemoryTooLarge(
            "Messages that no summary stands for left the memory: more than %(messages)s, or more than %(chars)s "
            "characters. That is too much for one request. On the server, conversation.memory.compact() has no bound.",
            messages=setting("MAX_MEMORY_MESSAGES"),
            chars=setting("MAX_MEMORY_CHARS"),
        )
