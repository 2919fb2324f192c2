"""What each suite of ``.ci/run`` on a server runs of the tests, and why: ``pytest --suite mariadb``.

``pytest --all`` runs everything, on SQLite. A server has to show that it does the same with what the product sends it.
So a suite runs as few files as have all the statements of the product (``BY_STATEMENTS``, which
``python -m tests.tools.choose_suites`` finds), and files whose result depends on the server in other ways
(``BESIDES``). ``pytest --all`` fails if a statement is in no file of a suite. Of a test with many parameters, suites
run some.
"""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path, PurePosixPath

from tests.support.paths import ROOT

__all__ = [
    "BESIDES",
    "BY_STATEMENTS",
    "ONLY_ON_SQLITE",
    "RUN_ONCE",
    "SUITES",
    "WITH_ALL_PARAMETERS",
    "files_of",
    "is_collected_by",
    "is_in",
    "is_in_every_suite",
    "is_run_by",
]

BY_STATEMENTS: dict[str, list[str]] = {
    # The newest Python and Django. Messages in hash partitions, names in a table of their own, the constraints of
    # Citus, and server-side binding.
    "postgresql": [],
    # The oldest Python and Django.
    "mariadb": [],
    # PostgreSQL as most projects have it. Only here an addition is one statement, and psycopg puts the parameters into
    # the statements. Its files have the statements that "postgresql" lacks.
    "undivided": [],
}
"""Of each suite the files that together have all statements of the product on its engine."""

SUITES = list(BY_STATEMENTS)

WITH_ALL_PARAMETERS: list[str] = []
"""The files all of whose parameters suites run, because the first ones do not have all statements of a file."""

BESIDES: dict[str, dict[str, str]] = {"postgresql": {}, "mariadb": {}, "undivided": {}}
"""The files that a suite runs for another reason than a statement."""

ONLY_ON_SQLITE: dict[str, str] = {}
"""The files and folders that run on SQLite only, though they have statements of their own."""

RUN_ONCE: dict[str, str] = {}
"""The dearest tests, which ``pytest --all`` runs on SQLite, each with the reason why that is enough."""


def files_of(suite: str) -> set[str]:
    """Return the files that a suite runs."""
    return {*BY_STATEMENTS[suite], *BESIDES[suite]}


def is_in(folders: Container[str], file: str) -> bool:
    """Return whether a file, or a folder that it is in, is among these."""
    return any(str(each) in folders for each in (PurePosixPath(file), *PurePosixPath(file).parents))


def is_in_every_suite(test: str, number: int) -> bool:
    """Return whether each suite that has its file runs a test with the set of parameters of this number, from 0.

    These are the first two and every fifth.
    """
    return test not in RUN_ONCE and (number < 2 or number % 5 == 0)


def is_run_by(test: str, number: int) -> bool:
    """Return whether the suites that have its file run a test with the set of parameters of this number, from 0."""
    return test.partition("::")[0] in WITH_ALL_PARAMETERS or is_in_every_suite(test, number)


def is_collected_by(suite: str, path: Path) -> bool:
    """Return whether a suite runs a file, or anything in a folder."""
    name = path.relative_to(ROOT).as_posix()
    return any(file == name or file.startswith(f"{name}/") for file in files_of(suite))
