"""The quick suite, which ``pytest`` runs, and the rules by which it stays quick.

``pytest --all`` runs everything on SQLite, and needs the packages of the extra ``dev``. ``pytest`` leaves out the
functions that are marked ``slow``, most parameters of the others, most examples of hypothesis
(:mod:`tests.support.budget`), and the files whose imports are not installed. A file or a test that is named runs whole.
"""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from collections.abc import Generator
from importlib.util import find_spec
from typing import Any

import pytest
from _pytest.terminal import TerminalReporter

from tests.support import budget

__all__ = ["OF_DEV", "Everything", "Quick", "not_installed"]

OF_DEV = {
    "agent_framework",
    "agents",
    "aiosqlite",
    "anthropic",
    "axe_playwright_python",
    "django_ai_assistant",
    "genai_prices",
    "google",
    "gunicorn",
    "httpx",
    "langchain_community",
    "langchain_core",
    "langgraph",
    "llama_index",
    "openai",
    "playwright",
    "pydantic_ai",
    "schemathesis",
    "uvicorn",
}
"""What tests import, and only the extra ``dev`` installs."""


def not_installed() -> list[str]:
    """Return the packages of :data:`OF_DEV` that are not installed."""
    return sorted(name for name in OF_DEV if find_spec(name) is None)


def _missing(error: BaseException | None) -> str | None:
    """Return the name of the package of the extra ``dev`` that is not installed, if an error came from that."""
    while error is not None:
        if isinstance(error, ModuleNotFoundError) and (name := (error.name or "").partition(".")[0]) in OF_DEV:
            return name
        error = error.__cause__
    return None


class Quick:
    """Leave out what takes long or is not installed, and say so at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.slow = 0
        self.thinned = 0
        self.files: dict[str, str] = {}  # what each file lacks

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, Any, Any]:
        """Collect no test of a file whose imports are not installed."""
        report = yield
        if report.failed and (name := _missing(report.call.excinfo.value)):
            self.files[collector.nodeid] = name
            report.outcome, report.longrepr, report.result = "passed", None, []
        return report

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        quick = [item for item in items if item.get_closest_marker("slow") is None]
        run = list(budget.thinned(quick))
        self.slow, self.thinned = len(items) - len(quick), len(quick) - len(run)
        kept = set(run)
        self.config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = run

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["left_out"] = (self.slow, self.thinned, self.files)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.slow, self.thinned, self.files = getattr(node, "workeroutput", {}).get(
            "left_out", (self.slow, self.thinned, self.files)
        )

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        terminalreporter.section("left out of the quick suite")
        if self.files:
            names = ", ".join(sorted(set(self.files.values())))
            terminalreporter.write_line(f"{len(self.files)} files need packages of the extra dev: {names}")
        terminalreporter.write_line(f"{self.slow} tests are marked slow; {self.thinned} are further parameters")
        terminalreporter.write_line('Everything: pip install -e ".[dev]" && pytest --all')


class Everything:
    """Fail the full suite for a file that is left out, and a test that must be marked ``slow``; say what to mark.

    What counts is processor time, in units of what this processor needs for :func:`_work`: machines differ.
    """

    LEFT_OUT = {"tests/search/test_frameworks_google_adk.py", "tests/search/test_frameworks_harness.py"}
    """The files that need older packages than others; .ci/run gives each an environment of its own."""

    UNMARKED = 0.5
    """Seconds above which a function should be marked."""
    UNMARKED_AT_MOST = 2.5
    """Seconds above which it must be. What a process does once, as to load a vocabulary, falls on any test."""
    MARKED = 0.03
    """Seconds below which not all tests of a marked function may stay. Marked is what took 0.12 s or more once."""

    ON_THEIR_OWN = {"browser", "npm", "java"}
    """The marks of tests that run only where they are asked for, however long they take."""

    def __init__(self, config: pytest.Config) -> None:
        self.pace = min(_work() for _ in range(5)) / _USUAL
        self.marked: defaultdict[str, list[float]] = defaultdict(list)
        self.unmarked: defaultdict[str, list[float]] = defaultdict(list)
        self.problems: list[str] = []
        self.remarks: list[str] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped and report.nodeid not in self.LEFT_OUT:
            self.problems.append(f"{report.nodeid} is left out: {report.longrepr}")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        began = sum(os.times()[:4])  # with processes that it started
        try:
            return (yield)
        finally:
            seconds = (sum(os.times()[:4]) - began) / self.pace
            own = any(mark.name == "slow" for mark in item.own_markers)
            item.user_properties.append(("seconds", (seconds, own)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == "seconds" and report.when == "call" and not self.ON_THEIR_OWN & {*report.keywords}:
                function = report.nodeid.partition("[")[0]
                seconds, own = value
                if own:
                    self.marked[function].append(seconds)
                elif "slow" not in report.keywords:  # what a file shares may be slow, however quick its tests are
                    self.unmarked[function].append(seconds)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workerinput"):
            return
        self._look_at_marks()
        if self.problems and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        for title, lines in {"what to mark": self.remarks, "what the full suite refuses": self.problems}.items():
            if lines:
                terminalreporter.section(title, red=lines is self.problems)
                for line in sorted(lines):
                    terminalreporter.write_line(line)

    def _look_at_marks(self) -> None:
        for function, seconds in self.unmarked.items():
            if (longest := max(seconds)) > self.UNMARKED:
                lines = self.problems if longest > self.UNMARKED_AT_MOST else self.remarks
                lines.append(f"{function} takes {longest:.2f} s of the processor: add @pytest.mark.slow")
        for function, seconds in self.marked.items():
            if (longest := max(seconds)) < self.MARKED:
                self.remarks.append(f"{function} takes {longest:.2f} s at most: remove @pytest.mark.slow")


_USUAL = 0.057
"""Seconds that _work() took on the machine on which the limits were chosen."""


def _work() -> float:
    began = time.process_time()
    numbers: Counter[int] = Counter()
    for number in range(300_000):
        numbers[number % 97] += number
    return time.process_time() - began
