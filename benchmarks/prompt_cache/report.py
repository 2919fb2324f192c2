"""The results as Markdown."""

from __future__ import annotations

from typing import Any

from benchmarks.prompt_cache.conversations import Kind
from benchmarks.report import table

__all__ = ["TITLES", "markdown"]

TITLES = {Kind.CHAT: "Chat", Kind.TOOLS: "Tools"}
"""The kinds of conversations, for headings."""

_HEADER = [
    "window",
    "mean fill",
    "largest",
    "user messages",
    "cacheable tokens",
    "hit share",
    "breaks",
    "input price",
    "with Anthropic's writes",
    "lost",
]


def markdown(results: dict[str, Any]) -> str:
    """Return the whole report, in sections."""
    others = " and ".join(map(_number, results["others"])) or "no"
    versions = [f"{name} {version}" for name, version in sorted(results["versions"].items())]
    parts = [
        "# Prompt cache",
        f"Written by `python -m benchmarks.prompt_cache` on {results['date']}, with {', '.join(versions)}. "
        f"Conversations have {_number(results['turns'])} turns. Other frameworks were simulated in windows of "
        f"{others} tokens. What is simulated, and what the columns are, is in the "
        "[README](../README.md#the-prompt-cache).",
        "![Hit share over mean fill](trade-off.svg)",
    ]
    for kind in Kind:
        for window in dict.fromkeys(row["window"] for row in results["rows"]):
            rows = [row for row in results["rows"] if row["kind"] == kind and row["window"] == window]
            parts += [
                f"## {TITLES[kind]}, {_number(window)} tokens",
                f"{_number(rows[0]['requests'])} requests.",
                table(_HEADER, [[row["row"], *_cells(row)] for row in rows]),
            ]
    parts += [f"**{name} is missing**: {reason}" for name, reason in results["missing"].items()]
    parts += [
        "## Other conversations",
        "Hit share and breaks in a window of 16 000 tokens: evicted per message, and with a mark of 70 in whole turns "
        "(with tools: and `keep_tool_results=3`).",
        _setups(results["setups"]),
    ]
    return "\n\n".join(parts) + "\n"


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        _percent(row["fill"]),
        _percent(row["most"]),
        f"{row['turns']:.1f}",
        _number(round(row["cacheable"])),
        _percent(row["hit_share"]),
        _percent(row["breaks"]),
        f"{row['price']:.2f}",
        f"{row['anthropic_price']:.2f}",
        _percent(row["lost"]) if row["lost"] else "",
    ]


def _setups(rows: list[dict[str, Any]]) -> str:
    cells: dict[str, list[str]] = {}
    for row in rows:
        cells.setdefault(row["setup"], []).append(f"{_percent(row['hit_share'])}, {_percent(row['breaks'])}")
    header = ["conversation", *(f"{kind}, {how}" for kind in Kind for how in ("per message", "mark of 70"))]
    return table(header, [[setup, *found] for setup, found in cells.items()])


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _number(value: int) -> str:
    return f"{value:,}".replace(",", " ")
