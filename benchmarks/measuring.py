"""The turns of one cell: an engine and a window, and all that is compared side by side."""

from __future__ import annotations

import asyncio
import gc
import random
import statistics
import traceback
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from benchmarks.contenders.base import AsyncContender, Contender
from benchmarks.places import Place
from benchmarks.texts import PER_MESSAGE, ai_text, count_tokens, user_text
from benchmarks.windows import Window

__all__ = ["TOO_SLOW", "Entry", "measure_cell", "settle"]

TOO_SLOW = 0.5
"""Seconds of a turn above which a contender is not measured with longer histories."""

_FAR_TOO_SLOW = 2.0  # seconds: of what takes so long, the turns of the warm-up are enough


@dataclass(frozen=True)
class Entry:
    """A contender with a history."""

    name: str
    """The name, unique in its cell."""

    kind: type[Contender]

    history: int
    """Messages before the first turn."""


def measure_cell(
    entries: list[Entry],
    place: Place,
    window: Window,
    *,
    turns: int,
    warm_up: int,
    loop: asyncio.AbstractEventLoop,
) -> dict[str, dict[str, Any]]:
    """Return, by name, the milliseconds that each contender took for a turn, or the error that stopped it.

    Every round has one turn of each, so that whatever slows the machine slows all alike; in an order of its own,
    because a contender that follows a slow one finds the processor's caches cold. The garbage collector stays on.
    """
    contenders: dict[str, Contender] = {}
    histories = {entry.name: entry.history for entry in entries}
    results: dict[str, dict[str, Any]] = {}

    def drop(name: str) -> None:
        results[name] = {"error": traceback.format_exc(limit=-3).strip()}
        contenders.pop(name, None)

    for entry in entries:
        try:
            contenders[entry.name] = entry.kind(place, window)
            _done(contenders[entry.name].fill(entry.history), loop)  # type: ignore[attr-defined]
        except Exception:
            drop(entry.name)
    settle(place)
    gc.collect()
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    order = random.Random(turns)
    for number in range(warm_up + turns):
        names = list(contenders)
        order.shuffle(names)
        for name in names:
            contender, history = contenders[name], histories[name]
            texts = user_text(history // 2 + number), ai_text(history // 2 + number)
            try:
                contender.prepare(*texts)
                elapsed, answer = _timed_turn(contender, *texts, loop)
                if number in (0, warm_up + turns - 1):
                    _check_window(window, history + 2 * (number + 1), contender.texts(answer), texts)
            except Exception:
                drop(name)
                continue
            seconds[name].append(elapsed)
            if len(seconds[name]) == warm_up and min(seconds[name]) > _FAR_TOO_SLOW:
                _close(contenders.pop(name), loop)
    for contender in contenders.values():
        _close(contender, loop)
    figures = {name: _summary(taken[warm_up:] or taken) for name, taken in seconds.items() if name not in results}
    return results | figures


def _close(contender: Contender, loop: asyncio.AbstractEventLoop) -> None:
    _done(contender.close(), loop)  # type: ignore[attr-defined]


def _done(result: Any, loop: asyncio.AbstractEventLoop) -> Any:
    return loop.run_until_complete(result) if asyncio.iscoroutine(result) else result


def _timed_turn(contender: Contender, user: str, ai: str, loop: asyncio.AbstractEventLoop) -> tuple[float, Any]:
    if isinstance(contender, AsyncContender):
        return loop.run_until_complete(_timed_within_loop(contender, user, ai))
    turn = contender.turn  # type: ignore[attr-defined]
    start = perf_counter()
    answer = turn(user, ai)
    return perf_counter() - start, answer


async def _timed_within_loop(contender: AsyncContender, user: str, ai: str) -> tuple[float, Any]:
    start = perf_counter()
    answer = await contender.turn(user, ai)
    return perf_counter() - start, answer


def _check_window(window: Window, said: int, texts: list[str], last: tuple[str, str]) -> None:
    """Raise unless ``texts`` are a window on the end of the history.

    Raises:
        AssertionError: they are not.
    """
    assert texts[-2:] == list(last), f"the window ends with {texts[-2:]}, not with what was said last, {list(last)}"
    if window.kind == "messages":
        assert len(texts) == min(said, window.limit), f"{len(texts)} messages in a window of {window.limit}"
    else:
        tokens = sum(count_tokens(text) + PER_MESSAGE for text in texts)
        assert tokens <= window.limit, f"{tokens} tokens in a window of {window.limit}"


def settle(place: Place) -> None:
    """Write what filling left to be written, and gather statistics, as a database in use has done long ago."""
    if place.engine == "postgres":
        from django.db import connection

        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")
            cursor.execute("CHECKPOINT")


def _summary(seconds: list[float]) -> dict[str, Any]:
    milliseconds = [1000 * value for value in seconds]
    lower, median, upper = statistics.quantiles(milliseconds, n=4, method="inclusive")
    return {"median_ms": median, "lower_quartile_ms": lower, "upper_quartile_ms": upper, "turns": len(seconds)}
