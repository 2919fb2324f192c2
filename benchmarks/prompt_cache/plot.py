"""Hit share over mean fill, as an SVG that is readable on light and on dark pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib import pyplot

from benchmarks.plot import AXES, PEERS, quieten
from benchmarks.prompt_cache.conversations import Kind
from benchmarks.prompt_cache.report import TITLES

__all__ = ["draw"]

_WINDOW = 16_000  # tokens: where the others are drawn
_COLORS = ["#f4a259", "#e4572e", "#8c2f1b"]
_NAMED = (50, 70, 85, 100)


def draw(results: dict[str, Any], path: Path) -> None:
    """Draw one panel for each kind of conversation: a line of marks for each window, and the others as points.

    Args:
        results: as in ``results.json``.
        path: the file to write.
    """
    figure, panels = pyplot.subplots(1, len(Kind), figsize=(5.2 * len(Kind), 5.2), sharey=True)
    peers = [row for row in results["rows"] if not row["row"].startswith("chatmemory") and row["window"] == _WINDOW]
    names = list(dict.fromkeys(row["row"] for row in peers))
    for panel, kind in zip(panels, Kind, strict=True):
        of_kind = [row for row in results["marks"] if row["kind"] == kind]
        windows = dict.fromkeys(row["window"] for row in of_kind)
        for color, window in zip(_COLORS, windows, strict=False):
            marks = [row for row in of_kind if row["window"] == window]
            points = [(100 * row["fill"], 100 * row["hit_share"]) for row in marks]
            label = f"chatmemory, {window:,} tokens, marks of 30 to 100".replace(",", " ").replace(
                "chatmemory ", "chatmemory,"
            )
            panel.plot(*zip(*points, strict=True), color=color, marker="o", markersize=3, label=label, zorder=3)
            for row, point in zip(marks, points, strict=True):
                if window == _WINDOW and row["mark"] in _NAMED:
                    panel.annotate(row["mark"], point, (4, 4), textcoords="offset points", color=AXES, fontsize=9)
        for row in peers:
            if row["kind"] == kind:
                color = PEERS[names.index(row["row"]) % len(PEERS)]
                panel.plot(
                    100 * row["fill"], 100 * row["hit_share"], "D", color=color, label=row["row"].replace("`", "")
                )
        panel.set(xlabel="mean fill of the window in percent")
        panel.set_title(f"{TITLES[kind]}; other frameworks at 16 000 tokens", color=AXES, fontsize=10)
        quieten(panel)
    panels[0].set_ylabel("hit share in percent")
    handles = {
        label: handle for panel in panels for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    figure.tight_layout(rect=(0, 0.24, 1, 1))
    figure.legend(
        handles.values(), handles.keys(), loc="lower center", ncols=2, frameon=False, labelcolor=AXES, fontsize=8
    )
    figure.savefig(path, transparent=True, metadata={"Date": None})
    pyplot.close(figure)
