"""Models of Pydantic AI, against servers that speak the protocols of four providers through four packages."""

# ruff: noqa: F811 - fixtures that are imported

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest
from pydantic_ai import exceptions
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.groq import GroqModel
from pydantic_ai.models.mistral import MistralModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.groq import GroqProvider
from pydantic_ai.providers.mistral import MistralProvider

from chatmemory import (
    AiMessage,
    ChatMessage,
    CustomMessage,
    ImageContent,
    MessageWindowChatMemory,
    SystemMessage,
    TextContent,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
    message_from_json,
    message_to_json,
)
from chatmemory.assistant import Answered, Assistant, ModelError, Thinking, ToolSpecification, Usage
from chatmemory.assistant.model import usage_told_by
from chatmemory.assistant.pydantic_ai import PydanticAiChatModel, start_in_loop
from chatmemory.formats import UnsupportedContentError
from chatmemory.formats.thinking import bound
from tests.support.anthropic_server import AnthropicServer, anthropic_server, events, message  # noqa: F401
from tests.support.anthropic_server import call as tool_use
from tests.support.anthropic_server import text as text_block
from tests.support.anthropic_server import thinking as thinking_block
from tests.support.openai_server import ModelServer, completion, model_server, says  # noqa: F401

HI: list[ChatMessage] = [UserMessage("Hi")]
PLUS = ToolSpecification(
    "plus", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
)
CALL = ToolExecutionRequest("abcdefgh1", "plus", '{"a":1,"b":2}')
USED = {"prompt_tokens": 300, "completion_tokens": 7, "total_tokens": 307}
STREAMING = ["stream", "astream"]
CHAT_COMPLETIONS = ["groq", "mistral", "openai"]
PROVIDERS = [*CHAT_COMPLETIONS, "anthropic"]
CALL_PIECE = {"id": CALL.id, "type": "function", "function": {"name": CALL.name, "arguments": CALL.arguments}}


_made: list[Model] = []


@pytest.fixture(autouse=True)
def closed_models() -> Iterator[None]:
    yield

    async def close() -> None:
        while _made:
            async with _made.pop():  # whose end closes the connections
                pass

    start_in_loop(close()).result(30)


class Asker:
    """Asks the model of a provider in one of the ways."""

    def __init__(self, provider: str, way: str, server: Any) -> None:
        self.provider = provider
        self.way = way
        self.server = server
        self.streams = way in STREAMING

    def model(self, **options: Any) -> PydanticAiChatModel:
        url = self.server.url.removesuffix("/v1")
        model: Model
        match self.provider:
            case "anthropic":
                model = AnthropicModel("claude-tiny")
            case "openai":
                model = OpenAIChatModel("tiny")
            case "groq":
                model = GroqModel("tiny", provider=GroqProvider(api_key="secret", base_url=url))
            case _:
                model = MistralModel("tiny", provider=MistralProvider(api_key="secret", base_url=url))
        _made.append(model)
        return PydanticAiChatModel(model, max_retries=0, **options)

    def __call__(
        self, messages: Sequence[ChatMessage] = HI, tools: Sequence[ToolSpecification] = (), **options: Any
    ) -> list[Any]:
        """Everything that the model gives out, the answer last, without signs of life."""
        model = self.model(**options)
        match self.way:
            case "chat":
                return [model.chat(messages, tools)]
            case "achat":
                return [asyncio.run(model.achat(messages, tools))]
            case "stream":
                return [piece for piece in model.stream(messages, tools) if piece != ""]

        async def read() -> list[Any]:
            return [piece async for piece in model.astream(messages, tools) if piece != ""]

        return asyncio.run(read())

    def will_say(self, *pieces: str, finish: str | None = "stop", usage: Any = USED) -> None:
        if self.provider == "anthropic":
            stop = {"stop": "end_turn", "length": "max_tokens", None: None}[finish]
            made = events(text_block("".join(pieces)), stop=stop)
            self._will_get(made, message(text_block("".join(pieces)), stop=stop))
            return
        self._will_get(
            self._with_usage(says(*pieces, finish=finish), usage), self._whole(finish, content="".join(pieces))
        )

    def will_call(self, *requests: ToolExecutionRequest) -> None:
        if self.provider == "anthropic":
            blocks = [tool_use(str(one.id), str(one.name), json.loads(str(one.arguments))) for one in requests]
            self._will_get(events(*blocks, stop="tool_use"), message(*blocks, stop="tool_use"))
            return
        pieces = [
            {
                "index": index,
                "id": one.id,
                "function": {"name": one.name, "arguments": one.arguments},
                "type": "function",
            }
            for index, one in enumerate(requests)
        ]
        chunk = says("", finish=None)[0]
        chunk["choices"][0]["delta"] = {"tool_calls": pieces}
        end = says(finish="tool_calls")
        self._will_get(self._with_usage([chunk, *end], USED), self._whole("tool_calls", tool_calls=pieces))

    def _whole(self, finish: str | None, **said: Any) -> str:
        return json.dumps({**json.loads(completion(str(finish), **said)), "usage": USED})

    def _with_usage(self, chunks: list[Any], usage: Any) -> list[Any]:
        if usage is not None:
            chunks[-1]["usage"] = usage
            chunks[-1]["x_groq"] = {"id": "r", "usage": usage}
        return chunks

    def _will_get(self, streamed: list[Any], whole: str) -> None:
        if self.streams:
            self.server.stream(streamed)
        else:
            self.server.say(200, "application/json", whole)


def asker(provider: str, way: str, request: pytest.FixtureRequest) -> Asker:
    fixture = "anthropic_server" if provider == "anthropic" else "model_server"
    return Asker(provider, way, request.getfixturevalue(fixture))


@pytest.fixture(params=["chat", "achat", *STREAMING])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=PROVIDERS)
def ask(request: pytest.FixtureRequest, way: str) -> Asker:
    return asker(request.param, way, request)


@pytest.fixture
def ask_anthropic(way: str, anthropic_server: AnthropicServer) -> Asker:
    return Asker("anthropic", way, anthropic_server)


@pytest.fixture(params=PROVIDERS)
def ask_for_stream(request: pytest.FixtureRequest) -> Asker:
    return asker(request.param, "stream", request)


def test_a_text(ask: Asker) -> None:
    ask.will_say("Hel", "lo 世界")
    *pieces, answered = ask([SystemMessage("Be brief."), *HI], [PLUS], temperature=0.5)
    assert answered.message == AiMessage("Hello 世界")
    if ask.streams:
        assert "".join(pieces) == "Hello 世界"
        assert len(pieces) > 1
    assert answered.usage is not None
    told = {"anthropic": (330, 7, 300)}.get(ask.provider, (300, 7, None))
    assert (answered.usage.input_tokens, answered.usage.output_tokens, answered.usage.cache_read_tokens) == told
    assert answered.usage.reasoning_tokens is None
    [request] = ask.server.requests
    assert request["key"] in ("secret", "Bearer secret")
    assert request["temperature"] == 0.5
    assert "Be brief." in json.dumps(request)
    assert "Adds." in json.dumps(request["tools"])


def test_calls_of_tools_and_their_results(ask: Asker) -> None:
    two = [CALL, ToolExecutionRequest("abcdefgh2", "plus", '{"a":3,"b":4}')]
    ask.will_call(*two)
    answer = ask(tools=[PLUS])[-1].message
    assert [(one.id, one.name, json.loads(one.arguments)) for one in answer.tool_execution_requests] == [
        (one.id, one.name, json.loads(str(one.arguments))) for one in two
    ]
    ask.will_say("3 and 7")
    results = [ToolExecutionResultMessage(one.id, "plus", said) for one, said in zip(two, "37", strict=True)]
    assert ask([*HI, answer, *results], [PLUS])[-1].message.text == "3 and 7"
    sent = json.dumps(ask.server.requests[-1]["messages"])
    assert [sent.count(str(one.id)) for one in two] == [2, 2]  # the call and its result


def test_a_memory_that_was_cut_is_repaired(ask: Asker) -> None:
    """A result without its call, a call without its result, IDs and arguments that APIs refuse."""
    ask.will_say("Yes")
    broken = AiMessage("One", [ToolExecutionRequest("call:1", "plus now", "{bro")])
    ask([ToolExecutionResultMessage("gone", "plus", "Lost"), AiMessage("Zero"), UserMessage(" "), broken])
    sent = json.dumps(ask.server.requests[-1]["messages"])
    assert "Lost" not in sent
    assert "plus_now" in sent
    assert "{bro" in sent
    assert "call:1" not in sent
    assert "not completed" in sent
    roles = [one["role"] for one in ask.server.requests[-1]["messages"]]
    assert roles[:2] == ["user", "assistant"]


def test_mistral_gets_ids_of_nine_letters(model_server: ModelServer) -> None:
    ask = Asker("mistral", "chat", model_server)
    ask.will_say("Yes")
    requests = [ToolExecutionRequest(id, "plus", "{}") for id in ("call_1", "call_2", "abcdefgh1")]
    ask([*HI, AiMessage(None, requests)])
    ids = [call["id"] for call in model_server.requests[-1]["messages"][1]["tool_calls"]]
    assert len(set(ids)) == 3
    assert ids[2] == "abcdefgh1"
    assert all(len(id) == 9 and id.isalnum() for id in ids)
    assert [one["tool_call_id"] for one in model_server.requests[-1]["messages"][2:]] == ids


def test_a_text_that_was_cut_off_says_why(ask: Asker) -> None:
    ask.will_say("Once", finish="length")
    assert ask()[-1].message == AiMessage("Once", attributes={"cut_off": "the model's limit was reached"})


@pytest.mark.parametrize("provider", ["groq", "mistral", "anthropic"])
@pytest.mark.parametrize("way", STREAMING)
def test_a_stream_that_breaks_off(provider: str, way: str, request: pytest.FixtureRequest) -> None:
    ask = asker(provider, way, request)
    ask.will_say("Once", "upon", finish=None, usage=None)
    with pytest.raises(ModelError, match=r"broke off|failed"):
        ask()


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("way", STREAMING)
def test_a_connection_that_breaks(provider: str, way: str, request: pytest.FixtureRequest) -> None:
    ask = asker(provider, way, request)
    if provider == "anthropic":
        ask.server.send([b'event: ping\ndata: {"type": "ping"}\n\n'], ends=False)
    else:
        ask.server.break_off(says("Once", finish=None))
    with pytest.raises(ModelError, match=r"broke off|failed"):
        ask()


@pytest.mark.parametrize("way", ["chat", "achat", *STREAMING])
def test_a_package_that_cancels_itself(way: str) -> None:
    """Nobody cancelled the caller, who must not wait for ever, nor take it for a cancellation of their own."""

    async def whole(*_: Any) -> Any:
        raise asyncio.CancelledError

    async def pieces(*_: Any) -> AsyncIterator[str]:
        yield "Once"
        raise asyncio.CancelledError

    class Function(Asker):
        def model(self, **options: Any) -> PydanticAiChatModel:
            return PydanticAiChatModel(FunctionModel(whole, stream_function=pieces))

    with pytest.raises(ModelError, match="broke off"):
        Function("function", way, None)()


@pytest.mark.parametrize(
    ("status", "cause", "said"),
    [
        (400, exceptions.ModelRequestRejectedError, "refused the request"),
        (401, exceptions.ModelAuthenticationError, "refuses the API key"),
        (404, exceptions.ModelNotFoundError, "does not exist"),
        (429, exceptions.ModelRateLimitError, "Try again later"),
        (503, exceptions.ModelUnavailableError, "is not available"),
    ],
)
def test_errors_of_the_provider(ask: Asker, status: int, cause: type[Exception], said: str) -> None:
    ask.server.fail(status, "so it is: sk-secret")
    with pytest.raises(ModelError, match=said) as caught:
        ask()
    assert isinstance(caught.value.__cause__, cause)
    assert "sk-secret" not in str(caught.value)  # readers of a chat may see it


def test_an_answer_of_other_types(ask: Asker) -> None:
    """Groq's, OpenAI's and Anthropic's packages check none, nor does Pydantic AI in all places."""
    body = json.dumps({"choices": 3, "content": 3})
    if ask.streams:
        ask.server.say(200, "text/event-stream", f"data: {body}\n\n")
    else:
        ask.server.say(200, "application/json", body)
    with pytest.raises(ModelError) as caught:
        ask()
    assert str(caught.value).startswith(ask.model().name)


def test_a_conversation_that_is_too_long(ask: Asker) -> None:
    too_long = "prompt is too long: 210000 tokens > 200000 maximum"
    error = {"message": too_long, "type": "invalid_request_error", "code": "context_length_exceeded"}
    ask.server.say(400, "application/json", json.dumps({"type": "error", "error": error, "message": too_long}))
    with pytest.raises(ModelError) as caught:
        ask()
    if ask.provider != "mistral":
        assert isinstance(caught.value.__cause__, exceptions.ModelContextWindowExceededError)
        assert "the conversation is too long for it" in str(caught.value)


def test_figures_that_are_not_told_are_unknown(model_server: ModelServer) -> None:
    for provider in CHAT_COMPLETIONS:
        ask = Asker(provider, "stream", model_server)
        ask.will_say("Hello", usage=None)
        assert ask()[-1] == Answered(AiMessage("Hello"), None)


class TestThinking:
    def test_it_is_sent_back_as_long_as_nothing_before_it_has_changed(self, ask_anthropic: Asker) -> None:
        ask = ask_anthropic
        blocks = [thinking_block("Let me see.", "c2ln"), text_block("Hello")]
        ask._will_get(events(*blocks), message(*blocks))
        *pieces, answered = ask()
        assert (answered.message.thinking, answered.message.text) == ("Let me see.", "Hello")
        if ask.streams:
            assert "".join(piece.text for piece in pieces if isinstance(piece, Thinking)) == "Let me see."
        answer = message_from_json(message_to_json(answered.message))
        for before, is_sent in [(HI, True), ([UserMessage("Ho")], False), ([SystemMessage("Be brief."), *HI], False)]:
            ask.will_say("Yes")
            ask([*before, answer, UserMessage("And?")])
            sent = ask.server.requests[-1]["messages"][1]["content"]
            assert [block["type"] for block in sent] == (["thinking", "text"] if is_sent else ["text"])

    def test_the_turn_under_way_keeps_it(self, ask_anthropic: Asker) -> None:
        ask = ask_anthropic
        blocks = [thinking_block("I add.", "c2ln"), tool_use("a", "plus", {"a": 1})]
        ask._will_get(events(*blocks, stop="tool_use"), message(*blocks, stop="tool_use"))
        answer = ask(tools=[PLUS])[-1].message
        ask.will_say("Yes")
        ask([UserMessage("Ho"), answer, ToolExecutionResultMessage("a", "plus", "1")], [PLUS])
        sent = ask.server.requests[-1]["messages"][1]["content"]
        assert [block["type"] for block in sent] == ["thinking", "tool_use"]

    def test_what_is_not_signed_or_another_providers_is_not_sent(self, ask: Asker) -> None:
        part = {"part_kind": "thinking", "content": "Hm", "signature": "c2ln", "provider_name": "other"}
        kept = {"provider_name": "other", "parts": [part, {"part_kind": "text", "content": "Hello"}]}
        for attributes in (None, {"pydantic_ai_response": kept}, {"pydantic_ai_response": {"parts": 5}}):
            ask.will_say("Yes")
            answer = AiMessage("Hello", thinking="Hm", attributes=attributes)
            ask([*HI, bound(answer, "pydantic_ai_prefix", HI, []), UserMessage("And?")])
            assert "Hm" not in json.dumps(ask.server.requests[-1]["messages"])


def will_pause(ask: Asker, said: str, number: int, stop: str = "pause_turn") -> None:
    made = events(text_block(said), stop=stop)
    made[0]["message"]["id"] = f"msg_{number}"
    ask._will_get(made, message(text_block(said), stop=stop, id=f"msg_{number}"))


class TestPauses:
    def test_an_answer_that_pauses_is_one_answer(self, ask_anthropic: Asker) -> None:
        ask = ask_anthropic
        will_pause(ask, "I search. ", 1)
        will_pause(ask, "Found.", 2, "end_turn")
        answered = ask()[-1]
        assert answered.message.text == "I search. Found."
        assert (answered.usage.input_tokens, answered.usage.output_tokens) == (660, 14)
        assert [one["role"] for one in ask.server.requests[1]["messages"]] == ["user", "assistant"]

    def test_it_pauses_ten_times_at_most(self, ask_anthropic: Asker) -> None:
        ask = ask_anthropic
        for number in range(11):
            will_pause(ask, "Hm. ", number)
        with pytest.raises(ModelError, match="paused more than 10 times") as caught:
            ask()
        assert len(ask.server.requests) == 11
        assert caught.value.usage == Usage(
            input_tokens=3630, output_tokens=77, cache_read_tokens=3300, cache_write_tokens=220
        )


class TestFiles:
    URL = UserMessage([TextContent("What is it?"), ImageContent("http://127.0.0.1:1/cat.png")])

    def test_a_url_is_refused_unless_it_is_allowed(self, ask: Asker) -> None:
        with pytest.raises(UnsupportedContentError, match="file_urls=True"):
            ask([self.URL])
        assert ask.server.requests == []
        ask.will_say("A cat")
        ask([self.URL], file_urls=True)
        assert "http://127.0.0.1:1/cat.png" in json.dumps(ask.server.requests[-1])

    def test_data_is_sent(self, ask: Asker) -> None:
        ask.will_say("A cat")
        ask([UserMessage([TextContent("?"), ImageContent(base64_data="Y2F0", mime_type="image/png")])])
        assert "Y2F0" in json.dumps(ask.server.requests[-1])

    def test_what_has_no_place_is_an_error(self, ask: Asker) -> None:
        for one in [CustomMessage({"a": 1}), UserMessage([ImageContent(base64_data="!", mime_type="image/png")])]:
            with pytest.raises(UnsupportedContentError):
                ask([one])
        assert ask.server.requests == []


class TestLeaving:
    """The server sends for ever, and sees that the client hangs up."""

    def forever(self, ask: Asker) -> None:
        if ask.provider == "anthropic":
            made = events(text_block("Hello"), stop=None)
            deltas = [event for event in made if event["type"] == "content_block_delta"]
            ask.server.stream([*made[: made.index(deltas[0])], deltas[0]], forever=True)
        else:
            [chunk] = says("Hello", finish=None)
            ask.server.send([f"data: {json.dumps(chunk)}\n\n".encode()], forever=True)

    def test_a_stream_that_is_closed(self, ask_for_stream: Asker) -> None:
        self.forever(ask_for_stream)
        stream = ask_for_stream.model().stream(HI, [])
        assert next(piece for piece in stream if piece)
        stream.close()  # type: ignore[attr-defined]
        assert ask_for_stream.server.left.wait(30)

    def test_an_async_stream_that_is_closed(self, ask_for_stream: Asker) -> None:
        self.forever(ask_for_stream)

        async def leave() -> None:
            stream = ask_for_stream.model().astream(HI, [])
            async for piece in stream:
                if piece:
                    break
            await stream.aclose()  # type: ignore[attr-defined]

        asyncio.run(leave())
        assert ask_for_stream.server.left.wait(30)

    def test_a_task_that_is_cancelled(self, ask_for_stream: Asker) -> None:
        self.forever(ask_for_stream)

        async def cancel() -> None:
            began = asyncio.Event()

            async def read() -> None:
                async for piece in ask_for_stream.model().astream(HI, []):
                    if piece:
                        began.set()

            task = asyncio.create_task(read())
            await began.wait()
            task.cancel()
            await asyncio.wait([task])

        asyncio.run(cancel())
        assert ask_for_stream.server.left.wait(30)

    def test_what_was_used_is_told(self, anthropic_server: AnthropicServer) -> None:
        ask = Asker("anthropic", "stream", anthropic_server)
        self.forever(ask)
        stream: Any = ask.model().stream(HI, [])
        assert next(piece for piece in stream if piece)
        leaving = GeneratorExit()
        with pytest.raises(GeneratorExit):
            stream.throw(leaving)
        told = usage_told_by(leaving)
        assert told is not None
        assert told.input_tokens == 330


class TestLoops:
    def test_one_model_serves_threads_and_loops(self, model_server: ModelServer) -> None:
        ask = Asker("groq", "chat", model_server)
        model = ask.model()

        async def within_a_loop() -> str | None:
            ask.will_say("One")
            model.chat(HI, [])  # sync code that a loop runs, as some frameworks' callbacks are
            ask.will_say("Two")
            return (await model.achat(HI, [])).message.text

        assert [asyncio.run(within_a_loop()) for _ in range(2)] == ["Two", "Two"]
        said: list[Any] = []
        ask.will_say("Three")
        thread = threading.Thread(target=lambda: said.append(model.chat(HI, []).message.text))
        thread.start()
        thread.join()
        assert said == ["Three"]

    @pytest.mark.slow
    def test_a_fork_after_use(self, model_server: ModelServer) -> None:
        program = """
import os
from chatmemory import UserMessage
from chatmemory.assistant.pydantic_ai import PydanticAiChatModel

model = PydanticAiChatModel("groq:tiny")
print(model.chat([UserMessage("Hi")], []).message.text, flush=True)
if child := os.fork():
    assert os.waitpid(child, 0)[1] == 0
    print(model.chat([UserMessage("Hi")], []).message.text, flush=True)
else:
    print(model.chat([UserMessage("Hi")], []).message.text, flush=True)
    os._exit(0)
"""
        ask = Asker("groq", "chat", model_server)
        for said in ("Parent", "Child", "Parent again"):
            ask.will_say(said)
        environment = {"GROQ_BASE_URL": model_server.url.removesuffix("/v1"), "GROQ_API_KEY": "secret"}
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stderr == ""
        assert done.stdout.split("\n") == ["Parent", "Child", "Parent again", ""]


def test_an_assistant_runs_its_tools(ask_for_stream: Asker) -> None:
    def plus(a: int, b: int) -> int:
        """Adds."""
        return a + b

    ask_for_stream.will_call(CALL)
    ask_for_stream.will_say("Th", "ree")
    assistant = Assistant(ask_for_stream.model(), memory=MessageWindowChatMemory(max_messages=20), tools=[plus])
    said = [event for event in assistant.stream("default", "1+2?") if isinstance(event, str)]
    assert "".join(said) == "Three"
    [_, _, result, answer] = assistant.memory("default").messages()
    assert (result.text, answer) == ("3", AiMessage("Three"))


def test_a_missing_key_is_an_error_of_the_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    with pytest.raises(exceptions.UserError, match="GROQ_API_KEY"):
        PydanticAiChatModel("groq:tiny").chat(HI, [])


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_characters_that_no_database_stores(provider: str, way: str, request: pytest.FixtureRequest) -> None:
    ask = asker(provider, way, request)
    ask.will_say("tea \ud83c", "\udf75\0")
    answer = ask()[-1].message
    assert answer == AiMessage("tea 🍵\ufffd")
    ask.will_call(ToolExecutionRequest("abcdefgh\0", "plus", '{"a": "\\ud83c"}'))
    answer = ask([*HI, answer, UserMessage("And?")])[-1].message
    [call] = answer.tool_execution_requests
    assert (call.id, call.name) == ("abcdefgh\ufffd", "plus")
    ask.will_say("Hello")
    ask([*HI, answer, ToolExecutionResultMessage(call.id, "plus", "3")])


@pytest.mark.parametrize(("thought", "is_sent_back"), [("a\0", False), ("\ud83c\udf75", True)])
def test_thinking_that_no_database_stores_is_not_sent_back_with_its_signature(
    thought: str, is_sent_back: bool, way: str, anthropic_server: AnthropicServer
) -> None:
    ask = Asker("anthropic", way, anthropic_server)
    blocks = [thinking_block(thought), text_block("Hello")]
    ask._will_get(events(*blocks), message(*blocks))
    answer = ask()[-1].message
    assert answer.thinking == thought.replace("\0", "\ufffd").replace("\ud83c\udf75", "🍵")
    assert ("pydantic_ai_response" in answer.attributes) is is_sent_back
