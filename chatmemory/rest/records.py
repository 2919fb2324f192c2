"""The record of what staff read and change over REST in conversations of other owners."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from rest_framework.request import Request

from chatmemory import staff
from chatmemory.database.change import Change
from chatmemory.models import Conversation
from chatmemory.rest.access import is_for_others, may_read_text
from chatmemory.rest.filters import TEXT_FILTERS
from chatmemory.staff import Act

__all__ = ["change_to_record", "record_change", "record_read", "recording"]

_LONGEST_ENTRY = 2000


def record_read(request: Request, conversation: Conversation | None = None) -> None:
    """Record that staff read words of another owner: those of a conversation, by default of a list of conversations.

    The answer to a HEAD has no words, but the length of the answer tells whether a search found something.
    """
    if request.method == "HEAD" and not any(map(request.query_params.get, TEXT_FILTERS)):
        return
    if is_for_others(request) and may_read_text(request):
        staff.record(request.user, _call(request), None if conversation is None else [conversation])


def record_change(request: Request, conversation: Conversation, account: dict[str, Any], act: Act = "change") -> None:
    """Record what staff did to a conversation of another owner.

    ``account`` has figures and names of fields: the log has no words.
    """
    if is_for_others(request):
        said = f"{_call(request)} {json.dumps(account)}" if account else _call(request)
        staff.record(request.user, said, [conversation], act=act)


def change_to_record(change: Change) -> dict[str, Any]:
    """Return the figures of a change."""
    return {"added": len(change.added), "evicted": len(change.gone), "version": change.memory.version}


def recording(request: Request) -> Callable[[Change], None] | None:
    """Return what records the figures of a change in its transaction; None if it is of the user's own conversation."""
    if not is_for_others(request):
        return None
    return lambda change: record_change(request, change.conversation, change_to_record(change))


def _call(request: Request) -> str:
    """Return the method, the route and the query. The path itself may have a memory ID, which may be a name."""
    match = request.resolver_match
    assert match is not None
    values = {"position": match.kwargs.get("position", "")}
    route = re.sub(r"<(?:\w+:)?(\w+)>", lambda found: values.get(found[1], f"{{{found[1]}}}"), match.route)
    return f"REST: {request.method} {route}?{request.query_params.urlencode()}"[:_LONGEST_ENTRY]
