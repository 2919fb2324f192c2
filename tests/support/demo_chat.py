"""The demo's chat without a browser: import the fixtures ``demo_chat`` and ``conversation``."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from chatmemory import ChatMessage, SystemMessage
from chatmemory.models import Conversation
from demo_project.chat import speakers
from tests.support.factories import ConversationFactory
from tests.support.paths import ROOT

__all__ = ["conversation", "demo_chat", "events_of", "history", "kinds", "types"]


@pytest.fixture(autouse=True)
def demo_chat(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo's addresses and templates, no model of the developer's, and no pauses."""
    settings.ROOT_URLCONF = "demo_project.urls"
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": [ROOT / "templates"]}]
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "CHATMEMORY_DEMO_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(speakers, "PAUSE", 0)


@pytest.fixture
def conversation(user: Any) -> Conversation:
    conversation: Conversation = ConversationFactory(owner=user, window="messages", limit=8)
    conversation.memory.add(SystemMessage("Be brief."))
    return conversation


def events_of(client: Client, conversation: Conversation) -> list[dict[str, Any]]:
    response: Any = client.post(f"/chat/{conversation.pk}/reply/")
    assert response.status_code == 200
    assert response["Content-Type"] == "application/x-ndjson"
    return [json.loads(line) for line in b"".join(response.streaming_content).splitlines()]


def kinds(events: list[dict[str, Any]]) -> list[str]:
    """The events, several pieces of an answer as one."""
    names = [event["event"] for event in events]
    return [name for index, name in enumerate(names) if name != "delta" or names[index - 1 : index] != ["delta"]]


def history(conversation: Conversation) -> list[ChatMessage]:
    return [row.message for row in conversation.messages.history()]


def types(conversation: Conversation) -> list[str]:
    return [row.type for row in conversation.messages.history()]
