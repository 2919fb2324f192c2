"""Plan a change of a memory before anything is written: what is added, where, and what is evicted."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import pairwise

from chatmemory.core.entries import Entry
from chatmemory.core.eviction import Retained
from chatmemory.core.messages import ChatMessageType
from chatmemory.core.window import Window, WindowKind
from chatmemory.database.change import Gone
from chatmemory.database.reading import MemoryBound
from chatmemory.database.rows import (
    Row,
    chars_of,
    key_of,
    message_columns,
    place_columns,
    read_oldest,
    read_size,
    status_columns,
    token_count,
)
from chatmemory.models import ORDER_STEP, Conversation, Message, Origin
from chatmemory.models.message import from_columns, is_pin_open, to_columns

# The rows at the start of the window that are read at once when something must be evicted, in addition to those that a
# low-water mark evicts. If they are not enough, the next chunks are larger, so that a system message anywhere in a
# large window is found with a few statements.
_CHUNK = 8
_GROWTH = 8


def entry_of(row: Message, window: Window) -> Entry:
    return Entry(
        row.message,
        row.token_count if window.kind is WindowKind.TOKENS else 1,
        row,
        pinned=row.is_pinned,
        is_placeholder=row.origin == Origin.CLEARED,
        is_summary=row.origin == Origin.SUMMARY,
    )


def entries_of(rows: Iterable[Row], window: Window) -> Iterator[Entry]:
    tokens = window.kind is WindowKind.TOKENS
    for row in rows:
        origin, pins = status_columns(row)
        yield Entry(
            from_columns(*message_columns(row)),
            token_count(row) if tokens else 1,
            row,
            pinned=is_pin_open(pins),
            is_placeholder=origin == Origin.CLEARED,
            is_summary=origin == Origin.SUMMARY,
        )


def memory_of(conversation: Conversation, window: Window, oldest_first: Iterable[Entry]) -> Retained[Entry]:
    """Return the memory that the counters of a conversation describe. Its entries are read only as far as needed."""
    tokens = window.kind is WindowKind.TOKENS
    total = conversation.retained_tokens + window.overhead if tokens else conversation.retained_count
    return Retained(oldest_first, total=total, window=window)


def evicted_rows(memory: Retained[Entry]) -> list[Gone]:
    """Return the rows that ``memory`` evicted, each with its reason."""
    return [(entry.row, reason) for entry, reason in memory.evicted]


def plan_addition(
    conversation: Conversation, window: Window, rows: list[Message], oldest_first: Iterable[Entry]
) -> tuple[list[Message], list[Gone]]:
    """Plan to add ``rows`` one after the other, and set positions and memory orders of the added rows.

    Returns:
        The added rows (without a system message equal to the current one) and the evicted rows. Both are empty if
            nothing is added.
    """
    memory = memory_of(conversation, window, oldest_first)
    for row in rows:
        memory.add(entry_of(row, window))
    if not memory.added:
        return [], []
    added = placed_rows(memory, conversation.next_position, window)
    conversation.next_position += len(added)
    return added, evicted_rows(memory)


def plan_eviction(
    conversation: Conversation, window: Window, *, without: Sequence[Message] = ()
) -> tuple[list[Message], list[Gone]]:
    """Plan to evict what does not fit. Return the added rows, which are placeholders, and the evicted rows.

    Args:
        conversation: the conversation.
        window: the window of the memory.
        without: rows that are removed by the same change.
    """
    gone = {row.pk for row in without}
    stored = (entry for entry in oldest_entries(conversation, window) if key_of(entry.row) not in gone)
    memory = memory_of(conversation, window, stored)
    memory.total -= sum(entry_of(row, window).cost for row in without)
    memory.evict()
    added = placed_rows(memory, conversation.next_position, window)
    conversation.next_position += len(added)
    return added, evicted_rows(memory)


def check_size(
    most: MemoryBound | None, conversation: Conversation, added: Sequence[Message], gone: Sequence[Gone]
) -> None:
    """Raise an error if the memory is larger than ``most``, or would be after a planned change.

    Args:
        most: the maximum, or None.
        conversation: the conversation before the change.
        added: the rows to add.
        gone: the rows to evict, which may include some of ``added``.

    Raises:
        MemoryTooLargeError: the memory is too large.
    """
    if most is None:
        return
    messages, chars = read_size(conversation)
    most.check(messages, chars)  # the caller could not even read it now
    left = sum(chars_of(row) for row, _reason in gone)
    most.check(messages + len(added) - len(gone), chars + sum(map(chars_of, added)) - left)


def placed_rows(memory: Retained[Entry], position: int, window: Window) -> list[Message]:
    """Return the rows that were added to ``memory``, placeholders last, with positions and memory orders.

    Args:
        memory: the memory after additions and evictions.
        position: the position of the first row.
        window: the window of the memory.
    """
    rows = [entry.row for entry in memory.added]
    for row in rows:
        to_front = window.always_keep_system_message_first and row.type == ChatMessageType.SYSTEM
        row.position = position
        row.memory_order = (-position if to_front else position) * ORDER_STEP
        position += 1
    for after, entry in enumerate(memory.placeholders):
        entry.row = _placeholder(entry, position + after)
        rows.append(entry.row)
    return rows


def _placeholder(entry: Entry, position: int) -> Message:
    assert entry.replaces is not None
    original = entry.replaces.row
    if isinstance(original, Message):
        place, order = original.position, original.memory_order
    else:
        place, order = place_columns(original)
    return Message(
        **to_columns(entry.message),
        token_count=entry.cost,  # a window of messages has no placeholders
        origin=Origin.CLEARED,
        covers_from=place,
        covers_to=place,
        position=position,
        memory_order=order,
    )


def oldest_entries(conversation: Conversation, window: Window, known: Sequence[Row] = ()) -> Iterator[Entry]:
    """Return the retained rows as entries, in memory order. They are read in chunks, as far as needed.

    Args:
        conversation: the conversation, with current counters.
        window: the window of the memory.
        known: the oldest rows that have already been read.
    """
    yield from entries_of(known, window)
    start, size = len(known), _CHUNK + conversation.retained_count * (100 - window.low_water) // 100
    while chunk := read_oldest(conversation, start, size):
        yield from entries_of(chunk, window)
        start, size = start + len(chunk), size * _GROWTH


# If almost everything repeats, the longest common subsequence takes too long.
_MOST_PAIRS = 200_000


def longest_common_subsequence(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return pairs of indexes ``(in old, in new)``, both ascending, of the longest common subsequence.

    If there are several, the pairs end as early in ``new`` as possible, and begin as late in ``old`` as possible,
    because a window evicts the oldest messages, and new messages are added at the end. Therefore, after "a b X", the
    last X of "b X X" is new.

    If elements repeat thousands of times each, the result may be shorter than the longest.

    Source: Hunt and Szymanski, "A fast algorithm for computing longest common subsequences", 1977. It is fast if few
    elements repeat, as in conversations.
    """
    if old == new[: len(old)]:  # usually nothing was evicted
        return [(index, index) for index in range(len(old))]
    places: dict[Hashable, list[int]] = defaultdict(list)
    for index in range(len(new) - 1, -1, -1):
        places[new[index]].append(index)  # descending, so that an old element is never paired twice
    if sum(len(places.get(element, ())) for element in old) > _MOST_PAIRS:
        return _start_and_end(old, new)
    ends: list[int] = []  # ends[k]: the smallest index in new at which a common subsequence of length k + 1 ends
    chains: list[tuple[int, int, tuple | None]] = []  # type: ignore[type-arg]
    for index, element in enumerate(old):
        for place in places.get(element, ()):
            length = bisect_left(ends, place)
            chain = (index, place, chains[length - 1] if length else None)
            if length == len(ends):
                ends.append(place)
                chains.append(chain)
            else:
                ends[length] = place
                chains[length] = chain
    pairs = []
    chain_: tuple | None = chains[-1] if chains else None  # type: ignore[type-arg]
    while chain_:
        index, place, chain_ = chain_
        pairs.append((index, place))
    return pairs[::-1]


def pairs_between(
    pairs: Sequence[tuple[int, int]], old: Sequence[Hashable], new: Sequence[Hashable]
) -> list[tuple[int, int]]:
    """Return further pairs of indexes ``(in old, in new)`` of equal elements between two neighbours of ``pairs``."""
    found = []
    for (old_start, new_start), (old_end, new_end) in pairwise([(-1, -1), *pairs, (len(old), len(new))]):
        between = longest_common_subsequence(old[old_start + 1 : old_end], new[new_start + 1 : new_end])
        found += [(old_start + 1 + index, new_start + 1 + place) for index, place in between]
    return found


def _start_and_end(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return the pairs of the common start, and of the longest end of ``old`` that follows it in ``new``.

    Source: Knuth, Morris and Pratt, "Fast pattern matching in strings", 1977.
    """
    start, shortest = 0, min(len(old), len(new))
    while start < shortest and old[start] == new[start]:
        start += 1
    text = [*reversed(old[start:]), object(), *reversed(new[start:])]
    lengths = [0] * len(text)  # of the longest part of the text that ends at an index and is also a prefix of the text
    for index in range(1, len(text)):
        length = lengths[index - 1]
        while length and text[index] != text[length]:
            length = lengths[length - 1]
        lengths[index] = length + (text[index] == text[length])
    ends = lengths[: len(old) - start : -1]
    end = max(ends, default=0)
    place = start + ends.index(end) if ends else start
    return [
        *((index, index) for index in range(start)),
        *((len(old) - end + index, place + index) for index in range(end)),
    ]


def orders_between(count: int, low: int, high: int) -> list[int] | None:
    """Return ``count`` ascending numbers strictly between ``low`` and ``high``, evenly spread; None if there is no
    room.
    """
    step = (high - low) // (count + 1)
    return [low + step * (index + 1) for index in range(count)] if step > 0 else None
