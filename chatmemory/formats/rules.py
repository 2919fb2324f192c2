"""The demands of models' APIs on a conversation, and the reports of what was changed to meet them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from chatmemory.core.messages import AiMessage


class RepairReason(StrEnum):
    """The reason why a memory was changed before it was sent, or a message before it was stored."""

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
    STALE_THINKING = "stale_thinking"
    SUMMARIZED = "summarized"
    CHARACTER = "character"


@dataclass(frozen=True)
class Repair:
    """One change that an API or the database demands."""

    position: int
    """The index of the changed message among those that are written, or stored together; of an added one, its place."""

    reason: RepairReason

    what: str
    """The change in a sentence for people."""


def tell(repairs: Iterable[Repair], on_repair: Callable[[Repair], object] | None) -> None:
    """Call ``on_repair`` with each repair, in the order of the messages."""
    if on_repair is not None:
        for repair in sorted(repairs, key=lambda repair: repair.position):
            on_repair(repair)


@dataclass(frozen=True)
class Names:
    """The form of names or IDs that an API takes."""

    forbidden: str | None
    """A regular expression of the refused characters; None if all are taken."""

    max_length: int

    def allowed(self, name: str) -> str:
        """Return ``name`` with ``_`` for each refused character, cut to ``max_length``."""
        cut = name[: self.max_length]
        return cut if self.forbidden is None else re.sub(self.forbidden, "_", cut)


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The demands of one API."""

    ids: Names
    unique_ids: bool
    """Whether IDs of calls must be unique in the conversation, rather than in one message."""

    needs_ids: bool = True
    """Whether a call must have an ID. Otherwise results without one answer calls without one, in order."""

    tool_names: Names
    user_names: Names | None = None
    """The form of users' names; None if they are not sent."""

    object_arguments: bool = False
    blank_texts: bool = True
    """Whether texts may be blank."""

    text_errors: bool = False
    """Whether a result that is marked as an error may have nothing but text."""

    user_first: bool = False
    """Whether the first message must be the user's."""

    must_be_first: Callable[[AiMessage], bool] = field(default=lambda message: False)
    """Returns whether an answer stands for all that was said before it, so that the API refuses to get both."""

    says_nothing: Callable[[AiMessage], bool] = field(default=lambda message: False)
    """Returns whether nothing of an answer would be sent, which the API refuses."""
