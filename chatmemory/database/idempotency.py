"""Changes that come with a key happen once: a second time gives the account of the first.

Keys are unique within a scope. The scope of an addition is its conversation, whose lock makes two that arrive at once
queue; the scope of a creation is the owner.
"""

from __future__ import annotations

import hashlib
from typing import Any

from django.db.models import QuerySet

from chatmemory.core.exceptions import IdempotencyConflictError
from chatmemory.core.json_text import dumps, loads
from chatmemory.core.messages import ChatMessage
from chatmemory.core.serialization.codec import messages_to_json
from chatmemory.core.serialization.storable import require_storable
from chatmemory.database.change import Change, MemorySize
from chatmemory.database.rows import chunks, rows_of
from chatmemory.models import Conversation, IdempotencyKey, Message

__all__ = ["check_key", "find_key", "fingerprint", "keys_of", "recall", "remember", "scope_of", "scope_of_owner"]


def check_key(key: str) -> None:
    """
    Raises:
        ValueError: ``key`` is no string of 1 to 255 characters that a database can hold.
    """
    if not isinstance(key, str) or not 0 < len(key) <= 255:
        raise ValueError(f"idempotency_key must be a string of 1 to 255 characters, but is: {key!r:.300}")
    require_storable(key, "idempotency_key")


def fingerprint(text: str) -> str:
    """What tells one request from another: 64 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def scope_of(conversation: Conversation) -> str:
    """Where the keys of additions are unique."""
    return f"conversation {conversation.pk}"


def scope_of_owner(owner: Any) -> str:
    """Where the keys of creations are unique."""
    return f"owner {owner.pk}"


def keys_of(conversation: Conversation) -> QuerySet[IdempotencyKey]:
    """Those of its additions. They are named by the conversation too, by which tables may be distributed."""
    keys = IdempotencyKey.objects.using(conversation._state.db or "default")
    return keys.filter(conversation=conversation, scope=scope_of(conversation))


def find_key(keys: QuerySet[IdempotencyKey], key: str, request: str) -> IdempotencyKey | None:
    """The record of a key that came before.

    Args:
        keys: of one scope.
        key: the key.
        request: fingerprint of what is asked now.

    Raises:
        IdempotencyConflictError: something else was asked then.
    """
    found = keys.filter(key=key).first()
    if found is not None and found.fingerprint != request:
        raise IdempotencyConflictError(f"idempotency key {key!r} was used before, with another request; take a new key")
    return found


def recall(change: Change, key: str, messages: list[ChatMessage]) -> bool:
    """Whether ``key`` came before; then ``change`` becomes the account of that time.

    With ``KEEP_HISTORY = False`` messages that were deleted since are missing in it.

    Raises:
        IdempotencyConflictError: it came with other messages.
    """
    conversation = change.conversation
    found = find_key(keys_of(conversation), key, fingerprint(messages_to_json(messages)))
    if found is None:
        return False
    account = loads(found.account)
    change.size = MemorySize(**account["memory"])
    tokens = dict(account["added"] + account["evicted"])
    rows = {
        row.position: row for chunk in chunks(list(tokens)) for row in rows_of(conversation).filter(position__in=chunk)
    }
    for position, row in rows.items():
        _as_of(row, change.size.version, tokens[position])
    change.added = [rows[position] for position, _ in account["added"] if position in rows]
    change.evicted = [rows[position] for position, _ in account["evicted"] if position in rows]
    return True


def _as_of(row: Message, version: int, token_count: int) -> None:
    row.token_count = token_count
    if row.evicted_in is not None and row.evicted_in > version:
        row.evicted_in = row.evicted_at = None
        row.eviction_reason = ""


def remember(change: Change, key: str, messages: list[ChatMessage]) -> None:
    """Write down what ``change`` did, in its transaction."""
    conversation = change.conversation
    IdempotencyKey.objects.using(conversation._state.db).create(
        conversation=conversation,
        scope=scope_of(conversation),
        key=key,
        fingerprint=fingerprint(messages_to_json(messages)),
        account=dumps(
            {
                "added": [[row.position, row.token_count] for row in change.added],
                "evicted": [[row.position, row.token_count] for row in change.evicted],
                "memory": vars(change.memory),
            }
        ),
    )
