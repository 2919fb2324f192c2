"""Conversations as JSON lines: each message with everything that is known of it, in memory that stays bounded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Coalesce, Length

from chatmemory.codec import message_to_json
from chatmemory.json_text import dumps
from chatmemory.messages import ChatMessage
from chatmemory.models import Message

__all__ = ["message_lines", "message_or_problem", "read_in_parts"]

# What is read at once.
_ROWS = 500
_CHARS = 1_000_000


def read_in_parts(rows: QuerySet[Message]) -> Iterator[Message]:
    """The rows of one conversation by position, in parts that stay small however long the messages are."""
    size = Length("text") + Coalesce(Length("payload"), 0) + Coalesce(Length("native"), 0)
    after = -1
    while True:
        sizes = list(rows.filter(position__gt=after).order_by("position").values_list("position", size)[:_ROWS])
        chars = 0
        for index, (position, length) in enumerate(sizes):
            chars += length
            if index + 1 == len(sizes) or chars + sizes[index + 1][1] > _CHARS:
                yield from rows.filter(position__gt=after, position__lte=position).order_by("position")
                after, chars = position, 0
        if len(sizes) < _ROWS:
            return


def message_or_problem(row: Message) -> tuple[ChatMessage | None, str]:
    """What was said, or why nobody can tell: other hands may have written the row."""
    try:
        return row.message, ""
    except (TypeError, ValueError) as error:
        return None, str(error)


def message_lines(conversations: Iterable[tuple[Any, str]], *, database: str | None = None) -> Iterator[str]:
    """One line for each message, evicted ones included.

    Args:
        conversations: primary key and memory ID of each.
        database: the alias; by default the one that is read from.
    """
    for key, memory_id in conversations:
        for row in read_in_parts(Message.objects.using(database).filter(conversation_id=key)):
            start = dumps({"conversation": key, "memory_id": memory_id, "position": row.position})
            message, problem = message_or_problem(row)
            if message is None:
                said = dumps({"message": None, "problem": problem, "text": row.text, "payload": row.payload})
            else:
                # Put together from texts: as part of a whole, a message that is nested as deep as may be would not be
                # written.
                said = f'{{"message":{message_to_json(message)}}}'
            if row.native is not None:
                said = f'{said[:-1]},"native":{row.native}}}'
            yield f"{start[:-1]},{said[1:-1]},{dumps(_state(row))[1:]}\n"


def _state(row: Message) -> dict[str, Any]:
    return {
        "state": "retained" if row.is_retained else "evicted",
        "reason": row.eviction_reason or None,
        "token_count": row.token_count,
        "synthetic": row.synthetic,
        "added_in": row.added_in,
        "evicted_in": row.evicted_in,
        "evicted_at": row.evicted_at.isoformat() if row.evicted_at else None,
        "created_at": row.created_at.isoformat(),
    }
