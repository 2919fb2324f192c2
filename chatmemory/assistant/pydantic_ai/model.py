"""A model of Pydantic AI; see :mod:`chatmemory.assistant.pydantic_ai`."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import AsyncIterator, Iterator
from typing import Any

from chatmemory.assistant.deltas import Answered, Thinking, told_by_errors
from chatmemory.assistant.model import ChatModel
from chatmemory.assistant.provider import LoopClients, Messages, Tools, described
from chatmemory.assistant.pydantic_ai.loop import read_in_loop, start_in_loop
from chatmemory.core.exceptions import extra
from chatmemory.formats.thinking import fresh_answers

with extra("pydantic-ai"):
    from pydantic_ai.direct import model_request, model_request_stream
    from pydantic_ai.models import Model, ModelRequestParameters, infer_model
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.tools import ToolDefinition

    from chatmemory.assistant.pydantic_ai.answer import PydanticAiAnswer
    from chatmemory.formats.pydantic_ai import PREFIX, to_pydantic_ai


class PydanticAiChatModel(ChatModel):
    """A model of any provider that Pydantic AI knows.

    A text that was cut off is an answer whose attribute ``cut_off`` says why. Calls of tools that were cut off, an
    empty answer, a stream that breaks off or ends without a reason, and all errors of the provider are a
    ``ModelError``, whose ``__cause__`` is Pydantic AI's error, such as ``ModelRateLimitError``. What is wrong with the
    set-up, such as a missing key, is Pydantic AI's ``UserError``.

    An answer that pauses is continued, ten times at most, and is one answer with the usage of all requests. Signed
    thinking is sent back as long as nothing before it has changed, or its turn is under way.

    All requests run in one event loop in a thread of its own, also those of async code, so a model serves any loop. A
    process that is forked has a loop of its own.
    """

    name: str
    """The model's name, for logs and figures."""

    def __init__(
        self,
        model: str | Model,
        *,
        file_urls: bool = False,
        native_tools: Any = (),
        **settings: Any,
    ) -> None:
        """
        Args:
            model: its name behind that of its provider, ``"mistral:mistral-large-latest"`` say, or a ``Model``. By a
                name each process makes a model of its own; a ``Model`` that has connections must not be forked.
            file_urls: whether files may be sent by their URLs. Pydantic AI hands some to the provider and downloads
                others in this process, as the provider demands; so by default a URL is an ``UnsupportedContentError``.
            native_tools: tools that run at the provider, such as ``[WebSearchTool()]``.
            settings: Pydantic AI's ``ModelSettings``, such as ``temperature=0`` or ``timeout=60``, which should be
                below the assistant's ``turn_timeout``.
        """
        self.name = model if isinstance(model, str) else f"{model.system}:{model.model_name}"
        self._models = LoopClients(lambda: infer_model(model), None if isinstance(model, str) else model)
        self._file_urls = file_urls
        self._native_tools = list(native_tools)
        self._settings = ModelSettings(**settings)  # type: ignore[typeddict-item]

    def chat(self, messages: Messages, tools: Tools) -> Answered:
        work = start_in_loop(self._whole(PydanticAiAnswer(self.name, messages, {}, tools=tools)))
        try:
            answered: Answered = work.result()
        finally:
            work.cancel()  # if this thread was interrupted
        return answered

    async def achat(self, messages: Messages, tools: Tools) -> Answered:
        work = start_in_loop(self._whole(PydanticAiAnswer(self.name, messages, {}, tools=tools)))
        answered: Answered = await asyncio.wrap_future(work)
        return answered

    def stream(self, messages: Messages, tools: Tools) -> Iterator[str | Thinking | Answered]:
        said: queue.SimpleQueue[Any] = queue.SimpleQueue()
        answer = PydanticAiAnswer(self.name, messages, {}, tools=tools)
        reading = read_in_loop(self._deltas(answer), said.put)
        with told_by_errors(lambda: answer.usage):
            try:
                while (got := said.get()) is not None:
                    if isinstance(got, Exception):
                        raise got
                    yield got[0]
            finally:
                reading.cancel()

    async def astream(self, messages: Messages, tools: Tools) -> AsyncIterator[str | Thinking | Answered]:
        said: asyncio.Queue[Any] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        answer = PydanticAiAnswer(self.name, messages, {}, tools=tools)
        reading = read_in_loop(self._deltas(answer), lambda got: loop.call_soon_threadsafe(said.put_nowait, got))
        with told_by_errors(lambda: answer.usage):
            try:
                while (got := await said.get()) is not None:
                    if isinstance(got, Exception):
                        raise got
                    yield got[0]
            finally:
                reading.cancel()

    async def _whole(self, answer: PydanticAiAnswer) -> Answered:
        self._begin(answer)
        with told_by_errors(lambda: answer.usage), answer.explained():
            for request in answer.requests():
                answer.read(await model_request(**request))
            return answer.whole()

    async def _deltas(self, answer: PydanticAiAnswer) -> AsyncIterator[str | Thinking | Answered]:
        provider = self._begin(answer)
        with answer.explained():
            for request in answer.requests():
                async with model_request_stream(**request) as stream:
                    async for event in stream:
                        answer.counted = stream.usage
                        for said in answer.take(event):
                            yield said
                    answer.read(stream.get())
                answer.require_end(provider)
            answered = answer.whole()
        yield answered

    def _begin(self, answer: PydanticAiAnswer) -> str:
        """Give an answer the first request, and return the provider. The loop must run, for which the model is made."""
        model: Model = self._models.current()
        fresh = fresh_answers(answer.messages, PREFIX, described(answer.tools, "parameters"))
        functions = [
            ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=dict(tool.parameters))
            for tool in answer.tools
        ]
        answer.request = {
            "model": model,
            "messages": to_pydantic_ai(answer.messages, model.system, thinking=fresh, file_urls=self._file_urls),
            "model_settings": self._settings,
            "model_request_parameters": ModelRequestParameters(
                function_tools=functions, native_tools=self._native_tools
            ),
        }
        return model.system
