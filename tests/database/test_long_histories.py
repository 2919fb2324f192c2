"""A conversation that is summarised again and again costs the same, however long its history has become."""

from __future__ import annotations

import pytest
from django.db import connection

from chatmemory.database.operations.compact import due_conversations
from chatmemory.database.operations.compaction_plan import plan_compaction
from chatmemory.models import ORDER_STEP, Conversation, Message, Origin
from tests.support.long_histories import conversation_of, row, sqlite_steps

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(connection.vendor != "sqlite", reason="only SQLite says how many steps a query took"),
]


def summarised(size: int) -> Conversation:
    """A conversation of ``size`` messages; its summary stands for all but the last sixty."""
    made = conversation_of(size)
    summary = row(made, size, size + 1, made.created_at)
    summary.origin, summary.covers_from, summary.covers_to = Origin.SUMMARY, 0, size - 61
    summary.added_in, summary.memory_order = size - 30, (size - 60) * ORDER_STEP - 1
    summary.evicted_in, summary.evicted_at, summary.eviction_reason = None, None, ""
    Message.objects.bulk_create([summary])
    rows = Conversation.objects.filter(pk=made.pk)
    rows.update(next_position=size + 1, retained_count=21, compacted_to=size - 60, compact_at=80)
    return rows.get()


@pytest.mark.slow
def test_a_plan_reads_only_what_is_new() -> None:
    short, long = (summarised(size) for size in (1_000, 20_000))
    plan = plan_compaction(long)
    assert plan is not None
    assert (plan.covers_from, plan.covers_to) == (0, 19_989)
    assert sqlite_steps(lambda: plan_compaction(long)) < 2 * sqlite_steps(lambda: plan_compaction(short))


@pytest.mark.slow
def test_a_plan_of_four_times_as_much_takes_four_times_as_long() -> None:
    short, long = conversation_of(4_000), conversation_of(16_000)
    assert sqlite_steps(lambda: plan_compaction(long)) < 5 * sqlite_steps(lambda: plan_compaction(short))


@pytest.mark.slow
def test_what_is_due_is_found_by_what_is_new() -> None:
    short, long = (Conversation.objects.filter(pk=summarised(size).pk) for size in (1_000, 20_000))
    assert list(due_conversations(long)) == list(long)
    assert sqlite_steps(lambda: list(due_conversations(long))) <= 1 + sqlite_steps(
        lambda: list(due_conversations(short))
    )
