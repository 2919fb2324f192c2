"""A model that the page streams."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence

from chatmemory import AiMessage, ChatMessage
from chatmemory.assistant import AssistantError, ChatModel, ToolSpecification

__all__ = ["Speaker", "SpeakerError"]


class Speaker(ChatModel):
    """A model that the page streams."""

    name: str
    """What the page calls it."""

    @abstractmethod
    def stream(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> Iterator[str | AiMessage]:
        """
        Raises:
            SpeakerError: it failed.
        """

    def chat(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> AiMessage:
        *_, whole = self.stream(messages, tools)
        assert isinstance(whole, AiMessage)
        return whole


class SpeakerError(AssistantError):
    """Why there is no answer, in words for the one who waits for it."""
