"""The verbs of ``conversation.memory``."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from benchmarks.soak.adversary.acts.act import Act, Scene
from benchmarks.soak.adversary.model import CALL, RESULT, SYSTEM, Said
from chatmemory import (
    AiMessage,
    ChatMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)

__all__ = ["ACTS", "account", "texts"]

_QUESTION, _ANSWER = Said("USER", "q"), Said("AI", "a")
_CALL = AiMessage("c", [ToolExecutionRequest("9", "tool", "{}")])
_RESULT = ToolExecutionResultMessage("9", "tool", "r")


def texts(messages: list[ChatMessage]) -> list[str]:
    """Return what tells messages from others."""
    return [str(message) for message in messages]


def account(change: Any) -> Any:
    """Return what a change says that it did."""
    return (
        [(row.position, row.text) for row in change.added],
        [(row.position, row.text, str(row.eviction_reason)) for row in change.evicted],
        (change.memory.messages, change.memory.version),
    )


def _add(*messages: ChatMessage, key: str | None = None) -> Any:
    return lambda scene: account(scene.conversation.memory.add(*messages, idempotency_key=key))


def _add_again(scene: Scene) -> Any:
    return account(scene.conversation.memory.add(SystemMessage("s0"), UserMessage("u0"), idempotency_key="first"))


def _add_twice_in_a_transaction(scene: Scene) -> Any:
    with transaction.atomic():
        first = scene.conversation.memory.add(UserMessage("q"))
        second = scene.conversation.memory.add(AiMessage("a"))
    return account(first), account(second)


def _set(scene: Scene) -> Any:
    last = scene.conversation.memory.messages()[-1]
    return account(scene.conversation.memory.set([SystemMessage("s0"), UserMessage("a summary"), last]))


def _count_tokens(scene: Scene) -> None:
    scene.conversation.memory.set_window(window="tokens", limit=60)


def _fill(scene: Scene) -> None:
    """Let more leave at once than an addition without a lock reads."""
    scene.conversation.memory.set_window(limit=40)
    for number in range(4):
        scene.conversation.memory.add(*(UserMessage(f"m{number}{part}") for part in range(9)))


_WITHOUT_HISTORY = {"KEEP_HISTORY": False}

ACTS = [
    Act(name="add", do=_add(UserMessage("q")), effect=lambda state: state.add(_QUESTION)),
    Act(
        name="add with a key",
        do=_add(UserMessage("q"), key="k"),
        effect=lambda state: state.add(_QUESTION),
        repeatable=True,
        same_answer=True,
    ),
    Act(
        name="add with a key that came before",
        do=_add_again,
        effect=lambda state: state,
        repeatable=True,
        same_answer=True,
        steps=0,
    ),
    Act(
        name="add a batch with a key",
        do=_add(UserMessage("q"), _CALL, _RESULT, AiMessage("a"), key="k"),
        effect=lambda state: state.add(_QUESTION, Said(CALL, "c"), Said(RESULT, "r"), _ANSWER),
        repeatable=True,
        same_answer=True,
    ),
    Act(
        name="add another system message",
        do=_add(SystemMessage("s1")),
        effect=lambda state: state.add(Said(SYSTEM, "s1")),
        repeatable=True,
    ),
    Act(name="add to a window of tokens", prepare=_count_tokens, do=_add(UserMessage("q" * 40))),
    Act(
        name="add, and many leave",
        prepare=_fill,
        do=_add(*(UserMessage(f"n{number}") for number in range(12))),
        effect=lambda state: state.add(*(Said("USER", f"n{number}") for number in range(12))),
    ),
    Act(
        name="add twice in the caller's transaction",
        do=_add_twice_in_a_transaction,
        effect=lambda state: state.add(_QUESTION).add(_ANSWER),
    ),
    Act(name="add without a history", do=_add(UserMessage("q")), settings=_WITHOUT_HISTORY, forgets=True),
    Act(
        name="set",
        do=_set,
        effect=lambda state: state.set((Said(SYSTEM, "s0"), Said("USER", "a summary"), state.memory[-1])),
        repeatable=True,
    ),
    Act(name="set without a history", do=_set, settings=_WITHOUT_HISTORY, forgets=True, repeatable=True),
    Act(
        name="clear",
        do=lambda scene: account(scene.conversation.memory.clear()),
        effect=lambda state: state.clear(),
        repeatable=True,
    ),
    Act(
        name="clear without a history",
        do=lambda scene: account(scene.conversation.memory.clear()),
        settings=_WITHOUT_HISTORY,
        forgets=True,
        repeatable=True,
    ),
    Act(
        name="set a smaller window",
        do=lambda scene: account(scene.conversation.memory.set_window(limit=2)),
        effect=lambda state: state.bound(2),
        repeatable=True,
    ),
    Act(
        name="set a window of another model's tokens",
        do=lambda scene: account(scene.conversation.memory.set_window(window="tokens", limit=30, model="gpt-4")),
        repeatable=True,
    ),
    Act(
        name="try a window",
        do=lambda scene: texts(
            [row.message for row in scene.conversation.memory.try_window(limit=2, messages=[UserMessage("q")]).retained]
        ),
        effect=lambda state: state,
        steps=0,
    ),
    Act(
        name="replay",
        do=lambda scene: scene.conversation.memory.replay(limit=2).evictions,
        effect=lambda state: state,
        steps=0,
    ),
    Act(
        name="read the memory",
        do=lambda scene: texts(scene.conversation.memory.messages()),
        effect=lambda state: state,
        steps=0,
    ),
    Act(
        name="read a past memory",
        do=lambda scene: texts(scene.conversation.memory.at(1)),
        effect=lambda state: state,
        steps=0,
    ),
    Act(
        name="read the memory in a format",
        do=lambda scene: str(scene.conversation.memory.to_format("openai")),
        effect=lambda state: state,
        steps=0,
    ),
]
