"""Results as Markdown."""

from __future__ import annotations

from typing import Any

from benchmarks.contenders import NAMES
from benchmarks.windows import WINDOWS

__all__ = ["ENGINES", "machine_line", "markdown", "table"]

ENGINES = {"sqlite": "SQLite", "postgres": "PostgreSQL", "mariadb": "MariaDB"}
"""Names of the engines, for people."""


def markdown(results: dict[str, Any]) -> str:
    """Return the whole report, in sections."""
    parts = ["# Results", machine_line("benchmarks", results["machine"], readme="README.md")]
    if results["summary"]:
        parts += ["## chatmemory beside the others", _summary(results["summary"])]
    if results["lengths"]:
        parts += ["## chatmemory over the length of the history", *_lengths(results["lengths"])]
    parts += _turns(results["cells"])
    parts += [f"**{name} is missing**: {reason}" for name, reason in results["missing"].items()]
    for cell in results["cells"] + results["lengths"]:
        if "error" in cell:
            where = f"{cell.get('contender', 'chatmemory')}, {cell['engine']}, {cell['window']}, {cell['history']}"
            parts.append(f"**{where} failed**:\n\n```\n{cell['error']}\n```")
    if results.get("statements"):
        parts += ["## What chatmemory asks of the database and the tokenizer", _statements(results["statements"])]
    if results.get("tokenizer"):
        rates = [f"{rate:,.0f} ({name})".replace(",", " ") for name, rate in results["tokenizer"].items()]
        parts.append(f"Tokens counted per second: {', '.join(rates)}.")
    if results.get("http"):
        parts += _http(results["http"])
    if results.get("throughput"):
        parts += ["## Turns by a process on each core, on PostgreSQL", _throughput(results["throughput"])]
    # The results of other days have no such key.
    parts += [f"**{name} failed**:\n\n```\n{error}\n```" for name, error in results.get("failed", {}).items()]
    return "\n\n".join(parts) + "\n"


def machine_line(program: str, machine: dict[str, Any], *, readme: str) -> str:
    """Return a line that says when and where a program measured, with a link to what it measures."""
    versions = [f"{name} {version}" for name, version in machine["versions"].items()]
    return (
        f"Written by `python -m {program}` on {machine['date'][:10]}: {machine['cpu']}, {machine['cores']} cores, "
        f"{machine['memory']}, {machine['os']}; {', '.join(versions)}. Every package's version is in `results.json`; "
        f"what is measured, and how, is in the [README]({readme})."
    )


def table(header: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table whose columns line up in plain text as well."""
    widths = [max(len(row[index]) for row in [header, *rows]) for index in range(len(header))]
    lines = [header, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _number(value: int) -> str:
    return f"{value:,}".replace(",", " ")


def _summary(rows: list[dict[str, Any]]) -> str:
    return table(
        ["engine", "window", "history", "over the floor", "over the best peer", "best peer"],
        [
            [
                ENGINES[row["engine"]],
                WINDOWS[row["window"]].title,
                _number(row["history"]),
                _ratio(row["over_floor"]),
                _ratio(row["over_best_peer"]),
                row["best_peer"] or "",
            ]
            for row in rows
        ],
    )


def _lengths(rows: list[dict[str, Any]]) -> list[str]:
    turns = max((row.get("turns", 0) for row in rows), default=0)
    return [
        f"All lengths interleaved: median of {turns} turns in milliseconds (quartiles) × that at 100 messages.",
        table(
            ["engine", "window", *map(_number, histories := sorted({row["history"] for row in rows}))],
            [
                [
                    ENGINES[engine],
                    WINDOWS[window].title,
                    *(
                        _cell(row, "over_short_history")
                        for history in histories
                        for row in rows
                        if (row["engine"], row["window"], row["history"]) == (engine, window, history)
                    ),
                ]
                for engine, window in dict.fromkeys((row["engine"], row["window"]) for row in rows)
            ],
        ),
    ]


def _turns(cells: list[dict[str, Any]]) -> list[str]:
    parts: list[str] = []
    for engine, window in dict.fromkeys((cell["engine"], cell["window"]) for cell in cells):
        here = [cell for cell in cells if (cell["engine"], cell["window"]) == (engine, window)]
        histories = sorted({cell["history"] for cell in here})
        found = {(cell["contender"], cell["history"]): cell for cell in here}
        names = [name for name in NAMES if any((name, history) in found for history in histories)]
        turns = max((cell.get("turns", 0) for cell in here), default=0)
        parts += [
            f"## A turn on {ENGINES[engine]}, window of {WINDOWS[window].title}",
            f"Milliseconds: median of {turns} turns (quartiles) × the floor beside it.",
            table(
                ["messages before the turns", *map(_number, histories)],
                [[name, *(_cell(found.get((name, history)), turns=turns) for history in histories)] for name in names],
            ),
        ]
    return parts


def _cell(cell: dict[str, Any] | None, ratio_name: str = "over_floor", *, turns: int = 0) -> str:
    if cell is None:
        return ""
    if "median_ms" not in cell:
        return str(cell.get("not_measured", "failed, see below"))
    quartiles = f"({_figure(cell['lower_quartile_ms'])}–{_figure(cell['upper_quartile_ms'])})"
    ratio = f" ×{cell[ratio_name]:.2f}" if ratio_name in cell else ""
    fewer = f" of {cell['turns']} turns" if cell["turns"] < turns else ""
    return f"{_figure(cell['median_ms'])} {quartiles}{ratio}{fewer}"


def _statements(engines: dict[str, dict[str, dict[str, Any]]]) -> str:
    columns = {
        f"{ENGINES[engine]}, {WINDOWS[window].title}": figures
        for engine, windows in engines.items()
        for window, figures in windows.items()
    }
    labels = list(dict.fromkeys(label for figures in columns.values() for label in figures))
    return table(
        ["", *columns],
        [[label, *(_figure(figures.get(label)) for figures in columns.values())] for label in labels],
    )


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3g}" if value < 1_000 else _number(round(value))


def _http(http: dict[str, Any]) -> list[str]:
    requests = http["requests"]
    bare = next(iter(requests.values()))
    return [
        "## Over HTTP, on PostgreSQL",
        table(
            ["request", "ms", "per second", "over the bare view"],
            [[name, f"{taken:.3g}", f"{1000 / taken:.0f}", _ratio(taken / bare)] for name, taken in requests.items()],
        ),
    ]


def _throughput(windows: dict[str, dict[str, float]]) -> str:
    return table(
        ["window", "turns per second", "per second of a busy core", "share of the application"],
        [
            [
                WINDOWS[window].title,
                f"{figures['turns_per_second']:.0f}",
                _figure(figures.get("turns_per_second_per_core")),
                _ratio(figures.get("share_of_application")),
            ]
            for window, figures in windows.items()
        ],
    )
