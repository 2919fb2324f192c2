"""The threads and tasks that work for a request see the rows of its tenant alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection

from chatmemory.models import Conversation
from tests.support.factories import ConversationFactory
from tests.support.server import HttpClient, run_server
from tests.support.signalled import Signals
from tests.support.turn_streams import open_stream
from tests.support.turns import texts_of
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(connection.vendor != "postgresql", reason="schemas and policies are PostgreSQL's")

KINDS = {False: ("--workers=1", "--threads=4"), True: ("--workers", "1")}


@dataclass(frozen=True)
class TenantClient(HttpClient):
    """A client that says with each request which tenant it is of."""

    of_tenant: Mapping[str, str] = field(default_factory=dict)

    def headers(self, more: Mapping[str, str | None]) -> dict[str, str]:
        return super().headers({**self.of_tenant, **more})


def talk(ours: TenantClient, theirs: TenantClient, conversations: Sequence[str], signals: Signals) -> None:
    """Take turns in the first of all conversations of a tenant, so that each kind of thread works."""
    path, number = f"/api/conversations/{conversations[0]}/", len(conversations)
    assert theirs.request("GET", path).status == 404
    with open_stream(ours, f"{path}turns/", "wait followed") as stream:
        assert stream.piece() == "One "
        with open_stream(ours, f"{path}turns/stream/", method="GET") as follower:
            assert follower.next()["type"] == "start"
            signals.give("followed")
            assert texts_of(follower) == "One two."
        assert texts_of(stream) == "two."
    long = "tea-" * 2000  # worth a summary
    assert ours.request("POST", f"{path}turns/", {"message": long}).json()["answer"]["text"] == f"Re: {long}"
    with open_stream(ours, f"{path}turns/?on_disconnect=interrupt", "talk left") as stream:
        assert stream.piece() == "word "
    wait_until(lambda: signals.has("left.over"), "the model goes on")
    wait_until(lambda: ours.request("GET", path).json()["title"] == f"{number} in sight", "there is no title")

    def memory() -> list[Any]:
        return ours.request("GET", f"{path}memory/").json()["messages"]

    wait_until(lambda: f"{number} summarised" in json.dumps(memory()), "there is no summary")
    said = ours.request("GET", f"{path}messages/").json()["results"]
    assert [each["text"] for each in said][:4] == ["wait followed", "", f"{number}", "One two."]
    assert said[-1]["text"].startswith("word ")


@pytest.fixture(params=KINDS, ids=["WSGI", "ASGI"])
def asgi(request: Any) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module")
def schemas() -> dict[str, str]:
    return {
        "DJANGO_SETTINGS_MODULE": "tests.settings.schemas",
        "CHATMEMORY_TEST_NAME": f"test_chatmemory_tenants_{os.getpid()}",
    }


@pytest.fixture(scope="module")
def conversations(schemas: dict[str, str]) -> Iterator[dict[str, list[str]]]:
    pytest.importorskip("django_tenants")
    program = [sys.executable, "-m", "tests.tenants.schemas"]
    env = {**os.environ, **schemas}
    try:
        yield json.loads(subprocess.run(program, env=env, check=True, capture_output=True).stdout)
    finally:
        subprocess.run([*program, "drop"], env=env, check=True)


class TestSchemas:
    """django-tenants: the schema is an attribute of the connection, of which each thread has its own."""

    def test_each_thread_works_in_the_schema_of_the_request(
        self, conversations: dict[str, list[str]], schemas: dict[str, str], asgi: bool, tmp_path: Path
    ) -> None:
        log, more = tmp_path / "log", {**schemas, "CHATMEMORY_TEST_SIGNALS": str(tmp_path)}
        with run_server(log, "tests.settings.schemas", asgi=asgi, options=KINDS[asgi], environment=more) as port:
            own, other = ("globex", "acme") if asgi else ("acme", "globex")
            ours, theirs = (
                TenantClient(port, "ann", "password of ann", {"Host": f"{name}.localhost"}) for name in (own, other)
            )
            talk(ours, theirs, conversations[own], Signals(tmp_path))
        assert log.read_text() == ""


@pytest.mark.django_db(transaction=True)
class TestRows:
    """Row-level security: a setting of the session tells the policies whose rows there are."""

    @pytest.fixture
    def role(self, transactional_db: None) -> Iterator[str]:
        role = f"{connection.settings_dict['NAME']}_tenant"
        tables = {
            Conversation._meta.db_table: "owner_id::text = current_setting('app.tenant', true)",
            "chatmemory_message": f"conversation_id IN (SELECT id FROM {Conversation._meta.db_table})",
        }
        with connection.cursor() as cursor:
            cursor.execute(f'CREATE ROLE "{role}"')
            cursor.execute(f'GRANT ALL ON ALL TABLES IN SCHEMA public TO "{role}"')
            cursor.execute(f'GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO "{role}"')
            for table, condition in tables.items():
                cursor.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
                cursor.execute(f'CREATE POLICY tenant ON {table} TO "{role}" USING ({condition})')
        yield role
        with connection.cursor() as cursor:
            for table in tables:
                cursor.execute(f"DROP POLICY tenant ON {table}")
                cursor.execute(f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY")
            cursor.execute(f'DROP OWNED BY "{role}"')
            cursor.execute(f'DROP ROLE "{role}"')

    def test_each_connection_shows_the_rows_of_the_tenant(self, role: str, asgi: bool, tmp_path: Path) -> None:
        users = [get_user_model().objects.create_user(name, password="password") for name in ("ann", "bob")]
        window = {"title": "", "window": "messages", "limit": 8, "compact_at": 50, "compact_keep": 0}
        conversation, _theirs = (ConversationFactory(owner=user, **window) for user in users)
        log, environment = tmp_path / "log", {"CHATMEMORY_TEST_SIGNALS": str(tmp_path), "CHATMEMORY_TEST_ROLE": role}
        with run_server(log, "tests.settings.rows", asgi=asgi, options=KINDS[asgi], environment=environment) as port:
            ours = TenantClient(port, "ann", "password", {"X-Tenant": f"{users[0].pk}"})
            theirs = TenantClient(port, "ann", "password", {"X-Tenant": f"{users[1].pk}"})
            talk(ours, theirs, [str(conversation.pk)], Signals(tmp_path))
        assert log.read_text() == ""
