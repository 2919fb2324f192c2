"""The settings of a window in words, its figures beside those of others, and what another would evict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from django.utils.translation import gettext, ngettext

from chatmemory.admin.display.memory_map import Gauge, MemoryMap, count_messages, count_tokens, grouped, percentage
from chatmemory.admin.display.timeline import TimelineEntry, memory_entries
from chatmemory.capabilities import first
from chatmemory.conf import default_limit
from chatmemory.core.exceptions import PinnedTooMuchError
from chatmemory.core.messages import ChatMessageType
from chatmemory.core.window import PRESETS, RULES, SETTINGS, WindowKind
from chatmemory.database.change import WindowTrial
from chatmemory.database.stored_windows import window_of
from chatmemory.models import MAX_LIMIT, Conversation, Message
from chatmemory.replaying import MOST_AT_ONCE, REPLAYED, Replay

BOUND = ("window", "limit")
"""The names of the settings that say how much fits."""

SHOWN = tuple(name for name in SETTINGS if name != "model")
"""The names of the settings that staff may change."""

WAY = tuple(name for name in SHOWN if name in RULES and name not in BOUND)
"""The names of the settings that say what a window evicts."""


def window_words(settings: dict[str, Any]) -> str:
    """Return the limit, and the other settings of ``SHOWN`` that differ from the defaults, in one line."""
    return gettext(", ").join([bound_words(settings["window"], settings["limit"]), *way_words(settings)])


def bound_words(window: str, limit: int) -> str:
    """Return the limit and its unit."""
    if window == WindowKind.TOKENS:
        words = ngettext("at most %(limit)s token", "at most %(limit)s tokens", limit)
    else:
        words = ngettext("at most %(limit)s message", "at most %(limit)s messages", limit)
    return words % {"limit": grouped(limit)}


def way_words(settings: dict[str, Any]) -> list[str]:
    """Return the settings, except the limit, that differ from the defaults; empty if they are LangChain4j's."""
    return [
        setting_words(name, settings[name])
        for name in SHOWN
        if name not in BOUND and settings[name] != SETTINGS[name].default
    ]


def setting_words(name: str, value: Any) -> str:
    """Return what a setting makes a window do."""
    setting = SETTINGS[name]
    words = setting.words_for.get(value, setting.words)
    shown = _value_words(value)
    return gettext(words) % {"value": shown} if words else f"{gettext(setting.label)}: {shown}"


def _value_words(value: Any) -> str:
    if value is None:
        return gettext("none")
    if isinstance(value, bool):
        return gettext("yes") if value else gettext("no")
    return grouped(value) if isinstance(value, int) else str(value)


def pins_problem(error: PinnedTooMuchError) -> str:
    """Return the reason why a message cannot be pinned, or a window be so small, and what to do about it."""
    amount = Gauge(used=error.cost, limit=error.limit, counts_tokens=error.unit == WindowKind.TOKENS).amount
    said = gettext(
        "Pinned messages, with the calls, results and questions that stay with them, would take %(amount)s, more than "
        "half. Unpin some, or choose a limit of at least %(least)s."
    )
    return said % {"amount": amount, "least": grouped(error.cost * 2)}


def present_settings(conversation: Conversation) -> dict[str, Any]:
    """Return the window that a conversation has: every setting that staff may change."""
    return {name: getattr(conversation, name) for name in SHOWN}


def presets(conversation: Conversation) -> list[tuple[str, dict[str, Any]]]:
    """Return windows that differ from the one of a conversation and from each other, those that tell most first.

    Each has a name, and every setting that staff may change.
    """
    present = present_settings(conversation)
    limit = conversation.limit
    changes: list[tuple[str, dict[str, Any]]] = [
        (gettext("Half"), {"limit": max(1, limit // 2)}),
        (gettext("Double"), {"limit": min(MAX_LIMIT, limit * 2)}),
        *((gettext(preset.label), _heeded(preset.settings, conversation.window)) for preset in PRESETS.values()),
        *(
            (count(default_limit(kind.value)), {"window": kind.value, "limit": default_limit(kind.value)})
            for kind, count in ((WindowKind.MESSAGES, count_messages), (WindowKind.TOKENS, count_tokens))
        ),
    ]
    found: list[tuple[str, dict[str, Any]]] = []
    for name, changed in changes:
        settings = present | changed
        if settings not in (present, *(known for _name, known in found)):
            found.append((name, settings))
    return found


def _heeded(settings: Mapping[str, Any], window: str) -> dict[str, Any]:
    """Return the settings of a preset that a window heeds: in one of messages a placeholder is a message, too."""
    heeds_all = window == WindowKind.TOKENS
    return {name: value for name, value in settings.items() if heeds_all or name != "keep_tool_results"}


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

    read_share: str = ""
    """The percentage of the input that really came from the prompt cache; empty if it is not known."""

    address: str = ""
    """The query of the page that shows which messages it would evict."""

    is_shown: bool = False
    """Whether the page shows which messages it would evict."""

    @classmethod
    def present(cls, conversation: Conversation, cache: Replay | None) -> Self:
        """Return the window that a conversation has; ``cache`` is what was recorded."""
        share = first("cache_read_share", conversation) if cache else None
        return cls(
            name=gettext("Now"),
            words=window_words(present_settings(conversation)),
            gauge=Gauge.of(conversation),
            messages=conversation.retained_count,
            tokens=conversation.retained_tokens,
            evicted=None,
            cache=cache,
            read_share="" if share is None else percentage(share),
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
        return percentage(self.cache.hit_share if self.cache else 0)

    @property
    def breaks(self) -> str:
        """The requests that began differently from the one before, of all requests."""
        if self.cache is None:
            return ""
        found = {"breaks": grouped(self.cache.prefix_breaks), "requests": grouped(self.cache.requests)}
        return gettext("%(breaks)s of %(requests)s") % found


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The messages that a window would evict, and those that would stay, in numbers."""

    staying: int
    leaving: int

    reasons: list[tuple[str, str]]
    """The reasons for which messages would be evicted, each with their number and their tokens in words."""

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
            entries=memory_entries(sorted([*listed, *beside], key=_place), memory, with_text=with_text, edge=edge),
            left_out=left_out,
        )


def replayed(conversation: Conversation, windows: Sequence[dict[str, Any]]) -> list[Replay | None]:
    """Return the recorded figures, and a replay with each window; only None if the conversation is too long for a page.

    Raises:
        Conversation.DoesNotExist: the conversation has been erased.
    """
    if conversation.next_position > MOST_AT_ONCE:
        return [None] * (len(windows) + 1)
    variants: list[Any] = [{name: settings[name] for name in REPLAYED} for settings in windows]
    return [*conversation.memory.replays([None, *variants])]


def _by_reason(rows: list[Message]) -> list[tuple[str, str]]:
    found: dict[str, list[Message]] = {}
    for row in rows:
        found.setdefault(row.get_eviction_reason_display(), []).append(row)
    amount = gettext("%(messages)s, %(tokens)s")
    return [
        (
            reason,
            amount
            % {
                "messages": count_messages(len(evicted)),
                "tokens": count_tokens(sum(row.token_count for row in evicted)),
            },
        )
        for reason, evicted in found.items()
    ]


def _edge(retained: list[Message]) -> int | None:
    """Return the position of the first message that stays, in memory order, not counting a system message in front."""
    leads = len(retained) > 1 and retained[0].type == ChatMessageType.SYSTEM.value
    return retained[leads].position if retained else None


def _place(row: Message) -> tuple[int, int]:
    """Return what sorts rows as a memory has them, a cleared tool result before its placeholder."""
    return row.memory_order, row.position
