"""What a change did, as plain data."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.core.serializers.json import DjangoJSONEncoder
from django.test import Client

from chatmemory import (
    AiMessage,
    CustomMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.database.change import Change
from tests.support.api import ITEM, ai, post, url, user_message
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db


def test_it_says_what_came_and_what_left() -> None:
    memory = ConversationFactory(window="messages", limit=2).memory
    memory.add(UserMessage("a"))
    change = memory.add(AiMessage("b"), UserMessage("c"))
    data = change.to_data("langchain4j")
    assert list(data) == ["added", "evicted", "memory", "version"]
    assert [item["message"] for item in data["added"]] == [ai("b"), user_message("c")]
    assert [(item["position"], item["state"], item["reason"]) for item in data["added"]] == [
        (1, "retained", None),
        (2, "retained", None),
    ]
    [gone] = data["evicted"]
    assert set(gone) == ITEM
    assert (gone["text"], gone["state"], gone["reason"], gone["evicted_in"]) == ("a", "evicted", "window", 2)
    assert gone["evicted_at"] == change.moment
    assert data["memory"] == {"window": "messages", "limit": 2, "messages": 2, "tokens": change.memory.tokens}
    assert data["version"] == 2
    json.dumps(data, cls=DjangoJSONEncoder)


@pytest.mark.parametrize("name", ["langchain4j", "openai"])
def test_rest_answers_the_same(client: Client, django_user_model: Any, name: str) -> None:
    user = django_user_model.objects.create(username="u")
    client.force_login(user)
    ours, theirs = (ConversationFactory(owner=user, window="messages", limit=1) for _ in range(2))
    ours.memory.add(UserMessage("a"))
    theirs.memory.add(UserMessage("a"))
    data = ours.memory.add(UserMessage("b")).to_data(name)
    body = user_message("b") if name == "langchain4j" else {"role": "user", "content": "b"}
    answer = post(client, url(theirs, f"messages/?format={name}"), body).json()
    assert [item.pop("written_by") for item in (*data["added"], *answer["added"])] == ["", "client"]
    for item in (*data["added"], *data["evicted"], *answer["added"], *answer["evicted"]):
        assert item.pop("created_at")
        assert bool(item.pop("evicted_at")) == (item["state"] == "evicted")
    assert answer == data


def test_what_a_format_cannot_express_is_none() -> None:
    change = ConversationFactory().memory.add(CustomMessage({"a": 1}), AiMessage("b"))
    items = change.to_data("openai")["added"]
    assert [item["message"] for item in items] == [None, {"role": "assistant", "content": "b"}]


@pytest.mark.parametrize("name", ["anthropic", "gemini", "x"])
def test_a_format_without_a_value_for_each_message_is_refused(name: str) -> None:
    change = ConversationFactory().memory.add(UserMessage("a"))
    with pytest.raises(ValueError, match="expected one of langchain4j"):
        change.to_data(name)


CALL = AiMessage(None, [ToolExecutionRequest("1", "read", "{}")])
RESULT = ToolExecutionResultMessage("1", "read", "long " * 30)
LONG = ToolExecutionResultMessage("1", "read", "long " * 200)
CHANGES: dict[str, Callable[[Any], Change]] = {
    "add": lambda memory: memory.add(UserMessage("more " * 190)),
    "add a system message": lambda memory: memory.add(SystemMessage("Be brief.")),
    "add, repeated": lambda memory: [memory.add(UserMessage("more"), idempotency_key="k") for _ in "12"][1],
    "set": lambda memory: memory.set([UserMessage("Hi"), *memory.messages()[3:]]),
    "clear": lambda memory: memory.clear(),
    "compact": lambda memory: memory.apply_compaction(memory.plan_compaction(0), "They spoke."),
    "unpin": lambda memory: [memory.add(CALL), memory.pin(5), memory.add(LONG), memory.unpin(5)][3],
    "set_window": lambda memory: memory.set_window(limit=60),
    "clear_tool_results": lambda memory: memory.clear_tool_results(0),
}


def data_of(name: str, change: Callable[[Any], Change], keep_history: bool, settings: Any) -> Any:
    settings.CHATMEMORY = {"KEEP_HISTORY": keep_history}
    memory = ConversationFactory(limit=200).memory
    memory.add(SystemMessage("Be kind."), UserMessage("Read it."), CALL, RESULT, UserMessage("And?"))
    data = change(memory).to_data("langchain4j")
    for item in (*data["added"], *data["evicted"]):
        assert item.pop("created_at")
        item.pop("evicted_at")
    return data


@pytest.mark.parametrize("name", CHANGES)
def test_it_can_be_read_where_no_history_is_kept(name: str, settings: Any) -> None:
    data = data_of(name, CHANGES[name], False, settings)
    assert data == data_of(name, CHANGES[name], True, settings)
    assert data["evicted"] or name == "add, repeated"
