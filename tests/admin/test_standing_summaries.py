"""The summaries that cover the messages of a page are found by one statement, however many they are."""

from __future__ import annotations

import random
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chatmemory.admin.display.summary_cards import standing_for
from chatmemory.core.summaries import summary_message
from chatmemory.models import Conversation, Message, Origin
from chatmemory.models.branch import BranchTree
from tests.support.factories import ConversationFactory
from tests.support.long_histories import row

pytestmark = pytest.mark.django_db

_LAST_VERSION = 1_000


def _conversation(said: int, covers: dict[int, tuple[int, int]]) -> Conversation:
    """A conversation whose first ``said`` messages left for want of room, with summaries at some positions."""
    size, moment = max([said, *(position + 1 for position in covers)]), timezone.now()
    made = ConversationFactory(window="messages", limit=20)
    rows = [row(made, position, size + 20, moment) for position in range(said)]
    for position, (first, last) in covers.items():
        summary = row(made, position, size + 20, moment)
        summary.text = summary_message("s").single_text()
        summary.origin, summary.covers_from, summary.covers_to = Origin.SUMMARY, first, last
        summary.added_in, summary.evicted_in = _LAST_VERSION, _LAST_VERSION
        rows = [kept for kept in rows if kept.position != position] + [summary]
    Message.objects.bulk_create(rows)
    Conversation.objects.filter(pk=made.pk).update(version=_LAST_VERSION, next_position=size, compacted_to=size)
    made.refresh_from_db()
    return made


def _found(conversation: Conversation, rows: int) -> tuple[dict[int, int], int]:
    """Return what covers the first ``rows`` messages, and the number of statements that found it."""
    page = list(conversation.messages.order_by("position")[:rows])
    branches = BranchTree.read(conversation)
    with CaptureQueriesContext(connection) as captured:
        found = standing_for(conversation, page, {}, branches)
    return found, len(captured)


def test_each_message_may_have_a_summary_of_its_own() -> None:
    conversation = _conversation(20, {30 + number: (0, number) for number in range(20)})
    assert _found(conversation, 1) == ({0: 30}, 1)
    assert _found(conversation, 20) == ({number: 30 + number for number in range(20)}, 1)


def test_one_summary_for_all_is_found_by_one_statement() -> None:
    conversation = _conversation(20, {30: (0, 25), 31: (0, 28)})
    assert _found(conversation, 20) == (dict.fromkeys(range(20), 30), 1)


def test_that_there_is_none_is_found_by_one_statement() -> None:
    assert _found(_conversation(20, {}), 20) == ({}, 1)


def test_a_summary_that_begins_later_stands_for_what_it_covers_alone() -> None:
    assert _found(_conversation(20, {30: (15, 25)}), 20) == (dict.fromkeys(range(15, 20), 30), 1)


@pytest.mark.parametrize("seed", range(12))
def test_it_is_the_first_that_goes_as_far(seed: int) -> None:
    chance = random.Random(seed)
    covers: dict[int, tuple[int, int]] = {}
    for position in sorted(chance.sample(range(5, 60), 15)):
        last = chance.randrange(position)
        covers[position] = (chance.randrange(last + 1) if chance.random() < 0.3 else 0, last)
    conversation = _conversation(50, covers)
    rows = list(conversation.messages.order_by("position"))
    found, statements = _found(conversation, len(rows))
    assert found == _one_by_one(rows)
    assert statements == 1


def _one_by_one(rows: list[Any]) -> dict[int, int]:
    """Return what covers each row, looked for in the plainest way."""
    found = {}
    for each in rows:
        start, end = (each.covers_from, each.covers_to) if each.covers_to is not None else (each.position,) * 2
        later = (row for row in rows if row.position > each.position and row.covers_to is not None)
        first = next((row for row in later if row.covers_to >= end), None)
        if first is not None and first.covers_from <= start:
            found[each.position] = first.position
    return found
