"""The interface between an assistant and a model: what a model answers, in deltas or whole, and its calls."""

from __future__ import annotations

import inspect
import os
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from asgiref.sync import async_to_sync

from chatmemory.core.asynchronous import in_thread_for_functions
from chatmemory.core.json_text import dumps, is_storable, loads, with_replacements
from chatmemory.core.messages import AiMessage, ChatMessage, ToolExecutionRequest
from chatmemory.core.serialization import storable_message
from chatmemory.core.usage import Usage

if TYPE_CHECKING:
    from chatmemory.assistant.tools import ToolSpecification

ModelFunction: TypeAlias = Callable[
    [Sequence[ChatMessage], "Sequence[ToolSpecification]"], "AiMessage | Answered | Awaitable[AiMessage | Answered]"
]
"""A function, sync or async, that is a model without streaming."""


class ChatModel(ABC):
    """A model. A subclass must have ``chat``; the other methods use it, until the subclass overrides them.

    Each gets the memory, which may hold a tool call without its result or a result without its call: the writers of
    ``chatmemory.formats`` repair that. An exception of the model ends the turn and reaches the caller.
    """

    name: str = ""
    """The name of the model for the signal ``model_called``; if it is empty, that of the class."""

    provider: str = ""
    """The provider for the signal ``model_called``, such as ``"openai"``; empty if it is not known."""

    @abstractmethod
    def chat(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> AiMessage | Answered:
        """Return the answer to ``messages``: text, or calls of some of the ``tools``.

        With what the call used it is an ``Answered``.
        """

    def stream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]
    ) -> Iterator[str | Thinking | AiMessage | Answered]:
        """Yield the thinking and the text of the answer in deltas as they come, and at last the whole answer.

        An empty delta is a sign of life: yield some while there is no text yet, and the turn is not taken over.
        """
        yield from _in_deltas(self.chat(messages, tools))

    async def achat(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> AiMessage | Answered:
        """Async version of ``chat``; here in a thread of its own."""
        return await in_thread_for_functions(partial(self.chat, messages, tools), of_caller=False)

    async def astream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]
    ) -> AsyncIterator[str | Thinking | AiMessage | Answered]:
        """Async version of ``stream``; here the text of ``achat`` as one delta."""
        for delta in _in_deltas(await self.achat(messages, tools)):
            yield delta

    def missing_key(self) -> str:
        """Return the environment variable of the API key if it is not set; empty if it is, or if none is needed.

        The system checks ask for it, so it makes no client and no request.
        """
        return ""


class _Function(ChatModel):
    def __init__(self, function: Callable[..., AiMessage | Answered]) -> None:
        self._function = function
        self.name = _name_of_function(function)

    def chat(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> AiMessage | Answered:
        return self._function(messages, tools)


class _AsyncFunction(ChatModel):
    def __init__(self, function: Callable[..., Awaitable[AiMessage | Answered]]) -> None:
        self._function = function
        self.name = _name_of_function(function)

    def chat(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> AiMessage | Answered:
        return async_to_sync(self._function)(messages, tools)

    async def achat(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> AiMessage | Answered:
        return await self._function(messages, tools)


def _in_deltas(answer: AiMessage | Answered) -> Iterator[str | Thinking | AiMessage | Answered]:
    message = as_answered(answer).message
    if message.thinking:
        yield Thinking(message.thinking)
    if message.text:
        yield message.text
    yield answer


def unset_key(name: str, *others: str) -> str:
    """Return ``name`` if neither this environment variable nor one of the ``others`` is set, else an empty text."""
    return "" if any(map(os.environ.get, (name, *others))) else name


def name_of(model: ChatModel) -> str:
    """Return the name of a model."""
    return model.name or type(model).__name__


def _name_of_function(function: Callable[..., object]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


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


_ATTRIBUTE = "usage"


@dataclass(frozen=True)
class Thinking:
    """A delta of the model's thinking, as it comes."""

    text: str


@dataclass(frozen=True)
class Answered:
    """A whole answer of a model, with the tokens that the call used."""

    message: AiMessage

    usage: Usage | None = None
    """None if the model does not report its usage."""


def as_answered(answer: AiMessage | Answered) -> Answered:
    """Return ``answer`` with texts that databases can store, and its usage, which is unknown if the model gave none."""
    answered = answer if isinstance(answer, Answered) else Answered(answer)
    if not isinstance(answered.message, AiMessage):
        return answered  # an error is raised where a message is needed
    message = storable_message(answered.message)
    assert isinstance(message, AiMessage)
    requests = tuple(map(_with_storable_values, message.tool_execution_requests))
    if requests != message.tool_execution_requests:
        message = replace(message, tool_execution_requests=requests)
    return answered if message is answered.message else replace(answered, message=message)


# May stand for U+0000 or a lone surrogate in JSON.
_ESCAPE = re.compile(r"\\u(?:0000|d[89a-f])", re.IGNORECASE)


def _with_storable_values(request: ToolExecutionRequest) -> ToolExecutionRequest:
    """Return a call whose tool gets no text that it could not store itself."""
    if request.arguments is None or not _ESCAPE.search(request.arguments):
        return request
    try:
        values = loads(request.arguments)
        return request if is_storable(values) else replace(request, arguments=dumps(with_replacements(values)))
    except (ValueError, RecursionError):
        return request  # the model is told what is wrong with them


@contextmanager
def told_by_errors(known: Callable[[], Usage | None]) -> Iterator[None]:
    """Let any exception that leaves the ``with`` block tell what the call used, also ``GeneratorExit``.

    Args:
        known: returns the usage as far as the server has told it.
    """
    try:
        yield
    except BaseException as error:
        if (usage := known()) is not None:
            setattr(error, _ATTRIBUTE, usage)
        raise


def usage_told_by(error: BaseException | None) -> Usage | None:
    """Return the usage that the exception of a call tells; None if it tells none."""
    usage = getattr(error, _ATTRIBUTE, None)
    return usage if isinstance(usage, Usage) else None
