"""Answers that pause, as those with long searches do: the model goes on by itself until they are whole."""

# ruff: noqa: F811 - fixtures that are imported

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import anthropic
import pytest

from chatmemory import (
    AiMessage,
    MessageWindowChatMemory,
    SystemMessage,
    ToolExecutionResultMessage,
    UserMessage,
    message_from_json,
    message_to_json,
)
from chatmemory.assistant import Answered, Assistant, ModelError, Thinking, Usage
from chatmemory.assistant.anthropic import AnthropicChatModel
from chatmemory.signals import model_called
from tests.assistant.test_anthropic import HI, PLUS, USAGE, WAYS, Asker
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

SEARCH = {"type": "web_search_20250305", "name": "web_search"}
PAUSE = "pause_turn"


def search(id: str) -> dict[str, Any]:
    return {"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": "tea"}}


def found(id: str) -> dict[str, Any]:
    page = {"type": "web_search_result", "url": "https://example.com", "title": "x", "encrypted_content": "e"}
    return {"type": "web_search_tool_result", "tool_use_id": id, "content": [page]}


BEGUN = Usage(input_tokens=330, output_tokens=1, cache_read_tokens=300, cache_write_tokens=20)


def times(count: int) -> Usage:
    return sum([USAGE] * count, Usage())


@pytest.fixture(params=WAYS)
def ask(request: pytest.FixtureRequest, anthropic_server: AnthropicServer) -> Asker:
    return Asker(anthropic_server, request.param)


@pytest.fixture
def told() -> Iterator[list[tuple[Usage | None, type[BaseException] | None]]]:
    """The usage and the kind of error that receivers of ``model_called`` are told."""
    told: list[tuple[Usage | None, type[BaseException] | None]] = []

    def note(usage: Usage | None, error: BaseException | None, **given: Any) -> None:
        told.append((usage, None if error is None else type(error)))

    model_called.connect(note)
    yield told
    model_called.disconnect(note)


PARTS = [
    [thinking("Search.", "c2ln"), search("srv_1"), found("srv_1"), text("Let me look "), search("srv_2")],
    [found("srv_2"), text("once more. "), search("srv_3")],
    [found("srv_3"), thinking("Green.", "c2ln"), text("It is green.")],
]
WHOLE = [block for part in PARTS for block in part]


def pauses(ask: Asker) -> None:
    for part in PARTS[:-1]:
        ask.will_get(*part, stop=PAUSE)
    ask.will_get(*PARTS[-1])


def test_it_is_asked_to_go_on_with_what_it_said_at_the_end(ask: Asker) -> None:
    pauses(ask)
    ask(tools=[PLUS], of_model={"tools": [SEARCH], "stop_sequences": ["END"]})
    first, second, third = ask.server.requests
    assert first["messages"] == [{"role": "user", "content": "Hi"}]
    for request, blocks in [(second, PARTS[0]), (third, PARTS[0] + PARTS[1])]:
        assert request == {**first, "messages": [*first["messages"], {"role": "assistant", "content": blocks}]}


def test_the_answer_has_all_of_it(ask: Asker) -> None:
    pauses(ask)
    *pieces, answered = ask()
    assert answered.usage == times(3)
    assert answered.message.text == "Let me look once more. It is green."
    assert answered.message.thinking == "Search.\nGreen."
    assert "cut_off" not in answered.message.attributes
    if ask.streams:
        assert "".join(piece for piece in pieces if isinstance(piece, str)) == answered.message.text
        assert "".join(piece.text for piece in pieces if isinstance(piece, Thinking)) == "Search.Green."


def test_and_all_of_it_is_sent_in_the_next_turn(ask: Asker) -> None:
    pauses(ask)
    stored = message_from_json(message_to_json(ask()[-1].message))
    ask.will_get(text("Yes"))
    ask([*HI, stored, UserMessage("Sure?")])
    assert ask.server.requests[-1]["messages"] == [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": WHOLE},
        {"role": "user", "content": "Sure?"},
    ]


def test_at_most_ten_times(ask: Asker) -> None:
    for index in range(10):
        ask.will_get(search(f"srv_{index}"), found(f"srv_{index}"), stop=PAUSE)
    ask.will_get(text("Green"))
    answered = ask()[-1]
    assert (answered.message.text, answered.usage) == ("Green", times(11))
    for index in range(11):
        ask.will_get(search(f"srv_{index}"), found(f"srv_{index}"), stop=PAUSE)
    with pytest.raises(ModelError, match="paused more than 10 times, and did not finish its answer") as caught:
        ask()
    assert caught.value.usage == times(11)
    assert len(ask.server.requests) == 22


def test_a_pause_before_anything_was_said_is_an_empty_answer(ask: Asker) -> None:
    ask.will_get(stop=PAUSE)
    with pytest.raises(ModelError, match="empty answer: the model paused"):
        ask()


def test_a_text_that_is_cut_off_after_a_pause_says_why(ask: Asker) -> None:
    ask.will_get(text("Once "), stop=PAUSE)
    ask.will_get(text("upon"), stop="max_tokens")
    answer = ask()[-1].message
    assert (answer.text, answer.attributes["cut_off"]) == ("Once upon", "the model's limit was reached")


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({}, "c_1"),
        ({"container": {"skills": []}}, {"skills": [], "id": "c_1"}),
        ({"container": {"id": "own"}}, {"id": "own"}),
        ({"container": "own"}, "own"),
    ],
)
def test_it_goes_on_in_the_container_of_its_code(ask: Asker, given: dict[str, Any], sent: Any) -> None:
    will_get_from_container(ask, text("I run "), stop=PAUSE)
    ask.will_get(text("code."))
    ask(of_model=given)
    first, second = ask.server.requests
    assert first.get("container") == given.get("container")
    assert second["container"] == sent


@pytest.mark.parametrize(("given", "sent"), [({}, "c_1"), ({"container": {"id": "own"}}, {"id": "own"})])
def test_results_go_to_the_container_whose_code_waits(ask: Asker, given: dict[str, Any], sent: Any) -> None:
    """The API refuses the results of an answer whose code has not ended if it is not told in which container that is.

    The next turn has nothing to do there, and a container may have expired by then.
    """
    code = {"type": "server_tool_use", "id": "srv_1", "name": "code_execution", "input": {"code": "x"}}
    adding = call("a", "plus", {"a": 1, "b": 2})
    will_get_from_container(ask, code, adding, stop="tool_use")
    asked = message_from_json(message_to_json(ask(tools=[PLUS], of_model=given)[-1].message))
    result = ToolExecutionResultMessage("a", "plus", "3")
    ask.will_get(call("b", "plus", {}), stop="tool_use")
    again = ask([*HI, asked, result], [PLUS], given)[-1].message
    ask.will_get(text("Three."))
    turn = [*HI, asked, result, again, ToolExecutionResultMessage("b", "plus", "0"), SystemMessage("Be brief.")]
    three = ask(turn, [PLUS], given)[-1].message
    ask.will_get(text("Yes"))
    ask([*turn, three, UserMessage("Sure?")], [PLUS], given)
    containers = [request.get("container") for request in ask.server.requests]
    assert containers == [given.get("container"), sent, sent, given.get("container")]


def will_get_from_container(ask: Asker, *blocks: dict[str, Any], stop: str) -> None:
    container = {"id": "c_1", "expires_at": "2030-01-01T00:00:00Z"}
    if ask.streams:
        made = events(*blocks, stop=stop)
        made[-2]["delta"]["container"] = container
        ask.server.stream(made)
    else:
        ask.server.say(200, "application/json", message(*blocks, stop=stop, container=container))


@pytest.mark.parametrize("way", ["stream", "astream"])
@pytest.mark.parametrize("ends", [True, False])
def test_a_stream_that_breaks_off_after_a_pause(anthropic_server: AnthropicServer, way: str, ends: bool) -> None:
    ask = Asker(anthropic_server, way)
    ask.will_get(text("Hel"), stop=PAUSE)
    ask.server.stream(events(text("lo"), stop=None), ends=ends)
    with pytest.raises(ModelError, match="broke off in the middle of its answer") as caught:
        ask()
    assert caught.value.usage == USAGE + Usage(
        input_tokens=330, output_tokens=1, cache_read_tokens=300, cache_write_tokens=20
    )


def test_a_request_to_go_on_that_is_refused(ask: Asker, told: Any) -> None:
    """The exception of the package comes as it is, and the signal has the usage before it."""
    for refuse in (True, False):
        ask.will_get(text("Hel"), stop=PAUSE)
        if refuse:
            ask.server.fail(429, "too fast")
        else:
            ask.will_get(text("lo"))
    with anthropic.Anthropic(max_retries=0, timeout=60) as client:
        assistant = Assistant(
            AnthropicChatModel("claude-tiny", client=client), memory=MessageWindowChatMemory(max_messages=5)
        )
        with pytest.raises(anthropic.RateLimitError, match="too fast"):
            list(assistant.stream("default", "Hi")) if ask.streams else assistant.chat("default", "Hi")
        list(assistant.stream("default")) if ask.streams else assistant.chat("default")
    assert told == [(USAGE, anthropic.RateLimitError), (times(2), None)]


def test_a_stream_that_is_left_after_a_pause(anthropic_server: AnthropicServer, told: Any) -> None:
    anthropic_server.stream(events(text("Hel"), stop=PAUSE))
    anthropic_server.stream(events(text("lo")))
    with anthropic.Anthropic(max_retries=0, timeout=60) as client:
        model = AnthropicChatModel("claude-tiny", client=client)
        assistant = Assistant(model, memory=MessageWindowChatMemory(max_messages=5))
        with closing(assistant.stream("default", "Hi")) as pieces:
            assert "lo" in pieces
    assert told == [(USAGE + BEGUN, GeneratorExit)]


def test_calls_after_a_pause_run_and_their_results_follow_all_of_the_answer(ask: Asker, told: Any) -> None:
    def plus(a: int, b: int) -> int:
        """Adds."""
        return a + b

    adding = call("a", "plus", {"a": 1, "b": 2})
    ask.will_get(search("srv_1"), stop=PAUSE)
    ask.will_get(found("srv_1"), adding, stop="tool_use")
    ask.will_get(text("Three."))
    with anthropic.Anthropic(max_retries=0, timeout=60) as client:
        model = AnthropicChatModel("claude-tiny", client=client)
        assistant = Assistant(model, memory=MessageWindowChatMemory(max_messages=9), tools=[plus])
        last = list(assistant.stream("default", "1+2?"))[-1] if ask.streams else assistant.chat("default", "1+2?")
    assert isinstance(last, AiMessage) is not ask.streams
    assert told == [(times(2), None), (USAGE, None)]
    assert ask.server.requests[-1]["messages"] == [
        {"role": "user", "content": "1+2?"},
        {"role": "assistant", "content": [search("srv_1"), found("srv_1"), adding]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "3"}]},
    ]


def test_an_answer_without_pauses_is_asked_for_once(ask: Asker) -> None:
    ask.will_get(text("Hello"))
    assert ask()[-1] == Answered(AiMessage("Hello"), USAGE)
    assert len(ask.server.requests) == 1
