"""The interface between an assistant and a model."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

from asgiref.sync import async_to_sync

from chatmemory.assistant.tools import ToolSpecification
from chatmemory.core.asynchronous import in_thread_for_functions
from chatmemory.core.messages import AiMessage, ChatMessage

__all__ = ["ChatModel", "ModelFunction", "as_chat_model"]

ModelFunction: TypeAlias = Callable[
    [Sequence[ChatMessage], Sequence[ToolSpecification]], "AiMessage | Awaitable[AiMessage]"
]
"""A function, sync or async, that is a model without streaming."""


class ChatModel(ABC):
    """A model. A subclass must have :meth:`chat`; the other methods use it, until the subclass overrides them.

    Each gets the memory, which may hold a tool call without its result or a result without its call: the writers of
    :mod:`chatmemory.formats` repair that. An exception of the model ends the turn and reaches the caller.
    """

    @abstractmethod
    def chat(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> AiMessage:
        """Return the answer to ``messages``: text, or calls of some of the ``tools``."""

    def stream(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> Iterator[str | AiMessage]:
        """Yield the text of the answer in pieces as they come, and at last the whole answer.

        An empty piece is a sign of life: yield some while there is no text yet, and the turn is not taken over.
        """
        answer = self.chat(messages, tools)
        if answer.text:
            yield answer.text
        yield answer

    async def achat(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> AiMessage:
        """Async twin of :meth:`chat`; here in a thread of its own."""
        return await in_thread_for_functions(partial(self.chat, messages, tools), of_caller=False)

    async def astream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]
    ) -> AsyncIterator[str | AiMessage]:
        """Async twin of :meth:`stream`; here the text of :meth:`achat` in one piece."""
        answer = await self.achat(messages, tools)
        if answer.text:
            yield answer.text
        yield answer


class _Function(ChatModel):
    def __init__(self, function: Callable[..., AiMessage]) -> None:
        self._function = function

    def chat(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> AiMessage:
        return self._function(messages, tools)


class _AsyncFunction(ChatModel):
    def __init__(self, function: Callable[..., Awaitable[AiMessage]]) -> None:
        self._function = function

    def chat(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> AiMessage:
        return async_to_sync(self._function)(messages, tools)

    async def achat(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> AiMessage:
        return await self._function(messages, tools)


def as_chat_model(model: ChatModel | ModelFunction) -> ChatModel:
    """Return ``model``, a function as a ``ChatModel``.

    Raises:
        TypeError: ``model`` is neither a model nor a function.
    """
    if isinstance(model, ChatModel):
        return model
    if not callable(model):
        raise TypeError(f"model must be a ChatModel or a function, but is: {type(model).__name__}")
    if inspect.iscoroutinefunction(model) or inspect.iscoroutinefunction(getattr(model, "__call__", None)):  # noqa: B004
        return _AsyncFunction(model)  # type: ignore[arg-type]
    return _Function(model)  # type: ignore[arg-type]
