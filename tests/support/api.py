"""How tests talk to the API."""

from __future__ import annotations

import json
from typing import Any

from django.test import Client

from chatmemory.models import Conversation

__all__ = ["ITEM", "LISTED", "USER", "ai", "patch", "positions", "post", "put", "send", "url", "user_message"]

ITEM = {
    "position", "type", "text", "message", "state", "reason", "token_count", "synthetic", "origin", "written_by",
    "covers_from", "covers_to", "pinned", "added_in", "evicted_in", "evicted_at", "created_at",
}  # fmt: skip

LISTED = ITEM | {"feedback", "siblings", "usage"}
"""What the calls of messages add to an item: the fields of apps."""


def user_message(text: str) -> dict[str, Any]:
    return {"contents": [{"text": text, "type": "TEXT"}], "type": "USER"}


def ai(text: str) -> dict[str, Any]:
    return {"text": text, "toolExecutionRequests": [], "attributes": {}, "type": "AI"}


USER = user_message("Hello")


def url(conversation: Conversation, part: str = "") -> str:
    return f"/api/conversations/{conversation.pk}/{part}"


def send(client: Client, method: str, path: str, body: Any, **headers: str) -> Any:
    """Send JSON, or the text or bytes given. Headers are named like ``if_match``."""
    data = body if isinstance(body, (str, bytes)) else json.dumps(body)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.generic(method, path, data, content_type="application/json", headers=names)


def post(client: Client, path: str, body: Any, **headers: str) -> Any:
    return send(client, "POST", path, body, **headers)


def put(client: Client, path: str, body: Any, **headers: str) -> Any:
    return send(client, "PUT", path, body, **headers)


def patch(client: Client, path: str, body: Any, **headers: str) -> Any:
    return send(client, "PATCH", path, body, **headers)


def positions(answer: Any) -> list[int]:
    """The positions of the messages on a page."""
    return [item["position"] for item in answer.json()["results"]]
