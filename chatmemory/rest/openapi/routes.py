"""The routes of the API, and which of them an answer leads to."""

from __future__ import annotations

import re
from typing import Any

from chatmemory.rest.urls import api_urlpatterns
from chatmemory.rest.views.base import Call

__all__ = ["VIEWS", "links"]

_PATTERNS: list[Any] = [*api_urlpatterns]

VIEWS: list[Any] = list(dict.fromkeys(pattern.callback.cls for pattern in _PATTERNS))

# Where the answer of what makes something says the parameter of the routes below its own.
_MADE = {"conversation_id": "$response.body#/id", "position": "$response.body#/added/0/position"}


def _routes() -> list[tuple[str, Call]]:
    """Return the path and the declaration of each call."""
    return [
        (re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", str(pattern.pattern)), getattr(pattern.callback.cls, action).call)
        for pattern in _PATTERNS
        for method, action in pattern.callback.actions.items()
        if method != "head"
    ]


def links(call: Call, action: str) -> dict[str, Any]:
    """Return the links from the answer of a call.

    From what was made they lead to the routes below; from what was read, to what changes it unless it was changed.
    """
    own = next(path for path, other in _routes() if other.id == call.id)
    found: dict[str, Any] = {}
    for path, other in _routes():
        same = {name: f"$request.path.{name}" for name in _parameters(own)}
        new = _parameters(path)[len(same) :]
        if action == "create" and path.startswith(own) and len(new) == 1:
            parameters = {**same, new[0]: _MADE[new[0]]}
        elif action == "create" and not same and "memory_id" in new:
            parameters = {"memory_id": "$response.body#/memory_id"}
        elif action == "retrieve" and "ETag" in call.headers and path == own and "If-Match" in other.headers:
            parameters = {**same, "If-Match": "$response.header.ETag"}
        else:
            continue
        found[other.id] = {"operationId": other.id, "parameters": parameters}
    return found


def _parameters(path: str) -> list[str]:
    return re.findall(r"{(\w+)}", path)
