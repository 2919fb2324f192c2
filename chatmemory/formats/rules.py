"""What the APIs of models demand of a conversation, and how it is told what was changed to meet it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from chatmemory.core.messages import AiMessage

__all__ = ["Names", "Repair", "RepairReason", "Rules"]


class RepairReason(StrEnum):
    """Why a memory was changed before it was sent."""

    TOOL_CALL_ID = "tool_call_id"
    RESULT_WITHOUT_CALL = "result_without_call"
    RESULT_NOT_AFTER_CALL = "result_not_after_call"
    CALL_WITHOUT_RESULT = "call_without_result"
    NAME = "name"
    ARGUMENTS = "arguments"
    BLANK = "blank"
    ERROR_CONTENT = "error_content"
    FIRST_TURN = "first_turn"
    TRAILING_SPACE = "trailing_space"
    REASONING = "reasoning"


@dataclass(frozen=True)
class Repair:
    """One thing that was changed."""

    position: int
    """Which of the messages given it concerns, from 0. For the first turn, where that was put."""

    reason: RepairReason

    what: str
    """What was done, as a sentence to read."""


@dataclass(frozen=True)
class Names:
    """The texts that an API takes as a name or an ID."""

    forbidden: str | None
    """A regular expression of the characters that it refuses; None if it takes all."""

    max_length: int

    def allowed(self, name: str) -> str:
        """``name`` with ``_`` for what is refused."""
        return (name if self.forbidden is None else re.sub(self.forbidden, "_", name))[: self.max_length]


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What one API demands."""

    ids: Names
    unique_ids: bool
    """Whether no two calls of a conversation may have one ID, rather than no two of one message."""

    needs_ids: bool = True
    """Whether a call must have an ID; otherwise results answer calls without one in order."""

    tool_names: Names
    user_names: Names | None = None
    """None if names of users are not sent."""

    object_arguments: bool = False
    blank_texts: bool = True
    """Whether texts may be blank."""

    text_errors: bool = False
    """Whether a result that is marked as an error may have nothing but text."""

    user_first: bool = False
    """Whether the first message must be the user's."""

    says_nothing: Callable[[AiMessage], bool] = field(default=lambda message: False)
    """Whether nothing of an answer would be sent, which the API refuses."""
