"""Past messages as entries of a memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from chatmemory.core.entries import Entry
from chatmemory.core.messages import ChatMessageType, CustomMessage, ToolExecutionResultMessage
from chatmemory.core.window import Window, WindowKind
from chatmemory.database.operations.replay.past import PastMessage
from chatmemory.models import Origin

__all__ = ["PastEntry", "entry_of"]

_UNREAD = CustomMessage({})


@dataclass(eq=False)
class PastEntry(Entry):
    """A past message in a memory. Its ``message`` was not read, and stands for any."""

    position: int = field(kw_only=True)

    kind: ChatMessageType = field(kw_only=True)

    tokens: int = field(kw_only=True)

    memory_order: int = field(kw_only=True)

    evicted_in: int | None = field(kw_only=True)
    """The version in which the record evicted it; None if it never did."""

    calls: bool = field(kw_only=True)

    summarises: bool = field(default=False, kw_only=True)
    """Whether a model's API put a summary into it."""

    is_stray: bool = field(default=False, kw_only=True)
    """Whether it is a tool result that did not follow its call."""

    @property
    def type(self) -> ChatMessageType:
        return self.kind

    @property
    def has_calls(self) -> bool:
        return self.calls

    @property
    def holds_summary(self) -> bool:
        return self.summarises

    def says_the_same(self, other: Entry) -> bool:
        return False  # a system message that was there already got no row

    def placeholder(self, text: str, window: Window) -> Self:
        tokens = window.cost(ToolExecutionResultMessage(None, None, text))
        return type(self)(
            _UNREAD,
            tokens,
            is_placeholder=True,
            replaces=self,
            position=self.position,
            kind=self.kind,
            tokens=tokens,
            memory_order=self.memory_order,
            evicted_in=self.evicted_in,
            calls=False,
            is_stray=self.is_stray,
        )


def entry_of(past: PastMessage, window: Window) -> PastEntry:
    """Return a past message as an entry of a memory that ``window`` bounds."""
    return PastEntry(
        _UNREAD,
        past.token_count if window.kind is WindowKind.TOKENS else 1,
        is_placeholder=past.origin == Origin.CLEARED,
        is_summary=past.origin == Origin.SUMMARY,
        position=past.position,
        kind=ChatMessageType(past.type),
        tokens=past.token_count,
        memory_order=past.memory_order,
        evicted_in=past.evicted_in,
        calls=past.has_calls,
        summarises=past.holds_summary,
    )
