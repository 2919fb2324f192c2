"""Pins: what they keep, when they are refused, and what they outlive."""

from __future__ import annotations

from typing import Any

import pytest

from chatmemory import AiMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.core.entries import EvictionReason
from chatmemory.core.exceptions import NotRetainedError, PinnedTooMuchError
from chatmemory.database.change import Target
from chatmemory.database.operations.archive import take_back, take_out
from chatmemory.models import Conversation
from chatmemory.verification import verify
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db


def texts(conversation: Conversation) -> list[str]:
    return [row.text for row in conversation.messages.retained()]


def said(count: int, limit: int = 10) -> Conversation:
    conversation = ConversationFactory(window="messages", limit=limit)
    conversation.memory.add(*(UserMessage(str(number)) for number in range(count)))
    return conversation


def test_a_pin_is_a_change_with_a_version_and_leaves_the_memory_as_it_is() -> None:
    conversation = said(3)
    change = conversation.memory.pin(1)
    assert (change.memory.version, conversation.version, conversation.prefix_version) == (2, 2, 0)
    assert (change.added, change.evicted) == ([], [])
    assert conversation.memory.pin(1).memory.version == 2
    assert conversation.memory.unpin(1).memory.version == 3
    assert conversation.memory.unpin(1).memory.version == 3
    conversation.memory.pin(1)
    row = conversation.messages.get(position=1)
    assert [row.was_pinned_at(version) for version in range(6)] == [False, False, True, False, True, True]
    assert row.is_pinned


def test_what_is_pinned_stays_where_it_is() -> None:
    conversation = said(3, limit=3)
    conversation.memory.pin(1)
    conversation.memory.add(*(UserMessage(str(number)) for number in range(3, 8)))
    assert texts(conversation) == ["1", "6", "7"]
    conversation.memory.unpin(1)
    conversation.memory.add(UserMessage("8"))
    assert texts(conversation) == ["6", "7", "8"]
    assert not conversation.messages.get(position=1).is_pinned


@pytest.mark.parametrize("position", [7, -1, None, "1"])
def test_only_a_message_of_the_memory_can_be_pinned(position: object) -> None:
    conversation = said(3, limit=2)
    for change in conversation.memory.pin, conversation.memory.unpin:
        with pytest.raises(NotRetainedError, match="position must be that of a message in the memory"):
            change(position)  # type: ignore[arg-type]
    with pytest.raises(NotRetainedError):
        conversation.memory.pin(0)
    assert conversation.version == 1


def test_pins_over_half_of_the_limit_are_refused_with_the_numbers() -> None:
    conversation = said(5, limit=5)
    conversation.memory.pin(0)
    conversation.memory.pin(1)
    with pytest.raises(PinnedTooMuchError, match=r"would take 3 of 5 messages, more than half; .* at least 6"):
        conversation.memory.pin(2)
    assert [row.position for row in conversation.messages.pinned()] == [0, 1]
    assert conversation.version == 3


def test_a_window_is_refused_only_if_pins_take_a_larger_part_of_it_than_before() -> None:
    conversation = ConversationFactory(window="messages", limit=4)
    conversation.memory.add(UserMessage("Hi"))
    calls = [ToolExecutionRequest(id=name, name=name, arguments="{}") for name in ("a", "b")]
    conversation.memory.add(AiMessage(None, calls))
    conversation.memory.pin(1)
    conversation.memory.add(*(ToolExecutionResultMessage(call.id, call.name, "Yes") for call in calls))
    # The pinned call has two results now: three of four messages.
    assert conversation.memory.set_window(low_water=50).memory.limit == 4
    assert conversation.memory.try_window(messages=[UserMessage("Oh")]).limit == 4
    assert conversation.memory.set_window(limit=5).memory.limit == 5
    with pytest.raises(PinnedTooMuchError, match="3 of 4"):
        conversation.memory.set_window(limit=4)
    with pytest.raises(PinnedTooMuchError, match="3 of 4"):
        conversation.memory.try_window(limit=4)
    assert conversation.limit == 5


def test_a_message_that_is_taken_back_in_part_stays_pinned() -> None:
    conversation = said(2)
    conversation.memory.pin(1)
    take_back(Target.of(conversation), lambda row: (UserMessage("less"), None))  # type: ignore[arg-type, return-value]
    left = conversation.messages.get(position=2)
    assert (left.text, left.is_pinned, left.origin, left.covers_from, left.covers_to) == ("less", True, "rewrite", 1, 1)


def test_unpinning_evicts_what_only_the_pin_kept_over_the_limit() -> None:
    conversation = ConversationFactory(window="tokens", limit=200)
    call = ToolExecutionRequest(id="1", name="read", arguments="{}")
    conversation.memory.add(UserMessage("Read it."), AiMessage(None, [call]))
    conversation.memory.pin(1)
    conversation.memory.add(ToolExecutionResultMessage("1", "read", "long " * 500))
    assert conversation.retained_tokens > 500
    change = conversation.memory.unpin(1)
    assert [(row.position, row.eviction_reason) for row in change.evicted] == [(1, "window"), (2, "orphan")]
    assert change.memory.version == conversation.version == 4
    assert (conversation.retained_count, conversation.retained_tokens) == (0, 0)
    assert conversation.memory.messages() == conversation.memory.at(4) == []
    assert len(conversation.memory.at(3)) == 2
    assert list(verify()) == []


@pytest.mark.parametrize("keep_history", [True, False])
def test_a_pinned_message_that_is_taken_out_keeps_nothing_either(settings: Any, keep_history: bool) -> None:
    settings.CHATMEMORY = {"KEEP_HISTORY": keep_history}
    conversation = ConversationFactory(window="messages", limit=4)
    calls = [ToolExecutionRequest(id=str(number), name="a", arguments="{}") for number in range(6)]
    conversation.memory.add(AiMessage(None, calls))
    conversation.memory.pin(0)
    conversation.memory.add(*(ToolExecutionResultMessage(call.id, "a", call.id) for call in calls))
    assert conversation.memory.set_window(low_water=50).memory.messages == 7
    take_out(Target.of(conversation), lambda rows: rows.filter(position=0), EvictionReason.REWRITTEN)
    conversation.refresh_from_db()
    assert texts(conversation) == ["4", "5"]
    assert conversation.memory.messages() == conversation.memory.at(conversation.version)
    assert list(verify()) == []


@pytest.mark.slow
def test_a_copy_of_a_pinned_message_is_pinned() -> None:
    """Between two messages there is room for some 32 halvings; then a rewrite copies the one behind."""
    conversation = said(2, limit=100)
    conversation.memory.pin(1)
    for number in range(40):
        *others, last = conversation.memory.messages()
        conversation.memory.set([*others, UserMessage(f"between {number}"), last])
    assert conversation.messages.filter(origin="copy").count() == 1
    assert texts(conversation)[-1] == "1"
    assert [row.text for row in conversation.messages.pinned()] == ["1"]
