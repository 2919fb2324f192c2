"""A chat client of Agent Framework that gives the answers that a test wrote."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from agent_framework import (
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
    UsageDetails,
)

__all__ = ["ScriptedClient"]


class ScriptedClient(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):  # type: ignore[type-arg]
    """Gives these answers one after the other, whole or streamed, and notes what it was sent.

    Each call uses ``usage``, if it is passed.
    """

    def __init__(self, *answers: Message, usage: UsageDetails | None = None) -> None:
        super().__init__()
        self.answers = list(answers)
        self.usage = usage
        self.got: list[list[Message]] = []

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **kwargs: Any) -> Any:
        self.got.append(list(messages))
        answer = self.answers.pop(0)

        def update(content: Content) -> ChatResponseUpdate:
            return ChatResponseUpdate(contents=[content], role="assistant", message_id=answer.message_id, model="gpt-5")

        async def whole() -> ChatResponse:
            return ChatResponse(messages=[answer], model="gpt-5", usage_details=self.usage)

        async def deltas() -> AsyncIterator[ChatResponseUpdate]:
            for content in answer.contents:
                yield update(content)
            if self.usage is not None:
                yield update(Content.from_usage(self.usage))

        return ResponseStream(deltas(), finalizer=ChatResponse.from_updates) if stream else whole()
