"""Erasing, purging, counting again, verifying, and the data of one user."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from benchmarks.soak.adversary.acts.act import Act, Scene
from chatmemory import UserMessage
from chatmemory.database import operations
from chatmemory.database.change import Target
from chatmemory.models import Conversation
from chatmemory.personal_data import erase_user, export_user
from chatmemory.recounting import recount
from chatmemory.retention import purge_conversations, purge_evicted, purge_keys
from chatmemory.verification import verify

__all__ = ["ACTS", "LATER", "theirs"]

LATER = datetime(2100, 1, 1, tzinfo=UTC)
"""A moment after everything."""

_STILL_ONE = "second"


def _second(scene: Scene) -> None:
    """Give the user a second conversation."""
    second = Conversation.objects.create(owner=scene.user, memory_id=_STILL_ONE, window="messages", limit=1)
    second.memory.add(UserMessage("y0"), UserMessage("y1"), idempotency_key="y")


def theirs(scene: Scene) -> Any:
    """Return the conversations of the scene's user."""
    return Conversation.objects.filter(owner=scene.user)


def _erase(scene: Scene) -> None:
    with suppress(Conversation.DoesNotExist):
        operations.erase(Target.of(scene.conversation))


def _evict(scene: Scene) -> None:
    scene.conversation.memory.clear()


def _evict_what_models_count_differently(scene: Scene) -> None:
    scene.conversation.memory.add(*(UserMessage("안녕하세요") for _ in range(9)))


def _break(scene: Scene) -> None:
    theirs(scene).update(retained_tokens=0, message_count=1)


ACTS = [
    Act(name="erase", do=_erase, effect=lambda state: None, repeatable=True, forgets=True),
    Act(
        name="purge conversations",
        prepare=_second,
        do=lambda scene: sum(step.conversations for step in purge_conversations(LATER, theirs(scene))) and None,
        steps=2,
        repeatable=True,
        forgets=True,
    ),
    Act(
        name="purge evicted messages",
        prepare=_evict,
        do=lambda scene: sum(step.messages for step in purge_evicted(LATER, theirs(scene), batch_size=4)) and None,
        steps=2,
        repeatable=True,
        forgets=True,
    ),
    Act(
        name="purge keys",
        prepare=_second,
        do=lambda scene: sum(step.keys for step in purge_keys(LATER, theirs(scene), batch_size=1)) and None,
        steps=2,
        repeatable=True,
    ),
    Act(
        name="recount",
        prepare=_evict_what_models_count_differently,
        do=lambda scene: [step.problem for step in recount(theirs(scene), model="gpt-4", batch_size=4)] and None,
        steps=4,
        repeatable=True,
    ),
    Act(name="verify", do=lambda scene: list(map(str, verify())), effect=lambda state: state, steps=0),
    Act(
        name="verify, and repair",
        prepare=_break,
        do=lambda scene: [finding.what for finding in verify(repair=True)] and None,
        repeatable=True,
    ),
    Act(
        name="erase a user",
        prepare=_second,
        do=lambda scene: erase_user(scene.user, how="erase") and None,
        steps=3,
        repeatable=True,
        forgets=True,
    ),
    Act(
        name="anonymise a user",
        prepare=_second,
        do=lambda scene: erase_user(scene.user, how="anonymise") and None,
        steps=3,
        repeatable=True,
        forgets=True,
    ),
    Act(
        name="export a user",
        prepare=_second,
        do=lambda scene: len(list(export_user(scene.user))),
        effect=lambda state: state,
        steps=0,
    ),
]
