"""What tests/support/suites.py names for the suites of ``.ci/run`` is there, and the recorder tells what they lack."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection

from chatmemory.models import Conversation
from tests.support.paths import ROOT
from tests.support.statement_texts import Record, Statements, text_of
from tests.support.suites import (
    BESIDES,
    BY_STATEMENTS,
    ONLY_ON_SQLITE,
    RUN_ONCE,
    SUITES,
    WITH_ALL_PARAMETERS,
    files_of,
    is_collected_by,
    is_in,
    run_by_suites,
)
from tests.tools.choose_suites import choose

FILES = {file.relative_to(ROOT).as_posix() for file in (ROOT / "tests").rglob("test_*.py")}


@pytest.mark.parametrize("suite", SUITES)
class TestASuite:
    def test_what_it_names_is_there(self, suite: str) -> None:
        assert files_of(suite) - FILES == set()

    def test_names_each_file_once_and_in_order(self, suite: str) -> None:
        assert BY_STATEMENTS[suite] == sorted({*BY_STATEMENTS[suite]} - {*BESIDES[suite]})

    def test_runs_nothing_that_is_for_sqlite(self, suite: str) -> None:
        assert [file for file in files_of(suite) if is_in(ONLY_ON_SQLITE, file)] == []

    def test_is_run(self, suite: str) -> None:
        assert f"--suite {suite}\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_what_all_suites_name_is_there() -> None:
    assert [name for name in ONLY_ON_SQLITE if not (ROOT / name).exists()] == []
    assert {*WITH_ALL_PARAMETERS} <= set().union(*map(files_of, SUITES))
    for test in RUN_ONCE:
        file, _, name = test.partition("::")
        assert f"def {name.rpartition('::')[2]}(" in (ROOT / file).read_text(encoding="utf-8")


def test_a_suite_collects_its_files_and_their_folders() -> None:
    file = BY_STATEMENTS["mariadb"][0]
    assert is_collected_by("mariadb", ROOT / file)
    assert is_collected_by("mariadb", (ROOT / file).parent)
    assert not is_collected_by("mariadb", ROOT / "tests" / "demo")


def test_of_many_parameters_a_suite_runs_some() -> None:
    items: Any = [SimpleNamespace(nodeid=f"tests/test_docs.py::test[{number}]") for number in range(11)]
    assert run_by_suites(items) == {f"tests/test_docs.py::test[{number}]" for number in (0, 1, 4, 8)}
    dear: Any = [SimpleNamespace(nodeid=test) for test in RUN_ONCE]
    assert run_by_suites(dear) == set()


class TestTexts:
    @pytest.mark.parametrize(
        ("sql", "text"),
        [
            ("SELECT 1 FROM a  WHERE b = 'it''s' AND c=%s LIMIT 21", "SELECT ? FROM a WHERE b = ? AND c=? LIMIT ?"),
            ('SELECT "t1"."id" FROM "t1" WHERE "id" IN (%s, %s, %s)', 'SELECT "t1"."id" FROM "t1" WHERE "id" IN (?)'),
            ("INSERT INTO a VALUES (%s, NULL), (%s, NULL), (%s, NULL)", "INSERT INTO a VALUES (?, NULL)"),
            ("SELECT a FROM b WHERE (a LIKE %s OR a LIKE %s OR a LIKE %s)", "SELECT a FROM b WHERE (a LIKE ?)"),
            (
                "UPDATE a SET b = CASE WHEN c = 1 THEN 2 WHEN c = 3 THEN 4 END",
                "UPDATE a SET b = CASE WHEN c = ? THEN ? END",
            ),
            ("SELECT %s, %s UNION ALL SELECT %s, %s", "SELECT ?"),
            ('RELEASE SAVEPOINT "s140_x3"', "RELEASE SAVEPOINT ?"),
        ],
    )
    def test_have_no_values(self, sql: str, text: str) -> None:
        assert text_of(sql) == text


def test_only_what_the_product_sends_is_recorded(user: User) -> None:
    conversation = Conversation.objects.create(owner=user)
    statements = Statements()
    statements.begin("tests/a.py", first=True)
    with connection.execute_wrapper(statements.execute):
        assert conversation.memory.messages() == []
        assert User.objects.count() == 1
    texts = statements.record.texts_of("tests/a.py", whole=False)
    assert any("chatmemory_message" in text for text in texts)
    assert not any("auth_user" in text for text in texts)


def test_what_no_file_of_a_suite_has_is_lacking() -> None:
    in_suite, new = BY_STATEMENTS["mariadb"][0], "tests/rest/test_new.py"
    texts = ["SELECT ?", "UPDATE a"]
    record = Record.from_json({"texts": texts, "parts": [[in_suite, True, 1.0, [0]], [new, True, 1.0, [0, 1]]]})
    assert record.lacking("mariadb") == {"UPDATE a": [new]}
    further = Record.from_json({"texts": texts, "parts": [[in_suite, False, 1.0, [1]]]})
    further.add(record)
    assert further.lacking("mariadb") == {"UPDATE a": [in_suite, new]}
    assert Record.from_json(further.as_json()).lacking("mariadb") == further.lacking("mariadb")


def test_the_quickest_files_with_all_statements_are_chosen() -> None:
    texts = {("a", False): {"1", "2"}, ("b", False): {"2", "3"}, ("b", True): {"2", "3", "4"}, ("c", False): {"1"}}
    seconds = {("a", False): 9.0, ("b", False): 1.0, ("b", True): 2.0, ("c", False): 1.0}
    assert choose(texts, seconds, {"1", "2", "3"}) == [("b", False), ("c", False)]
    assert choose(texts, seconds, {"1", "2", "4"}) == [("b", True), ("c", False)]
