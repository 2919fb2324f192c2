"""An act of the package, and the rows that it finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchmarks.soak.adversary.model import State
from benchmarks.soak.adversary.stored import remove_all

if TYPE_CHECKING:
    from django.test import Client

    from chatmemory.models import Conversation

__all__ = ["BYSTANDER", "LIMIT", "TALK", "Act", "Scene", "new_scene", "signed_in"]

TALK = "talk"
"""The memory ID of the conversation that acts are about."""

BYSTANDER = "bystander"
"""The memory ID of another user's conversation, which no act may touch."""

LIMIT = 5
"""The messages that the window retains."""


@dataclass(kw_only=True)
class Scene:
    """The rows before an act: a conversation with a full window and an idempotency key, and one of another user."""

    user: Any
    conversation: Conversation
    bystander: Conversation
    more: dict[str, Any] = field(default_factory=dict)
    """What ``Act.prepare`` adds."""


@dataclass(frozen=True, kw_only=True)
class Act:
    """Something that a program asks of the package."""

    name: str

    do: Callable[[Scene], Any]
    """Does it, and returns an answer without IDs and times, so that answers can be compared."""

    prepare: Callable[[Scene], None] = lambda scene: None
    """Adds what only this act needs to the scene."""

    effect: Callable[[State], State | None] | None = None
    """The documented effect on the conversation; None for an act that has none on a memory."""

    about: str = TALK
    """The memory ID that ``effect`` is about."""

    steps: int = 1
    """The number of transactions whose effects others may see: 0 for a read."""

    repeatable: bool = False
    """Whether a repetition changes nothing."""

    same_answer: bool = False
    """Whether a repetition gives the same answer."""

    ends_alike: bool = True
    """Whether a repetition after a disturbance ends in the same state as an undisturbed act."""

    forgets: bool = False
    """Whether it changes past memories."""

    erases: str = ""
    """A word that is in no column of any table after the act."""

    settings: dict[str, Any] = field(default_factory=dict)
    """Keys of the setting ``CHATMEMORY`` during the act, beside the project's."""


def new_scene() -> Scene:
    """Remove all rows, and create those that every act begins with."""
    from django.contrib.auth import get_user_model

    from chatmemory import AiMessage, SystemMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
    from chatmemory.models import Conversation

    remove_all()
    users = get_user_model().objects
    user, _ = users.get_or_create(username="ann")
    other, _ = users.get_or_create(username="bob")
    bystander = Conversation.objects.create(owner=other, memory_id=BYSTANDER, window="messages", limit=2)
    bystander.memory.add(UserMessage("x0"), UserMessage("x1"), UserMessage("x2"), idempotency_key="x")
    talk = Conversation.objects.create(owner=user, memory_id=TALK, title="A talk", window="messages", limit=LIMIT)
    talk.memory.add(SystemMessage("s0"), UserMessage("u0"), idempotency_key="first")
    calls = [ToolExecutionRequest("1", "tool", "{}"), ToolExecutionRequest("2", "tool", "{}")]
    results = [ToolExecutionResultMessage("1", "tool", "r0"), ToolExecutionResultMessage("2", "tool", "r1")]
    talk.memory.add(AiMessage("c0", calls), *results, AiMessage("a0"))  # the first question leaves
    return Scene(user=user, conversation=talk, bystander=bystander)


def signed_in(user: Any) -> Client:
    """Return a client that is signed in as a user."""
    from django.test import Client

    client = Client(raise_request_exception=False)
    client.force_login(user)
    return client
