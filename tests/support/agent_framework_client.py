"""A chat client of Agent Framework that gives the answers that a test wrote."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from agent_framework import (
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
)

__all__ = ["ScriptedClient"]


class ScriptedClient(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):  # type: ignore[type-arg]
    """Gives these answers one after the other, whole or streamed, and notes what it was sent."""

    def __init__(self, *answers: Message) -> None:
        super().__init__()
        self.answers = list(answers)
        self.got: list[list[Message]] = []

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **kwargs: Any) -> Any:
        self.got.append(list(messages))
        answer = self.answers.pop(0)

        async def whole() -> ChatResponse:
            return ChatResponse(messages=[answer])

        async def deltas() -> AsyncIterator[ChatResponseUpdate]:
            for content in answer.contents:
                yield ChatResponseUpdate(contents=[content], role="assistant", message_id=answer.message_id)

        return ResponseStream(deltas(), finalizer=ChatResponse.from_updates) if stream else whole()
