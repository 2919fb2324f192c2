"""The common part of LangChain's histories."""

from __future__ import annotations

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from benchmarks.contenders.base import SyncContender
from benchmarks.contenders.langchain_window import batches, texts, trim

__all__ = ["LangChainHistory"]


class LangChainHistory(SyncContender):
    """A history whose messages are all read, then trimmed."""

    history: BaseChatMessageHistory

    def add_history(self, history: int) -> None:
        """Add the first ``history`` messages."""
        for messages in batches(history):
            self.history.add_messages(messages)

    def turn(self, user_text: str, ai_text: str) -> list[BaseMessage]:
        self.history.add_message(HumanMessage(user_text))
        self.history.add_message(AIMessage(ai_text))
        return trim(self.history.messages, self.window)

    def texts(self, window: list[BaseMessage]) -> list[str]:
        return texts(window)
