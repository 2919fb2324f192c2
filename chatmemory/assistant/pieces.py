"""The pieces in which a model gives its answer, beside plain text."""

from __future__ import annotations

from dataclasses import dataclass

from chatmemory.assistant.usage import Usage
from chatmemory.core.messages import AiMessage

__all__ = ["Answered", "Thinking", "as_answered"]


@dataclass(frozen=True)
class Thinking:
    """A piece of the model's thinking, as it comes."""

    text: str


@dataclass(frozen=True)
class Answered:
    """A whole answer of a model, with the tokens that the call used."""

    message: AiMessage

    usage: Usage | None = None
    """None if the model does not say what it used."""


def as_answered(answer: AiMessage | Answered) -> Answered:
    """Return ``answer`` with its usage, which is unknown if the model gave none."""
    return answer if isinstance(answer, Answered) else Answered(answer)
