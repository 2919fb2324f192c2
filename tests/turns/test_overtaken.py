"""A turn that failed and was overtaken: who asks again, for it or for the one that overtook, gets their own answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from django.test import Client

from chatmemory import ChatMessage
from chatmemory.models import Conversation
from tests.support.assistants import Speaker, choose, echo
from tests.support.factories import ConversationFactory
from tests.support.turns import ask, chunks_of, stream, texts_of

pytestmark = pytest.mark.django_db


def fail(messages: Sequence[ChatMessage]) -> Iterator[Any]:
    raise ConnectionError("away")
    yield


@pytest.fixture
def overtaken(api: Client, user: Any) -> Iterator[Conversation]:
    conversation = ConversationFactory.create(owner=user)
    choose(Speaker(fail))
    assert ask(api, conversation, "First", idempotency_key="1").status_code == 502
    choose(Speaker(echo))
    assert ask(api, conversation, "Second", idempotency_key="2").status_code == 200
    assert ask(api, conversation, "First", idempotency_key="1").status_code == 200
    yield conversation
    choose(None)


@pytest.mark.parametrize(("text", "key"), [("First", "1"), ("Second", "2")])
def test_each_repetition_gets_its_own_answer(api: Client, overtaken: Conversation, text: str, key: str) -> None:
    answer = ask(api, overtaken, text, idempotency_key=key).json()
    assert answer["answer"]["text"] == f"You said: {text}"
    assert [item["text"] for item in answer["added"]][-1] == f"You said: {text}"
    assert len([item for item in answer["added"] if item["type"] == "AI"]) == 1
    chunks = chunks_of(stream(api, overtaken, text, idempotency_key=key))
    assert texts_of(chunks) == f"You said: {text}"
