"""Export or erase all data of a user.

A user's data are the conversations that the user owns. What other users write about the user in their own conversations
cannot be found.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from django.apps import apps
from django.db import router, transaction
from django.db.models import Q

from chatmemory.capabilities import capabilities, hooks
from chatmemory.conf import setting
from chatmemory.core.asynchronous import as_async_change, as_async_iterator
from chatmemory.core.json_text import dumps
from chatmemory.core.messages import ChatMessageType
from chatmemory.database import operations
from chatmemory.database.change import Change, Target, write_columns
from chatmemory.database.connections import retry
from chatmemory.database.idempotency import scope_of_owner
from chatmemory.database.reading import in_parts, pages, rows_of
from chatmemory.models import DESCRIBED, Compaction, Conversation, IdempotencyKey, require_owner
from chatmemory.models.fields import new_memory_id
from chatmemory.models.message import ERASED_TEXT
from chatmemory.retention import Erased
from chatmemory.transfer.export import conversation_lines, key_line


def export_user(user: Any, *, database: str | None = None) -> Iterator[str]:
    """Return an iterator of JSON lines with all data of one user. Each line ends with a newline.

    The conversations are written like in ``chatmemory.transfer.export``. They are followed by a line for each
    idempotency key of a conversation that the user created and another user owns now, and by what capabilities keep of
    the user in conversations of others.

    Args:
        user: a saved user.
        database: the alias of the database; by default the one for writes.

    Raises:
        ValueError: ``user`` is an anonymous or unsaved user, or None.
    """
    alias = database or router.db_for_write(Conversation)
    return _lines(_require_user(user), alias)


aexport_user = as_async_iterator(export_user)
"""Async version of ``export_user``."""


def _lines(user: Any, database: str) -> Iterator[str]:
    for page in pages(Conversation.objects.using(database).filter(owner=user)):
        for conversation in page:
            yield from conversation_lines([conversation.pk], database=database)
    theirs = IdempotencyKey.objects.using(database).filter(scope=scope_of_owner(user)).select_related("conversation")
    for record in in_parts(theirs.exclude(conversation__owner=user)):
        yield key_line(record, record.conversation) or ""
    for capability in capabilities():
        for values in capability.export_user(user, database):
            yield f"{dumps({'conversation': values['conversation'], 'app': capability.app.label, **values})}\n"


def erase_user(user: Any, *, how: str | None = None, database: str | None = None) -> Erased:
    """Erase all data of one user. The user's own row stays, and may be deleted afterwards.

    ``"erase"`` deletes the conversations with everything in them. ``"anonymise"`` keeps only what is not personal data:
    numbers, times, types and token counts. It deletes owner, memory ID, title, metadata, ``forked_from``, idempotency
    keys, and all texts, names and tool calls; the text of each message becomes ``ERASED_TEXT``. No summary becomes due
    in an anonymised conversation. Both delete the titles from the admin's log.

    Each conversation is erased under its lock, in its own transaction. An answer, a summary or a title that an
    assistant is currently writing is not stored. Sign the user out first, because other running requests may add
    messages to an anonymised conversation.

    Args:
        user: a saved user.
        how: ``"erase"`` or ``"anonymise"``; by default the setting ``ERASE_USER``.
        database: the alias of the database; by default the one for writes.

    Returns:
        The numbers of conversations, messages and keys.

    Raises:
        ValueError: ``user`` is an anonymous or unsaved user, or None; or ``how`` is unknown.
        ProtectedError, RestrictedError: the project's objects refer to a conversation and forbid its deletion.
            Conversations that were erased earlier stay erased.
    """
    _require_user(user)
    manner = how if how is not None else setting("ERASE_USER")
    if manner not in ("erase", "anonymise"):
        raise ValueError(f'how must be "erase" or "anonymise", but is: {manner!r}')
    alias = database or router.db_for_write(Conversation)
    erased = Erased()
    theirs = Conversation.objects.using(alias).filter(owner=user)
    while page := retry(alias, lambda: list(theirs.order_by("pk")[:100])):
        for conversation in page:
            erased += retry(alias, partial(_erase, conversation, user, alias, manner))
    for forget in hooks("erase_user"):
        retry(alias, partial(forget, user, alias, how=manner))
    keys = IdempotencyKey.objects.using(alias).filter(scope=scope_of_owner(user))
    return erased + Erased(keys=retry(alias, keys.delete)[0])


aerase_user = as_async_change(erase_user)
"""Async version of ``erase_user``."""


def _erase(conversation: Conversation, user: Any, database: str, manner: str) -> Erased:
    def require_theirs(locked: Conversation) -> None:
        if locked.owner_id != user.pk:
            raise Conversation.DoesNotExist("the conversation belongs to another user now")

    keys = IdempotencyKey.objects.using(database).filter(conversation=conversation)
    whole = Erased(conversations=1, messages=rows_of(conversation).count(), keys=keys.count())
    with transaction.atomic(using=database), suppress(Conversation.DoesNotExist):
        if manner == "erase":
            operations.erase(Target.as_read(conversation, precondition=require_theirs))
        else:
            Target.as_read(conversation, precondition=require_theirs).change(_anonymise)
            keys.delete()
        _forget_title(conversation)
        return whole
    return Erased()


def _anonymise(change: Change) -> None:
    conversation = change.conversation
    conversation.owner = None
    conversation.memory_id = new_memory_id()
    conversation.forked_from = None
    empty = Conversation()
    for name in DESCRIBED:
        setattr(conversation, name, getattr(empty, name))
    # The texts of the memory have changed, so clients must read it again.
    conversation.version += 1
    conversation.compacted_to = conversation.next_position
    # The running turn ends, because its answer would quote what is erased.
    conversation.turn, conversation.turn_until = conversation.turn + 1, None
    names = ["owner", "memory_id", "forked_from", *DESCRIBED, "version", "compacted_to", "turn", "turn_until"]
    conversation.save(using=conversation._state.db, update_fields=names)
    conversation.compact_at = None  # no summary of erased texts
    write_columns(conversation, ["compact_at"])
    rows = rows_of(conversation)
    custom = Q(type=ChatMessageType.CUSTOM)
    rows.filter(custom).update(text="", payload=None, native=None)
    rows.exclude(custom).update(text=ERASED_TEXT, payload=None, native=None)
    Compaction.objects.using(conversation._state.db).filter(conversation=conversation).delete()  # errors quote texts
    for forget in hooks("anonymise"):
        forget(conversation)


def _forget_title(conversation: Conversation) -> None:
    """In the admin's log, replace the title or memory ID of a conversation by its primary key."""
    if not apps.is_installed("django.contrib.admin"):
        return
    from django.contrib.admin.models import LogEntry
    from django.contrib.contenttypes.models import ContentType

    kind = ContentType.objects.get_for_model(Conversation)
    key = str(conversation.pk)
    LogEntry.objects.filter(content_type=kind, object_id=key).update(object_repr=key)


def _require_user(user: Any) -> Any:
    if user is None:
        raise ValueError("user must be a saved user, but is: None")
    return require_owner(user)
