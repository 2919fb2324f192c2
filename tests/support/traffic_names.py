"""Processes that find conversations by their names: roles of ``tests.support.traffic`` beside its own."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["make_by_keys", "say_by_names"]

_NAMES = 300
"""How many names the processes of one conversation share: few, so that several make the same at once."""

_PATIENCE = 120
"""The seconds within which another node must show what was acknowledged: it settles what a crash has left."""


def say_by_names(
    conversation: Any, name: str, count: int, chance: random.Random, log: Callable[..., None], stop: Path
) -> None:
    """Add one message to the conversation of a name, which is made if it is missing; then read it on another node."""
    from django.db import close_old_connections

    from chatmemory import UserMessage
    from chatmemory.database.operations.add import add
    from chatmemory.models import Conversation
    from chatmemory.stores import DjangoChatMemoryStore
    from tests.support.traffic import until_it_works

    store = DjangoChatMemoryStore()
    for number in range(count):
        if stop.exists():
            break
        memory_id = f"{conversation.pk} {chance.randrange(_NAMES)}"
        text = f"{name} {number}"
        log("asked by name", memory_id=memory_id, text=text)

        def say(memory_id: str = memory_id, text: str = text) -> Any:
            return add(store.target(memory_id), [UserMessage(text)], idempotency_key=text)

        change = until_it_works(say, log)
        log("done by name", memory_id=memory_id, text=text, conversation=str(change.conversation.pk))

        def elsewhere(memory_id: str = memory_id, text: str = text) -> bool:
            close_old_connections()  # as Django does before each request
            found = Conversation.objects.using("elsewhere").named(None, memory_id)
            return any(one.messages.using("elsewhere").filter(text=text).exists() for one in found)

        begun = time.monotonic()
        at_once = seen = until_it_works(elsewhere, log)
        while not seen:
            assert time.monotonic() < begun + _PATIENCE, f"another node does not show {text!r}"
            time.sleep(0.05)
            seen = until_it_works(elsewhere, log)
        log("seen elsewhere", at_once=at_once, after=time.monotonic() - begun)


def make_by_keys(
    conversation: Any, name: str, count: int, chance: random.Random, log: Callable[..., None], stop: Path
) -> None:
    """Make conversations over REST, each with a key, again until it is acknowledged, and rename each once."""
    from django.db import close_old_connections
    from rest_framework.test import APIClient

    from chatmemory.models import Conversation
    from tests.support.traffic import pausing, until_it_works

    client = APIClient()
    client.force_authenticate(conversation.owner)
    for number in range(count):
        if stop.exists():
            break
        key = f"{name} {number}"
        log("asked by key", key=key)
        for _ in pausing():
            close_old_connections()  # Django's test client leaves that out
            answer = client.post("/api/conversations/", {"title": key}, format="json", headers={"Idempotency-Key": key})
            if answer.status_code == 201:
                break
            assert answer.status_code == 503, (answer.status_code, answer.content[:1_000])
            log("failed", kind="503", error=answer.json()["detail"])
        made = answer.json()["id"]

        def rename(made: str = made, key: str = key) -> None:
            close_old_connections()
            found = Conversation.objects.get(pk=made)
            found.memory_id = key
            found.save()

        until_it_works(rename, log)
        log("done by key", key=key, conversation=made)
