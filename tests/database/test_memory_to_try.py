"""A memory that is read once, to try several windows on it."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chatmemory import UserMessage
from chatmemory.core.exceptions import PinnedTooMuchError
from chatmemory.database.operations.change_window import MemoryToTry
from chatmemory.models import Conversation, WindowSettings
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def conversation() -> Conversation:
    made: Conversation = ConversationFactory(window="messages", limit=10)
    made.memory.add(*(UserMessage(f"你好，世界 {number}") for number in range(10)))
    made.refresh_from_db()
    return made


def test_no_trial_tells_in_another(conversation: Conversation) -> None:
    windows: list[WindowSettings] = [
        {"limit": 2},
        {},
        {"model": "gpt-4"},
        {"low_water": 10, "limit": 5},
        {"window": "tokens", "limit": 30},
    ]
    memory = MemoryToTry.read(conversation)
    for settings in [*windows, *reversed(windows)]:
        trial, alone = memory.try_window(settings), conversation.memory.try_window(**settings)
        assert [row.position for row in trial.retained] == [row.position for row in alone.retained]
        assert [(row.position, reason) for row, reason in trial.evicted] == [
            (row.position, reason) for row, reason in alone.evicted
        ]
        assert (trial.window, trial.limit, trial.tokens) == (alone.window, alone.limit, alone.tokens)


def test_trials_read_nothing_more(conversation: Conversation) -> None:
    memory = MemoryToTry.read(conversation)
    with CaptureQueriesContext(connection) as captured:
        memory.try_window({"limit": 2})
        memory.try_window({"window": "tokens", "limit": 30})
    assert len(captured) == 0


def test_pins_need_room_in_each(conversation: Conversation) -> None:
    for position in range(3):
        conversation.memory.pin(position)
    memory = MemoryToTry.read(conversation)
    with pytest.raises(PinnedTooMuchError):
        memory.try_window({"limit": 5})
    assert len(memory.try_window({"limit": 6}).retained) == 6


def test_one_that_was_erased_is_missing(conversation: Conversation) -> None:
    Conversation.objects.all().delete()
    with pytest.raises(Conversation.DoesNotExist):
        MemoryToTry.read(conversation)
