"""Feedback over REST. Who may, is asked of all calls in tests/rest/test_staff.py and tests/rest/test_isolation.py."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from chatmemory import AiMessage, UserMessage
from chatmemory.contrib.feedback.giving import give_feedback
from chatmemory.contrib.feedback.models import Feedback
from chatmemory.models import Conversation
from tests.support.api import send, url
from tests.support.factories import ConversationFactory, UserFactory
from tests.support.planted import member

pytestmark = pytest.mark.django_db


@pytest.fixture
def conversation(user: Any) -> Conversation:
    made: Conversation = ConversationFactory(owner=user)
    made.memory.add(UserMessage("What is a cat?"), AiMessage("An animal."))
    return made


def signed_in(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def give(client: Client, conversation: Conversation, body: Any, position: Any = 1, query: str = "") -> Any:
    return send(client, "PUT", url(conversation, f"messages/{position}/feedback/{query}"), body)


class TestGiving:
    def test_what_one_gave_is_at_the_message(self, api: Client, conversation: Conversation) -> None:
        answer = give(api, conversation, {"value": "down", "comment": " Too short. "})
        assert answer.status_code == 200
        told = answer.json()
        assert (told["position"], told["value"], told["comment"]) == (1, "down", "Too short.")
        assert "user" not in told
        messages = api.get(url(conversation, "messages/")).json()["results"]
        assert [each["feedback"] for each in messages] == [None, told]
        assert api.get(url(conversation, "messages/1/")).json()["feedback"] == told
        again = give(api, conversation, {"value": "up"}).json()
        assert (again["value"], again["comment"], again["created_at"]) == ("up", "", told["created_at"])
        for _ in range(2):
            answer = send(api, "DELETE", url(conversation, "messages/1/feedback/"), "")
            assert (answer.status_code, answer.content) == (204, b"")
        assert api.get(url(conversation, "messages/1/")).json()["feedback"] is None

    @pytest.mark.parametrize(
        ("body", "place", "code"),
        [
            ({}, "value", "required"),
            ({"value": "good"}, "value", "invalid_choice"),
            ({"value": 1}, "value", "invalid_type"),
            ({"value": None}, "value", "null"),
            ({"value": "up", "comment": None}, "comment", "null"),
            ({"value": "up", "comment": "x" * 1001}, "comment", "max_length"),
            ({"value": "up", "comment": "a\x00"}, "comment", "invalid_characters"),
            ({"value": "up", "user": 1}, "user", "unknown_field"),
        ],
    )
    def test_a_wrong_body_is_refused(
        self, api: Client, conversation: Conversation, body: Any, place: str, code: str
    ) -> None:
        answer = give(api, conversation, body)
        [error] = answer.json()["errors"]
        assert (answer.status_code, error["place"], error["code"]) == (400, place, code)
        assert Feedback.objects.count() == 0

    def test_only_answers_are_rated(self, api: Client, conversation: Conversation) -> None:
        answer = give(api, conversation, {"value": "up"}, position=0)
        [error] = answer.json()["errors"]
        assert (answer.status_code, error["place"]) == (400, "position")
        assert error["detail"] == "message 0 is not an answer of the model; only answers can be rated"
        for position in (2, "-1", "x", "9" * 30):
            assert give(api, conversation, {"value": "up"}, position=position).status_code == 404
        assert Feedback.objects.count() == 0


class TestList:
    def test_owners_see_their_own_and_staff_see_all(self, api: Client, user: Any, conversation: Conversation) -> None:
        staff = member(["view_conversation", "read_message_text"])
        give(api, conversation, {"value": "down", "comment": "Why?"})
        assert give(signed_in(staff), conversation, {"value": "up"}, query="?owner=*").status_code == 200
        [mine] = api.get(url(conversation, "feedback/")).json()["results"]
        assert (mine["value"], mine["comment"]) == ("down", "Why?")
        assert "user" not in mine
        found = signed_in(staff).get(url(conversation, "feedback/?owner=*")).json()["results"]
        assert [(each["user"], each["value"], each["comment"]) for each in found] == [
            (staff.pk, "up", ""), (user.pk, "down", "Why?"),
        ]  # fmt: skip
        found = signed_in(staff).get(url(conversation, "feedback/?owner=*&value=down")).json()["results"]
        assert [each["user"] for each in found] == [user.pk]
        messages = signed_in(staff).get(url(conversation, "messages/?owner=*")).json()["results"]
        assert messages[1]["feedback"]["value"] == "up"  # their own

    def test_comments_are_for_those_who_may_read(self, api: Client, conversation: Conversation) -> None:
        give(api, conversation, {"value": "down", "comment": "Why?"})
        blind = signed_in(member(["view_conversation"]))
        [told] = blind.get(url(conversation, "feedback/?owner=*")).json()["results"]
        assert (told["value"], told["comment"]) == ("down", "")
        assert give(blind, conversation, {"value": "up"}, query="?owner=*").status_code == 404

    def test_who_reads_comments_is_recorded(self, api: Client, conversation: Conversation, admin_user: Any) -> None:
        from django.contrib.admin.models import LogEntry

        client = signed_in(admin_user)
        for comment, entries in (("", 0), ("Why?", 1)):
            give(api, conversation, {"value": "down", "comment": comment})
            client.get(url(conversation, "feedback/?owner=*"))
            assert LogEntry.objects.count() == entries
        give(client, conversation, {"value": "up", "comment": "secret"}, query="?owner=*")
        entry = LogEntry.objects.order_by("pk").last()
        assert entry is not None
        assert "/messages/1/feedback/" in entry.change_message
        assert '{"feedback": "up"}' in entry.change_message

    def test_it_comes_in_pages(self, api: Client, user: Any, conversation: Conversation) -> None:
        for number in range(3):
            conversation.memory.add(AiMessage(f"Answer {number}"))
            give_feedback(conversation, number + 2, user, "up")
        page = api.get(url(conversation, "feedback/?page_size=2")).json()
        assert [each["position"] for each in page["results"]] == [4, 3]
        assert [each["position"] for each in api.get(page["next"]).json()["results"]] == [2]
        oldest = api.get(url(conversation, "feedback/?ordering=created_at")).json()["results"]
        assert [each["position"] for each in oldest] == [2, 3, 4]
        assert api.get(url(conversation, "feedback/?value=good")).status_code == 400
        assert api.get(url(conversation, "feedback/?cursor=cD14")).status_code == 400


def test_a_page_of_messages_asks_once(api: Client, user: Any, conversation: Conversation) -> None:
    counts = []
    for number in range(3):
        with CaptureQueriesContext(connection) as queries:
            api.get(url(conversation, "messages/"))
        counts.append(len(queries))
        conversation.memory.add(AiMessage(f"Answer {number}"))
        give_feedback(conversation, number + 2, user, "up")
    assert counts[0] == counts[1] == counts[2]


def test_another_user_finds_nothing(conversation: Conversation) -> None:
    stranger = signed_in(UserFactory())
    for query in ("", "?owner=*"):
        assert give(stranger, conversation, {"value": "up"}, query=query).status_code == 404
        assert stranger.get(url(conversation, f"feedback/{query}")).status_code == 404
