"""The command that makes every constraint one about a conversation; distributing the tables is for several nodes."""

from __future__ import annotations

import re
from io import StringIO
from typing import Any

import pytest
from django.apps import apps
from django.core.checks import run_checks
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client

from chatmemory.contrib.citus.distribution import Catalog, Users, sequence_steps, shard_steps
from chatmemory.models import Conversation, TokenCalibration
from chatmemory.verification import verify
from tests.support.api import post
from tests.support.factories import UserFactory
from tests.support.kept_names import led_to, where_names_are_kept

pytestmark = [pytest.mark.django_db(transaction=True), where_names_are_kept]


def constraints() -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint ORDER BY 1, 2")
        return list(cursor.fetchall())


def test_whatever_is_unique_has_the_conversation() -> None:
    """Constraints, the primary keys among them, and indexes that are none."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname, ARRAY(SELECT pg_get_indexdef(indexrelid, place, false) "
            "FROM generate_series(1, indnkeyatts) place) FROM pg_index JOIN pg_class ON pg_class.oid = indrelid "
            "WHERE (indisunique OR indisexclusion) AND relname LIKE 'chatmemory%'"
        )
        found = cursor.fetchall()
    ours = [model._meta.db_table for model in apps.get_models() if model.__module__.startswith("chatmemory.")]
    assert {table for table, _columns in found} >= {*ours}
    alone = sorted((table, columns) for table, columns in found if "conversation_id" not in columns)
    on_the_coordinator = {TokenCalibration._meta.db_table}
    assert [each for each in alone if each[0] not in on_the_coordinator] == [
        ("chatmemory_citus_name", ["digest"]),
        ("chatmemory_conversation", ["id"]),
    ]


def test_again_changes_nothing() -> None:
    Conversation.objects.create(memory_id="a")
    before = constraints()
    out = StringIO()
    call_command("chatmemory_distribute", "--constraints-only", stdout=out)
    assert out.getvalue() == "Give every conversation that has none its name.\n"
    assert constraints() == before
    assert list(verify()) == []


def test_it_gives_names_to_what_has_none(api: Client, user: Any) -> None:
    post(api, "/api/conversations/", {"title": "Tea", "memory_id": "お茶"}, idempotency_key="鍵")
    Conversation.objects.create(memory_id="お茶")
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM chatmemory_citus_name")
    out = StringIO()
    call_command("chatmemory_distribute", "--constraints-only", "--dry-run", stdout=out)
    assert "Nothing was changed." in out.getvalue()
    assert led_to() == []
    call_command("chatmemory_distribute", "--constraints-only", stdout=out)
    assert len(led_to()) == 3
    assert list(verify()) == []


@pytest.mark.parametrize("users", ["reference", "local"])
def test_tables_are_distributed_without_any_foreign_key(users: Users) -> None:
    """Citus takes in what refers to its tables, and alters no table to which it copied rows with a deferred key."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conrelid::regclass::text, quote_ident(conname), confrelid = 'auth_user'::regclass "
            "FROM pg_constraint WHERE contype = 'f' AND conparentid = 0 AND conrelid::regclass::text LIKE 'chatmemory%'"
        )
        keys = {(table, name.strip('"')): to_users for table, name, to_users in cursor.fetchall()}
    assert {table for (table, _name), to_users in keys.items() if to_users} == {
        "chatmemory_branch",
        "chatmemory_conversation",
        "chatmemory_feedback_feedback",
    }
    steps = [step.sql for step in shard_steps(Catalog(connection), users, 4)]
    distributing = [number for number, sql in enumerate(steps) if "SELECT create_" in sql]
    assert distributing == list(range(distributing[0], distributing[-1] + 1))
    dropped = re.findall(r'ALTER TABLE (\w+) DROP CONSTRAINT "(\w+)"', "\n".join(steps[: distributing[0]]))
    added = re.findall(r'ALTER TABLE (\w+) ADD CONSTRAINT "(\w+)"', "\n".join(steps[distributing[-1] + 1 :]))
    assert sorted(dropped) == sorted(keys)
    assert sorted(added) == sorted(key for key, to_users in keys.items() if users == "reference" or not to_users)
    assert not [sql for sql in steps if "DEFERRABLE" in sql]


def test_sequences_that_begin_again_go_on() -> None:
    """Citus makes new tables of those that refer to users, with new sequences."""
    last = UserFactory()
    catalog = Catalog(connection)
    before = catalog.sequences()
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE auth_user ALTER COLUMN id RESTART")
        steps = [step.sql for step in sequence_steps(catalog, before)]
        assert len(steps) == 1
        cursor.execute(steps[0])
    assert UserFactory().pk == last.pk + 1
    assert list(sequence_steps(catalog, before)) == []


def test_without_citus_it_says_what_is_missing() -> None:
    with pytest.raises(CommandError, match="does not have the extension citus: run CREATE EXTENSION"):
        call_command("chatmemory_distribute")
    with pytest.raises(CommandError, match="'other' is sqlite"):
        call_command("chatmemory_distribute", "--constraints-only", "--database=other")


class Nodes:
    """A router that sends conversations to another node than users."""

    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return "other node" if model is Conversation else None


@pytest.mark.django_db(databases="__all__")
def test_a_router_may_name_several_nodes(settings: Any) -> None:
    settings.DATABASE_ROUTERS = [Nodes()]
    assert [error for error in run_checks() if error.id.startswith("chatmemory.")] == []
