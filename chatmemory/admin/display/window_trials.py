"""The window of a conversation beside others that are tried on it, in figures, and what one of them would evict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from django.utils.translation import gettext, ngettext

from chatmemory.admin.display.gauge import Gauge, grouped
from chatmemory.admin.display.memory_map import MemoryMap
from chatmemory.admin.display.strip import Strip
from chatmemory.admin.display.timeline_entries import TimelineEntry, memory_entries
from chatmemory.admin.display.window_words import present_settings, window_words
from chatmemory.core.messages import ChatMessageType
from chatmemory.core.window import WindowKind
from chatmemory.database.change import WindowTrial
from chatmemory.database.stored_windows import window_of
from chatmemory.models import Conversation, Message
from chatmemory.replaying import MOST_AT_ONCE, REPLAYED, Replay

__all__ = ["ComparedWindow", "Evicted", "Outcome", "replayed"]

_MOST_SHOWN = 200


@dataclass(frozen=True, kw_only=True)
class ComparedWindow:
    """One window in figures, so that it can be compared with others."""

    name: str
    """The name that the page gives it."""

    words: str
    """Its settings."""

    gauge: Gauge

    messages: int
    """Messages that are in the memory with it."""

    tokens: int
    """Their tokens."""

    evicted: int | None
    """Messages that it would evict now; None for the present window, which is not tried."""

    cache: Replay | None
    """The requests of the whole conversation with it; None if that was not replayed."""

    address: str = ""
    """The query of the page that shows which messages it would evict."""

    is_shown: bool = False
    """Whether the page shows which messages it would evict."""

    @classmethod
    def present(cls, conversation: Conversation, cache: Replay | None) -> Self:
        """Return the window that a conversation has; ``cache`` is what was recorded."""
        return cls(
            name=gettext("Now"),
            words=window_words(present_settings(conversation)),
            gauge=Gauge.of(conversation),
            messages=conversation.retained_count,
            tokens=conversation.retained_tokens,
            evicted=None,
            cache=cache,
        )

    @classmethod
    def tried(
        cls, name: str, settings: dict[str, Any], conversation: Conversation, trial: WindowTrial, **more: Any
    ) -> Self:
        """Return a window that was tried on a conversation."""
        window = replace(window_of(conversation), kind=WindowKind(trial.window), limit=trial.limit)
        return cls(
            name=name,
            words=window_words(settings),
            gauge=Gauge.with_messages(window, len(trial.retained), trial.tokens),
            messages=len(trial.retained),
            tokens=trial.tokens,
            evicted=len(trial.evicted),
            **more,
        )

    @property
    def hit_share(self) -> str:
        """The percentage of the input that could have come from the provider's prompt cache."""
        return _percent(self.cache.hit_share if self.cache else 0)

    @property
    def breaks(self) -> str:
        """The requests that began differently from the one before, of all requests."""
        if self.cache is None:
            return ""
        found = {"breaks": grouped(self.cache.prefix_breaks), "requests": grouped(self.cache.requests)}
        return gettext("%(breaks)s of %(requests)s") % found


@dataclass(frozen=True, kw_only=True)
class Evicted:
    """The messages that would be evicted for one reason."""

    reason: str
    messages: int
    tokens: int

    @property
    def amount(self) -> str:
        """Their number and their tokens in words."""
        messages = ngettext("%(count)s message", "%(count)s messages", self.messages)
        tokens = ngettext("%(count)s token", "%(count)s tokens", self.tokens)
        return gettext("%(messages)s, %(tokens)s") % {
            "messages": messages % {"count": grouped(self.messages)},
            "tokens": tokens % {"count": grouped(self.tokens)},
        }


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The messages that a window would evict, and those that would stay, in numbers."""

    staying: int
    leaving: int

    reasons: list[Evicted]
    """The messages that would be evicted, by reason."""

    strip: Strip

    entries: list[TimelineEntry]
    """The messages that would be evicted, what would take their place, and the first that would stay after them."""

    left_out: int
    """Number of messages that would be evicted and are not among the entries."""

    @classmethod
    def of(cls, trial: WindowTrial, *, with_text: bool) -> Self:
        """Return what a trial found."""
        leaving = [row for row, _reason in trial.evicted]
        for row, reason in trial.evicted:
            row.eviction_reason = reason.value
        memory = MemoryMap.of((row.position, row.type, row.token_count) for row in trial.retained)
        edge = _edge(trial.retained)
        listed = sorted(leaving, key=_place)[:_MOST_SHOWN]
        left_out = len(leaving) - len(listed)
        found = {row.position for row in listed}
        beside = [row for row in trial.added if row.covers_from in found]
        if leaving and not left_out:
            first = [row for row in trial.retained if row.position == edge and row not in beside]
            beside += [row for row in first if _place(listed[0]) < _place(row)]
        return cls(
            staying=len(trial.retained),
            leaving=len(leaving),
            reasons=_by_reason(leaving),
            strip=Strip.of(
                sorted([*trial.retained, *leaving], key=_place), set(memory.totals), edge, with_text=with_text
            ),
            entries=memory_entries(sorted([*listed, *beside], key=_place), memory, with_text=with_text, edge=edge),
            left_out=left_out,
        )


def replayed(conversation: Conversation, windows: Sequence[dict[str, Any]]) -> list[Replay | None]:
    """Return what was recorded, and a replay with each window; only None if the conversation is too long for a page.

    Raises:
        Conversation.DoesNotExist: the conversation has been erased.
    """
    if conversation.next_position > MOST_AT_ONCE:
        return [None] * (len(windows) + 1)
    variants: list[Any] = [{name: settings[name] for name in REPLAYED} for settings in windows]
    return [*conversation.memory.replays([None, *variants])]


def _by_reason(rows: list[Message]) -> list[Evicted]:
    found: dict[str, list[Message]] = {}
    for row in rows:
        found.setdefault(row.eviction_reason, []).append(row)
    return [
        Evicted(
            reason=evicted[0].get_eviction_reason_display(),
            messages=len(evicted),
            tokens=sum(row.token_count for row in evicted),
        )
        for evicted in found.values()
    ]


def _edge(retained: list[Message]) -> int | None:
    """Return the position of the first message that stays, in memory order, not counting a system message in front."""
    leads = len(retained) > 1 and retained[0].type == ChatMessageType.SYSTEM.value
    return retained[leads].position if retained else None


def _place(row: Message) -> tuple[int, int]:
    """Return what sorts rows as a memory has them, a cleared tool result before its placeholder."""
    return row.memory_order, row.position


def _percent(share: float) -> str:
    return gettext("%(percent)s%%") % {"percent": grouped(round(100 * share))}
