"""The demo's chat without a browser: import the fixtures ``demo_chat`` and ``conversation``."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from chatmemory import ChatMessage, SystemMessage
from chatmemory.models import Conversation
from demo_project.chat import speakers
from tests.support.factories import ConversationFactory
from tests.support.paths import ROOT
from tests.support.turns import chunks_of, stream

__all__ = ["conversation", "demo_chat", "events_of", "history", "kinds", "types"]


@pytest.fixture(autouse=True)
def demo_chat(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo's addresses and templates, no model of the developer's, and no pauses."""
    settings.ROOT_URLCONF = "demo_project.urls"
    settings.CHATMEMORY = {
        **settings.CHATMEMORY,
        "ASSISTANT": "demo_project.chat.assistant.assistant",
        "SUMMARIZER": "demo_project.chat.summarizer.summarize",
    }
    settings.LOGIN_URL = "sign-in"
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": [ROOT / "templates"]}]
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "CHATMEMORY_DEMO_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(speakers, "PAUSE", 0)


@pytest.fixture
def conversation(user: Any) -> Conversation:
    conversation: Conversation = ConversationFactory(owner=user, window="messages", limit=8)
    conversation.memory.add(SystemMessage("Be brief."))
    return conversation


def events_of(client: Client, conversation: Conversation, message: str | None = None) -> list[dict[str, Any]]:
    """What happens in a turn that says something, or goes on from where the conversation stands."""
    return [event for chunk in chunks_of(stream(client, conversation, message)) for event in _events(chunk)]


def _events(chunk: dict[str, Any]) -> list[dict[str, Any]]:
    match chunk["type"]:
        case "text-delta":
            return [{"event": "delta", "text": chunk["delta"]}]
        case "data-memory":
            return [{"event": "change", **chunk["data"]}]
        case "error":
            return [{"event": "error", "detail": chunk["errorText"]}]
        case "finish":
            return [{"event": "done"}]
    return []


def kinds(events: list[dict[str, Any]]) -> list[str]:
    """The events, several pieces of an answer as one."""
    names = [event["event"] for event in events]
    return [name for index, name in enumerate(names) if name != "delta" or names[index - 1 : index] != ["delta"]]


def history(conversation: Conversation) -> list[ChatMessage]:
    return [row.message for row in conversation.messages.history()]


def types(conversation: Conversation) -> list[str]:
    return [row.type for row in conversation.messages.history()]
