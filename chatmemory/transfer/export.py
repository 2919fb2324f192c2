"""Write conversations as JSON lines, with everything that is known of each, in bounded memory.

A conversation is a line with its settings and counters; a line for each message, evicted ones included; a line for each
idempotency key; the lines of capabilities, which name their app; and a line with the numbers of all these, by which a
file that was cut off is recognised. Users are named by their user names. The lines have the conversation as it was when
the first of them was written. Later additions are left out. ``chatmemory.transfer.restore`` reads them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.utils.dateparse import parse_datetime

from chatmemory.capabilities import capabilities
from chatmemory.core.json_text import dumps, loads
from chatmemory.core.messages import ChatMessage, ChatMessageType
from chatmemory.core.serialization import message_to_data
from chatmemory.database.idempotency import scope_of, scope_of_owner
from chatmemory.database.reading import in_parts, read_in_parts
from chatmemory.models import COUNTERS, DESCRIBED, OWNER_SCOPE, WINDOW_SETTINGS, Conversation, IdempotencyKey, Message
from chatmemory.models.message import pins_until, to_columns
from chatmemory.transfer.files import TOO_LONG, read_json
from chatmemory.transfer.records import BadRecordError, as_stored

EXPORTED = ("memory_id", "forked_from", *DESCRIBED, *WINDOW_SETTINGS, *COUNTERS)
"""The columns on the first line of a conversation, beside its key, owner and times."""


def message_or_problem(row: Message) -> tuple[ChatMessage | None, str]:
    """Return the message of a row, or None and what is wrong with it: another program may have written the row."""
    try:
        return row.message, ""
    except (TypeError, ValueError) as error:
        return None, str(error)


def conversation_lines(keys: Iterable[Any], *, database: str | None = None) -> Iterator[str]:
    """Yield all lines of some conversations, each ending in a newline. Erased conversations are left out.

    Args:
        keys: the primary keys of the conversations.
        database: the alias of their database; by default the one that is read from.
    """
    for key in keys:
        found = Conversation.objects.using(database).filter(pk=key).select_related("owner").first()
        if found is not None:
            yield from _lines(found)


def _lines(conversation: Conversation) -> Iterator[str]:
    yield _described(conversation)
    messages = keys = others = 0
    rows = Message.objects.using(conversation._state.db).filter(
        conversation=conversation, position__lt=conversation.next_position
    )
    for row in read_in_parts(rows):
        yield _message_line(row, conversation.version)
        messages += 1
    for record in in_parts(IdempotencyKey.objects.using(conversation._state.db).filter(conversation=conversation)):
        line = key_line(record, conversation)
        if line is not None:
            yield line
            keys += 1
    for capability in capabilities():
        app = {"conversation": conversation.pk, "app": capability.app.label}
        for values in capability.export(conversation):
            yield f"{dumps({**app, **values})}\n"
            others += 1
    end = end_of(messages, keys, others)
    yield f"{dumps({'conversation': conversation.pk, 'end': end})}\n"


def end_of(messages: int, keys: int, others: int) -> dict[str, int]:
    """Return what the last line of a conversation says: the numbers of its lines."""
    return {"messages": messages, "idempotency_keys": keys} | ({"others": others} if others else {})


def _described(conversation: Conversation) -> str:
    owner = conversation.owner
    described = {
        "conversation": conversation.pk,
        "owner": None if owner is None else owner.get_username(),
        # PostgreSQL returns the keys of objects in an order of its own.
        **{name: _sorted(getattr(conversation, name)) for name in EXPORTED},
        "created_at": conversation.created_at.isoformat(),
        "updated_at": conversation.updated_at.isoformat(),
    }
    # SQLite can store a lone surrogate in metadata, UTF-8 has no bytes for it; so it becomes JSON's escape.
    return f"{dumps(described)}\n".encode("utf-8", "backslashreplace").decode()


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def _message_line(row: Message, version: int) -> str:
    message, problem = message_or_problem(row)
    # Joined from texts: inside another object, a message that is nested to the limit would exceed it.
    parts = [
        dumps({"conversation": row.conversation_id, "position": row.position}),
        f'{{"message":{dumps(None if message is None else message_to_data(message))}}}',
    ]
    if message is not None and not problem and not _is_all(row, message):
        problem = "the row has more than this version reads of it"
    if problem:
        parts.append(dumps({"problem": problem, "type": row.type, "text": row.text, "payload": row.payload}))
    if row.native is not None:
        parts.append(f'{{"native":{_native(row.native)}}}')
    parts.append(dumps(_state(row, version)))
    return "{" + ",".join(part[1:-1] for part in parts) + "}\n"


def _is_all(row: Message, message: ChatMessage) -> bool:
    """Return whether the columns can be restored from the message alone."""
    if row.payload is None and row.type in (ChatMessageType.USER, ChatMessageType.AI, ChatMessageType.SYSTEM):
        return True
    try:
        return to_columns(message) == {"type": row.type, "text": row.text, "payload": row.payload}
    except (TypeError, ValueError):
        return False


def _native(text: str) -> str:
    try:
        return json.dumps(json.loads(text), separators=(",", ":"))
    except (ValueError, RecursionError):
        return json.dumps(text)


def _state(row: Message, version: int) -> dict[str, Any]:
    evicted = row.evicted_in is not None and row.evicted_in <= version
    return {
        "token_count": row.token_count,
        "synthetic": row.synthetic,
        "origin": row.origin,
        "written_by": row.written_by,
        "covers_from": row.covers_from,
        "covers_to": row.covers_to,
        "pins": pins_until(row.pins, version),
        "memory_order": row.memory_order,
        "added_in": row.added_in,
        "evicted_in": row.evicted_in if evicted else None,
        "evicted_at": row.evicted_at.isoformat() if evicted and row.evicted_at else None,
        "eviction_reason": row.eviction_reason if evicted else "",
        "created_at": row.created_at.isoformat(),
    }


def key_line(record: IdempotencyKey, conversation: Conversation) -> str | None:
    """Return the line of an idempotency key; None if it is newer than ``conversation``, or its user was deleted."""
    of_addition = record.scope == scope_of(conversation)
    if of_addition and _version_of(record) > conversation.version:
        return None
    creator = None if of_addition else _creator(record, conversation)
    if not of_addition and creator is None:
        return None
    line = {
        "conversation": record.conversation_id,
        "idempotency_key": record.key,
        "creator": creator,
        "fingerprint": record.fingerprint,
        "account": record.account,
        "created_at": record.created_at.isoformat(),
    }
    return f"{dumps(line)}\n"


def _version_of(record: IdempotencyKey) -> int:
    with suppress(KeyError, TypeError, ValueError):
        return int(loads(record.account)["memory"]["version"])
    return 0


def _creator(record: IdempotencyKey, conversation: Conversation) -> str | None:
    """Return the name of the user who created the conversation with this key; None if there is no such user."""
    owner = conversation.owner
    if owner is not None and record.scope == scope_of_owner(owner):
        return str(owner.get_username())
    users = get_user_model()._default_manager.using(conversation._state.db)
    with suppress(ValueError, ValidationError, OverflowError):
        user = users.filter(pk=record.scope.removeprefix(OWNER_SCOPE)).first()
        return None if user is None else str(user.get_username())
    return None


@dataclass
class Line:
    """One line. Its fields are taken out one by one; those that are left at the end are unknown."""

    place: str
    """The place of the line, for error messages."""

    key: str
    """The primary key of the conversation."""

    data: dict[str, Any]
    """The fields that have not been taken out."""

    problem: str = ""
    """The problem of a line that is not a JSON object with a key; empty for any other line."""

    def bad(self, problem: str) -> BadRecordError:
        """Return an error that names the place of the line."""
        return BadRecordError(self.place, problem)

    def has(self, name: str) -> bool:
        return name in self.data

    def take(self, name: str, kind: type, what: str, *, null: bool = False) -> Any:
        """Take out a field and return its value, which is of type ``kind``, or with ``null`` None.

        Raises:
            BadRecordError: the value is of another type, or missing.
        """
        if name not in self.data:
            raise self.bad(f"{name} is missing; if an older version wrote this file, export the conversation again")
        value = self.data.pop(name)
        if (null and value is None) or (isinstance(value, kind) and not (kind is int and isinstance(value, bool))):
            return value
        raise self.bad(f"{name}: expected {what}, got {json.dumps(value)[:100]}")

    def text(self, name: str, *, null: bool = False) -> Any:
        return self.encodable(name, self.take(name, str, "a text", null=null))

    def encodable(self, name: str, text: str | None) -> str | None:
        """Return ``text``, the value of the field ``name``.

        Raises:
            BadRecordError: no database can store the text.
        """
        try:
            (text or "").encode()
        except UnicodeEncodeError as error:
            raise self.bad(f"{name}: has a lone surrogate at index {error.start}; take it out") from None
        return text

    def number(self, name: str, *, null: bool = False) -> Any:
        return self.take(name, int, "a whole number", null=null)

    def flag(self, name: str, *, null: bool = False) -> Any:
        return self.take(name, bool, "true, false or null" if null else "true or false", null=null)

    def moment(self, name: str, *, null: bool = False) -> Any:
        text = self.text(name, null=null)
        if text is None:
            return None
        try:
            found = parse_datetime(text)
        except ValueError:
            found = None
        if found is None:
            raise self.bad(f"{name}: expected a time such as 2026-01-31T12:00:00+00:00, got {text[:100]!r}")
        return as_stored(found)

    def uuid(self) -> UUID:
        try:
            return UUID(self.key)
        except ValueError:
            raise self.bad(f"conversation: expected a UUID, got {self.key[:100]!r}") from None

    def done(self) -> None:
        """Require that all fields have been taken out.

        Raises:
            BadRecordError: there is an unknown field.
        """
        if self.data:
            raise self.bad(f"{next(iter(self.data))[:100]!r} is unknown; a newer version may have written this file")


def blocks(lines: Iterable[tuple[str, str | None]]) -> Iterator[Iterator[Line]]:
    """Yield the lines of each conversation, up to its end. An unreadable line belongs to the conversation before it."""
    for _key, block in groupby(_numbered(_parsed(lines)), key=lambda item: (item[0], item[1].key)):
        yield (line for _number, line in block)


def _numbered(lines: Iterator[Line]) -> Iterator[tuple[int, Line]]:
    """Yield each line after the number of conversations that ended before it: a file of two exports may repeat one."""
    ended = 0
    for line in lines:
        ends = line.has("end") and not line.has("app")  # before its fields are taken out
        yield ended, line
        ended += ends


def _parsed(lines: Iterable[tuple[str, str | None]]) -> Iterator[Line]:
    key = ""
    for place, text in lines:
        if text is None:
            yield Line(place, key, {}, TOO_LONG)
            continue
        try:
            data = read_json(text)
        except ValueError as error:
            yield Line(place, key, {}, str(error))
            continue
        if not isinstance(data, dict) or not isinstance(data.get("conversation"), str):
            yield Line(place, key, {}, 'expected an object with the key "conversation"')
            continue
        key = data.pop("conversation")
        yield Line(place, key, data)
