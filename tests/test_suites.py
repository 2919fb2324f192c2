"""What the suites of ``.ci/run`` leave out is there, and is asked elsewhere."""

from __future__ import annotations

import pytest

from tests.support.paths import ROOT
from tests.support.suites import ASK_NO_DATABASE, ONLY_ON_SQLITE, RULES, SUITES, reason_to_leave_out_of

FILES = {file.relative_to(ROOT).as_posix(): file for file in (ROOT / "tests").rglob("test_*.py")}


@pytest.mark.parametrize("suite", SUITES)
def test_what_the_rules_name_is_there(suite: str) -> None:
    assert [name for name in (*ASK_NO_DATABASE, *ONLY_ON_SQLITE, *RULES[suite]) if not (ROOT / name).exists()] == []


def test_what_asks_no_database_asks_none(request: pytest.FixtureRequest) -> None:
    """Of the tests of this run. pytest-django lets no test have a database that does not say so."""
    asking = {item.nodeid.partition("::")[0] for item in request.session.items if asks_a_database(item)}
    assert asking & {*ASK_NO_DATABASE} == set()


def asks_a_database(item: pytest.Item) -> bool:
    named = {"db", "transactional_db", "django_db_setup"} & {*getattr(item, "fixturenames", ())}
    return bool(named) or item.get_closest_marker("django_db") is not None


def test_postgresql_is_asked_all_else_that_asks_a_database() -> None:
    left_out = {
        name
        for name, file in FILES.items()
        if all(reason_to_leave_out_of(suite, file) for suite in ("postgresql", "divided"))
    }
    assert left_out == {name for name in FILES if name.startswith((*ASK_NO_DATABASE, *ONLY_ON_SQLITE))}


def test_what_a_folder_has_is_run_where_a_rule_says_so() -> None:
    run = {name for name, file in FILES.items() if not reason_to_leave_out_of("mariadb", file)}
    assert "tests/admin/test_lists.py" in run
    assert "tests/admin/test_windows.py" not in run
    assert "tests/rest/test_memory.py" in run
    assert reason_to_leave_out_of("mariadb", ROOT / "tests" / "admin") is None
    assert reason_to_leave_out_of("mariadb", ROOT / "tests" / "demo")


@pytest.mark.parametrize("suite", SUITES)
def test_is_run(suite: str) -> None:
    assert f"--suite {suite}\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
