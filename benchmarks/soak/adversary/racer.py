"""A process that works on one conversation at random, and writes down each request and its answer."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.soak.adversary.model import CALL

if TYPE_CHECKING:
    from django.test import Client

    from chatmemory.models import Conversation

__all__ = ["race"]

_ACTS = {"add": 40, "set": 6, "clear": 4, "bound": 8, "read": 22, "version": 8, "etag": 12}
"""The acts, and how often each comes among 100."""

_LIMITS = [3, 5, 8]


def race(conversation: Conversation, client: Client, name: str, count: int, seed: str, log: Path) -> None:
    """Do ``count`` operations.

    Args:
        conversation: an object of this process.
        client: is signed in as its owner.
        name: begins every text that this process says.
        count: how many.
        seed: of what it does.
        log: gets two lines for each.
    """
    racer = _Racer(conversation, client, name, random.Random(f"{seed} {name}"), log)
    for number in range(count):
        racer.act(number)


class _Racer:
    def __init__(self, conversation: Conversation, client: Client, name: str, chance: random.Random, log: Path) -> None:
        self._conversation = conversation
        self._client = client
        self._name = name
        self._chance = chance
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._key: tuple[str, list[Any]] | None = None  # that came last, with its messages

    def act(self, number: int) -> None:
        """Do one operation."""
        act = self._chance.choices(list(_ACTS), list(_ACTS.values()))[0]
        getattr(self, f"_{act}")(f"{self._name} {number}")

    def _add(self, text: str) -> None:
        said, key = self._batch(text), text if self._chance.random() < 0.5 else None
        if self._key is not None and self._chance.random() < 0.3:
            key, said = self._key
        if key is not None:
            self._key = key, said

        def work() -> Any:
            change = self._conversation.memory.add(*said, idempotency_key=key)
            return {"positions": [row.position for row in change.added], "version": change.memory.version}

        self._note("add", work, messages=[_pair(message) for message in said], key=key)

    def _set(self, text: str) -> None:
        from chatmemory import UserMessage

        messages = [UserMessage(text), *self._conversation.memory.messages()[-2:]]
        pairs = [_pair(message) for message in messages]
        self._note("set", lambda: _version_of(self._conversation.memory.set(messages)), messages=pairs)

    def _clear(self, text: str) -> None:
        self._note("clear", lambda: _version_of(self._conversation.memory.clear()))

    def _bound(self, text: str) -> None:
        limit = self._chance.choice(_LIMITS)
        self._note("bound", lambda: _version_of(self._conversation.memory.set_window(limit=limit)), limit=limit)

    def _read(self, text: str) -> None:
        self._note("read", lambda: {"messages": [_pair(one) for one in self._conversation.memory.messages()]})

    def _version(self, text: str) -> None:
        from chatmemory.models import Conversation

        rows = Conversation.objects.filter(pk=self._conversation.pk).values_list("version", "retained_count")
        self._note("version", lambda: dict(zip(("version", "retained"), rows.get(), strict=True)))

    def _etag(self, text: str) -> None:
        from chatmemory import messages_from_json

        def work() -> Any:
            answer = self._client.get(f"/api/conversations/{self._conversation.pk}/memory/")
            assert answer.status_code == 200, answer.content
            version = answer.json()["version"]
            assert str(version) in answer.headers["ETag"], "the ETag is of another version than the answer"
            messages = messages_from_json(json.dumps(answer.json()["messages"]))
            return {"version": version, "messages": [_pair(message) for message in messages]}

        self._note("etag", work)

    def _batch(self, text: str) -> list[Any]:
        from chatmemory import AiMessage, SystemMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage

        kind = self._chance.choice(["one", "one", "two", "call", "system"])
        if kind == "call":
            call = AiMessage(f"{text} call", [ToolExecutionRequest(text, "tool", "{}")])
            return [call, ToolExecutionResultMessage(text, "tool", f"{text} result")]
        if kind == "system":
            return [SystemMessage(text)]
        return [UserMessage(text), AiMessage(f"{text} answer")][: 1 if kind == "one" else 2]

    def _note(self, act: str, work: Callable[[], Any], **given: Any) -> None:
        self._write({"act": act, "given": given, "invoked": time.monotonic()})
        result = work()
        self._write({"returned": time.monotonic(), "result": result})

    def _write(self, line: dict[str, Any]) -> None:
        os.write(self._log, (json.dumps(line) + "\n").encode())  # in one piece, whoever is killed


def _version_of(change: Any) -> dict[str, Any]:
    return {"version": change.memory.version}


def _pair(message: Any) -> list[str]:
    if getattr(message, "tool_execution_requests", None):
        return [CALL, message.text]
    text = "".join(content.text for content in message.contents) if hasattr(message, "contents") else message.text
    return [str(message.type), text]
