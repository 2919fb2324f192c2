"""What the admin's log says of what staff did to the conversations of others over REST."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from django.contrib.admin.models import ADDITION, CHANGE, DELETION, LogEntry
from django.db import connection

from chatmemory import UserMessage
from chatmemory.models import Conversation
from tests.rest.test_isolation import everything
from tests.rest.test_staff import CALLS, address, signed_in
from tests.support.api import USER, patch, post, put, send, url
from tests.support.planted import member, planted, said_in

pytestmark = pytest.mark.django_db


WITHOUT_ADMIN = """
import django
from django.conf import settings
from tests.settings import base as own

names = {name: getattr(own, name) for name in dir(own) if name.isupper()}
names["INSTALLED_APPS"] = [app for app in own.INSTALLED_APPS if app != "django.contrib.admin"]
names["DATABASES"] = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
names["ROOT_URLCONF"] = "tests.support.api_alone"
names["ALLOWED_HOSTS"] = ["*"]
settings.configure(**names)
django.setup()
from django.core.management import call_command

call_command("migrate", verbosity=0)
from django.contrib.auth import get_user_model
from django.test import Client
from chatmemory import UserMessage
from chatmemory.models import Conversation

theirs = Conversation.objects.create()
theirs.memory.add(UserMessage("Hello"))
client = Client()
client.force_login(get_user_model().objects.create(username="s", is_staff=True, is_superuser=True))
assert client.get(f"/api/conversations/{theirs.pk}/messages/?owner=*").status_code == 200
assert client.delete(f"/api/conversations/{theirs.pk}/memory/?owner=*").status_code == 204
"""


class TestTheRecord:
    """What the admin's log says of what staff did over REST."""

    @pytest.fixture
    def theirs(self) -> Conversation:
        return planted()

    @pytest.fixture
    def user(self) -> Any:
        return member()

    def entries(self) -> list[tuple[Any, ...]]:
        return list(
            LogEntry.objects.order_by("pk").values_list("user_id", "object_id", "action_flag", "change_message")
        )

    @pytest.mark.parametrize("path", ["", "{}/messages/"])
    def test_says_who_asked_for_the_length_of_an_answer(self, user: Any, theirs: Conversation, path: str) -> None:
        signed_in(user).head(f"/api/conversations/{path.format(theirs.pk)}?owner=*&search=tea")
        assert [said.endswith("?owner=%2A&search=tea") for *_, said in self.entries()] == [True]

    def test_says_who_read_what(self, user: Any, theirs: Conversation) -> None:
        client, key = signed_in(user), str(theirs.pk)
        client.get(url(theirs, "messages/"), {"owner": "*", "search": "tea & cake"})
        client.get(url(theirs, "messages/1/?owner=*"))
        client.get(url(theirs, f"memory/?at=1&owner={theirs.owner_id}"))
        client.get("/api/conversations/?owner=*&search=tea")
        base = "REST: GET api/conversations/"
        assert self.entries() == [
            (
                user.pk,
                key,
                CHANGE,
                f"{base}{{conversation_id}}/messages/?owner=*&search=tea+%26+cake".replace("*", "%2A"),
            ),
            (user.pk, key, CHANGE, f"{base}{{conversation_id}}/messages/1/?owner=%2A"),
            (user.pk, key, CHANGE, f"{base}{{conversation_id}}/memory/?at=1&owner={theirs.owner_id}"),
            (user.pk, None, CHANGE, f"{base}?owner=%2A&search=tea"),
        ]

    def test_says_what_was_changed_but_no_words(self, user: Any, theirs: Conversation) -> None:
        client, query = signed_in(user), f"?owner={theirs.owner_id}"
        made = post(client, f"/api/conversations/{query}", {"title": "plantedTitle", "metadata": {"plantedKey": 1}})
        post(client, url(theirs, f"messages/{query}"), USER)
        patch(client, url(theirs, query), {"limit": 2, "title": "plantedOther"})
        client.delete(url(theirs, f"memory/{query}"))
        client.delete(url(theirs, query))
        found = self.entries()
        assert [(entry[1], entry[2]) for entry in found] == [
            (made.json()["id"], ADDITION),
            *[(str(theirs.pk), CHANGE)] * 3,
            (str(theirs.pk), DELETION),
        ]
        assert '{"added": 1, "evicted": 2, "version": 3}' in found[1][3]
        assert '"limit": 2' in found[2][3]
        assert '"described": ["title"]' in found[2][3]
        assert not any("planted" in entry[3] for entry in found)

    def test_says_who_sent_words_to_the_summarizer_whatever_came_of_it(
        self, user: Any, theirs: Conversation, settings: Any
    ) -> None:
        client, query = signed_in(user), f"?owner={theirs.owner_id}"
        theirs.memory.add(UserMessage("plantedLong " * 500))
        theirs.memory.add(UserMessage("What next?"))
        assert post(client, url(theirs, f"compaction/{query}"), {}).status_code == 409
        assert self.entries() == []
        for name, status in (("raises", 502), ("brief", 200)):
            settings.CHATMEMORY = {"USERS": "all", "SUMMARIZER": f"tests.rest.test_compaction.{name}"}
            assert post(client, url(theirs, f"compaction/{query}"), {"keep": 10}).status_code == status
        said = [entry[3] for entry in self.entries()]
        assert len(said) == 2
        assert all("POST api/conversations/{conversation_id}/compaction/" in each for each in said)
        assert all(each.endswith('{"keep": 10}') for each in said)

    @pytest.mark.slow
    def test_is_written_with_the_change_or_neither_is(self, user: Any, theirs: Conversation) -> None:
        def without_log(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
            if "INSERT" in sql and "django_admin_log" in sql:
                raise RuntimeError("the log is full")
            return execute(sql, params, many, context)

        client = signed_in(user)
        client.raise_request_exception = False
        before = everything()
        with connection.execute_wrapper(without_log):
            # These leave no record; feedback does if it has comments.
            silent = ("compaction", "turn-stream", "feedback", "usage", "conversation-usage")
            without_words = {(name, "GET") for name in silent}
            without_words.add(("memory-replay", "POST"))
            for name, method in CALLS.keys() - without_words:
                path = address(name, theirs, f"owner={theirs.owner_id}")
                answer = send(client, method, path, CALLS[name, method][1] or {})
                assert (answer.status_code, said_in(answer)) == (500, set()), (name, method)
        assert everything() == before

    def test_nothing_is_written_of_what_was_refused(self, user: Any, theirs: Conversation) -> None:
        client, query = signed_in(user), f"?owner={theirs.owner_id}"
        tag = client.get(url(theirs, f"memory/{query}"))["ETag"]
        LogEntry.objects.all().delete()
        assert client.get(url(theirs, f"memory/{query}"), headers={"If-None-Match": tag}).status_code == 304
        assert client.head(url(theirs, f"messages/{query}")).status_code == 200
        assert client.get(url(theirs, f"messages/77/{query}")).status_code == 404
        assert put(client, url(theirs, f"memory/{query}"), {"messages": []}, if_match='"99"').status_code == 412
        assert client.delete(url(theirs, query), headers={"If-Match": '"99"'}).status_code == 412
        assert post(client, url(theirs, f"messages/{query}"), {"type": "NOBODY"}).status_code == 400
        assert self.entries() == []

    @pytest.mark.slow
    def test_without_the_admin_a_logger_says_it(self) -> None:
        done = subprocess.run([sys.executable, "-c", WITHOUT_ADMIN], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        [read, changed] = [line for line in done.stderr.splitlines() if "conversation" in line]
        assert "REST: GET api/conversations/{conversation_id}/messages/?owner=%2A" in read
        assert "REST: DELETE api/conversations/{conversation_id}/memory/?owner=%2A" in changed
        assert all(line.startswith("user ") for line in (read, changed))

    def test_has_its_figures_as_json(self, user: Any, theirs: Conversation) -> None:
        patch(signed_in(user), url(theirs, "?owner=*"), {"limit": 3, "model": "gpt-4"})
        said = LogEntry.objects.get().change_message
        assert json.loads(said[said.index("{", said.index("?")) :])["model"] == "gpt-4"
