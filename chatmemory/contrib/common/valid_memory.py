"""The messages of a memory as adapters send them to a model: valid after evictions, whoever wrote them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from django.db.models import Q

from chatmemory.conf import setting
from chatmemory.contrib.common.native_memory import NativeMemory
from chatmemory.core.entries import Cause, EvictionReason
from chatmemory.core.messages import AiMessage, ChatMessage, ToolExecutionResultMessage
from chatmemory.database.retry import retry
from chatmemory.formats.call_ids import CallIds
from chatmemory.models import Message, MessageQuerySet

__all__ = ["valid_among", "valid_message", "valid_rows"]


def valid_rows(memory: NativeMemory) -> Iterator[tuple[Message, ChatMessage]]:
    """Yield the rows of the memory, each with its message, as :func:`valid_among` does."""
    found = memory.messages
    return valid_among(retry(memory.database, lambda: list(found.retained())), found)


def valid_among(rows: Iterable[Message], history: MessageQuerySet | None) -> Iterator[tuple[Message, ChatMessage]]:
    """Yield rows, each with its message, in which every tool call and result has an ID.

    The window evicts a call together with the results that directly follow it, but may leave other results behind. So
    after the first eviction, results without a call are left out here. Before it, they were written so, and they stay.
    A result without a tool's name gets the name of its call.

    Args:
        rows: of one conversation, in memory order.
        history: all rows of that conversation; None to leave out nothing.
    """
    names: dict[str | None, str | None] = {}
    ids: CallIds | None = None
    cut: bool | None = None
    for row in rows:
        message = row.message
        if isinstance(message, AiMessage):
            ids = _call_ids(row)
            message = ids.with_ids(message)
            names |= {request.id: request.name for request in message.tool_execution_requests}
        elif isinstance(message, ToolExecutionResultMessage):
            id = message.id if ids is None else ids.id_answered_by(message)
            if id not in names and history is not None:
                cut = _was_cut(history) if cut is None else cut
                if cut:
                    continue
            name = names.get(id) if message.tool_name is None else message.tool_name
            message = replace(message, id=f"call_{row.position}" if id is None else id, tool_name=name)
        yield row, message


def valid_message(row: Message, rows: MessageQuerySet) -> ChatMessage:
    """Return the message of one row as :func:`valid_among` yields it among ``rows``, which are in memory order."""
    until = rows.filter(memory_order__lte=row.memory_order)
    answer = until.filter(type=AiMessage.type).last() or row  # a result answers the last one before it
    *_, (_row, message) = valid_among(until.filter(memory_order__gte=answer.memory_order), None)
    return message


def _call_ids(row: Message) -> CallIds:
    # By the position, so that what was evicted changes no ID.
    return CallIds(lambda number: f"call_{row.position}_{number}", keep_empty=True)


def _was_cut(history: MessageQuerySet) -> bool:
    if not setting("KEEP_HISTORY"):
        return True  # it cannot be known any more
    # Nor can it be known of messages that were purged.
    cut = history.filter(
        Q(eviction_reason__in=EvictionReason.of(Cause.ROOM, Cause.SUMMARY)) | Q(conversation__purged_count__gt=0)
    )
    return retry(history.db, cut.exists)
