"""The table of Spring AI's ``JdbcChatMemoryRepository``, in each of the shapes that its versions have made.

Spring AI stores a message's text and type, but neither tool calls nor the results of tools: rows of tools become custom
messages. It writes all rows of a conversation again at each change, before version 2 with new times, so a time may
be later than the message. It keeps no more of a conversation than its window, so the messages of one are read at once.
"""

from __future__ import annotations

from collections.abc import Iterator

from chatmemory.core.arguments import is_blank
from chatmemory.core.messages import AiMessage, ChatMessage, CustomMessage, SystemMessage, UserMessage
from chatmemory.transfer.moments import from_column
from chatmemory.transfer.records import BadRecordError, Found, FoundConversation, FoundMessage
from chatmemory.transfer.sources.tables.table import Row, Table

__all__ = ["ATTRIBUTE", "read_spring_ai"]

ATTRIBUTE = "spring_ai"
"""The attribute for columns that Spring AI itself does not have."""

_KNOWN = ("conversation_id", "content", "type", "timestamp", "sequence_id")


def read_spring_ai(database: str, table: str = "SPRING_AI_CHAT_MEMORY") -> Found:
    """Yield the conversations, with their IDs as memory IDs."""
    messages = Table(database, table)
    messages.require("conversation_id", "content", "type")
    # A table that was migrated has 0 in every sequence_id of a conversation that was not written since.
    order = [name for name in ("sequence_id", "timestamp") if name in messages.columns]
    if not order:
        messages.require("sequence_id")
    for id in messages.distinct("conversation_id"):
        place = f"{messages.place}: conversation {id!r:.100}"
        rows = messages.where(messages.columns, "conversation_id", [id], *order)
        yield FoundConversation(place=place, memory_id=str(id), messages=_messages(place, rows))


def _messages(place: str, rows: list[Row]) -> Iterator[FoundMessage | BadRecordError]:
    for number, row in enumerate(rows, 1):
        here = f"{place}, message {number}"
        try:
            yield FoundMessage(place=here, message=_message(row), said_at=from_column(row.get("timestamp")))
        except (TypeError, ValueError) as error:
            yield BadRecordError(here, str(error))


def _message(row: Row) -> ChatMessage:
    # Columns that a project has added, or a later version.
    more = {name: value for name, value in row.items() if name not in _KNOWN and value is not None}
    attributes = {ATTRIBUTE: more} if more else None
    match row["type"], row["content"] or "":
        case "USER", text:
            return UserMessage(text, attributes=attributes)
        case "ASSISTANT", text:
            return AiMessage(text, attributes=attributes)
        case "SYSTEM", text if not is_blank(text):
            return SystemMessage(text)
        case kind, text:
            return CustomMessage({"framework": ATTRIBUTE, "type": kind, "text": text, **more})
