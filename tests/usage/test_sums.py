"""Sums of calls: exact, in one statement, and the same as a loop over the rows."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chatmemory.contrib.usage.models import Operation, Usage
from chatmemory.contrib.usage.sums import GROUPS, Sums, sums, total
from chatmemory.core.usage import TOKENS
from chatmemory.models.fields import uuid7
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db

COUNTS = (*TOKENS, "unpriced", "calls")


def plain(rows: list[Usage], group: str) -> dict[Any, dict[str, Any]]:
    """Add up rows in a loop."""
    found: dict[Any, dict[str, Any]] = {}
    for row in rows:
        key = getattr(row, GROUPS[group])
        one = found.setdefault(key, {**dict.fromkeys(TOKENS), "calls": 0, "unpriced": 0, "costs": defaultdict(Decimal)})
        one["calls"] += 1
        for name in TOKENS:
            if (count := getattr(row, name)) is not None:
                one[name] = (one[name] or 0) + count
        if row.cost is None:
            one["unpriced"] += 1
        else:
            one["costs"][row.currency] += row.cost
    return found


def told(found: Sums) -> dict[str, Any]:
    return {**{name: getattr(found, name) for name in COUNTS}, "costs": found.costs}


@pytest.fixture
def rows() -> list[Usage]:
    """Random calls: of several owners, models and days, in two currencies, some without counts or a price."""
    rng = random.Random(7)
    users = [get_user_model().objects.create(username=f"user {number}") for number in range(3)]
    conversations = [ConversationFactory(owner=user) for user in users]
    made = []
    for _ in range(300):
        conversation = rng.choice(conversations)
        cost = rng.choice([None, Decimal(rng.randrange(10**14)).scaleb(-12)])
        made.append(
            Usage(
                conversation=conversation,
                owner=rng.choice([conversation.owner, None]),
                model=rng.choice(["gpt-5", "claude-sonnet-4-5"]),
                operation=rng.choice(Operation.values),
                position=rng.choice([None, 1, 3]),
                **{name: rng.choice([None, 0, rng.randrange(2**31)]) for name in TOKENS},
                cost=cost,
                currency="" if cost is None else rng.choice(["USD", "EUR"]),
                created_at=datetime(2026, 3, 1, tzinfo=UTC) + timedelta(hours=rng.randrange(240)),
            )
        )
    return Usage.objects.bulk_create(made)


@pytest.mark.parametrize("group", GROUPS)
def test_they_are_those_of_the_rows(rows: list[Usage], group: str) -> None:
    with CaptureQueriesContext(
        connection,
    ) as statements:
        found = sums(Usage.objects.all(), group)
    assert len(statements) == 1
    assert {one.key: told(one) for one in found} == plain(rows, group)
    stored = list(Usage.objects.order_by("pk"))
    assert {one.key: told(one) for one in found} == plain(stored, group)
    assert len({one.key for one in found}) == len(found)


@pytest.mark.parametrize("group", GROUPS)
def test_all_groups_have_the_same_total(rows: list[Usage], group: str) -> None:
    with CaptureQueriesContext(connection) as statements:
        whole = total(Usage.objects.all())
    assert len(statements) == 1
    costs: dict[str, Decimal] = defaultdict(Decimal)
    for one in sums(Usage.objects.all(), group):
        for currency, cost in one.costs.items():
            costs[currency] += cost
    assert costs == whole.costs
    assert whole.calls == len(rows)


def test_the_order(rows: list[Usage]) -> None:
    days = [one.key for one in sums(Usage.objects.all(), "day")]
    assert days == sorted(days, reverse=True)
    tokens = [(one.input_tokens or 0) + (one.output_tokens or 0) for one in sums(Usage.objects.all(), "owner")]
    assert tokens == sorted(tokens, reverse=True)


def test_a_day_begins_in_the_time_zone_of_the_project(settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Tokyo"
    moments = [datetime(2026, 3, 1, 14, 59, tzinfo=UTC), datetime(2026, 3, 1, 15, 0, tzinfo=UTC)]
    for moment in moments:
        Usage.objects.create(conversation_id=uuid7(), model="m", created_at=moment)
    assert [str(one.key) for one in sums(Usage.objects.all(), "day")] == ["2026-03-02", "2026-03-01"]


def test_nothing() -> None:
    assert sums(Usage.objects.all(), "day") == []
    assert total(Usage.objects.all()) == Sums()
    assert Sums().cached_share is None
    assert Sums(input_tokens=4, cache_read_tokens=3).cached_share == 0.75


def test_an_unknown_group() -> None:
    with pytest.raises(ValueError, match="group must be one of day, model, operation, owner"):
        sums(Usage.objects.all(), "month")
