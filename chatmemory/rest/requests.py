"""The parts of a request: its body, the format of its messages, how often its user may send one, what it may read.

One request reads, counts and writes all of a memory. A window does not bound its characters: thinking, attributes and
media have few tokens or none, however long they are.

An entity tag says which state of a resource a client has seen. It is ``"<version>.<fingerprint>"``, the version being
that of the conversation's memory. ``If-Match`` compares the version; it takes ``"<version>"`` alone as well, because
clients know the version from bodies. For a resource with more than a memory (title, metadata) the fingerprint must
match too, if the tag has one. A tag that a compressing proxy made weak counts like the strong one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import IO, Any

from django.utils.http import parse_etags
from django.utils.translation import gettext_noop as _
from rest_framework.exceptions import ParseError
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.permissions import SAFE_METHODS
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import UserRateThrottle

import chatmemory
from chatmemory.conf import setting
from chatmemory.core.json_text import MAX_NESTING, levels, loads
from chatmemory.database.idempotency import keys_of
from chatmemory.database.operations.compaction_plan import left_size
from chatmemory.database.reading import request_bound
from chatmemory.formats.registry import message_formats, one_for_one
from chatmemory.models import WINDOW_SETTINGS, Conversation
from chatmemory.rest.problems import MemoryTooLarge, PreconditionFailed, TooLarge, invalid

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


def require_summarizable(conversation: Conversation, through: int) -> None:
    """Check that one request may read all that a summary through a position would cover.

    Raises:
        MemoryTooLargeError: the memory exceeds ``MAX_MEMORY_MESSAGES`` or ``MAX_MEMORY_CHARS``.
        MemoryTooLarge: what left it does.
    """
    require_bounded(conversation)
    if not request_bound().allows(*left_size(conversation, through)):
        raise MemoryTooLarge(
            "Messages that no summary covers left the memory: more than %(messages)s, or more than %(chars)s "
            "characters. That is too much for one request. Summarise a part: choose a smaller through.",
            messages=setting("MAX_MEMORY_MESSAGES"),
            chars=setting("MAX_MEMORY_CHARS"),
        )


def _tag(version: int, *state: Any) -> str:
    text = json.dumps([chatmemory.__version__, *state], sort_keys=True, default=str)
    return f'"{version}.{hashlib.sha256(text.encode()).hexdigest()[:16]}"'


def conversation_tag(conversation: Conversation, answer: Any) -> str:
    """Return the tag of a conversation's settings and counters, as the user gets them in ``answer``.

    What they do not get, such as a turn that is under way, must not change the tag.
    """
    return _tag(conversation.version, answer)


def memory_tag(conversation: Conversation, *view: Any) -> str:
    """Return the tag of a conversation's memory; ``view`` is what else the answer depends on, such as a format."""
    window = [getattr(conversation, name) for name in WINDOW_SETTINGS]
    # A purge takes messages out of past versions, and makes no new version.
    return _tag(conversation.version, *window, conversation.retained_tokens, conversation.purged_count, *view)


def not_modified(request: Request, tag: str) -> Response | None:
    """Return the answer 304 if ``If-None-Match`` has this tag, else None."""
    seen = _tags(request, "If-None-Match")
    if seen == ["*"] or tag in seen:
        return Response(status=304, headers={"ETag": tag})
    return None


def precondition(
    request: Request,
    tag_of: Callable[[Conversation], str] | None = None,
    *,
    key: str | None = None,
    may_be_new: bool = False,
) -> Callable[[Conversation], None] | None:
    """Return the check of the locked row that ``If-Match`` or ``If-None-Match: *`` demands, if they are there.

    Args:
        tag_of: gives the tag that has to match whole; by default only the version has to.
        key: the idempotency key of a request that may be a repeated one: its own first run changed the version.
        may_be_new: whether a memory at version 0 counts as not there, for which ``*`` asks.

    Raises:
        ValidationError: the header has no tag.
    """
    tags, only_new = _tags(request, "If-Match"), _tags(request, "If-None-Match") == ["*"]
    if "If-Match" in request.headers and not tags:
        raise invalid("If-Match", 'expected an ETag of this API, or "<version>" in quotes')
    if not (tags or only_new):
        return None

    def check(conversation: Conversation) -> None:
        if key is not None and keys_of(conversation).filter(key=key).exists():
            return
        exists = conversation.version > 0 or not may_be_new
        if only_new and exists:
            raise PreconditionFailed(
                "It exists already, and If-None-Match: * asks that it does not.",
                members={"version": conversation.version},
            )
        version = f'"{conversation.version}"'
        current = tag_of(conversation) if tag_of else version
        seen = {*tags} if tag_of else {*map(_version, tags)}
        if tags and not (seen & {version, current} or ("*" in tags and exists)):
            raise PreconditionFailed(members={"version": conversation.version, "etag": current})

    return check


def _tags(request: Request, header: str) -> list[str]:
    return [tag.removeprefix("W/") for tag in parse_etags(request.headers.get(header, ""))]


def _version(tag: str) -> str:
    return f'"{tag.strip(chr(34)).partition(".")[0]}"'
