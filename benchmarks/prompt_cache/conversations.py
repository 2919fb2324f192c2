"""The conversations that are simulated: the same in every run."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from benchmarks.texts import text_of
from chatmemory import (
    AiMessage,
    ChatMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)

__all__ = ["TOOL", "Conversation", "Kind", "Sizes", "Step", "Turn"]

TOOL = "look_up"
"""The name of the only tool."""


class Kind(StrEnum):
    """The kind of a conversation."""

    CHAT = "chat"
    """The user says something, the AI answers."""

    TOOLS = "tools"
    """The AI calls a tool some times before it answers."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes of texts, in tokens."""

    system: int = 500
    """The system message."""

    user: float = 70
    """The mean of user messages; their sizes have a log-normal distribution, as those of what people write."""

    answer: float = 215
    """The mean of answers, whose sizes have a log-normal distribution too."""

    results: tuple[int, int] = (50, 800)
    """The least and the most of a tool result; small results are as frequent as large ones by their logarithm."""

    calls: tuple[int, int] = (1, 4)
    """The least and the most calls of a turn, all equally frequent."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """A call of the tool, and its result."""

    call: AiMessage
    result: ToolExecutionResultMessage


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A user message and everything up to the answer."""

    user: UserMessage
    steps: tuple[Step, ...]
    answer: AiMessage

    def messages(self) -> Iterator[ChatMessage]:
        """Yield all messages, in order."""
        yield self.user
        for step in self.steps:
            yield step.call
            yield step.result
        yield self.answer


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """A system message and turns."""

    system: SystemMessage
    turns: tuple[Turn, ...]

    @classmethod
    def of(cls, kind: Kind, turns: int, *, sizes: Sizes, seed: int = 1) -> Conversation:
        """Return a conversation of random sizes; the same arguments always give the same conversation."""
        source = random.Random(seed)
        return cls(
            system=SystemMessage(f"You help the customers of a shop. Rules of the shop: {text_of(sizes.system, 0)}"),
            turns=tuple(_turn(number, kind, sizes, source) for number in range(1, turns + 1)),
        )


def _turn(number: int, kind: Kind, sizes: Sizes, source: random.Random) -> Turn:
    calls = source.randint(*sizes.calls) if kind is Kind.TOOLS else 0
    return Turn(
        user=UserMessage(f"Question {text_of(_log_normal(source, sizes.user, 0.9), number)}"),
        steps=tuple(_step(f"call_{number}_{call}", sizes, source) for call in range(calls)),
        answer=AiMessage(f"Answer {text_of(_log_normal(source, sizes.answer, 0.7), number)}"),
    )


def _log_normal(source: random.Random, mean: float, spread: float) -> int:
    return max(5, round(source.lognormvariate(math.log(mean) - spread**2 / 2, spread)))


def _step(id: str, sizes: Sizes, source: random.Random) -> Step:
    least, most = sizes.results
    size = round(math.exp(source.uniform(math.log(least), math.log(most))))
    number = source.randrange(10**6)
    request = ToolExecutionRequest(id, TOOL, json.dumps({"query": f"order {number}"}))
    return Step(
        call=AiMessage(tool_execution_requests=[request]),
        result=ToolExecutionResultMessage(id, TOOL, f"Found for {id}: {text_of(size, number)}"),
    )
