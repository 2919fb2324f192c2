"""A call of a tool that runs at the provider is sent with its result, or is left out and told: no chat is stuck."""

from __future__ import annotations

from typing import Any

import pytest

from chatmemory import AiMessage, ChatMessage, SystemMessage, ToolExecutionResultMessage, UserMessage
from chatmemory.formats.ai_sdk import from_ai_sdk
from chatmemory.formats.anthropic import from_anthropic, to_anthropic
from chatmemory.formats.gemini import from_gemini, to_gemini
from chatmemory.formats.openai import to_openai
from chatmemory.formats.responses import from_responses, to_responses
from chatmemory.formats.validity import Repair
from chatmemory.models import Conversation
from chatmemory.signals import memory_repaired
from tests.support.provider_rules import assert_anthropic_accepts, assert_gemini_accepts, assert_responses_accept

HI = UserMessage("Hi")
NOON = ToolExecutionResultMessage("t1", "now", "noon")
NOON_BLOCK = {"type": "tool_result", "tool_use_id": "t1", "content": "noon"}
TEXT = {"type": "text", "text": "x"}
THINKING = {"type": "thinking", "thinking": "hm", "signature": "s"}
SEARCH = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}
ROUTE = {"type": "mcp_tool_use", "id": "mcp_1", "name": "route", "server_name": "maps", "input": {}}
CODE = {"type": "server_tool_use", "id": "srv_2", "name": "code_execution", "input": {"code": "now()"}}
RAN = {
    "type": "code_execution_tool_result",
    "tool_use_id": "srv_2",
    "content": {"type": "code_execution_result", "stdout": "", "stderr": "", "return_code": 0, "content": []},
}
NOW = {"type": "tool_use", "id": "t1", "name": "now", "input": {}}
BY_CODE = NOW | {"caller": {"type": "code_execution_20260120", "tool_id": "srv_2"}}


def _claude(*blocks: dict[str, Any]) -> ChatMessage:
    return from_anthropic([{"role": "assistant", "content": list(blocks)}])[0]


def _sent(messages: list[ChatMessage], **options: Any) -> tuple[list[Any], list[tuple[int, str]]]:
    """What Anthropic gets after the first message, and the repairs."""
    found: list[Repair] = []
    request = to_anthropic(messages, found.append, **options)
    assert_anthropic_accepts(request)
    return [turn["content"] for turn in request["messages"][1:]], [(repair.position, repair.reason) for repair in found]


LEFT_OUT: dict[str, tuple[list[ChatMessage], list[Any], list[tuple[int, str]]]] = {
    "paused": ([HI, _claude(TEXT, SEARCH), HI], ["x", "Hi"], [(1, "call_without_result")]),
    "of an MCP server": ([HI, _claude(TEXT, ROUTE), HI], ["x", "Hi"], [(1, "call_without_result")]),
    "behind one that has its result": (
        [HI, _claude(SEARCH, FOUND, TEXT, ROUTE), HI],
        [[SEARCH, FOUND, TEXT], "Hi"],
        [(1, "call_without_result")],
    ),
    "beside a call": (
        [HI, _claude(SEARCH, NOW), NOON, HI],
        [[NOW], [NOON_BLOCK, {"type": "text", "text": "Hi"}]],
        [(1, "call_without_result")],
    ),
    "code that called a tool": (
        [HI, _claude(CODE, BY_CODE), NOON, HI],
        [[NOW], [NOON_BLOCK, {"type": "text", "text": "Hi"}]],
        [(1, "call_without_result"), (1, "reasoning")],
    ),
    "behind a result that is its own only by name": (
        [HI, _claude(FOUND, SEARCH, TEXT), HI],
        ["x", "Hi"],
        [(1, "call_without_result"), (1, "result_without_call")],
    ),
}


@pytest.mark.usefixtures("sdks")
@pytest.mark.parametrize(("messages", "sent", "repairs"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_a_call_without_its_result_is_left_out(
    messages: list[ChatMessage], sent: list[Any], repairs: list[tuple[int, str]]
) -> None:
    said, told = _sent(messages)
    assert said == sent
    assert sorted(told) == sorted(repairs)


@pytest.mark.usefixtures("sdks")
def test_an_answer_that_is_nothing_else_is_left_out() -> None:
    said, repairs = _sent([HI, _claude(THINKING, SEARCH), HI])
    assert said == []
    assert repairs == [(1, "call_without_result"), (1, "blank")]


@pytest.mark.usefixtures("sdks")
@pytest.mark.parametrize("system", [[], [SystemMessage("Be brief.")]], ids=["", "before a system message"])
@pytest.mark.parametrize(
    "said",
    [
        [_claude(TEXT, SEARCH)],
        [_claude(SEARCH, NOW), NOON],
        [_claude(CODE, BY_CODE), NOON],
        [_claude(CODE, BY_CODE), NOON, _claude(BY_CODE | {"id": "t2"}), ToolExecutionResultMessage("t2", "now", "one")],
    ],
    ids=["paused", "beside a call", "code that called a tool", "code that called another tool"],
)
def test_a_call_that_anthropic_runs_next_is_sent(said: list[ChatMessage], system: list[ChatMessage]) -> None:
    """The API goes on with the answer as it is, or when it gets the results of its calls and nothing else."""
    sent, repairs = _sent([HI, *said, *system])
    assert sent == [turn["content"] for turn in to_anthropic([HI, *said])["messages"][1:]]
    assert any(block["type"] == "server_tool_use" for block in sent[0])
    assert repairs == []
    assert _sent([HI, *said, HI])[1] != []


@pytest.mark.usefixtures("sdks")
def test_a_result_may_come_in_the_next_answer() -> None:
    """So Anthropic answers if it has been waiting for the result of a call."""
    said = [HI, _claude(SEARCH, NOW), NOON, _claude(FOUND, TEXT), HI]
    assert _sent(said) == ([[SEARCH, NOW], [NOON_BLOCK], [FOUND, TEXT], "Hi"], [])
    assert _sent([HI, _claude(TEXT, SEARCH), _claude(FOUND, TEXT), HI]) == ([[TEXT, SEARCH, FOUND, TEXT], "Hi"], [])


@pytest.mark.usefixtures("sdks")
@pytest.mark.parametrize("later", [_claude(TEXT, NOW | {"id": "t2"}), _claude(THINKING, NOW | {"id": "t2"})])
def test_a_result_that_comes_after_another_answer_is_too_late(later: ChatMessage) -> None:
    result = ToolExecutionResultMessage("t2", "now", "one")
    _, repairs = _sent([HI, _claude(SEARCH, NOW), NOON, later, result, _claude(FOUND, TEXT), HI])
    assert [repair for repair in repairs if repair[1] != "stale_thinking"] == [
        (1, "call_without_result"),
        (5, "result_without_call"),
    ]


@pytest.mark.usefixtures("sdks")
def test_a_result_whose_call_was_evicted_is_left_out() -> None:
    assert _sent([HI, _claude(FOUND, TEXT), HI]) == (["x", "Hi"], [(1, "result_without_call")])


@pytest.mark.usefixtures("sdks")
def test_thinking_before_a_call_that_is_left_out_stays() -> None:
    assert _sent([HI, _claude(THINKING, TEXT, SEARCH), HI]) == (
        [[THINKING, TEXT], "Hi"],
        [(1, "call_without_result")],
    )
    assert _sent([HI, _claude(SEARCH, THINKING, TEXT), HI]) == (
        ["x", "Hi"],
        [(1, "call_without_result"), (1, "stale_thinking")],
    )


SIGNED = {"thoughtSignature": "c2ln"}
SCRIPT = {"executableCode": {"language": "PYTHON", "code": "1"}, **SIGNED}
OUTPUT = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}
MAPS = {"toolCall": {"id": "s1", "toolType": "GOOGLE_MAPS"}}
PLACES = {"toolResponse": {"id": "s1", "toolType": "GOOGLE_MAPS", "response": {}}}
CALL_PART = {"functionCall": {"id": "t1", "name": "now", "args": {}}, **SIGNED}


@pytest.mark.usefixtures("sdks")
@pytest.mark.parametrize(
    ("parts", "sent", "repairs"),
    [
        ([{"text": "x"}, SCRIPT], [{"text": "x"}], ["call_without_result"]),
        ([{"text": "x"}, MAPS], [{"text": "x"}], ["call_without_result"]),
        ([SCRIPT, OUTPUT, {"text": "x"}, SCRIPT], [SCRIPT, OUTPUT, {"text": "x"}], ["call_without_result"]),
        ([OUTPUT, {"text": "x"}], [{"text": "x"}], ["result_without_call"]),
        ([MAPS, OUTPUT, {"text": "x"}], [{"text": "x"}], ["call_without_result", "result_without_call"]),
        ([MAPS, SCRIPT, OUTPUT, PLACES, {"text": "x"}], [MAPS, SCRIPT, OUTPUT, PLACES, {"text": "x"}], []),
        ([SCRIPT], None, ["call_without_result", "blank"]),
    ],
)
def test_gemini(parts: list[Any], sent: list[Any] | None, repairs: list[str]) -> None:
    answer = from_gemini({"role": "model", "parts": parts})
    found: list[Repair] = []
    request = to_gemini([HI, *answer, HI], found.append)
    assert_gemini_accepts(request)
    said = [content["parts"] for content in request["contents"] if content["role"] == "model"]
    assert said == ([] if sent is None else [sent])
    assert sorted(repair.reason for repair in found) == sorted(repairs)


@pytest.mark.usefixtures("sdks")
def test_gemini_gets_the_turn_under_way_as_it_is() -> None:
    answer = from_gemini({"role": "model", "parts": [MAPS, CALL_PART]})
    request = to_gemini([HI, *answer, NOON], pytest.fail)
    assert_gemini_accepts(request)
    assert request["contents"][1]["parts"] == [MAPS, CALL_PART]


def _item(kind: str, status: str | None, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "id": f"{kind}_1", **({"status": status} if status else {}), **fields}


def _reasoning(number: int) -> dict[str, Any]:
    return {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "e"}


HI_ITEM = {"role": "user", "content": "Hi"}
SAID = {
    **{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"},
    "content": [{"type": "output_text", "text": "x", "annotations": []}],
}
HOSTED = [
    _item("web_search_call", "in_progress", action={"type": "search", "query": "x"}),
    _item("web_search_call", "searching", action={"type": "search", "query": "x"}),
    _item("file_search_call", "incomplete", queries=["x"]),
    _item("code_interpreter_call", "interpreting", container_id="c", code="1", outputs=None),
    _item("image_generation_call", "generating", result=None),
    _item("mcp_call", "calling", name="route", arguments="{}", server_label="maps"),
]


def _openai(messages: list[ChatMessage]) -> tuple[list[Any], list[tuple[int, str]]]:
    found: list[Repair] = []
    items = to_responses(messages, found.append)
    assert_responses_accept(items)
    return items, [(repair.position, repair.reason) for repair in found]


@pytest.mark.usefixtures("sdks")
@pytest.mark.parametrize("hosted", HOSTED, ids=lambda item: f"{item['type']} {item['status']}")
def test_openai_gets_no_call_that_has_not_finished(hosted: dict[str, Any]) -> None:
    read = from_responses([HI_ITEM, _reasoning(1), SAID, _reasoning(2), hosted, HI_ITEM])
    assert _openai(read) == (
        [HI_ITEM, _reasoning(1), SAID, HI_ITEM],
        [(1, "call_without_result"), (1, "reasoning")],
    )
    assert to_responses(read, repair=False)[4] == hosted, "a record has all that was said"


@pytest.mark.usefixtures("sdks")
@pytest.mark.parametrize("status", ["completed", "failed", None])
def test_openai_gets_calls_that_have_an_outcome(status: str | None) -> None:
    hosted = _item("mcp_call", status, name="route", arguments="{}", server_label="maps", output="left")
    items = [HI_ITEM, _reasoning(1), hosted, SAID, HI_ITEM]
    assert _openai(from_responses(items)) == (items, [])


@pytest.mark.usefixtures("sdks")
def test_reasoning_goes_with_the_call_that_it_led_to() -> None:
    search = HOSTED[0]
    read = from_responses([HI_ITEM, _reasoning(1), search, _reasoning(2), SAID])
    assert _openai(read) == ([HI_ITEM, _reasoning(2), SAID], [(1, "call_without_result"), (1, "reasoning")])
    read = from_responses([HI_ITEM, _reasoning(1), search, SAID])
    assert _openai(read) == ([HI_ITEM, _reasoning(1), SAID], [(1, "call_without_result")])
    read = from_responses([HI_ITEM, _reasoning(1), search, HI_ITEM])
    assert _openai(read) == ([HI_ITEM, HI_ITEM], [(1, "call_without_result"), (1, "blank")])


@pytest.mark.parametrize("write", [to_anthropic, to_gemini, to_openai, to_responses])
def test_a_call_that_a_page_says_its_provider_runs_is_one_like_any_other(write: Any) -> None:
    part = {
        **{"type": "tool-search", "toolCallId": "t1", "state": "input-available", "input": {}},
        "providerExecuted": True,
    }
    said = from_ai_sdk([{"id": "1", "role": "assistant", "parts": [part]}])
    found: list[Repair] = []
    write([HI, *said, HI], found.append)
    assert [(repair.position, repair.reason) for repair in found] == [(1, "call_without_result")]


@pytest.mark.usefixtures("sdks")
@pytest.mark.django_db(transaction=True)
def test_a_conversation_goes_on_after_an_answer_that_paused() -> None:
    conversation = Conversation.objects.create()
    conversation.memory.add(HI, _claude(TEXT, SEARCH), HI, AiMessage("y"), HI)
    told: list[Repair] = []

    def receive(repairs: list[Repair], **kwargs: Any) -> None:
        told.extend(repairs)

    memory_repaired.connect(receive)
    request = conversation.memory.to_format("anthropic")
    memory_repaired.disconnect(receive)
    assert_anthropic_accepts(request)
    assert [turn["content"] for turn in request["messages"]] == ["Hi", "x", "Hi", "y", "Hi"]
    assert [(repair.position, repair.reason) for repair in told] == [(1, "call_without_result")]
