"""The interface of a model on the chat page."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence

from chatmemory import AiMessage, ChatMessage
from chatmemory.assistant import AssistantError, ChatModel, ToolSpecification

__all__ = ["Speaker", "SpeakerError"]


class Speaker(ChatModel):
    """A model that the page streams."""

    name: str
    """The name that the page shows."""

    @abstractmethod
    def stream(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> Iterator[str | AiMessage]:
        """Yield the parts of the answer's text as they come, then the whole answer.

        Raises:
            SpeakerError: the model failed.
        """

    def chat(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> AiMessage:
        *_, whole = self.stream(messages, tools)
        assert isinstance(whole, AiMessage)
        return whole


class SpeakerError(AssistantError):
    """A reason why there is no answer, for the user who waits for one."""
