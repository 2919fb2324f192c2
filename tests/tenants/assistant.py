"""An assistant that uses the database in each thread that works for a request."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

from chatmemory import AiMessage, ChatMessage, ToolExecutionRequest, UserMessage
from chatmemory.assistant import Assistant, ToolSpecification
from chatmemory.models import Conversation
from tests.support.signalled import Signalled, Signals

__all__ = ["assistant"]


class Counting(Signalled):
    """Calls the tool ``count``, and then answers as ``Signalled`` does. Asked for a whole answer, it writes a title."""

    def chat(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> AiMessage:
        return AiMessage(f"{count()} in sight")

    def stream(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> Iterator[str | AiMessage]:
        if isinstance(messages[-1], UserMessage):
            yield AiMessage(None, [ToolExecutionRequest("1", "count", "{}")])
        else:
            yield from super().stream([message for message in messages if isinstance(message, UserMessage)], tools)

    async def astream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]
    ) -> AsyncIterator[str | AiMessage]:
        if isinstance(messages[-1], UserMessage):
            yield AiMessage(None, [ToolExecutionRequest("1", "count", "{}")])
        else:
            said = [message for message in messages if isinstance(message, UserMessage)]
            async for piece in super().astream(said, tools):
                yield piece


def count() -> int:
    """Count the conversations."""
    return Conversation.objects.count()


def summarize(messages: Sequence[ChatMessage], previous: str | None) -> str:
    return f"{count()} summarised"


def assistant(request: Any) -> Assistant:
    """Return the assistant that ``CHATMEMORY["ASSISTANT"]`` names."""
    model = Counting(Signals(Path(os.environ["CHATMEMORY_TEST_SIGNALS"])))
    return Assistant(model, tools=[count], tool_timeout=60, turn_timeout=90, summarizer=summarize, title=True)
