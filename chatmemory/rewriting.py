"""Which rows stay when a memory is set anew, and where the new ones go."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from chatmemory.messages import SystemMessage
from chatmemory.models import Message
from chatmemory.native import NativeForms
from chatmemory.sequence import ORDER_STEP, longest_common_subsequence, orders_between

__all__ = ["Rewrite", "plan_rewrite"]


@dataclass
class Rewrite:
    """The plan of a rewrite."""

    memory: list[Message]
    """The new memory in order: rows that stay, and new ones."""

    inserted: list[Message]
    """The new ones, with position, memory order and whether they are synthetic."""

    left_out: list[Message]
    """The rows that must go."""


def plan_rewrite(
    old: Sequence[Message],
    new: Sequence[Message],
    position: int,
    *,
    from_foreign_memory: bool,
    native: NativeForms | None = None,
) -> Rewrite:
    """Plan how the retained rows ``old`` become the unsaved rows ``new``, which are given their places.

    Args:
        old: in memory order.
        new: in the wanted order.
        position: of the first row that is inserted.
        from_foreign_memory: whether new system messages, and new messages after all that stay, were said rather than
            made up.
        native: the forms of ``new``; a row of an equal message stays only if it has an equal one.
    """

    def key(row: Message) -> tuple[str | None, ...]:
        return _key(row) if native is None else (*_key(row), native.comparable(row.native))

    pairs = longest_common_subsequence([key(row) for row in old], [key(row) for row in new])
    stay = {place: old[index] for index, place in pairs}
    copies = set()
    while (full := _place(new, stay, position)) is not None:
        new[full].native = stay.pop(full).native
        copies.add(full)
    kept = {row.pk for row in stay.values()}
    left_out = [row for row in old if row.pk not in kept]
    gone = {_key(row) for row in left_out}
    last = max((place for place in stay if not isinstance(new[place].message, SystemMessage)), default=-1)
    for place, row in enumerate(new):
        # A system message that is left out elsewhere was only moved.
        was_said = _key(row) not in gone if isinstance(row.message, SystemMessage) else place > last
        row.synthetic = not (from_foreign_memory and was_said) or place in copies
    return Rewrite(
        memory=[stay.get(place, row) for place, row in enumerate(new)],
        inserted=[row for place, row in enumerate(new) if place not in stay],
        left_out=left_out,
    )


def _key(row: Message) -> tuple[str, str, str | None]:
    """What two rows of equal messages have in common. Hashing the messages would leave out their attributes."""
    payload = None if row.payload is None else json.dumps(json.loads(row.payload), sort_keys=True)
    return row.type, row.text, payload


def _place(new: Sequence[Message], stay: dict[int, Message], position: int) -> int | None:
    """Give every new row its position and memory order; None when that is done.

    Otherwise the place of a row that stays and has no room before it: a copy has to take its place.
    """
    places = [place for place in range(len(new)) if place not in stay]
    for offset, place in enumerate(places):
        new[place].position = position + offset
    first_kept, last_kept = min(stay, default=len(new)), max(stay, default=-1)
    before = [place for place in places if place < first_kept and stay]
    for offset, place in enumerate(before):
        new[place].memory_order = -(position + len(before) - 1 - offset) * ORDER_STEP
    gap: list[int] = []
    low = 0
    for place in range(first_kept, last_kept + 1) if stay else ():
        if place not in stay:
            gap.append(place)
            continue
        high = stay[place].memory_order
        orders = orders_between(len(gap), low, high) if gap else []
        if orders is None:
            return place
        for inside, order in zip(gap, orders, strict=True):
            new[inside].memory_order = order
        gap, low = [], high
    for place in places:
        if place > last_kept:
            new[place].memory_order = new[place].position * ORDER_STEP
    return None
