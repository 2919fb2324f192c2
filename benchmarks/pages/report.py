"""The results as Markdown."""

from __future__ import annotations

from typing import Any

from benchmarks.report import table

__all__ = ["markdown"]


def markdown(results: dict[str, Any]) -> str:
    """Return a table with a line for each page, and how much longer a long history takes."""
    short, long = (f"{results[key]:,}".replace(",", " ") for key in ("short", "long"))
    lines = [
        [
            row["engine"],
            row["page"],
            *(f"{row[key]:.1f}" for key in ("short_ms", "long_ms")),
            f"{row['ratio']:.2f}",
            *(f"{row[key]:.1f}" for key in ("cpu_short_ms", "cpu_long_ms")),
            f"{row['cpu_ratio']:.2f}",
        ]
        for row in results["pages"]
    ]
    header = [
        "engine",
        "page",
        f"ms at {short}",
        f"ms at {long}",
        "ratio",
        f"CPU at {short}",
        f"CPU at {long}",
        "ratio",
    ]
    parts = [
        "# What the admin's pages of a conversation cost",
        f"{results['machine']['cpu']}, {results['machine']['cores']} cores.",
        table(header, lines),
    ]
    return "\n\n".join(parts) + "\n"
