"""Old tool results over REST: cleared at once, or by the window."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from chatmemory import AiMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.models import Conversation, Message
from tests.support.api import ITEM, USER, patch, positions, post, put, url
from tests.support.factories import ConversationFactory

CLEARED = "[Old tool result cleared]"
LONG = "word " * 40


def looked_up(number: int, tool: str = "look_up") -> list[Any]:
    key = str(number)
    return [
        UserMessage(f"u{number}"),
        AiMessage(None, [ToolExecutionRequest(key, tool, "{}")]),
        ToolExecutionResultMessage(key, tool, LONG),
    ]


@pytest.fixture
def conversation(user: Any) -> Conversation:
    """Tool results stand at 2, 5 and 8, the second one from another tool; the turn under way has none."""
    made = ConversationFactory(owner=user, memory_id="x", window="tokens", limit=4000)
    made.memory.add(*looked_up(1), *looked_up(2, "remember"), *looked_up(3), UserMessage("u4"))
    return made


def results(conversation: Conversation) -> list[str]:
    return [row.text for row in conversation.messages.retained() if row.type == "TOOL_EXECUTION_RESULT"]


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("", []),
        ({}, []),
        ({"keep": 2}, [2]),
        ({"keep": 0}, [2, 5, 8]),
        ({"keep": 0, "exclude_tools": ["remember", ""]}, [2, 8]),
        ({"keep": 1, "exclude_tools": []}, [2, 5]),
    ],
)
def test_old_results_give_way(api: Client, conversation: Conversation, body: Any, left: list[int]) -> None:
    answer = post(api, url(conversation, "memory/clear-tool-results/"), body)
    assert answer.status_code == 200
    done = answer.json()
    assert set(done) == {"added", "evicted", "memory", "version"}
    assert [(item["position"], item["reason"]) for item in done["evicted"]] == [(each, "tool_cleared") for each in left]
    assert all(set(item) == ITEM for item in [*done["added"], *done["evicted"]])
    assert [(item["text"], item["origin"], item["synthetic"]) for item in done["added"]] == [
        (CLEARED, "cleared", True) for _ in left
    ]
    assert [(item["covers_from"], item["covers_to"]) for item in done["added"]] == [(each, each) for each in left]
    assert done["version"] == (2 if left else 1)
    assert done["memory"]["messages"] == 10
    memory = api.get(url(conversation, "memory/"))
    assert (memory["ETag"], memory.json()["tokens"]) == (answer["ETag"], done["memory"]["tokens"])


def test_the_placeholder_may_say_something_else(api: Client, conversation: Conversation) -> None:
    body = {"keep": 2, "placeholder": " gone "}
    answer = post(api, url(conversation, "memory/clear-tool-results/?format=openai"), body).json()
    assert answer["added"][0]["message"] == {"role": "tool", "tool_call_id": "1", "content": "gone"}


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ([], ""),
        ({"kept": 1}, "kept"),
        ({"keep": None}, "keep"),
        ({"keep": -1}, "keep"),
        ({"keep": True}, "keep"),
        ({"keep": 2**31}, "keep"),
        ({"exclude_tools": "look_up"}, "exclude_tools"),
        ({"exclude_tools": None}, "exclude_tools"),
        ({"exclude_tools": ["a", 1]}, "exclude_tools[1]"),
        ({"exclude_tools": ["a", ["b"]]}, "exclude_tools[1]"),
        ({"exclude_tools": ["a", "\x00"]}, "exclude_tools[1]"),
        ({"exclude_tools": ["a"] * 101}, "exclude_tools"),
        ({"placeholder": ""}, "placeholder"),
        ({"placeholder": " \n"}, "placeholder"),
        ({"placeholder": None}, "placeholder"),
        ({"placeholder": "\ud800"}, "placeholder"),
        ({"placeholder": "x" * 201}, "placeholder"),
    ],
)
def test_bad_bodies_change_nothing(api: Client, conversation: Conversation, body: Any, place: str) -> None:
    answer = post(api, url(conversation, "memory/clear-tool-results/"), body)
    assert answer.status_code == 400
    assert [error["place"] for error in answer.json()["errors"]] == [place]
    assert results(conversation) == [LONG] * 3


def test_a_memory_that_moved_stays(api: Client, conversation: Conversation) -> None:
    path = url(conversation, "memory/clear-tool-results/")
    assert post(api, path, {"keep": 0}, if_match='"0"').status_code == 412
    assert results(conversation) == [LONG] * 3
    assert post(api, path, {"keep": 0}, if_match='"1"').status_code == 200


def test_placeholders_do_not_make_a_memory_too_large(api: Client, user: Any, settings: Any) -> None:
    conversation = ConversationFactory(owner=user, limit=4000)
    short_but_many_tokens = "\U0001f9ec" * 20
    for number in range(3):
        conversation.memory.add(*looked_up(number)[:2])
        conversation.memory.add(ToolExecutionResultMessage(str(number), "look_up", short_but_many_tokens))
    conversation.memory.add(UserMessage("u"))
    chars = sum(len(row.text) + len(row.payload or "") for row in conversation.messages.all())
    settings.CHATMEMORY = {"USERS": "all", "MAX_MEMORY_CHARS": chars + 100}
    path = url(conversation, "memory/clear-tool-results/")
    refused = post(api, path, {"keep": 0, "placeholder": "-" * 128})
    assert (refused.status_code, refused.json()["type"]) == (413, "urn:chatmemory:problem:memory-too-large")
    assert results(conversation) == [short_but_many_tokens] * 3
    assert post(api, path, {"keep": 0, "placeholder": "-"}).status_code == 200
    settings.CHATMEMORY = {"USERS": "all", "MAX_MEMORY_CHARS": 100}
    assert post(api, path, {}).status_code == 413


def test_the_window_clears_them_too(api: Client, conversation: Conversation) -> None:
    limit = conversation.retained_tokens
    changed = patch(api, url(conversation), {"limit": limit, "keep_tool_results": 1}).json()
    assert [item["reason"] for item in changed["evicted"]] == ["tool_cleared"] * 2
    assert (changed["keep_tool_results"], changed["retained_count"]) == (1, 10)
    answer = api.get(url(conversation, "messages/?reason=tool_cleared"))
    assert positions(answer) == [2, 5]
    shown = api.get(url(conversation, "messages/?origin=cleared")).json()["results"]
    assert [(item["text"], item["covers_from"], item["state"]) for item in shown] == [
        (CLEARED, 2, "retained"),
        (CLEARED, 5, "retained"),
    ]


def test_a_store_keeps_the_placeholders_of_what_stays(api: Client, conversation: Conversation) -> None:
    conversation.memory.clear_tool_results(0)
    conversation.memory.pin(9)
    before = list(Message.objects.order_by("pk").values())
    listed = api.get("/api/stores/x/").json()
    assert [item["contents"][0]["text"] for item in listed if item["type"] == "TOOL_EXECUTION_RESULT"] == [CLEARED] * 3
    for body in (listed, [*listed, USER]):
        assert put(api, "/api/stores/x/", body).status_code == 204
        assert list(Message.objects.order_by("pk").values())[: len(before)] == before
    assert api.get("/api/stores/x/").json() == [*listed, USER]
    conversation.memory.clear_tool_results(0)
    assert Message.objects.count() == len(before) + 1
