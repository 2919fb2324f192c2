"""Rewrite a memory and keep the rows that stay; clear a memory; erase a conversation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from chatmemory import signals
from chatmemory.conf import setting
from chatmemory.core.entries import EvictionReason
from chatmemory.core.eviction import Retained
from chatmemory.core.messages import ChatMessage, SystemMessage
from chatmemory.core.window import Window
from chatmemory.database.change import Change, Gone, Target, after_commit, write, write_columns
from chatmemory.database.new_messages import NativeForms, NewMessages
from chatmemory.database.operations.change_window import apply_window
from chatmemory.database.operations.erase_summaries import erased_among, restore_summaries
from chatmemory.database.operations.plan import (
    check_size,
    entry_of,
    evicted_rows,
    longest_common_subsequence,
    orders_between,
    pairs_between,
    placed_rows,
)
from chatmemory.database.reading import rows_of
from chatmemory.database.statements import Key
from chatmemory.database.stored_windows import estimator_of, window_of
from chatmemory.models import ORDER_STEP, Conversation, Message, Origin
from chatmemory.models.message import open_pin


def rewrite(
    target: Target,
    messages: Iterable[ChatMessage],
    *,
    native: NativeForms | None = None,
    window: Window | None = None,
    from_foreign_memory: bool = False,
    rows: Sequence[Message | None] | None = None,
) -> Change:
    """Make ``messages`` the memory. Rows that stay are kept, the others are evicted, and new ones are inserted.

    Args:
        target: the conversation.
        messages: the new memory, in order.
        native: another framework's forms of them. A row stays only if its form is equal; otherwise, it is replaced by a
            copy.
        window: the new window of the memory; by default the row's window. Messages that do not fit are evicted.
        from_foreign_memory: whether the caller is a memory with its own window, which adds messages in this way. Then
            only the rows that are missing in ``messages`` are evicted. New system messages, and new messages after the
            last one that stays, count as said. Otherwise, all new messages are synthetic.
        rows: the row of each message, retained or evicted, or None, if the caller knows the rows, because several may
            have the same text. A row that cannot stay is copied, and a row with another text is ignored. The window
            then evicts what does not fit.

    Raises:
        Conversation.DoesNotExist: the conversation is missing, and must not be created.
        TypeError: an item is not a message.
        ValueError: databases cannot store a text.
        MemoryTooLargeError: the memory is, or would become, larger than the target allows.
    """
    incoming = NewMessages.of(messages, native)
    incoming.token_counts(estimator_of(window, target.likely_model))  # before any lock

    def work(change: Change) -> None:
        conversation = change.conversation
        bound = window or window_of(conversation)
        apply_window(conversation, bound)
        old = list(rows_of(conversation).retained())
        new = incoming.rows(estimator_of(bound, conversation.model))
        erased = erased_among(conversation, new)
        known = None if rows is None else [row for row, one in zip(rows, new, strict=True) if one.text not in erased]
        new = [one for one in new if one.text not in erased]
        position = conversation.next_position
        plan = _plan_rewrite(
            old,
            new,
            position,
            version=conversation.version + 1,
            from_foreign_memory=from_foreign_memory,
            native=native,
            rows=known,
        )
        inserted = plan.inserted
        restore_summaries(conversation, inserted)
        gone: list[Gone] = [(row, EvictionReason.REWRITTEN) for row in plan.left_out]
        if not from_foreign_memory or rows is not None:
            fitted = Retained.fit([entry_of(row, bound) for row in plan.memory], bound)
            inserted = inserted + placed_rows(fitted, position + len(inserted), bound)
            gone += evicted_rows(fitted)
        if old and len(plan.left_out) == len(old):
            conversation.compacted_to = position  # earlier messages are no longer wanted
        if inserted or gone:
            check_size(target.most, conversation, inserted, gone)
            conversation.next_position += len(inserted)
            rewritten = not from_foreign_memory or any(row.synthetic for row in plan.inserted)
            write(change, inserted, gone, rewritten=rewritten)

    return target.change(work)


@dataclass
class _Rewrite:
    """The plan of a rewrite."""

    memory: list[Message]
    """The new memory, in order: rows that stay, and new rows."""

    inserted: list[Message]
    """The new rows, with position, memory order, origin and the positions that they replace."""

    left_out: list[Message]
    """The rows to evict."""


def _plan_rewrite(
    old: Sequence[Message],
    new: Sequence[Message],
    position: int,
    *,
    version: int,
    from_foreign_memory: bool,
    native: NativeForms | None = None,
    rows: Sequence[Message | None] | None = None,
) -> _Rewrite:
    """Plan how the retained rows ``old`` become the unsaved rows ``new``, and set their positions and memory orders.

    Args:
        old: the retained rows, in memory order.
        new: the unsaved rows, in the wanted order.
        position: the position of the first inserted row.
        version: the version of the memory after the rewrite.
        from_foreign_memory: whether new system messages, and new messages after all that stay, count as said.
        native: the forms of ``new``. The row of an equal message stays only if its form is equal.
        rows: see ``rewrite``.
    """
    pairs, originals = (_pairs(old, new, native), {}) if rows is None else _known_pairs(old, new, rows)
    in_place = {place: old[index] for index, place in pairs}
    stay = {place: row for place, row in in_place.items() if _form(row, native) == _form(new[place], native)}
    other_forms = in_place.keys() - stay.keys()
    while (full := place_between(new, stay, position)) is not None:
        originals[full] = stay.pop(full)
    originals |= {place: in_place[place] for place in other_forms}
    kept = {row.pk for row in stay.values()}
    left_out = [row for row in old if row.pk not in kept]
    gone = {_key(row) for row in left_out}
    there = [place for place in (*stay, *other_forms) if not isinstance(new[place].message, SystemMessage)]
    last = max(there, default=-1)
    for place, row in enumerate(new):
        # A system message that was evicted elsewhere was only moved.
        was_said = _key(row) not in gone if isinstance(row.message, SystemMessage) else place > last
        if place in originals:
            _become_copy(row, originals[place], native, version)
        elif not (from_foreign_memory and was_said):
            row.origin = Origin.REWRITE
    _tell_covered(old, new, stay)
    return _Rewrite(
        memory=[stay.get(place, row) for place, row in enumerate(new)],
        inserted=[row for place, row in enumerate(new) if place not in stay],
        left_out=left_out,
    )


def _pairs(old: Sequence[Message], new: Sequence[Message], native: NativeForms | None) -> list[tuple[int, int]]:
    """Return which messages stay, as pairs of indexes ``(in old, in new)``; preferably those with an equal form."""
    texts = list(map(_key, old)), list(map(_key, new))
    if native is None:
        return longest_common_subsequence(*texts)
    forms = [_form(row, native) for row in old], [_form(row, native) for row in new]
    pairs = longest_common_subsequence(*(list(zip(*side, strict=True)) for side in zip(texts, forms, strict=True)))
    return sorted([*pairs, *pairs_between(pairs, *texts)])


def _known_pairs(
    old: Sequence[Message], new: Sequence[Message], rows: Sequence[Message | None]
) -> tuple[list[tuple[int, int]], dict[int, Message]]:
    """Return the same for known rows, and the rows that cannot stay, by index."""
    pairs = longest_common_subsequence([row.pk for row in old], [None if row is None else row.pk for row in rows])
    equal = {place: row for place, row in enumerate(rows) if row is not None and _key(row) == _key(new[place])}
    stay = [pair for pair in pairs if pair[1] in equal]
    in_place = {place for _index, place in stay}
    return stay, {place: row for place, row in equal.items() if place not in in_place}


def _form(row: Message, native: NativeForms | None) -> str | None:
    return None if native is None else native.comparable(row.native)


def _become_copy(row: Message, original: Message, native: NativeForms | None, version: int) -> None:
    """Make the unsaved ``row`` a copy of another row, with its pin and the forms of other frameworks."""
    row.native = original.native if native is None else native.onto(original.native, row.native)
    row.origin = Origin.COPY
    row.written_by = original.written_by
    row.covers_from = row.covers_to = original.position
    if original.origin in (Origin.COPY, Origin.CLEARED) and original.covers_from is not None:
        row.covers_from, row.covers_to = original.covers_from, original.covers_to
    if original.is_pinned:
        row.pins = open_pin("", version)


def _tell_covered(old: Sequence[Message], new: Sequence[Message], stay: dict[int, Message]) -> None:
    """Set the positions that each synthetic new row replaces: the evicted rows between the same rows that stay."""
    kept = {row.pk for row in stay.values()}
    gaps: list[list[int]] = [[]]
    for row in old:
        if row.pk in kept:
            gaps.append([])
        else:
            gaps[-1].append(row.position)
    gap = 0
    for place, row in enumerate(new):
        if place in stay:
            gap += 1
        elif row.synthetic and row.covers_from is None and gaps[gap]:
            row.covers_from, row.covers_to = min(gaps[gap]), max(gaps[gap])


def _key(row: Message) -> tuple[str, str, str | None]:
    """Return a key that is equal for rows with equal messages. A hash of the messages would ignore attributes."""
    payload = None if row.payload is None else json.dumps(json.loads(row.payload), sort_keys=True)
    return row.type, row.text, payload


def place_between(new: Sequence[Message], stay: dict[int, Message], position: int) -> int | None:
    """Set position and memory order of each new row, and return None.

    If there is no room before a row that stays, return the index of that row, which must be replaced by a copy.

    Args:
        new: the rows of the memory, in order. Those in ``stay`` are ignored.
        stay: the stored rows that stay, by their index in ``new``.
        position: the position of the first new row.
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


def clear(target: Target) -> Change:
    """Evict all messages.

    Raises:
        Conversation.DoesNotExist: the conversation is missing.
    """

    def work(change: Change) -> None:
        found = rows_of(change.conversation).retained()
        if setting("KEEP_HISTORY") and not signals.messages_evicted.has_listeners(Conversation):
            found = found.defer("text", "payload", "native")  # loaded on access
        rows = list(found)
        if rows:
            write(change, [], [(row, EvictionReason.CLEARED) for row in rows])
            after_commit(signals.memory_cleared, change.conversation)
        elif change.conversation.compacted_to < change.conversation.next_position:
            # A summary must not restore what was removed.
            change.conversation.compacted_to = change.conversation.next_position
            write_columns(change.conversation, ["compacted_to"])

    return target.change(work)


def erase(target: Target) -> None:
    """Delete the conversation and everything in it.

    Raises:
        Conversation.DoesNotExist: the conversation is missing.
    """
    known = target.instance
    if known is not None:
        # Programs that use stores lock by the memory ID. Locking by the primary key could deadlock with them on
        # MariaDB, whose DELETE locks the index entry of the memory ID after the row.
        target = replace(target, key=Key.whole(known, target.key.database), instance=None)

    def work(change: Change) -> None:
        if known is not None and change.conversation.pk != known.pk:
            raise Conversation.DoesNotExist("the conversation has been erased")
        change.conversation.delete(using=target.key.database)

    target.change(work)
