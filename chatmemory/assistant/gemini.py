"""A model behind Gemini's API, through the ``google-genai`` package (extra ``gemini``)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing, closing
from functools import cached_property
from typing import Any

from chatmemory.assistant.deltas import Answered, Thinking, told_by_errors
from chatmemory.assistant.gemini_answer import StreamedAnswer, read_response, understood
from chatmemory.assistant.loop_clients import LoopClients
from chatmemory.assistant.model import ChatModel, unset_key
from chatmemory.assistant.read_ahead import read_ahead
from chatmemory.assistant.tools import ToolSpecification
from chatmemory.core.extras import extra
from chatmemory.core.messages import ChatMessage
from chatmemory.formats.gemini import to_gemini

with extra("gemini"):
    from google.genai import Client
    from google.genai.types import GenerateContentConfig

__all__ = ["GeminiChatModel"]

_OTHER_CREDENTIALS = ("GOOGLE_API_KEY", "GOOGLE_GENAI_USE_ENTERPRISE", "GOOGLE_GENAI_USE_VERTEXAI")


class GeminiChatModel(ChatModel):
    """A model that gets the memory as :func:`~chatmemory.formats.gemini.to_gemini` writes and repairs it.

    The signatures of its thoughts and calls are kept beside the answer, and sent back. A text that was cut off, by a
    limit or a filter, is an answer whose attribute ``cut_off`` says why. Calls of tools that were cut off, an empty
    answer, a stream that breaks off, and an answer that cannot be understood are a ``ModelError``. Other exceptions of
    ``google.genai`` and of its HTTP library are passed on as they are, and so is an ``UnsupportedContentError`` for
    what Gemini has no place for.
    """

    name: str
    """The model's name, for logs and figures."""

    def __init__(self, model: str, *, client: Client | None = None, **options: Any) -> None:
        """
        Args:
            model: its name.
            client: by default ``Client()``, which reads ``GEMINI_API_KEY``; for async code each event loop has its own.
                It has no time-out: ``Client(http_options={"timeout": 60_000})`` has one of a minute, which should be
                below the assistant's ``turn_timeout``.
            options: fields of ``GenerateContentConfig``, such as ``thinking_config={"include_thoughts": True}``. Tools
                of Gemini's own in ``tools`` stand before the assistant's.
        """
        self.name = model
        self._options = options
        if client is not None:
            self._client = client
        self._async_clients = LoopClients(Client, client)
        self._makes_clients = client is None

    def missing_key(self) -> str:
        return unset_key("GEMINI_API_KEY", *_OTHER_CREDENTIALS) if self._makes_clients else ""

    @cached_property
    def _client(self) -> Client:
        return Client()

    def chat(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> Answered:
        client, request = self._client, self._request(messages, tools)
        with understood(self.name):
            response = client.models.generate_content(**request)
        return read_response(self.name, response)

    async def achat(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> Answered:
        client, request = self._async_clients.current(), self._request(messages, tools)
        with understood(self.name):
            response = await client.aio.models.generate_content(**request)
        return read_response(self.name, response)

    def stream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]
    ) -> Iterator[str | Thinking | Answered]:
        client, request = self._client, self._request(messages, tools)
        answer = StreamedAnswer(self.name)
        chunks: Any = client.models.generate_content_stream(**request)
        with told_by_errors(lambda: answer.usage):
            with closing(chunks), answer.watched():
                for chunk in chunks:
                    yield from answer.take(chunk)
            answered = answer.whole()
        yield answered

    async def astream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]
    ) -> AsyncIterator[str | Thinking | Answered]:
        client, request = self._async_clients.current(), self._request(messages, tools)
        answer = StreamedAnswer(self.name)
        with understood(self.name):
            chunks: Any = await client.aio.models.generate_content_stream(**request)
        with told_by_errors(lambda: answer.usage):
            async with aclosing(read_ahead(chunks)) as read:
                with answer.watched():
                    async for chunk in read:
                        for piece in answer.take(chunk):
                            yield piece
            answered = answer.whole()
        yield answered

    def _request(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> dict[str, Any]:
        written = to_gemini(messages)
        config = {**self._options, "automatic_function_calling": {"disable": True}}  # the assistant calls them
        if "system_instruction" in written:
            config["system_instruction"] = written["system_instruction"]
        if tools:
            declarations = [
                {"name": tool.name, "description": tool.description, "parameters_json_schema": tool.parameters}
                for tool in tools
            ]
            config["tools"] = [*(config.get("tools") or ()), {"function_declarations": declarations}]
        # Made here, so that an error in the options is not taken for one in the answer.
        return {"model": self.name, "contents": written["contents"], "config": GenerateContentConfig(**config)}
