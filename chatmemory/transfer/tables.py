"""Tables of other programs, read a page at a time through a database of ``DATABASES``.

Tables with LangChain's messages are those of its ``SQLChatMessageHistory``, and of django-ai-assistant. LangChain's own
code reads its messages, so langchain-core must be installed. They are stored as
``chatmemory.contrib.langchain.messages`` stores them, so LangChain reads equal messages from the conversation.

OpenAI's Agents SDK need not be installed: its items are JSON. ``SQLAlchemySession``, ``SQLiteSession`` and
``AsyncSQLiteSession`` have a table of items. ``AdvancedSQLiteSession`` has another one, ``message_structure``, which
puts each item into one or more branches. Each branch is a conversation of its own; the tables do not say which one is
current. The items of one answer are one message, see ``chatmemory.formats.agents_items``. An SDK session
over the conversation returns the same items.

The table of Spring AI's ``JdbcChatMemoryRepository`` is read in each of the shapes that its versions have made. Spring
AI stores a message's text and type, but neither tool calls nor the results of tools: rows of tools become custom
messages. It writes all rows of a conversation again at each change, before version 2 with new times, so a time may be
later than the message. It keeps no more of a conversation than its window, so the messages of one are read at once.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

from django.contrib.auth import get_user_model
from django.db import connections

from chatmemory.core.arguments import is_blank
from chatmemory.core.messages import AiMessage, ChatMessage, CustomMessage, SystemMessage, UserMessage
from chatmemory.database.reading import ROWS_AT_ONCE
from chatmemory.formats.agents_items import FRAMEWORK, Item, groups, items_of, messages_of
from chatmemory.models.fields import exact_collation
from chatmemory.transfer.records import BadRecordError, Found, FoundConversation, FoundMessage, from_column

_ROWS = 1000

Row = dict[str, Any]
"""The values of a row by the names of their columns."""


class Table:
    """A table of another program."""

    def __init__(self, database: str, name: str) -> None:
        """
        Args:
            database: the alias of the database.
            name: the name of the table; another case is accepted if no table has exactly this name.

        Raises:
            BadRecordError: there is no such table.
        """
        self._connection = connections[database]
        with self._connection.cursor() as cursor:
            names = self._connection.introspection.table_names(cursor)
            known = name if name in names else next((one for one in names if one.lower() == name.lower()), None)
            if known is None:
                raise BadRecordError(f"{database}.{name}", "there is no such table; name another one with --table")
            described = self._connection.introspection.get_table_description(cursor, known)
        self.name = known
        self.place = f"{database}.{known}"
        self.columns = [column.name for column in described]
        self._collation = exact_collation(self._connection)
        type_of = self._connection.introspection.get_field_type
        self._inexact = {
            one.name
            for one in described
            if self._collation is not None and type_of(one.type_code, one) in ("CharField", "TextField")
        }

    def require(self, *columns: str) -> None:
        """Require that the table has ``columns``.

        Raises:
            BadRecordError: a column is missing.
        """
        for column in columns:
            if column not in self.columns:
                raise BadRecordError(self.place, f"has no column {column}, so it is not what this format reads")

    def referenced_table(self, column: str) -> str | None:
        """Return the name of the table that a foreign key of ``column`` refers to; None without one."""
        with self._connection.cursor() as cursor:
            relations = self._connection.introspection.get_relations(cursor, self.name)
        return relations[column][1] if column in relations else None

    def count_nulls(self, column: str) -> int:
        """Return the number of rows that have no value in ``column``."""
        quote = self._connection.ops.quote_name
        sql = f"SELECT COUNT(*) FROM {quote(self.name)} WHERE {quote(column)} IS NULL"
        return int(self._fetch(sql, [])[0][0])

    def rows(self, columns: Sequence[str], *keys: str) -> Iterator[Row]:
        """Yield all rows in the order of ``keys``, whose values are unique together and not null."""
        quote = self._connection.ops.quote_name
        read = list(dict.fromkeys([*keys, *columns]))
        exact = {key: self._exact(key) for key in keys}
        select = f"SELECT {', '.join(map(quote, read))} FROM {quote(self.name)}"
        there = " AND ".join(f"{quote(key)} IS NOT NULL" for key in keys)
        order = f"ORDER BY {', '.join(exact.values())} LIMIT {_ROWS}"
        # The rows that follow: a larger first key, or the same first key and a larger second one.
        later = " OR ".join(
            "(" + " AND ".join([*(f"{exact[same]} = %s" for same in keys[:index]), f"{exact[key]} > %s"]) + ")"
            for index, key in enumerate(keys)
        )
        last: list[Any] = []
        while True:
            parameters = [last[place] for index in range(len(keys)) for place in range(index + 1)] if last else []
            where = f"{there} AND ({later})" if last else there
            page = self._fetch(f"{select} WHERE {where} {order}", parameters)
            for row in page:
                yield dict(zip(read, row, strict=True))
            if len(page) < _ROWS:
                return
            last = list(page[-1][: len(keys)])

    def distinct(self, column: str) -> Iterator[Any]:
        """Yield the distinct values of a column, in order."""
        name, table = self._exact(column), self._connection.ops.quote_name(self.name)
        value = None
        while True:
            later = "" if value is None else f"AND {name} > %s"
            sql = f"SELECT DISTINCT {name} FROM {table} WHERE {name} IS NOT NULL {later} ORDER BY {name} LIMIT {_ROWS}"
            page = self._fetch(sql, [] if value is None else [value])
            for (value,) in page:
                yield value
            if len(page) < _ROWS:
                return

    def where(self, columns: Sequence[str], column: str, values: Sequence[Any], *order: str) -> list[Row]:
        """Return all rows with one of ``values`` in a column, in the order of other columns."""
        quote = self._connection.ops.quote_name
        select = f"SELECT {', '.join(map(quote, columns))} FROM {quote(self.name)}"
        there = f"{self._exact(column)} IN ({', '.join(['%s'] * len(values))})"
        rows = self._fetch(f"{select} WHERE {there} ORDER BY {', '.join(map(quote, order))}", list(values))
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def _exact(self, column: str) -> str:
        """Return SQL for a column that compares texts exactly: "a" and "A" are different."""
        name = self._connection.ops.quote_name(column)
        return f"CONVERT({name} USING utf8mb4) COLLATE {self._collation}" if column in self._inexact else name

    def _fetch(self, sql: str, parameters: list[Any]) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return list(cursor.fetchall())


def _json_object(place: str, value: Any) -> dict[str, Any]:
    """Return the JSON object in a column.

    Raises:
        BadRecordError: the value is not a JSON object.
    """
    try:
        data = json.loads(value) if isinstance(value, (str, bytes)) else value
    except (ValueError, RecursionError) as error:
        raise BadRecordError(place, f"not JSON: {error}") from error
    if not isinstance(data, dict):
        raise BadRecordError(place, "expected a JSON object")
    return data


_AI_ASSISTANT = "django_ai_assistant"


def read_langchain(database: str, table: str = "message_store") -> Found:
    """Yield the sessions of ``SQLChatMessageHistory``, with the session IDs as memory IDs. The table has no times."""
    messages = Table(database, table)
    messages.require("id", "session_id", "message")
    without = messages.count_nulls("session_id")
    if without:
        yield BadRecordError(messages.place, f"{without} messages have no session_id, so their conversation is unknown")
    for session, rows in groupby(messages.rows(["message"], "session_id", "id"), key=lambda row: row["session_id"]):
        yield FoundConversation(
            place=f"{messages.place}: session {session!r:.100}",
            memory_id=session,
            framework=_langchain_framework(messages.place),
            messages=_langchain_messages(messages.place, rows),
        )


def read_ai_assistant(database: str, table: str = "django_ai_assistant_thread") -> Found:
    """Yield the threads of django-ai-assistant, with the memory IDs ``thread-1`` and so on."""
    threads = Table(database, table)
    threads.require("id", "name", "created_by_id", "assistant_id", "created_at")
    messages = Table(database, f"{threads.name.removesuffix('thread')}message")
    messages.require("id", "thread_id", "message", "created_at")
    users = get_user_model()._default_manager.using(database)
    by_thread = groupby(messages.rows(["message", "created_at"], "thread_id", "id"), key=lambda row: row["thread_id"])
    following = next(by_thread, None)
    for thread in threads.rows(["name", "created_by_id", "assistant_id", "created_at"], "id"):
        rows: Iterable[Row] = ()
        # Both are in the order of the threads.
        while following is not None and following[0] < thread["id"]:
            yield BadRecordError(
                messages.place, f"has messages of thread {following[0]}, which the table of threads does not have"
            )
            following = next(by_thread, None)
        if following is not None and following[0] == thread["id"]:
            rows = following[1]
        owner = users.filter(pk=thread["created_by_id"]).first() if thread["created_by_id"] is not None else None
        assistant = thread["assistant_id"]
        yield FoundConversation(
            place=f"{threads.place}: thread {thread['id']}",
            memory_id=f"thread-{thread['id']}",
            framework=_langchain_framework(messages.place),
            title=thread["name"],
            metadata={_AI_ASSISTANT: {"assistant_id": assistant}} if assistant else {},
            owner=None if owner is None else owner.get_username(),
            created_at=from_column(thread["created_at"]),
            messages=_langchain_messages(messages.place, rows),
        )
        if rows:
            following = next(by_thread, None)


def _langchain_framework(place: str) -> str:
    try:
        from chatmemory.contrib.langchain.messages import FRAMEWORK as LANGCHAIN
    except ImportError as error:
        raise BadRecordError(
            place, f"these messages are read by LangChain's own code; install langchain-core ({error})"
        ) from error
    return LANGCHAIN


def _langchain_messages(place: str, rows: Iterable[Row]) -> Iterator[FoundMessage | BadRecordError]:
    from langchain_core.messages import messages_from_dict

    from chatmemory.contrib.langchain.messages import form_of, to_chat_message

    for row in rows:
        here = f"{place}: id {row['id']}"
        try:
            data: Any = _json_object(here, row["message"])
            (message,) = messages_from_dict([data])
            yield FoundMessage(
                place=here,
                message=to_chat_message(message),
                said_at=from_column(row.get("created_at")),
                native=form_of(message),
            )
        except BadRecordError as error:
            yield error
        except (KeyError, TypeError, ValueError) as error:
            yield BadRecordError(here, f"no message of LangChain's: {error}")


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
            yield _session(messages.place, session, _MAIN, rows)
    if branches is not None:
        by_branch = groupby(branches.rows(["message_id"], *_BRANCH_ORDER), key=itemgetter("session_id", "branch_id"))
        for (session, branch), links_of_branch in by_branch:
            yield _session(messages.place, session, branch, _linked(messages, links_of_branch))


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


def _session(place: str, session: str, branch: str, rows: Iterable[Row]) -> FoundConversation:
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
    item = _json_object(place, text)
    if _ENCRYPTED in item:
        raise BadRecordError(
            place,
            "is encrypted; read the session with the SDK's EncryptedSession, its key and a long ttl, add the items to "
            "a session that is not encrypted, and import that",
        )
    if _MARKS.isdisjoint(item):
        raise BadRecordError(place, "is no item of the Agents SDK: it has no type, role or id")
    return item


_SPRING_AI = "spring_ai"  # the attribute for columns that Spring AI itself does not have

_SPRING_COLUMNS = ("conversation_id", "content", "type", "timestamp", "sequence_id")


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
        yield FoundConversation(place=place, memory_id=str(id), messages=_spring_messages(place, rows))


def _spring_messages(place: str, rows: list[Row]) -> Iterator[FoundMessage | BadRecordError]:
    for number, row in enumerate(rows, 1):
        here = f"{place}, message {number}"
        try:
            yield FoundMessage(place=here, message=_spring_message(row), said_at=from_column(row.get("timestamp")))
        except (TypeError, ValueError) as error:
            yield BadRecordError(here, str(error))


def _spring_message(row: Row) -> ChatMessage:
    # Columns that a project has added, or a later version.
    more = {name: value for name, value in row.items() if name not in _SPRING_COLUMNS and value is not None}
    attributes = {_SPRING_AI: more} if more else None
    match row["type"], row["content"] or "":
        case "USER", text:
            return UserMessage(text, attributes=attributes)
        case "ASSISTANT", text:
            return AiMessage(text, attributes=attributes)
        case "SYSTEM", text if not is_blank(text):
            return SystemMessage(text)
        case kind, text:
            return CustomMessage({"framework": _SPRING_AI, "type": kind, "text": text, **more})
