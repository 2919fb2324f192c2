"""Models for the tests of assistants: they say what a test tells them to, and remember what they were given."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence

from chatmemory import AiMessage, ChatMessage, ToolExecutionRequest
from chatmemory.assistant import ChatModel, ToolSpecification

__all__ = ["ScriptedModel", "calling"]

Outcome = str | AiMessage | BaseException


def calling(*requests: tuple[str, str], text: str | None = None) -> AiMessage:
    """An answer that calls tools, each a name and its arguments."""
    return AiMessage(
        text,
        [ToolExecutionRequest(f"call_{index}", name, arguments) for index, (name, arguments) in enumerate(requests)],
    )


class ScriptedModel(ChatModel):
    """Gives one outcome after the other: a text, a whole answer, or an error to raise. Streams words."""

    def __init__(self, *outcomes: Outcome) -> None:
        self.asked: list[list[ChatMessage]] = []
        self.tools: Sequence[ToolSpecification] = ()
        self._outcomes = list(outcomes)

    def chat(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> AiMessage:
        self.asked.append(list(messages))
        self.tools = tools
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return AiMessage(outcome) if isinstance(outcome, str) else outcome

    def stream(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> Iterator[str | AiMessage]:
        answer = self.chat(messages, tools)
        yield from (answer.text or "").split()
        yield answer

    async def achat(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> AiMessage:
        return self.chat(messages, tools)

    async def astream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]
    ) -> AsyncIterator[str | AiMessage]:
        for piece in self.stream(messages, tools):
            yield piece
