"""Idempotency keys: a change with a key happens once, and a repeated call returns the original result.

Keys are unique within a scope. The scope of an addition is its conversation, whose lock makes simultaneous requests
queue. The scope of a creation is the owner.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from chatmemory.core.exceptions import IdempotencyConflictError, InvalidValueError
from chatmemory.core.json_text import dumps, loads, require_storable
from chatmemory.database.change import Change, MemorySize
from chatmemory.database.connections import retry
from chatmemory.database.reading import chunks, rows_of
from chatmemory.models import OWNER_SCOPE, Conversation, IdempotencyKey, Message, Origin
from chatmemory.models.conversation_names import kept_names, key_name
from chatmemory.models.fields import uuid7
from chatmemory.models.message import pins_until


def check_key(key: str) -> None:
    """Raise an error if ``key`` cannot be stored.

    Raises:
        InvalidValueError: ``key`` is not a string of 1 to 255 characters that databases can store.
    """
    if not isinstance(key, str) or not 0 < len(key) <= 255:
        raise InvalidValueError(
            "idempotency_key must be a string of 1 to %(most)s characters, but is: %(got)s",
            most=255,
            got=repr(key)[:300],
        )
    require_storable(key, "idempotency_key")


def fingerprint(text: str) -> str:
    """Return a hash of a request's text: 64 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def scope_of(conversation: Conversation) -> str:
    """Return the scope of the keys of additions to ``conversation``."""
    return f"conversation {conversation.pk}"


def scope_of_owner(owner: Any) -> str:
    """Return the scope of the keys of conversations that are created for ``owner``, who may be None."""
    return f"{OWNER_SCOPE}{'' if owner is None else owner.pk}"


def keys_of(conversation: Conversation) -> QuerySet[IdempotencyKey]:
    """Return the keys of additions to ``conversation``.

    The query filters by conversation and scope, because tables may be distributed by conversation.
    """
    keys = IdempotencyKey.objects.using(conversation._state.db or "default")
    return keys.filter(conversation=conversation, scope=scope_of(conversation))


def keys_of_owner(owner: Any, key: str, database: str) -> QuerySet[IdempotencyKey]:
    """Return the keys with which ``owner`` has created conversations.

    If names are in a separate table, the result contains only the keys of the conversation that ``key`` has created.
    """
    keys = IdempotencyKey.objects.using(database).filter(scope=scope_of_owner(owner))
    names = kept_names(database)
    if names is None:
        return keys
    found = names.locate(database, key_name(scope_of_owner(owner), key))
    return keys.none() if found is None else keys.filter(conversation=found)


def made_by(owner: Any, key: str, conversation: UUID, database: str) -> UUID:
    """Return the primary key of the conversation that ``owner`` creates with ``key``. It differs if the key was already
    used.

    The constraint of the table also finds this out, unless names are in a separate table.

    Args:
        owner: the user.
        key: the key.
        conversation: the primary key of the conversation to create.
        database: the alias of the database, in whose transaction it is created.
    """
    names = kept_names(database)
    return conversation if names is None else names.claim(database, key_name(scope_of_owner(owner), key), conversation)


def make_conversation(
    make: Callable[[UUID], Conversation],
    database: str,
    owner: Any,
    account: Callable[[Conversation], str],
    *,
    key: str | None,
    request: str,
) -> str:
    """Insert the conversation of an owner, with the key of its creation, in one transaction. Return its account.

    Args:
        make: inserts the conversation with a primary key, and returns it. It is called again if the database rolled the
            transaction back.
        database: the alias of the database.
        owner: the owner, None if there is none.
        account: returns the result for the stored row, which is also the result of repeated requests. Its exceptions
            undo everything.
        key: the key, or None.
        request: the fingerprint of the request.

    Raises:
        IntegrityError: the owner already has a conversation with this memory ID or key.
    """

    def transact() -> str:
        with transaction.atomic(using=database):
            new = uuid7()
            made = make(new if key is None else made_by(owner, key, new, database))
            told = account(made)
            if key is not None:
                IdempotencyKey.objects.using(database).create(
                    conversation=made, scope=scope_of_owner(owner), key=key, fingerprint=request, account=told
                )
        return told

    return retry(database, transact)


def find_key(keys: QuerySet[IdempotencyKey], key: str, request: str) -> IdempotencyKey | None:
    """Return the record of a key that was already used, or None.

    Args:
        keys: the keys of one scope.
        key: the key.
        request: the fingerprint of the current request.

    Raises:
        IdempotencyConflictError: the key was already used with another request.
    """
    found = keys.filter(key=key).first()
    if found is not None and found.fingerprint != request:
        raise IdempotencyConflictError(
            "idempotency key %(key)s was already used with another request; use a new key", key=repr(key)
        )
    return found


def recall(change: Change, key: str, messages: str) -> bool:
    """Fill ``change`` with the result of the addition that already used ``key``. Return whether there was one.

    With ``KEEP_HISTORY = False``, the result lacks messages that were deleted since.

    Args:
        change: an empty change.
        key: the key.
        messages: the fingerprint of the messages to add.

    Raises:
        IdempotencyConflictError: the key was already used with different messages.
    """
    conversation = change.conversation
    found = find_key(keys_of(conversation), key, messages)
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


def places(conversation: Conversation, key: str) -> tuple[int, int | None]:
    """Return the position of the last message that was added with ``key``, and that of its answer, or None if unknown.

    The messages may have been deleted since.

    Raises:
        IdempotencyKey.DoesNotExist: nothing was added with ``key``.
    """
    account = loads(keys_of(conversation).get(key=key).account)
    return account["last"], account.get("answer")


def note_answer(conversation: Conversation, key: str) -> None:
    """Record that the next message answers the messages that were added with ``key``.

    Args:
        conversation: the locked conversation.
        key: the key. If it has been purged, nothing is done.
    """
    keys = keys_of(conversation).filter(key=key)
    for account in keys.values_list("account", flat=True):
        keys.update(account=dumps(loads(account) | {"answer": conversation.next_position}))


def _as_of(row: Message, version: int, token_count: int) -> None:
    row.token_count = token_count
    row.pins = pins_until(row.pins, version)
    if row.evicted_in is not None and row.evicted_in > version:
        row.evicted_in = row.evicted_at = None
        row.eviction_reason = ""


def remember(change: Change, key: str, messages: str) -> None:
    """Store the result of ``change`` under ``key``, in the transaction of the change.

    Args:
        change: the written change.
        key: the key.
        messages: the fingerprint of the added messages.
    """
    conversation = change.conversation
    given = [row.position for row in change.added if row.origin != Origin.CLEARED]
    IdempotencyKey.objects.using(conversation._state.db).create(
        conversation=conversation,
        scope=scope_of(conversation),
        key=key,
        fingerprint=messages,
        account=dumps(
            {
                "added": [[row.position, row.token_count] for row in change.added],
                "evicted": [[row.position, row.token_count] for row in change.evicted],
                "last": given[-1] if given else None,
                "memory": vars(change.memory),
            }
        ),
    )
