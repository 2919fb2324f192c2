"""The tables of sessions of OpenAI's Agents SDK. The SDK need not be installed: its items are JSON.

``SQLAlchemySession``, ``SQLiteSession`` and ``AsyncSQLiteSession`` have a table of items. ``AdvancedSQLiteSession`` has
another one, ``message_structure``, which puts each item into one or more branches. Each branch is a conversation of its
own; the tables do not say which one is current.

The items of one answer are one message, see :mod:`chatmemory.formats.responses.agents_items`. An SDK session over the
conversation returns the same items.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

from chatmemory.database.reading import ROWS_AT_ONCE
from chatmemory.formats.responses.agents_items import FRAMEWORK, Item, groups, items_of, messages_of
from chatmemory.transfer.moments import from_column
from chatmemory.transfer.records import BadRecordError, Found, FoundConversation, FoundMessage
from chatmemory.transfer.sources.tables.table import Row, Table, json_object

__all__ = ["read_openai_agents"]

_COLUMNS = ["id", "session_id", "message_data", "created_at"]

_BRANCHES = "message_structure"
_BRANCH_ORDER = ["session_id", "branch_id", "sequence_number", "id"]
_MAIN = "main"

# An item has at least one of these. What has none would become a custom message without any content.
_MARKS = {"type", "role", "id"}
_ENCRYPTED = "__enc__"


def read_openai_agents(database: str, table: str = "agent_messages") -> Found:
    """Yield the sessions that have items, and then the branches of those that have branches.

    The memory ID is the session ID; for a branch other than ``main`` it is ``session (branch)``.
    """
    messages = Table(database, table)
    messages.require(*_COLUMNS)
    branches = _branches_of(messages, database)
    for session, rows in groupby(messages.rows(_COLUMNS, "session_id", "id"), key=itemgetter("session_id")):
        links = branches.where(["message_id"], "session_id", [session], "id") if branches is not None else []
        if links:
            yield from _in_no_branch(messages.place, rows, {link["message_id"] for link in links})
        else:
            yield _conversation(messages.place, session, _MAIN, rows)
    if branches is not None:
        by_branch = groupby(branches.rows(["message_id"], *_BRANCH_ORDER), key=itemgetter("session_id", "branch_id"))
        for (session, branch), links_of_branch in by_branch:
            yield _conversation(messages.place, session, branch, _linked(messages, links_of_branch))


def _branches_of(messages: Table, database: str) -> Table | None:
    """Return the table of branches if there is one, and it belongs to ``messages``."""
    try:
        branches = Table(database, _BRANCHES)
    except BadRecordError:
        return None
    owner = branches.referenced_table("message_id") or messages.name
    belongs = owner.lower() == messages.name.lower()
    return branches if belongs and {"message_id", *_BRANCH_ORDER}.issubset(branches.columns) else None


def _in_no_branch(place: str, rows: Iterable[Row], in_branches: set[int]) -> Iterator[BadRecordError]:
    for row in rows:
        if row["id"] not in in_branches:
            problem = f"{_BRANCHES} puts it into no branch of session {row['session_id']!r:.100}, so the SDK ignores it"
            yield BadRecordError(f"{place}: id {row['id']}", problem)


def _linked(messages: Table, links: Iterator[Row]) -> Iterator[Row]:
    """Yield the rows of ``messages`` that a branch has, in its order."""
    while part := [link["message_id"] for link in islice(links, ROWS_AT_ONCE)]:
        found = {row["id"]: row for row in messages.where(_COLUMNS, "id", part, "id")}
        yield from (found[id] for id in part if id in found)


def _conversation(place: str, session: str, branch: str, rows: Iterable[Row]) -> FoundConversation:
    is_main = branch == _MAIN
    return FoundConversation(
        place=f"{place}: session {session!r:.100}{'' if is_main else f', branch {branch!r:.100}'}",
        memory_id=session if is_main else f"{session} ({branch})",
        framework=FRAMEWORK,
        metadata={} if is_main else {FRAMEWORK: {"session_id": session, "branch_id": branch}},
        messages=_Session(place, rows).messages(),
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
                item = _item(place, row["message_data"])
            except BadRecordError as error:
                self._bad.append(error)
                continue
            self._read.append((place, from_column(row["created_at"])))
            yield item

    def _problems(self) -> Iterator[BadRecordError]:
        yield from self._bad
        self._bad.clear()


def _item(place: str, text: Any) -> Item:
    item = json_object(place, text)
    if _ENCRYPTED in item:
        raise BadRecordError(
            place,
            "is encrypted; read the session with the SDK's EncryptedSession, its key and a long ttl, add the items to "
            "a session that is not encrypted, and import that",
        )
    if _MARKS.isdisjoint(item):
        raise BadRecordError(place, "is no item of the Agents SDK: it has no type, role or id")
    return item
