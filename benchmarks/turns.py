"""All cells of one engine, in one process."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from benchmarks.contenders import OURS, load
from benchmarks.contenders.chatmemory_conversation import ChatMemoryConversation
from benchmarks.filling import check_filling
from benchmarks.measuring import TOO_SLOW, Entry, measure_cell
from benchmarks.places import new_place
from benchmarks.windows import WINDOWS

__all__ = ["measure_lengths", "measure_turns"]


def measure_turns(
    engine: str, *, windows: list[str], histories: list[int], turns: int, warm_up: int, only: list[str]
) -> dict[str, Any]:
    """Measure turns on one engine.

    Returns:
        ``cells``: a list with ``engine``, ``window``, ``history``, ``contender``, and its figures, ``error`` or
        ``not_measured``; ``missing``: by name what could not be imported.
    """
    classes, missing = load(only, engine)
    cells: list[dict[str, Any]] = []
    loop = asyncio.new_event_loop()
    for kind in windows:
        window = WINDOWS[kind]
        if OURS in only:
            with new_place(engine):
                check_filling(window)
        too_slow: dict[str, int] = {}
        for history in sorted(histories):
            print(f"{engine}, window of {window.title}, {history:,} messages", file=sys.stderr, flush=True)  # noqa: T201
            taking_part: list[Entry] = []
            figures: dict[str, dict[str, Any]] = {}
            for name, contender in classes:
                if kind not in contender.windows or history > contender.largest_history:
                    continue
                if name in too_slow:
                    reason = f"> {TOO_SLOW * 1000:.0f} ms at {too_slow[name]:,}, not measured further"
                    figures[name] = {"not_measured": reason}
                else:
                    taking_part.append(Entry(name, contender, history))
            with new_place(engine) as place:
                measured = measure_cell(taking_part, place, window, turns=turns, warm_up=warm_up, loop=loop)
            for name, figure in measured.items():
                figures[name] = figure
                if figure.get("median_ms", 0) > TOO_SLOW * 1000:
                    too_slow[name] = history
            cells += [
                {"engine": engine, "window": kind, "history": history, "contender": name, **figure}
                for name, figure in figures.items()
            ]
    loop.close()
    return {"cells": cells, "missing": missing}


def measure_lengths(
    engine: str, *, windows: list[str], histories: list[int], turns: int, warm_up: int
) -> list[dict[str, Any]]:
    """Measure turns of chatmemory alone on one engine, in conversations of all lengths, interleaved.

    Returns:
        ``engine``, ``window``, ``history`` and figures, of each.
    """
    rows: list[dict[str, Any]] = []
    loop = asyncio.new_event_loop()
    for kind in windows:
        print(f"{engine}, window of {WINDOWS[kind].title}, all lengths", file=sys.stderr, flush=True)  # noqa: T201
        entries = [Entry(str(history), ChatMemoryConversation, history) for history in sorted(histories)]
        with new_place(engine) as place:
            measured = measure_cell(entries, place, WINDOWS[kind], turns=turns, warm_up=warm_up, loop=loop)
        rows += [
            {"engine": engine, "window": kind, "history": entry.history, **measured[entry.name]} for entry in entries
        ]
    loop.close()
    return rows
