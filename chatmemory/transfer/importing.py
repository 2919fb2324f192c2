"""Conversations of other programs, added like new messages: windows bound them, their tokens are counted.

The transaction of each batch records in the conversation's metadata, under ``imported``, what was imported: the number
of messages, a digest of them, and the version of the conversation. So an import that was interrupted continues when it
is run again, one that is run twice adds nothing, and messages that are new in the source are added; but not to a
conversation that was changed in the meantime, and not if the imported part of the source has changed.

A conversation with branches goes back before each message that does not follow the one before it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any

from django.db import transaction
from django.db.models import Case, DateTimeField, Value, When

from chatmemory.core.exceptions import InvalidValueError
from chatmemory.core.json_text import require_json, require_storable
from chatmemory.core.serialization import message_to_json
from chatmemory.database import operations
from chatmemory.database.change import Change, Target
from chatmemory.database.connections import retry
from chatmemory.database.new_messages import NativeForms, NewMessages
from chatmemory.database.reading import chunks, read_in_parts, rows_of
from chatmemory.database.statements import Key
from chatmemory.models import Conversation, Message, Origin, WrittenBy
from chatmemory.models.branch import on_current_branch
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

_Dated = tuple[FoundMessage, datetime | None]
"""A message, and the time when it was said."""


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
        self._positions: dict[int, int] = {}
        """The positions of messages by their index."""
        self._instead: dict[int, int] = {}
        """The messages that were left out, each with the one that it followed."""
        self._last: int | None = -1
        """The index of the message at which the conversation is now; None if this is unknown."""

    def run(self) -> Iterator[None]:
        rows = Conversation.objects.using(self._import.database)
        present = rows.named(self._owner, self._memory_id).first()
        dry_run = self._import.dry_run
        mark = dry_run.marks.get(self._key) if dry_run is not None else None
        mark = mark or self._mark_of(present)
        messages = self._storable()
        if mark is not None:
            self._last = None
            self._pass_over(messages, mark, present)
        following = next(messages, None)
        if mark is not None and following is None:
            is_elsewhere = present is not None and mark["version"] == present.version and self._end(mark) != mark
            self._import.reports.conversations += is_elsewhere
            self._import.reports.unchanged += not is_elsewhere
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
        if mark is not None:
            self._end(mark)

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
                if isinstance(item, FoundMessage) and item.index is not None and item.follows is not None:
                    self._instead[item.index] = item.follows
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
        record = "\n".join([message_to_json(item.message), form, said_at, *_elsewhere(item)])
        self._digest = hashlib.sha256(self._digest + record.encode()).digest()
        self._taken += 1
        return item, len(columns["text"]) + len(columns["payload"] or "") + len(form)

    def _pass_over(self, messages: Iterator[_Sized], mark: dict[str, Any], present: Conversation | None) -> None:
        """Read the messages that were imported before.

        Raises:
            BadRecordError: they differ from those in the source now.
        """
        has_branches = self._found.current is not None and present is not None
        stored = read_in_parts(rows_of(present).history()) if has_branches and present is not None else iter(())
        row = next(stored, None)
        while self._taken < mark["messages"]:
            item, _size = next(messages, (None, 0))
            if item is None:
                break
            self._time_of(item)
            is_stored = row is not None and _is_of(row, item)
            self._note_position(item, row if is_stored else None)
            row = next(stored, None) if is_stored else row
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
        dated = [(item, self._time_of(item)) for item in batch]
        self._import.reports.messages += len(batch)
        if self._import.dry_run is not None:
            if mark is not None:
                new["version"] = mark["version"]
            self._import.dry_run.marks[self._key] = new
            return new

        def transact() -> dict[str, Any]:
            last = self._last
            with transaction.atomic(using=self._import.database):
                for run in self._runs(dated):
                    first = run[0][0] if run else None
                    if first is not None and first.follows is not None and self._stored(first.follows) != last:
                        self._go_to(self._stored(first.follows), mark)
                    conversation = self._add_run(run, mark)
                    last = None if first is None or first.index is None else self._stored(run[-1][0].index)
                columns: dict[str, Any] = {}
                if mark is None and self._found.created_at is not None:
                    columns["created_at"] = as_stored(self._found.created_at)
                self._write_mark(conversation, new, **columns)
            self._last = last
            return new

        return self._retry(transact)

    def _runs(self, batch: list[_Dated]) -> Iterator[list[_Dated]]:
        """Yield the messages of a batch in parts in which each follows the one before it; at least one part."""
        run: list[_Dated] = []
        for item, time in batch:
            if run and item.follows is not None and item.follows != run[-1][0].index:
                yield run
                run = []
            run.append((item, time))
        yield run

    def _add_run(self, run: list[_Dated], mark: dict[str, Any] | None) -> Conversation:
        target = Target(self._database_key, self._new if mark is None else None, precondition=self._unchanged(mark))
        native = NativeForms(self._found.framework, [item.native for item, _time in run])
        messages = NewMessages([item.message for item, _time in run], native, written_by=WrittenBy.IMPORT)
        change = operations.add(target, messages)
        _date(change, list(self._with_rows(change, run)))
        return change.conversation

    def _with_rows(self, change: Change, run: list[_Dated]) -> Iterator[tuple[Message, datetime | None]]:
        """Yield the new rows of a part of a batch with their times, and note their positions."""
        rows = [row for row in change.added if row.origin == Origin.SAID]
        for item, time in run:
            # A system message that is in memory already gets no row.
            row = rows.pop(0) if rows and _is_of(rows[0], item) else None
            self._note_position(item, row)
            if row is not None:
                yield row, time

    def _note_position(self, item: FoundMessage, row: Message | None) -> None:
        if item.index is None or item.follows is None:
            return
        if row is None:
            self._instead[item.index] = item.follows
        else:
            self._positions[item.index] = row.position

    def _stored(self, index: int | None) -> int:
        """Return the index of a message, or of the last one before it that was stored; -1 for none."""
        while index in self._instead:
            index = self._instead[index]
        return -1 if index is None else index

    def _go_to(self, index: int, mark: dict[str, Any] | None) -> Conversation:
        """Make the conversation go on after a message, and return it.

        Raises:
            BadRecordError: the message was deleted.
        """
        rows = Conversation.objects.using(self._import.database)
        conversation = rows.named(self._owner, self._memory_id).get()
        branch = rows_of(conversation).history().filter(on_current_branch(conversation))
        positions = branch.values_list("position", flat=True)
        position, unchanged = self._positions.get(index), self._unchanged(mark)
        if position == positions.last():
            return conversation
        try:
            if position is None:
                conversation.rewind(before=positions.first(), precondition=unchanged)
            else:
                conversation.rewind(after=position, precondition=unchanged)
        except InvalidValueError as error:
            raise self._bad("imported messages were deleted; erase the conversation to import it again") from error
        return conversation

    def _end(self, mark: dict[str, Any]) -> dict[str, Any]:
        """Go to the current branch, and return the new mark."""
        current = self._found.current
        if current is None or self._import.dry_run is not None or self._stored(current) == self._last:
            return mark

        def transact() -> dict[str, Any]:
            new = {**mark}
            with transaction.atomic(using=self._import.database):
                conversation = self._go_to(self._stored(current), mark)
                if conversation.version != mark["version"]:
                    self._write_mark(conversation, new)
            return new

        return self._retry(transact)

    @property
    def _database_key(self) -> Key:
        return Key.named(self._owner, self._memory_id, self._import.database)

    def _unchanged(self, mark: dict[str, Any] | None) -> Callable[[Conversation], None]:
        """Return the precondition that no one else has imported anything."""

        def check(conversation: Conversation) -> None:
            if conversation.metadata.get(IMPORTED) != mark:
                raise self._bad("somebody else imports or changes this at the same time; run the import again")

        return check

    def _write_mark(self, conversation: Conversation, mark: dict[str, Any], **columns: Any) -> None:
        """Write the mark with the version of a locked conversation, and the time when it was last said something."""
        mark["version"] = conversation.version
        columns["metadata"] = {**conversation.metadata, IMPORTED: mark}
        if self._last_said is not None:
            columns["updated_at"] = as_stored(self._last_said)
        Conversation.objects.using(self._import.database).filter(pk=conversation.pk).update(**columns)

    def _retry(self, transact: Callable[[], dict[str, Any]]) -> dict[str, Any]:
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


def _is_of(row: Message, item: FoundMessage) -> bool:
    """Return whether a row contains a message."""
    return to_columns(item.message) == {"type": row.type, "text": row.text, "payload": row.payload}


def _elsewhere(item: FoundMessage) -> list[str]:
    """Return what the digest contains of a message that does not follow the one before it."""
    if item.index is None or item.follows == item.index - 1:
        return []
    return [str(item.follows)]


def _date(change: Change, rows: list[tuple[Message, datetime | None]]) -> None:
    """Give the new rows the times of the source. Evictions among them keep the present time."""
    dated: list[Message] = []
    for row, time in rows:
        if time is not None:
            row.created_at = as_stored(time)
            dated.append(row)
    for chunk in chunks(dated):
        by_position = [When(position=row.position, then=Value(row.created_at)) for row in chunk]
        found = rows_of(change.conversation).filter(position__in=[row.position for row in chunk])
        found.update(created_at=Case(*by_position, output_field=DateTimeField()))
