"""The sections of ``python -m benchmarks``: one that fails is named, and processes begin side by side."""

from __future__ import annotations

import argparse

import pytest

from benchmarks.report import markdown
from benchmarks.sections import measure
from benchmarks.worker import WorkerError, in_workers


@pytest.mark.slow
def test_a_section_that_fails_is_named_and_the_others_are_printed() -> None:
    given = argparse.Namespace(
        engines=["sqlite"], windows=["nobody knows it"], histories=[0], turns=2, warm_up=1, only=[], quick=True
    )
    given.skip_statements, given.skip_http, given.skip_throughput = False, True, True
    results = measure(given)
    text = markdown(results)
    assert "**Statements, SQLite failed**:\n\n```\nTraceback" in text
    assert "KeyError: 'nobody knows it'" in text
    assert "Tokens counted per second: " in text


TAKE_PART = "tests.support.side_by_side.take_part"
NO_APPS = {"DJANGO_SETTINGS_MODULE": "django.conf.global_settings"}


@pytest.mark.slow
def test_processes_begin_together_however_long_they_take_to_start() -> None:
    moments = in_workers(TAKE_PART, [{}, {}], NO_APPS)
    assert max(ready for ready, _ in moments) < min(begun for _, begun in moments)


@pytest.mark.slow
def test_a_process_that_fails_before_the_start_does_not_keep_the_others_waiting() -> None:
    with pytest.raises(WorkerError, match="unexpected keyword argument 'what'"):
        in_workers(TAKE_PART, [{}, {"what": 1}], NO_APPS)
