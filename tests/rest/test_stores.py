"""The store for other programs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from chatmemory import (
    AiMessage,
    MessageWindowChatMemory,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
    messages_from_json,
    messages_to_json,
)
from chatmemory.core.json_text import dumps
from chatmemory.models import Conversation
from chatmemory.stores import DjangoChatMemoryStore
from chatmemory.transfer.export import conversation_lines
from tests.support.api import USER, ai, put
from tests.support.factories import ConversationFactory, UserFactory


class RemoteStore:
    """The three methods as a program elsewhere would write them."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def get_messages(self, memory_id: Any) -> Any:
        answer = self._client.get(self._path(memory_id))
        assert answer.status_code == 200
        return messages_from_json(answer.content.decode())

    def update_messages(self, memory_id: Any, messages: Any) -> None:
        answer = put(self._client, self._path(memory_id), messages_to_json(messages))
        assert answer.status_code == 204

    def delete_messages(self, memory_id: Any) -> None:
        assert self._client.delete(self._path(memory_id)).status_code == 204

    def _path(self, memory_id: Any) -> str:
        return reverse("chatmemory:store", kwargs={"memory_id": memory_id})


@pytest.mark.slow
def test_a_memory_elsewhere_uses_it_as_its_store(api: Client, user: Any) -> None:
    remote = MessageWindowChatMemory(id="java/42", max_messages=4, store=RemoteStore(api))
    local = MessageWindowChatMemory(id="java/42", max_messages=4)
    call = AiMessage(tool_execution_requests=[ToolExecutionRequest("1", "f", "{}")])
    said = [SystemMessage("s"), UserMessage("u1"), call, ToolExecutionResultMessage("1", "f", "r"), AiMessage("a"),
            UserMessage("u2"), SystemMessage("t"), UserMessage("u3")]  # fmt: skip
    for message in said:
        remote.add(message)
        local.add(message)
        assert remote.messages() == local.messages()
    conversation = Conversation.objects.get(owner=user, memory_id="java/42")
    assert [row.message for row in conversation.messages.history()] == said
    remote.clear()
    assert remote.messages() == []
    assert conversation.messages.history().count() == len(said)


def test_what_is_written_is_what_langchain4j_writes(api: Client, user: Any) -> None:
    messages = [UserMessage("你好", name="Ann"), AiMessage("1.0E21", attributes={"n": 1e21, "b": [True, None]})]
    put(api, "/api/stores/x/", messages_to_json(messages))
    answer = api.get("/api/stores/x/")
    assert answer["Content-Type"] == "application/json"
    assert answer.content.decode() == messages_to_json(messages)


@pytest.mark.parametrize("keys", [["zulu", "alpha", "k10", "k2"], ["alpha", "k2", "zulu", "k10"]])
def test_attributes_go_out_in_the_order_in_which_they_came(api: Client, user: Any, keys: list[str]) -> None:
    """A Java program sends them in the order of its HashMap, which is not that of each JDK."""
    attributes = {key: {"b": 1, "a": [{"z": 1, "y": 2}]} for key in keys}
    sent = dumps([
        {"contents": [{"text": "Hi", "type": "TEXT"}], "attributes": attributes, "type": "USER"},
        {"text": "Hello", "toolExecutionRequests": [], "attributes": attributes, "type": "AI"},
        {"attributes": attributes, "type": "CUSTOM"},
    ])  # fmt: skip
    assert put(api, "/api/stores/x/", sent).status_code == 204
    assert api.get("/api/stores/x/").content.decode() == sent
    conversation = Conversation.objects.get(owner=user)
    exported = "".join(conversation_lines([conversation.pk]))
    assert exported.count(dumps(attributes)) == 3
    # The same messages in another order are the same messages.
    backwards = {key: attributes[key] for key in reversed(keys)}
    again = [{**message, "attributes": backwards} for message in json.loads(sent)]
    assert put(api, "/api/stores/x/", again).status_code == 204
    assert api.get("/api/stores/x/").content.decode() == sent
    assert conversation.messages.history().count() == 3


OLD_ANSWER = {"text": "Hello", "toolExecutionRequests": [], "type": "AI"}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (OLD_ANSWER, OLD_ANSWER),
        ({**OLD_ANSWER, "attributes": None}, OLD_ANSWER),
        ({**OLD_ANSWER, "attributes": {}}, {**OLD_ANSWER, "attributes": {}}),
        ({**OLD_ANSWER, "attributes": {"a": 1}}, {**OLD_ANSWER, "attributes": {"a": 1}}),
    ],
)
def test_an_answer_goes_out_as_it_came(api: Client, user: Any, answer: Any, expected: Any) -> None:
    """LangChain4j 1.0 and 1.1 cannot read one that has attributes."""
    put(api, "/api/stores/x/", [USER, answer])
    assert api.get("/api/stores/x/").json() == [USER, expected]
    # A later version sends them when it saves the list again.
    put(api, "/api/stores/x/", [USER, {"attributes": {}, **answer}, USER])
    assert api.get("/api/stores/x/").json() == [USER, expected, USER]
    assert Conversation.objects.get(owner=user).messages.history().count() == 3


RESULT = {"type": "TOOL_EXECUTION_RESULT", "id": "1", "toolName": "f", "text": "r"}
AS_CONTENTS = {**RESULT, "contents": [{"text": "r", "type": "TEXT"}], "attributes": {}}
del AS_CONTENTS["text"]


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (RESULT, RESULT),
        ({**RESULT, "text": ""}, {**RESULT, "text": ""}),
        ({**RESULT, "isError": True}, {**RESULT, "isError": True}),
        ({"type": "TOOL_EXECUTION_RESULT", "text": "r"}, {"type": "TOOL_EXECUTION_RESULT", "text": "r"}),
        ({**RESULT, "attributes": {}}, RESULT),
        ({**RESULT, "attributes": {"a": 1}}, {**AS_CONTENTS, "attributes": {"a": 1}}),
        (AS_CONTENTS, AS_CONTENTS),
    ],
)
def test_a_tool_result_goes_out_as_it_came(api: Client, user: Any, result: Any, expected: Any) -> None:
    call = {**ai("a"), "toolExecutionRequests": [{"id": "1", "name": "f", "arguments": "{}"}]}
    put(api, "/api/stores/x/", [USER, call, result])
    assert api.get("/api/stores/x/").json() == [USER, call, expected]
    read = messages_from_json(api.get("/api/stores/x/").content.decode())
    assert DjangoChatMemoryStore(user).get_messages("x") == read


def test_another_version_of_langchain4j_finds_the_same_message(api: Client, user: Any) -> None:
    for memory, change in (("old", (RESULT, AS_CONTENTS)), ("new", (AS_CONTENTS, RESULT))):
        for result in change:
            assert put(api, f"/api/stores/{memory}/", [result]).status_code == 204
        assert api.get(f"/api/stores/{memory}/").json() == [change[0]]
        [row] = Conversation.objects.get(memory_id=memory).messages.all()
        assert row.evicted_in is None


def test_a_message_that_is_too_long_names_its_place(api: Client, settings: Any) -> None:
    settings.CHATMEMORY = {"USERS": "all", "MAX_MESSAGE_CHARS": 10}
    refused = put(api, "/api/stores/x/", [USER, ai("a" * 11)])
    assert refused.json()["errors"] == [
        {
            "place": "[1]",
            "code": "max_length",
            "detail": "has 11 characters; at most 10 are stored",
            "params": {"count": 11, "most": 10},
        }
    ]


def test_an_unknown_memory_is_empty_and_stays_unknown(api: Client) -> None:
    assert api.get("/api/stores/nobody/").content == b"[]"
    assert api.delete("/api/stores/nobody/").status_code == 204
    assert not Conversation.objects.exists()


def test_nothing_may_be_put(api: Client, user: Any) -> None:
    assert put(api, "/api/stores/x/", []).status_code == 204
    assert put(api, "/api/stores/x/", [USER]).status_code == 204
    assert put(api, "/api/stores/x/", []).status_code == 204
    assert api.get("/api/stores/x/").json() == []
    [gone] = Conversation.objects.get(owner=user).messages.all()
    assert gone.eviction_reason == "rewritten"


def test_the_window_is_the_other_programs(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user, memory_id="x", window="messages", limit=1)
    put(api, "/api/stores/x/", [USER, ai("a"), USER])
    assert len(api.get("/api/stores/x/").json()) == 3
    assert conversation.messages.retained().count() == 3


@pytest.mark.parametrize("memory_id", ["a/b", "a/", "/", " a ", "ü", "a\nb", "100%", "?#", "x" * 255, "memory", "."])
def test_any_memory_id(api: Client, user: Any, memory_id: str) -> None:
    path = reverse("chatmemory:store", kwargs={"memory_id": memory_id})
    assert put(api, path, [USER]).status_code == 204
    assert DjangoChatMemoryStore(user).get_messages(memory_id) == [UserMessage("Hello")]
    assert api.get(path).json() == [USER]
    assert Conversation.objects.get().memory_id == memory_id


@pytest.mark.parametrize("memory_id", ["x" * 256, "a\x00"])
def test_ids_that_no_memory_can_have(api: Client, memory_id: str) -> None:
    for method in ("get", "put", "delete"):
        answer = getattr(api, method)(reverse("chatmemory:store", kwargs={"memory_id": memory_id}))
        assert answer.status_code == 400
        assert answer.json()["errors"][0]["place"] == "memory_id"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"messages": []}, "expected a list of messages"),
        (None, "expected a list of messages"),
        ([USER, {"type": "AI", "x": 1}], "[1].x: unknown field"),
        ("", "expected a list of messages"),
    ],
)
def test_bad_bodies_change_nothing(api: Client, body: Any, says: str) -> None:
    put(api, "/api/stores/x/", [USER])
    answer = put(api, "/api/stores/x/", body)
    assert (answer.status_code, says in answer.json()["detail"]) == (400, True)
    assert api.get("/api/stores/x/").json() == [USER]


def test_stores_speak_one_format(api: Client) -> None:
    answer = api.get("/api/stores/x/?format=openai")
    assert (answer.status_code, answer.json()["errors"][0]["place"]) == (400, "format")


def test_one_memory_id_is_another_memory_for_another_user(api: Client) -> None:
    other = Client()
    other.force_login(UserFactory())
    put(api, "/api/stores/x/", [USER])
    assert other.get("/api/stores/x/").json() == []
    put(other, "/api/stores/x/", [ai("theirs")])
    other.delete("/api/stores/x/")
    assert json.loads(api.get("/api/stores/x/").content) == [USER]
