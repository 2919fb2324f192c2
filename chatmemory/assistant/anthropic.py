"""A model behind Anthropic's Messages, through the ``anthropic`` package (extra ``anthropic``)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from functools import cached_property
from typing import Any

from chatmemory.assistant.answers import understood
from chatmemory.assistant.anthropic_answer import Answer, StreamedAnswer, in_container, open_container
from chatmemory.assistant.anthropic_thinking import fresh_thinking, signed
from chatmemory.assistant.deltas import Answered, Thinking, told_by_errors
from chatmemory.assistant.loop_clients import LoopClients
from chatmemory.assistant.model import ChatModel, unset_key
from chatmemory.assistant.tools import ToolSpecification
from chatmemory.core.extras import extra
from chatmemory.core.messages import ChatMessage
from chatmemory.formats.anthropic import to_anthropic

with extra("anthropic"):
    from anthropic import (
        Anthropic,
        AnthropicError,
        APIResponseValidationError,
        AsyncAnthropic,
        default_credentials,
    )

__all__ = ["AnthropicChatModel"]


class AnthropicChatModel(ChatModel):
    """A model that gets the memory as :func:`~chatmemory.formats.anthropic.to_anthropic` writes and repairs it.

    Signed thinking is kept beside the answer, and sent back as long as nothing before it has changed, or its turn is
    under way. A text that was cut off, by a limit or a refusal, is an answer whose attribute ``cut_off`` says why.
    Calls of tools that were cut off, an empty answer, a stream that breaks off, and an answer that cannot be understood
    are a ``ModelError``. Exceptions of ``anthropic`` are passed on as they are, and so is an
    ``UnsupportedContentError`` for what Anthropic has no place for.

    An answer that Anthropic pauses is continued, ten times at most, and is one answer with the usage of all requests.
    After that it is a ``ModelError``.
    """

    name: str
    """The model's name, for logs and figures."""

    def __init__(
        self,
        model: str,
        *,
        client: Anthropic | None = None,
        async_client: AsyncAnthropic | None = None,
        max_tokens: int = 8192,
        **options: Any,
    ) -> None:
        """
        Args:
            model: its name.
            client: by default ``Anthropic()``, which reads ``ANTHROPIC_BASE_URL`` and ``ANTHROPIC_API_KEY``. Its
                ``timeout`` should be below the assistant's ``turn_timeout``.
            async_client: the same for the async twins, ``AsyncAnthropic()``. A client serves one event loop only, for
                its connections belong to that; by default each loop has its own.
            max_tokens: the tokens that an answer may have, its thinking included; Anthropic demands a limit. For more
                than about 21,000 the package wants a stream.
            options: further arguments of ``messages.create()``, such as ``thinking={"type": "adaptive"}``. Tools of
                Anthropic's own in ``tools`` stand before the assistant's.
        """
        self.name = model
        self._options = {"max_tokens": max_tokens, **options}
        if client is not None:
            self._client = client
        self._async_clients = LoopClients(AsyncAnthropic, async_client)
        self._makes_clients = client is None and async_client is None

    def missing_key(self) -> str:
        key = unset_key("ANTHROPIC_API_KEY", "ANTHROPIC_CUSTOM_HEADERS") if self._makes_clients else ""
        return key if key and not _has_other_credentials() else ""

    @cached_property
    def _client(self) -> Anthropic:
        return Anthropic()

    def chat(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> Answered:
        client = self._client
        answer = Answer(self._name(client))
        first = self._request(messages, tools)
        with told_by_errors(lambda: answer.usage):
            for request in answer.requests(first):
                with understood(self._name(client), APIResponseValidationError):
                    message = client.messages.create(**request)
                answer.read(message)
            return signed(answer.whole(), messages, first.get("tools"))

    async def achat(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> Answered:
        client = self._async_clients.current()
        answer = Answer(self._name(client))
        first = self._request(messages, tools)
        with told_by_errors(lambda: answer.usage):
            for request in answer.requests(first):
                with understood(self._name(client), APIResponseValidationError):
                    message = await client.messages.create(**request)
                answer.read(message)
            return signed(answer.whole(), messages, first.get("tools"))

    def stream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]
    ) -> Iterator[str | Thinking | Answered]:
        client = self._client
        answer = StreamedAnswer(self._name(client))
        first = self._request(messages, tools)
        with told_by_errors(lambda: answer.usage):
            for request in answer.requests(first):
                with client.messages.create(**request, stream=True) as events, answer.watched():
                    for event in events:
                        yield answer.take(event)
            answered = signed(answer.whole(), messages, first.get("tools"))
        yield answered

    async def astream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]
    ) -> AsyncIterator[str | Thinking | Answered]:
        client = self._async_clients.current()
        answer = StreamedAnswer(self._name(client))
        first = self._request(messages, tools)
        with told_by_errors(lambda: answer.usage):
            for request in answer.requests(first):
                async with await client.messages.create(**request, stream=True) as events:
                    with answer.watched():
                        async for event in events:
                            yield answer.take(event)
            answered = signed(answer.whole(), messages, first.get("tools"))
        yield answered

    def _name(self, client: Anthropic | AsyncAnthropic) -> str:
        return f"{self.name} at {client.base_url.host}"

    def _request(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> dict[str, Any]:
        offered = [
            *self._options.get("tools", ()),
            *({"name": tool.name, "description": tool.description, "input_schema": tool.parameters} for tool in tools),
        ]
        request = {"model": self.name, **self._options} | ({"tools": offered} if offered else {})
        request = in_container(request, open_container(messages))
        return request | to_anthropic(messages, thinking=fresh_thinking(messages, request.get("tools")))


def _has_other_credentials() -> bool:
    """Return whether a client finds a token, an identity or the profile of a user who has signed in."""
    try:
        return default_credentials() is not None
    except AnthropicError:
        return True  # it is named, and a client says what is wrong with it
