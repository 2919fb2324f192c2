"""Requests of the REST API, by Django's test client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.soak.adversary.acts.act import TALK, Act, Scene, signed_in
from benchmarks.soak.adversary.acts.stores import NEW, nothing
from benchmarks.soak.adversary.model import Said, State
from chatmemory import UserMessage, message_to_json, messages_to_json

__all__ = ["ACTS", "RefusedError"]

_QUESTION = Said("USER", "q")
_SUMMARY = Said("USER", "a summary")


class RefusedError(Exception):
    """The request was not answered, as the database did not answer."""


def _request(
    method: str,
    address: str,
    body: str | None = None,
    *,
    key: str | None = None,
    gone: int = 0,
) -> Callable[[Scene], Any]:
    """Return what sends a request.

    Args:
        method: the method.
        address: within the API; ``{pk}`` is the talk's.
        body: JSON.
        key: an idempotency key.
        gone: the status of a repetition, if it has one of its own.
    """

    def do(scene: Scene) -> Any:
        headers = {} if key is None else {"Idempotency-Key": key}
        response = scene.more["client"].generic(
            method,
            f"/api/{address.format(pk=scene.conversation.pk)}",
            body or "",
            content_type="application/json",
            headers=headers,
        )
        if response.status_code in (500, 503):
            raise RefusedError(response.status_code)
        assert response.status_code < 300 or response.status_code == gone, response.content
        return _comparable(response)

    return do


def _comparable(response: Any) -> Any:
    if response.headers.get("Content-Type") != "application/json" or not response.content:
        return response.status_code
    data = response.json()
    if isinstance(data, dict) and "version" in data:
        return data["version"]
    return len(data) if isinstance(data, list) else data.get("memory_id")


_ONE = message_to_json(UserMessage("q"))
_MANY = messages_to_json([UserMessage("q")])
_REWRITE = f'{{"messages": {messages_to_json([UserMessage("a summary")])}}}'


def _rewritten(state: State) -> State:
    return state.set((_SUMMARY,))


def _sign_in(scene: Scene) -> None:
    scene.more["client"] = signed_in(scene.user)


def _chat(scene: Scene, message: dict[str, Any]) -> Any:
    """Send a message as ``useChat`` does, for JSON: the thread of a stream may hold a lock when the process forks."""
    return scene.more["client"].post(
        f"/api/conversations/{scene.conversation.pk}/turns/",
        {"id": "chat", "messages": [message], "trigger": "submit-message"},
        content_type="application/json",
        headers={"Accept": "application/json"},
    )


def _begin_chat(scene: Scene) -> None:
    _sign_in(scene)
    scene.more["message"] = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "q"}]}
    response = _chat(scene, scene.more["message"])
    assert response.status_code == 200, response.content


def _reload_chat(scene: Scene) -> None:
    """Let the page know the message by the ID that it has in the history."""
    _begin_chat(scene)
    told = scene.more["client"].get(f"/api/conversations/{scene.conversation.pk}/turns/").json()["messages"]
    scene.more["message"] = next(one for one in reversed(told) if one["role"] == "user")


def _edit(scene: Scene) -> int:
    """Send the message with another text."""
    response = _chat(scene, {**scene.more["message"], "parts": [{"type": "text", "text": "another"}]})
    if response.status_code in (500, 503):
        raise RefusedError(response.status_code)
    assert response.status_code == 409, f"an edit was answered with {response.status_code}"
    return 409


_REFUSED: dict[str, Any] = {"effect": lambda state: state, "steps": 0}

ACTS = [
    Act(
        name="POST conversations/ with a key",
        prepare=_sign_in,
        do=_request("POST", "conversations/", '{"memory_id": "new"}', key="k"),
        repeatable=True,
        same_answer=True,
    ),
    Act(
        name="POST conversations/",
        prepare=_sign_in,
        do=_request("POST", "conversations/", '{"memory_id": "new"}', gone=409),
        repeatable=True,
    ),
    Act(
        name="POST messages/ with a key",
        prepare=_sign_in,
        do=_request("POST", "conversations/{pk}/messages/", _ONE, key="k"),
        effect=lambda state: state.add(_QUESTION),
        repeatable=True,
        same_answer=True,
    ),
    Act(
        name="POST messages/",
        prepare=_sign_in,
        do=_request("POST", "conversations/{pk}/messages/", _ONE),
        effect=lambda state: state.add(_QUESTION),
    ),
    Act(
        name="PUT memory/",
        prepare=_sign_in,
        do=_request("PUT", "conversations/{pk}/memory/", _REWRITE),
        effect=_rewritten,
        repeatable=True,
        same_answer=True,
    ),
    Act(
        name="DELETE memory/",
        prepare=_sign_in,
        do=_request("DELETE", "conversations/{pk}/memory/"),
        effect=lambda state: state.clear(),
        repeatable=True,
        same_answer=True,
    ),
    Act(
        name="PATCH a conversation",
        prepare=_sign_in,
        do=_request("PATCH", "conversations/{pk}/", '{"title": "Another", "limit": 2}'),
        effect=lambda state: state.bound(2),
        repeatable=True,
        same_answer=True,
    ),
    Act(
        name="DELETE a conversation",
        prepare=_sign_in,
        do=_request("DELETE", "conversations/{pk}/", gone=404),
        effect=lambda state: None,
        repeatable=True,
        forgets=True,
    ),
    Act(
        name="PUT stores/",
        prepare=_sign_in,
        do=_request("PUT", f"stores/{TALK}/", _MANY),
        effect=lambda state: state.set((_QUESTION,), said=(_QUESTION,)),
        repeatable=True,
    ),
    Act(
        name="PUT stores/ of a new memory",
        prepare=_sign_in,
        do=_request("PUT", f"stores/{NEW}/", _MANY),
        effect=nothing,
        about=NEW,
        repeatable=True,
    ),
    Act(
        name="DELETE stores/",
        prepare=_sign_in,
        do=_request("DELETE", f"stores/{TALK}/"),
        effect=lambda state: state.clear(),
        repeatable=True,
        same_answer=True,
    ),
    Act(
        name="GET memory/",
        prepare=_sign_in,
        do=_request("GET", "conversations/{pk}/memory/"),
        effect=lambda state: state,
        steps=0,
    ),
    Act(
        name="GET messages/",
        prepare=_sign_in,
        do=_request("GET", "conversations/{pk}/messages/"),
        effect=lambda state: state,
        steps=0,
    ),
    Act(
        name="GET stores/", prepare=_sign_in, do=_request("GET", f"stores/{TALK}/"), effect=lambda state: state, steps=0
    ),
    Act(
        name="preview",
        prepare=_sign_in,
        do=_request("POST", "conversations/{pk}/memory/preview/", '{"limit": 2}'),
        effect=lambda state: state,
        steps=0,
    ),
    Act(name="edit in useChat", prepare=_begin_chat, do=_edit, **_REFUSED),
    Act(name="edit in useChat after a reload", prepare=_reload_chat, do=_edit, **_REFUSED),
]
