"""The adapter to the ``anthropic`` package, against a server that speaks its protocol."""

# ruff: noqa: F811 - fixtures that are imported

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import anthropic
import pytest
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
from chatmemory.assistant.anthropic import AnthropicChatModel
from chatmemory.assistant.model import as_answered
from chatmemory.formats import UnsupportedContentError
from tests.support import budget
from tests.support.anthropic_server import (  # noqa: F401
    USED,
    AnthropicServer,
    anthropic_server,
    call,
    events,
    message,
    text,
    thinking,
)
from tests.support.factories import ConversationFactory

HI: list[ChatMessage] = [UserMessage("Hi")]
USAGE = Usage(input_tokens=330, output_tokens=7, cache_read_tokens=300, cache_write_tokens=20)
PLUS = ToolSpecification(
    "plus", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
)
STREAMING = ["stream", "astream"]
WAYS = ["chat", "achat", *STREAMING]


class Asker:
    """Asks a model in one of the ways, each time with clients of its own."""

    def __init__(self, server: AnthropicServer, way: str) -> None:
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
            with anthropic.Anthropic(max_retries=0, timeout=60) as client:
                model = AnthropicChatModel("claude-tiny", client=client, **options)
                pieces = list(model.stream(messages, tools)) if self.streams else [model.chat(messages, tools)]
        return [piece for piece in pieces if piece != ""]

    async def _wait(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification], options: dict[str, Any]
    ) -> list[Any]:
        async with anthropic.AsyncAnthropic(max_retries=0, timeout=60) as client:
            model = AnthropicChatModel("claude-tiny", async_client=client, **options)
            if self.streams:
                return [piece async for piece in model.astream(messages, tools)]
            return [await model.achat(messages, tools)]

    def will_get(self, *blocks: dict[str, Any], stop: str = "end_turn") -> None:
        if self.streams:
            self.server.stream(events(*blocks, stop=stop))
        else:
            self.server.say(200, "application/json", message(*blocks, stop=stop))


@pytest.fixture(params=WAYS)
def ask(request: pytest.FixtureRequest, anthropic_server: AnthropicServer) -> Asker:
    return Asker(anthropic_server, request.param)


@pytest.fixture(params=STREAMING)
def ask_for_stream(request: pytest.FixtureRequest, anthropic_server: AnthropicServer) -> Asker:
    return Asker(anthropic_server, request.param)


@pytest.fixture(params=["chat", "achat"])
def ask_for_all(request: pytest.FixtureRequest, anthropic_server: AnthropicServer) -> Asker:
    return Asker(anthropic_server, request.param)


def test_the_request(ask: Asker) -> None:
    ask.will_get(text("Hello"))
    options = {"stop_sequences": ["END"], "cache_control": {"type": "ephemeral"}}
    ask([SystemMessage("Be brief."), *HI], [PLUS], {"max_tokens": 100, **options})
    [request] = ask.server.requests
    assert (request.pop("path"), request.pop("key")) == ("/v1/messages", "Bearer secret")
    assert request == {
        "model": "claude-tiny",
        "max_tokens": 100,
        **options,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"name": "plus", "description": "Adds.", "input_schema": PLUS.parameters}],
        **({"stream": True} if ask.streams else {}),
    }


def test_tools_of_anthropic_stand_before_ones_own(ask: Asker) -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    for options, tools, names in [
        ({}, [], None),
        ({"of_model": {"tools": [search]}}, [], ["web_search"]),
        ({"of_model": {"tools": [search]}}, [PLUS], ["web_search", "plus"]),
    ]:
        ask.will_get(text("Hello"))
        ask(tools=tools, **options)
        offered = ask.server.requests[-1].get("tools")
        assert (offered and [tool["name"] for tool in offered]) == names


def test_text_thinking_and_parallel_calls(ask: Asker) -> None:
    calls = [call("a", "plus", {"a": 1, "b": 2}), call("b", "plus", {}), call("c", "plus", {"a": None, "b": "é"})]
    ask.will_get(thinking("Let me see."), text("I add 🎉."), *calls, stop="tool_use")
    *pieces, answered = ask(tools=[PLUS])
    assert answered.usage == USAGE
    answer = answered.message
    assert (answer.text, answer.thinking) == ("I add 🎉.", "Let me see.")
    assert answer.tool_execution_requests == (
        ToolExecutionRequest("a", "plus", '{"a":1,"b":2}'),
        ToolExecutionRequest("b", "plus", "{}"),
        ToolExecutionRequest("c", "plus", '{"a":null,"b":"é"}'),
    )
    if ask.streams:
        kinds = [type(piece) for piece in pieces]
        assert kinds == [Thinking] * 4 + [str] * 3
        assert "".join(piece.text for piece in pieces if isinstance(piece, Thinking)) == "Let me see."
        assert "".join(piece for piece in pieces if isinstance(piece, str)) == "I add 🎉."


def test_results_go_back_with_the_thinking_that_led_to_the_calls(anthropic_server: AnthropicServer) -> None:
    def plus(a: int, b: int) -> int:
        """Adds."""
        return a + b

    server = anthropic_server
    calls = [call("a", "plus", {"a": 1, "b": 2}), call("b", "plus", {"a": 3, "b": 4})]
    server.stream(events(thinking("Add both."), *calls, stop="tool_use"))
    server.stream(events(text("Three and seven.")))
    with anthropic.Anthropic(max_retries=0) as client:
        model = AnthropicChatModel("claude-tiny", client=client)
        assistant = Assistant(model, memory=MessageWindowChatMemory(max_messages=20), tools=[plus])
        said = [event for event in assistant.stream("default", "1+2, 3+4?") if isinstance(event, str)]
    assert "".join(said) == "Three and seven."
    assert server.requests[1]["messages"] == [
        {"role": "user", "content": "1+2, 3+4?"},
        {"role": "assistant", "content": [thinking("Add both."), *calls]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "3"},
                {"type": "tool_result", "tool_use_id": "b", "content": "7"},
            ],
        },
    ]


class TestBytesThatComeAnywhere:
    @pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 64])
    def test_any_size(self, ask_for_stream: Asker, size: int) -> None:
        blocks = [thinking("Let me see 🎉"), text("Héllo, 世界"), call("a", "plus", {"a": "🎉"})]
        ask_for_stream.server.stream(events(*blocks), bytes_each=size)
        answer = ask_for_stream()[-1].message
        assert (answer.text, answer.thinking) == ("Héllo, 世界", "Let me see 🎉")
        assert answer.tool_execution_requests == (ToolExecutionRequest("a", "plus", '{"a":"🎉"}'),)

    @pytest.mark.slow
    @settings(max_examples=budget.examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        said=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1),
        size=st.integers(1, 50),
    )
    def test_any_text(self, anthropic_server: AnthropicServer, said: str, size: int) -> None:
        anthropic_server.stream(events(text(said)), bytes_each=size)
        *pieces, answered = Asker(anthropic_server, "stream")()
        assert "".join(pieces) == answered.message.text == said


class TestUsage:
    @pytest.mark.parametrize(
        ("usage", "expected"),
        [
            ({**USED, "output_tokens_details": {"thinking_tokens": 4}}, (330, 7, 300, 20, 4)),
            ({"input_tokens": 5, "output_tokens": 6}, (5, 6, None, None, None)),
            ({"input_tokens": "5", "output_tokens": 6, "cache_read_input_tokens": -1}, (None, 6, None, None, None)),
            ({"input_tokens": 5.5, "output_tokens": True, "output_tokens_details": "x"}, None),
            ("lots", None),
            ([], None),
            (None, None),
        ],
    )
    def test_of_whole_answers(self, ask_for_all: Asker, usage: Any, expected: tuple[int | None, ...] | None) -> None:
        ask_for_all.server.say(200, "application/json", message(text("Hello"), usage=usage))
        assert _figures(ask_for_all()[-1].usage) == expected

    @pytest.mark.parametrize(
        ("usage", "expected"),
        [
            (None, (330, 7, 300, 20, None)),
            ({**USED, "output_tokens": 8, "input_tokens": 11}, (331, 8, 300, 20, None)),
            ({"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}}, (330, 9, 300, 20, 4)),
            ({"output_tokens": "many"}, (330, None, 300, 20, None)),
            ("lots", (330, 1, 300, 20, None)),
        ],
    )
    def test_of_streams(self, ask_for_stream: Asker, usage: Any, expected: tuple[int | None, ...]) -> None:
        ask_for_stream.server.stream(events(text("Hello"), usage=usage))
        assert _figures(ask_for_stream()[-1].usage) == expected

    def test_a_stream_without_any(self, ask_for_stream: Asker) -> None:
        made = events(text("Hello"))
        del made[0]["message"]["usage"], made[-2]["usage"]
        ask_for_stream.server.stream(made)
        assert ask_for_stream()[-1] == Answered(AiMessage("Hello"))


def _figures(usage: Usage | None) -> tuple[int | None, ...] | None:
    return None if usage is None else tuple(usage.to_data().values())


class TestSignedThinking:
    """Anthropic refuses thinking if anything before it has changed since."""

    SIGNED = [thinking("Greet."), text("Hello")]

    def test_it_is_sent_back_while_nothing_before_it_has_changed(self, ask: Asker) -> None:
        answer = self._answer(ask, [SystemMessage("Be brief."), *HI])
        assert self._sent(ask, [SystemMessage("Be brief."), *HI, answer, UserMessage("And?")]) == self.SIGNED

    def test_also_after_later_answers(self, ask: Asker) -> None:
        first = self._answer(ask, HI)
        second = self._answer(ask, [*HI, first, UserMessage("And?")])
        memory = [*HI, first, UserMessage("And?"), second, UserMessage("Well?")]
        assert self._sent(ask, memory, 1) == self._sent(ask, memory, 3) == self.SIGNED

    def test_and_from_a_store(self, ask: Asker) -> None:
        stored = [message_from_json(message_to_json(one)) for one in [*HI, self._answer(ask, HI)]]
        assert self._sent(ask, [*stored, UserMessage("And?")]) == self.SIGNED

    def test_whatever_the_order_of_keys_in_a_store(self, ask: Asker) -> None:
        first = self._answer(ask, HI)
        second = self._answer(ask, [*HI, first, UserMessage("And?")])
        kept = dict(reversed(first.attributes.items()))
        assert len(kept) > 1
        stored = AiMessage(first.text, thinking=first.thinking, attributes=kept)
        assert self._sent(ask, [*HI, stored, UserMessage("And?"), second, UserMessage("Well?")], 3) == self.SIGNED

    @pytest.mark.parametrize(
        "before",
        [
            [],
            [UserMessage("Hello")],
            [SystemMessage("Be brief."), *HI],
            [*HI, AiMessage("Yes?"), UserMessage("Hi")],
        ],
        ids=["evicted", "changed", "instructions", "more"],
    )
    def test_it_is_left_out_if_something_has(self, ask: Asker, before: list[ChatMessage]) -> None:
        answer = self._answer(ask, HI)
        ask.will_get(text("Yes"))
        ask([*before, answer, UserMessage("And?")])
        assert "Greet." not in str(ask.server.requests[-1]["messages"])

    def test_new_instructions_behind_it_change_what_is_before(self, ask: Asker) -> None:
        answer = self._answer(ask, HI)
        ask.will_get(text("Yes"))
        ask([*HI, answer, SystemMessage("Be brief."), UserMessage("And?")])
        assert "Greet." not in str(ask.server.requests[-1]["messages"])

    def test_other_tools_do_too(self, ask: Asker) -> None:
        answer = self._answer(ask, HI, tools=[PLUS])
        assert self._sent(ask, [*HI, answer, UserMessage("And?")]) == "Hello"

    def test_in_the_turn_under_way_it_stays(self, ask: Asker) -> None:
        calling = call("a", "plus", {"a": 1})
        ask.will_get(thinking("Add."), calling, stop="tool_use")
        answer = ask([UserMessage("Long ago"), AiMessage("Yes"), *HI], [PLUS])[-1].message
        memory = [*HI, answer, ToolExecutionResultMessage("a", "plus", "1")]  # the rest was evicted meanwhile
        assert self._sent(ask, memory, tools=[PLUS]) == [thinking("Add."), calling]

    def test_redacted_thinking_and_several_thoughts(self, ask: Asker) -> None:
        blocks = [thinking("One."), {"type": "redacted_thinking", "data": "eA=="}, thinking("Two."), text("Hello")]
        ask.will_get(*blocks)
        answer = ask()[-1].message
        assert answer.thinking == "One.\nTwo."
        assert self._sent(ask, [*HI, answer, UserMessage("And?")]) == blocks

    def test_thinking_of_servers_that_sign_nothing(self, ask: Asker) -> None:
        ask.will_get({"type": "thinking", "thinking": "Greet.", "signature": None}, text("Hello"))
        answer = ask()[-1].message
        assert (answer.text, answer.thinking) == ("Hello", "Greet.")
        assert self._sent(ask, [*HI, answer, UserMessage("And?")]) == "Hello"

    def _answer(self, ask: Asker, messages: list[ChatMessage], **options: Any) -> AiMessage:
        ask.will_get(*self.SIGNED)
        answer: AiMessage = ask(messages, **options)[-1].message
        return answer

    def _sent(self, ask: Asker, messages: list[ChatMessage], index: int = 1, **options: Any) -> Any:
        """What is sent of an answer; a single text is not in blocks."""
        ask.will_get(text("Yes"))
        ask(messages, **options)
        return ask.server.requests[-1]["messages"][index]["content"]


@pytest.mark.django_db(transaction=True)
def test_a_conversation_in_the_database_keeps_thinking_until_its_window_evicts(
    anthropic_server: AnthropicServer,
) -> None:
    conversation = ConversationFactory(window="messages", limit=5)
    signed = [thinking("Greet."), text("Hello")]
    with anthropic.Anthropic(max_retries=0) as client:
        assistant = Assistant(AnthropicChatModel("claude-tiny", client=client), system_message="Be brief.")
        for said in ("One", "Two", "Three"):
            anthropic_server.say(200, "application/json", message(*signed))
            assistant.chat(conversation, said)
    sent = [request["messages"] for request in anthropic_server.requests]
    assert [one["content"] for one in sent[1]] == ["One", signed, "Two"]
    # The first message is gone, so both answers' thinking stands behind something else.
    assert "Greet." not in str(sent[2])
    assert sent[2][-1]["content"] == "Three"


class TestCutOff:
    @pytest.mark.parametrize(
        ("stop", "why"),
        [
            ("max_tokens", "the model's limit was reached"),
            ("model_context_window_exceeded", "the model's context was full"),
            ("refusal", "the model refused"),
        ],
    )
    def test_a_text_says_why_and_nothing_is_an_error(self, ask: Asker, stop: str, why: str) -> None:
        ask.will_get(text("Once upon"), stop=stop)
        assert ask()[-1].message == AiMessage("Once upon", attributes={"cut_off": why})
        ask.will_get(stop=stop)
        with pytest.raises(ModelError, match=f"empty answer: {why}"):
            ask()

    @pytest.mark.parametrize("input", [{"a": 1}, '{"a": '])
    def test_calls_are_an_error(self, ask_for_stream: Asker, input: Any) -> None:
        ask_for_stream.server.stream(events(call("a", "plus", input), stop="max_tokens"))
        with pytest.raises(ModelError, match=r"tool calls of claude-tiny .* were cut off: the model's limit"):
            ask_for_stream()

    @pytest.mark.parametrize("input", ['{"a": ', "[1]", "5"])
    def test_arguments_that_are_no_object_are_for_the_tools_to_refuse(self, ask_for_stream: Asker, input: str) -> None:
        ask_for_stream.server.stream(events(text("x"), call("a", "plus", input), call("b", "plus", {"a": 1})))
        requests = ask_for_stream()[-1].message.tool_execution_requests
        assert [request.arguments for request in requests] == [input, '{"a":1}']

    def test_a_text_only_of_thinking_is_empty(self, ask: Asker) -> None:
        ask.will_get(thinking("Hm."))
        with pytest.raises(ModelError, match=r"returned an empty answer\."):
            ask()


class TestTrouble:
    @pytest.mark.parametrize(
        ("status", "error"),
        [
            (400, anthropic.BadRequestError),
            (401, anthropic.AuthenticationError),
            (404, anthropic.NotFoundError),
            (429, anthropic.RateLimitError),
            (500, anthropic.InternalServerError),
            (529, anthropic.InternalServerError),
        ],
    )
    def test_what_the_package_raises_comes_as_it_is(self, ask: Asker, status: int, error: type[Exception]) -> None:
        ask.server.fail(status, "so it is")
        with pytest.raises(error, match="so it is"):
            ask()

    def test_an_error_in_the_middle_of_a_stream(self, ask_for_stream: Asker) -> None:
        error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
        ask_for_stream.server.stream([*events(text("Hel"), stop=None), error])
        with pytest.raises(anthropic.APIStatusError, match="Overloaded"):
            ask_for_stream()

    @pytest.mark.parametrize("ends", [True, False])
    def test_a_stream_that_breaks_off(self, ask_for_stream: Asker, ends: bool) -> None:
        ask_for_stream.server.stream(events(text("Hel"), stop=None), ends=ends)
        with pytest.raises(ModelError, match=r"claude-tiny at 127\.0\.0\.1 broke off in the middle of its answer"):
            ask_for_stream()

    @pytest.mark.parametrize(
        ("made", "problem"),
        [
            ([], "did not answer as a stream of messages. Check ANTHROPIC_BASE_URL"),
            ([b"<title>It works</title>"], "did not answer as a stream of messages"),
            ([b"event: message_start\ndata: {bro\n\n"], "broken JSON: {bro"),
            ([b"event: message_start\ndata: \xff\n\n"], "not utf-8"),
            ([{"type": "content_block_delta", "index": 5, "delta": {"type": "text_delta", "text": "x"}}], "understood"),
            ([{"type": "content_block_start", "index": 0, "content_block": 5}], "cannot be understood.*5"),
            (events({"type": "new_block"}), "cannot be kept: .*new_block"),
        ],
    )
    def test_what_is_no_stream(self, ask_for_stream: Asker, made: list[Any], problem: str) -> None:
        ask_for_stream.server.stream(made)
        with pytest.raises(ModelError, match=problem):
            ask_for_stream()

    @pytest.mark.parametrize(
        ("body", "problem"),
        [
            ("<title>It works</title>", "broken JSON: <title>It works"),
            ('{"content": 5}', "did not answer with a message. Check ANTHROPIC_BASE_URL. It answered: .*5"),
            ('{"error": "no credit"}', "did not answer with a message.*no credit"),
            ("[1, 2]", r"did not answer with a message.*\[1, 2\]"),
            ('{"content": ["Hello"]}', "cannot be understood.*Hello"),
            (message({"type": "new_block"}), "cannot be kept: .*new_block"),
            (message({"type": "text", "text": 5}), "cannot be kept: .*text: expected a string"),
            (message(text("")), "empty answer"),
        ],
    )
    def test_what_is_no_answer(self, ask_for_all: Asker, body: str, problem: str) -> None:
        ask_for_all.server.say(200, "application/json", body)
        with pytest.raises(ModelError, match=problem):
            ask_for_all()

    def test_characters_that_no_database_stores(self, ask: Asker) -> None:
        ask.will_get(
            thinking("a\0\ud83c\udf75"), text("tea \ud83c\udf75\0\ud83c"), call("i\0", "plus", {"a\0": ["\ud83c"]})
        )
        answer = as_answered(ask()[-1]).message
        assert (answer.text, answer.thinking) == ("tea 🍵\ufffd\ufffd", "a\ufffd🍵")
        assert answer.tool_execution_requests == (ToolExecutionRequest("i\ufffd", "plus", '{"a\ufffd":["\ufffd"]}'),)
        assert "thinking_signature" not in answer.attributes  # Anthropic would refuse it beside another text
        ask.will_get(text("Hello"))
        ask([*HI, answer, ToolExecutionResultMessage("i\ufffd", "plus", "3")])

    def test_the_signature_stays_if_only_pairs_are_joined(self, ask: Asker) -> None:
        ask.will_get(thinking("\ud83c\udf75"), text("tea"))
        answer = ask()[-1].message
        assert (answer.thinking, answer.attributes["thinking_signature"]) == ("🍵", "c2ln")

    def test_arguments_that_are_no_json(self, ask_for_stream: Asker) -> None:
        ask_for_stream.will_get(call("i", "plus", '{"a": "\0'), stop="tool_use")  # type: ignore[arg-type]
        [request] = ask_for_stream()[-1].message.tool_execution_requests
        assert request.arguments == '{"a": "\ufffd'

    def test_what_anthropic_has_no_place_for(self, ask: Asker) -> None:
        with pytest.raises(UnsupportedContentError):
            ask([CustomMessage({"a": 1})])
        assert ask.server.requests == []

    def test_events_that_are_not_known_are_signs_of_life(self, ask_for_stream: Asker) -> None:
        made = events(text("Hello"))
        made.insert(2, {"type": "new_event", "index": 0})
        made.insert(-3, {"type": "content_block_delta", "index": 0, "delta": {"type": "new_delta", "text": "?"}})
        ask_for_stream.server.stream(made)
        assert ask_for_stream()[-1] == Answered(AiMessage("Hello"), USAGE)


class TestConnections:
    def test_who_leaves_a_stream_hangs_up(self, anthropic_server: AnthropicServer) -> None:
        anthropic_server.stream(events(text("abc" * 3), stop=None)[:4], forever=True)
        with anthropic.Anthropic(max_retries=0) as client:
            pieces: Any = AnthropicChatModel("claude-tiny", client=client).stream(HI, [])
            assert next(piece for piece in pieces if piece) == "abc"
            pieces.close()
            assert anthropic_server.left.wait(60)

    def test_also_in_async_code(self, anthropic_server: AnthropicServer) -> None:
        anthropic_server.stream(events(text("abc" * 3), stop=None)[:4], forever=True)

        async def leave() -> None:
            async with anthropic.AsyncAnthropic(max_retries=0) as client:
                pieces: Any = AnthropicChatModel("claude-tiny", async_client=client).astream(HI, [])
                while not await anext(pieces):
                    pass
                await pieces.aclose()
                assert await asyncio.to_thread(anthropic_server.left.wait, 60)

        asyncio.run(leave())

    def test_one_model_serves_event_loops_one_after_the_other(self, anthropic_server: AnthropicServer) -> None:
        model = AnthropicChatModel("claude-tiny")

        async def twice() -> list[str | None]:
            said = [(await model.achat(HI, [])).message.text for _ in range(2)]
            await model._async_clients.current().close()  # else its sockets would warn when they are collected
            return said

        for _ in range(3):
            for _ in range(2):
                anthropic_server.say(200, "application/json", message(text("Hello")))
            assert asyncio.run(twice()) == ["Hello", "Hello"]

    def test_the_clients_are_made_when_they_are_needed(
        self, anthropic_server: AnthropicServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model = AnthropicChatModel("claude-tiny")
        assert model.name == "claude-tiny"
        monkeypatch.setenv("ANTHROPIC_API_KEY", "another")
        anthropic_server.say(200, "application/json", message(text("Hello")))
        model.chat(HI, [])
        model._client.close()
        assert anthropic_server.requests[0]["key"] == "Bearer another"


def test_an_answer_is_the_same_streamed_or_whole(anthropic_server: AnthropicServer) -> None:
    """Searches at Anthropic and citations are kept beside the text, and sent back."""
    citation = {"type": "web_search_result_location", "url": "https://example.com", "cited_text": "x"}
    found = {"type": "web_search_result", "url": "https://example.com", "title": "x", "encrypted_content": "e"}
    blocks: list[dict[str, Any]] = [
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "tea"}},
        {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [found]},
        text("It is "),
        {**text("green."), "citations": [citation]},
    ]
    made = events(*blocks)
    cited = {"type": "content_block_delta", "index": 3, "delta": {"type": "citations_delta", "citation": citation}}
    made = [_without_citations(event) for event in made]
    made.insert(-3, cited)
    anthropic_server.stream(made)
    anthropic_server.say(200, "application/json", message(*blocks))
    streamed, whole = (Asker(anthropic_server, way)()[-1].message for way in ("stream", "chat"))
    assert streamed.text == whole.text == "It is green."
    for answer in (streamed, whole):
        anthropic_server.say(200, "application/json", message(text("Yes")))
        Asker(anthropic_server, "chat")([*HI, answer, UserMessage("Sure?")])
        sent = anthropic_server.requests[-1]["messages"][1]["content"]
        assert [block["type"] for block in sent] == [block["type"] for block in blocks]
        assert sent[0]["input"] == {"query": "tea"}
        assert [one["url"] for one in sent[3]["citations"]] == ["https://example.com"]


def _without_citations(event: dict[str, Any]) -> dict[str, Any]:
    block = event.get("content_block")
    if block is None:
        return event
    return {**event, "content_block": {key: value for key, value in block.items() if key != "citations"}}
