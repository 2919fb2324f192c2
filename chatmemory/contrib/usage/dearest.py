"""The messages of a conversation that cost most: their tokens, times the requests that sent them."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass

from chatmemory.contrib.usage.models import Operation, rows_of
from chatmemory.database.reading import rows_of as messages_of
from chatmemory.models import Conversation, Origin

_COPIES = (Origin.COPY, Origin.RESTORED)


@dataclass(frozen=True, kw_only=True)
class SentMessage:
    """A message, and how often it was sent."""

    position: int
    """Its position; of a message that was also sent as a copy, that of the original."""

    requests: int
    """The number of requests that contained it."""

    tokens: int
    """Its tokens in all of these requests."""


def dearest(conversation: Conversation, most: int = 10) -> list[SentMessage]:
    """Return the messages with the most tokens in requests, in two statements, which read no text.

    The requests are the chat calls with a stored answer. A request contained the memory before its answer, and the
    messages that the answer's own change added before the answer and kept.

    Args:
        conversation: the conversation.
        most: the maximum number of messages.

    Returns:
        The message with most tokens first.
    """
    calls = rows_of(conversation).filter(operation=Operation.CHAT, position__isnull=False)
    answered = calls.order_by("position").values_list("position", flat=True)
    columns = ("position", "added_in", "evicted_in", "token_count", "origin", "covers_from")
    rows = list(messages_of(conversation).order_by("position").values_list(*columns))
    versions = {position: added_in for position, added_in, *_ in rows}
    # Positions and versions increase together, so the requests with a message follow each other.
    positions = [position for position in answered if position is not None and position in versions]
    added = [versions[position] for position in positions]
    originals: dict[int, int] = {}
    requests: Counter[int] = Counter()
    tokens: Counter[int] = Counter()
    for position, added_in, evicted_in, token_count, origin, covers_from in rows:
        first = bisect_right(positions, position)
        # Messages that leave in the change of an answer were in its request, unless they also came in this change.
        last = len(added) if evicted_in is None else bisect_right(added, evicted_in - (evicted_in == added_in))
        if origin in _COPIES and covers_from in versions:
            originals[position] = originals.get(covers_from, covers_from)
        if last > first:
            place = originals.get(position, position)
            requests[place] += last - first
            tokens[place] += (last - first) * token_count
    found = [SentMessage(position=place, requests=requests[place], tokens=tokens[place]) for place in tokens]
    return sorted(found, key=lambda one: (-one.tokens, one.position))[:most]
