"""Conversations of other programs, added like new messages: windows bound them, their tokens are counted.

The transaction of each batch records in the conversation's metadata, under ``imported``, what was imported: the number
of messages, a digest of them, and the version of the conversation. So an import that was interrupted continues when it
is run again, one that is run twice adds nothing, and messages that are new in the source are added; but not to a
conversation that was changed in the meantime, and not if the imported part of the source has changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any

from django.db import transaction
from django.db.models import Case, DateTimeField, Value, When

from chatmemory.core.json_text import require_json, require_storable
from chatmemory.core.serialization import message_to_json
from chatmemory.database import operations
from chatmemory.database.change import Change, Target
from chatmemory.database.connections import retry
from chatmemory.database.new_messages import NativeForms, NewMessages
from chatmemory.database.reading import chunks, rows_of
from chatmemory.database.statements import Key
from chatmemory.models import Conversation, Message, Origin, WrittenBy
from chatmemory.models.fields import memory_id_text
from chatmemory.models.message import to_columns
from chatmemory.transfer.records import (
    BadRecordError,
    DryRun,
    Found,
    FoundConversation,
    FoundMessage,
    Owners,
    Reports,
    as_stored,
)

IMPORTED = "imported"
"""The key of a conversation's metadata that records what was imported."""

_MARK = {"source": str, "messages": int, "digest": str, "version": int}

# The most that one transaction adds.
_MESSAGES = 200
_CHARS = 500_000

_TITLE_CHARS = 255

_Sized = tuple[FoundMessage, int]
"""A message, and the number of its characters in the database."""


def import_all(
    source: str,
    found: Found,
    reports: Reports,
    owners: Owners,
    *,
    database: str,
    settings: dict[str, Any],
    dry_run: DryRun | None = None,
) -> Iterator[None]:
    """Add the conversations of a source, and yield after each batch.

    Args:
        source: the name of the source's format.
        found: the conversations of the source.
        reports: counts what was imported, and what was left out.
        owners: finds the owners of the conversations.
        database: the alias of the database that is written to.
        settings: columns of new conversations: ``window``, ``limit``, ``model``.
        dry_run: write nothing, but remember here what would have been written.
    """
    whole = _Import(
        source=source, reports=reports, owners=owners, database=database, settings=settings, dry_run=dry_run
    )
    for conversation in found:
        try:
            if isinstance(conversation, BadRecordError):
                raise conversation
            yield from _ConversationImport(whole, conversation).run()
        except BadRecordError as error:
            reports.bad(error)
        yield


@dataclass(frozen=True, kw_only=True)
class _Import:
    """The arguments of ``import_all`` that hold for every conversation."""

    source: str
    reports: Reports
    owners: Owners
    database: str
    settings: dict[str, Any]
    dry_run: DryRun | None


class _ConversationImport:
    """The import of one conversation."""

    def __init__(self, whole: _Import, found: FoundConversation) -> None:
        self._import = whole
        self._found = found
        try:
            self._owner = whole.owners.named(found.owner)
            self._memory_id = memory_id_text(found.memory_id)
            require_storable(found.title, "title")
            require_json(found.metadata, "metadata")
        except ValueError as error:
            raise BadRecordError(found.place, str(error)) from error
        self._key = (None if self._owner is None else self._owner.pk, self._memory_id)
        self._last_said = found.created_at
        self._digest = b""
        self._taken = 0
        self._left_out = False

    def run(self) -> Iterator[None]:
        rows = Conversation.objects.using(self._import.database)
        present = rows.named(self._owner, self._memory_id).first()
        dry_run = self._import.dry_run
        mark = dry_run.marks.get(self._key) if dry_run is not None else None
        mark = mark or self._mark_of(present)
        messages = self._storable()
        if mark is not None:
            self._pass_over(messages, mark)
        following = next(messages, None)
        if mark is not None and following is None:
            self._import.reports.unchanged += 1
            return
        if following is None and self._left_out:
            return  # an empty conversation would be in the way once the source, or --format, is corrected
        if present is not None and mark is not None and mark["version"] != present.version:
            raise self._bad(
                "the conversation was changed since it was imported, so new messages of the source are left out"
            )
        self._import.reports.conversations += 1
        for batch in self._batches(chain([following] if following else [], messages)):
            mark = self._add(batch, mark)
            yield

    def _bad(self, problem: str) -> BadRecordError:
        return BadRecordError(self._found.place, f"{problem} (memory ID {self._memory_id!r})")

    def _mark_of(self, present: Conversation | None) -> dict[str, Any] | None:
        if present is None:
            return None
        mark = present.metadata.get(IMPORTED) if isinstance(present.metadata, dict) else None
        kinds = {name: type(value) for name, value in mark.items()} if isinstance(mark, dict) else {}
        if not isinstance(mark, dict) or kinds != _MARK or mark["source"] != self._import.source:
            raise self._bad(
                "the owner has a conversation with this memory ID that was not imported from here; erase that one"
            )
        return mark

    def _storable(self) -> Iterator[_Sized]:
        """Yield the messages that can be stored, and report the others."""
        for item in self._found.messages:
            try:
                if isinstance(item, BadRecordError):
                    raise item
                yield self._checked(item)
            except BadRecordError as error:
                self._left_out = True
                self._import.reports.bad(error)

    def _checked(self, item: FoundMessage) -> _Sized:
        """Return a message with its size once it is known to be storable, and add it to the digest.

        Raises:
            BadRecordError: it cannot be stored.
        """
        try:
            columns = to_columns(item.message)
            form = json.dumps(item.native, allow_nan=False, separators=(",", ":"))
        except (TypeError, ValueError, RecursionError) as error:
            raise BadRecordError(item.place, str(error)) from error
        said_at = "" if item.said_at is None else item.said_at.isoformat()
        record = "\n".join([message_to_json(item.message), form, said_at])
        self._digest = hashlib.sha256(self._digest + record.encode()).digest()
        self._taken += 1
        return item, len(columns["text"]) + len(columns["payload"] or "") + len(form)

    def _pass_over(self, messages: Iterator[_Sized], mark: dict[str, Any]) -> None:
        """Read the messages that were imported before.

        Raises:
            BadRecordError: they differ from those in the source now.
        """
        while self._taken < mark["messages"]:
            item, _size = next(messages, (None, 0))
            if item is None:
                break
            self._time_of(item)
        if self._taken < mark["messages"] or self._digest.hex() != mark["digest"]:
            raise self._bad("the source has changed since it was imported; erase the conversation to import it again")

    def _batches(self, messages: Iterator[_Sized]) -> Iterator[list[FoundMessage]]:
        """Yield batches, at least one: a conversation may have no messages."""
        batch: list[FoundMessage] = []
        chars, first = 0, True
        for item, size in messages:
            batch.append(item)
            chars += size
            if len(batch) >= _MESSAGES or chars >= _CHARS:
                yield batch
                batch, chars, first = [], 0, False
        if batch or first:
            yield batch

    def _add(self, batch: list[FoundMessage], mark: dict[str, Any] | None) -> dict[str, Any]:
        """Add a batch in one transaction, and return the new mark."""
        new = {"source": self._import.source, "messages": self._taken, "digest": self._digest.hex(), "version": 0}
        times = [self._time_of(item) for item in batch]
        self._import.reports.messages += len(batch)
        if self._import.dry_run is not None:
            if mark is not None:
                new["version"] = mark["version"]
            self._import.dry_run.marks[self._key] = new
            return new
        native = NativeForms(self._found.framework, [item.native for item in batch])

        def unchanged(conversation: Conversation) -> None:
            if conversation.metadata.get(IMPORTED) != mark:
                raise self._bad("somebody else imports or changes this at the same time; run the import again")

        def transact() -> dict[str, Any]:
            with transaction.atomic(using=self._import.database):
                key = Key.named(self._owner, self._memory_id, self._import.database)
                target = Target(key, self._new if mark is None else None, precondition=unchanged)
                messages = NewMessages([item.message for item in batch], native, written_by=WrittenBy.IMPORT)
                change = operations.add(target, messages)
                conversation = change.conversation
                _date(change, batch, times)
                new["version"] = conversation.version
                columns: dict[str, Any] = {"metadata": {**conversation.metadata, IMPORTED: new}}
                if mark is None and self._found.created_at is not None:
                    columns["created_at"] = as_stored(self._found.created_at)
                if self._last_said is not None:
                    columns["updated_at"] = as_stored(self._last_said)
                Conversation.objects.using(self._import.database).filter(pk=conversation.pk).update(**columns)
            return new

        try:
            return retry(self._import.database, transact)
        except Conversation.DoesNotExist:
            raise self._bad("the conversation was erased while it was imported; run the import again") from None

    def _new(self) -> Conversation:
        title, metadata = self._found.title, dict(self._found.metadata)
        if len(title) > _TITLE_CHARS:
            metadata["title"] = title
        return Conversation(
            owner=self._owner,
            memory_id=self._memory_id,
            title=title[:_TITLE_CHARS],
            metadata=metadata,
            **self._import.settings,
        )

    def _time_of(self, item: FoundMessage) -> datetime | None:
        """Return the time of a message; without one of its own that of the message before it."""
        self._last_said = item.said_at or self._last_said
        return self._last_said


def _date(change: Change, batch: list[FoundMessage], times: list[datetime | None]) -> None:
    """Give the new rows the times of the source. Evictions among them keep the present time."""
    dated: list[Message] = []
    said = iter(zip(batch, times, strict=True))
    for row in change.added:
        if row.origin != Origin.SAID:
            continue
        columns = {"type": row.type, "text": row.text, "payload": row.payload}
        # A system message that is in memory already gets no row.
        time = next(time for item, time in said if to_columns(item.message) == columns)
        if time is not None:
            row.created_at = as_stored(time)
            dated.append(row)
    for chunk in chunks(dated):
        by_position = [When(position=row.position, then=Value(row.created_at)) for row in chunk]
        rows = rows_of(change.conversation).filter(position__in=[row.position for row in chunk])
        rows.update(created_at=Case(*by_position, output_field=DateTimeField()))
