"""The comparison of names with the conversations that have them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from chatmemory.contrib.citus.models import Name, digest_of
from chatmemory.database.connections import retry
from chatmemory.database.reading import in_parts, pages
from chatmemory.models import Conversation, IdempotencyKey
from chatmemory.models.conversation_names import NameTexts, key_name, memory_name
from chatmemory.verification import Finding


def wrong_names(conversations: QuerySet[Conversation], *, repair: bool) -> Iterator[Finding]:
    """Yield the names that conversations should have and have not; if these are all, also names of nothing.

    Each is examined again in its own transaction, because other programs may write in the meantime.

    Args:
        conversations: the conversations.
        repair: give the names to their conversations, and delete names of nothing.
    """
    database = conversations.db
    for page in pages(conversations):
        wanted = {
            digest_of(name): (conversation, name) for conversation, names in _names_of(page, database) for name in names
        }
        found = dict(Name.objects.using(database).filter(digest__in=wanted).values_list("pk", "conversation_id"))
        for digest, (conversation, name) in wanted.items():
            if found.get(digest) != conversation.pk:
                yield from _attempt(database, partial(_examine, conversation, name, repair), repair)
    if conversations.query.has_filters():
        return
    for rows in pages(Name.objects.using(database)):
        theirs = Conversation.objects.using(database).filter(pk__in={row.conversation_id for row in rows})
        known = _digests(theirs, database)
        for row in rows:
            if row.pk not in known[row.conversation_id]:
                yield from _attempt(database, partial(_examine_stray, row, database, repair), repair)


def _attempt(database: str, examine: Callable[[], Finding | None], repair: bool) -> Iterator[Finding]:
    def transact() -> Finding | None:
        with transaction.atomic(using=database):
            found = examine()
            if not repair:
                transaction.set_rollback(True, using=database)
            return found

    if (found := retry(database, transact)) is not None:
        yield found


def _names_of(page: Iterable[Conversation], database: str) -> Iterator[tuple[Conversation, list[NameTexts]]]:
    """Yield conversations, each with the names that it should have: one by its memory ID, others by keys of owners."""
    by_key = {conversation.pk: conversation for conversation in page}
    names: dict[UUID, list[NameTexts]] = {key: [memory_name(one, database)] for key, one in by_key.items()}
    keys = IdempotencyKey.objects.using(database).filter(conversation__in=by_key).of_owners()
    for record in in_parts(keys):
        names[record.conversation_id].append(key_name(record.scope, record.key))
    for key, conversation in by_key.items():
        yield conversation, names[key]


def _digests(conversations: Iterable[Conversation], database: str) -> dict[UUID, set[str]]:
    found: dict[UUID, set[str]] = defaultdict(set)
    for conversation, names in _names_of(conversations, database):
        found[conversation.pk] = {digest_of(name) for name in names}
    return found


def _examine(conversation: Conversation, name: NameTexts, repair: bool) -> Finding | None:
    """Examine a name that a conversation should have, with both locked."""
    database, digest = conversation._state.db or "default", digest_of(name)
    locked = _locked(conversation.pk, database)
    if locked is None or digest not in _digests([locked], database)[locked.pk]:
        return None  # it has been erased or renamed meanwhile
    names = Name.objects.using(database)
    row = names.select_for_update().filter(pk=digest).first()
    if row is not None and row.conversation_id == locked.pk:
        return None
    found = None if row is None else row.conversation_id
    wrong = _finding(locked.pk, locked.memory_id, expected=locked.pk, found=found)
    if row is not None:
        other = _locked(row.conversation_id, database)
        if other is not None and digest in _digests([other], database)[other.pk]:
            return wrong  # two conversations of one name: nobody can say which of them it should be
    if repair:
        names.update_or_create(pk=digest, defaults={"conversation_id": locked.pk})
    return replace(wrong, repaired=repair)


def _examine_stray(row: Name, database: str, repair: bool) -> Finding | None:
    """Examine a name whose conversation should not have it, with both locked."""
    names = Name.objects.using(database).filter(pk=row.pk, conversation_id=row.conversation_id)
    if names.select_for_update().first() is None:
        return None
    conversation = _locked(row.conversation_id, database) or _made_meanwhile(row.conversation_id, database)
    if conversation is not None and row.pk in _digests([conversation], database)[conversation.pk]:
        return None
    if repair:
        names.delete()
    memory_id = "" if conversation is None else conversation.memory_id
    wrong = _finding(row.conversation_id, memory_id, expected=None, found=row.conversation_id)
    return replace(wrong, repaired=repair)


def _finding(conversation: UUID, memory_id: str, *, expected: UUID | None, found: UUID | None) -> Finding:
    """Return a finding about a name.

    Args:
        conversation: the conversation that should have it, or else the one that it leads to.
        memory_id: that of the conversation.
        expected: the conversation that it should lead to; None if nothing should have it.
        found: the conversation that it leads to; None if nothing has it.
    """
    return Finding(
        conversation=conversation, memory_id=memory_id, what="name", expected=_place(expected), found=_place(found)
    )


def _place(conversation: UUID | None) -> str:
    return "none" if conversation is None else f"one that leads to {conversation}"


def _locked(key: UUID, database: str) -> Conversation | None:
    found: Conversation | None = Conversation.objects.using(database).select_for_update().filter(pk=key).first()
    return found


def _made_meanwhile(key: UUID, database: str) -> Conversation | None:
    """Return the conversation with a primary key if another node is about to show it.

    An insert of the same key waits until the transaction that has made it is committed or rolled back.
    """
    try:
        with transaction.atomic(using=database):
            QuerySet[Conversation, Conversation](Conversation, using=database).bulk_create([Conversation(pk=key)])
            transaction.set_rollback(True, using=database)
    except IntegrityError:
        return _locked(key, database)
    return None
