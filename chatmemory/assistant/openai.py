"""A model behind OpenAI's chat completions, through the ``openai`` package (extra ``openai``)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import cached_property
from typing import Any

from chatmemory.assistant.model import ChatModel
from chatmemory.assistant.openai_answer import StreamedAnswer, read_completion, understood
from chatmemory.assistant.tools import ToolSpecification
from chatmemory.core.extras import extra
from chatmemory.core.messages import AiMessage, ChatMessage
from chatmemory.formats.openai import to_openai

with extra("openai"):
    from openai import AsyncOpenAI, OpenAI

__all__ = ["OpenAiChatModel"]

_REFUSING = (".openai.com", ".azure.com")
"""The ends of the names of hosts that refuse the fields of other servers."""


class OpenAiChatModel(ChatModel):
    """A model that gets the memory as :func:`~chatmemory.formats.openai.to_openai` writes and repairs it.

    A text that was cut off, by a limit or a filter, is an answer whose attribute ``cut_off`` says why. Calls of tools
    that were cut off, an empty answer, a stream that breaks off, and an answer that cannot be understood are a
    ``ModelError``. Exceptions of ``openai`` are passed on as they are, and so is an ``UnsupportedContentError`` for
    what OpenAI has no place for.
    """

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
        self._model = model
        self._thinking_as = thinking_as
        self._extras = extras
        self._options = options
        if client is not None:
            self._client = client
        self._given_async_client = async_client
        self._async_clients: dict[asyncio.AbstractEventLoop, AsyncOpenAI] = {}

    @cached_property
    def _client(self) -> OpenAI:
        return OpenAI()

    @property
    def _async_client(self) -> AsyncOpenAI:
        if self._given_async_client is not None:
            return self._given_async_client
        loop = asyncio.get_running_loop()
        if (client := self._async_clients.get(loop)) is None:
            client = AsyncOpenAI()
            # Without loops that have ended: under WSGI each async view has one of its own.
            open_ones = {one: its for one, its in list(self._async_clients.items()) if not one.is_closed()}
            self._async_clients = {**open_ones, loop: client}
        return client

    def chat(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> AiMessage:
        client, name = self._client, self._name(self._client)
        with understood(name):
            completion = client.chat.completions.create(**self._request(messages, tools, client))
        return read_completion(name, completion)

    async def achat(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> AiMessage:
        client = self._async_client
        name = self._name(client)
        with understood(name):
            completion = await client.chat.completions.create(**self._request(messages, tools, client))
        return read_completion(name, completion)

    def stream(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> Iterator[str | AiMessage]:
        client = self._client
        answer = StreamedAnswer(self._name(client))
        request = self._request(messages, tools, client)
        with client.chat.completions.create(**request, stream=True) as chunks, answer.watched():
            for chunk in chunks:
                yield answer.take(chunk)
        yield answer.whole()

    async def astream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]
    ) -> AsyncIterator[str | AiMessage]:
        client = self._async_client
        answer = StreamedAnswer(self._name(client))
        request = self._request(messages, tools, client)
        async with await client.chat.completions.create(**request, stream=True) as chunks:
            with answer.watched():
                async for chunk in chunks:
                    yield answer.take(chunk)
        yield answer.whole()

    def _name(self, client: OpenAI | AsyncOpenAI) -> str:
        return f"{self._model} at {client.base_url.host}"

    def _request(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification], client: OpenAI | AsyncOpenAI
    ) -> dict[str, Any]:
        extras = not client.base_url.host.endswith(_REFUSING) if self._extras is None else self._extras
        request = {
            "model": self._model,
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
