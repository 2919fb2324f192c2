"""Turns are for the owner, for staff with permissions, and at the rate and by the rules of the project."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.utils import timezone

from chatmemory import AiMessage, ToolExecutionRequest, UserMessage
from chatmemory.assistant.assistant import running_turn
from chatmemory.models import Conversation, Message
from tests.support.api import post, send, url
from tests.support.factories import ConversationFactory, UserFactory
from tests.support.planted import PERMISSIONS, member, planted, subsets
from tests.support.turns import ask, chat, chunks_of, said, stream, texts_of, ui_message

pytestmark = pytest.mark.django_db

WRITE = {"change_conversation", "read_message_text", "write_message_text"}


def signed_in(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


class TestOthers:
    @pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE"])
    @pytest.mark.parametrize("part", ["turns/", "turns/stream/"])
    def test_conversations_of_others_are_not_there(self, api: Client, method: str, part: str) -> None:
        if (method, part) in {("POST", "turns/stream/"), ("DELETE", "turns/stream/")}:
            pytest.skip("no such call")
        for owner in (UserFactory.create(), None):
            theirs = ConversationFactory.create(owner=owner)
            for accept in ("application/json", "text/event-stream", "*/*"):
                answer = send(api, method, url(theirs, part), {"message": "Hello"}, accept=accept)
                assert answer.status_code == 404
        assert Message.objects.count() == 0

    def test_nothing_without_signing_in(self, client: Client, conversation: Conversation) -> None:
        for answer in (
            ask(client, conversation, "Hello"),
            stream(client, conversation, "Hello"),
            chat(client, conversation, ui_message("Hello")),
            client.get(url(conversation, "turns/")),
            client.get(url(conversation, "turns/stream/")),
            client.delete(url(conversation, "turns/")),
        ):
            assert (answer.status_code, answer["Content-Type"]) == (403, "application/problem+json")
        assert said(conversation) == []

    def test_a_session_needs_the_csrf_token(self, user: Any, conversation: Conversation) -> None:
        client = Client(enforce_csrf_checks=True)
        client.force_login(user)
        assert ask(client, conversation, "Hello").status_code == 403
        assert client.delete(url(conversation, "turns/")).status_code == 403
        client.cookies["csrftoken"] = token = "x" * 32
        assert ask(client, conversation, "Hello", x_csrftoken=token).status_code == 200
        assert said(conversation) == ["Hello", "You said: Hello"]


class TestStaff:
    @pytest.mark.slow
    @pytest.mark.parametrize("as_stream", [False, True])
    def test_they_take_turns_with_the_permissions_to_write_and_read(self, as_stream: bool) -> None:
        for permissions in subsets():
            theirs = planted()
            user = member(permissions)
            take = stream if as_stream else ask
            answer = take(signed_in(user), theirs, "Hello", f"?owner={theirs.owner_id}")
            if not {*permissions} >= WRITE:
                assert answer.status_code == 404, permissions
                assert not LogEntry.objects.filter(user=user).exists()
                assert "Hello" not in said(theirs)
                continue
            if as_stream:
                assert texts_of(chunks_of(answer)) == "You said: Hello"
            assert answer.status_code == 200
            [entry] = LogEntry.objects.filter(user=user)
            assert entry.object_id == str(theirs.pk)
            assert "POST api/conversations/{conversation_id}/turns/" in entry.change_message
            assert "Hello" not in entry.change_message

    def test_a_turn_that_is_refused_is_not_recorded(self, settings: Any) -> None:
        settings.CHATMEMORY = {**settings.CHATMEMORY, "MAX_MEMORY_CHARS": 100}
        theirs = ConversationFactory.create(owner=UserFactory.create())
        client = signed_in(member())
        assert ask(client, theirs, None, "?owner=*").status_code == 409
        assert ask(client, theirs, "x" * 101, "?owner=*").status_code == 413
        theirs.memory.add(UserMessage("Hello"), idempotency_key="k")
        for text, status in ("Hello", 200), ("Hi", 422):
            assert ask(client, theirs, text, "?owner=*", idempotency_key="k").status_code == status
        assert LogEntry.objects.count() == 1
        Conversation.objects.update(turn_until=timezone.now() + timedelta(minutes=5))
        assert ask(client, theirs, "Hi", "?owner=*").status_code == 409
        assert LogEntry.objects.count() == 1

    @pytest.mark.slow
    @pytest.mark.parametrize("as_stream", [False, True])
    def test_each_turn_is_recorded(self, as_stream: bool) -> None:
        theirs = ConversationFactory.create(owner=UserFactory.create())
        client = signed_in(member())
        take = stream if as_stream else ask
        asked: list[tuple[str | None, dict[str, str]]] = [
            ("Hello", {}), ("Hello", {"idempotency_key": "k"}), ("Hello", {"idempotency_key": "k"}), (None, {}),
        ]  # fmt: skip
        for count, (text, headers) in enumerate(asked, 1):
            assert take(client, theirs, text, "?owner=*", **headers).status_code == 200
            assert LogEntry.objects.filter(object_id=str(theirs.pk)).count() == count
        for count, _ in enumerate(["first", "again"], len(asked) + 1):
            body = {"messages": [ui_message("Hello", id="0")]}
            answer = post(client, url(theirs, "turns/?owner=*"), body, accept="application/json")
            assert answer.json()["answer"]["text"] == "You said: Hello"
            assert LogEntry.objects.count() == count

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize("key", [None, "k"])
    def test_a_turn_that_cannot_be_recorded_is_not_taken(self, key: str | None) -> None:
        theirs = ConversationFactory.create(owner=UserFactory.create())
        theirs.memory.add(UserMessage("Hi"), AiMessage(tool_execution_requests=[ToolExecutionRequest("1", "tea")]))
        client = signed_in(member())
        headers = {} if key is None else {"idempotency_key": key}
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE django_admin_log RENAME TO away")
        try:
            assert ask(client, theirs, "Hello", "?owner=*", **headers).status_code == 500
            assert ask(client, theirs, None, "?owner=*").status_code == 500
        finally:
            with connection.cursor() as cursor:
                cursor.execute("ALTER TABLE away RENAME TO django_admin_log")
        assert "Hello" not in said(theirs)
        assert running_turn(theirs) is None
        assert ask(client, theirs, "Hello", "?owner=*", **headers).status_code == 200
        assert LogEntry.objects.count() == 1

    @pytest.mark.parametrize("missing", [*PERMISSIONS, None])
    def test_they_follow_a_turn_with_the_permission_to_read(self, missing: str | None) -> None:
        theirs = planted()
        theirs.memory.add(UserMessage("Hello"))
        Conversation.objects.update(turn=1, turn_until=timezone.now() + timedelta(minutes=5))
        client = signed_in(member({*PERMISSIONS} - {missing}))
        answer: Any = client.get(url(theirs, f"turns/stream/?owner={theirs.owner_id}"))
        # Who may change may see.
        if missing == "read_message_text":
            assert answer.status_code == 404
            assert LogEntry.objects.count() == 0
        else:
            assert b"start" in next(iter(answer.streaming_content))
            assert LogEntry.objects.count() == 1

    def test_a_tool_is_told_of_the_owner_and_the_request_of_who_asks(self) -> None:
        theirs = ConversationFactory.create(owner=UserFactory.create())
        answer = ask(signed_in(member()), theirs, "order 7", "?owner=*")
        assert answer.json()["answer"]["text"] == f"It says: order 7 of {theirs.owner} is on its way"


def test_turns_have_a_rate_of_their_own(api: Client, conversation: Conversation, settings: Any) -> None:
    cache.clear()
    rates = {"turns": "2/day", "writes": "1/day"}
    settings.CHATMEMORY = {**settings.CHATMEMORY, "THROTTLE_RATES": rates}
    for _ in range(2):
        assert ask(api, conversation, "Hello").status_code == 200
    for answer in (ask(api, conversation, "Hello"), stream(api, conversation, "Hello")):
        assert (answer.status_code, answer["Content-Type"]) == (429, "application/problem+json")
        assert int(answer["Retry-After"]) > 0
    assert api.get(url(conversation, "turns/")).status_code == 200
    assert api.delete(url(conversation, "turns/")).status_code == 204
    assert len(said(conversation)) == 4
    cache.clear()


class NoTurns:
    """A project's own rule: somebody else may talk, but not to the assistant."""

    def has_permission(self, request: Any, view: Any) -> bool:
        return getattr(view, "action", None) != "take"

    def has_object_permission(self, request: Any, view: Any, conversation: Conversation) -> bool:
        return True


def test_the_projects_permissions_are_asked(api: Client, conversation: Conversation, settings: Any) -> None:
    settings.CHATMEMORY = {**settings.CHATMEMORY, "PERMISSION_CLASSES": ["tests.turns.test_access.NoTurns"]}
    assert ask(api, conversation, "Hello").status_code == 403
    assert stream(api, conversation, "Hello").status_code == 403
    assert api.get(url(conversation, "turns/")).status_code == 200


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS"])
def test_other_methods_are_refused(api: Client, conversation: Conversation, method: str) -> None:
    for part in ("turns/", "turns/stream/"):
        assert send(api, method, url(conversation, part), {}).status_code == 405
    assert post(api, url(conversation, "turns/stream/"), {}).status_code == 405
