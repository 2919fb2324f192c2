"""The results as Markdown."""

from __future__ import annotations

from itertools import groupby
from statistics import median
from typing import Any

__all__ = ["markdown"]

_TITLES = {
    "additions": "An addition while a summary is being made, beside one in a conversation without (95th percentile)",
    "plans": "Plan and apply, without the model",
    "turns": "A turn of a conversation that is summarised: of a long history, beside a short one",
}


def markdown(results: dict[str, Any]) -> str:
    """Return a table for each measurement, with the median of its rounds."""
    parts = ["# What summaries cost", f"{results['machine']['cpu']}, {results['machine']['cores']} cores."]
    for name, title in _TITLES.items():
        rows = results[name]
        if not rows:
            continue
        figures = [key for key in rows[0] if key not in ("engine", "round")]
        lines = [f"## {title}", "| engine | " + " | ".join(figures) + " |", "| --- |" + " --- |" * len(figures)]
        for engine, group in groupby(rows, key=lambda row: str(row["engine"])):
            rounds = list(group)
            cells = [f"{median(row[key] for row in rounds):,.2f}" for key in figures]
            lines.append(f"| {engine} | " + " | ".join(cells) + " |")
        parts += [lines[0], "\n".join(lines[1:])]
    return "\n\n".join(parts) + "\n"
