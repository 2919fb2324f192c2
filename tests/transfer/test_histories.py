"""Histories in other formats: written part by part, and the same as at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chatmemory import (
    AiMessage,
    ChatMessage,
    CustomMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.core.json_text import dumps
from chatmemory.formats.registry import BUILT_IN
from chatmemory.models import Conversation
from chatmemory.transfer.histories import NotExportableError, history_text
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def conversation(user: Any) -> Conversation:
    """A history of several parts, with calls and results that have no IDs, in two of them."""
    made: Conversation = ConversationFactory.create(owner=user, window="messages", limit=1000)
    requests = [ToolExecutionRequest(id, "find", '{"a": "🍵"}') for id in (None, "call_1", None)]
    messages: list[ChatMessage] = [UserMessage("Hi"), AiMessage("Hello", thinking="Hm")] * 49
    messages += [AiMessage(None, requests), *(ToolExecutionResultMessage(id, "find", "x") for id in (None, "call_1"))]
    messages += [ToolExecutionResultMessage(None, "find", "y"), *[UserMessage("Well?")] * 150]
    messages += [AiMessage(None, requests), *(ToolExecutionResultMessage(None, "find", "z") for _ in range(2))]
    made.memory.add(*messages)
    return made


@pytest.mark.parametrize("name", ["openai", "ai-sdk"])
def test_the_parts_make_the_whole(conversation: Conversation, name: str) -> None:
    format = BUILT_IN[name]
    assert format.write_each is not None
    messages = [row.message for row in conversation.messages.history()]
    whole = dumps(format.write_each(messages))
    assert "".join(history_text(conversation, format)) == whole
    assert "".join(history_text(conversation, replace(format, write_history=None))) == whole


@pytest.mark.parametrize("name", ["openai", "ai-sdk"])
def test_an_empty_history(user: Any, name: str) -> None:
    assert "".join(history_text(ConversationFactory.create(owner=user), BUILT_IN[name])) == "[]"


@pytest.mark.parametrize("is_whole", [True, False])
def test_what_openai_cannot_express_is_named_before_the_first_part(conversation: Conversation, is_whole: bool) -> None:
    [row] = conversation.memory.add(CustomMessage({"a": 1})).added
    format = BUILT_IN["openai"]
    with pytest.raises(NotExportableError) as raised:
        history_text(conversation, replace(format, write_history=None) if is_whole else format)
    assert raised.value.row.position == row.position
