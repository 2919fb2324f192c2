"""When messages came: which pushed others out, and what took their place.

Few rows are read, however long the history is.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Min

from chatmemory.core.entries import Cause, EvictionReason
from chatmemory.models import Conversation, Message, Origin

__all__ = ["Arrival", "arrivals", "came_when", "last_position", "placeholders"]

# Reasons of messages that made room for another message, or were evicted together with one that did.
_PUSHED_OUT = EvictionReason.of(Cause.ROOM, Cause.PLACEHOLDER, Cause.SUCCESSOR)

# Messages that one statement looks at to find where a version begins.
_PROBES = 500

# Messages before those that left, of which some may have been added together with them.
_BEFORE = 100


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """The messages added in one version: one, or several in a batch. Placeholders are not among them."""

    first: int
    """Position of the first message."""

    last: int
    """Position of the last message."""

    @property
    def place(self) -> str:
        """The end of the address at which the first message is found in the history."""
        return f"?position={self.first}#message-{self.first}"


def came_when(conversation: Conversation, rows: list[Message]) -> dict[int, Arrival]:
    """Return the messages added in each version in which a row left to make room, or for a summary."""
    reasons = {*_PUSHED_OUT, *EvictionReason.of(Cause.SUMMARY)}
    versions = {row.evicted_in for row in rows if row.eviction_reason in reasons and row.evicted_in}
    if not versions:
        return {}
    # Mostly what pushed a message out came soon after it, or with it. A range costs less than as many positions.
    start = max(0, min(row.position for row in rows if row.evicted_in in versions) - _BEFORE)
    end = min(start + _PROBES, conversation.next_position)
    return _came_in(conversation, versions, _read(conversation, position__range=(start, end - 1)))


def arrivals(rows: list[Message], came: dict[int, Arrival]) -> dict[int, Arrival]:
    """Return, by position of an evicted row, the messages added in the version in which it left."""
    left_in = {row.position: row.evicted_in for row in rows if row.eviction_reason in _PUSHED_OUT and row.evicted_in}
    return {
        position: came[version]
        for position, version in left_in.items()
        # A message that was added alone and evicted at once was pushed out by no other.
        if version in came and came[version].last > position
    }


def placeholders(conversation: Conversation, rows: list[Message]) -> dict[int, int]:
    """Return, by position of a cleared tool result, the position of the placeholder that took its place."""
    cleared = {row.position: row.evicted_in for row in rows if row.eviction_reason == EvictionReason.TOOL_CLEARED.value}
    if not cleared:
        return {}
    found = conversation.messages.filter(
        origin=Origin.CLEARED, covers_from__in=cleared, added_in__in=set(cleared.values())
    )
    return dict(found.values_list("covers_from", "position"))


def _came_in(conversation: Conversation, versions: set[int], near: dict[int, int]) -> dict[int, Arrival]:
    """Return the messages added in each of ``versions``, leaving out versions that added none.

    Args:
        conversation: the conversation.
        versions: the versions.
        near: positions and the versions that added them, as :func:`_versions_around` takes them.
    """
    came: dict[int, Arrival] = {}
    for position, version in _versions_around(conversation, versions, near):
        if version in versions:
            came[version] = Arrival(first=came[version].first if version in came else position, last=position)
    return _without_placeholders(conversation, came)


def _without_placeholders(conversation: Conversation, came: dict[int, Arrival]) -> dict[int, Arrival]:
    """Return what came, but for placeholders: they come last in a version, and push nothing out."""
    last = conversation.messages.filter(position__in=[arrival.last for arrival in came.values()], origin=Origin.CLEARED)
    versions = dict(last.values_list("added_in", "position"))
    if not versions:
        return came
    # One range of positions, which an index serves: an "or" of many reads the whole history on SQLite.
    among = conversation.messages.filter(
        position__range=(min(came[version].first for version in versions), max(versions.values())),
        added_in__in=versions,
        origin=Origin.CLEARED,
    )
    for version, position in among.order_by().values_list("added_in").annotate(Min("position")):
        came[version] = replace(came[version], last=position - 1)
    return {version: arrival for version, arrival in came.items() if arrival.first <= arrival.last}


def last_position(conversation: Conversation, version: int) -> int | None:
    """Return the position of the last message added up to ``version``; None if there is none."""
    if version == conversation.version:
        return conversation.next_position - 1 if conversation.next_position else None
    known = _versions_around(conversation, {version}, {})
    return max((position for position, added_in in known if added_in <= version), default=None)


def _versions_around(conversation: Conversation, versions: set[int], near: dict[int, int]) -> list[tuple[int, int]]:
    """Return positions and the versions that added them: among them the first and the last of each of ``versions``.

    Versions ascend with positions, so that a few hundred messages, spread over the history, tell where to look
    closer; after a few rounds every version is found, however long the history is.

    Args:
        conversation: the conversation.
        versions: the versions.
        near: what is known already; if it has all that is looked for, nothing is read.
    """
    known = {-1: 0, conversation.next_position: max(versions) + 2, **near}
    while True:
        positions = sorted(known)
        added_in = [known[position] for position in positions]
        ends = {bisect_left(added_in, version) for version in (*versions, *(version + 1 for version in versions))}
        gaps = [range(positions[end - 1] + 1, positions[end]) for end in ends if end]
        step = -(-sum(map(len, gaps)) // _PROBES)
        if not step:
            break
        probes = [position for gap in gaps for position in gap[step - 1 :: step]]
        found = _read(conversation, position__in=probes)
        known |= found
        if not found or step == 1:
            break  # the messages not found were not kept
    return [(position, known[position]) for position in sorted(known)[1:-1]]


def _read(conversation: Conversation, **condition: Any) -> dict[int, int]:
    """Return the versions that added messages, by position."""
    return dict(conversation.messages.filter(**condition).values_list("position", "added_in"))
