"""The interface of contenders."""

from __future__ import annotations

from abc import ABC, abstractmethod

from benchmarks.prompt_cache.conversations import Conversation, Turn
from benchmarks.prompt_cache.counting import tokens_of_request
from chatmemory import AiMessage, ChatMessage, ToolExecutionResultMessage

__all__ = ["Contender", "MessageByMessage", "Request", "Said"]

Request = list[ChatMessage]
"""The messages that the model gets at once, with the system message."""


class Contender(ABC):
    """One way to bound one conversation."""

    def __init__(self, conversation: Conversation, limit: int) -> None:
        """
        Args:
            conversation: its system message is known from the start; its turns come one by one.
            limit: the most tokens of a request.
        """
        self.system = conversation.system
        self.limit = limit

    @property
    def room(self) -> int:
        """The tokens that the limit leaves beside the system message and the overhead of a request."""
        return self.limit - tokens_of_request([self.system])

    @abstractmethod
    def turn(self, turn: Turn) -> list[Request]:
        """Play a turn, and return its requests: one before each call, one before the answer."""

    def close(self) -> None:  # noqa: B027
        """Close what the contender opened."""


class MessageByMessage(Contender):
    """A contender that is told every message, and asked for the window before each AI message."""

    def turn(self, turn: Turn) -> list[Request]:
        requests: list[Request] = []
        for message in turn.messages():
            if isinstance(message, AiMessage):
                requests.append(self.window())
            self.add(message)
        return requests

    @abstractmethod
    def add(self, message: ChatMessage) -> None:
        """Add a message."""

    @abstractmethod
    def window(self) -> Request:
        """Return what the model would get now."""


class Said:
    """The messages that were said, to find them again in what a framework makes of them."""

    def __init__(self) -> None:
        self._by_text: dict[str, ChatMessage] = {}
        self._calls: dict[str, AiMessage] = {}
        self._tools: dict[str, str | None] = {}

    def add(self, turn: Turn) -> None:
        """Add the messages of a turn, whose texts and IDs are like no others."""
        self._by_text |= {str(turn.user.text): turn.user, str(turn.answer.text): turn.answer}
        for step in turn.steps:
            self._calls[str(step.result.id)] = step.call

    def message(self, text: str, *, otherwise: type[AiMessage] = AiMessage) -> ChatMessage:
        """Return the message of a text, or a new one if the framework wrote the text."""
        return self._by_text.get(text) or otherwise(text)

    def call(self, id: str) -> AiMessage:
        """Return the AI message that calls a tool.

        Raises:
            KeyError: nobody called with this ID.
        """
        return self._calls[id]

    def result(self, id: str, text: str) -> ToolExecutionResultMessage:
        """Return the result of a call, with the text that the framework left of it.

        Raises:
            KeyError: nobody called with this ID.
        """
        return ToolExecutionResultMessage(id, self.call(id).tool_execution_requests[0].name, text)
