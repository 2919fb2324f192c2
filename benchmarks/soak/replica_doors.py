"""Every public door of the package, each opened by a caller who expects to see what was just written.

The router of the project sends reads to a replica, which knows of each conversation only the messages 0 and 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.test import Client, override_settings

from chatmemory import MessageWindowChatMemory, UserMessage, messages_from_json
from chatmemory.models import Conversation
from chatmemory.stores import DjangoChatMemoryStore
from tests.support.api import patch, post, put, url, user_message

__all__ = ["DOORS", "Caller"]


@dataclass(frozen=True)
class Caller:
    """A caller of the doors."""

    user: Any

    client: Client
    """A client signed in as ``user``."""

    known: Conversation
    """A conversation of messages 0 and 1 under a window of three, read where it was written."""

    @property
    def as_replicated(self) -> Conversation:
        """Return the conversation, read from the replica."""
        conversation = Conversation.objects.get(pk=self.known.pk)
        assert (conversation._state.db, conversation.message_count) == ("replica", 2), "the replica does not lag"
        return conversation

    def get(self, part: str = "", **headers: str) -> Any:
        """Return an answer about the conversation."""
        return self.client.get(url(self.known, part), headers={k.replace("_", "-"): v for k, v in headers.items()})

    def add(self, text: str, **headers: str) -> Any:
        """Add a message over HTTP."""
        return _ok(post(self.client, url(self.known, "messages/"), user_message(text), **headers))

    def memory(self, query: str = "") -> list[str]:
        """Return the texts of the memory over HTTP."""
        return _texts_in(_ok(self.get(f"memory/{query}")))


def python_memory(caller: Caller) -> None:
    for conversation in caller.known, caller.as_replicated:
        conversation.memory.add(UserMessage("2"), UserMessage("3"))
        conversation.memory.add(UserMessage("4"))
        assert _texts(conversation.memory.messages()) == ["2", "3", "4"]
        conversation.memory.set([UserMessage("summary")])
        assert _texts(conversation.memory.messages()) == ["summary"]
        conversation.memory.clear()
        assert conversation.memory.messages() == []


def python_store(caller: Caller) -> None:
    store = DjangoChatMemoryStore(caller.user)
    for memory_id, before in (caller.known.memory_id, ["0", "1"]), (f"{caller.known.memory_id} new", []):
        memory = MessageWindowChatMemory(id=memory_id, max_messages=3, store=store)
        memory.add(UserMessage("2"))
        assert _texts(memory.messages()) == _texts(store.get_messages(memory_id)) == [*before, "2"]
        store.update_messages(memory_id, [UserMessage("other")])
        assert _texts(memory.messages()) == ["other"]
        store.delete_messages(memory_id)
        assert memory.messages() == []


def python_idempotency_key(caller: Caller) -> None:
    first = caller.known.memory.add(UserMessage("2"), idempotency_key="key")
    again = caller.as_replicated.memory.add(UserMessage("2"), idempotency_key="key")
    assert [row.position for row in again.added] == [row.position for row in first.added] == [2]
    assert again.memory == first.memory


def python_set_window(caller: Caller) -> None:
    caller.known.memory.add(UserMessage("2"))
    change = caller.as_replicated.memory.set_window(limit=2)
    assert [row.text for row in change.evicted] == ["0"]
    assert (change.memory.limit, change.memory.messages, change.memory.version) == (2, 2, 3)
    assert _texts(caller.known.memory.messages()) == ["1", "2"]


def python_memory_at(caller: Caller) -> None:
    caller.known.memory.add(UserMessage("2"), UserMessage("3"))
    assert _texts(caller.known.memory.at(1)) == ["0", "1"]
    assert _texts(caller.known.memory.at(2)) == ["1", "2", "3"]


def python_memory_at_of_what_was_read_from_the_replica(caller: Caller) -> None:
    conversation = caller.as_replicated
    conversation.memory.add(UserMessage("2"), UserMessage("3"))
    assert _texts(conversation.memory.at(2)) == ["1", "2", "3"]


def python_try_window(caller: Caller) -> None:
    caller.known.memory.add(UserMessage("2"))
    trial = caller.known.memory.try_window(limit=2, messages=[UserMessage("3")])
    assert [row.text for row in trial.retained] == ["2", "3"]
    assert [row.text for row, _ in trial.evicted] == ["0", "1"]


def python_try_window_of_what_was_read_from_the_replica(caller: Caller) -> None:
    conversation = caller.as_replicated
    conversation.memory.add(UserMessage("2"))
    assert [row.text for row in conversation.memory.try_window(limit=2).retained] == ["1", "2"]


def rest_create(caller: Caller) -> None:
    key = f"{caller.known.memory_id} made"
    body = {"memory_id": key, "window": "messages", "limit": 2}
    made = _ok(post(caller.client, "/api/conversations/", body, idempotency_key=key))
    again = _ok(post(caller.client, "/api/conversations/", body, idempotency_key=key))
    assert made.json() == again.json() == _ok(caller.client.get(made["Location"])).json()
    assert post(caller.client, "/api/conversations/", body).status_code == 409
    added = _ok(post(caller.client, f"{made['Location']}messages/", user_message("0")))
    assert [item["position"] for item in added.json()["added"]] == [0]


def rest_patch_of_what_was_just_made(caller: Caller) -> None:
    made = _ok(post(caller.client, "/api/conversations/", {"memory_id": f"{caller.known.memory_id} patched"}))
    assert _ok(patch(caller.client, made["Location"], {"title": "New"})).json()["title"] == "New"


def rest_add(caller: Caller) -> None:
    first = caller.add("2", idempotency_key="key")
    assert caller.add("2", idempotency_key="key").json() == first.json()
    caller.add("3")
    assert caller.memory() == caller.memory("?at_message=3") == caller.memory("?at=3") == ["1", "2", "3"]
    assert caller.memory("?at=1") == ["0", "1"]
    assert _ok(caller.get()).json()["message_count"] == 4


def rest_one_message(caller: Caller) -> None:
    caller.add("2")
    assert _ok(caller.get("messages/2/")).json()["text"] == "2"


def rest_preconditions(caller: Caller) -> None:
    path, body = url(caller.known, "memory/"), {"messages": [user_message("summary")]}
    old = _ok(caller.get("memory/"))["ETag"]
    tag = caller.add("2", if_match=old)["ETag"]
    assert caller.get("memory/", if_none_match=tag).status_code == 304
    assert caller.get("memory/", if_none_match=old).status_code == 200
    assert put(caller.client, path, body, if_match=old).status_code == 412
    set_anew = _ok(put(caller.client, path, body, if_match=tag))
    assert _texts_in(set_anew) == caller.memory() == ["summary"]
    assert caller.client.delete(path, headers={"if-match": tag}).status_code == 412
    assert caller.client.delete(path, headers={"if-match": set_anew["ETag"]}).status_code == 204
    assert caller.memory() == []


def rest_patch(caller: Caller) -> None:
    caller.add("2")
    tag = _ok(caller.get())["ETag"]
    answer = _ok(patch(caller.client, url(caller.known), {"title": "New", "limit": 2}, if_match=tag))
    assert {"title": "New", "limit": 2, "version": 3, "message_count": 3}.items() <= answer.json().items()
    assert [item["text"] for item in answer.json()["evicted"]] == ["0"]
    assert answer["ETag"] == _ok(caller.get())["ETag"]
    assert patch(caller.client, url(caller.known), {"title": "Newer"}, if_match=tag).status_code == 412


def rest_delete(caller: Caller) -> None:
    assert caller.client.delete(url(caller.known)).status_code == 204
    assert caller.get().status_code == caller.get("memory/").status_code == 404
    assert post(caller.client, url(caller.known, "messages/"), user_message("2")).status_code == 404


def rest_preview(caller: Caller) -> None:
    caller.add("2")
    assert _texts_in(_ok(post(caller.client, url(caller.known, "memory/preview/"), {"limit": 1}))) == ["2"]


def rest_store(caller: Caller) -> None:
    for memory_id in caller.known.memory_id, f"{caller.known.memory_id} stored":
        path = f"/api/stores/{memory_id}/"
        put(caller.client, path, [user_message("2")])
        assert _texts(messages_from_json(_ok(caller.client.get(path)).content.decode())) == ["2"]
        assert caller.client.delete(path).status_code == 204
        assert _ok(caller.client.get(path)).json() == []


def without_history(caller: Caller) -> None:
    with override_settings(CHATMEMORY={"KEEP_HISTORY": False}):
        caller.add("2")
        caller.add("3")
        assert caller.memory() == ["1", "2", "3"]
        assert [row.text for row in caller.known.memory.try_window(limit=2).retained] == ["2", "3"]


def lists_and_histories_lag(caller: Caller) -> None:
    """Read the querysets that the router sends to a replica, which also shows that it is really behind."""
    caller.add("2")
    history = _ok(caller.get("messages/")).json()["results"]
    assert [item["text"] for item in history] == ["0", "1"]
    listed = _ok(caller.client.get(f"/api/conversations/?memory_id={caller.known.memory_id}")).json()["results"]
    assert [item["message_count"] for item in listed] == [2]
    assert caller.known.messages.count() == Conversation.objects.get(pk=caller.known.pk).message_count == 2
    retained = caller.known.messages.using("replica").retained()
    assert [row.text for row in retained] == ["0", "1"]


DOORS: list[Callable[[Caller], None]] = [
    python_memory,
    python_store,
    python_idempotency_key,
    python_set_window,
    python_memory_at,
    python_memory_at_of_what_was_read_from_the_replica,
    python_try_window,
    python_try_window_of_what_was_read_from_the_replica,
    rest_create,
    rest_patch_of_what_was_just_made,
    rest_add,
    rest_one_message,
    rest_preconditions,
    rest_patch,
    rest_delete,
    rest_preview,
    rest_store,
    without_history,
    lists_and_histories_lag,
]
"""All doors. The next door does not see what one does: it has another conversation."""


def _texts(messages: list[Any]) -> list[str]:
    return [message.contents[0].text for message in messages]


def _texts_in(answer: Any) -> list[str]:
    return [message["contents"][0]["text"] for message in answer.json()["messages"]]


def _ok(answer: Any) -> Any:
    assert answer.status_code in (200, 201), (answer.status_code, answer.content)
    return answer
