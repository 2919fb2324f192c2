"""Sums of the calls of models, by day, model, operation or owner. Each is one statement."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from django.db.models import Count, Q, QuerySet, Sum

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

_COUNTS = (*TOKENS, "estimated_tokens", "compared_tokens")


def cached_share(cached: int, tokens: int) -> float:
    """Return the share of the input that was read from a cache, from 0 to 1."""
    # A server may report what was read from a cache without the whole input.
    return min(1.0, cached / tokens)


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

    estimated_tokens: int | None = None
    """The estimates of the calls that have one, and whose input was reported."""

    compared_tokens: int | None = None
    """The input of these calls."""

    costs: dict[str, Decimal] = field(default_factory=dict)
    """The sum of the known costs in each currency."""

    unpriced: int = 0
    """The number of calls whose cost is not known."""

    @property
    def cached_share(self) -> float | None:
        """The share of the input that was read from a cache, from 0 to 1; None if there is no input."""
        return cached_share(self.cache_read_tokens or 0, self.input_tokens) if self.input_tokens else None

    @property
    def estimate_error(self) -> float | None:
        """The estimates divided by the input that was reported for them, minus one; None if there are none."""
        return (self.estimated_tokens or 0) / self.compared_tokens - 1 if self.compared_tokens else None

    def __add__(self, other: Sums) -> Sums:
        """Return the sums of the calls of both."""
        added = Sums(calls=self.calls + other.calls, unpriced=self.unpriced + other.unpriced, costs=dict(self.costs))
        for name in _COUNTS:
            known = [count for one in (self, other) if (count := getattr(one, name)) is not None]
            setattr(added, name, sum(known) if known else None)
        for currency, cost in other.costs.items():
            added.costs[currency] = added.costs.get(currency, Decimal(0)) + cost
        return added


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
        by_key[key] = replace(by_key.get(key, Sums()) + _sums_of(found), key=key)
    return _sorted(by_key.values(), group)


def total(rows: QuerySet[Usage]) -> Sums:
    """Return the sums of all ``rows``."""
    return sum(map(_sums_of, _statement(rows)), Sums())


def _statement(rows: QuerySet[Usage], *columns: str) -> Iterable[dict[str, Any]]:
    counts = {f"sum_{name}": Sum(name) for name in TOKENS}
    counts["sum_estimated_tokens"] = Sum("estimated_tokens", filter=Q(input_tokens__isnull=False))
    counts["sum_compared_tokens"] = Sum("input_tokens", filter=Q(estimated_tokens__isnull=False))
    grouped = rows.order_by().values(*columns, "currency")
    found: QuerySet[Any, dict[str, Any]] = grouped.annotate(
        calls=Count("*"), priced=Count("cost"), sum_cost=Sum("cost"), **counts
    )
    return found


def _sums_of(found: Mapping[str, Any]) -> Sums:
    counts = {name: None if found[f"sum_{name}"] is None else int(found[f"sum_{name}"]) for name in _COUNTS}
    costs = {found["currency"]: found["sum_cost"]} if found["priced"] else {}
    return Sums(calls=found["calls"], unpriced=found["calls"] - found["priced"], costs=costs, **counts)


def _sorted(found: Collection[Sums], group: str) -> list[Sums]:
    if group == "position":
        return sorted(found, key=lambda one: -1 if one.key is None else one.key)
    if group == "day":
        return sorted(found, key=lambda one: one.key, reverse=True)
    tokens = {id(one): (one.input_tokens or 0) + (one.output_tokens or 0) for one in found}
    return sorted(found, key=lambda one: (-tokens[id(one)], str(one.key)))
