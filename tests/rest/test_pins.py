"""Pins over REST: messages that the window never evicts."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from chatmemory import AiMessage, UserMessage
from chatmemory.models import Conversation, Message
from tests.support.api import ITEM, USER, patch, positions, post, put, send, url
from tests.support.factories import ConversationFactory
from tests.support.planted import member, planted

PROBLEM = "urn:chatmemory:problem:"


@pytest.fixture
def conversation(user: Any) -> Conversation:
    """Positions 1 to 4 are retained, 0 is evicted."""
    made = ConversationFactory(owner=user, window="messages", limit=4)
    made.memory.add(*(UserMessage(f"u{number}") for number in range(5)))
    return made


def pinned(conversation: Conversation) -> list[int]:
    return [row.position for row in conversation.messages.pinned()]


def test_a_pinned_message_stays(api: Client, conversation: Conversation) -> None:
    answer = post(api, url(conversation, "messages/1/pin/"), "")
    assert answer.status_code == 200
    done = answer.json()
    assert set(done) == {"item", "memory", "version"}
    assert set(done["item"]) == ITEM
    assert (done["item"]["position"], done["item"]["pinned"], done["item"]["text"]) == (1, True, "u1")
    assert done["memory"] == {"window": "messages", "limit": 4, "messages": 4, "tokens": 24}
    assert done["version"] == 2
    assert answer["ETag"] == api.get(url(conversation, "memory/"))["ETag"]
    assert [item["position"] for item in post(api, url(conversation, "messages/"), USER).json()["evicted"]] == [2]


def test_an_unpinned_message_leaves_again(api: Client, conversation: Conversation) -> None:
    post(api, url(conversation, "messages/1/pin/"), "")
    done = post(api, url(conversation, "messages/1/unpin/"), {}).json()
    assert (done["item"]["pinned"], done["version"]) == (False, 3)
    assert [item["position"] for item in post(api, url(conversation, "messages/"), USER).json()["evicted"]] == [1]


@pytest.mark.parametrize("verb", ["pin", "unpin"])
def test_the_same_again_changes_nothing(api: Client, conversation: Conversation, verb: str) -> None:
    conversation.memory.pin(1)
    path = url(conversation, f"messages/1/{verb}/")
    first, second = post(api, path, "").json(), post(api, path, "").json()
    assert first == second


def test_the_item_is_in_the_format_that_was_asked_for(api: Client, conversation: Conversation) -> None:
    answer = post(api, url(conversation, "messages/2/pin/?format=openai"), "").json()
    assert answer["item"]["message"] == {"role": "user", "content": "u2"}


@pytest.mark.parametrize("verb", ["pin", "unpin"])
@pytest.mark.parametrize("position", ["5", "-1", "x", "9" * 30])
def test_there_must_be_a_message(api: Client, conversation: Conversation, verb: str, position: str) -> None:
    assert post(api, url(conversation, f"messages/{position}/{verb}/"), "").status_code == 404


@pytest.mark.parametrize("verb", ["pin", "unpin"])
def test_it_must_be_in_the_memory(api: Client, conversation: Conversation, verb: str) -> None:
    answer = post(api, url(conversation, f"messages/0/{verb}/"), "")
    problem = answer.json()
    assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json")
    assert problem["type"] == f"{PROBLEM}not-retained"
    assert "but is: 0" in problem["detail"]


def test_pins_must_leave_room(api: Client, conversation: Conversation) -> None:
    for position in (1, 2):
        assert post(api, url(conversation, f"messages/{position}/pin/"), "").status_code == 200
    for answer in (
        post(api, url(conversation, "messages/3/pin/"), ""),
        patch(api, url(conversation), {"limit": 3, "title": "New"}),
        post(api, url(conversation, "memory/preview/"), {"limit": 3}),
    ):
        problem = answer.json()
        assert (answer.status_code, problem["type"]) == (400, f"{PROBLEM}pinned-too-much")
        assert "more than half" in problem["detail"]
    conversation.refresh_from_db()
    assert (pinned(conversation), conversation.limit, conversation.version) == ([1, 2], 4, 3)
    assert conversation.title != "New"


@pytest.mark.parametrize("body", [[], None, {"position": 1}, USER, "x"])
def test_there_is_no_body(api: Client, conversation: Conversation, body: Any) -> None:
    assert post(api, url(conversation, "messages/1/pin/"), body).status_code == 400
    assert pinned(conversation) == []


def test_a_memory_that_moved_is_not_pinned(api: Client, conversation: Conversation) -> None:
    seen = api.get(url(conversation, "memory/"))["ETag"]
    conversation.memory.add(AiMessage("moved"))
    for verb in ("pin", "unpin"):
        assert post(api, url(conversation, f"messages/3/{verb}/"), "", if_match=seen).status_code == 412
    assert post(api, url(conversation, "messages/3/pin/"), "", if_match='"2"').status_code == 200


def test_a_memory_too_large_to_read_is_not_pinned(api: Client, conversation: Conversation, settings: Any) -> None:
    conversation.memory.pin(1)
    settings.CHATMEMORY = {"USERS": "all", "MAX_MEMORY_MESSAGES": 3}
    assert post(api, url(conversation, "messages/2/pin/"), "").status_code == 413
    assert post(api, url(conversation, "messages/1/unpin/"), "").status_code == 200


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("pinned=true", [2]),
        ("pinned=false", [0, 1, 3, 4]),
        ("pinned=", [0, 1, 2, 3, 4]),
        ("pinned=false&state=retained", [3, 4]),
        ("pinned=true&ordering=-position", [2]),
        ("origin=said", [0, 1, 2, 3, 4]),
        ("origin=rewrite", [5]),
        ("origin=said,rewrite&position_min=4", [4, 5]),
        ("origin=cleared", []),
        ("origin=", [0, 1, 2, 3, 4]),
    ],
)
def test_filters(api: Client, conversation: Conversation, query: str, expected: list[int]) -> None:
    conversation.memory.pin(1)
    conversation.memory.pin(2)
    kept = conversation.memory.messages()
    conversation.memory.set([kept[1], UserMessage("summary"), *kept[2:]])  # 1 leaves with its pin
    assert positions(api.get(url(conversation, f"messages/?{query}"))) == expected


@pytest.mark.parametrize(("name", "value"), [("pinned", "yes"), ("pinned", "1"), ("origin", "SAID"), ("origin", "x")])
def test_filters_that_mean_nothing_are_errors(api: Client, conversation: Conversation, name: str, value: str) -> None:
    answer = api.get(url(conversation, "messages/"), {name: value})
    assert (answer.status_code, answer.json()["errors"][0]["place"]) == (400, name)


@pytest.mark.django_db
def test_staff_who_may_not_read_pin_without_seeing_words() -> None:
    theirs = planted()
    client = Client()
    client.force_login(member({"change_conversation"}))
    answer = post(client, url(theirs, f"messages/4/pin/?owner={theirs.owner_id}"), "").json()
    assert (answer["item"]["pinned"], answer["item"]["text"], answer["item"]["message"]) == (True, "", None)
    said = LogEntry.objects.get().change_message
    assert "REST: POST api/conversations/{conversation_id}/messages/4/pin/?" in said
    assert said.endswith('{"added": 0, "evicted": 0, "version": 3}')


def test_a_store_keeps_pins_of_what_stays(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user, memory_id="x", window="messages", limit=4)
    conversation.memory.add(UserMessage("a"), AiMessage("b"), UserMessage("c"))
    conversation.memory.pin(1)
    before = list(Message.objects.values())
    listed = api.get("/api/stores/x/").json()
    assert put(api, "/api/stores/x/", listed).status_code == 204
    assert put(api, "/api/stores/x/", [*listed, USER]).status_code == 204
    assert list(Message.objects.order_by("pk").values())[:3] == before
    assert pinned(conversation) == [1]
    assert put(api, "/api/stores/x/", [listed[0], USER]).status_code == 204
    assert pinned(conversation) == []


def test_only_posts_pin(api: Client, conversation: Conversation) -> None:
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        assert send(api, method, url(conversation, "messages/1/pin/"), {}).status_code == 405
