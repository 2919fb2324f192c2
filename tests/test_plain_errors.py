"""Errors of a first try: each says what was given, and what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chatmemory import (
    AiMessage,
    InMemoryChatMemoryStore,
    MessageWindowChatMemory,
    TokenWindowChatMemory,
    UserMessage,
)
from chatmemory.assistant import Assistant
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db


def added(value: Any) -> Callable[[], Any]:
    return lambda: MessageWindowChatMemory(max_messages=5).add(value)


def row() -> Any:
    return ConversationFactory().memory.add(UserMessage("Hi")).added[0]


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (added("Hi"), 'messages[0] must be a message, but is: str; for the message of a user, write UserMessage("…")'),
        (added([UserMessage("Hi")]), "messages[0] must be a message, but is: list; pass each message to add()"),
        (added({"role": "user", "content": "Hi"}), "dict; from_openai() of chatmemory.formats.openai reads"),
        (added({"type": "USER"}), "messages[0] must be a message, but is: dict"),
        (lambda: added(row())(), "messages[0] must be a message, but is: Message; use its attribute message"),
        (lambda: UserMessage(["Hi"]), "contents[0] has the wrong type: str; expected Content"),  # type: ignore[list-item]
        (
            lambda: AiMessage("", [{"name": "f"}]),  # type: ignore[list-item]
            "tool_execution_requests[0] has the wrong type: dict; expected ToolExecutionRequest",
        ),
        (
            lambda: Assistant(lambda messages, tools: AiMessage("Hi"), memory=ConversationFactory()),  # type: ignore[arg-type]
            "memory must be a ChatMemory or a callable, but is: Conversation; pass conversation.memory",
        ),
        (
            lambda: Assistant(
                lambda messages, tools: AiMessage("Hi"),
                memory=lambda key: ConversationFactory(),  # type: ignore[arg-type,return-value]
            ).chat("a", "Hi"),
            "the memory of 'a' must be a ChatMemory, but is: Conversation; pass conversation.memory",
        ),
    ],
)
def test_it_says_what_to_write(act: Callable[[], Any], says: str) -> None:
    with pytest.raises(TypeError) as raised:
        act()
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("act", "wording", "example"),
    [
        (lambda: MessageWindowChatMemory(), "max_messages_provider cannot be null", "max_messages=20"),
        (lambda: TokenWindowChatMemory(), "max_tokens_provider cannot be null", "max_tokens=4000"),
        (
            lambda: TokenWindowChatMemory(max_tokens=5, store=InMemoryChatMemoryStore()),
            "token_count_estimator cannot be null",
            'token_count_estimator=OpenAiTokenCountEstimator("gpt-4o")',
        ),
    ],
)
def test_langchain4js_wording_is_explained_in_a_note(act: Callable[[], Any], wording: str, example: str) -> None:
    with pytest.raises(ValueError, match=wording) as raised:
        act()
    assert str(raised.value) == wording
    [note] = raised.value.__notes__
    assert note == f"An argument is missing. Pass one, for example {example}."
