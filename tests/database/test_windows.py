"""Windows with a low-water mark, whole turns, pins and cleared tool results, in the database, beside a second model."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from django.db import transaction
from django.test import override_settings
from hypothesis import given, note
from hypothesis import strategies as st

from chatmemory import (
    AiMessage,
    ChatMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
    messages_to_json,
)
from chatmemory.core.entries import EvictionReason
from chatmemory.database.change import WindowTrial
from chatmemory.models import Conversation, Message
from chatmemory.stores import DjangoChatMemoryStore
from chatmemory.verification import verify
from tests.database.test_conversations import check_invariants
from tests.support.naive_window import NaiveWindow, Step
from tests.support.short_messages import message_of, short
from tests.support.window_cases import (
    batches_of,
    calls_of,
    examples,
    left_behind,
    memory_of,
    naive_settings,
    ops,
    perform,
    said,
    windows,
)
from tests.vectors import load

pytestmark = pytest.mark.django_db

SCENARIOS = load("windows")["scenarios"]


def conversation_of(window: dict[str, Any]) -> Conversation:
    return Conversation.objects.create(model="gpt-4o", **window)


def retained(conversation: Conversation, message: ChatMessage) -> Message:
    """The row of a message in the memory."""
    rows = [row for row in conversation.messages.retained() if row.message == message]
    assert len(rows) == 1
    return rows[0]


def do(conversation: Conversation, op: dict[str, Any], message: ChatMessage | None, given: list[ChatMessage]) -> Any:
    """One step on the memory of a row. ``message`` is the one to pin, ``given`` are those to add or set."""
    memory = conversation.memory
    match op["op"]:
        case "add":
            return memory.add(*given)
        case "set":
            return memory.set(given)
        case "clear":
            return memory.clear()
        case "pin" if message is not None:
            return memory.pin(retained(conversation, message).position)
        case "unpin" if message is not None:
            return memory.unpin(retained(conversation, message).position)
        case "clear_tool_results":
            arguments = ("keep", "exclude_tools", "placeholder")
            return memory.clear_tool_results(**{name: op[name] for name in arguments if name in op})
        case "set_window":
            return memory.set_window(**op["settings"])
    raise AssertionError(f"no such step: {op}")


def left_by(change: Any) -> Counter[tuple[str, str]]:
    return Counter((messages_to_json([row.message]), row.eviction_reason) for row in change.evicted)


def left_of(step: Step) -> Counter[tuple[str, str]]:
    return Counter((messages_to_json([message]), reason) for message, reason in step.left)


def counted(gone: list[tuple[Message, EvictionReason]]) -> Counter[tuple[str, str]]:
    return Counter((messages_to_json([row.message]), reason.value) for row, reason in gone)


def stored(conversation: Conversation) -> list[ChatMessage]:
    return [row.message for row in conversation.messages.retained()]


def check_past(conversation: Conversation, past: dict[int, list[ChatMessage]]) -> None:
    """Every version's memory can still be had, the rows agree with the counters, and placeholders with originals."""
    for version, messages in past.items():
        assert conversation.memory.at(version) == messages
    check_invariants(conversation)
    assert list(verify()) == []
    rows = {row.position: row for row in conversation.messages.all()}
    for row in rows.values():
        if row.origin == "cleared":
            original = rows[row.covers_from]
            assert row.covers_from == row.covers_to
            assert isinstance(original.message, ToolExecutionResultMessage)
            assert (original.eviction_reason, original.evicted_in) == ("tool_cleared", row.added_in)
            assert original.memory_order == row.memory_order
        elif row.origin == "said":
            assert (row.covers_from, row.covers_to) == (None, None)
    cleared = [row for row in rows.values() if row.eviction_reason == "tool_cleared"]
    assert len(cleared) == sum(row.origin == "cleared" for row in rows.values())


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=[scenario["name"] for scenario in SCENARIOS])
def test_vectors(scenario: dict[str, Any]) -> None:
    conversation = conversation_of(scenario["window"])
    past: dict[int, list[ChatMessage]] = {0: []}
    for number, step in enumerate(scenario["steps"]):
        where = number, step
        message = message_of(step["message"]) if "message" in step else None
        given = [message_of(item) for item in step.get("messages", ())]
        if step.get("refused"):
            before = conversation.version
            with pytest.raises(ValueError, match="more than half"):
                do(conversation, step, message, given)
            conversation.refresh_from_db()
            assert conversation.version == before
            continue
        change = do(conversation, step, message, given)
        assert list(map(short, conversation.memory.messages())) == step["memory"], where
        left = Counter((messages_to_json([message_of(item)]), reason) for item, reason in step.get("left", ()))
        assert left_by(change) == left, where
        assert change.memory.version == step["version"], where
        past[step["version"]] = list(map(message_of, step.get("stored", step["memory"])))
    check_past(conversation, past)


@pytest.mark.slow
@examples(30)
@given(window=windows(), steps=ops())
def test_any_conversation(window: dict[str, Any], steps: list[dict[str, Any]]) -> None:
    with transaction.atomic():
        conversation, model = conversation_of(window), NaiveWindow(naive_settings(window))
        past: dict[int, list[ChatMessage]] = {0: []}
        for op in steps:
            compare(conversation, model, op, past)
        check_past(conversation, past)
        transaction.set_rollback(True)


@pytest.mark.slow
@examples(30)
@given(window=windows(), steps=ops(most=20))
def test_any_conversation_one_by_one(window: dict[str, Any], steps: list[dict[str, Any]]) -> None:
    with transaction.atomic():
        conversation, model = conversation_of(window), NaiveWindow(naive_settings(window))
        past: dict[int, list[ChatMessage]] = {0: []}
        for op in steps:
            each = [op | {"messages": [message]} for message in op["messages"]] if op["op"] == "add" else [op]
            for one in each:
                compare(conversation, model, one, past)
        check_past(conversation, past)
        transaction.set_rollback(True)


@pytest.mark.slow
@examples(20)
@given(window=windows(), messages=said(), data=st.data())
def test_memories_over_the_store(window: dict[str, Any], messages: list[ChatMessage], data: Any) -> None:
    """A memory as in LangChain4j, whose store is the database."""
    with transaction.atomic():
        memory, model = memory_of(window, DjangoChatMemoryStore()), NaiveWindow(naive_settings(window))
        for batch in data.draw(batches_of(messages)):
            memory.add(*batch)
            assert messages_to_json(memory.messages()) == messages_to_json(model.add(*batch).memory)
        transaction.set_rollback(True)


@pytest.mark.slow
@override_settings(CHATMEMORY={"KEEP_HISTORY": False})
@examples(20)
@given(window=windows(), steps=ops())
def test_any_conversation_without_history(window: dict[str, Any], steps: list[dict[str, Any]]) -> None:
    with transaction.atomic():
        conversation, model = conversation_of(window), NaiveWindow(naive_settings(window))
        for op in steps:
            step, op = perform(model, op)
            if step is not None:
                do(conversation, op, op.get("message"), op.get("messages", []))
                assert conversation.memory.messages() == step.memory
        assert list(verify()) == []
        assert conversation.messages.count() == len(model.items)
        transaction.set_rollback(True)


def compare(
    conversation: Conversation, model: NaiveWindow, op: dict[str, Any], past: dict[int, list[ChatMessage]]
) -> None:
    """Do a step on both, and see that the same came of it."""
    step, op = perform(model, op)
    note(f"{op} -> {step and [step.memory, step.left]}")
    message, given = op.get("message"), op.get("messages", [])
    if step is None:
        if op["op"] != "nothing":
            with pytest.raises(ValueError, match="more than half"):
                do(conversation, op, message, given)
        return
    trial, calls = tried(conversation, op), calls_of(conversation)
    change = do(conversation, op, message, given)
    assert op["op"] == "set" or not left_behind(conversation, calls)
    check_step(conversation, change, step)
    past[step.version] = step.stored
    if trial is not None and (step.came or op["op"] == "set_window"):
        assert [row.message for row in trial.retained] == step.stored
        assert counted(trial.evicted) == left_of(step)


def tried(conversation: Conversation, op: dict[str, Any]) -> WindowTrial | None:
    """What was said beforehand that a step would do; None if nothing can be said."""
    memory = conversation.memory
    if op["op"] == "set_window":
        return memory.try_window(**op["settings"])
    try:
        return memory.try_window(messages=op["messages"]) if op["op"] == "add" else None
    except ValueError:  # by now the pinned messages are too large to pin them
        return None


def check_step(conversation: Conversation, change: Any, step: Step) -> None:
    assert messages_to_json(conversation.memory.messages()) == messages_to_json(step.memory)
    assert stored(conversation) == step.stored
    assert left_by(change) == left_of(step)
    assert change.memory.version == step.version
    assert change.memory.messages == len(step.stored)


def test_the_tools_to_leave_out_may_come_from_an_iterator() -> None:
    conversation = Conversation.objects.create(window="messages", limit=20)
    for id in "ab":
        conversation.memory.add(UserMessage("Q"), AiMessage(None, [ToolExecutionRequest(id, "look_up", "{}")]))
        conversation.memory.add(ToolExecutionResultMessage(id, "look_up", "word " * 50), AiMessage("A"))
    conversation.memory.add(UserMessage("Q"))
    assert conversation.memory.clear_tool_results(0, iter(["look_up"])).evicted == []  # type: ignore[arg-type]
    assert len(conversation.memory.clear_tool_results(0).evicted) == 2
    with pytest.raises(TypeError):
        conversation.memory.clear_tool_results(0, None)  # type: ignore[arg-type]
