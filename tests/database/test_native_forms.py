"""Another framework's form of a message stays with it, through whatever happens to the memory."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db.models import QuerySet

from chatmemory import AiMessage, SystemMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.contrib.native_memory import NativeMemory
from chatmemory.database.new_messages import NativeForms
from chatmemory.models import Conversation, Message
from chatmemory.personal_data import erase_user
from chatmemory.transfer.export import conversation_lines
from tests.support.factories import UserFactory

pytestmark = pytest.mark.django_db

A, B = UserMessage("a"), AiMessage("b")
ODD = {"id": "x", "raw": "\x00 \ud800 é", "deep": [1, {"k": None}]}


def _memory(memory_id: str = "m", framework: str = "fw", **more: Any) -> NativeMemory:
    return NativeMemory(framework, memory_id, **more)


def _retained(memory: NativeMemory) -> list[Message]:
    return list(memory.messages.retained())


def _forms(rows: QuerySet[Message] | list[Message], framework: str = "fw") -> list[Any]:
    return [row.native_of(framework) for row in rows]


class TestAdd:
    def test_gives_the_form_back_as_it_was(self) -> None:
        memory = _memory()
        memory.add([A, B], [ODD, None])
        assert _forms(_retained(memory)) == [ODD, None]
        assert [row.message for row in _retained(memory)] == [A, B]

    def test_a_form_of_one_framework_is_none_to_another(self) -> None:
        memory = _memory()
        memory.add([A], [ODD])
        assert _forms(_retained(memory), "other") == [None]

    def test_stays_with_what_is_evicted(self) -> None:
        memory = _memory(window="messages", limit=2)
        for number in range(5):
            memory.add([UserMessage(str(number))], [number])
        assert _forms(memory.messages.history()) == [0, 1, 2, 3, 4]
        assert _forms(_retained(memory)) == [3, 4]

    @pytest.mark.parametrize("form", [float("nan"), {"x": {1, 2}}])
    def test_what_is_no_json_adds_nothing(self, form: Any) -> None:
        memory = _memory()
        with pytest.raises((ValueError, TypeError)):
            memory.add([A, B], [None, form])
        assert _retained(memory) == []

    def test_one_form_for_each_message(self) -> None:
        with pytest.raises(ValueError, match="argument 2 is shorter"):
            _memory().add([A, B], [None])

    def test_is_of_the_owner_alone(self) -> None:
        one, other = UserFactory(), UserFactory()
        _memory(owner=one).add([A], [1])
        assert _retained(_memory(owner=other)) == _retained(_memory()) == []
        assert _forms(_retained(_memory(owner=one))) == [1]


class TestSet:
    def test_a_row_stays_if_message_and_form_are_the_same(self) -> None:
        memory = _memory()
        memory.add([A, B], [{"x": 1, "y": 2}, None])
        first, second = _retained(memory)
        memory.set([A, B], [{"y": 2, "x": 1}, {"new": True}])
        kept, replaced = _retained(memory)
        assert (kept.pk, replaced.native_of("fw")) == (first.pk, {"new": True})
        assert replaced.pk != second.pk

    def test_another_form_of_a_message_is_said_no_second_time(self) -> None:
        memory = _memory()
        memory.add([A, B, B], ["first", "second", "third"])
        conversation = Conversation.objects.get()
        conversation.memory.pin(2)
        memory.set([A, B, B, A], ["first", "second", "changed", None])
        assert _forms(_retained(memory)) == ["first", "second", "changed", None]
        assert [row.message for row in memory.messages.history()] == [A, B, B, A]
        (pinned,) = conversation.messages.pinned()
        assert pinned.native_of("fw") == "changed"
        assert (pinned.origin, pinned.covers_from, pinned.covers_to) == ("copy", 2, 2)
        conversation.refresh_from_db()
        assert conversation.message_count == 4

    def test_a_copy_keeps_the_forms_of_other_frameworks(self) -> None:
        _memory(framework="other").add([A], [ODD])
        memory = _memory()
        memory.set([A], [{"x": 1}])
        (row,) = _retained(memory)
        assert (row.native_of("fw"), row.native_of("other")) == ({"x": 1}, ODD)
        memory.set([A], [None])
        (row,) = _retained(memory)
        assert (row.native_of("fw"), row.native_of("other")) == (None, ODD)

    def test_another_frameworks_form_is_no_difference(self) -> None:
        _memory(framework="other").add([A, B], [ODD, ODD])
        memory = _memory()
        before = _retained(memory)
        memory.set([A, B, UserMessage("c")], [None, None, {"z": 1}])
        assert _retained(memory)[:2] == before
        assert _forms(_retained(memory)) == [None, None, {"z": 1}]

    @pytest.mark.slow
    def test_a_copy_that_makes_room_has_the_form(self) -> None:
        conversation = Conversation.objects.create(memory_id="m", window="messages", limit=500)
        memory = _memory()
        memory.add([A, B], ["first", "last"])
        messages = [A, B]
        for number in range(40):  # always at one spot, until a copy has to make room there
            messages.insert(-1, UserMessage(f"new {number}"))
            conversation.memory.set(messages)
        rows = _retained(memory)
        assert len(rows) == 42
        assert [rows[0].native_of("fw"), rows[-1].native_of("fw")] == ["first", "last"]
        assert [row.message for row in rows] == messages


class TestTakeBack:
    def test_takes_the_last_and_history_keeps_it(self) -> None:
        memory = _memory()
        memory.add([A, B], [1, 2])
        taken = memory.take_back()
        assert taken is not None
        assert (taken.message, taken.native_of("fw")) == (B, 2)
        assert [row.message for row in _retained(memory)] == [A]
        assert [row.eviction_reason for row in memory.messages.history()] == ["", "rewritten"]

    def test_leaves_a_shorter_one_in_its_place(self) -> None:
        memory = _memory()
        system = SystemMessage("s")
        call = AiMessage("b", [ToolExecutionRequest("1", "now", "{}")])
        memory.add([A, call], [None, ["text", "call"]])
        conversation = Conversation.objects.get()
        memory.take_back(lambda row: (B, NativeForms("fw", [row.native_of("fw")[:1]])))
        memory.add([system], [None])
        assert [row.message for row in _retained(memory)] == [A, B, system]
        assert [row.synthetic for row in _retained(memory)] == [False, True, False]
        assert [row.message for row in memory.messages.history()] == [A, call, system]
        assert conversation.memory.at(1) == [A, call]
        conversation.refresh_from_db()
        assert conversation.retained_tokens == sum(row.token_count for row in _retained(memory))

    @pytest.mark.parametrize("add_first", [False, True])
    def test_of_nothing_is_none(self, add_first: bool) -> None:
        memory = _memory()
        if add_first:
            memory.add([A], [None])
            memory.take_back()
        assert memory.take_back() is None


def test_is_exported_and_anonymised_with_the_message() -> None:
    user = UserFactory()
    _memory(owner=user).add([A], [ODD])
    conversation = Conversation.objects.get()
    _, line, _ = conversation_lines([conversation.pk])
    assert json.loads(line)["native"] == {"fw": ODD}
    assert json.loads(line)["message"]["contents"] == [{"text": "a", "type": "TEXT"}]
    erase_user(user, how="anonymise")
    assert Message.objects.get().native is None


def test_tool_results_leave_with_their_call() -> None:
    memory = _memory(window="messages", limit=2)
    call = AiMessage(None, [ToolExecutionRequest("1", "now", "{}")])
    memory.add([call, ToolExecutionResultMessage("1", "now", "noon")], [["fc"], ["out"]])
    memory.add([A], [None])
    assert [row.message for row in _retained(memory)] == [A]
