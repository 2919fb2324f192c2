"""The command ``python -m benchmarks.recall``."""

from __future__ import annotations

import argparse
import os
import platform
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import django
from django.core.management import call_command

from benchmarks.publishing import publish
from benchmarks.recall.datasets import beam, locomo
from benchmarks.recall.measuring import measure
from benchmarks.recall.rankings import rankings
from benchmarks.recall.report import markdown


def options() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.recall", description="Measure what searches find of the answers to questions."
    )
    parser.add_argument("--locomo", type=Path, metavar="FILE", help="data/locomo10.json of snap-research/LoCoMo")
    parser.add_argument("--beam", type=Path, metavar="FOLDER", help="chats/100K of mohammadtavakoli78/BEAM")
    parser.add_argument("--stop-words", type=Path, metavar="FILE", help="words to leave out of questions, one a line")
    parser.add_argument("--postgres", metavar="DSN", default="", help="measure PostgreSQL's own ranking, too")
    parser.add_argument("--output", type=Path, help="folder for results.json and RESULTS.md")
    given = parser.parse_args()
    if not (given.locomo or given.beam):
        parser.error("pass --locomo or --beam")
    return given


def versions(dsn: str) -> dict[str, str]:
    """Return the versions that the results depend on."""
    found = {"Python": platform.python_version(), "SQLite": sqlite3.sqlite_version}
    if dsn:
        import psycopg

        with psycopg.connect(dsn) as connection:
            found["PostgreSQL"] = str(connection.info.parameter_status("server_version")).split()[0]
    return found


def main() -> None:
    """Measure, print and write."""
    given = options()
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.recall.settings"
    django.setup()
    call_command("migrate", verbosity=0)
    datasets = [read(path) for read, path in ((locomo, given.locomo), (beam, given.beam)) if path]
    words = frozenset(given.stop_words.read_text(encoding="utf-8").casefold().split()) if given.stop_words else ()
    compared = rankings(given.postgres)
    results: dict[str, Any] = {
        "date": datetime.now(UTC).date().isoformat(),
        "versions": versions(given.postgres),
        "stop_words": len(words),
        "datasets": [measure(dataset, compared, words) for dataset in datasets],
    }
    publish(results, markdown(results), given.output)


if __name__ == "__main__":
    main()
