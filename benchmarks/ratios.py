"""Ratios of the measured figures."""

from __future__ import annotations

from typing import Any

from benchmarks.contenders import FLOOR, OURS, PEERS

__all__ = ["add_ratios", "summarise"]

_SHORT = 100  # messages: where "flat" is measured from

Key = tuple[str, str, int]


def _by_cell(cells: list[dict[str, Any]]) -> dict[Key, dict[str, float]]:
    medians: dict[Key, dict[str, float]] = {}
    for cell in cells:
        medians.setdefault((cell["engine"], cell["window"], cell["history"]), {})
        if "median_ms" in cell:
            medians[cell["engine"], cell["window"], cell["history"]][cell["contender"]] = cell["median_ms"]
    return medians


def add_ratios(cells: list[dict[str, Any]], lengths: list[dict[str, Any]]) -> None:
    """Give each cell ``over_floor``, its median over the floor's beside it, and ``over_chatmemory``.

    Each of ``lengths`` gets ``over_short_history``, its median over that at 100 messages.
    """
    medians = _by_cell(cells)
    for cell in cells:
        beside = medians[cell["engine"], cell["window"], cell["history"]]
        for name, key in (FLOOR, "over_floor"), (OURS, "over_chatmemory"):
            if "median_ms" in cell and name in beside:
                cell[key] = cell["median_ms"] / beside[name]
    short = {
        (row["engine"], row["window"]): row["median_ms"]
        for row in lengths
        if row["history"] == _SHORT and "median_ms" in row
    }
    for row in lengths:
        if "median_ms" in row and (row["engine"], row["window"]) in short:
            row["over_short_history"] = row["median_ms"] / short[row["engine"], row["window"]]


def summarise(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return, for each engine, window and history, chatmemory over the floor and over the best peer."""
    medians = _by_cell(cells)
    rows: list[dict[str, Any]] = []
    for (engine, window, history), beside in medians.items():
        if OURS not in beside:
            continue
        ours = beside[OURS]
        peers = {name: beside[name] for name in PEERS if name in beside}
        best = min(peers, key=lambda name: peers[name], default=None)
        rows.append(
            {
                "engine": engine,
                "window": window,
                "history": history,
                "over_floor": ours / beside[FLOOR] if FLOOR in beside else None,
                "best_peer": best,
                "over_best_peer": ours / peers[best] if best else None,
            }
        )
    return rows
