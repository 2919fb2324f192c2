"""The formats by name, a project's own among them: in Python, over REST and in the admin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.checks import run_checks
from django.test import Client

from chatmemory import (
    AiMessage,
    ChatMessage,
    CustomMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.formats import MessageFormat, UnsupportedContentError
from chatmemory.formats.anthropic import to_anthropic
from chatmemory.formats.gemini import to_gemini
from chatmemory.formats.openai import to_openai
from chatmemory.formats.registry import message_formats
from chatmemory.formats.responses import to_responses
from chatmemory.models import Conversation
from chatmemory.rest.openapi import openapi_document
from chatmemory.signals import memory_repaired
from tests.support.api import post, put, url
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db

HI = UserMessage("Hi")
ORPHAN = ToolExecutionResultMessage("1", "look_up", "A cat.")
WRITERS = {
    "openai": to_openai,
    "openai-responses": to_responses,
    "anthropic": to_anthropic,
    "gemini": to_gemini,
}
WHOLE_ONLY = ["openai-responses", "anthropic", "gemini"]


def _shout(messages: Any) -> list[Any]:
    return [message.single_text().upper() for message in messages]


SHOUTED = MessageFormat(
    title="Shouted",
    write=lambda messages, on_repair: " ".join(_shout(messages)),
    write_each=_shout,
    read=lambda data, place: [UserMessage(text.lower()) for text in data],
)
WHISPERED = MessageFormat(title="Whispered", write=lambda messages, on_repair: len(messages))
UNREADABLE = MessageFormat(title="Unreadable", write=lambda messages, on_repair: "", write_each=_shout)
SUNG = MessageFormat(
    title="Sung",
    write=lambda messages, on_repair: _shout(messages),
    write_each=_shout,
    schemas={"Song": {"type": "array", "items": {"$ref": "Verse"}}, "Verse": {"type": "string"}},
)
OWN = {name: f"tests.formats.test_registry.{name.upper()}" for name in ("shouted", "whispered", "unreadable")}


@pytest.fixture
def repaired() -> Iterator[list[tuple[Conversation, str, list[str]]]]:
    """What ``memory_repaired`` said."""
    found: list[tuple[Conversation, str, list[str]]] = []

    def receive(conversation: Conversation, format: str, repairs: Any, **kwargs: Any) -> None:
        found.append((conversation, format, [repair.reason for repair in repairs]))

    memory_repaired.connect(receive, sender=Conversation)
    yield found
    memory_repaired.disconnect(receive, sender=Conversation)


def _conversation(*messages: ChatMessage, **fields: Any) -> Conversation:
    conversation = ConversationFactory(**fields)
    conversation.memory.add(*messages)
    return conversation


class TestInPython:
    @pytest.mark.parametrize("name", WRITERS)
    def test_what_is_sent(self, name: str, repaired: list[Any]) -> None:
        said = [SystemMessage("S"), HI, AiMessage("Hello")]
        assert _conversation(*said).memory.to_format(name) == WRITERS[name](said)
        assert repaired == []

    @pytest.mark.parametrize("name", WRITERS)
    def test_repairs_are_signalled(self, name: str, repaired: list[Any]) -> None:
        conversation = _conversation(HI, ORPHAN)
        assert conversation.memory.to_format(name) == WRITERS[name]([HI])
        assert repaired == [(conversation, name, ["result_without_call"])]
        assert conversation.memory.messages() == [HI, ORPHAN]

    def test_a_receiver_that_fails_does_no_harm(self, repaired: list[Any]) -> None:
        def fail(**kwargs: Any) -> None:
            raise RuntimeError

        memory_repaired.connect(fail)
        try:
            assert _conversation(ORPHAN, HI).memory.to_format("openai") == to_openai([HI])
        finally:
            memory_repaired.disconnect(fail)
        assert len(repaired) == 1

    def test_langchain4j_is_one_for_one(self, repaired: list[Any]) -> None:
        written = _conversation(ORPHAN).memory.to_format("langchain4j")
        assert [message["type"] for message in written] == ["TOOL_EXECUTION_RESULT"]
        assert repaired == []

    def test_ai_sdk_has_whole_turns(self, repaired: list[Any]) -> None:
        call = AiMessage(None, [ToolExecutionRequest("1", "look_up", "{}")])
        written = _conversation(HI, call, ORPHAN, AiMessage("Meow")).memory.to_format("ai-sdk")
        assert [message["role"] for message in written] == ["user", "assistant"]
        assert repaired == []

    def test_what_cannot_be_expressed(self) -> None:
        with pytest.raises(UnsupportedContentError, match=r"message 0 \(CUSTOM\)"):
            _conversation(CustomMessage()).memory.to_format("gemini")

    def test_no_such_format(self) -> None:
        with pytest.raises(ValueError, match="unknown format 'x'; expected one of langchain4j, openai, "):
            _conversation().memory.to_format("x")


class TestOverRest:
    @pytest.mark.parametrize("name", WRITERS)
    def test_a_memory_is_what_is_sent(self, api: Client, user: Any, name: str, repaired: list[Any]) -> None:
        conversation = _conversation(SystemMessage("S"), ORPHAN, HI, owner=user)
        answer = api.get(url(conversation, f"memory/?format={name}"))
        assert answer.status_code == 200
        assert answer.json()["messages"] == WRITERS[name]([SystemMessage("S"), HI])
        assert repaired == [(conversation, name, ["result_without_call"])]
        past = api.get(url(conversation, f"memory/?format={name}&at=0")).json()
        assert past["messages"] == WRITERS[name]([])

    def test_a_history_is_a_record(self, api: Client, user: Any, repaired: list[Any]) -> None:
        conversation = _conversation(ORPHAN, owner=user)
        [item] = api.get(url(conversation, "messages/?format=openai")).json()["results"]
        assert item["message"] == {"role": "tool", "tool_call_id": "1", "content": "A cat."}
        assert repaired == []

    def test_ai_sdk_both_ways(self, api: Client, user: Any) -> None:
        conversation = _conversation(owner=user)
        call = {"type": "dynamic-tool", "toolName": "f", "toolCallId": "1", "state": "output-available", "input": {}}
        message = {"id": "x", "role": "assistant", "parts": [{**call, "output": "noon"}]}
        added = post(api, url(conversation, "messages/?format=ai-sdk"), {"messages": [message]}).json()["added"]
        assert [item["type"] for item in added] == ["AI", "TOOL_EXECUTION_RESULT"]
        found = api.get(url(conversation, "messages/?format=ai-sdk")).json()["results"]
        assert [item["message"]["role"] for item in found] == ["assistant", "assistant"]

    def test_a_preview_is_what_would_be_sent(self, api: Client, user: Any, repaired: list[Any]) -> None:
        call = AiMessage(None, [ToolExecutionRequest("1", "look_up", "{}")])
        conversation = _conversation(call, ORPHAN, window="messages", limit=10, owner=user)
        answer = post(api, url(conversation, "memory/preview/?format=openai"), {}).json()
        assert [message["role"] for message in answer["messages"]] == ["assistant", "tool"]
        assert repaired == []

    @pytest.mark.parametrize("name", WHOLE_ONLY)
    def test_what_has_no_value_for_each_message_is_for_memories_only(self, api: Client, user: Any, name: str) -> None:
        conversation = _conversation(HI, owner=user)
        body = {"messages": [{"role": "user", "content": "x"}]}
        answers = [
            api.get(url(conversation, f"messages/?format={name}")),
            api.get(url(conversation, f"messages/0/?format={name}")),
            post(api, url(conversation, f"messages/?format={name}"), body),
            put(api, url(conversation, f"memory/?format={name}"), body),
            post(api, url(conversation, f"memory/preview/?format={name}"), {}),
        ]
        for answer in answers:
            assert answer.status_code == 400
            [error] = answer.json()["errors"]
            problem = "is for GET conversations/{id}/memory/ only; expected one of langchain4j, openai, ai-sdk"
            assert error == {
                "place": "format",
                "code": "not_supported",
                "detail": f"{name} {problem}",
                "params": {"format": name, "formats": ["langchain4j", "openai", "ai-sdk"]},
            }
        assert conversation.memory.messages() == [HI]

    @pytest.mark.parametrize("name", WHOLE_ONLY)
    def test_what_cannot_be_expressed(self, api: Client, user: Any, name: str) -> None:
        conversation = _conversation(CustomMessage(), owner=user)
        answer = api.get(url(conversation, f"memory/?format={name}"))
        assert answer.status_code == 406
        assert "CUSTOM" in answer.json()["detail"]


class TestOwn:
    @pytest.fixture(autouse=True)
    def _own(self, settings: Any) -> None:
        settings.CHATMEMORY = {"USERS": "all", "FORMATS": OWN}

    @pytest.mark.django_db(databases=["default", "other"])  # which Django's checks ask what they can do
    def test_known(self) -> None:
        assert list(message_formats()) == ["langchain4j", *WRITERS, "ai-sdk", *OWN]
        assert [error for error in run_checks() if error.id.startswith("chatmemory.")] == []

    def test_one_of_the_same_name_takes_the_place(self, settings: Any) -> None:
        settings.CHATMEMORY = {"FORMATS": {"openai": OWN["shouted"]}}
        assert _conversation(HI).memory.to_format("openai") == "HI"

    def test_both_ways(self, api: Client, user: Any) -> None:
        conversation = _conversation(HI, owner=user)
        added = post(api, url(conversation, "messages/?format=shouted"), {"messages": ["THERE"]})
        assert added.json()["added"][0]["message"] == "THERE"
        assert conversation.memory.messages() == [HI, UserMessage("there")]
        assert api.get(url(conversation, "memory/?format=shouted")).json()["messages"] == "HI THERE"

    def test_for_a_whole_memory_only(self, api: Client, user: Any) -> None:
        conversation = _conversation(HI, owner=user)
        assert api.get(url(conversation, "memory/?format=whispered")).json()["messages"] == 1
        assert api.get(url(conversation, "messages/?format=whispered")).status_code == 400

    def test_one_that_is_not_read(self, api: Client, user: Any) -> None:
        conversation = _conversation(HI, owner=user)
        [item] = api.get(url(conversation, "messages/?format=unreadable")).json()["results"]
        assert item["message"] == "HI"
        answer = post(api, url(conversation, "messages/?format=unreadable"), ["x"])
        assert answer.status_code == 400
        assert "langchain4j, openai, ai-sdk, shouted" in answer.json()["detail"]

    @pytest.mark.slow
    def test_described(self) -> None:
        def formats(path: str, method: str) -> list[str]:
            parameters = openapi_document()["paths"][path][method]["parameters"]
            return next(p["schema"]["enum"] for p in parameters if p["name"] == "format")

        history = "/conversations/{conversation_id}/messages/"
        assert formats("/conversations/{conversation_id}/memory/", "get") == list(message_formats())
        assert formats(history, "get") == ["langchain4j", "openai", "ai-sdk", "shouted", "unreadable"]
        assert formats(history, "post") == ["langchain4j", "openai", "ai-sdk", "shouted"]

    @pytest.mark.slow
    def test_described_by_its_schemas(self, settings: Any) -> None:
        settings.CHATMEMORY = {"FORMATS": {"sung": "tests.formats.test_registry.SUNG", "openai": OWN["shouted"]}}
        schemas = openapi_document()["components"]["schemas"]
        song = {"$ref": "#/components/schemas/Song"}
        assert schemas["Song"] == {"type": "array", "items": {"$ref": "#/components/schemas/Verse"}}
        assert schemas["Verse"] == {"type": "string"}
        assert song in schemas["HistoryItem"]["properties"]["message"]["anyOf"]
        assert {"type": "array", "items": song} in schemas["Memory"]["properties"]["messages"]["anyOf"]
        # That of openai has none, so it may be anything.
        assert {"description": "Of the format Shouted."} in schemas["HistoryItem"]["properties"]["message"]["anyOf"]
