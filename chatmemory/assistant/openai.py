"""A model behind OpenAI's chat completions, through the ``openai`` package (extra ``openai``)."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import cached_property
from typing import Any

from chatmemory.assistant.answers import understood
from chatmemory.assistant.deltas import Answered, Thinking, told_by_errors
from chatmemory.assistant.loop_clients import LoopClients
from chatmemory.assistant.model import ChatModel, unset_key
from chatmemory.assistant.openai_answer import StreamedAnswer, read_completion
from chatmemory.assistant.tools import ToolSpecification
from chatmemory.core.extras import extra
from chatmemory.core.messages import ChatMessage
from chatmemory.formats.openai import to_openai

with extra("openai"):
    from openai import APIResponseValidationError, APIStatusError, AsyncOpenAI, OpenAI

__all__ = ["OpenAiChatModel"]

_REFUSING = (".openai.com", ".azure.com")
"""The ends of the names of hosts that refuse the fields of other servers."""

_USAGE = "stream_options"

_logger = logging.getLogger("chatmemory.assistant")


class OpenAiChatModel(ChatModel):
    """A model that gets the memory as :func:`~chatmemory.formats.openai.to_openai` writes and repairs it.

    A text that was cut off, by a limit or a filter, is an answer whose attribute ``cut_off`` says why. Calls of tools
    that were cut off, an empty answer, a stream that breaks off, and an answer that cannot be understood are a
    ``ModelError``. Exceptions of ``openai`` are passed on as they are, and so is an ``UnsupportedContentError`` for
    what OpenAI has no place for.

    Streams ask for the usage, too. A server that refuses ``stream_options`` is asked again, and from then on, without.
    """

    name: str
    """The model's name, for logs and figures."""

    def __init__(
        self,
        model: str,
        *,
        client: OpenAI | None = None,
        async_client: AsyncOpenAI | None = None,
        thinking_as: str | None = None,
        extras: bool | None = None,
        **options: Any,
    ) -> None:
        """
        Args:
            model: its name.
            client: by default ``OpenAI()``, which reads ``OPENAI_BASE_URL`` and ``OPENAI_API_KEY``. Its ``timeout``
                should be below the assistant's ``turn_timeout``.
            async_client: the same for the async twins, ``AsyncOpenAI()``. A client serves one event loop only, for its
                connections belong to that; by default each loop has its own.
            thinking_as: the field that the model wants its thinking back in, ``"reasoning_content"`` for DeepSeek; by
                default it is left out.
            extras: whether to send back the fields that a server put on its answers and calls beside those of OpenAI's
                API, as Gemini demands; by default to every server but OpenAI's own, which refuse them.
            options: further arguments of ``chat.completions.create()``, such as ``temperature=0``.
        """
        self.name = model
        self._thinking_as = thinking_as
        self._extras = extras
        self._options = options
        if client is not None:
            self._client = client
        self._async_clients = LoopClients(AsyncOpenAI, async_client)
        self._asks_for_usage = True
        self._makes_clients = client is None and async_client is None

    def missing_key(self) -> str:
        return unset_key("OPENAI_API_KEY", "OPENAI_ADMIN_KEY") if self._makes_clients else ""

    @cached_property
    def _client(self) -> OpenAI:
        return OpenAI()

    def chat(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> Answered:
        client, name = self._client, self._name(self._client)
        with understood(name, APIResponseValidationError):
            completion = client.chat.completions.create(**self._request(messages, tools, client))
        return read_completion(name, completion)

    async def achat(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> Answered:
        client = self._async_clients.current()
        name = self._name(client)
        with understood(name, APIResponseValidationError):
            completion = await client.chat.completions.create(**self._request(messages, tools, client))
        return read_completion(name, completion)

    def stream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]
    ) -> Iterator[str | Thinking | Answered]:
        client = self._client
        answer = StreamedAnswer(self._name(client))
        request = self._request(messages, tools, client)
        try:
            stream = client.chat.completions.create(**self._streaming(request))
        except APIStatusError as error:
            if not self._refuses_usage(error, request):
                raise
            stream = client.chat.completions.create(**self._streaming(request))
        with told_by_errors(lambda: answer.usage):
            with stream as chunks, answer.watched():
                for chunk in chunks:
                    yield from answer.take(chunk)
            answered = answer.whole()
        yield answered

    async def astream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]
    ) -> AsyncIterator[str | Thinking | Answered]:
        client = self._async_clients.current()
        answer = StreamedAnswer(self._name(client))
        request = self._request(messages, tools, client)
        try:
            stream = await client.chat.completions.create(**self._streaming(request))
        except APIStatusError as error:
            if not self._refuses_usage(error, request):
                raise
            stream = await client.chat.completions.create(**self._streaming(request))
        with told_by_errors(lambda: answer.usage):
            async with stream as chunks:
                with answer.watched():
                    async for chunk in chunks:
                        for piece in answer.take(chunk):
                            yield piece
            answered = answer.whole()
        yield answered

    def _streaming(self, request: dict[str, Any]) -> dict[str, Any]:
        usage = {_USAGE: {"include_usage": True}} if self._asks_for_usage else {}
        return {**usage, **request, "stream": True}

    def _refuses_usage(self, error: APIStatusError, request: dict[str, Any]) -> bool:
        """Return whether the server refused only to tell the usage of a stream; if so, do not ask for that any more."""
        if _USAGE in request or error.status_code not in (400, 422) or _USAGE not in str(error):
            return False
        _logger.info("%s does not tell what a stream used: %s", self.name, error)
        self._asks_for_usage = False
        return True

    def _name(self, client: OpenAI | AsyncOpenAI) -> str:
        return f"{self.name} at {client.base_url.host}"

    def _request(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification], client: OpenAI | AsyncOpenAI
    ) -> dict[str, Any]:
        extras = not client.base_url.host.endswith(_REFUSING) if self._extras is None else self._extras
        request = {
            "model": self.name,
            "messages": to_openai(messages, thinking_as=self._thinking_as, extras=extras),
            **self._options,
        }
        if tools:  # OpenAI refuses an empty list
            request["tools"] = [
                {
                    "type": "function",
                    "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
                }
                for tool in tools
            ]
        return request
