"""Anthropic gets the thinking that it still takes, and is told of the rest."""

from __future__ import annotations

from typing import Any

import pytest

from chatmemory import (
    AiMessage,
    ChatMessage,
    MessageWindowChatMemory,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.formats.anthropic import from_anthropic, to_anthropic
from chatmemory.formats.validity import Repair

HI = UserMessage("Hi")


def _answer(signature: str, *calls: str, text: str | None = "OK") -> AiMessage:
    requests = [ToolExecutionRequest(id, "now", "{}") for id in calls]
    return AiMessage(text, requests, thinking=f"thought {signature}", attributes={"thinking_signature": signature})


def _result(id: str) -> ToolExecutionResultMessage:
    return ToolExecutionResultMessage(id, "now", "noon")


def _signatures(request: dict[str, Any]) -> list[str]:
    contents = [turn["content"] for turn in request["messages"] if not isinstance(turn["content"], str)]
    return [block["signature"] for content in contents for block in content if block["type"] == "thinking"]


SEARCH = [
    {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {}},
    {"type": "web_search_tool_result", "tool_use_id": "srv", "content": []},
]
TALK = [HI, _answer("1"), HI, _answer("2", "a"), _result("a"), _answer("3"), HI]

CASES: dict[str, tuple[list[ChatMessage], Any, list[str], list[int]]] = {
    "all": (TALK, "all", ["1", "2", "3"], []),
    "none": (TALK, "none", [], [1, 3, 5]),
    "those before which nothing has changed": (TALK, [1, 3, 5], ["1", "2", "3"], []),
    "the first is stale": (TALK, [3, 5], ["2", "3"], [1]),
    "behind a stale one in its turn all are": (TALK, [1, 5], ["1"], [3, 5]),
    "the turn under way keeps all": (TALK[:5], [], ["2"], [1]),
    "and loses them when it is over": (TALK[:6], [], [], [1, 3, 5]),
    "a call that waits for its result is under way": (TALK[:4], [], ["2"], [1]),
    "but for none": (TALK[:5], "none", [], [1, 3]),
    "a system message ends no turn": ([*TALK[:5], SystemMessage("Be brief.")], [], ["2"], [1]),
    "nor does it after a call": ([*TALK[:4], SystemMessage("Be brief.")], [], ["2"], [1]),
    "but an answer does before it": ([*TALK[:6], SystemMessage("Be brief.")], [], [], [1, 3, 5]),
    "a result that comes late is moved before an answer": (
        [HI, _answer("1", "a"), HI, _answer("2"), _result("a"), HI, _answer("3"), HI],
        "all",
        ["1", "3"],
        [3],
    ),
    "a result that comes late, in the turn under way": (
        [HI, _answer("1", "a"), HI, _answer("2", "b"), _result("a"), _result("b")],
        "all",
        ["1", "2"],
        [],
    ),
    "what was never sent is not told": ([HI, AiMessage("OK", thinking="unsigned"), HI], "none", [], []),
}


@pytest.mark.parametrize(("messages", "thinking", "signatures", "repaired"), CASES.values(), ids=CASES)
def test_what_is_sent(messages: list[ChatMessage], thinking: Any, signatures: list[str], repaired: list[int]) -> None:
    repairs: list[Repair] = []
    request = to_anthropic(messages, repairs.append, thinking=thinking)
    assert _signatures(request) == signatures
    assert [repair.position for repair in repairs if repair.reason == "stale_thinking"] == repaired
    assert [repair.position for repair in repairs] == sorted(repair.position for repair in repairs)


def test_blocks_that_messages_cannot_express_stay_without_the_thinking() -> None:
    blocks = [
        {"type": "thinking", "thinking": "I search.", "signature": "1"},
        *SEARCH,
        {"type": "redacted_thinking", "data": "2"},
        {"type": "text", "text": "Found."},
    ]
    (answer,) = from_anthropic([{"role": "assistant", "content": blocks}])
    request = to_anthropic([HI, answer, HI], thinking=())
    assert request["messages"][1]["content"] == [*SEARCH, blocks[4]]
    assert to_anthropic([HI, answer, HI])["messages"][1]["content"] == blocks


def test_thinking_beside_blocks_that_are_not_its_own_is_left_out() -> None:
    """Anybody may write attributes."""
    content = {"content": [{"type": "redacted_thinking", "data": "x"}, {"type": "text", "text": "OK"}]}
    answer = AiMessage("OK", thinking="I think.", attributes={"thinking_signature": "1", "anthropic": content})
    request = to_anthropic([HI, answer, HI], thinking=())
    assert request["messages"][1]["content"] == "OK"


@pytest.mark.parametrize(
    ("id", "before"),
    [
        ("x.y", [{"type": "compaction", "content": "All so far."}]),
        ("x.y", SEARCH),
        ("x", SEARCH),  # and it is said twice
    ],
)
def test_thinking_that_has_lost_the_blocks_before_it_is_left_out(id: str, before: list[dict[str, Any]]) -> None:
    """Calls that Anthropic refuses are changed, and what ran there is sent once: then other blocks go."""
    blocks = [
        *before,
        {"type": "thinking", "thinking": "Hm.", "signature": "1"},
        {"type": "tool_use", "id": id, "name": "now", "input": {}},
    ]
    said = [*from_anthropic([{"role": "assistant", "content": blocks}]), _result(id)]
    whole = 1 if id == "x" else 0
    request = to_anthropic([HI, *said, HI, *said, HI])
    assert _signatures(request) == ["1"] * whole
    assert len(_signatures(to_anthropic([HI, *said, HI, *said]))) == whole + 1, "the turn under way keeps it"


def test_a_window_in_memory_can_be_sent_without_stale_thinking() -> None:
    memory = MessageWindowChatMemory(max_messages=4)
    memory.add(SystemMessage("Be brief."))
    for number in range(4):
        memory.add(HI, _answer(str(number)))
    assert _signatures(to_anthropic(memory.messages(), thinking="none")) == []


def test_an_unknown_word_is_refused() -> None:
    with pytest.raises(ValueError, match='thinking must be "all", "none" or indexes of messages, but is: \'some\''):
        to_anthropic([HI], thinking="some")  # type: ignore[arg-type]
