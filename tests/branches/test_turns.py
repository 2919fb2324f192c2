"""Turns that go back: edits and other answers, by this API's fields and by what ``useChat`` sends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from chatmemory import AiMessage
from chatmemory.models import Conversation
from tests.support.api import post, url
from tests.support.assistants import Speaker, choose
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _numbered() -> Iterator[None]:
    """A model that numbers its answers."""
    answers = iter(range(1, 1000))
    choose(Speaker(lambda messages: [AiMessage(f"{next(answers)}: {messages[-1].text}")]))
    yield
    choose(None)


@pytest.fixture
def conversation(user: Any) -> Conversation:
    made: Conversation = ConversationFactory.create(owner=user, window="messages", limit=20)
    return made


def take(api: Client, conversation: Conversation, body: dict[str, Any], **headers: str) -> Any:
    answer = post(api, url(conversation, "turns/"), body, accept="application/json", **headers)
    assert answer.status_code == 200, answer.content
    return answer.json()


def page(api: Client, conversation: Conversation) -> list[tuple[str, str]]:
    """Return the IDs and texts that ``useChat`` loads."""
    messages = api.get(url(conversation, "turns/")).json()["messages"]
    return [(message["id"], message["parts"][-1]["text"]) for message in messages]


class TestOwnFields:
    def test_edit_and_regenerate(self, api: Client, conversation: Conversation) -> None:
        take(api, conversation, {"message": "One"})
        take(api, conversation, {"message": "Two"})
        take(api, conversation, {"message": "Three", "edit": 2}, idempotency_key="a")
        take(api, conversation, {"message": "Three", "edit": 2}, idempotency_key="a")
        assert page(api, conversation) == [
            ("0", "One"),
            ("answer-0", "1: One"),
            ("4", "Three"),
            ("answer-4", "3: Three"),
        ]
        take(api, conversation, {"regenerate": None}, idempotency_key="b")
        take(api, conversation, {"regenerate": None}, idempotency_key="b")
        assert page(api, conversation)[2:] == [("4", "Three"), ("answer-4-6", "4: Three")]
        take(api, conversation, {"regenerate": 1})
        assert page(api, conversation) == [("0", "One"), ("answer-0-7", "5: One")]
