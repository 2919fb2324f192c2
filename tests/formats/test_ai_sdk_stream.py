"""The AI SDK's UI message stream, chunk by chunk. What its own reader makes of it is asked in ``tests/ai_sdk``."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from chatmemory import AiMessage, SystemMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.core.usage import Usage
from chatmemory.formats.ai_sdk.stream import DONE, HEADERS, Chunk, UIMessageStream, sse
from tests.support.ai_sdk_turns import RandomTurn

CALL = AiMessage("Well", [ToolExecutionRequest("c1", "now", "{}")])
NOON = ToolExecutionResultMessage("c1", "now", "noon")
BEGIN = [{"type": "start-step"}, {"type": "text-start", "id": "text-0"}]
END = [{"type": "text-end", "id": "text-0"}, {"type": "finish-step"}]


@pytest.fixture
def stream() -> UIMessageStream:
    return UIMessageStream("answer-7")


def _delta(text: str, kind: str = "text", step: int = 0) -> Chunk:
    return {"type": f"{kind}-delta", "id": f"{kind}-{step}", "delta": text}


def _types(chunks: list[Chunk]) -> list[str]:
    return [chunk["type"] for chunk in chunks]


def test_pieces_come_at_once_and_once(stream: UIMessageStream) -> None:
    assert stream.start() == [{"type": "start", "messageId": "answer-7"}]
    assert stream.text("Hel") == [*BEGIN, _delta("Hel")]
    assert stream.text("") == []
    assert stream.text("lo") == [_delta("lo")]
    assert stream.said([AiMessage("Hello")]) == [END[0]]
    assert stream.finish() == [END[1], {"type": "finish"}]


def test_the_end_has_the_usage_as_the_ai_sdk_has_it() -> None:
    usage = Usage(
        **{"input_tokens": 1200, "output_tokens": 340, "cache_read_tokens": 1024, "cache_write_tokens": 128},
        reasoning_tokens=200,
    )
    [finish] = UIMessageStream("m").finish(usage)
    assert finish == {
        "type": "finish",
        "messageMetadata": {
            "usage": {
                "inputTokens": 1200,
                "inputTokenDetails": {"noCacheTokens": 48, "cacheReadTokens": 1024, "cacheWriteTokens": 128},
                "outputTokens": 340,
                "outputTokenDetails": {"textTokens": 140, "reasoningTokens": 200},
                "totalTokens": 1540,
            }
        },
    }
    [finish] = UIMessageStream("m").finish(Usage(output_tokens=7))
    assert finish["messageMetadata"]["usage"] == {
        "inputTokenDetails": {},
        "outputTokens": 7,
        "outputTokenDetails": {"textTokens": 7},
    }


def test_what_the_pieces_did_not_say_is_said(stream: UIMessageStream) -> None:
    stream.text("Hel")
    assert stream.said([AiMessage("Hello")]) == [_delta("lo"), END[0]]
    assert UIMessageStream("x").said([AiMessage("Hello")]) == [*BEGIN, _delta("Hello"), END[0]]


@pytest.mark.parametrize("pieces", [["Hallo"], ["Hello, world"], ["Hello", "Hm"]])
def test_what_was_not_meant_so_is_taken_back(stream: UIMessageStream, pieces: list[str]) -> None:
    stream.text(pieces[0])
    if pieces[1:]:
        stream.thinking(pieces[1])
    assert stream.said([AiMessage("Hello")])[1:] == [{"type": "reset-step"}, BEGIN[1], _delta("Hello"), END[0]]


def test_thinking_ends_where_the_text_begins(stream: UIMessageStream) -> None:
    assert _types(stream.thinking("Hm")) == ["start-step", "reasoning-start", "reasoning-delta"]
    assert _types(stream.text("Hello")) == ["reasoning-end", "text-start", "text-delta"]
    assert _types(stream.said([AiMessage("Hello", thinking="Hm")])) == ["text-end"]


def test_a_step_for_each_answer(stream: UIMessageStream) -> None:
    stream.text("Well")
    assert _types(stream.said([CALL])) == ["text-end", "tool-input-available"]
    assert _types(stream.said([NOON])) == ["tool-output-available"]
    assert stream.text("It is")[:2] == [{"type": "finish-step"}, {"type": "start-step"}]
    assert _types(stream.said([AiMessage("It is noon.")])) == ["text-delta", "text-end"]


def test_a_tool_that_failed(stream: UIMessageStream) -> None:
    stream.said([CALL])
    chunk = {"type": "tool-output-error", "toolCallId": "c1", "errorText": "No.", "dynamic": True}
    assert stream.said([ToolExecutionResultMessage("c1", "now", "No.", is_error=True)]) == [chunk]


def test_the_opening_of_a_turn_is_not_told(stream: UIMessageStream) -> None:
    assert stream.said([NOON, SystemMessage("Be brief."), UserMessage("Hi")]) == []
    assert _types(stream.said([UserMessage("Hi"), AiMessage("Hello")]))[0] == "start-step"


def test_memory_stays_out_of_the_message(stream: UIMessageStream) -> None:
    assert stream.memory({"version": 2}) == [{"type": "data-memory", "data": {"version": 2}, "transient": True}]


@pytest.mark.parametrize(
    ("end", "last"),
    [
        ("error", {"type": "error", "errorText": "It failed."}),
        ("abort", {"type": "abort"}),
        ("finish", {"type": "finish"}),
    ],
)
def test_an_end_within_an_answer(stream: UIMessageStream, end: str, last: Any) -> None:
    stream.text("Hel")
    assert getattr(stream, end)(*(["It failed."] if end == "error" else [])) == [*END, last]


def test_events() -> None:
    assert sse({"type": "text-delta", "delta": "a\n\r\u2028天"}) == (
        'data: {"type":"text-delta","delta":"a\\n\\r\u2028天"}\n\n'.encode()
    )
    # As JSON escapes what has no UTF-8.
    assert sse({"delta": "\ud83c"}) + sse({"delta": "\udf89"}) == (
        b'data: {"delta":"\\ud83c"}\n\ndata: {"delta":"\\udf89"}\n\n'
    )
    assert DONE == b"data: [DONE]\n\n"
    assert HEADERS["X-Vercel-AI-UI-Message-Stream"] == "v1"


def test_a_value_that_is_not_finite_is_still_json() -> None:
    [_, chunk] = UIMessageStream("x").said([AiMessage(None, attributes={"x": float("nan")})])
    event = sse(chunk).decode().removeprefix("data: ")
    steps = json.loads(event, parse_constant=pytest.fail)["messageMetadata"]["chatmemory"]["steps"]
    assert steps == {"0": {"attributes": {"x": "NaN"}}}


def test_any_turn_is_valid_utf_8_on_lines_of_its_own() -> None:
    for seed in range(200):
        turn = RandomTurn(Random(seed), UIMessageStream("answer-7"))
        turn.run()
        events = b"".join(turn.events).decode().split("\n\n")
        assert events.pop() == ""
        assert events.pop() == "data: [DONE]"
        for event in events:
            assert event.startswith("data: {")
            assert "\n" not in event
            assert "\r" not in event
            json.loads(event.removeprefix("data: "))
