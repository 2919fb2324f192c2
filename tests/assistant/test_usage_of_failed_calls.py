"""The usage of calls that fail or are left, as far as the server told it: ``model_called`` has it, and a ModelError."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    aclosing,
    asynccontextmanager,
    closing,
    contextmanager,
)
from typing import Any

import anthropic
import openai
import pytest
from google.genai import Client

from chatmemory import AiMessage, ChatMessage, MessageWindowChatMemory, UserMessage
from chatmemory.assistant import Answered, Assistant, ChatModel, ModelError, ToolSpecification, TurnLostError, Usage
from chatmemory.assistant.anthropic import AnthropicChatModel
from chatmemory.assistant.gemini import GeminiChatModel
from chatmemory.assistant.model import ModelFunction
from chatmemory.assistant.openai import OpenAiChatModel
from chatmemory.signals import model_called
from tests.support import anthropic_server as claude
from tests.support import gemini_server as gemini
from tests.support import openai_server as gpt
from tests.support.anthropic_server import AnthropicServer, anthropic_server  # noqa: F401
from tests.support.factories import ConversationFactory
from tests.support.gemini_server import GeminiServer, gemini_server  # noqa: F401
from tests.support.openai_server import ModelServer, model_server  # noqa: F401

# The package's own class of aiohttp's sessions.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")

JSON = "application/json"
OF_GPT = {
    "prompt_tokens": 300,
    "completion_tokens": 7,
    "prompt_tokens_details": {"cached_tokens": 256},
    "completion_tokens_details": {"reasoning_tokens": 5},
}


@pytest.fixture
def told() -> Iterator[list[tuple[Usage | None, type[BaseException] | None]]]:
    """The usage and the kind of error that receivers of ``model_called`` are told."""
    told: list[tuple[Usage | None, type[BaseException] | None]] = []

    def note(usage: Usage | None, error: BaseException | None, **given: Any) -> None:
        told.append((usage, None if error is None else type(error)))

    model_called.connect(note)
    yield told
    model_called.disconnect(note)


class Provider:
    """A server, a model that asks it, and the figures of ``usage``, which the server tells in its way."""

    usage: Usage
    """Of a whole answer."""

    at_first: Usage
    """What the first event of a stream tells."""

    failures: Sequence[str]

    def fail(self, how: str, *, streams: bool) -> None:
        """Answer next time with something that is no whole answer."""
        raise NotImplementedError

    def begin(self, *, forever: bool = False) -> None:
        """Next time, stream the beginning of an answer, and break off, or go on until the client hangs up."""
        raise NotImplementedError

    def model(self) -> AbstractContextManager[ChatModel]:
        raise NotImplementedError

    def amodel(self) -> AbstractAsyncContextManager[ChatModel]:
        raise NotImplementedError


class Anthropic(Provider):
    usage = Usage(input_tokens=330, output_tokens=7, cache_read_tokens=300, cache_write_tokens=20)
    at_first = Usage(input_tokens=330, output_tokens=1, cache_read_tokens=300, cache_write_tokens=20)
    failures = ["cut off call", "only thinking", "empty", "refused", "unknown block"]

    def __init__(self, server: AnthropicServer) -> None:
        self.server = server

    def fail(self, how: str, *, streams: bool) -> None:
        blocks, stop = {
            "cut off call": ([claude.call("a", "tea", {"a": 1})], "max_tokens"),
            "only thinking": ([claude.thinking("Hm.")], "end_turn"),
            "empty": ([], "end_turn"),
            "refused": ([], "refusal"),
            "unknown block": ([{"type": "new_block"}], "end_turn"),
        }[how]
        if streams:
            self.server.stream(claude.events(*blocks, stop=stop))
        else:
            self.server.say(200, JSON, claude.message(*blocks, stop=stop))

    def begin(self, *, forever: bool = False) -> None:
        made = claude.events(claude.text("Green"), stop=None)
        self.server.stream(made, forever=forever, ends=False)

    @contextmanager
    def model(self) -> Iterator[ChatModel]:
        with anthropic.Anthropic(max_retries=0, timeout=60) as client:
            yield AnthropicChatModel("claude-tiny", client=client)

    @asynccontextmanager
    async def amodel(self) -> AsyncIterator[ChatModel]:
        async with anthropic.AsyncAnthropic(max_retries=0, timeout=60) as client:
            yield AnthropicChatModel("claude-tiny", async_client=client)


class OpenAi(Provider):
    usage = Usage(input_tokens=300, output_tokens=7, cache_read_tokens=256, reasoning_tokens=5)
    at_first = usage
    failures = ["cut off call", "empty", "filtered"]

    def __init__(self, server: ModelServer) -> None:
        self.server = server

    def fail(self, how: str, *, streams: bool) -> None:
        call = {"id": "a", "type": "function", "function": {"name": "tea", "arguments": "{}"}}
        finish, message = {
            "cut off call": ("length", {"tool_calls": [call]}),
            "empty": ("stop", {"content": ""}),
            "filtered": ("content_filter", {"content": None}),
        }[how]
        if streams:
            [end] = gpt.says(finish=finish)
            made = gpt.calls(("a", "tea", "{}"))[:-1] if "tool_calls" in message else []
            self.server.stream([*made, end, {**end, "choices": [], "usage": OF_GPT}])
        else:
            body = json.loads(gpt.completion(finish, **message))
            self.server.say(200, JSON, json.dumps({**body, "usage": OF_GPT}))

    def begin(self, *, forever: bool = False) -> None:
        # Some servers tell it with each chunk.
        made = [{**chunk, "usage": OF_GPT} for chunk in gpt.says("Gr", "een", finish=None)]
        events = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in made]
        self.server.send(events, forever=forever, ends=False)

    @contextmanager
    def model(self) -> Iterator[ChatModel]:
        with openai.OpenAI(max_retries=0, timeout=60) as client:
            yield OpenAiChatModel("tiny", client=client)

    @asynccontextmanager
    async def amodel(self) -> AsyncIterator[ChatModel]:
        async with openai.AsyncOpenAI(max_retries=0, timeout=60) as client:
            yield OpenAiChatModel("tiny", async_client=client)


class Gemini(Provider):
    usage = Usage(input_tokens=300, output_tokens=12, cache_read_tokens=256, reasoning_tokens=5)
    at_first = Usage(input_tokens=300)
    failures = ["cut off call", "empty", "filtered", "blocked"]

    def __init__(self, server: GeminiServer) -> None:
        self.server = server

    def fail(self, how: str, *, streams: bool) -> None:
        said = {
            "cut off call": gemini.response({"functionCall": {"name": "tea", "args": {}}}, finish="MAX_TOKENS"),
            "empty": gemini.response(),
            "filtered": gemini.response(finish="SAFETY"),
            "blocked": {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": gemini.USED},
        }[how]
        if streams:
            self.server.stream([said])
        else:
            self.server.answer(said)

    def begin(self, *, forever: bool = False) -> None:
        self.server.stream(gemini.chunks({"text": "Green"}, finish=None), forever=forever, ends=False)

    @contextmanager
    def model(self) -> Iterator[ChatModel]:
        with Client() as client:
            yield GeminiChatModel("gemini-tiny", client=client)

    @asynccontextmanager
    async def amodel(self) -> AsyncIterator[ChatModel]:
        with Client() as client:
            async with client.aio:
                yield GeminiChatModel("gemini-tiny", client=client)


OF_PROVIDERS: dict[str, type[Any]] = {"anthropic_server": Anthropic, "model_server": OpenAi, "gemini_server": Gemini}


@pytest.fixture(params=list(OF_PROVIDERS))
def provider(request: pytest.FixtureRequest) -> Provider:
    provider: Provider = OF_PROVIDERS[request.param](request.getfixturevalue(request.param))
    return provider


def assistant_of(model: ChatModel | ModelFunction) -> Assistant:
    return Assistant(model, memory=MessageWindowChatMemory(max_messages=5))


def say_hi(provider: Provider, way: str) -> None:
    """Say something to an assistant with the provider's model, in one of the ways."""

    async def say() -> None:
        async with provider.amodel() as model:
            if way == "achat":
                await assistant_of(model).achat("default", "Hi")
            else:
                async for _ in assistant_of(model).astream("default", "Hi"):
                    pass

    if way.startswith("a"):
        asyncio.run(say())
        return
    with provider.model() as model:
        if way == "chat":
            assistant_of(model).chat("default", "Hi")
        else:
            list(assistant_of(model).stream("default", "Hi"))


@pytest.mark.parametrize("way", ["chat", "achat", "stream", "astream"])
def test_of_answers_that_are_no_whole_ones(provider: Provider, told: Any, way: str) -> None:
    for how in provider.failures:
        provider.fail(how, streams="stream" in way)
        with pytest.raises(ModelError) as caught:
            say_hi(provider, way)
        assert (how, caught.value.usage) == (how, provider.usage)
        assert told.pop() == (provider.usage, ModelError)


@pytest.mark.parametrize("way", ["stream", "astream"])
def test_of_streams_that_break_off(provider: Provider, told: Any, way: str) -> None:
    provider.begin()
    with pytest.raises(ModelError, match="broke off") as caught:
        say_hi(provider, way)
    assert caught.value.usage == provider.at_first
    assert told == [(provider.at_first, ModelError)]


def test_of_streams_that_their_reader_leaves(provider: Provider, told: Any) -> None:
    provider.begin(forever=True)
    with provider.model() as model, closing(assistant_of(model).stream("default", "Hi")) as events:
        assert any(isinstance(event, str) for event in events)

    async def leave() -> None:
        async with provider.amodel() as model, aclosing(assistant_of(model).astream("default", "Hi")) as events:
            async for event in events:
                if isinstance(event, str):
                    return

    provider.begin(forever=True)
    asyncio.run(leave())
    assert told == [(provider.at_first, GeneratorExit)] * 2


def test_of_streams_whose_task_is_cancelled(provider: Provider, told: Any) -> None:
    provider.begin(forever=True)

    async def cancel() -> None:
        async def read() -> None:
            async with provider.amodel() as model:
                async for event in assistant_of(model).astream("default", "Hi"):
                    if isinstance(event, str):
                        task.cancel()  # delivered where the stream waits for more

        task = asyncio.ensure_future(read())
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert told == [(provider.at_first, asyncio.CancelledError)]


@pytest.mark.django_db(transaction=True)
def test_of_streams_whose_turn_is_lost(provider: Provider, told: Any) -> None:
    conversation = ConversationFactory(owner=None)
    provider.begin()
    with provider.model() as model:
        assistant = Assistant(model, turn_timeout=1e-6)
        events = assistant.stream(conversation, "Hi")
        next(events)
        assistant.interrupt(conversation)
        with pytest.raises(TurnLostError):
            list(events)
    assert told == [(provider.at_first, TurnLostError)]


@pytest.mark.django_db(transaction=True)
def test_of_titles(provider: Provider, told: Any) -> None:
    def answer(messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> AiMessage | Answered:
        return AiMessage("Green") if messages == [UserMessage("Hi")] else model.chat(messages, tools)

    provider.fail("empty", streams=False)
    with provider.model() as model:
        assistant = Assistant(answer, title=True)
        assistant.chat(ConversationFactory(owner=None, title=""), "Hi")
        assert assistant.wait_for_summaries(60)
    assert told == [(None, None), (provider.usage, ModelError)]


class TestModelsOfOnesOwn:
    USED = Usage(input_tokens=9, output_tokens=4)

    def test_an_error_has_it(self, told: Any) -> None:
        def fail(messages: Any, tools: Any) -> AiMessage:
            raise ModelError("Out of words.", usage=self.USED)

        with pytest.raises(ModelError, match=r"Out of words\."):
            assistant_of(fail).chat("default", "Hi")
        assert told == [(self.USED, ModelError)]

    def test_a_stream_without_the_methods_of_a_generator_may_be_left(self, told: Any) -> None:
        class Pieces:
            def __iter__(self) -> Pieces:
                return self

            def __next__(self) -> str:
                return "Gr"

            def __aiter__(self) -> AsyncIterator[str]:
                return self  # type: ignore[return-value]

            async def __anext__(self) -> str:
                return "Gr"

        class Model(ChatModel):
            def chat(self, messages: Any, tools: Any) -> AiMessage:
                raise NotImplementedError

            def stream(self, messages: Any, tools: Any) -> Any:
                return Pieces()

            def astream(self, messages: Any, tools: Any) -> Any:
                return Pieces()

        assistant = assistant_of(Model())
        with closing(assistant.stream("default", "Hi")) as events:
            assert "Gr" in events

        async def leave() -> None:
            async with aclosing(assistant.astream("default", "Hi")) as events:
                async for event in events:
                    if event == "Gr":
                        return

        asyncio.run(leave())
        assert told == [(None, GeneratorExit)] * 2
