"""The results as Markdown."""

from __future__ import annotations

from typing import Any

from benchmarks.recall.measuring import ALL
from benchmarks.report import table

__all__ = ["markdown"]

_FIGURES = ("hit@5", "hit@10", "recall@10")


def markdown(results: dict[str, Any]) -> str:
    """Return two tables for each set: of all questions, and by kind."""
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    parts = [
        "# What a search finds",
        f"Written by `python -m benchmarks.recall` on {results['date']}, with {versions}. The question itself is the "
        "query. What is measured, and how, is in the [README](../README.md#recall).",
    ]
    for dataset in results["datasets"]:
        parts += [f"## {dataset['name']}", _about(dataset), _of_all(dataset["rows"]), _by_kind(dataset["rows"])]
    return "\n\n".join(parts) + "\n"


def _about(dataset: dict[str, Any]) -> str:
    questions = next(row["questions"] for row in dataset["rows"] if row["kind"] == ALL)
    files = "the file" if dataset["files"] == 1 else f"the {dataset['files']} files"
    return (
        f"{questions:,} questions about {dataset['conversations']} conversations with {dataset['messages']:,} "
        f"messages. SHA-256 of {files}: `{dataset['sha256']}`."
    )


def _of_all(rows: list[dict[str, Any]]) -> str:
    rows = [row for row in rows if row["kind"] == ALL]
    asked = sorted({row["without_stop_words"] for row in rows})
    header = [f"{name}, no stop words" if without else name for without in asked for name in _FIGURES]
    lines = {row["ranking"]: [row["ranking"]] for row in rows}
    for row in rows:
        lines[row["ranking"]] += [f"{row[name]:.3f}" for name in _FIGURES]
    return table(["ranking", *header], [*lines.values()])


def _by_kind(rows: list[dict[str, Any]]) -> str:
    rows = [row for row in rows if row["kind"] != ALL and not row["without_stop_words"]]
    lines = {row["kind"]: [row["kind"], f"{row['questions']:,}"] for row in rows}
    for row in rows:
        lines[row["kind"]].append(" / ".join(f"{row[name]:.2f}" for name in _FIGURES))
    header = [f"{' / '.join(_FIGURES)} of", "questions", *dict.fromkeys(row["ranking"] for row in rows)]
    return table(header, [*lines.values()])
