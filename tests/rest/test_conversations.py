"""Conversations over REST."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.utils import timezone

from chatmemory import AiMessage, ImageContent, SystemMessage, UserMessage
from chatmemory.models import Conversation, IdempotencyKey, Message
from tests.support.api import USER, patch, post, send, url
from tests.support.factories import ConversationFactory, UserFactory

SHAPE = {
    "id", "memory_id", "display_title", "title", "metadata", "window", "limit", "model",
    "always_keep_system_message_first",
    "low_water", "whole_turns", "keep_tool_results", "reserve", "compact_at", "compact_keep",
    "compact_keep_calls",
    "version", "message_count", "retained_count",
    "retained_tokens", "created_at", "updated_at",
}  # fmt: skip


def ids(answer: Any) -> list[str]:
    return [item["id"] for item in answer.json()["results"]]


def test_creating_one_answers_with_it_and_its_address(api: Client, user: Any) -> None:
    body = {"memory_id": "a", "title": "T", "window": "messages", "limit": 2, "metadata": {"topic": ["x"]}}
    created = post(api, "/api/conversations/", body)
    assert created.status_code == 201
    conversation = created.json()
    assert set(conversation) == SHAPE
    assert {name: conversation[name] for name in body} == body
    assert api.get(created["Location"]).json() == conversation
    assert Conversation.objects.get().owner == user


def test_everything_has_a_default(api: Client) -> None:
    first, second = (post(api, "/api/conversations/", {}).json() for _ in range(2))
    assert (first["window"], first["limit"], first["model"]) == ("tokens", 4000, "gpt-4o")
    assert first["memory_id"] != second["memory_id"]


def test_a_memory_id_that_exists_is_a_conflict_with_a_link(api: Client) -> None:
    assert post(api, "/api/conversations/", {"memory_id": " x"}).status_code == 201
    first = post(api, "/api/conversations/", {"memory_id": "x"})
    assert first.status_code == 201
    again = post(api, "/api/conversations/", {"memory_id": "x", "title": "Other"})
    assert again.status_code == 409
    assert "'x'" in again.json()["detail"]
    assert api.get(again.json()["conversation"]).json() == first.json()


def test_the_list_is_newest_first_and_ordered_as_asked(api: Client, user: Any) -> None:
    old, new = ConversationFactory(owner=user), ConversationFactory(owner=user)
    assert ids(api.get("/api/conversations/")) == [str(new.pk), str(old.pk)]
    old.memory.add(UserMessage("again"))
    assert ids(api.get("/api/conversations/")) == [str(old.pk), str(new.pk)]
    assert ids(api.get("/api/conversations/?ordering=created_at")) == [str(old.pk), str(new.pk)]
    assert ids(api.get("/api/conversations/?ordering=-created_at")) == [str(new.pk), str(old.pk)]


def test_the_list_has_pages(api: Client, user: Any) -> None:
    made = [str(each.pk) for each in ConversationFactory.create_batch(5, owner=user)]
    page = api.get("/api/conversations/?page_size=2")
    assert ids(page) == made[:2:-1]
    second = api.get(page.json()["next"])
    assert ids(second) == [made[2], made[1]]
    assert ids(api.get(second.json()["previous"])) == ids(page)


@pytest.mark.slow
def test_pages_hold_any_number_of_conversations_of_one_moment(api: Client, user: Any) -> None:
    moment = timezone.now()
    Conversation.objects.bulk_create(Conversation(owner=user, title=str(number)) for number in range(1300))
    Conversation.objects.update(updated_at=moment, created_at=moment)
    for ordering in ("-updated_at", "updated_at", "created_at"):
        found: list[str] = []
        address = f"/api/conversations/?page_size=200&ordering={ordering}"
        while address:
            page = api.get(address)
            found += ids(page)
            address = page.json()["next"]
        assert len(found) == len(set(found)) == 1300, ordering


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("title=old", ["old"]),
        ("title=%25", []),
        ("memory_id=A", []),
        ("memory_id=a", ["old"]),
        ("window=messages", ["new"]),
        ("has_evicted=true", ["new"]),
        ("has_evicted=false", ["old"]),
        ("metadata_key=topic", ["old"]),
        ("metadata_key=top", []),
        ("metadata_key=$.topic", []),
        ("metadata_key=it's.a [key]%25", ["new"]),
        ("search=NEW", ["new"]),
        ("search=needle", ["old"]),
        ("search=made up", []),
        ("search=e", ["old", "new"]),
        ("window=tokens&search=e", ["old"]),
        ("", ["old", "new"]),
    ],
)
def test_filters(api: Client, user: Any, query: str, found: list[str]) -> None:
    old = ConversationFactory(owner=user, title="Old one", memory_id="a", metadata={"topic": None})
    old.memory.add(UserMessage("find the needle"))
    new = ConversationFactory(owner=user, title="New", window="messages", limit=1, metadata={"it's.a [key]%": 1})
    new.memory.add(UserMessage("x"), UserMessage("y"))
    new.memory.set([UserMessage("made up")])
    titles = {str(old.pk): "old", str(new.pk): "new"}
    assert sorted(titles[each] for each in ids(api.get(f"/api/conversations/?{query}"))) == sorted(found)


def test_ranges_of_time(api: Client, user: Any) -> None:
    old, new = ConversationFactory(owner=user), ConversationFactory(owner=user)
    then = timezone.now() - timedelta(days=2)
    Conversation.objects.filter(pk=old.pk).update(created_at=then, updated_at=then)
    between = (timezone.now() - timedelta(days=1)).isoformat()
    for name in ("created", "updated"):
        assert ids(api.get("/api/conversations/", {f"{name}_after": between})) == [str(new.pk)]
        assert ids(api.get("/api/conversations/", {f"{name}_before": between})) == [str(old.pk)]


def test_changing_what_describes_it_leaves_the_rest(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user, title="Old", metadata={"a": 1})
    conversation.memory.add(UserMessage("x"))
    answer = patch(api, url(conversation), {"title": "New"})
    assert answer.status_code == 200
    assert set(answer.json()) == SHAPE | {"evicted"}
    assert (answer.json()["title"], answer.json()["metadata"], answer.json()["evicted"]) == ("New", {"a": 1}, [])
    assert patch(api, url(conversation), {"metadata": {}}).json()["metadata"] == {}
    shown = api.get(url(conversation)).json()
    assert (shown["title"], shown["metadata"], shown["message_count"], shown["version"]) == ("New", {}, 1, 1)


def test_without_a_title_a_conversation_is_called_by_its_first_words(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user, title="", window="messages", limit=2)

    def called() -> Any:
        shown = api.get(url(conversation)).json()
        [listed] = api.get("/api/conversations/").json()["results"]
        assert listed == shown
        return shown["title"], shown["display_title"]

    assert called() == ("", "")
    conversation.memory.add(SystemMessage("Rules"), UserMessage([ImageContent("https://a.test/b.png")]))
    assert called() == ("", "")
    conversation.memory.add(
        UserMessage("  Which tea\n is <b>in season</b>?"), AiMessage("Sencha."), UserMessage("And now?")
    )
    assert called() == ("", "Which tea is <b>in season</b>?")
    assert patch(api, url(conversation), {"title": "Tea"}).json()["display_title"] == "Tea"
    assert called() == ("Tea", "Tea")
    assert patch(api, url(conversation), {"title": ""}).json()["display_title"] == "Which tea is <b>in season</b>?"
    conversation.messages.all().delete()
    assert called() == ("", "")


@pytest.mark.parametrize(
    ("text", "called"),
    [
        ("word " * 12, " ".join(["word"] * 12)),
        ("word " * 13, " ".join(["word"] * 11) + "…"),
        ("w" * 61, "w" * 59 + "…"),
        ("今年の春に飲むお茶" * 10, ("今年の春に飲むお茶" * 10)[:59] + "…"),
        ("x " + "w" * 90, "x " + "w" * 57 + "…"),
    ],
    ids=["fits", "words", "one word", "no spaces", "a long word"],
)
def test_first_words_are_cut_where_a_word_ends(api: Client, user: Any, text: str, called: str) -> None:
    conversation = ConversationFactory(owner=user, title="")
    conversation.memory.add(UserMessage(text))
    assert api.get(url(conversation)).json()["display_title"] == called


def test_a_page_of_first_words_takes_one_statement(api: Client, user: Any, django_assert_num_queries: Any) -> None:
    for number in range(3):
        conversation = ConversationFactory(owner=user, title="")
        conversation.memory.add(*(UserMessage(f"{number} {index}") for index in range(20)))
    with django_assert_num_queries(4):
        page = api.get("/api/conversations/").json()["results"]
    assert [each["display_title"] for each in page] == ["2 0", "1 0", "0 0"]


def test_a_smaller_window_evicts_at_once_and_says_what_left(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user)
    conversation.memory.add(*(UserMessage(f"m{number}") for number in range(5)))
    answer = patch(api, url(conversation), {"window": "messages", "limit": 2, "title": "Small"}).json()
    assert [(item["position"], item["reason"]) for item in answer["evicted"]] == [
        (0, "window"),
        (1, "window"),
        (2, "window"),
    ]
    assert (answer["limit"], answer["retained_count"], answer["version"], answer["title"]) == (2, 2, 2, "Small")
    assert len(api.get(url(conversation, "memory/")).json()["messages"]) == 2
    assert len(api.get(url(conversation, "messages/")).json()["results"]) == 5


def test_another_model_counts_again(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user)
    conversation.memory.add(UserMessage("你好，世界"))
    before = api.get(url(conversation)).json()["retained_tokens"]
    assert patch(api, url(conversation), {"model": "gpt-4"}).json()["retained_tokens"] == before + 3


def test_a_memory_id_stays(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user, memory_id="a")
    assert patch(api, url(conversation), {"memory_id": "a", "title": "x"}).status_code == 200
    refused = patch(api, url(conversation), {"memory_id": "b", "title": "y"})
    assert refused.status_code == 400
    assert refused.json()["errors"][0]["place"] == "memory_id"
    conversation.refresh_from_db()
    assert (conversation.memory_id, conversation.title) == ("a", "x")


def test_erasing_one_erases_everything_in_it(api: Client, user: Any) -> None:
    conversation, other = ConversationFactory(owner=user), ConversationFactory(owner=user)
    other.memory.add(UserMessage("stays"))
    post(api, url(conversation, "messages/"), USER, idempotency_key="k")
    assert api.delete(url(conversation)).status_code == 204
    assert not IdempotencyKey.objects.exists()
    assert [row.text for row in Message.objects.all()] == ["stays"]
    for path in (url(conversation), url(conversation, "messages/"), url(conversation, "memory/")):
        assert api.get(path).status_code == 404
    assert api.delete(url(conversation)).status_code == 404


@pytest.mark.slow
def test_staff_with_the_permission_name_an_owner(api: Client, user: Any, grant: Any) -> None:
    other = UserFactory()
    theirs, nobodys = ConversationFactory(owner=other), ConversationFactory(owner=None)
    mine = ConversationFactory(owner=user)
    paths = ["/api/conversations/", url(theirs), url(theirs, "messages/"), f"/api/stores/{theirs.memory_id}/"]
    for path in paths:
        assert api.get(path, {"owner": other.pk}).status_code == 404
    grant("view", "read_message_text")
    for path in paths:
        assert api.get(path, {"owner": other.pk}).status_code == 404
    user.is_staff = True
    user.save()
    for path in paths:
        assert api.get(path, {"owner": other.pk}).status_code == 200
    assert ids(api.get("/api/conversations/", {"owner": other.pk})) == [str(theirs.pk)]
    assert ids(api.get("/api/conversations/")) == [str(mine.pk)]
    assert set(ids(api.get("/api/conversations/?owner=*"))) == {str(each.pk) for each in (theirs, nobodys, mine)}
    assert api.get(url(nobodys), {"owner": "*"}).status_code == 200
    assert api.get(url(theirs)).status_code == 404
    for bad in ("0", "x", "9" * 30, ""):
        assert api.get("/api/conversations/", {"owner": bad}).status_code == 404


@pytest.mark.slow
def test_staff_need_the_permission_for_what_they_do(api: Client, user: Any, grant: Any) -> None:
    user.is_staff = True
    user.save()
    other = UserFactory()
    theirs = ConversationFactory(owner=other)
    theirs.memory.add(UserMessage("x"))
    query = f"?owner={other.pk}"
    grant("view", "read_message_text", "write_message_text")
    assert post(api, url(theirs, f"memory/preview/{query}"), {"limit": 1}).status_code == 200
    acts = [
        ("change", "POST", url(theirs, f"messages/{query}"), USER),
        ("change", "PATCH", url(theirs, query), {"title": "x"}),
        ("change", "PUT", url(theirs, f"memory/{query}"), {"messages": []}),
        ("change", "DELETE", url(theirs, f"memory/{query}"), {}),
        ("change", "PUT", f"/api/stores/{theirs.memory_id}/{query}", []),
        ("change", "DELETE", f"/api/stores/{theirs.memory_id}/{query}", []),
        ("add", "POST", f"/api/conversations/{query}", {"memory_id": "made by staff"}),
        ("delete", "DELETE", url(theirs, query), {}),
    ]
    for act, method, path, body in acts:
        answer = send(api, method, path, body)
        assert (answer.status_code, act in answer.json()["detail"]) == (404, True), (method, path)
    for act, method, path, body in acts:
        grant(act)
        answer = send(api, method, path, body)
        assert answer.status_code in {200, 201, 204}, (method, path, answer.content)
    made = Conversation.objects.get()
    assert made.owner == other


def test_links_for_staff_lead_to_the_owner_they_named(api: Client, user: Any, grant: Any) -> None:
    user.is_staff = True
    user.save()
    grant("view", "add")
    path = f"/api/conversations/?owner={UserFactory().pk}"
    made = post(api, path, {"memory_id": "x"})
    assert api.get(made["Location"]).json() == made.json()
    taken = post(api, path, {"memory_id": "x"})
    assert api.get(taken.json()["conversation"]).json() == made.json()


def test_a_store_that_is_not_there_yet_needs_the_permission_to_add(api: Client, user: Any, grant: Any) -> None:
    user.is_staff = True
    user.save()
    path = f"/api/stores/new/?owner={UserFactory().pk}"
    grant("change", "read_message_text", "write_message_text")
    assert send(api, "PUT", path, [USER]).status_code == 404
    grant("add")
    assert send(api, "PUT", path, [USER]).status_code == 204


def test_for_one_memory_id_there_must_be_one_owner(api: Client, user: Any, grant: Any) -> None:
    user.is_staff = True
    user.save()
    grant("view", "change", "add", "read_message_text", "write_message_text")
    for path, method in (("/api/conversations/", "POST"), ("/api/stores/a/", "PUT"), ("/api/stores/a/", "GET")):
        answer = send(api, method, path + "?owner=*", [])
        assert (answer.status_code, answer.json()["errors"][0]["place"]) == (400, "owner")


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(connection.vendor != "sqlite", reason="elsewhere two that create wait for each other")
def test_a_creation_that_finds_the_database_busy_is_tried_again(api: Client) -> None:
    writer = sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    refused = []

    def until_refused(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        try:
            return execute(sql, params, many, context)
        except OperationalError as error:
            refused.append(error)
            writer.rollback()
            raise

    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout = 0")
    try:
        with connection.execute_wrapper(until_refused):
            made = post(api, "/api/conversations/", {"memory_id": "x"}, idempotency_key="k")
    finally:
        writer.close()
        connection.close()
    assert (made.status_code, len(refused)) == (201, 1)
    assert str(Conversation.objects.get().pk) == made.json()["id"]
