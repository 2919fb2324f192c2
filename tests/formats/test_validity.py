"""Whatever a memory holds, providers accept what is sent, and what was changed is said."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
)
from chatmemory.formats import UnsupportedContentError
from chatmemory.formats.anthropic import from_anthropic, to_anthropic
from chatmemory.formats.gemini import from_gemini, to_gemini
from chatmemory.formats.openai import from_openai, to_openai
from chatmemory.formats.responses import from_responses, to_responses
from chatmemory.formats.validity import Names, Repair, Rules, make_valid
from tests.support import budget
from tests.support.provider_messages import provider_answers, sent_media
from tests.support.provider_rules import (
    assert_anthropic_accepts,
    assert_gemini_accepts,
    assert_openai_accepts,
    assert_responses_accept,
)
from tests.support.strategies import messages, texts, tool_groups

LENIENT = Rules(ids=Names(None, 40), unique_ids=False, tool_names=Names(None, 64))
STRICT = Rules(
    ids=Names(r"[^a-z0-9_]", 8),
    unique_ids=True,
    tool_names=Names(r"[^a-z]", 5),
    user_names=Names(r"\s", 5),
    object_arguments=True,
    blank_texts=False,
    text_errors=True,
    user_first=True,
    says_nothing=lambda message: not message.text,
)
IMAGE = ImageContent("https://x/a.png")
WRITERS = [to_openai, to_responses, to_anthropic, to_gemini]


def _call(*ids: str | None, name: str = "now", arguments: str = "{}") -> AiMessage:
    return AiMessage(None, [ToolExecutionRequest(id, name, arguments) for id in ids])


def _result(id: str | None, text: str = "noon", is_error: bool | None = None) -> ToolExecutionResultMessage:
    return ToolExecutionResultMessage(id, "now", text, is_error=is_error)


def _missing(id: str, name: str = "now") -> ToolExecutionResultMessage:
    return ToolExecutionResultMessage(id, name, "(No result: this tool call was not completed.)", is_error=True)


HI = UserMessage("Hi")
OK = AiMessage("OK")
BEGINNING = UserMessage("(The beginning of this conversation is not included.)")

Case = tuple[list[ChatMessage], list[ChatMessage], list[tuple[int, str]]]
"""Messages, what becomes of them, and the repairs."""


def _unchanged(*messages: ChatMessage) -> Case:
    return list(messages), list(messages), []


PAIRED: dict[str, Case] = {
    "nothing": ([], [], []),
    "whole": _unchanged(HI, _call("a", "b"), _result("b"), _result("a"), OK),
    "no call": ([_result("a"), HI], [HI], [(0, "result_without_call")]),
    "result before its call": (
        [_result("a"), _call("a")],
        [_call("a"), _missing("a")],
        [(0, "result_without_call"), (1, "call_without_result")],
    ),
    "answered twice": (
        [_call("a"), _result("a", "1"), _result("a", "2")],
        [_call("a"), _result("a", "1")],
        [(2, "result_without_call")],
    ),
    "no result": ([HI, _call("a"), OK], [HI, _call("a"), _missing("a"), OK], [(1, "call_without_result")]),
    "one of two results": (
        [_call("a", "b"), _result("b"), HI],
        [_call("a", "b"), _result("b"), _missing("a"), HI],
        [(0, "call_without_result")],
    ),
    "result too late": (
        [_call("a"), HI, OK, _result("a")],
        [_call("a"), _result("a"), HI, OK],
        [(3, "result_not_after_call")],
    ),
    "result behind one that is left out": (
        [_call("a"), _result("x"), _result("a")],
        [_call("a"), _result("a")],
        [(1, "result_without_call")],
    ),
    "results of two messages, mixed": (
        [_call("a"), _call("b"), _result("a"), _result("b")],
        [_call("a"), _result("a"), _call("b"), _result("b")],
        [(2, "result_not_after_call")],
    ),
    "an ID used again": _unchanged(_call("a"), _result("a", "1"), _call("a"), _result("a", "2")),
    "an ID twice in a message": (
        [_call("a", "a"), _result("a", "1"), _result("a", "2")],
        [_call("a", "call_0"), _result("a", "1"), _result("call_0", "2")],
        [(0, "tool_call_id")],
    ),
    "no IDs": (
        [_call(None, ""), _result(None, "1"), _result("", "2"), _call(None), _result(None, "3")],
        [
            _call("call_0", "call_1"),
            _result("call_0", "1"),
            _result("call_1", "2"),
            _call("call_2"),
            _result("call_2", "3"),
        ],
        [(0, "tool_call_id"), (0, "tool_call_id"), (3, "tool_call_id")],
    ),
    "a made-up ID is nobody else's": (
        [_call(None), _result(None), _call("call_0"), _result("call_0")],
        [_call("call_0"), _result("call_0"), _call("call_1"), _result("call_1")],
        [(0, "tool_call_id"), (2, "tool_call_id")],
    ),
    "a long ID": (
        [_call("a" * 41), _result("a" * 41)],
        [_call("a" * 40), _result("a" * 40)],
        [(0, "tool_call_id")],
    ),
}

DEMANDED: dict[str, Case] = {
    "an ID used again": (
        [HI, _call("a"), _result("a", "1"), _call("a"), _result("a", "2")],
        [HI, _call("a"), _result("a", "1"), _call("call_0"), _result("call_0", "2")],
        [(3, "tool_call_id")],
    ),
    "an ID with what is not allowed": (
        [HI, _call("a.b", "a:b", "a_b"), _result("a:b", "1"), _result("a.b", "2"), _result("a_b", "3")],
        [HI, _call("call_0", "call_1", "a_b"), _result("call_1", "1"), _result("call_0", "2"), _result("a_b", "3")],
        [(1, "tool_call_id"), (1, "tool_call_id")],
    ),
    "a tool's name": (
        [HI, _call("a", name="Get it"), _result("a")],
        [HI, _call("a", name="_et_i"), _result("a")],
        [(1, "name")],
    ),
    "a user's name": ([UserMessage("Hi", name="Ann B")], [UserMessage("Hi", name="Ann_B")], [(0, "name")]),
    "arguments": (
        [HI, _call("a", arguments='["x"'), _result("a")],
        [HI, _call("a", arguments='{"arguments":"[\\"x\\""}'), _result("a")],
        [(1, "arguments")],
    ),
    "no arguments": _unchanged(HI, _call("a", arguments=" "), _result("a")),
    "a blank message": ([UserMessage(" ")], [UserMessage("(empty)")], [(0, "blank")]),
    "a blank part": (
        [UserMessage([TextContent("\n"), IMAGE])],
        [UserMessage([IMAGE])],
        [(0, "blank")],
    ),
    "a blank answer": ([HI, AiMessage(""), HI], [HI, HI], [(1, "blank")]),
    "no output": _unchanged(HI, _call("a"), _result("a", "")),
    "an error without output": (
        [HI, _call("a"), _result("a", "", is_error=True)],
        [HI, _call("a"), _result("a", "(no output)", is_error=True)],
        [(2, "blank")],
    ),
    "an error with an image": (
        [HI, _call("a"), ToolExecutionResultMessage("a", "now", contents=[IMAGE], is_error=True)],
        [
            HI,
            _call("a"),
            ToolExecutionResultMessage("a", "now", contents=[TextContent("(This is an error.)"), IMAGE]),
        ],
        [(2, "error_content")],
    ),
    "an answer first": ([SystemMessage("S"), OK], [SystemMessage("S"), BEGINNING, OK], [(1, "first_turn")]),
    "several things, in order": (
        [AiMessage(""), _result("x"), HI],
        [HI],
        [(0, "blank"), (1, "result_without_call")],
    ),
    "an answer first once blank ones are gone": (
        [AiMessage(""), HI, OK],
        [HI, OK],
        [(0, "blank")],
    ),
    "nothing is left before a system message": (
        [AiMessage(""), SystemMessage("S")],
        [SystemMessage("S"), BEGINNING],
        [(0, "blank"), (2, "first_turn")],
    ),
    "a blank system message": ([SystemMessage("\u00a0"), HI], [HI], [(0, "blank")]),
    "only a system message": ([SystemMessage("S")], [SystemMessage("S"), BEGINNING], [(1, "first_turn")]),
    "nothing": ([], [BEGINNING], [(0, "first_turn")]),
}


def _check(case: Case, rules: Rules) -> None:
    given, expected, repairs = case
    valid = make_valid(given, rules)
    assert valid.messages == expected
    assert [(repair.position, repair.reason) for repair in valid.repairs] == repairs
    assert len(valid.positions) == len(expected)
    assert make_valid(valid.messages, rules).repairs == []


@pytest.mark.parametrize("case", PAIRED.values(), ids=PAIRED.keys())
def test_calls_and_results(case: Case) -> None:
    _check(case, LENIENT)


@pytest.mark.parametrize("case", DEMANDED.values(), ids=DEMANDED.keys())
def test_demands(case: Case) -> None:
    _check(case, STRICT)


def test_positions_are_of_what_was_given() -> None:
    valid = make_valid([_result("x"), _call("a"), HI, _result("a"), OK], STRICT)
    assert valid.messages == [BEGINNING, _call("a"), _result("a"), HI, OK]
    assert valid.positions == [1, 1, 3, 2, 4]


def test_repairs_are_sentences() -> None:
    (repair,) = make_valid([_call("a")], LENIENT).repairs
    assert repair.what == "A tool call without a result was given one that says so."


@pytest.mark.parametrize("write", WRITERS)
def test_no_message(write: Any) -> None:
    with pytest.raises(TypeError, match=r"messages\[1\] has the wrong type"):
        write([HI, "x"])


@pytest.mark.parametrize("write", WRITERS)
def test_a_window_that_cut_off_a_call_is_sent_without_its_result(write: Any) -> None:
    memory = MessageWindowChatMemory(max_messages=2)
    for message in [HI, _call("a", "b", "c"), _result("a"), _result("b"), _result("c")]:
        memory.add(message)
    assert memory.messages() == [_result("c")]  # LangChain4j's algorithm leaves it
    found: list[Repair] = []
    write(memory.messages(), found.append)
    assert found[0].reason == "result_without_call"


@pytest.mark.parametrize("write", WRITERS)
def test_errors_count_what_was_given(write: Any) -> None:
    with pytest.raises(UnsupportedContentError, match=r"message 1 \(CUSTOM\)"):
        write([_result("x"), CustomMessage()])


@pytest.mark.usefixtures("sdks")
def test_openai_takes_an_id_again() -> None:
    written = to_openai([_call("a"), _result("a"), _call("a"), _result("a")], pytest.fail)
    assert_openai_accepts(written)


def test_a_record_is_not_repaired() -> None:
    given = [_call("a"), HI, _result("x")]
    assert [data["role"] for data in to_openai(given, repair=False)] == ["assistant", "user", "tool"]


def _few_ids() -> st.SearchStrategy[str | None]:
    return st.sampled_from([None, "", "a", "b", "a.b", "a_b", "call_0", "call.0", "x" * 50, "x" * 70])


def _tools() -> st.SearchStrategy[ChatMessage]:
    """Calls and results that meet by chance."""
    names = st.sampled_from(["", "now", "fs.read", "x" * 200])
    arguments = st.none() | st.sampled_from(["", "{}", "[1]", "no", '{"a": 1e999}', '{"a": "\\ud800"}', '{"a": NaN}'])
    requests = st.builds(ToolExecutionRequest, _few_ids(), names, arguments)
    parts = st.sampled_from([TextContent(""), TextContent(" "), TextContent("x"), IMAGE])
    return st.one_of(
        st.builds(AiMessage, st.none() | st.sampled_from(["", " ", "x\n"]), st.lists(requests, max_size=3)),
        st.builds(ToolExecutionResultMessage, _few_ids(), names, st.sampled_from(["", " ", "x"])),
        st.builds(
            ToolExecutionResultMessage,
            _few_ids(),
            names,
            contents=st.lists(parts, min_size=1, max_size=2),
            is_error=st.none() | st.booleans(),
        ),
        st.builds(UserMessage, st.lists(parts, min_size=1, max_size=2), name=st.sampled_from([None, "a b", "x" * 99])),
        st.builds(SystemMessage, st.sampled_from(["S", "\u00a0"])),
        provider_answers(),
    )


def _memories() -> st.SearchStrategy[list[ChatMessage]]:
    """Any messages, whole exchanges among them, cut anywhere."""
    groups = st.one_of(
        _tools().map(lambda message: [message]),
        messages().map(lambda message: [message]),
        tool_groups(),
        st.builds(lambda text: [UserMessage(text)], texts(max_size=5)),
    )
    whole = st.lists(groups, max_size=5).map(lambda groups: [message for group in groups for message in group])
    return st.lists(_tools(), max_size=8) | st.tuples(whole, st.integers(0, 3)).map(lambda cut: cut[0][cut[1] :])


def _written(write: Any, given: list[ChatMessage]) -> tuple[Any, list[Repair]]:
    """What is written, None if the format cannot express a message, and the repairs."""
    found: list[Repair] = []
    with contextlib.suppress(UnsupportedContentError):
        written = write(given, found.append)
        assert written == write(given)
        return written, found
    return None, []


FORMATS = pytest.mark.parametrize(
    ("write", "accept", "read"),
    [
        (to_openai, assert_openai_accepts, from_openai),
        (to_responses, assert_responses_accept, from_responses),
        (to_anthropic, assert_anthropic_accepts, from_anthropic),
        (to_gemini, assert_gemini_accepts, from_gemini),
    ],
    ids=["openai", "responses", "anthropic", "gemini"],
)


@pytest.mark.slow
@pytest.mark.usefixtures("sdks")
@FORMATS
@settings(max_examples=budget.examples(200))
@given(_memories())
def test_providers_accept_any_memory(write: Any, accept: Any, read: Any, given: list[ChatMessage]) -> None:
    written, _ = _written(write, given)
    if written is not None:
        accept(written)
        accept(write(read(written)))


@pytest.mark.slow
@pytest.mark.usefixtures("sdks")
@FORMATS
@settings(max_examples=budget.examples(100))
@given(sent_media())
def test_media_are_accepted_and_read_or_refused(write: Any, accept: Any, read: Any, message: ChatMessage) -> None:
    written, _ = _written(write, [message])
    if written is not None:
        accept(written)
        assert write(read(written)) == written


@pytest.mark.parametrize(
    ("write", "read", "arguments", "text", "is_error"),
    [
        (to_openai, from_openai, ["{}", "{}", '{ "a": 1e2 }'], "", None),
        (to_responses, from_responses, ["{}", "{}", '{ "a": 1e2 }'], None, None),
        (to_anthropic, from_anthropic, ["{}", "{}", '{"a":100.0}'], None, False),
        (to_gemini, from_gemini, ["{}", "{}", '{"a":100.0}'], None, None),
    ],
    ids=["openai", "responses", "anthropic", "gemini"],
)
def test_small_things_that_do_not_come_back(
    write: Any, read: Any, arguments: list[str], text: str | None, is_error: bool | None
) -> None:
    requests = [
        ToolExecutionRequest(id, "now", given) for id, given in zip("abc", [None, " ", '{ "a": 1e2 }'], strict=True)
    ]
    results = [_result(id, is_error=False) for id in "abc"]
    _, answer, *read_results = read(write([HI, AiMessage("", requests), *results], pytest.fail))
    assert [request.arguments for request in answer.tool_execution_requests] == arguments
    assert answer.text == text
    assert {result.is_error for result in read_results} == {is_error}


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ([UserMessage(" ")], "Blank text became (empty)."),
        ([UserMessage([TextContent(" "), TextContent("x")])], "Blank text was left out."),
        ([HI, _call("a"), _result("a", " ")], "Blank text was left out."),
        ([HI, _call("a"), _result("a", " ", is_error=True)], "Blank text became (no output)."),
    ],
)
def test_a_repair_says_what_became_of_a_blank_text(given: list[ChatMessage], what: str) -> None:
    repairs: list[Repair] = []
    to_anthropic(given, repairs.append)
    assert [repair.what for repair in repairs] == [what]


def _is_of(repair: Repair, message: ChatMessage) -> bool:
    """Whether a message can need a repair."""
    match repair.reason:
        case "call_without_result" | "result_without_call" if "runs at the provider" in repair.what:
            return isinstance(message, AiMessage) and bool(message.attributes)
        case "tool_call_id" | "arguments" | "call_without_result":
            return isinstance(message, AiMessage) and bool(message.tool_execution_requests)
        case "result_without_call" | "result_not_after_call" | "error_content":
            return isinstance(message, ToolExecutionResultMessage)
        case "name" if isinstance(message, UserMessage):
            return message.name is not None
        case "name":
            return isinstance(message, AiMessage)
        case "trailing_space":
            return isinstance(message, AiMessage) and message.text != (message.text or "").rstrip()
        case "reasoning":
            return isinstance(message, AiMessage) and bool(message.attributes)
        case "blank":
            return not isinstance(message, CustomMessage)
    return True


@pytest.mark.slow
@FORMATS
@settings(max_examples=budget.examples(100))
@given(_memories())
def test_repairs_come_in_order_and_name_what_was_changed(
    write: Any, accept: Any, read: Any, given: list[ChatMessage]
) -> None:
    _, repairs = _written(write, given)
    positions = [repair.position for repair in repairs]
    assert positions == sorted(positions)
    for repair in repairs:
        if repair.reason == "first_turn":
            assert all(isinstance(message, SystemMessage) for message in given[: repair.position]) or any(
                other.position < repair.position for other in repairs
            )
        else:
            assert _is_of(repair, given[repair.position])


@pytest.mark.slow
@settings(max_examples=budget.examples(100))
@given(_memories())
def test_nothing_that_can_be_sent_is_left_out(given: list[ChatMessage]) -> None:
    valid = make_valid(given, STRICT)
    kept = [position for position in range(len(given)) if position in valid.positions]
    gone = {repair.position for repair in valid.repairs if repair.reason in ("result_without_call", "blank")}
    assert set(range(len(given))) - set(kept) <= gone


@pytest.mark.slow
@settings(max_examples=budget.examples(100))
@given(_memories(), st.sampled_from([LENIENT, STRICT]))
def test_what_is_valid_is_not_changed(given: list[ChatMessage], rules: Rules) -> None:
    valid = make_valid(given, rules)
    again = make_valid(valid.messages, rules)
    assert again.messages == valid.messages
    assert again.repairs == []
    if not valid.repairs:
        assert valid.messages == given
