"""The table of docs/partitions.md with the shards that each operation asks, by the statements of each.

A statement that names a conversation asks its shard, and one that names none asks all. The soak compares the table with
what Citus sends to its nodes.
"""

from __future__ import annotations

import re
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchmarks.soak.citus.commands import ALL, documented, operations
from chatmemory.contrib.citus.distribution import CONVERSATIONS, NAMES, tables_of_rows
from chatmemory.models import Conversation
from tests.support.kept_names import where_names_are_kept

pytestmark = [pytest.mark.django_db(transaction=True), where_names_are_kept]

_TABLE = re.compile(r"\bchatmemory_\w+")
_UUID = re.compile(r"\b[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}\b")


def conversations() -> set[UUID]:
    return set(Conversation.objects.values_list("pk", flat=True))


def test_each_operation_asks_the_shards_of_the_table() -> None:
    told = documented()
    tables = {CONVERSATIONS, *tables_of_rows()}
    seen: set[str] = set()
    for name, act in operations("ann"):
        known = conversations()
        with CaptureQueriesContext(connection) as captured:
            act()
        known |= conversations()
        asked = told.pop(name)
        statements = [query["sql"] for query in captured.captured_queries]
        of_rows = [sql for sql in statements if tables & {*_TABLE.findall(sql)}]
        named = [{UUID(key) for key in _UUID.findall(sql)} & known for sql in of_rows]
        alone = [sql for sql, keys in zip(of_rows, named, strict=True) if not keys]
        names = sum(NAMES in sql for sql in statements)
        assert of_rows, name
        if asked.shards == ALL:
            assert alone, f"{name} names a conversation in each statement"
        else:
            assert alone == [], name
            assert asked.allows(len(set.union(*named)), names), (name, of_rows)
        seen |= {table for sql in statements for table in _TABLE.findall(sql)}
    assert told == {}, "the table has operations that are not there"
    assert tables - seen == set(), "no operation asks these tables, so nobody knows which shards they ask"
