"""The results as Markdown."""

from __future__ import annotations

from statistics import median
from typing import Any

from benchmarks.report import ENGINES, machine_line, table

__all__ = ["markdown"]


def markdown(results: dict[str, Any]) -> str:
    """Return the whole report."""
    asked = results["asked"]
    heads = [
        "engine",
        "server",
        "bare view",
        "turn",
        "more",
        "more of each measurement",
        "of it before the first piece",
    ]
    pieces = ["engine", "server", "bare view", "turn", "more", "more of each measurement"]
    return (
        "\n\n".join(
            [
                "# Turns over HTTP",
                machine_line("benchmarks.streams", results["machine"], readme="../README.md#turns-over-http"),
                f"{asked['measurements']} measurements of {asked['rounds']} rounds; the median of their medians.",
                "## A turn with one piece, in milliseconds",
                table(heads, [_turn(*group) for group in _groups(results["rows"])]),
                "## What a turn with one piece takes of the server's processor, in milliseconds",
                table(pieces, [_cpu(*group) for group in _groups(results["rows"])]),
                f"## A further piece, in microseconds (of {asked['pieces']:,})",
                table(pieces, [_piece(*group) for group in _groups(results["rows"])]),
            ]
        )
        + "\n"
    )


def _groups(rows: list[dict[str, Any]]) -> list[tuple[list[str], list[dict[str, Any]]]]:
    names = dict.fromkeys((row["engine"], row["server"]) for row in rows)
    return [
        ([ENGINES[engine], server], [row for row in rows if (row["engine"], row["server"]) == (engine, server)])
        for engine, server in names
    ]


def _turn(names: list[str], rows: list[dict[str, Any]]) -> list[str]:
    first = median(row["first_ms"] - row["bare_first_ms"] for row in rows)
    return [*names, *_beside(rows, "turn_ms", ".1f"), f"{first:.1f}"]


def _cpu(names: list[str], rows: list[dict[str, Any]]) -> list[str]:
    return [*names, *_beside(rows, "cpu_ms", ".1f")]


def _piece(names: list[str], rows: list[dict[str, Any]]) -> list[str]:
    return [*names, *_beside(rows, "piece_us", ".0f")]


def _beside(rows: list[dict[str, Any]], name: str, form: str) -> list[str]:
    more = [row[name] - row[f"bare_{name}"] for row in rows]
    medians = (median(row[f"bare_{name}"] for row in rows), median(row[name] for row in rows), median(more))
    return [*(f"{value:{form}}" for value in medians), ", ".join(f"{value:{form}}" for value in more)]
