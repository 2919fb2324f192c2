"""The adapter to the ``google-genai`` package, against a server that speaks its protocol."""

# ruff: noqa: F811 - fixtures that are imported

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from google.genai import Client, errors
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatmemory import (
    AiMessage,
    ChatMessage,
    CustomMessage,
    MessageWindowChatMemory,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
    message_from_json,
    message_to_json,
)
from chatmemory.assistant import Answered, Assistant, ModelError, Thinking, ToolSpecification, Usage
from chatmemory.assistant.gemini import GeminiChatModel
from chatmemory.formats import UnsupportedContentError
from tests.support import budget
from tests.support.gemini_server import USED, GeminiServer, chunks, gemini_server, response  # noqa: F401

# The package's own class of aiohttp's sessions.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")

HI: list[ChatMessage] = [UserMessage("Hi")]
USAGE = Usage(input_tokens=300, output_tokens=12, cache_read_tokens=256, reasoning_tokens=5)
PLUS = ToolSpecification(
    "plus", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
)
STREAMING = ["stream", "astream"]


class Asker:
    """Asks a model in one of the ways, each time with a client of its own."""

    def __init__(self, server: GeminiServer, way: str) -> None:
        self.server = server
        self.way = way
        self.streams = way in STREAMING

    def __call__(
        self,
        messages: Sequence[ChatMessage] = HI,
        tools: Sequence[ToolSpecification] = (),
        of_model: dict[str, Any] | None = None,
    ) -> list[Any]:
        """Everything that the model gives out, the answer last, without signs of life."""
        options = of_model or {}
        if self.way.startswith("a"):
            pieces = asyncio.run(self._wait(messages, tools, options))
        else:
            with Client() as client:
                model = GeminiChatModel("gemini-tiny", client=client, **options)
                pieces = list(model.stream(messages, tools)) if self.streams else [model.chat(messages, tools)]
        return [piece for piece in pieces if piece != ""]

    async def _wait(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification], options: dict[str, Any]
    ) -> list[Any]:
        with Client() as client:
            async with client.aio:
                model = GeminiChatModel("gemini-tiny", client=client, **options)
                if self.streams:
                    return [piece async for piece in model.astream(messages, tools)]
                return [await model.achat(messages, tools)]

    def will_get(self, *parts: dict[str, Any], finish: str = "STOP") -> None:
        if self.streams:
            self.server.stream([*chunks(*parts, finish=None), response({"text": ""}, finish=finish)])
        else:
            self.server.answer(response(*parts, finish=finish))


@pytest.fixture(params=["chat", "achat", *STREAMING])
def ask(request: pytest.FixtureRequest, gemini_server: GeminiServer) -> Asker:
    return Asker(gemini_server, request.param)


@pytest.fixture(params=STREAMING)
def ask_for_stream(request: pytest.FixtureRequest, gemini_server: GeminiServer) -> Asker:
    return Asker(gemini_server, request.param)


@pytest.fixture(params=["chat", "achat"])
def ask_for_all(request: pytest.FixtureRequest, gemini_server: GeminiServer) -> Asker:
    return Asker(gemini_server, request.param)


def thought(said: str) -> dict[str, Any]:
    return {"text": said, "thought": True}


def call(name: str, args: dict[str, Any], id: str | None = None, signature: str | None = None) -> dict[str, Any]:
    signed = {"thoughtSignature": signature} if signature else {}
    return {"functionCall": {**({"id": id} if id else {}), "name": name, "args": args}, **signed}


def test_the_request(ask: Asker) -> None:
    ask.will_get({"text": "Hello"})
    ask([SystemMessage("Be brief."), *HI], [PLUS], {"temperature": 0.5, "max_output_tokens": 100})
    [request] = ask.server.requests
    assert request["path"].partition("/models/")[2] == (
        "gemini-tiny:streamGenerateContent?alt=sse" if ask.streams else "gemini-tiny:generateContent"
    )
    assert request["key"] == "secret"
    assert request["contents"] == [{"role": "user", "parts": [{"text": "Hi"}]}]
    assert request["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert request["generationConfig"] == {"temperature": 0.5, "maxOutputTokens": 100}
    [tool] = request["tools"]
    [declaration] = tool["functionDeclarations"]
    assert sorted(declaration.items()) == [
        ("description", "Adds."),
        ("name", "plus"),
        ("parameters_json_schema", PLUS.parameters),  # the package keeps this name, and Gemini knows both
    ]


def test_tools_of_gemini_stand_before_ones_own(ask: Asker) -> None:
    for options, tools, kinds in [
        ({}, [], None),
        ({"tools": [{"google_search": {}}]}, [], [["googleSearch"]]),
        ({"tools": [{"google_search": {}}]}, [PLUS], [["googleSearch"], ["functionDeclarations"]]),
    ]:
        ask.will_get({"text": "Hello"})
        ask(HI, tools, options)
        offered = ask.server.requests[-1].get("tools")
        assert (offered and [list(tool) for tool in offered]) == kinds


def test_text_thinking_and_parallel_calls(ask: Asker) -> None:
    ask.will_get(
        thought("Let me "),
        thought("see."),
        {"text": "I add "},
        {"text": "🎉."},
        call("plus", {"a": 1, "b": 2}, signature="c2ln"),
        call("plus", {"a": None, "b": "é"}, id="b"),
    )
    *pieces, answered = ask(tools=[PLUS])
    assert answered.usage == USAGE
    answer = answered.message
    assert (answer.text, answer.thinking) == ("I add 🎉.", "Let me see.")
    assert answer.tool_execution_requests == (
        ToolExecutionRequest(None, "plus", '{"a":1,"b":2}'),
        ToolExecutionRequest("b", "plus", '{"a":null,"b":"é"}'),
    )
    if ask.streams:
        assert pieces == [Thinking("Let me "), Thinking("see."), "I add ", "🎉."]


@pytest.mark.parametrize("signature", ["c2ln", "-_-_"])
def test_signatures_go_back_as_they_came_also_from_a_store(ask: Asker, signature: str) -> None:
    parts = [thought("Add."), {"text": "So: "}, call("plus", {"a": 1}, signature=signature), call("plus", {"a": 2})]
    ask.will_get(*parts)
    answer = message_from_json(message_to_json(ask(tools=[PLUS])[-1].message))
    ask.will_get({"text": "Done"})
    results = [ToolExecutionResultMessage(None, "plus", said) for said in ("1", "2")]
    ask([*HI, answer, *results], [PLUS])
    assert ask.server.requests[-1]["contents"][1:] == [
        {"role": "model", "parts": parts},
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "plus", "response": {"output": said}}} for said in ("1", "2")],
        },
    ]


def test_a_signature_that_comes_behind_the_text(ask: Asker) -> None:
    """Gemini sends it with an empty text, and wants it back."""
    parts = [{"text": "Hello"}, {"text": "", "thoughtSignature": "c2ln"}]
    ask.will_get(*parts)
    answer = ask()[-1].message
    assert answer.text == "Hello"
    ask.will_get({"text": "Yes"})
    ask([*HI, answer, UserMessage("And?")])
    assert ask.server.requests[-1]["contents"][1]["parts"] == parts


def test_an_assistant_runs_its_tools(gemini_server: GeminiServer) -> None:
    def plus(a: int, b: int) -> int:
        """Adds."""
        return a + b

    gemini_server.stream(chunks(call("plus", {"a": 1, "b": 2}), call("plus", {"a": 3, "b": 4})))
    gemini_server.stream(chunks({"text": "Three "}, {"text": "and seven."}))
    with Client() as client:
        model = GeminiChatModel("gemini-tiny", client=client)
        assistant = Assistant(model, memory=MessageWindowChatMemory(max_messages=20), tools=[plus])
        said = [event for event in assistant.stream("default", "1+2, 3+4?") if isinstance(event, str)]
    assert said == ["Three ", "and seven."]
    responses = gemini_server.requests[1]["contents"][2]["parts"]
    assert [part["functionResponse"]["response"] for part in responses] == [{"output": "3"}, {"output": "7"}]


class TestBytesThatComeAnywhere:
    @pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 64])
    def test_any_size(self, ask_for_stream: Asker, size: int) -> None:
        parts = [thought("Let me see 🎉"), {"text": "Héllo, "}, {"text": "世界"}, call("plus", {"a": "🎉"}, id="a")]
        ask_for_stream.server.stream(chunks(*parts), bytes_each=size)
        answer = ask_for_stream()[-1].message
        assert (answer.text, answer.thinking) == ("Héllo, 世界", "Let me see 🎉")
        assert answer.tool_execution_requests == (ToolExecutionRequest("a", "plus", '{"a":"🎉"}'),)

    @pytest.mark.slow
    @settings(max_examples=budget.examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        said=st.lists(
            st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1),
            min_size=1,
            max_size=3,
        ),
        size=st.integers(1, 50),
    )
    def test_any_text(self, gemini_server: GeminiServer, said: list[str], size: int) -> None:
        gemini_server.stream(chunks(*({"text": one} for one in said)), bytes_each=size)
        *pieces, answered = Asker(gemini_server, "stream")()
        assert pieces == said
        assert answered.message.text == "".join(said)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (USED, USAGE),
        (
            {**USED, "toolUsePromptTokenCount": 40},
            replace(USAGE, input_tokens=340, details={"tool_use_prompt_tokens": 40}),
        ),
        ({"promptTokenCount": 3}, Usage(input_tokens=3)),
        ({"promptTokenCount": 3, "thoughtsTokenCount": 2}, Usage(input_tokens=3, output_tokens=2, reasoning_tokens=2)),
        ({"promptTokenCount": -3, "candidatesTokenCount": 10**12}, None),
        ({"newTokenCount": 3}, None),
        ({}, None),
        (None, None),
    ],
)
def test_usage(ask: Asker, usage: Any, expected: Usage | None) -> None:
    body = response({"text": "Hello"}, usage=usage)
    if ask.streams:
        ask.server.stream([body])
    else:
        ask.server.answer(body)
    assert ask()[-1] == Answered(AiMessage("Hello"), expected)


class TestCutOff:
    @pytest.mark.parametrize(
        ("finish", "why"),
        [
            ("MAX_TOKENS", "the model's limit was reached"),
            ("SAFETY", "a content filter stopped it"),
            ("RECITATION", "a content filter stopped it"),
            ("PROHIBITED_CONTENT", "a content filter stopped it"),
            ("MALFORMED_FUNCTION_CALL", "its call of a tool was malformed"),
            ("OTHER", "it ended with OTHER"),
        ],
    )
    def test_a_text_says_why_and_nothing_or_calls_are_an_error(self, ask: Asker, finish: str, why: str) -> None:
        ask.will_get({"text": "Once upon"}, finish=finish)
        assert ask()[-1].message == AiMessage("Once upon", attributes={"cut_off": why})
        ask.will_get(finish=finish)
        with pytest.raises(ModelError, match=f"gemini-tiny returned an empty answer: {why}"):
            ask()
        ask.will_get(call("plus", {}), finish=finish)
        with pytest.raises(ModelError, match=f"The tool calls of gemini-tiny were cut off: {why}"):
            ask()

    def test_a_request_that_is_blocked(self, ask: Asker) -> None:
        body = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": USED}
        if ask.streams:
            ask.server.stream([body])
        else:
            ask.server.answer(body)
        with pytest.raises(ModelError, match=r"the request was blocked \(PROHIBITED_CONTENT\)"):
            ask()

    def test_an_answer_of_nothing_but_thinking_is_empty(self, ask: Asker) -> None:
        ask.will_get(thought("Hm."))
        with pytest.raises(ModelError, match=r"returned an empty answer\."):
            ask()


class TestTrouble:
    @pytest.mark.parametrize(
        ("status", "error"),
        [(400, errors.ClientError), (403, errors.ClientError), (429, errors.ClientError), (500, errors.ServerError)],
    )
    def test_what_the_package_raises_comes_as_it_is(self, ask: Asker, status: int, error: type[Exception]) -> None:
        ask.server.fail(status, "so it is")
        with pytest.raises(error, match="so it is"):
            ask()

    def test_an_error_in_the_middle_of_a_stream(self, ask_for_stream: Asker) -> None:
        error = {"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}}
        ask_for_stream.server.stream([*chunks({"text": "Hel"}, finish=None), error])
        with pytest.raises(errors.ServerError, match="Overloaded"):
            ask_for_stream()

    @pytest.mark.parametrize("ends", [True, False])
    def test_a_stream_that_breaks_off(self, ask_for_stream: Asker, ends: bool) -> None:
        ask_for_stream.server.stream(chunks({"text": "Hel"}, finish=None), ends=ends)
        with pytest.raises(ModelError, match="gemini-tiny broke off in the middle of its answer"):
            ask_for_stream()

    @pytest.mark.parametrize(
        ("made", "problem"),
        [
            ([], "did not answer as a stream of responses"),
            ([b"<title>It works</title>"], "broken JSON: .*It works"),
            ([b"data: {bro\n\n"], "broken JSON: .*{bro"),
            ([{"candidates": 5}], "cannot be understood"),
            ([response({"text": 5})], r"cannot be understood: candidates\.0\.content\.parts\.0\.text: "),
            ([response({"text": "Hello"}, usage="lots")], "cannot be understood: usage_metadata"),
            ([response({"functionCall": {"args": {}}})], "cannot be kept: .*name"),
        ],
    )
    def test_what_is_no_stream(self, ask_for_stream: Asker, made: list[Any], problem: str) -> None:
        ask_for_stream.server.stream(made)
        with pytest.raises(ModelError, match=problem):
            ask_for_stream()

    def test_characters_that_no_database_stores(self, ask: Asker) -> None:
        parts = [*map(thought, ("a\0", "\ud83c", "\udf75")), *({"text": text} for text in ("tea \ud83c", "\udf75\0"))]
        ask.will_get(*parts, call("plus", {"a\0": ["\ud83c"]}, signature="c2ln"))
        answer = ask()[-1].message
        assert (answer.text, answer.thinking) == ("tea 🍵\ufffd", "a\ufffd🍵")
        [request] = answer.tool_execution_requests
        assert (request.name, request.arguments) == ("plus", '{"a\ufffd":["\ufffd"]}')
        ask.will_get({"text": "Hello"})
        ask([*HI, answer, ToolExecutionResultMessage(request.id, "plus", "3")])

    @pytest.mark.parametrize(
        ("body", "problem"),
        [
            ("<title>It works</title>", "broken JSON: <title>It works"),
            ("{}", "empty answer"),
            ('{"candidates": 5}', "cannot be understood"),
            ('{"candidates": [{"content": "Hello"}]}', r"cannot be understood: candidates\.0\.content"),
        ],
    )
    def test_what_is_no_answer(self, ask_for_all: Asker, body: str, problem: str) -> None:
        ask_for_all.server.say(200, "application/json", body)
        with pytest.raises(ModelError, match=problem):
            ask_for_all()

    def test_what_gemini_has_no_place_for(self, ask: Asker) -> None:
        with pytest.raises(UnsupportedContentError):
            ask([CustomMessage({"a": 1})])
        assert ask.server.requests == []

    def test_options_that_are_wrong_are_no_error_of_the_model(self, ask: Asker) -> None:
        with pytest.raises(ValueError, match="temprature"):
            ask(of_model={"temprature": 0})


class TestConnections:
    def test_who_leaves_a_stream_hangs_up(self, gemini_server: GeminiServer) -> None:
        gemini_server.stream(chunks({"text": "abc"}, finish=None), forever=True)
        with Client() as client:
            pieces: Any = GeminiChatModel("gemini-tiny", client=client).stream(HI, [])
            assert next(pieces) == "abc"
            pieces.close()
            assert gemini_server.left.wait(60)

    def test_also_in_async_code(self, gemini_server: GeminiServer) -> None:
        gemini_server.stream(chunks({"text": "abc"}, finish=None), forever=True)

        async def leave() -> None:
            with Client() as client:
                async with client.aio:
                    pieces: Any = GeminiChatModel("gemini-tiny", client=client).astream(HI, [])
                    assert await anext(pieces) == "abc"
                    await pieces.aclose()
                    assert await asyncio.to_thread(gemini_server.left.wait, 60)

        asyncio.run(leave())

    def test_one_model_serves_event_loops_one_after_the_other(self, gemini_server: GeminiServer) -> None:
        model = GeminiChatModel("gemini-tiny")

        async def twice() -> list[str | None]:
            said = [(await model.achat(HI, [])).message.text for _ in range(2)]
            await model._async_clients.current().aio.aclose()  # else its sockets would warn when they are collected
            return said

        for _ in range(3):
            for _ in range(2):
                gemini_server.answer(response({"text": "Hello"}))
            assert asyncio.run(twice()) == ["Hello", "Hello"]

    def test_the_client_is_made_when_it_is_needed(
        self, gemini_server: GeminiServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model = GeminiChatModel("gemini-tiny")
        assert model.name == "gemini-tiny"
        monkeypatch.setenv("GEMINI_API_KEY", "another")
        gemini_server.answer(response({"text": "Hello"}))
        model.chat(HI, [])
        model._client.close()
        assert gemini_server.requests[0]["key"] == "another"
