"""What the suites of ``.ci/run`` leave out is there, and is asked elsewhere."""

from __future__ import annotations

import pytest

from tests.support.paths import ROOT
from tests.support.suites import ASK_NO_DATABASE, LEFT_OUT, SUITES, reason_to_leave_out_of


@pytest.mark.parametrize("suite", SUITES)
def test_what_is_left_out_is_there(suite: str) -> None:
    assert [name for name in (*ASK_NO_DATABASE, *LEFT_OUT[suite]) if not (ROOT / name).exists()] == []


def test_what_asks_no_database_asks_none(request: pytest.FixtureRequest) -> None:
    """Of the tests of this run. pytest-django lets no test have a database that does not say so."""
    asking = {item.nodeid.partition("::")[0] for item in request.session.items if asks_a_database(item)}
    assert asking & {*ASK_NO_DATABASE} == set()


def asks_a_database(item: pytest.Item) -> bool:
    named = {"db", "transactional_db", "django_db_setup"} & {*getattr(item, "fixturenames", ())}
    return bool(named) or item.get_closest_marker("django_db") is not None


def test_postgresql_is_asked_all_that_asks_a_database() -> None:
    files = {file.relative_to(ROOT).as_posix(): file for file in (ROOT / "tests").rglob("test_*.py")}
    left_out = {
        name
        for name, file in files.items()
        if all(reason_to_leave_out_of(suite, file) for suite in ("postgresql", "divided"))
    }
    assert left_out == {*ASK_NO_DATABASE}


@pytest.mark.parametrize("suite", SUITES)
def test_is_run(suite: str) -> None:
    assert f"--suite {suite}\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
