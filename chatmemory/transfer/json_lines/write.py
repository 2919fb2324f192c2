"""Conversations as JSON lines: everything that is known of each, in memory that stays bounded.

A conversation is a line with its settings and counters; a line for each message, evicted ones included; a line for each
idempotency key; and one that says how many there were, so that a file that was cut off is known for one. Users are
named by their user names. What is written is the conversation as it was when its first line was made, whatever is said
meanwhile. :mod:`chatmemory.transfer.json_lines.restore` reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError

from chatmemory.core.json_text import dumps, loads
from chatmemory.core.messages import ChatMessage, ChatMessageType
from chatmemory.core.serialization.codec import message_to_json
from chatmemory.database.idempotency import scope_of, scope_of_owner
from chatmemory.database.rows import in_parts, read_in_parts
from chatmemory.models import COUNTERS, WINDOW_SETTINGS, Conversation, IdempotencyKey, Message
from chatmemory.models.columns import to_columns

__all__ = ["DESCRIBED", "conversation_lines", "key_line", "message_or_problem"]

DESCRIBED = ("memory_id", "title", "metadata", *WINDOW_SETTINGS, *COUNTERS)
"""What the first line of a conversation says, beside its key, owner and times."""


def message_or_problem(row: Message) -> tuple[ChatMessage | None, str]:
    """What was said, or why nobody can tell: other hands may have written the row."""
    try:
        return row.message, ""
    except (TypeError, ValueError) as error:
        return None, str(error)


def conversation_lines(keys: Iterable[Any], *, database: str | None = None) -> Iterator[str]:
    """All lines of some conversations, each ending in a newline. Those that are erased meanwhile are left out.

    Args:
        keys: their primary keys.
        database: the alias; by default the one that is read from.
    """
    for key in keys:
        found = Conversation.objects.using(database).filter(pk=key).select_related("owner").first()
        if found is not None:
            yield from _lines(found)


def _lines(conversation: Conversation) -> Iterator[str]:
    yield _described(conversation)
    messages = keys = 0
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
    end = {"messages": messages, "idempotency_keys": keys}
    yield f"{dumps({'conversation': conversation.pk, 'end': end})}\n"


def _described(conversation: Conversation) -> str:
    owner = conversation.owner
    described = {
        "conversation": conversation.pk,
        "owner": None if owner is None else owner.get_username(),
        **{name: getattr(conversation, name) for name in DESCRIBED},
        # PostgreSQL gives the keys of objects in an order of its own.
        "metadata": _sorted(conversation.metadata),
        "created_at": conversation.created_at.isoformat(),
        "updated_at": conversation.updated_at.isoformat(),
    }
    # SQLite holds half of a surrogate pair in metadata, UTF-8 does not; so it becomes what JSON writes for it.
    return f"{dumps(described)}\n".encode("utf-8", "backslashreplace").decode()


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def _message_line(row: Message, version: int) -> str:
    message, problem = message_or_problem(row)
    # Put together from texts: as part of a whole, a message that is nested as deep as may be would not be written.
    parts = [
        dumps({"conversation": row.conversation_id, "position": row.position}),
        f'{{"message":{message_to_json(message)}}}',
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
    """Whether the message alone gives the columns back."""
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
        "memory_order": row.memory_order,
        "added_in": row.added_in,
        "evicted_in": row.evicted_in if evicted else None,
        "evicted_at": row.evicted_at.isoformat() if evicted and row.evicted_at else None,
        "eviction_reason": row.eviction_reason if evicted else "",
        "created_at": row.created_at.isoformat(),
    }


def key_line(record: IdempotencyKey, conversation: Conversation) -> str | None:
    """One idempotency key; None for one that came later than ``conversation``, or of a user who is no more."""
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
    """The user name of whoever made the conversation with this key."""
    owner = conversation.owner
    if owner is not None and record.scope == scope_of_owner(owner):
        return str(owner.get_username())
    users = get_user_model()._default_manager.using(conversation._state.db)
    with suppress(ValueError, ValidationError, OverflowError):
        user = users.filter(pk=record.scope.removeprefix("owner ")).first()
        return None if user is None else str(user.get_username())
    return None
