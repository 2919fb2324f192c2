"""Entity tags: which state of a resource a client has seen.

A tag is ``"<version>.<fingerprint>"``, the version being that of the conversation's memory. ``If-Match`` compares the
version; it takes ``"<version>"`` alone as well, because clients know the version from bodies. For a resource with more
than a memory (title, metadata) the fingerprint must match too, if the tag has one. A tag that a compressing proxy made
weak counts like the strong one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from django.utils.http import parse_etags
from rest_framework.request import Request
from rest_framework.response import Response

import chatmemory
from chatmemory.database.idempotency import keys_of
from chatmemory.models import WINDOW_SETTINGS, Conversation
from chatmemory.rest.problems import PreconditionFailed, invalid


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
