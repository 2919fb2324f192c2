"""Which statements the product sends the database in each file of tests: a plugin of pytest.

``pytest --statements FILE`` writes it down, on any engine; ``python -m tests.tools.choose_suites`` reads it. ``pytest
--all`` on SQLite compares it with what the suites on servers run, and says which statements they lack.

A statement is known by its text without values: each literal, parameter, list of them and name of a savepoint is a
``?``, and what is said several times, with other values, is said once. Statements of tests themselves do not count, and
neither do those of processes that tests start.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from _pytest.terminal import TerminalReporter
from django.db import connection
from django.db.backends.signals import connection_created

from tests.support.statements_by_name import is_by_the_product
from tests.support.suites import ONLY_ON_SQLITE, WITH_ALL_PARAMETERS, files_of, first_tests, is_in

__all__ = ["Record", "Statements", "text_of"]

COMPARED = ["postgresql", "mariadb"]
"""The suites that are to have all statements."""

WHAT_TO_DO = (
    "Add the quickest file that has them to BY_STATEMENTS of tests/support/suites.py, or let "
    "`python -m tests.tools.choose_suites` choose all files anew. If no server needs them, name the file in "
    "ONLY_ON_SQLITE."
)

_MOST_KNOWN = 20_000

_LITERAL = re.compile(r"'(?:[^']|'')*'|(?<![\w\"`.%$])-?\b\d+(?:\.\d+)?\b|%s|%\(\w+\)s")
_SAVEPOINT = re.compile(r"(SAVEPOINT )\S+")
_LIST = re.compile(r"\?(?:, \?)+")
# Rows, conditions, selects of a union, or branches of a CASE, however many.
_SAID_AGAIN = re.compile(
    r"(?:(?<=[ (])|^)(.{6,300}?)(?P<by> AND | OR | UNION ALL | UNION |, | )\1(?:(?P=by)\1)*(?=[ ),]|$)"
)


def text_of(sql: str) -> str:
    """Return the text of a statement without its values."""
    text = " ".join(sql.split())
    text = _SAVEPOINT.sub(r"\1?", text)
    text = _LITERAL.sub("?", text)
    return _SAID_AGAIN.sub(r"\1", _LIST.sub("?", text))


class Record:
    """The texts of statements, and the seconds of CPU, of each file.

    Of a file, what each suite that has it runs (True) is apart from its further parameters (False).
    """

    def __init__(self) -> None:
        self.texts: defaultdict[tuple[str, bool], set[str]] = defaultdict(set)
        self.seconds: Counter[tuple[str, bool]] = Counter()

    def add(self, other: Record) -> None:
        """Add what another process has recorded."""
        for part, texts in other.texts.items():
            self.texts[part] |= texts
        self.seconds.update(other.seconds)

    def texts_of(self, file: str, *, whole: bool) -> set[str]:
        """Return the texts that a file has, with all its parameters or the first ones."""
        return self.texts.get((file, True), set()) | (self.texts.get((file, False), set()) if whole else set())

    def seconds_of(self, file: str, *, whole: bool) -> float:
        """Return the seconds of CPU that a file takes, with all its parameters or the first ones."""
        return self.seconds[file, True] + (self.seconds[file, False] if whole else 0)

    def lacking(self, suite: str) -> dict[str, list[str]]:
        """Return the texts that no file of a suite has, each with the files that have it."""
        run = set().union(*(self.texts_of(file, whole=file in WITH_ALL_PARAMETERS) for file in files_of(suite)))
        lacking: defaultdict[str, list[str]] = defaultdict(list)
        for file in sorted({file for file, _ in self.texts if not is_in(ONLY_ON_SQLITE, file)}):
            for text in self.texts_of(file, whole=True) - run:
                lacking[text].append(file)
        return lacking

    def as_json(self) -> dict[str, Any]:
        """Return plain data, in which each text stands once."""
        numbers = {text: number for number, text in enumerate(sorted(set().union(*self.texts.values())))}
        parts = [
            [file, first, seconds, sorted(numbers[text] for text in self.texts[file, first])]
            for (file, first), seconds in sorted(self.seconds.items())
        ]
        return {"texts": [*numbers], "parts": parts}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Record:
        """Read what ``as_json`` has made."""
        record = cls()
        for file, first, seconds, numbers in data["parts"]:
            record.seconds[file, first] = seconds
            record.texts[file, first] = {data["texts"][number] for number in numbers}
        return record


class Statements:
    """Records the statements of a run: a plugin."""

    def __init__(self) -> None:
        self.record = Record()
        self.lacking: dict[str, dict[str, list[str]]] = {}
        self._first: set[str] = set()
        self._part: tuple[str, bool] | None = None
        self._found: set[str] = set()
        self._known: dict[str, str] = {}

    def begin(self, file: str, *, first: bool) -> None:
        """Record from now on for a file, and for the parameters that each suite runs or the others."""
        self._part = file, first
        self._found = self.record.texts[self._part]

    def watch(self, connection: Any, **kwargs: Any) -> None:
        """Record what a connection sends; a receiver of the signal that it is made."""
        if self.execute not in connection.execute_wrappers:
            connection.execute_wrappers.insert(0, self.execute)  # who wraps for a while takes off the last

    def execute(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
        """Execute a statement, and record it if the product sends it."""
        if self._part is not None and context["connection"].vendor == connection.vendor:
            sql = str(sql)
            text = self._known.get(sql)
            if text is None:
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                text = self._known[sql] = text_of(sql)
            if text not in self._found and is_by_the_product(sys._getframe(1)):
                self._found.add(text)
        return execute(sql, params, many, context)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self._first = first_tests(items)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self.begin(item.nodeid.partition("::")[0], first=item.nodeid in self._first)
        part, since = self._part, time.process_time()
        try:
            return (yield)
        finally:
            self.record.seconds[part] += time.process_time() - since

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        """Leave out what a whole run does once, as to make the database."""
        if fixturedef.scope != "session":
            return (yield)
        part, self._part, since = self._part, None, time.process_time()
        try:
            return (yield)
        finally:
            self._part = part
            if part is not None:
                self.record.seconds[part] -= time.process_time() - since

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        if sent := getattr(node, "workeroutput", {}).get("statements"):
            self.record.add(Record.from_json(sent))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["statements"] = self.record.as_json()
            return
        if file := session.config.option.statements:
            Path(file).write_text(json.dumps(self.record.as_json()), encoding="utf-8")
        if _is_compared(session.config):
            # It fails nothing: on a slow machine, tests ask whether a turn is still theirs where they never did before.
            self.lacking = {suite: self.record.lacking(suite) for suite in COMPARED}

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        if not any(self.lacking.values()):
            return
        terminalreporter.section("statements that suites on servers lack", yellow=True, bold=True)
        for suite, lacking in self.lacking.items():
            for text, files in lacking.items():
                terminalreporter.write_line(f"{suite} lacks, of {', '.join(files)}: {text}")
        terminalreporter.write_line(WHAT_TO_DO)


def _is_compared(config: pytest.Config) -> bool:
    """Return whether the run is of all tests, on SQLite."""
    return (
        config.getoption("all", default=False)
        and not config.option.keyword
        and config.option.markexpr in config.getini("addopts")
        and config.args_source is pytest.Config.ArgsSource.TESTPATHS
        and connection.vendor == "sqlite"
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--statements", metavar="FILE", help="write down which statements each file sends the database")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.statements or (config.getoption("all", default=False) and connection.vendor == "sqlite"):
        statements = Statements()
        config.pluginmanager.register(statements, "statements")
        connection_created.connect(statements.watch)
