"""The tables of ``SQLAlchemySession`` of OpenAI's Agents SDK. The SDK need not be installed: its items are JSON.

The items of one answer are one message, see :mod:`chatmemory.formats.responses.agents_items`. An SDK session over the
conversation returns the same items.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import groupby
from typing import Any

from chatmemory.formats.responses.agents_items import FRAMEWORK, Item, groups, items_of, messages_of
from chatmemory.transfer.found import Found, FoundConversation, FoundMessage
from chatmemory.transfer.moments import from_column
from chatmemory.transfer.reports import BadRecordError
from chatmemory.transfer.sources.tables.table import Row, Table, json_object

__all__ = ["read_openai_agents"]


def read_openai_agents(database: str, table: str = "agent_messages") -> Found:
    """Yield the sessions that have items, with the session IDs as memory IDs."""
    messages = Table(database, table)
    messages.require("id", "session_id", "message_data", "created_at")
    rows = messages.rows(["message_data", "created_at"], "session_id", "id")
    for session, own in groupby(rows, key=lambda row: row["session_id"]):
        yield FoundConversation(
            place=f"{messages.place}: session {session!r:.100}",
            memory_id=session,
            framework=FRAMEWORK,
            messages=_Session(messages.place, own).messages(),
        )


class _Session:
    """The items of one session, and those that are not part of a message yet."""

    def __init__(self, place: str, rows: Iterable[Row]) -> None:
        self._place = place
        self._rows = rows
        self._bad: list[BadRecordError] = []
        self._read: deque[tuple[str, datetime | None]] = deque()
        self._groups: deque[list[Item]] = deque()

    def messages(self) -> Iterator[FoundMessage | BadRecordError]:
        for message in messages_of(self._grouped()):
            yield from self._problems()
            group = self._groups.popleft()
            places = [self._read.popleft() for _item in group]
            yield FoundMessage(
                place=places[0][0],
                message=message,
                said_at=places[-1][1],
                native=None if items_of(message) == group else group,
            )
        yield from self._problems()

    def _grouped(self) -> Iterator[list[Item]]:
        for group in groups(self._items()):
            self._groups.append(group)
            yield group

    def _items(self) -> Iterator[dict[str, Any]]:
        for row in self._rows:
            place = f"{self._place}: id {row['id']}"
            try:
                item = json_object(place, row["message_data"])
            except BadRecordError as error:
                self._bad.append(error)
                continue
            self._read.append((place, from_column(row["created_at"])))
            yield item

    def _problems(self) -> Iterator[BadRecordError]:
        yield from self._bad
        self._bad.clear()
