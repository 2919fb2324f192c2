"""Sums of the calls of models, by day, model, operation or owner. Each is one statement."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from django.db.models import Count, QuerySet, Sum

from chatmemory.contrib.usage.models import Usage
from chatmemory.core.usage import TOKENS

GROUPS: Mapping[str, str] = {
    "day": "day",
    "model": "model",
    "operation": "operation",
    "owner": "owner_id",
    "conversation": "conversation_id",
    "position": "position",
}
"""The columns by which calls are grouped."""


@dataclass(kw_only=True)
class Sums:
    """The sums of some calls. What no call reported is None."""

    key: Any = None
    """What the calls have in common: a date, a name or a primary key; None for all calls."""

    calls: int = 0

    input_tokens: int | None = None

    output_tokens: int | None = None

    cache_read_tokens: int | None = None

    cache_write_tokens: int | None = None

    reasoning_tokens: int | None = None

    costs: dict[str, Decimal] = field(default_factory=dict)
    """The sum of the known costs in each currency."""

    unpriced: int = 0
    """The number of calls whose cost is not known."""

    @property
    def cached_share(self) -> float | None:
        """The share of the input that was read from a cache, from 0 to 1; None if there is no input."""
        # A server may report what was read from a cache without the whole input.
        return min(1.0, (self.cache_read_tokens or 0) / self.input_tokens) if self.input_tokens else None

    def _add(self, found: Mapping[str, Any]) -> None:
        self.calls += found["calls"]
        for name in TOKENS:
            if (count := found[f"sum_{name}"]) is not None:
                setattr(self, name, (getattr(self, name) or 0) + int(count))
        self.unpriced += found["calls"] - found["priced"]
        if found["priced"]:
            currency = found["currency"]
            self.costs[currency] = self.costs.get(currency, Decimal(0)) + found["sum_cost"]


def sums(rows: QuerySet[Usage], group: str) -> list[Sums]:
    """Return the sums of calls, a ``Sums`` for each group.

    An index has all columns of rows between two days, ``filter(day__range=…)``.

    Args:
        rows: the calls.
        group: ``"day"``, ``"model"``, ``"operation"``, ``"owner"``, ``"conversation"`` or ``"position"``.

    Returns:
        The latest day first; positions in order; otherwise, the group with most tokens first.

    Raises:
        ValueError: ``group`` is unknown.
    """
    if group not in GROUPS:
        raise ValueError(f"group must be one of {', '.join(GROUPS)}, got {group!r}")
    column = GROUPS[group]
    by_key: dict[Any, Sums] = {}
    for found in _statement(rows, column):
        key = found[column]
        by_key.setdefault(key, Sums(key=key))._add(found)
    return _sorted(by_key.values(), group)


def total(rows: QuerySet[Usage]) -> Sums:
    """Return the sums of all ``rows``."""
    found = Sums()
    for each in _statement(rows):
        found._add(each)
    return found


def added_up(groups: Iterable[Sums]) -> Sums:
    """Return the sums of all calls of some groups."""
    found = Sums()
    for one in groups:
        found.calls += one.calls
        found.unpriced += one.unpriced
        for name in TOKENS:
            if (count := getattr(one, name)) is not None:
                setattr(found, name, (getattr(found, name) or 0) + count)
        for currency, cost in one.costs.items():
            found.costs[currency] = found.costs.get(currency, Decimal(0)) + cost
    return found


def _statement(rows: QuerySet[Usage], *columns: str) -> Iterable[dict[str, Any]]:
    counts = {f"sum_{name}": Sum(name) for name in TOKENS}
    grouped = rows.order_by().values(*columns, "currency")
    found: QuerySet[Any, dict[str, Any]] = grouped.annotate(
        calls=Count("*"), priced=Count("cost"), sum_cost=Sum("cost"), **counts
    )
    return found


def _sorted(found: Collection[Sums], group: str) -> list[Sums]:
    if group == "position":
        return sorted(found, key=lambda one: -1 if one.key is None else one.key)
    if group == "day":
        return sorted(found, key=lambda one: one.key, reverse=True)
    tokens = {id(one): (one.input_tokens or 0) + (one.output_tokens or 0) for one in found}
    return sorted(found, key=lambda one: (-tokens[id(one)], str(one.key)))
