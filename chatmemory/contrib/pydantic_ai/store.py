"""Pydantic AI's conversation store on the ORM::

    # INSTALLED_APPS = ["chatmemory", "chatmemory.contrib.pydantic_ai", …], then manage.py migrate
    from chatmemory.contrib.pydantic_ai import DjangoConversationStore

    store = DjangoConversationStore(owner=request.user)
    conversation = await store.load("support-42") or Conversation(conversation_id="support-42")
    result = await agent.run("Where is my parcel?", conversation=conversation)
    await store.save(result)

The ID of a conversation is the memory ID of the owner's conversation. Its history is mirrored in the memory of this
conversation, in the transaction of the save: new messages are added, and messages that a branch leaves are evicted as
rewritten. So the admin, REST and every other framework read it.

- The history belongs to Pydantic AI: ``load`` returns all of it, or its last ``limit`` messages. The window of the
  conversation bounds the memory that other programs read, and a memory holds one system message at a time.
- Messages of other programs stay in the memory where they are, and are not loaded.
- ``delete`` deletes the record and the entries, and evicts the messages from the memory; the history of chatmemory
  keeps them. To delete them, erase the conversation, which deletes its record and entries, too. A fork has copies, and
  stays.

Source: ``pydantic_ai.conversation_store`` of pydantic-ai-slim 2.68.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Unpack

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone

from chatmemory.contrib.native_memory import ConversationSettings, settings_of_new
from chatmemory.contrib.owned_conversations import OwnedConversations, insert, storable_text
from chatmemory.core.asynchronous import as_async_change, as_async_read
from chatmemory.core.exceptions import extra
from chatmemory.core.json_text import with_replacements
from chatmemory.database.change import Change
from chatmemory.database.connections import retry
from chatmemory.models import Conversation, require_owner
from chatmemory.transfer.records import as_stored

with extra("pydantic-ai"):
    from pydantic import ConfigDict, TypeAdapter
    from pydantic_ai.conversation_store import (
        ConversationConflict,
        ConversationEntry,
        ConversationRecord,
        ConversationStore,
    )
    from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter
    from pydantic_ai.tools import DeferredToolRequests
    from pydantic_ai.usage import RunUsage
    from pydantic_core import PydanticSerializationError

    from chatmemory.contrib.pydantic_ai import mirror
    from chatmemory.contrib.pydantic_ai.history import plain_messages
    from chatmemory.contrib.pydantic_ai.models import Entry, Record, history_to

_USAGE = TypeAdapter(RunUsage)
_DEFERRED: TypeAdapter[DeferredToolRequests | None] = TypeAdapter(
    DeferredToolRequests | None, config=ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
)


class DjangoConversationStore(ConversationStore):
    """The conversations of one owner, each of which is a conversation of chatmemory.

    A conversation is changed under the lock of its row, in one transaction, which is retried if it collides with
    another: any number of tasks and processes may write. A save that is too late raises ``ConversationConflict``, and
    changes nothing.

    An ID that is empty or longer than 255 characters, and a scope that is longer, raise a ``ValueError``.
    """

    def __init__(self, owner: Any = None, **settings: Unpack[ConversationSettings]) -> None:
        """
        Args:
            owner: the user who owns the conversations; None for conversations without an owner.
            settings: those of a new conversation, see
                ``ConversationSettings``.

        Raises:
            ImproperlyConfigured: the app is not installed.
            TypeError: there is no such setting.
            ValueError: an anonymous or unsaved user, or settings that no conversation can have.
        """
        if not apps.is_installed("chatmemory.contrib.pydantic_ai"):
            raise ImproperlyConfigured(
                'DjangoConversationStore has its own tables: add "chatmemory.contrib.pydantic_ai" to INSTALLED_APPS, '
                "and run manage.py migrate"
            )
        self._conversations = OwnedConversations(require_owner(owner), settings_of_new(**settings))

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        return await _read_record(self._conversations, conversation_id)

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        return await _read_records(self._conversations, scope, limit)

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record and new entries, and let the conversation's memory follow them.

        Raises:
            ConversationConflict: see ``ConversationStore.write_record``; also if an entry before ``record.head_id`` is
                not stored.
            ValueError: a text is too long, or no database can store it.
        """
        await _write_record(self._conversations, record, list(new_entries), expected_revision)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a record and all entries of its conversation, and evict its messages; forks have copies of theirs."""
        await _delete_record(self._conversations, conversation_id, expected_revision)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return an entry of one of the owner's conversations.

        Raises:
            KeyError: there is no such entry.
        """
        return (await self.read_history(entry_id, limit=1))[0]

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        if head_id is None or limit == 0:
            return []
        return await _read_history(self._conversations, head_id, limit)


def as_record(row: Any) -> ConversationRecord:
    return ConversationRecord(
        conversation_id=row.conversation.memory_id,
        head_id=row.head_id,
        usage=_USAGE.validate_python(row.usage),
        deferred_tool_requests=_DEFERRED.validate_json(row.deferred_tool_requests or "null"),
        scope=row.scope,
        forked_from=row.forked_from,
        forked_at=row.forked_at,
        branches=row.branches,
        revision=row.revision,
        updated_at=row.updated_at if timezone.is_aware(row.updated_at) else timezone.make_aware(row.updated_at),
        format_version=row.format_version,
    )


def _as_columns(record: ConversationRecord) -> dict[str, Any]:
    texts = {
        name: None if (value := getattr(record, name)) is None else storable_text(Record, name, value)
        for name in ("head_id", "scope", "forked_from", "forked_at", "revision")
    }
    return {
        **texts,
        "usage": _USAGE.dump_python(record.usage, mode="json"),
        "deferred_tool_requests": _deferred_text(record.deferred_tool_requests),
        "branches": record.branches,
        "updated_at": as_stored(record.updated_at),
        "format_version": record.format_version,
    }


def _deferred_text(requests: DeferredToolRequests | None) -> str | None:
    if requests is None:
        return None
    try:
        return _DEFERRED.dump_json(requests).decode()
    except PydanticSerializationError:  # a lone surrogate
        return json_text(with_replacements(_DEFERRED.dump_python(requests, mode="json")))


def json_text(value: Any) -> str:
    """Return ``value`` as JSON, in which U+0000 is escaped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def messages_of(rows: Sequence[Entry]) -> list[ModelMessage]:
    """Return the messages of entries.

    Raises:
        pydantic.ValidationError: a ``ValueError``; a newer Pydantic AI wrote something that this one does not know.
    """
    return ModelMessagesTypeAdapter.validate_json(f"[{','.join(row.message for row in rows)}]")


@as_async_read
def _read_record(conversations: OwnedConversations, conversation_id: str) -> ConversationRecord | None:
    rows = Record.objects.using(conversations.database).filter(**conversations.filter_of(conversation_id))
    row = retry(conversations.database, rows.select_related("conversation").first)
    return None if row is None else as_record(row)


@as_async_read
def _read_records(conversations: OwnedConversations, scope: str | None, limit: int | None) -> list[ConversationRecord]:
    rows = Record.objects.using(conversations.database).filter(**conversations.filter_of_all)
    if scope is not None:
        rows = rows.filter(scope=scope)
    found = rows.select_related("conversation").order_by("-updated_at", "pk")[:limit]
    return [as_record(row) for row in retry(conversations.database, lambda: list(found))]


@as_async_read
def _read_history(conversations: OwnedConversations, head_id: str, limit: int | None) -> list[ConversationEntry]:
    rows: list[Any] = retry(conversations.database, lambda: _line(conversations, head_id, limit))
    return [
        ConversationEntry(id=row.entry_id, parent_id=row.parent_id, message=message, kind=row.kind)
        for row, message in zip(rows, messages_of(rows), strict=True)
    ]


def _line(conversations: OwnedConversations, head_id: str, limit: int | None = None) -> list[Entry]:
    """Return the entries up to ``head_id``, in order, from one of the conversations that have it.

    Raises:
        KeyError: none has it, or all of them were deleted meanwhile.
    """
    everywhere = Entry.objects.using(conversations.database).filter(**conversations.filter_of_all)
    for holder in everywhere.filter(entry_id=head_id).order_by("pk").values_list("conversation", flat=True):
        entries = everywhere.filter(conversation=holder)
        try:
            links = {} if limit == 1 else entries.links()
            return entries.in_order([head_id] if limit == 1 else history_to(head_id, links, limit))
        except KeyError:
            continue
    raise KeyError(head_id)


@as_async_change
def _write_record(
    conversations: OwnedConversations,
    record: ConversationRecord,
    new_entries: list[ConversationEntry],
    expected_revision: str | None,
) -> None:
    columns = _as_columns(record)
    given, plain = plain_messages([entry.message for entry in new_entries])
    # Read as they will be read later: the package brings older kinds of parts up to date.
    read = ModelMessagesTypeAdapter.validate_json(json.dumps(plain))
    now = timezone.now()
    new = [
        Entry(
            entry_id=storable_text(Entry, "entry_id", entry.id),
            parent_id=None if entry.parent_id is None else storable_text(Entry, "parent_id", entry.parent_id),
            kind=entry.kind,
            message=json_text(form),
            created_at=now,
        )
        for entry, form in zip(new_entries, plain, strict=True)
    ]
    logged = {
        row.entry_id: mirror.Logged(row.entry_id, message, form, is_repaired=form != original)
        for row, message, form, original in zip(new, read, plain, given, strict=True)
    }
    links = {row.entry_id: row.parent_id for row in new}
    start, added = record.head_id, list[str]()
    while start is not None and start in links and len(added) < len(links):
        added.insert(0, start)
        start = links[start]

    def work(change: Change) -> None:
        conversation = change.conversation
        entries = Entry.objects.of(conversation)
        stored = _require_revision(conversation, expected_revision)
        for row in new:
            row.pk, row.conversation = None, conversation
        known_head = None if stored is None else stored.head_id
        if start == known_head:
            _insert(conversation, new)
            mirror.add(conversation, [logged[entry_id] for entry_id in added])
        else:
            known = entries.links()
            if start is not None and start not in known:
                _share(conversations, conversation, start)
            _insert(conversation, new)
            rows = entries.in_order(history_to(record.head_id, entries.links()))
            mirror.follow(conversation, history_to(known_head, known), _logged(rows, logged))
        if stored is None:
            Record.objects.using(conversation._state.db).create(conversation=conversation, **columns)
            return
        branches = record.branches
        if not set(branches) <= set(stored.branches):
            # A purge may have deleted some since the record was read.
            there = set(entries.filter(entry_id__in=branches).values_list("entry_id", flat=True))
            branches = [tip for tip in branches if tip in there]
        Record.objects.of(conversation).update(**{**columns, "branches": branches})

    conversations.change(record.conversation_id, work)


def _require_revision(conversation: Conversation, expected: str | None) -> Record | None:
    """Return the record of a locked conversation; None if it has none, and ``expected`` is None.

    Raises:
        ConversationConflict: it has another revision.
    """
    stored: Record | None = Record.objects.of(conversation).first()
    if (None if stored is None else stored.revision) != expected:
        raise ConversationConflict(conversation.memory_id)
    return stored


def _share(conversations: OwnedConversations, conversation: Conversation, head_id: str) -> None:
    """Copy the entries up to ``head_id`` from another conversation of the owner's to a locked one.

    Raises:
        ConversationConflict: there are no such entries any more.
    """
    try:
        rows = _line(conversations, head_id)
    except KeyError:
        raise ConversationConflict(conversation.memory_id) from None
    if not conversation.next_position:
        own = Conversation.objects.using(conversation._state.db).filter(pk=conversation.pk)
        own.update(forked_from=rows[-1].conversation_id)
    for row in rows:
        row.pk, row.conversation, row._state.adding = None, conversation, True
    _insert(conversation, rows)


def _insert(conversation: Conversation, rows: Sequence[Entry]) -> None:
    insert(conversation._state.db or "default", rows, ["conversation", "entry_id"], ["parent_id", "kind", "message"])


def _logged(rows: Sequence[Entry], new: dict[str, mirror.Logged]) -> list[mirror.Logged]:
    return [
        new.get(row.entry_id) or mirror.Logged(row.entry_id, message, json.loads(row.message))
        for row, message in zip(rows, messages_of(rows), strict=True)
    ]


@as_async_change
def _delete_record(conversations: OwnedConversations, conversation_id: str, expected_revision: str) -> None:
    found = False

    def work(change: Change) -> None:
        nonlocal found
        found = True
        conversation = change.conversation
        stored = _require_revision(conversation, expected_revision)
        entries = Entry.objects.of(conversation)
        head_id = None if stored is None else stored.head_id
        mirror.follow(conversation, history_to(head_id, entries.links()), [])
        entries.delete()
        Record.objects.of(conversation).delete()

    conversations.change(conversation_id, work, create=False)
    if not found:
        raise ConversationConflict(conversation_id)
