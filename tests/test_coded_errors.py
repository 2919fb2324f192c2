"""Errors with a code, a template and parameters: whole in every language, and after a journey between processes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from chatmemory import CustomMessage, UserMessage, messages_from_json
from chatmemory.assistant import CallRefusedError, ContextTooLongError, ModelError, Usage, WindowTooSmallError
from chatmemory.branches.going_back import HistoryNotKeptError
from chatmemory.contrib.feedback.giving import NotAnAnswerError
from chatmemory.core.exceptions import (
    CODES,
    CodedError,
    IdempotencyConflictError,
    InvalidMessageError,
    InvalidValueError,
    MemoryTooLargeError,
    NotRetainedError,
    PinnedTooMuchError,
    UnusableSummaryError,
)
from chatmemory.core.json_text import loads
from chatmemory.core.messages import AiMessage, ToolExecutionResultMessage
from chatmemory.core.summaries import check_summary
from chatmemory.database.change import Target
from chatmemory.database.operations.compact import CoveredError, apply_text
from chatmemory.formats import CannotExpressError, UnsupportedContentError
from chatmemory.formats.gemini import to_gemini
from chatmemory.formats.registry import message_format
from chatmemory.models.fields import memory_id_text
from chatmemory.models.message import from_columns
from tests.support.factories import ConversationFactory

IN_GREEK = {"has %(count)s %(what)s": "έχει %(what)s, %(count)s φορές", "holes": "τρύπες"}


def greek(message: str) -> str:
    return IN_GREEK.get(message, message)


class TestText:
    def test_it_is_made_of_the_template_in_each_language(self) -> None:
        error = CodedError("has %(count)s %(what)s", count=2, what=CodedError("holes"))
        assert str(error) == "has 2 holes"
        assert error.text(greek) == "έχει τρύπες, 2 φορές"

    def test_the_items_of_a_list_are_joined(self) -> None:
        assert str(CodedError("one of %(choices)s", choices=["a", "b"])) == "one of a, b"

    def test_percent_signs_in_what_was_sent_stay(self) -> None:
        assert str(CodedError("got %(got)s", got="%(got)s 100%")) == "got %(got)s 100%"
        assert str(CodedError("down to 70 %")) == "down to 70 %"

    def test_half_of_a_surrogate_pair_can_be_printed(self) -> None:
        str(CodedError("got %(got)s", got="\ud800")).encode()
        str(InvalidMessageError("given twice", "\ud800")).encode()

    def test_an_error_about_a_message_has_those_of_the_one_that_it_is_made_of(self) -> None:
        inner = InvalidValueError("at most %(most)s", code="max_value", most=9)
        error = InvalidMessageError(inner, "[0].n")
        assert (str(error), error.code, error.params) == ("[0].n: at most 9", "max_value", {"most": 9})
        error = InvalidMessageError(ValueError("no 100%"), "[0].n")
        assert (str(error), error.code, error.params) == ("[0].n: no 100%", "invalid", {})


COVERED = CoveredError("through is %(through)s", through=3)
ERRORS: list[CodedError] = [
    CodedError("got %(got)s", code="null", got="null"),
    InvalidValueError("at most %(most)s", code="max_value", most=9),
    InvalidMessageError("expected %(what)s", "[0].text", code="invalid_type", what="a string"),
    InvalidMessageError(InvalidValueError("at most %(most)s", code="max_value", most=9), "[0].n"),
    IdempotencyConflictError("key %(key)s", key="k"),
    NotRetainedError("position %(position)s", position=3),
    NotAnAnswerError(3),
    HistoryNotKeptError("the conversation cannot go back"),
    PinnedTooMuchError(6, 10, "messages"),
    MemoryTooLargeError(3, 40, 2, 30),
    UnusableSummaryError("a summary %(problem)s", code="invalid_characters", problem=InvalidMessageError("has U+0000")),
    COVERED,
    CannotExpressError("%(api)s has no such messages", api="Gemini"),
    UnsupportedContentError(CannotExpressError("%(api)s has none", api="Gemini"), 3, CustomMessage({"a": 1})),
    CallRefusedError("You have used up your %(budget)s.", budget="budget"),
    WindowTooSmallError("The window is too small."),
    ModelError("%(name)s broke off.", name="gpt", usage=Usage(input_tokens=3)),
    ContextTooLongError("Too long: %(reason)s", used=9, most=8, usage=Usage(input_tokens=3), reason="no"),
]


def subclasses(kind: type) -> Iterator[type]:
    yield kind
    for each in kind.__subclasses__():
        yield from subclasses(each)


def test_each_class_is_among_them() -> None:
    ours = {kind for kind in subclasses(CodedError) if kind.__module__.startswith("chatmemory.")}
    assert {type(error) for error in ERRORS} == ours


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_copy_says_the_same(again: Callable[[CodedError], CodedError], error: CodedError) -> None:
    def told(error: Any) -> Any:
        if isinstance(error, CodedError):
            return (
                type(error),
                {name: told(value) for name, value in vars(error).items()},
                str(error),
                error.text(greek),
            )
        return {name: told(value) for name, value in error.items()} if isinstance(error, dict) else error

    assert told(again(error)) == told(error)


KINDS: dict[str, tuple[Callable[[], Any], str, dict[str, Any]]] = {
    "missing": (lambda: UserMessage(None), "empty", {}),
    "missing too": (lambda: ToolExecutionResultMessage("1", "now"), "required", {}),
    "both": (lambda: ToolExecutionResultMessage("1", "now", "x", contents=UserMessage("x").contents), "repeated", {}),
    "null": (lambda: messages_from_json('[{"type": "SYSTEM"}]'), "null", {"name": "text"}),
    "blank": (lambda: messages_from_json('[{"type": "SYSTEM", "text": " "}]'), "blank", {"name": "text"}),
    "no JSON": (
        lambda: messages_from_json("[%]"),
        "invalid",
        {"error": "Expecting value: line 1 column 2 (char 1)"},
    ),
    "a long number": (lambda: loads("1" * 1_001), "max_length", {"length": 1_001, "most": 1_000}),
    "deep": (lambda: AiMessage("x", attributes={"a": nested(501)}), "invalid", {"most": 500}),
    "a summary of U+0000": (
        lambda: check_summary("a\0"),
        "invalid_characters",
        {"problem": {"character": "0000", "index": 1}},
    ),
    "a blank summary": (lambda: check_summary(" "), "blank", {}),
    "no memory ID": (lambda: memory_id_text(None), "null", {}),
    "an empty memory ID": (lambda: memory_id_text(""), "blank", {}),
    "a long memory ID": (lambda: memory_id_text("%" * 256), "max_length", {"length": 256, "most": 255}),
    "half a memory ID": (lambda: memory_id_text("\ud83d"), "invalid_characters", {"character": "D83D", "index": 0}),
    "no payload": (lambda: from_columns("AI", "x", "[]"), "invalid_type", {}),
    "no such format": (
        lambda: message_format("%s"),
        "invalid_choice",
        {"name": "'%s'", "choices": ["langchain4j", "openai", "openai-responses", "anthropic", "gemini", "ai-sdk"]},
    ),
    "not expressible": (
        lambda: to_gemini([CustomMessage({})]),
        "not_expressible",
        {"index": 0, "type": "CUSTOM", "problem": {"api": "Gemini"}},
    ),
}


def nested(depth: int) -> Any:
    return [nested(depth - 1)] if depth else 1


def params_of(error: CodedError) -> dict[str, Any]:
    return {name: params_of(value) if isinstance(value, CodedError) else value for name, value in error.params.items()}


@pytest.mark.parametrize(("act", "code", "params"), KINDS.values(), ids=KINDS)
def test_it_has_a_code_and_parameters(act: Callable[[], Any], code: str, params: dict[str, Any]) -> None:
    with pytest.raises(CodedError) as raised:
        act()
    error = raised.value
    assert isinstance(error, ValueError)
    assert (error.code, params_of(error)) == (code, params)
    assert code in {*CODES, UnsupportedContentError.code}


@pytest.mark.django_db
class TestOfConversations:
    def test_a_summary_through_nowhere(self) -> None:
        conversation = ConversationFactory()
        conversation.memory.add(UserMessage("a"), AiMessage("b"), UserMessage("c"), AiMessage("d"))
        with pytest.raises(InvalidValueError) as raised:
            apply_text(Target.of(conversation), 2, "Short.")
        assert (raised.value.code, raised.value.params) == ("invalid", {"known": [1], "through": 2})
        assert str(raised.value).endswith("ends, such as 1; it is: 2")

    def test_a_key_that_came_before(self) -> None:
        conversation = ConversationFactory()
        conversation.memory.add(UserMessage("a"), idempotency_key="50%")
        with pytest.raises(IdempotencyConflictError) as raised:
            conversation.memory.add(UserMessage("b"), idempotency_key="50%")
        assert (raised.value.code, raised.value.params) == ("idempotency_key_reused", {"key": "'50%'"})

    def test_a_position_that_is_not_there(self) -> None:
        with pytest.raises(NotRetainedError) as raised:
            ConversationFactory().memory.pin(7)
        assert (raised.value.code, raised.value.params) == ("not_retained", {"position": "7"})

    def test_a_blank_placeholder(self) -> None:
        with pytest.raises(InvalidValueError) as raised:
            ConversationFactory().memory.clear_tool_results(placeholder=" ")
        assert raised.value.code == "blank"
