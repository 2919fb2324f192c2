"""A model behind OpenAI's chat completions, through the ``openai`` package (extra ``openai``)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from chatmemory.assistant.errors import ModelError
from chatmemory.assistant.model import ChatModel
from chatmemory.assistant.tools import ToolSpecification
from chatmemory.core.extras import extra
from chatmemory.core.messages import AiMessage, ChatMessage
from chatmemory.formats.openai import from_openai, to_openai

with extra("openai"):
    import openai
    from openai import AsyncOpenAI, OpenAI

__all__ = ["OpenAiChatModel"]

_CUT_OFF = {"length": "the model's limit was reached", "content_filter": "a content filter stopped it"}
"""The finish reasons that leave an answer incomplete, in words."""

_READ = ("role", "content", "refusal", "annotations", "audio", "tool_calls", "reasoning_content", "reasoning")
"""The fields of an answer that are read. Servers add others for their own clients."""

_logger = logging.getLogger("chatmemory.assistant")


class OpenAiChatModel(ChatModel):
    """A model that gets the memory as :func:`~chatmemory.formats.openai.to_openai` writes and repairs it.

    A text that was cut off, by a limit or a filter, is an answer whose attribute ``cut_off`` says why. Calls of tools
    that were cut off, an empty answer and a stream that breaks off are a ``ModelError``. Exceptions of
    ``openai`` are passed on as they are, and so is an ``UnsupportedContentError`` for what OpenAI has no place for.
    """

    def __init__(
        self,
        model: str,
        *,
        client: OpenAI | None = None,
        async_client: AsyncOpenAI | None = None,
        thinking_as: str | None = None,
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
            options: further arguments of ``chat.completions.create()``, such as ``temperature=0``.
        """
        self._model = model
        self._thinking_as = thinking_as
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
        return self._read(self._client.chat.completions.create(**self._request(messages, tools)))

    async def achat(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> AiMessage:
        return self._read(await self._async_client.chat.completions.create(**self._request(messages, tools)))

    def stream(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> Iterator[str | AiMessage]:
        client = self._client
        answer = _StreamedAnswer(f"{self._model} at {client.base_url.host}")
        request = self._request(messages, tools)
        with client.chat.completions.create(**request, stream=True) as chunks, answer.watched():
            for chunk in chunks:
                yield answer.take(chunk)
        yield answer.whole()

    async def astream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]
    ) -> AsyncIterator[str | AiMessage]:
        client = self._async_client
        answer = _StreamedAnswer(f"{self._model} at {client.base_url.host}")
        request = self._request(messages, tools)
        async with await client.chat.completions.create(**request, stream=True) as chunks:
            with answer.watched():
                async for chunk in chunks:
                    yield answer.take(chunk)
        yield answer.whole()

    def _request(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> dict[str, Any]:
        request = {
            "model": self._model,
            "messages": to_openai(messages, thinking_as=self._thinking_as),
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

    def _read(self, completion: Any) -> AiMessage:
        name = f"{self._model} at OpenAI's API"
        choices = getattr(completion, "choices", None)  # a web page comes as text
        if not choices:
            raise ModelError(f"{name} did not answer with a chat completion. Check OPENAI_BASE_URL.")
        said = choices[0].message.model_dump()
        said["tool_calls"] = [_known_of(call) for call in said.get("tool_calls") or ()]
        return _answer(name, {key: said[key] for key in _READ if said.get(key)}, choices[0].finish_reason)


class _StreamedAnswer:
    """An answer that comes in pieces."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._text = {"content": "", "refusal": ""}
        self._thinking = {"reasoning_content": "", "reasoning": ""}
        self._calls: list[dict[str, Any]] = []
        self._calls_by_index: dict[int | None, dict[str, Any]] = {}
        self._has_begun = False
        self._finish_reason: str | None = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Raise a ``ModelError`` if the connection breaks in the ``with`` block, in which chunks are read."""
        try:
            yield
        except openai.APITimeoutError:
            raise
        except Exception as error:
            # Some versions of the package let through exceptions of their HTTP library.
            if isinstance(error, openai.OpenAIError) and not isinstance(error, openai.APIConnectionError):
                raise
            _logger.warning("The stream of %s broke off", self._name, exc_info=True)
            raise self._broken_off() from error

    def take(self, chunk: Any) -> str:
        """Take in a chunk and return its text."""
        self._has_begun = True
        said = ""
        for choice in chunk.choices[:1]:  # the last chunk may have none, but the usage
            self._finish_reason = choice.finish_reason or self._finish_reason
            for call in choice.delta.tool_calls or ():
                self._add(call)
            for name in self._text:
                piece = getattr(choice.delta, name) or ""
                self._text[name] += piece
                said += piece
            for name in self._thinking:
                self._thinking[name] += getattr(choice.delta, name, None) or ""
        return said

    def whole(self) -> AiMessage:
        """Return the whole answer.

        Raises:
            ModelError: the answer is not whole.
        """
        if not self._has_begun:  # such as a web page, which the package reads as no events
            raise ModelError(f"{self._name} did not answer as a stream of chat completions. Check OPENAI_BASE_URL.")
        if not self._finish_reason:
            raise self._broken_off()
        text = {name: said or None for name, said in (self._text | self._thinking).items()}
        return _answer(self._name, {"role": "assistant", **text, "tool_calls": self._calls}, self._finish_reason)

    def _add(self, piece: Any) -> None:
        name = piece.function.name if piece.function else None
        call = self._calls_by_index.get(piece.index)
        # Gemini sends one index for all calls. A new ID alone is not enough: some servers send one with each piece.
        if call is None or (piece.id and name and call["id"] not in ("", piece.id)):
            call = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
            self._calls_by_index[piece.index] = call
            self._calls.append(call)
        call["id"] = call["id"] or piece.id or ""
        if piece.function:
            call["function"]["name"] += piece.function.name or ""
            call["function"]["arguments"] += piece.function.arguments or ""

    def _broken_off(self) -> ModelError:
        return ModelError(f"{self._name} broke off in the middle of its answer.")


def _known_of(call: dict[str, Any]) -> dict[str, Any]:
    if "function" not in call:
        return call
    function = call["function"]
    return {
        **{key: call.get(key) for key in ("id", "type")},
        "function": {key: function.get(key) for key in ("name", "arguments")},
    }


def _answer(name: str, data: dict[str, Any], finish_reason: str | None) -> AiMessage:
    for call in data.get("tool_calls") or ():
        call["id"] = call["id"] or ""  # some servers send none, and the reader wants one
        if "function" in call:  # none for no parameters, but who gets it back wants JSON
            call["function"]["arguments"] = call["function"]["arguments"] or "{}"
    if data.get("reasoning_content"):
        data.pop("reasoning", None)  # the same under another name
    [message] = from_openai([data])
    assert isinstance(message, AiMessage)
    why = _CUT_OFF.get(finish_reason or "")
    if message.tool_execution_requests and why:
        raise ModelError(f"The tool calls of {name} were cut off: {why}.")
    if not (message.text or message.tool_execution_requests):
        raise ModelError(f"{name} returned an empty answer{f': {why}' if why else ''}.")
    if why is None:
        return message
    # Beside the text, which stays what the model said.
    return AiMessage(message.text, thinking=message.thinking, attributes={**message.attributes, "cut_off": why})
