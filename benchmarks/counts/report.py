"""The results as Markdown."""

from __future__ import annotations

from typing import Any

from benchmarks.report import table

__all__ = ["markdown"]

_TITLES = {
    "openai": "OpenAI, Chat Completions",
    "openai_responses": "OpenAI, Responses",
    "anthropic": "Anthropic",
    "gemini": "Gemini",
}
_ERRORS = {
    "mean": "mean error",
    "p95": "95 %",
    "too_much": "most too much",
    "too_little": "most too little",
    "of_all": "all together",
    "fresh": "mean, nothing stale",
    "dropped": "mean, earlier thinking dropped",
}


def markdown(results: dict[str, Any]) -> str:
    """Return a table with a line for each format."""
    header = ["format", "requests", *_ERRORS.values(), "above the limit", "above limit and reserve"]
    lines = [
        [
            _TITLES[row["format"]],
            str(row["requests"]),
            *(f"{100 * row[key]:.1f} %" for key in _ERRORS),
            *(str(row[key]) for key in ("over_limit", "over_reserve")),
        ]
        for row in results["rows"]
    ]
    parts = [
        "# What windows count beside what is sent",
        f"Written by `python -m benchmarks.counts` on {results['date']}, with tiktoken {results['tiktoken']}: the "
        f"last request of {results['conversations']} random conversations of each format, but for those whose question "
        "does not fit the window. What is counted, and how, is in the [README](../README.md#token-counts).",
        table(header, lines),
    ]
    return "\n\n".join(parts) + "\n"
