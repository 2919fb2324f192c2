"""Branches over REST: go back, edit, switch, fork, siblings, and the current branch."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from chatmemory import AiMessage, UserMessage
from chatmemory.models import Conversation
from tests.support.api import post, url
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def conversation(user: Any) -> Conversation:
    """Two questions, with their answers, at the positions 0 to 3."""
    made: Conversation = ConversationFactory.create(owner=user, window="messages", limit=20)
    made.memory.add(UserMessage("One"), AiMessage("A"), UserMessage("Two"), AiMessage("B"))
    return made


def positions(api: Client, conversation: Conversation, query: str = "") -> list[int]:
    return [item["position"] for item in api.get(url(conversation, f"messages/{query}")).json()["results"]]


def siblings(api: Client, conversation: Conversation) -> dict[int, Any]:
    items = api.get(url(conversation, "messages/")).json()["results"]
    return {item["position"]: item["siblings"] for item in items}


def user_message(text: str) -> dict[str, Any]:
    return {"type": "USER", "contents": [{"type": "TEXT", "text": text}]}


class TestGoingBack:
    def test_rewind(self, api: Client, conversation: Conversation) -> None:
        answer = post(api, url(conversation, "rewind/"), {"before": 2})
        assert answer.status_code == 200, answer.content
        assert [(item["position"], item["reason"]) for item in answer.json()["evicted"]] == [
            (2, "rewound"),
            (3, "rewound"),
        ]
        assert positions(api, conversation) == [0, 1, 2, 3]
        assert positions(api, conversation, "?branch=current") == [0, 1]

    def test_edit_and_switch(self, api: Client, conversation: Conversation) -> None:
        answer = post(api, url(conversation, "edit/"), {"position": 2, "message": user_message("Three")})
        assert answer.status_code == 200, answer.content
        assert [item["text"] for item in answer.json()["added"]] == ["Three"]
        assert positions(api, conversation, "?branch=current") == [0, 1, 4]
        assert siblings(api, conversation) == {0: None, 1: None, 2: [2, 4], 3: None, 4: [2, 4]}
        answer = post(api, url(conversation, "switch/"), {"position": 2})
        assert answer.status_code == 200, answer.content
        assert positions(api, conversation, "?branch=current") == [0, 1, 2, 3]
