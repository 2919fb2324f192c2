"""Turn time over the length of the history, as an SVG that is readable on light and on dark pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

from benchmarks.contenders import FLOOR, NAMES, OURS
from benchmarks.report import ENGINES
from benchmarks.windows import WINDOWS

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "chatmemory", "font.family": "sans-serif"})

from matplotlib import pyplot  # noqa: E402

__all__ = ["AXES", "PEERS", "draw", "quieten"]

AXES = "#808080"  # enough contrast on white and on black
_OURS = "#e4572e"
PEERS = ["#3a86c8", "#17a398", "#b08900", "#8f6bd6", "#5f9e3a", "#c2579b", "#7d8597"]


def draw(cells: list[dict[str, Any]], path: Path, *, window: str = "tokens") -> None:
    """Return one panel per engine: medians in milliseconds over messages, both logarithmic.

    Args:
        cells: as in ``results.json``.
        path: the file to write.
        window: whose turns are drawn.
    """
    drawn = [cell for cell in cells if cell["window"] == window and cell["history"] and "median_ms" in cell]
    engines = list(dict.fromkeys(cell["engine"] for cell in drawn))
    if not engines:
        return
    names = [name for name in NAMES if name != "chatmemory (by ID)"]
    peers = [name for name in names if name not in (FLOOR, OURS)]
    figure, panels = pyplot.subplots(1, len(engines), figsize=(5.2 * len(engines), 4.6), sharey=True, squeeze=False)
    for panel, engine in zip(panels[0], engines, strict=True):
        for name in names:
            points = sorted(
                (cell["history"], cell["median_ms"])
                for cell in drawn
                if cell["engine"] == engine and cell["contender"] == name
            )
            if points:
                style = _style(name, peers)
                panel.plot(*zip(*points, strict=True), marker="o", markersize=3.5, label=name, **style)
        panel.set(xscale="log", yscale="log", xlabel="messages in the history")
        panel.set_title(f"{ENGINES[engine]}, window of {WINDOWS[window].title}", color=AXES, fontsize=10)
        quieten(panel)
    panels[0][0].set_ylabel("milliseconds per turn (two adds, one read)")
    handles = {
        label: handle for panel in panels[0] for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    figure.tight_layout(rect=(0, 0.17, 1, 1))
    figure.legend(
        handles.values(), handles.keys(), loc="lower center", ncols=3, frameon=False, labelcolor=AXES, fontsize=9
    )
    figure.savefig(path, transparent=True, metadata={"Date": None})
    pyplot.close(figure)


def _style(name: str, peers: list[str]) -> dict[str, Any]:
    if name == OURS:
        return {"color": _OURS, "linewidth": 2.6, "zorder": 3}
    if name == FLOOR:
        return {"color": AXES, "linestyle": "--", "linewidth": 1.2}
    return {"color": PEERS[peers.index(name) % len(PEERS)], "linewidth": 1.3}


def quieten(panel: Any) -> None:
    panel.tick_params(which="both", colors=AXES, labelsize=9)
    for axis in panel.xaxis, panel.yaxis:
        axis.set_major_formatter(lambda value, _position: f"{value:,.10g}".replace(",", " "))
    panel.grid(color=AXES, alpha=0.25, linewidth=0.6)
    for label in panel.xaxis.label, panel.yaxis.label:
        label.set_color(AXES)
    for side, spine in panel.spines.items():
        spine.set_color(AXES)
        spine.set_visible(side in ("left", "bottom"))
