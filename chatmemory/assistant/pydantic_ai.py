"""Any model of Pydantic AI (extra ``pydantic-ai``), for providers that have no client here."""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from chatmemory.assistant.errors import ModelError
from chatmemory.assistant.model import Answered, ChatModel, Thinking, told_by_errors
from chatmemory.assistant.provider import Answer, LoopClients, Messages, Tools, described
from chatmemory.core.exceptions import extra
from chatmemory.core.exceptions import gettext_noop as _
from chatmemory.core.json_text import is_replaced
from chatmemory.core.messages import AiMessage
from chatmemory.core.usage import Usage
from chatmemory.formats.kept_parts import with_attributes
from chatmemory.formats.thinking import fresh_answers
from chatmemory.formats.usage import from_pydantic_ai as usage_from_pydantic_ai

with extra("pydantic-ai"):
    from pydantic_ai import exceptions
    from pydantic_ai.direct import model_request, model_request_stream
    from pydantic_ai.messages import (
        ModelResponse,
        PartDeltaEvent,
        PartStartEvent,
        TextPart,
        TextPartDelta,
        ThinkingPart,
        ThinkingPartDelta,
    )
    from pydantic_ai.models import Model, ModelRequestParameters, infer_model
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.tools import ToolDefinition

    from chatmemory.formats.pydantic_ai import PREFIX, answer, kept_beside, storable_response, to_pydantic_ai

_MOST_PAUSES = 10

_ERRORS: dict[type[Exception], str] = {
    exceptions.ModelContextWindowExceededError: _("%(name)s cannot read so much: the conversation is too long for it."),
    exceptions.ModelRateLimitError: _("%(name)s gets too many requests. Try again later."),
    exceptions.ModelQuotaExceededError: _("The quota of %(name)s is used up."),
    exceptions.ModelUnavailableError: _("%(name)s is not available. Try again later."),
    exceptions.ModelRequestTimeout: _("%(name)s did not answer in time."),
    exceptions.ModelTimeoutError: _("%(name)s did not answer in time."),
    exceptions.ModelAuthenticationError: _("%(name)s refuses the API key, or does not allow the request."),
    exceptions.ModelNotFoundError: _("%(name)s does not exist, or not at this address."),
    exceptions.ModelRequestRejectedError: _("%(name)s refused the request."),
    exceptions.ModelConnectionError: _("The connection to %(name)s failed."),
    exceptions.ModelAPIError: _("%(name)s failed."),
    exceptions.UnexpectedModelBehavior: _("%(name)s gave an answer that cannot be understood: %(answer)s"),
}
"""The texts for errors, the most specific first. The provider's own text may quote the key: it goes to the log only."""

_IN_PROCESS = ("test", "function")
"""The providers of Pydantic AI's models for tests, which give no reason for the end of an answer."""

_logger = logging.getLogger("chatmemory.assistant")


@dataclass(eq=False)
class PydanticAiAnswer(Answer):
    """An answer in one response, or in several if it paused."""

    cut_off = {
        "length": "the model's limit was reached",
        "content_filter": "a content filter stopped it",
        "error": "the provider reported an error",
    }

    tools: Tools = ()
    response: ModelResponse | None = None
    """The responses so far as one."""

    counted: Any = None
    """The figures of the response that comes now."""

    is_changed: bool = False
    """Whether the thinking is not what a signature of the provider signs."""

    def requests(self) -> Iterator[dict[str, Any]]:
        yield self.request
        for _pause in range(_MOST_PAUSES):
            if self.response is None or self.response.state != "suspended":
                return
            yield {**self.request, "messages": [*self.request["messages"], self.response]}
        if self.response is not None and self.response.state == "suspended":
            template = _("%(name)s paused more than %(count)s times, and did not finish its answer.")
            raise self._error(template, count=_MOST_PAUSES)

    def read(self, response: ModelResponse) -> None:
        before, self.counted, given = self.response, None, response
        response = storable_response(given)
        self.is_changed |= is_replaced(given.thinking or "", response.thinking or "")
        if before is None or (response.provider_response_id or 0) == before.provider_response_id:
            self.response = response  # the same job, asked again, tells all of it
        else:
            usage = before.usage + response.usage
            self.response = replace(response, parts=[*before.parts, *response.parts], usage=usage)
        self.stop_reason = response.finish_reason
        self.of_itself = {
            "response_id": response.provider_response_id or "",
            "model": response.model_name or "",
            "provider": response.provider_name or "",
        }

    def take(self, piece: Any) -> list[str | Thinking]:
        match piece:
            case PartStartEvent(part=TextPart(content=text)):
                return [text]
            case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                return [text]
            case PartStartEvent(part=ThinkingPart(content=thought)) if thought:
                return [Thinking(thought)]
            case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=str(thought))) if thought:
                return [Thinking(thought)]
        return [""]

    def require_end(self, provider: str) -> None:
        """Raise a ``ModelError`` if a stream ended without a reason: Pydantic AI takes it for whole."""
        is_paused = self.response is not None and self.response.state == "suspended"
        if not (self.stop_reason or is_paused or provider in _IN_PROCESS):
            raise self._broken_off()

    def whole(self) -> Answered:
        answered = super().whole()
        assert self.response is not None
        if self.is_changed:
            return answered
        tools = described(self.tools, "parameters")
        return replace(answered, message=kept_beside(answered.message, self.response, self.messages, tools))

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raise a ``ModelError`` for an error in the ``with`` block, unless Pydantic AI says the set-up is wrong."""
        try:
            yield
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Its own, which would look like one of the caller's, and no reader of a stream would hear of it.
            raise self._broken_off() from error
        except (ModelError, exceptions.UserError):
            raise
        except Exception as error:  # others come of answers whose types nobody has checked
            _logger.warning("%s failed", self.name, exc_info=True)
            found = (template for kind, template in _ERRORS.items() if isinstance(error, kind))
            template = next(found, _ERRORS[exceptions.ModelAPIError])
            raise self._error(template, answer=getattr(error, "message", "")) from error

    def _message(self) -> AiMessage:
        with self._readable(self.response and self.response.parts):
            assert self.response is not None
            message = answer(self.response)
        return with_attributes(message, {})

    def _usage(self) -> Usage:
        used: list[Any] = [one for one in (self.response and self.response.usage, self.counted) if one is not None]
        return sum(map(usage_from_pydantic_ai, used), Usage())


_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def start_in_loop(work: Coroutine[Any, Any, Any]) -> Future[Any]:
    """Start ``work`` in the loop, whose thread begins with the first call. Cancelling the future ends it."""
    global _loop
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="chatmemory-pydantic-ai", daemon=True).start()
        loop = _loop
    return asyncio.run_coroutine_threadsafe(work, loop)


def read_in_loop(items: AsyncIterator[Any], put: Callable[[Any], object]) -> Future[Any]:
    """Read a stream in the loop, in one task, whose end closes its connection. ``put`` gets each item, then None."""

    async def read() -> None:
        try:
            async for item in items:
                put((item,))
        except Exception as error:
            put(error)
        else:
            put(None)

    return start_in_loop(read())


def _forget() -> None:
    global _lock, _loop
    _lock, _loop = threading.Lock(), None


os.register_at_fork(after_in_child=_forget)  # the thread stays with the parent


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
        self.provider = model.system
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
