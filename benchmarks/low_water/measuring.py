"""The times of turns and replays, with and without a low-water mark."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import fmean, median
from time import perf_counter
from typing import Any

from benchmarks.filling import new_conversation
from benchmarks.low_water.marks import MARKED, SETTINGS
from benchmarks.measuring import settle
from benchmarks.places import new_place
from benchmarks.texts import ai_text, user_text
from benchmarks.windows import WINDOWS, Window
from chatmemory import AiMessage, ChatMessage, UserMessage
from chatmemory.models import Conversation

__all__ = ["measure_replays", "measure_turns"]

_WINDOWS = [*WINDOWS.values(), Window("tokens", 16_000)]


@dataclass
class _Times:
    """The seconds that a conversation took."""

    turns: list[float] = field(default_factory=list)
    additions: list[float] = field(default_factory=list)
    evicting: list[float] = field(default_factory=list)
    """Additions that evicted something."""

    evicted: list[int] = field(default_factory=list)
    """Messages that each of those evicted."""


def measure_turns(engine: str, *, rounds: int, turns: int, warm_up: int, history: int) -> list[dict[str, Any]]:
    """Measure turns on one engine: two additions and a read. The conversations alternate, each time in another order.

    Args:
        engine: ``sqlite`` or ``postgres``.
        rounds: how often all is measured, each time in new conversations.
        turns: timed turns of each conversation.
        warm_up: turns before those.
        history: messages before those.

    Returns:
        for each window, round and mark: ``mean_turn_ms``, ``median_turn_ms``, ``median_addition_ms``, and of additions
        that evict ``evicting``, their number, ``mean_evicted``, messages that one evicts, ``median_evicting_ms`` and
        ``slowest_evicting_ms``.
    """
    rows: list[dict[str, Any]] = []
    for number in range(rounds):
        for window in _WINDOWS:
            with new_place(engine) as place:
                conversations = {name: _conversation(window, history, name) for name in SETTINGS}
                settle(place)
                times = _take_turns(conversations, turns=turns, warm_up=warm_up, first=history // 2, seed=number)
            rows += [
                {"engine": engine, "window": window.title, "round": number, "mark": name, **_figures(times[name])}
                for name in SETTINGS
            ]
    return rows


def measure_replays(engine: str, *, history: int, times: int) -> list[dict[str, Any]]:
    """Measure replays of one conversation, as it was and with each mark, on one engine.

    Args:
        engine: ``sqlite`` or ``postgres``.
        history: messages of the conversation, whose window has 16 000 tokens.
        times: how often each is replayed; the first time does not count.

    Returns:
        for each: ``replayed``, ``history``, ``median_ms`` and ``slowest_ms``.
    """
    rows: list[dict[str, Any]] = []
    with new_place(engine) as place:
        conversation = new_conversation(Window("tokens", 16_000), history)
        settle(place)
        for name, settings in {"as it was": {}, MARKED: SETTINGS[MARKED]}.items():
            taken: list[float] = []
            for _ in range(times):
                start = perf_counter()
                conversation.memory.replay(**settings)
                taken.append(1000 * (perf_counter() - start))
            rows.append(
                {
                    "engine": engine,
                    "replayed": name,
                    "history": history,
                    "median_ms": median(taken[1:]),
                    "slowest_ms": max(taken[1:]),
                }
            )
    return rows


def _conversation(window: Window, history: int, name: str) -> Conversation:
    conversation = new_conversation(window, history)
    if SETTINGS[name]:
        conversation.memory.set_window(**SETTINGS[name])
    return conversation


def _take_turns(
    conversations: dict[str, Conversation], *, turns: int, warm_up: int, first: int, seed: int
) -> dict[str, _Times]:
    times = {name: _Times() for name in conversations}
    order, names = random.Random(seed), list(conversations)
    for number in range(warm_up + turns):
        order.shuffle(names)
        for name in names:
            taken = times[name] if number >= warm_up else _Times()
            messages = UserMessage(user_text(first + number)), AiMessage(ai_text(first + number))
            memory = conversations[name].memory
            _timed_turn(memory.add, memory.messages, messages, taken)
    return times


def _timed_turn(
    add: Callable[[ChatMessage], Any], read: Callable[[], Any], messages: tuple[ChatMessage, ...], taken: _Times
) -> None:
    begin = start = perf_counter()
    for message in messages:
        change = add(message)
        end = perf_counter()
        taken.additions.append(end - start)
        if change.gone:
            taken.evicting.append(end - start)
            taken.evicted.append(len(change.gone))
        start = end
    read()
    taken.turns.append(perf_counter() - begin)


def _figures(times: _Times) -> dict[str, Any]:
    return {
        "mean_turn_ms": 1000 * fmean(times.turns),
        "median_turn_ms": 1000 * median(times.turns),
        "median_addition_ms": 1000 * median(times.additions),
        "evicting": len(times.evicting),
        "mean_evicted": fmean(times.evicted),
        "median_evicting_ms": 1000 * median(times.evicting),
        "slowest_evicting_ms": 1000 * max(times.evicting),
    }
