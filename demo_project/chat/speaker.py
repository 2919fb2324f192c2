"""The interface of a model on the chat page."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence

from rest_framework import status
from rest_framework.exceptions import APIException

from chatmemory import AiMessage, ChatMessage
from chatmemory.assistant import Answered, ChatModel, Thinking, ToolSpecification

__all__ = ["Speaker", "SpeakerError"]


class Speaker(ChatModel):
    """A model that the page streams."""

    name: str
    """The name that the page shows."""

    @abstractmethod
    def stream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]
    ) -> Iterator[str | Thinking | AiMessage | Answered]:
        """Yield the parts of the answer's thinking and text as they come, then the whole answer.

        Raises:
            SpeakerError: the model failed.
        """

    def trouble(self) -> str | None:
        """Return why the model cannot answer, and what to do about it; None if nothing speaks against an answer."""
        return None

    def chat(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> AiMessage | Answered:
        *_, whole = self.stream(messages, tools)
        assert isinstance(whole, (AiMessage, Answered))
        return whole


class SpeakerError(APIException):
    """A reason why there is no answer. As it is an exception of REST framework, the user who waits for one reads it."""

    status_code = status.HTTP_502_BAD_GATEWAY
