"""The API as a frontend meets it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from chatmemory import AiMessage, SystemMessage, UserMessage
from chatmemory.models import Conversation, Message
from chatmemory.urls import urlpatterns
from tests.factories import ConversationFactory, UserFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def user() -> Any:
    return UserFactory()


@pytest.fixture
def api(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def url(conversation: Conversation, part: str = "") -> str:
    return f"/api/conversations/{conversation.pk}/{part}"


def post(client: Client, path: str, body: Any) -> Any:
    text = body if isinstance(body, (str, bytes)) else json.dumps(body)
    return client.post(path, text, content_type="application/json")


USER = {"contents": [{"text": "Hello", "type": "TEXT"}], "type": "USER"}


def test_a_whole_chat(api: Client) -> None:
    created = post(api, "/api/conversations/", {"memory_id": "a", "title": "T", "window": "messages", "limit": 2})
    assert created.status_code == 201
    conversation = created.json()
    assert set(conversation) == {
        "id", "memory_id", "title", "metadata", "window", "limit", "model", "always_keep_system_message_first",
        "version", "message_count", "retained_count", "retained_tokens", "created_at", "updated_at",
    }  # fmt: skip
    base = f"/api/conversations/{conversation['id']}/"

    first = post(api, base + "messages/", USER)
    assert first.status_code == 201
    assert first.json()["memory"] == {"window": "messages", "limit": 2, "messages": 1, "tokens": 5}
    batch = [{"text": "Hi", "type": "AI"}, USER]
    second = post(api, base + "messages/", {"messages": batch}).json()
    assert [item["text"] for item in second["added"]] == ["Hi", "Hello"]
    [gone] = second["evicted"]
    assert set(gone) == {
        "position", "type", "text", "message", "state", "reason", "token_count", "synthetic", "added_in",
        "evicted_in", "evicted_at", "created_at",
    }  # fmt: skip
    assert (gone["position"], gone["state"], gone["reason"], gone["evicted_in"]) == (0, "evicted", "window", 2)
    assert second["version"] == 2

    history = api.get(base + "messages/").json()["results"]
    assert [(item["position"], item["state"]) for item in history] == [(0, "evicted"), (1, "retained"), (2, "retained")]
    assert history[0]["message"] == USER
    memory = api.get(base + "memory/").json()
    assert [message["type"] for message in memory["messages"]] == ["AI", "USER"]
    assert (memory["window"], memory["limit"], memory["version"]) == ("messages", 2, 2)
    assert memory["tokens"] == sum(item["token_count"] for item in history[1:])

    assert api.delete(base + "memory/").status_code == 204
    assert api.get(base + "memory/").json()["messages"] == []
    assert len(api.get(base + "messages/").json()["results"]) == 3
    assert api.get(base).json()["message_count"] == 3


def test_history_pages_both_ways_and_filters(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user, window="messages", limit=3)
    conversation.memory.add(*(UserMessage(f"u{number}") for number in range(7)))
    page = api.get(url(conversation, "messages/?page_size=4")).json()
    assert [item["position"] for item in page["results"]] == [0, 1, 2, 3]
    assert [item["position"] for item in api.get(page["next"]).json()["results"]] == [4, 5, 6]
    newest = api.get(url(conversation, "messages/?ordering=-position&page_size=2")).json()
    assert [item["position"] for item in newest["results"]] == [6, 5]
    retained = api.get(url(conversation, "messages/?state=retained")).json()["results"]
    assert [item["position"] for item in retained] == [4, 5, 6]
    assert api.get(url(conversation, "messages/?reason=orphan")).json()["results"] == []
    assert api.get(url(conversation, "messages/?type=NOBODY")).status_code == 400


def test_the_list_is_filtered_and_newest_first(api: Client, user: Any) -> None:
    old, new = ConversationFactory(owner=user, title="Old one"), ConversationFactory(owner=user, title="New")
    assert [item["id"] for item in api.get("/api/conversations/").json()["results"]] == [str(new.pk), str(old.pk)]
    old.memory.add(UserMessage("again"))
    assert [item["id"] for item in api.get("/api/conversations/").json()["results"]] == [str(old.pk), str(new.pk)]
    [found] = api.get("/api/conversations/?title=old").json()["results"]
    assert found["id"] == str(old.pk)


def test_a_memory_id_that_exists_is_a_conflict(api: Client) -> None:
    assert post(api, "/api/conversations/", {"memory_id": " x"}).status_code == 201
    assert post(api, "/api/conversations/", {"memory_id": "x"}).status_code == 201
    again = post(api, "/api/conversations/", {"memory_id": "x"})
    assert again.status_code == 409
    assert "'x'" in again.json()["detail"]


def test_an_equal_system_message_adds_nothing(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user)
    conversation.memory.add(SystemMessage("Be kind"))
    answer = post(api, url(conversation, "messages/"), {"text": "Be kind", "type": "SYSTEM"}).json()
    assert (answer["added"], answer["version"]) == ([], 1)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("nonsense", "not JSON"),
        ("", "type: expected one of"),
        (b"\xff\xfe", "not UTF-8"),
        ("[" * 5000 + "]" * 5000, "levels deep"),
        ('{"a":' * 600 + "1" + "}" * 600, "levels deep"),
        ("[1]", "expected an object, got a list"),
        ("null", "expected an object, got null"),
        ("{}", "type: expected one of"),
        ({"messages": []}, "at least one message"),
        ({"messages": None}, "messages: expected a list"),
        ({"messages": "x"}, "messages: expected a list"),
        ({"messages": [USER], "more": 1}, "more: unknown field"),
        ({"messages": [USER, {"type": "USER", "contents": [{"type": "TEXT", "text": 5}]}]}, "messages[1].contents[0].text: expected a string"),  # noqa: E501
        ({"type": "AI", "text": "a\x00b"}, "U+0000"),
        ('{"type": "AI", "text": "\\ud800"}', "surrogate"),
        ('{"type": "AI", "attributes": {"deep": [{"n": "\\u0000"}]}}', "attributes.deep[0].n: has U+0000"),
        ({"type": "AI", "text": "x" * 400_001}, "at most 400000"),
        ({"type": "AI", "thinking": "x" * 400_001}, "at most 400000"),
        ({"messages": [USER] * 101}, "at most 100"),
        ('{"type": "CUSTOM", "attributes": {"n": ' + "9" * 2000 + "}}", "a number of 2000"),
        ('{"type": "CUSTOM", "attributes": {"n": NaN}}', "NaN"),
        ('{"type": "AI", "\\ud800": 1}', "unknown field"),
        ('{"\\ud800": 1}', "type"),
    ],
)  # fmt: skip
def test_bad_messages_are_refused_with_the_place(api: Client, user: Any, body: Any, says: str) -> None:
    conversation = ConversationFactory(owner=user)
    answer = post(api, url(conversation, "messages/"), body)
    assert answer.status_code == 400
    assert says in json.dumps(answer.json())
    assert not Message.objects.exists()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"window": "hours"}, "window"),
        ({"limit": 0}, "limit"),
        ({"limit": 10**20}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"metadata": []}, "metadata"),
        ({"metadata": {"a": "\x00"}}, "metadata"),
        ('{"metadata": {"a": "\\ud800"}}', "metadata"),
        ({"memory_id": "x" * 256}, "memory_id"),
        ({"memory_id": "\x00"}, "memory_id"),
        ('{"title": "\\ud800"}', "title"),
        ('{"window": "\\ud800"}', "window"),
        ({"limit": 2**31}, "limit"),
        ('{"metadata": ' + '{"a":' * 31 + "1" + "}" * 31 + "}", "metadata"),
        ({"owner": 1}, "owner"),
    ],
)
def test_bad_conversations_are_refused_with_the_field(api: Client, body: Any, field: str) -> None:
    answer = post(api, "/api/conversations/", body)
    assert answer.status_code == 400
    assert list(answer.json()) == [field]
    assert not Conversation.objects.exists()


def test_what_is_no_json_value_in_python_comes_back_as_it_came(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user)
    message = {
        "contents": [{"audio": {"binaryData": "/w==", "mimeType": "audio/wav"}, "type": "AUDIO"}],
        "attributes": {"list": [{"a": [1, None]}]},
        "type": "USER",
    }
    assert post(api, url(conversation, "messages/"), message).json()["added"][0]["message"] == message
    assert api.get(url(conversation, "memory/")).json()["messages"] == [message]


@pytest.mark.parametrize("cursor", ["x", "cD1hYmM=", "cD0lMDA=", "cD0yMDI2LTk5LTk5", "bz05OTk5OTk5OTk5", "\x00"])
def test_bad_cursors(api: Client, user: Any, cursor: str) -> None:
    conversation = ConversationFactory(owner=user)
    for path in ("/api/conversations/", url(conversation, "messages/")):
        assert api.get(path, {"cursor": cursor}).status_code in {200, 404}


def test_the_newest_page_may_be_empty(api: Client, user: Any) -> None:
    page = api.get(url(ConversationFactory(owner=user), "messages/")).json()
    assert page == {"next": None, "previous": None, "results": []}


def test_infinite_numbers_come_back_as_text(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user)
    answer = post(api, url(conversation, "messages/"), '{"type": "CUSTOM", "attributes": {"n": 1e400}}')
    assert answer.json()["added"][0]["message"]["attributes"] == {"n": "Infinity"}


@pytest.mark.parametrize("pattern", urlpatterns, ids=lambda pattern: pattern.name)
def test_everything_is_the_owners_alone(api: Client, pattern: Any) -> None:
    """Made from the URL conf, so that a new route cannot be forgotten."""
    theirs = ConversationFactory(owner=UserFactory(), title="Secret")
    theirs.memory.add(UserMessage("secret"))
    nobodys = ConversationFactory(owner=None, title="Secret")
    for conversation in (theirs, nobodys):
        kwargs = dict.fromkeys(pattern.pattern.converters, conversation.pk)
        path = reverse(f"chatmemory:{pattern.name}", kwargs=kwargs)
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            answer = api.generic(method, path, json.dumps(USER), content_type="application/json")
            assert answer.status_code in ({404, 405} if kwargs else {200, 400, 405})
            assert "ecret" not in answer.content.decode()
    assert list(theirs.memory.messages()) == [UserMessage("secret")]


@pytest.mark.parametrize("pattern", urlpatterns, ids=lambda pattern: pattern.name)
def test_nothing_without_signing_in(client: Client, settings: Any, pattern: Any) -> None:
    nobodys = ConversationFactory(owner=None)
    path = reverse(f"chatmemory:{pattern.name}", kwargs=dict.fromkeys(pattern.pattern.converters, nobodys.pk))
    assert client.get(path).status_code == 403
    settings.CHATMEMORY = {"PERMISSION_CLASSES": ["rest_framework.permissions.AllowAny"]}
    assert client.get(path).status_code == (404 if pattern.pattern.converters else 200)
    if pattern.name == "conversation-list":
        assert client.get(path).json()["results"] == []
        assert post(client, path, {}).status_code == 403


def test_query_counts_do_not_grow(api: Client, user: Any, django_assert_num_queries: Any) -> None:
    conversation = ConversationFactory(owner=user, window="messages", limit=40)
    for count in (3, 60):
        conversation.memory.add(*(AiMessage(f"m{number}") for number in range(count)))
        ConversationFactory.create_batch(count // 3, owner=user)
        for path in ("/api/conversations/", url(conversation)):
            with django_assert_num_queries(3):  # session, user, rows
                api.get(path)
        for part in ("messages/", "memory/"):
            with django_assert_num_queries(4):
                api.get(url(conversation, part))
