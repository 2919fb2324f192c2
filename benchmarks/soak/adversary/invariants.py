"""What must hold of every conversation at every moment, found from its rows alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from benchmarks.soak.adversary.stored import Stored, StoredConversation

__all__ = ["broken", "changed_past"]


def broken(stored: Stored) -> list[str]:
    """Return the invariants that stored conversations violate."""
    return [f"{one.memory_id}: {problem}" for one in stored.conversations for problem in _problems(one)]


def changed_past(before: Stored, after: Stored) -> list[str]:
    """Return the past memories that have changed."""
    return [
        f"{one.memory_id}: the memory of version {version} has changed"
        for one in before.conversations
        if (now := after.named(one.memory_id)) is not None
        for version in range(one.version + 1)
        if now.memory_at(version) != one.memory_at(version)
    ]


def _problems(one: StoredConversation) -> Iterator[str]:
    rows = one.messages
    retained = [row for row in rows if row.evicted_in is None]
    positions = [row.position for row in rows]
    if len(rows) + one.purged_count != one.next_position:
        yield f"{len(rows)} rows and {one.purged_count} deleted ones do not make {one.next_position} positions"
    if not one.purged_count and positions != list(range(len(rows))):
        yield f"positions have gaps: {positions}"
    if len(set(positions)) != len(positions) or max(positions, default=-1) >= one.next_position:
        yield f"positions are wrong: {positions} of {one.next_position}"
    said = sum(not row.synthetic for row in rows)
    if not said <= one.message_count <= said + one.purged_count:
        yield f"message_count is {one.message_count}, but {said} were said"
    if one.retained_count != len(retained):
        yield f"retained_count is {one.retained_count}, but {len(retained)} are retained"
    if one.retained_tokens != sum(row.token_count for row in retained):
        yield f"retained_tokens is {one.retained_tokens}, but rows have {sum(row.token_count for row in retained)}"
    if len({row.memory_order for row in retained}) != len(retained):
        yield "two retained messages have one place"
    latest = max((version for row in rows for version in (row.added_in, row.evicted_in or 0)), default=0)
    if latest > one.version:
        yield f"a row is of version {latest}, the conversation of {one.version}"
    if any(first.added_in > then.added_in for first, then in pairwise(rows)):
        yield "messages were added in an earlier version than those before them"
    for row in rows:
        if (row.evicted_in is None) != (row.eviction_reason == ""):
            yield f"message {row.position} is evicted by half"
        if row.covers_to is not None and not (row.synthetic and row.covers_to < row.position):
            yield f"message {row.position}, {row.origin}, stands for message {row.covers_to}"
        if row.origin == "cleared" and row.covers_to is None:
            yield f"message {row.position} is the placeholder of nothing"
