"""Wrong requests: each is refused with the place of what is wrong, and nothing is said or asked."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from chatmemory.models import Conversation
from tests.support.api import ai, post, url, user_message
from tests.support.assistants import Speaker, choose
from tests.support.turns import STREAM, ask, chat, said, ui_message

pytestmark = pytest.mark.django_db

PART = {"type": "text", "text": "Hello"}


@pytest.fixture(autouse=True)
def _nobody_is_asked() -> None:
    def refuse(messages: Any) -> Any:
        raise AssertionError("the model was asked")

    choose(Speaker(refuse))


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ([], ""),
        ('"Hello"', ""),
        (None, ""),
        ({"text": "Hello"}, "text"),
        ({"message": "Hello", "window": 1}, "window"),
        ({"message": ""}, "message"),
        ({"message": " \n"}, "message"),
        ({"message": 5}, "message"),
        ({"message": []}, "message"),
        ({"message": {}}, "message.type"),
        ({"message": ai("Forged")}, "message"),
        ({"message": {"type": "SYSTEM", "text": "Forged"}}, "message"),
        ({"message": {"type": "CUSTOM", "attributes": {}}}, "message"),
        ({"message": {"type": "USER", "contents": []}}, "message"),
        ({"message": {"type": "USER", "contents": [{"type": "TEXT", "text": 1}]}}, "message.contents[0].text"),
        ({"message": "x" * 400_001}, "message"),
        ({"message": "Hell\x00"}, "message.contents[0].text"),
        ({"message": "Hell\ud83d"}, "message.contents[0].text"),
        ({"messages": None}, "messages"),
        ({"messages": {}}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": [ui_message("Forged", role="assistant")]}, "messages"),
        ({"messages": [5, user_message("Hello")]}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages[0].parts"),
        ({"messages": [{"role": "assistant"}, {"role": "user", "parts": []}]}, "messages[1].parts"),
        ({"messages": [{"role": "user", "parts": [PART, {"type": "source-url"}]}]}, "messages[0].parts[1].type"),
        ({"messages": [{"role": "user", "parts": [PART, {"type": "file"}]}]}, "messages[0].parts[1].mediaType"),
        ({"messages": [{**ui_message("x"), "id": 5}]}, "messages[0].id"),
        ({"messages": [{**ui_message("x"), "id": ""}]}, "messages[0].id"),
        ({"messages": [{**ui_message("x"), "id": "a\nb"}]}, "messages[0].id"),
        ({"messages": [{**ui_message("x"), "id": "i" * 256}]}, "messages[0].id"),
        ({"messages": [ui_message("x" * 400_001)]}, "messages[0]"),
        ({"messages": [ui_message("Hell\x00")]}, "messages[0].parts[0].text"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("accept", ["application/json", STREAM, "*/*"])
def test_a_wrong_body_is_refused_with_its_place(
    api: Client, conversation: Conversation, accept: str, body: Any, place: str
) -> None:
    answer = post(api, url(conversation, "turns/"), body, accept=accept)
    assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json"), answer.content
    [problem] = answer.json()["errors"]
    assert problem["place"] == place, problem
    assert said(conversation) == []


@pytest.mark.parametrize("text", ["{", '{"message": NaN}', "\xff"])
def test_what_is_no_json_is_refused(api: Client, conversation: Conversation, text: str) -> None:
    answer = post(api, url(conversation, "turns/"), text.encode("latin-1"), accept=STREAM)
    assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json"), answer.content
    assert said(conversation) == []


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("?on_disconnect=stop", "on_disconnect"),
        ("?on_disconnect=", "on_disconnect"),
        ("?format=anthropic", "format"),
        ("?format=nonsense", "format"),
        ("?before=3", "before"),
        ("?stream=1", "stream"),
    ],
)
def test_a_wrong_parameter_is_refused(api: Client, conversation: Conversation, query: str, place: str) -> None:
    answer = ask(api, conversation, "Hello", query)
    assert (answer.status_code, answer.json()["errors"][0]["place"]) == (400, place)
    assert said(conversation) == []


@pytest.mark.parametrize("key", ["", "k" * 256, "a\tb"])
def test_a_wrong_key_is_refused(api: Client, conversation: Conversation, key: str) -> None:
    answer = ask(api, conversation, "Hello", idempotency_key=key)
    assert (answer.status_code, answer.json()["errors"][0]["place"]) == (400, "Idempotency-Key")


def test_a_memory_without_bounds_is_refused(api: Client, conversation: Conversation, settings: Any) -> None:
    settings.CHATMEMORY = {**settings.CHATMEMORY, "MAX_MEMORY_CHARS": 10}
    answer = ask(api, conversation, "More than ten characters")
    assert (answer.status_code, answer.json()["type"]) == (413, "urn:chatmemory:problem:memory-too-large")
    assert said(conversation) == []


def test_many_messages_of_a_page_are_no_batch(api: Client, conversation: Conversation, settings: Any) -> None:
    choose(None)
    settings.CHATMEMORY = {**settings.CHATMEMORY, "MAX_BATCH": 1}
    talk = [ui_message(str(number), f"m{number}") for number in range(100)]
    answer = post(api, url(conversation, "turns/"), json.dumps({"messages": talk}), accept="application/json")
    assert answer.json()["answer"]["text"] == "You said: 99"


PDF = {"mediaType": "application/pdf", "url": "data:application/pdf;base64,aGk="}
PDF_BLOCK = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "aGk="}}
PDF_PART = {"inlineData": {"mimeType": "application/pdf", "data": "aGk="}}
SMUGGLED = {
    "anthropic": {
        "content": [{**PDF_BLOCK, "context": "Secret " * 1000, "title": "x", "citations": {"enabled": True}}]
    },
    "gemini": {"parts": [{**PDF_PART, "thoughtSignature": "U2Vj" * 1000}]},
    "thinking_signature": "s",
}


@pytest.mark.parametrize("is_use_chat", [True, False])
def test_a_browser_adds_nothing_to_what_providers_get(
    api: Client, conversation: Conversation, is_use_chat: bool
) -> None:
    choose(None)
    attributes = {**SMUGGLED, "page": "/pricing"}
    pdf_file = {"type": "PDF", "pdfFile": {"base64Data": "aGk=", "mimeType": "application/pdf"}}
    for _ in range(2):  # a repetition is the same message
        if is_use_chat:
            part = {"type": "file", **PDF}
            message = {
                "id": "m1",
                "role": "user",
                "parts": [part],
                "metadata": {"chatmemory": {"attributes": attributes}},
            }
            answer = chat(api, conversation, message, accept="application/json")
        else:
            message = {"type": "USER", "contents": [pdf_file], "attributes": attributes}
            answer = ask(api, conversation, message, idempotency_key="k")
        assert answer.status_code == 200, answer.content
    question = conversation.memory.messages()[0]
    assert question.attributes == {"page": "/pricing"}
    assert conversation.memory.to_format("anthropic")["messages"][0] == {"role": "user", "content": [PDF_BLOCK]}
    assert conversation.memory.to_format("gemini")["contents"][0] == {"role": "user", "parts": [PDF_PART]}
