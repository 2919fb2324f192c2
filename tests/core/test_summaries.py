"""What a window does with summaries: those of a conversation, and those that a model's API put into an answer."""

from __future__ import annotations

import pytest

from chatmemory import (
    AiMessage,
    ChatMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.core.entries import Entry
from chatmemory.core.eviction import Retained
from chatmemory.core.summaries import first_kept
from chatmemory.core.window import Window, WindowKind
from chatmemory.formats.anthropic import from_anthropic
from chatmemory.formats.responses import from_responses

SYSTEM = SystemMessage("Be kind.")
SUMMARY = UserMessage("<summary>\nTea.\n</summary>")
BY_ANTHROPIC = from_anthropic(
    [{"role": "assistant", "content": [{"type": "compaction", "content": "Tea."}, {"type": "text", "text": "b"}]}]
)[0]
BY_OPENAI = from_responses(
    [
        {"type": "compaction", "id": "c", "encrypted_content": "e"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "b", "annotations": []}]},
    ]
)[0]


def entry(message: ChatMessage, *, pinned: bool = False) -> Entry:
    return Entry(message, 1, pinned=pinned, is_summary=message is SUMMARY)


def fitted(messages: list[ChatMessage], limit: int, **settings: object) -> list[ChatMessage]:
    window = Window(kind=WindowKind.MESSAGES, limit=limit, **settings)  # type: ignore[arg-type]
    return [each.message for each in Retained.fit([entry(message) for message in messages], window).entries()]


def turns(count: int) -> list[ChatMessage]:
    return [each for turn in range(count) for each in (UserMessage(f"q{turn}"), AiMessage(f"a{turn}"))]


@pytest.mark.parametrize("low_water", [100, 50])
@pytest.mark.parametrize("whole_turns", [False, True])
def test_a_summary_outlives_the_turns_behind_it(low_water: int, whole_turns: bool) -> None:
    left = fitted([SYSTEM, SUMMARY, *turns(5)], 6, low_water=low_water, whole_turns=whole_turns)
    assert left[:2] == [SYSTEM, SUMMARY]
    assert left[-2:] == turns(5)[-2:]
    assert len(left) <= 6


@pytest.mark.parametrize("whole_turns", [False, True])
def test_a_summary_leaves_before_the_turn_under_way(whole_turns: bool) -> None:
    assert fitted([SYSTEM, SUMMARY, *turns(2)], 3, whole_turns=whole_turns) == [SYSTEM, *turns(2)[2:]]


def test_no_mark_takes_a_summary_that_fits() -> None:
    assert fitted([SUMMARY, *turns(3)], 4, low_water=25) == [SUMMARY, *turns(3)[4:]]


def test_the_system_message_behind_a_summary_is_protected_as_ever() -> None:
    assert fitted([SUMMARY, SYSTEM, *turns(3)], 4)[:2] == [SUMMARY, SYSTEM]


@pytest.mark.parametrize("answer", [BY_ANTHROPIC, BY_OPENAI], ids=["anthropic", "openai"])
@pytest.mark.parametrize("whole_turns", [False, True])
class TestSummariesOfProviders:
    def test_what_they_stand_for_leaves_before_them(self, answer: ChatMessage, whole_turns: bool) -> None:
        memory = [SYSTEM, *turns(3), UserMessage("go on"), answer, *turns(4)]
        left = fitted(memory, 6, whole_turns=whole_turns)
        assert left == [SYSTEM, answer, *turns(4)[-4:]]

    def test_only_the_last_one_is_needed(self, answer: ChatMessage, whole_turns: bool) -> None:
        memory = [UserMessage("one"), answer, UserMessage("two"), answer, *turns(2)]
        assert fitted(memory, 5, whole_turns=whole_turns) == [answer, *turns(2)]

    def test_they_leave_before_the_turn_under_way(self, answer: ChatMessage, whole_turns: bool) -> None:
        assert fitted([UserMessage("one"), answer, *turns(1)], 2, whole_turns=whole_turns) == turns(1)

    def test_results_of_a_call_beside_one_stay_with_it(self, answer: ChatMessage, whole_turns: bool) -> None:
        assert isinstance(answer, AiMessage)
        call = AiMessage("", [ToolExecutionRequest("1", "look", "{}")], attributes=answer.attributes)
        result = ToolExecutionResultMessage("1", "look", "leaf")
        assert fitted([UserMessage("one"), call, result, *turns(2)], 4, whole_turns=whole_turns) == [
            call,
            result,
            *turns(2)[2:],
        ]


class TestWhatStays:
    def test_as_many_whole_turns_as_there_is_room_for(self) -> None:
        entries = [entry(message) for message in [SYSTEM, SUMMARY, *turns(5)]]
        assert [first_kept(entries, most) for most in (0, 2, 3, 4, 9, 10, 100)] == [10, 10, 10, 8, 4, 2, 2]

    def test_a_summary_begins_no_turn(self) -> None:
        assert first_kept([entry(SUMMARY), entry(AiMessage("a"))], 100) == 0
