"""All rows of the package, as plain values that can be compared, read without the package's code."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from benchmarks.soak.adversary.model import CALL, Said, State

__all__ = ["Stored", "StoredConversation", "StoredMessage", "quotes", "read_all", "remove_all"]

# Random IDs and times, which differ each time.
_DRAWN = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?")

_CONVERSATION = (
    *("id", "memory_id", "owner_id", "title", "metadata", "window", "limit", "model"),
    *(
        "always_keep_system_message_first",
        "low_water",
        "whole_turns",
        "keep_tool_results",
        "version",
        "next_position",
        "message_count",
        "retained_count",
    ),
    *("retained_tokens", "purged_count"),
)
_MESSAGE = (
    *("conversation_id", "position", "type", "text", "payload", "native", "token_count", "origin"),
    *("covers_from", "covers_to", "pins", "memory_order", "added_in", "evicted_in", "eviction_reason"),
)
_KEY = ("conversation_id", "scope", "key", "account")

# The order in which rows can be deleted.
_TABLES = (
    *(f"chatmemory_langgraph_{name}" for name in ("write", "channelvalue", "checkpoint", "namespace")),
    *(f"chatmemory_pydantic_ai_{name}" for name in ("entry", "record")),
    *(f"chatmemory_{name}" for name in ("compaction", "idempotencykey", "message", "conversation")),
)


@dataclass(frozen=True, kw_only=True)
class StoredMessage:
    """A row of a message, without its times."""

    position: int
    type: str
    text: str
    payload: str | None
    native: str | None
    token_count: int
    origin: str
    covers_from: int | None
    covers_to: int | None
    pins: str
    memory_order: int
    added_in: int
    evicted_in: int | None
    eviction_reason: str

    @property
    def synthetic(self) -> bool:
        """Whether nobody said the message."""
        return self.origin != "said"

    @property
    def said(self) -> Said:
        """The message as the model of a memory has it."""
        calls = "toolExecutionRequests" in (self.payload or "")
        return Said(CALL if calls else self.type, self.text)


@dataclass(frozen=True, kw_only=True)
class StoredConversation:
    """A row of a conversation, without its times and its turn, and all that belongs to it."""

    memory_id: str
    owner: int | None
    title: str
    metadata: str
    window: str
    limit: int
    model: str
    system_first: bool
    low_water: int
    whole_turns: bool
    keep_tool_results: int | None
    version: int
    next_position: int
    message_count: int
    retained_count: int
    retained_tokens: int
    purged_count: int
    messages: tuple[StoredMessage, ...]
    keys: tuple[tuple[str, ...], ...]

    def memory_at(self, version: int) -> tuple[Said, ...]:
        """Return the memory at a version."""
        there = [
            row
            for row in self.messages
            if row.added_in <= version and (row.evicted_in is None or row.evicted_in > version)
        ]
        return tuple(row.said for row in sorted(there, key=lambda row: row.memory_order))

    @property
    def state(self) -> State:
        """The conversation as the model of a memory has it."""
        history = tuple(row.said for row in self.messages if not row.synthetic)
        return State(self.limit, self.memory_at(self.version), history, self.version, self.next_position)


@dataclass(frozen=True)
class Stored:
    """All rows, in an order that does not depend on random IDs."""

    conversations: tuple[StoredConversation, ...]
    others: tuple[tuple[str, int], ...]
    """The tables of LangGraph's checkpoints and of compactions, and the numbers of their rows."""

    def named(self, memory_id: str) -> StoredConversation | None:
        """Return the conversation with a memory ID."""
        return next((one for one in self.conversations if one.memory_id == memory_id), None)


def read_all(connection: Any) -> Stored:
    """Read all rows over a connection of Django."""
    messages: dict[str, list[StoredMessage]] = {}
    for key, *columns in _rows(connection, "chatmemory_message", _MESSAGE):
        values = dict(zip(_MESSAGE[1:], columns, strict=True))
        values["native"] = _plain(values["native"])
        messages.setdefault(str(key), []).append(StoredMessage(**values))
    keys: dict[str, list[tuple[str, ...]]] = {}
    for key, *texts in _rows(connection, "chatmemory_idempotencykey", _KEY):
        keys.setdefault(str(key), []).append(tuple(_plain(text) or "" for text in texts))
    found = []
    for key, memory_id, owner, title, metadata, window, limit, model, *rest in _rows(
        connection, "chatmemory_conversation", _CONVERSATION
    ):
        first, low_water, whole_turns, keep_tool_results, *counters = rest
        found.append(
            StoredConversation(
                memory_id=_plain(memory_id) or "",
                owner=owner,
                title=title,
                metadata=_plain(json.dumps(json.loads(metadata), sort_keys=True)) or "",
                window=window,
                limit=limit,
                model=model,
                system_first=bool(first),
                low_water=low_water,
                whole_turns=bool(whole_turns),
                keep_tool_results=keep_tool_results,
                **dict(zip(_CONVERSATION[12:], counters, strict=True)),
                messages=tuple(sorted(messages.pop(str(key), ()), key=lambda row: row.position)),
                keys=tuple(sorted(keys.pop(str(key), ()))),
            )
        )
    assert not messages, "there are messages without a conversation"
    assert not keys, "there are keys without a conversation"
    others = tuple((table, len(_select(connection, "1", table))) for table in _TABLES[:5])
    return Stored(tuple(sorted(found, key=lambda one: (one.memory_id, one.version))), others)


def quotes(connection: Any, text: str) -> list[str]:
    """Return the tables in which a text is, whatever the column.

    Args:
        connection: a connection of Django.
        text: a text of letters, which is the same in JSON.
    """
    return [
        table
        for table in _TABLES
        if any(
            text in (value if isinstance(value, str) else repr(bytes(value)))
            for row in _select(connection, "*", table)
            for value in row
            if isinstance(value, str | bytes | memoryview)
        )
    ]


def remove_all() -> None:
    """Delete every row of the package."""
    from django.db import connection, transaction

    with transaction.atomic(), connection.cursor() as cursor:
        for table in _TABLES:
            cursor.execute(f"DELETE FROM {table}")


def _rows(connection: Any, table: str, columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
    return _select(connection, ", ".join(connection.ops.quote_name(column) for column in columns), table)


def _select(connection: Any, what: str, table: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {what} FROM {table}")
        return list(cursor.fetchall())


def _plain(text: str | None) -> str | None:
    return None if text is None else _MOMENT.sub("(time)", _DRAWN.sub("(drawn)", text))
