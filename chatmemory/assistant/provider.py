"""A model behind a provider's API: what is the same for all providers and their packages.

A ``ProviderChatModel`` asks, and an ``Answer`` reads what comes. Their subclasses know one API.
"""

from __future__ import annotations

import asyncio
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

from chatmemory.assistant.errors import ModelError
from chatmemory.assistant.model import Answered, ChatModel, Thinking, told_by_errors, unset_key
from chatmemory.assistant.tools import ToolSpecification
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.exceptions import gettext_noop as _
from chatmemory.core.messages import AiMessage, ChatMessage
from chatmemory.core.usage import Usage
from chatmemory.formats.kept_parts import with_attributes
from chatmemory.formats.usage import fields_of

Messages: TypeAlias = Sequence[ChatMessage]
Tools: TypeAlias = Sequence[ToolSpecification]

_MOST_SHOWN = 300

_SAID_OF_ITSELF = {"response_id": ("id", "response_id"), "model": ("model", "model_version")}
"""The fields of ``Usage``, with the names that responses have for them."""

_PROVIDERS = {".openai.com": "openai", ".azure.com": "azure", ".anthropic.com": "anthropic"}
"""The names of providers by the ends of their hosts."""

_logger = logging.getLogger("chatmemory.assistant")


class LoopClients:
    """The clients of event loops: one for each, because connections belong to a loop, or a ``given`` one for all."""

    def __init__(self, make: Callable[[], Any], given: Any = None) -> None:
        self._make = make
        self._given = given
        self._clients: dict[asyncio.AbstractEventLoop, Any] = {}

    def current(self) -> Any:
        """Return the client of the running event loop."""
        if self._given is not None:
            return self._given
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            # Without loops that have ended: under WSGI each async view has one of its own.
            open_ones = {one: its for one, its in list(self._clients.items()) if not one.is_closed()}
            self._clients = {**open_ones, loop: self._make()}
        return self._clients[loop]


@dataclass(eq=False)
class Answer(ABC):
    """An answer as it is read: from one response or several, each whole or in pieces."""

    passed_on: ClassVar[type[Exception]]
    """The package's exceptions, which reach the caller as they are, also from within a stream."""

    connection_broke: ClassVar[type[Exception] | None] = None
    """The one of them that says no more than that the connection broke; its subclasses say more."""

    invalid: ClassVar[type[Exception] | tuple[()]] = ()
    """The package's exception for a body that is not what its header says. Its attribute ``body`` has what came."""

    cut_off: ClassVar[Mapping[str, str]]
    """The stop reasons that leave an answer incomplete, in words."""

    no_stream: ClassVar[str]
    """The error for a stream without any pieces, such as a web page, which the packages read as no events."""

    name: str
    """The name of the model, for errors."""

    messages: Messages
    """The messages that the model answers."""

    request: dict[str, Any]
    """The request with them."""

    has_begun: bool = False
    stop_reason: Any = None
    used: dict[str, Any] = field(default_factory=dict)
    """The figures, as the server told them."""

    of_itself: dict[str, Any] = field(default_factory=dict)
    """The ID and the model of the response, as fields of ``Usage``."""

    @property
    def usage(self) -> Usage | None:
        """The tokens of the call, as far as the server has told them."""
        usage = self._usage()
        return replace(usage, **self.of_itself) if usage != Usage() else None

    def requests(self) -> Iterator[dict[str, Any]]:
        """Yield the requests of the answer, each when the response before it was read."""
        yield self.request

    @abstractmethod
    def read(self, response: Any) -> None:
        """Take in a response, as the package made it of a body that it does not check.

        Raises:
            ModelError: it is no answer.
        """

    @abstractmethod
    def take(self, piece: Any) -> list[str | Thinking]:
        """Take in a piece of a stream and return what it says: thinking, text, or an empty text as a sign of life.

        Raises:
            ModelError: it is no piece of an answer.
        """

    @abstractmethod
    def _message(self) -> AiMessage:
        """Return the answer so far, even if it is not complete."""

    @abstractmethod
    def _usage(self) -> Usage:
        """Return the tokens, read from ``used``."""

    def _use(self, given: Any, response: Any) -> None:
        """Take in the figures of a response, or of a piece of it, and what it says of itself."""
        # The figures of later pieces are totals, and may leave out what did not change.
        self.used |= {key: value for key, value in fields_of(given).items() if value is not None}
        for name, keys in _SAID_OF_ITSELF.items():
            found = next((text for key in keys if isinstance(text := getattr(response, key, None), str)), None)
            if found:
                self.of_itself[name] = found

    def _why_cut_off(self) -> str | None:
        """Return why the answer was cut off, in words; None if it was not."""
        return self.cut_off.get(self.stop_reason) if isinstance(self.stop_reason, str) else None

    def whole(self) -> Answered:
        """Return the whole answer, which says in its attribute ``cut_off`` if it was cut off, and what it used.

        Raises:
            ModelError: calls of tools were cut off, the answer is empty, or it cannot be kept.
        """
        message, why = self._message(), self._why_cut_off()
        if message.tool_execution_requests and why:
            raise self._error(_("The tool calls of %(name)s were cut off: %(reason)s."), reason=why)
        if not (message.text or message.tool_execution_requests):
            raise self._error(_("%(name)s returned an empty answer%(reason)s."), reason=f": {why}" if why else "")
        if why is not None:  # beside the text, which stays what the model said
            message = with_attributes(message, {**message.attributes, "cut_off": why})
        return Answered(message, self.usage)

    @contextmanager
    def understood(self) -> Iterator[None]:
        """Raise a ``ModelError`` for a response in the ``with`` block that is not what its header says it is."""
        try:
            yield
        except self.invalid as error:
            template = _("%(name)s did not answer as its header says, but: %(answer)s")
            raise self._error(template, answer=getattr(error, "body", None)) from error
        except json.JSONDecodeError as error:
            raise self._broken_json(error.doc) from error
        except UnicodeDecodeError as error:
            template = _("%(name)s answered with text that is not %(encoding)s: %(text)s")
            raise self._error(template, encoding=error.encoding, text=repr(error.object[:60])) from error

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Raise a ``ModelError`` if the connection breaks in the ``with`` block, in which the pieces of a response are
        read, or if they are not all of its pieces.
        """
        try:
            with self.understood():
                yield
        except ModelError:
            raise
        except Exception as error:
            # Some versions of the packages let through exceptions of their HTTP libraries.
            if self._says_more(error):
                raise
            _logger.warning("The stream of %s broke off", self.name, exc_info=True)
            raise self._broken_off() from error
        if not self.has_begun:
            raise self._error(self.no_stream)
        if not self.stop_reason:
            raise self._broken_off()

    @contextmanager
    def _readable(self, answer: Any) -> Iterator[None]:
        """Raise a ``ModelError`` that quotes ``answer`` if it cannot be read in the ``with`` block."""
        try:
            yield
        except ModelError:
            raise
        except InvalidMessageError as error:
            raise self._error(_("%(name)s gave an answer that cannot be kept: %(error)s"), error=str(error)) from error
        except Exception as error:  # most packages check no types
            raise self._not_understood(answer) from error

    def _says_more(self, error: Exception) -> bool:
        """Return whether an exception in a stream says more than that the connection broke."""
        return isinstance(error, self.passed_on) and type(error) is not self.connection_broke

    def _broken_off(self) -> ModelError:
        return self._error(_("%(name)s broke off in the middle of its answer."))

    def _broken_json(self, answer: str) -> ModelError:
        return self._error(_("%(name)s answered with broken JSON: %(answer)s"), answer=answer)

    def _not_understood(self, answer: Any) -> ModelError:
        return self._error(_("%(name)s gave an answer that cannot be understood: %(answer)s"), answer=answer)

    def _error(self, template: str, **params: Any) -> ModelError:
        if "answer" in params:
            params["answer"] = _as_it_came(params["answer"])
        return ModelError(template, name=self.name, **params)


class ProviderChatModel(ChatModel):
    """A model that is asked through a client of its provider's package.

    A text that was cut off is an answer whose attribute ``cut_off`` says why. Calls of tools that were cut off, an
    empty answer, a stream that breaks off, and an answer that cannot be understood are a ``ModelError``. Exceptions of
    the package are passed on as they are, and so is an ``UnsupportedContentError`` for what the API has no place for.

    The ``client`` is for sync code and the ``async_client`` for async code; by default both read the environment. An
    async client serves one event loop, to which its connections belong; by default each loop has its own. The
    ``timeout`` of both should be below the assistant's ``turn_timeout``. The ``options`` are further arguments of each
    request.
    """

    name: str
    """The model's name, for logs and figures."""

    answer_class: ClassVar[type[Answer]]
    client_class: ClassVar[type[Any]]
    async_client_class: ClassVar[type[Any]]

    keys: ClassVar[tuple[str, ...]]
    """The environment variables that a client may have its credentials from, first the one to recommend."""

    def __init__(self, name: str, client: Any, async_client: Any, options: Mapping[str, Any]) -> None:
        self.name = name
        self._options = options
        if client is not None:
            self._client = client
        self._async_clients = LoopClients(self.async_client_class, async_client)
        self._makes_clients = client is None and async_client is None

    def missing_key(self) -> str:
        return unset_key(*self.keys) if self._makes_clients else ""

    @cached_property
    def _client(self) -> Any:
        return self.client_class()

    def chat(self, messages: Messages, tools: Tools) -> Answered:
        client = self._client
        answer = self._begin(client, messages, tools)
        with told_by_errors(lambda: answer.usage):
            for request in answer.requests():
                with answer.understood():
                    response = self._send(client, request)
                answer.read(response)
            return answer.whole()

    async def achat(self, messages: Messages, tools: Tools) -> Answered:
        client = self._async_clients.current()
        answer = self._begin(client, messages, tools)
        with told_by_errors(lambda: answer.usage):
            for request in answer.requests():
                with answer.understood():
                    response = await self._asend(client, request)
                answer.read(response)
            return answer.whole()

    def stream(self, messages: Messages, tools: Tools) -> Iterator[str | Thinking | Answered]:
        client = self._client
        answer = self._begin(client, messages, tools)
        with told_by_errors(lambda: answer.usage):
            for request in answer.requests():
                with answer.understood():
                    stream = self._send(client, request, streams=True)
                with stream as pieces, answer.watched():
                    for piece in pieces:
                        yield from answer.take(piece)
            answered = answer.whole()
        yield answered

    async def astream(self, messages: Messages, tools: Tools) -> AsyncIterator[str | Thinking | Answered]:
        client = self._async_clients.current()
        answer = self._begin(client, messages, tools)
        with told_by_errors(lambda: answer.usage):
            for request in answer.requests():
                with answer.understood():
                    stream = await self._asend(client, request, streams=True)
                async with stream as pieces:
                    with answer.watched():
                        async for piece in pieces:
                            for said in answer.take(piece):
                                yield said
            answered = answer.whole()
        yield answered

    def _begin(self, client: Any, messages: Messages, tools: Tools) -> Answer:
        self.provider = self._provider_of(client)
        return self.answer_class(self._named(client), messages, self._request(client, messages, tools))

    def _named(self, client: Any) -> str:
        """Return the name of the model for errors."""
        return f"{self.name} at {client.base_url.host}"

    def _provider_of(self, client: Any) -> str:
        """Return the provider that a client asks: the name of a known one, or the host of another."""
        host = str(client.base_url.host)
        return next((name for end, name in _PROVIDERS.items() if f".{host}".endswith(end)), host)

    @abstractmethod
    def _request(self, client: Any, messages: Messages, tools: Tools) -> dict[str, Any]:
        """Return the arguments of a request."""

    @abstractmethod
    def _send(self, client: Any, request: dict[str, Any], *, streams: bool = False) -> Any:
        """Send a request, and return the response, or a context manager of its pieces; of an async client awaitable."""

    async def _asend(self, client: Any, request: dict[str, Any], *, streams: bool = False) -> Any:
        """Async version of ``_send``."""
        return await self._send(client, request, streams=streams)


def _as_it_came(answer: Any) -> str:
    """Return the beginning of what a server answered, in its own words."""
    if hasattr(answer, "model_dump"):
        answer = answer.model_dump(exclude_none=True, warnings=False)
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, default=str)
    text = " ".join(text.split())
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def described(tools: Tools, parameters: str) -> list[dict[str, Any]]:
    """Return tools as APIs want them described, each with the schema of its parameters under ``parameters``."""
    return [{"name": tool.name, "description": tool.description, parameters: tool.parameters} for tool in tools]
