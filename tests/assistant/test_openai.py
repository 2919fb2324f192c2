"""The adapter to the ``openai`` package, against a server that speaks its protocol."""

# ruff: noqa: F811 - fixtures that are imported

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import openai
import pytest

from chatmemory import (
    AiMessage,
    CustomMessage,
    MessageWindowChatMemory,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.assistant import Answered, Assistant, ModelError, Thinking, Usage
from chatmemory.assistant.openai import OpenAiChatModel
from chatmemory.formats import UnsupportedContentError
from chatmemory.formats.openai import from_openai
from tests.support.openai_server import ModelServer, calls, completion, model_server, says, thinks  # noqa: F401

Way = Callable[..., Any]


@pytest.fixture
def client(model_server: ModelServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(max_retries=0) as client:
        yield client


@pytest.fixture
def assistant(client: openai.OpenAI) -> Assistant:
    return Assistant(
        OpenAiChatModel("tiny", client=client, temperature=0),
        memory=MessageWindowChatMemory(max_messages=20),
        tools=[plus],
    )


def plus(a: int, b: int) -> int:
    """Adds."""
    return a + b


def stream(assistant: Assistant, text: str | None = None) -> list[str]:
    return [event for event in assistant.stream("default", text) if isinstance(event, str)]


def astream(assistant: Assistant, text: str | None = None) -> list[str]:
    return asyncio.run(_astream(assistant, text))


async def _astream(assistant: Assistant, text: str | None) -> list[str]:
    async with openai.AsyncOpenAI(max_retries=0) as client:
        asynchronous = Assistant(
            OpenAiChatModel("tiny", async_client=client, temperature=0),
            memory=assistant.memory("default"),
            tools=[plus],
        )
        return [event async for event in asynchronous.astream("default", text) if isinstance(event, str)]


def chat(assistant: Assistant, text: str | None = None) -> list[str]:
    return [assistant.chat("default", text).text or ""]


def achat(assistant: Assistant, text: str | None = None) -> list[str]:
    return asyncio.run(_achat(assistant, text))


async def _achat(assistant: Assistant, text: str | None) -> list[str]:
    async with openai.AsyncOpenAI(max_retries=0) as client:
        asynchronous = Assistant(
            OpenAiChatModel("tiny", async_client=client), memory=assistant.memory("default"), tools=[plus]
        )
        return [(await asynchronous.achat("default", text)).text or ""]


streaming = pytest.mark.parametrize("way", [stream, astream])
whole = pytest.mark.parametrize("way", [chat, achat])


def last(assistant: Assistant) -> Any:
    return assistant.memory("default").messages()[-1]


@streaming
class TestStreaming:
    def test_it_streams_and_calls_tools(self, assistant: Assistant, model_server: ModelServer, way: Way) -> None:
        model_server.stream(calls(("a", "plus", '{"a": 1, "b": 2}'), ("b", "plus", '{"a": 3, "b": 4}')))
        model_server.stream(says("Three ", "and ", "seven."))
        assert way(assistant, "1+2, 3+4?") == ["Three ", "and ", "seven."]
        assert assistant.memory("default").messages() == [
            UserMessage("1+2, 3+4?"),
            AiMessage(
                tool_execution_requests=[
                    ToolExecutionRequest("a", "plus", '{"a": 1, "b": 2}'),
                    ToolExecutionRequest("b", "plus", '{"a": 3, "b": 4}'),
                ]
            ),
            ToolExecutionResultMessage("a", "plus", "3"),
            ToolExecutionResultMessage("b", "plus", "7"),
            AiMessage("Three and seven."),
        ]
        first = model_server.requests[0]
        assert (first["model"], first["stream"], first["temperature"]) == ("tiny", True, 0)
        assert first["tools"][0]["function"]["name"] == "plus"
        assert [message["role"] for message in model_server.requests[1]["messages"]] == [
            "user",
            "assistant",
            "tool",
            "tool",
        ]

    @pytest.mark.parametrize(
        ("answer", "problem"),
        [
            (lambda server: server.break_off(says("Hel", finish=None)), "broke off"),
            (lambda server: server.stream(says("Hel", finish=None)), "broke off"),
            (lambda server: server.say(200, "text/html", "<title>It works</title>"), "Check OPENAI_BASE_URL"),
            (lambda server: server.stream(says()), "empty answer"),
            (
                lambda server: server.stream([*calls(("a", "plus", '{"a"'))[:-1], *says(finish="length")]),
                "were cut off: the model's limit was reached",
            ),
        ],
    )
    def test_what_is_no_whole_answer_is_not_stored(
        self,
        assistant: Assistant,
        model_server: ModelServer,
        way: Way,
        answer: Callable[[ModelServer], None],
        problem: str,
    ) -> None:
        answer(model_server)
        with pytest.raises(ModelError, match=problem):
            way(assistant, "Hi")
        assert assistant.memory("default").messages() == [UserMessage("Hi")]
        model_server.stream(says("Hello"))
        assert way(assistant) == ["Hello"]

    @pytest.mark.parametrize(
        ("pieces", "problem"),
        [
            ([{"choices": [{"index": 0, "delta": {"content": 5}}]}], "cannot be understood.*5"),
            ([{"choices": [{"index": 0, "delta": {"tool_calls": 5}}]}], "cannot be understood.*5"),
            (
                [
                    {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"name": 5}}]}}]},
                    *says(finish="tool_calls"),
                ],
                "cannot be understood.*5",
            ),
            ([{"choices": [{"index": 0, "delta": "Hello"}]}], "cannot be understood.*Hello"),
            ([{"choices": 5}], "cannot be understood.*5"),
            (['{"choices": [{"del'], 'broken JSON: {"choices": \\[{"del'),
            (["<title>It works</title>"], "broken JSON: <title>It works"),
        ],
    )
    def test_what_cannot_be_understood(
        self, assistant: Assistant, model_server: ModelServer, way: Way, pieces: list[Any], problem: str
    ) -> None:
        model_server.stream(pieces)
        with pytest.raises(ModelError, match=problem):
            way(assistant, "Hi")
        assert assistant.memory("default").messages() == [UserMessage("Hi")]

    def test_an_end_without_a_delta(self, assistant: Assistant, model_server: ModelServer, way: Way) -> None:
        end = {"index": 0, "delta": None, "finish_reason": "stop"}
        model_server.stream([*says("Hello", finish=None), {"choices": [end]}, {"choices": None}])
        assert way(assistant, "Hi") == ["Hello"]

    @pytest.mark.parametrize(
        "pieces",
        [
            [[("plus", '{"a": 1, "b": 2}')], [("plus", '{"a": 3, "b": 4}')]],
            [[("plus", '{"a": 1, "b": 2}'), ("plus", '{"a": 3, "b": 4}')]],
            [[("plus", '{"a": 1, ')], [(None, '"b": 2}')], [("plus", '{"a": 3, ')], [(None, '"b": 4}')]],
            [[("plus", "")], [("plus", '{"a": 1, "b"')], [("plus", ": 2}")], [("plus", '{"a": 3, "b": 4}')]],
        ],
        ids=["whole", "in one chunk", "in pieces", "with the name again"],
    )
    def test_calls_at_one_index_without_ids_are_told_by_their_arguments(
        self, assistant: Assistant, model_server: ModelServer, way: Way, pieces: list[list[tuple[str | None, str]]]
    ) -> None:
        def call(name: str | None, arguments: str) -> dict[str, Any]:
            return {"index": 0, "function": {"name": name, "arguments": arguments}}

        chunks = [{"choices": [{"index": 0, "delta": {"tool_calls": [call(*one) for one in few]}}]} for few in pieces]
        model_server.stream([*chunks, *says(finish="tool_calls")])
        model_server.stream(says("Three and seven."))
        assert way(assistant, "1+2, 3+4?") == ["Three and seven."]
        assert [message.text for message in assistant.memory("default").messages()[2:4]] == ["3", "7"]

    def test_two_calls_of_a_tool_without_parameters(
        self, assistant: Assistant, model_server: ModelServer, way: Way
    ) -> None:
        call = {"index": 0, "function": {"name": "now", "arguments": ""}}
        chunk = {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}
        model_server.stream([chunk, chunk, *says(finish="tool_calls")])
        model_server.stream(says("Now."))
        way(assistant, "And now?")
        assert len(assistant.memory("default").messages()[1].tool_execution_requests) == 2  # type: ignore[attr-defined]

    def test_a_name_that_comes_in_pieces(self, assistant: Assistant, model_server: ModelServer, way: Way) -> None:
        """The package of OpenAI's joins the pieces, too."""
        pieces = [
            {"index": 0, "id": "a", "function": {"name": "pl", "arguments": ""}},
            {"index": 0, "function": {"name": "us", "arguments": '{"a": 1, "b": 2}'}},
        ]
        chunks = [{"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]} for piece in pieces]
        model_server.stream([*chunks, *says(finish="tool_calls")])
        model_server.stream(says("Three."))
        way(assistant, "1+2?")
        assert assistant.memory("default").messages()[2] == ToolExecutionResultMessage("a", "plus", "3")

    def test_calls_that_share_an_index_are_told_by_their_ids(
        self, assistant: Assistant, model_server: ModelServer, way: Way
    ) -> None:
        chunks = calls(("a", "plus", '{"a": 1, "b": 2}'), ("b", "plus", '{"a": 3, "b": 4}'))
        for chunk in chunks:
            for piece in chunk["choices"][0]["delta"].get("tool_calls", ()):
                piece["index"] = 0
        model_server.stream(chunks)
        model_server.stream(says("Three and seven."))
        way(assistant, "1+2, 3+4?")
        results = assistant.memory("default").messages()[2:4]
        assert results == [
            ToolExecutionResultMessage("a", "plus", "3"),
            ToolExecutionResultMessage("b", "plus", "7"),
        ]

    def test_a_call_without_arguments_is_sent_back_as_json(
        self, assistant: Assistant, model_server: ModelServer, way: Way
    ) -> None:
        model_server.stream(calls(("a", "plus", "")))
        model_server.stream(says("Oh."))
        assert way(assistant, "1+2?") == ["Oh."]
        assert model_server.requests[1]["messages"][1]["tool_calls"][0]["function"]["arguments"] == "{}"

    def test_a_text_that_was_cut_off_says_why(self, assistant: Assistant, model_server: ModelServer, way: Way) -> None:
        model_server.stream(says("Once upon", finish="length"))
        way(assistant, "Tell me a story")
        assert last(assistant) == AiMessage("Once upon", attributes={"cut_off": "the model's limit was reached"})

    def test_what_the_package_raises_comes_as_it_is(
        self, assistant: Assistant, model_server: ModelServer, way: Way
    ) -> None:
        model_server.fail(429, "slow down")
        with pytest.raises(openai.RateLimitError, match="slow down"):
            way(assistant, "Hi")

    def test_what_openai_has_no_place_for(self, assistant: Assistant, model_server: ModelServer, way: Way) -> None:
        assistant.memory("default").add(CustomMessage({"a": 1}))
        with pytest.raises(UnsupportedContentError):
            way(assistant, "Hi")


@whole
class TestWhole:
    def test_it_answers_and_calls_tools(self, assistant: Assistant, model_server: ModelServer, way: Way) -> None:
        call = {"id": None, "type": "function", "function": {"name": "plus", "arguments": '{"a": 1, "b": 2}'}}
        model_server.say(200, "application/json", completion("tool_calls", content=None, tool_calls=[call]))
        model_server.say(200, "application/json", completion(content="3"))
        assert way(assistant, "1+2?") == ["3"]
        assert [message["role"] for message in model_server.requests[1]["messages"]] == ["user", "assistant", "tool"]
        assert model_server.requests[1]["messages"][2]["content"] == "3"

    def test_a_refusal_is_the_text(self, assistant: Assistant, model_server: ModelServer, way: Way) -> None:
        model_server.say(200, "application/json", completion(content=None, refusal="I cannot."))
        assert way(assistant, "Hi") == ["I cannot."]
        assert last(assistant).attributes == {"openai": {"refusal": "I cannot."}}

    def test_what_other_servers_add_is_no_problem(
        self, assistant: Assistant, model_server: ModelServer, way: Way
    ) -> None:
        function = {"name": "plus", "arguments": '{"a": 1, "b": 2}', "parsed": {}}
        call = {"id": "a", "type": "function", "function": function}
        answer = completion("tool_calls", content=None, tool_calls=[call], reasoning="Add.")
        model_server.say(200, "application/json", answer)
        model_server.say(200, "application/json", completion(content="3"))
        assert way(assistant, "1+2?") == ["3"]
        assert last(assistant) == AiMessage("3")
        called = assistant.memory("default").messages()[1]
        request = ToolExecutionRequest("a", "plus", '{"a": 1, "b": 2}')
        assert called == AiMessage(tool_execution_requests=[request], thinking="Add.")

    @pytest.mark.parametrize(
        ("body", "problem"),
        [
            (completion(content=""), "empty answer"),
            (completion("content_filter", content=None), "empty answer: a content filter"),
            ('{"choices": []}', "did not answer with a chat completion. Check OPENAI_BASE_URL"),
            ('{"choices": {"0": 1}}', "did not answer with a chat completion"),
            ('{"error": {"message": "no credit left"}}', "a chat completion.*no credit left"),
            ("[1, 2]", r"a chat completion.*\[1, 2\]"),
            ("<title>It works</title>", "broken JSON: <title>It works"),
            ('{"choices": [{"mess', 'broken JSON: {"choices": \\[{"mess'),
            ('{"choices": [null]}', "cannot be understood"),
            ('{"choices": [{"finish_reason": "stop", "message": null}]}', "cannot be understood.*stop"),
            ('{"choices": [{"finish_reason": "stop", "message": "Hello"}]}', "cannot be understood.*Hello"),
            (completion(content=5), "cannot be kept: .*content: expected a string or a list of parts, got a number"),
            (completion(content=None, tool_calls="plus"), "cannot be understood.*plus"),
            (completion(content=None, tool_calls=[{"id": "a"}]), "cannot be kept: .*function"),
            (completion(content=None, tool_calls=[{"id": "a", "function": {"name": None}}]), "cannot be kept: .*name"),
            (completion(content=None, tool_calls=[{"type": "custom", "custom": {}}]), "a custom tool cannot be kept"),
            (completion(content="x", reasoning={"a": 1}), "cannot be kept: .*reasoning: expected a string"),
        ],
    )
    def test_what_is_no_answer(
        self, assistant: Assistant, model_server: ModelServer, way: Way, body: str, problem: str
    ) -> None:
        model_server.say(200, "application/json", body)
        with pytest.raises(ModelError, match=problem):
            way(assistant, "Hi")
        assert last(assistant) == UserMessage("Hi")


@pytest.mark.parametrize("way", [stream, astream, chat, achat])
def test_characters_that_no_database_stores(assistant: Assistant, model_server: ModelServer, way: Way) -> None:
    request = ("a\0", "p\0", '{"a": "\ud83c\udf75\0"}')
    tea, note = ["tea \ud83c", "\udf75\0", "\ud83c"], {"note": "\0"}
    if way in (stream, astream):
        model_server.stream(calls(request))
        extra = {"index": 0, "delta": {"extra": note}}
        model_server.stream([*thinks(["reasoning"], *tea), {"choices": [extra]}, *says(*tea)])
    else:
        call = {"id": request[0], "type": "function", "function": {"name": request[1], "arguments": request[2]}}
        model_server.say(200, "application/json", completion("tool_calls", content=None, tool_calls=[call]))
        said = completion(content="".join(tea), reasoning="".join(tea), extra=note)
        model_server.say(200, "application/json", said)
    assert "".join(way(assistant, "Hi")) == "tea 🍵\ufffd\ufffd"
    _, called, result, answer = assistant.memory("default").messages()
    assert called == AiMessage(None, [ToolExecutionRequest("a\ufffd", "p\ufffd", '{"a": "🍵\ufffd"}')])
    assert isinstance(result, ToolExecutionResultMessage)
    assert (result.id, result.tool_name, result.is_error) == ("a\ufffd", "p\ufffd", True)
    assert isinstance(answer, AiMessage)
    assert (answer.text, answer.thinking) == ("tea 🍵\ufffd\ufffd", "tea 🍵\ufffd\ufffd")
    assert answer.attributes == {"openai": {"extra": {"extra": {"note": "\ufffd"}}}}


SIGNED = {"extra_content": {"google": {"thought_signature": "c2ln"}}}


@pytest.mark.parametrize("way", [stream, astream, chat, achat])
def test_what_a_server_puts_on_calls_and_answers_is_sent_back_to_it(
    assistant: Assistant, model_server: ModelServer, way: Way
) -> None:
    """Gemini refuses a call without its signature."""
    streams = way in (stream, astream)
    function = {"name": "plus", "arguments": '{"a": 1, "b": 2}'}
    call: dict[str, Any] = {"index": 0, "id": "a", "type": "function", "function": function, **SIGNED}
    other: dict[str, Any] = {"index": 1, "id": "b", "type": "function", "function": function}
    details = [{"type": "reasoning.text", "text": "Add "}, {"type": "reasoning.text", "text": "them."}]
    if streams:
        deltas: list[dict[str, Any]] = [
            {"reasoning_details": details[:1]},
            {"reasoning_details": details[1:], "tool_calls": [call]},
            {"tool_calls": [other]},
        ]
        chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
        model_server.stream([*chunks, *says(finish="tool_calls")])
        model_server.stream(says("3"))
    else:
        answer = completion("tool_calls", content=None, tool_calls=[call, other], reasoning_details=details)
        model_server.say(200, "application/json", answer)
        model_server.say(200, "application/json", completion(content="3"))
    assert way(assistant, "1+2?") == ["3"]
    asked = model_server.requests[1]["messages"]
    assert [message["role"] for message in asked] == ["user", "assistant", "tool", "tool"]
    assert asked[1]["reasoning_details"] == details
    assert [one.get("extra_content") for one in asked[1]["tool_calls"]] == [SIGNED["extra_content"], None]
    assert asked[1]["tool_calls"][0] == {"id": "a", "type": "function", "function": function, **SIGNED}


@pytest.mark.parametrize(
    ("host", "options", "is_sent"),
    [
        ("api.openai.com", {}, False),
        ("eu.api.openai.com", {}, False),
        ("mine.openai.azure.com", {}, False),
        ("openai.com.example", {}, True),
        ("api.openai.com", {"extras": True}, True),
        ("generativelanguage.googleapis.com", {}, True),
        ("generativelanguage.googleapis.com", {"extras": False}, False),
    ],
)
def test_openai_gets_nothing_that_another_server_put_there(host: str, options: dict[str, Any], is_sent: bool) -> None:
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content))
        return httpx.Response(200, headers={"Content-Type": "application/json"}, text=completion(content="3"))

    called = {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": PLUS, **SIGNED}]}
    messages = from_openai([called, {"role": "tool", "tool_call_id": "a", "content": "3"}])
    with openai.OpenAI(
        base_url=f"https://{host}/v1", api_key="x", http_client=httpx.Client(transport=httpx.MockTransport(answer))
    ) as client:
        assert OpenAiChatModel("tiny", client=client, **options).chat(messages, []) == Answered(AiMessage("3"))
    assert ("extra_content" in asked[0]["messages"][0]["tool_calls"][0]) is is_sent


PLUS = {"name": "plus", "arguments": "{}"}


@pytest.mark.parametrize("names", [["reasoning_content"], ["reasoning"], ["reasoning", "reasoning_content"]])
@pytest.mark.parametrize("finish", ["stop", "length"])
@pytest.mark.parametrize("way", [stream, astream, chat, achat])
def test_thinking_is_kept_however_it_comes(
    assistant: Assistant, model_server: ModelServer, way: Way, finish: str, names: list[str]
) -> None:
    if way in (stream, astream):
        model_server.stream([*thinks(names, "Let me ", "see."), *says("Hello", finish=finish)])
    else:
        answer = completion(finish, content="Hello", **dict.fromkeys(names, "Let me see."))
        model_server.say(200, "application/json", answer)
    assert way(assistant, "Hi") == ["Hello"]
    assert last(assistant).thinking == "Let me see."


def test_thinking_is_sent_back_where_a_model_wants_it(client: openai.OpenAI, model_server: ModelServer) -> None:
    model = OpenAiChatModel("deepseek", client=client, thinking_as="reasoning_content")
    assistant = Assistant(model, memory=MessageWindowChatMemory(max_messages=20))
    model_server.stream([*thinks(["reasoning_content"], "Let me see."), *says("Hello")])
    stream(assistant, "Hi")
    model_server.stream(says("Bye"))
    stream(assistant, "Go")
    assert [message.get("reasoning_content") for message in model_server.requests[1]["messages"]] == [
        None,
        "Let me see.",
        None,
    ]


def test_who_leaves_an_async_stream_closes_the_connection(assistant: Assistant, model_server: ModelServer) -> None:
    model_server.stream(says("Once ", "upon ", "a time"))

    async def leave() -> None:
        async with openai.AsyncOpenAI(max_retries=0) as client:
            asynchronous = Assistant(OpenAiChatModel("tiny", async_client=client), memory=assistant.memory("default"))
            events = asynchronous.astream("default", "Hi")
            await anext(events)
            assert await anext(events) == "Once "
            await events.aclose()

    asyncio.run(leave())
    assert last(assistant) == UserMessage("Hi")


def test_the_clients_are_made_when_they_are_needed(model_server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    model = OpenAiChatModel("tiny")
    with pytest.raises(openai.OpenAIError, match="OPENAI_API_KEY"):
        model.chat([UserMessage("Hi")], [])


def test_one_model_serves_event_loops_one_after_the_other(model_server: ModelServer) -> None:
    model = OpenAiChatModel("tiny")
    assistant = Assistant(model, memory=MessageWindowChatMemory(max_messages=20))

    async def twice() -> list[str | None]:
        said = [(await assistant.achat("default", "Hi")).text for _ in range(2)]
        await model._async_clients.current().close()  # else its sockets would warn in whichever test they are collected
        return said

    for _ in range(3):
        for _ in range(2):
            model_server.say(200, "application/json", completion(content="Hello"))
        assert asyncio.run(twice()) == ["Hello", "Hello"]


DETAILS = {"prompt_tokens_details": {"cached_tokens": 256}, "completion_tokens_details": {"reasoning_tokens": 5}}
FIGURES = {"prompt_tokens": 300, "completion_tokens": 12, "total_tokens": 312, **DETAILS}


def asked(model: OpenAiChatModel, way: str) -> list[Any]:
    """Everything that a model gives out, the answer last."""
    messages = [UserMessage("Hi")]

    async def wait() -> list[Any]:
        try:
            if way == "achat":
                return [await model.achat(messages, [])]
            return [piece async for piece in model.astream(messages, [])]
        finally:
            await model._async_clients.current().close()

    if way in ("achat", "astream"):
        return asyncio.run(wait())
    return [model.chat(messages, [])] if way == "chat" else list(model.stream(messages, []))


def used(usage: Any) -> dict[str, Any]:
    """The chunk that ends a stream whose usage was asked for."""
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "tiny", "choices": [], "usage": usage}


@pytest.mark.parametrize("way", ["chat", "achat", "stream", "astream"])
class TestUsage:
    @pytest.mark.parametrize(
        ("usage", "expected"),
        [
            (
                FIGURES,
                Usage(input_tokens=300, output_tokens=12, cache_read_tokens=256, reasoning_tokens=5),
            ),
            ({"prompt_tokens": 3, "completion_tokens": 0}, Usage(input_tokens=3, output_tokens=0)),
            (
                {"prompt_tokens": "3", "completion_tokens": 4, "prompt_tokens_details": [1]},
                Usage(output_tokens=4),
            ),
            ({"prompt_tokens": -1, "completion_tokens": 2.5, "completion_tokens_details": "many"}, None),
            ({"prompt_tokens": True, "completion_tokens": 10**30}, None),
            ({"tokens": 3}, None),
            ("lots", None),
            ([1, 2], None),
            (None, None),
        ],
    )
    def test_what_a_call_used_comes_with_the_answer(
        self, client: openai.OpenAI, model_server: ModelServer, way: str, usage: Any, expected: Usage | None
    ) -> None:
        if way in ("chat", "achat"):
            body = json.loads(completion(content="Hello")) | {"usage": usage}
            model_server.say(200, "application/json", json.dumps(body))
        else:
            model_server.stream([*says("Hello"), used(usage)])
        assert asked(OpenAiChatModel("tiny", client=client), way)[-1] == Answered(AiMessage("Hello"), expected)

    def test_a_stream_asks_for_it(self, client: openai.OpenAI, model_server: ModelServer, way: str) -> None:
        if way in ("chat", "achat"):
            model_server.say(200, "application/json", completion(content="Hello"))
        else:
            model_server.stream(says("Hello"))
        asked(OpenAiChatModel("tiny", client=client), way)
        wanted = None if way in ("chat", "achat") else {"include_usage": True}
        assert model_server.requests[0].get("stream_options") == wanted


@pytest.mark.parametrize("way", ["stream", "astream"])
class TestServersThatRefuseToTellTheUsage:
    @pytest.mark.parametrize("status", [400, 422])
    def test_they_are_asked_without_from_then_on(
        self, client: openai.OpenAI, model_server: ModelServer, way: str, status: int
    ) -> None:
        model = OpenAiChatModel("tiny", client=client)
        model_server.fail(status, "body.stream_options: Extra inputs are not permitted")
        for _ in range(2):
            model_server.stream(says("Hello"))
            assert asked(model, way) == ["Hello", "", Answered(AiMessage("Hello"))]
        assert ["stream_options" in request for request in model_server.requests] == [True, False, False]

    def test_other_errors_are_not_tried_again(self, client: openai.OpenAI, model_server: ModelServer, way: str) -> None:
        model_server.fail(400, "no such field: temperature")
        with pytest.raises(openai.BadRequestError, match="temperature"):
            asked(OpenAiChatModel("tiny", client=client), way)
        assert len(model_server.requests) == 1

    def test_who_sets_the_option_has_it_so(self, client: openai.OpenAI, model_server: ModelServer, way: str) -> None:
        options = {"include_usage": False}
        model_server.fail(400, "stream_options is not known")
        with pytest.raises(openai.BadRequestError):
            asked(OpenAiChatModel("tiny", client=client, stream_options=options), way)
        assert [request["stream_options"] for request in model_server.requests] == [options]


@pytest.mark.parametrize("names", [["reasoning_content"], ["reasoning"], ["reasoning", "reasoning_content"]])
@pytest.mark.parametrize("way", ["stream", "astream"])
def test_thinking_comes_in_pieces_and_once(
    client: openai.OpenAI, model_server: ModelServer, way: str, names: list[str]
) -> None:
    model_server.stream([*thinks(names, "Let me ", "see."), *says("Hel", "lo")])
    pieces = [piece for piece in asked(OpenAiChatModel("tiny", client=client), way) if piece != ""]
    answer = Answered(AiMessage("Hello", thinking="Let me see."))
    assert pieces == [Thinking("Let me "), Thinking("see."), "Hel", "lo", answer]


def test_thinking_and_text_in_one_chunk(client: openai.OpenAI, model_server: ModelServer) -> None:
    delta = {"content": "Hello", "reasoning_content": "Greet."}
    model_server.stream([{"choices": [{"index": 0, "delta": delta}]}, *says()])
    pieces = asked(OpenAiChatModel("tiny", client=client), "stream")
    assert pieces[:2] == [Thinking("Greet."), "Hello"]


def test_its_name_is_the_models(client: openai.OpenAI) -> None:
    assert OpenAiChatModel("tiny", client=client).name == "tiny"
