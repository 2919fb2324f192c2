"""LangChain's ``trim_messages``."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage, trim_messages

from benchmarks.prompt_cache.contenders.base import MessageByMessage, Request
from benchmarks.prompt_cache.conversations import Conversation
from benchmarks.prompt_cache.counting import tokens_of_request
from chatmemory import AiMessage, ChatMessage, ToolExecutionResultMessage
from chatmemory import SystemMessage as OurSystemMessage

__all__ = ["LangChainTrimming"]


class LangChainTrimming(MessageByMessage):
    """The whole history, trimmed before each request as the documentation of ``trim_messages`` recommends."""

    def __init__(self, conversation: Conversation, limit: int) -> None:
        super().__init__(conversation, limit)
        self._history: list[BaseMessage] = []
        self._said: dict[str, ChatMessage] = {}
        self.add(self.system)

    def add(self, message: ChatMessage) -> None:
        id = str(len(self._history))
        self._history.append(_langchain_message(message, id))
        self._said[id] = message

    def window(self) -> Request:
        return self._originals(
            trim_messages(
                self._history,
                max_tokens=self.limit,
                token_counter=self._count,
                strategy="last",
                start_on="human",
                include_system=True,
            )
        )

    def _count(self, messages: Sequence[BaseMessage]) -> int:
        return tokens_of_request(self._originals(messages))

    def _originals(self, messages: Sequence[BaseMessage]) -> Request:
        return [self._said[str(message.id)] for message in messages]


def _langchain_message(message: ChatMessage, id: str) -> BaseMessage:
    text = message.text or ""
    match message:
        case OurSystemMessage():
            return SystemMessage(text, id=id)
        case AiMessage(tool_execution_requests=requests):
            calls = [{"name": str(call.name), "args": {}, "id": call.id, "type": "tool_call"} for call in requests]
            return AIMessage(text, tool_calls=calls, id=id)
        case ToolExecutionResultMessage():
            return ToolMessage(text, tool_call_id=message.id, id=id)
        case _:
            return HumanMessage(text, id=id)
