"""Which messages a model got as quotations before the user's message: their positions, and never their text.

So "What the model had" can show them, as long as they are stored. A row belongs to the turn that began at its version:
the next message of the user, or the final answer, ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db.models import Q, QuerySet

from chatmemory.contrib.search.models import Quoted
from chatmemory.core.messages import ChatMessageType
from chatmemory.database.connections import retry
from chatmemory.database.operations.replay import HAS_CALLS
from chatmemory.database.reading import in_parts, rows_of
from chatmemory.models import Conversation, Origin

if TYPE_CHECKING:
    from chatmemory.transfer.export import Line


_ENDS_TURN = Q(origin__in=(Origin.SAID, Origin.COPY)) & (
    Q(type=ChatMessageType.USER) | (Q(type=ChatMessageType.AI) & ~HAS_CALLS)
)


def quoted_in(conversation: Conversation) -> QuerySet[Quoted]:
    """Return the rows of a conversation, in the database from which it was read."""
    return Quoted.objects.using(conversation._state.db).filter(conversation=conversation.pk)


def remember(conversation: Conversation, positions: Sequence[int]) -> Callable[[], object]:
    """Store that the model gets these messages with the newest version of the memory.

    Returns:
        A function that deletes this again.

    Raises:
        Conversation.DoesNotExist, IntegrityError: the conversation has been erased.
    """
    rows = quoted_in(conversation)

    def write() -> int:
        # The row that the caller has may be older.
        row = Conversation.objects.using(rows.db).only("version", "next_position").get(pk=conversation.pk)
        rows.create(conversation=row, version=row.version, position=row.next_position - 1, positions=[*positions])
        return row.version

    version = retry(rows.db, write)
    # With the rows of an earlier attempt at the same version: the answer to come is made without them.
    return lambda: retry(rows.db, rows.filter(version=version).delete)


def quoted_at(conversation: Conversation, version: int) -> list[int]:
    """Return the positions of the messages that the model got as quotations at a version; some may be deleted."""
    row = quoted_in(conversation).filter(version__lte=version).order_by("-version", "-pk").first()
    if row is None:
        return []
    later = rows_of(conversation).filter(position__gt=row.position).order_by("position")
    end = later.filter(_ENDS_TURN).values_list("added_in", flat=True).first()
    if end is not None and end <= version:
        return []
    next_position = later.filter(added_in__gt=version).values_list("position", flat=True).first()
    if next_position is None:
        next_position = conversation.next_position
    # Messages that are deleted may have ended the turn.
    is_whole = later.filter(position__lt=next_position).count() == next_position - row.position - 1
    return [*row.positions] if is_whole else []


def delete_older(conversation: Conversation, before: datetime) -> None:
    """Delete the rows that are older than ``before``."""
    rows = quoted_in(conversation)
    retry(rows.db, rows.filter(created_at__lt=before).delete)


def records(conversation: Conversation) -> Iterator[dict[str, Any]]:
    """Yield the rows of a conversation for an export."""
    for row in in_parts(quoted_in(conversation).filter(version__lte=conversation.version)):
        at = row.created_at.isoformat()
        yield {"version": row.version, "after": row.position, "quoted": row.positions, "at": at}


def restore_record(conversation: Conversation, line: Line) -> Callable[[], object]:
    """Read what ``records`` yielded, and return the function that writes its row.

    Raises:
        BadRecordError: the line is invalid.
    """
    version, position = line.number("version"), line.number("after")
    positions, created_at = line.take("quoted", list, "a list of positions"), line.moment("at")
    if not 0 <= version <= conversation.version:
        raise line.bad(f"version: expected one of the conversation's, up to {conversation.version}, got {version}")
    for number in (position, *positions):
        if type(number) is not int or not 0 <= number < conversation.next_position:
            raise line.bad(f"after, quoted: expected positions of the conversation, got {str(number)[:100]}")
    row = Quoted(
        conversation=conversation, version=version, position=position, positions=positions, created_at=created_at
    )
    return partial(row.save, using=conversation._state.db)
