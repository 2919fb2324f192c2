"""Restore conversations from the JSON lines of ``chatmemory.transfer.export``.

Each conversation is restored whole, in one transaction, or not at all. So an import that was interrupted continues when
it is run again: conversations that are there already, with the same content, stay untouched. No signals are sent,
because no message is new. The lines of a capability whose app is not installed are left out, and reported.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from itertools import chain, zip_longest
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import DataError, IntegrityError, models, transaction

from chatmemory.capabilities import hooks
from chatmemory.core.json_text import MAX_NESTING, levels, require_storable
from chatmemory.core.serialization import read_message
from chatmemory.database.idempotency import made_by, scope_of, scope_of_owner
from chatmemory.models import ORDER_STEP, STAND_INS, Conversation, IdempotencyKey, Message, Origin, WrittenBy
from chatmemory.models.fields import memory_id_text
from chatmemory.models.message import last_pin_change, problem_of_pins, to_columns
from chatmemory.transfer.export import EXPORTED, Line, blocks, conversation_lines, end_of
from chatmemory.transfer.records import BadRecordError, DryRun, Owners, Reports

# The most that one statement inserts. SQLite bounds its parameters, MariaDB its bytes.
_ROWS = 500
_CHARS = 1_000_000


def restore(
    lines: Iterable[tuple[str, str | None]],
    reports: Reports,
    owners: Owners,
    *,
    database: str,
    dry_run: DryRun | None = None,
) -> Iterator[None]:
    """Create the conversations of ``lines``, and yield after each.

    A conversation that has a bad line is left out whole, and reported.

    Args:
        lines: each line's place and text.
        reports: counts what was restored, and what was left out.
        owners: finds the owners of the conversations.
        database: the alias of the database that is written to.
        dry_run: write nothing, but remember here what would have been written.
    """
    for block in blocks(lines):
        try:
            _Block(block, owners, database, dry_run).restore(reports)
        except BadRecordError as error:
            reports.bad(error)
        for line in block:
            if line.problem:  # between two conversations, or in one that is left out anyway
                reports.bad(line.bad(line.problem))
        yield


class _Block:
    """The lines of one conversation."""

    def __init__(self, lines: Iterator[Line], owners: Owners, database: str, dry_run: DryRun | None) -> None:
        self._digest = b""
        self._lines = lines if dry_run is None else self._digested(lines)
        self._owners = owners
        self._database = database
        self._dry_run = dry_run
        self._restorers = {hook.__self__.app.label: hook for hook in hooks("restore")}  # type: ignore[attr-defined]
        """What restores the lines of apps, by their labels."""
        self._left_out: dict[str, BadRecordError] = {}
        """The problem with the lines of each app that is not installed."""

    def restore(self, reports: Reports) -> None:
        first = next(self._lines)
        if first.problem:
            raise first.bad(first.problem)
        if not first.has("owner"):
            raise first.bad("the first line of this conversation, with its settings, is missing")
        key = first.uuid()
        owner = self._owner(first, first.data["owner"])
        found = Conversation.objects.using(self._database).filter(pk=key).first()
        if found is not None:
            self._compare(found, first, owner)
            reports.unchanged += 1
            return
        if self._dry_run is not None and key in self._dry_run.restored:
            self._compare_digests(self._dry_run.restored[key], first)
            reports.unchanged += 1
            return
        conversation, created_at, updated_at = self._conversation(first, owner)
        named = Conversation.objects.using(self._database).named(owner, conversation.memory_id)
        named_here = (conversation.owner_id, conversation.memory_id)
        is_named_here = self._dry_run is not None and named_here in self._dry_run.memory_ids
        if is_named_here or named.exists():
            raise first.bad(
                f"the owner has another conversation with the memory ID {conversation.memory_id!r}; "
                "erase that one, or import for another owner"
            )
        if self._dry_run is not None:
            messages = self._contents(conversation)
            self._dry_run.restored[key] = self._digest
            self._dry_run.memory_ids.add(named_here)
        else:
            try:
                with transaction.atomic(using=self._database):
                    rows = Conversation.objects.using(self._database)
                    rows.bulk_create([conversation])
                    messages = self._contents(conversation)
                    rows.filter(pk=key).update(created_at=created_at, updated_at=updated_at)
            except (IntegrityError, DataError, OverflowError) as error:
                raise first.bad(f"the database refuses this conversation: {error}") from error
        reports.conversations += 1
        reports.messages += messages
        for problem in self._left_out.values():
            reports.bad(problem)

    def _owner(self, line: Line, name: Any) -> Any:
        if name is not None and not isinstance(name, str):
            raise line.bad("owner: expected a user name or null")
        try:
            return self._owners.named(name)
        except ValueError as error:
            raise line.bad(str(error)) from None

    def _conversation(self, line: Line, owner: Any) -> tuple[Conversation, Any, Any]:
        line.data.pop("owner")
        conversation = Conversation(pk=line.uuid(), owner=owner)
        for name in EXPORTED:
            setattr(conversation, name, _value(line, Conversation._meta.get_field(name)))
        created_at, updated_at = line.moment("created_at"), line.moment("updated_at")
        line.done()
        try:
            conversation.clean_fields(exclude=["owner"])
            if conversation.compacted_to > conversation.next_position:
                raise ValueError(
                    f"compacted_to: expected at most next_position, {conversation.next_position}, "
                    f"got {conversation.compacted_to}"
                )
            memory_id_text(conversation.memory_id)
            for name in EXPORTED:
                if isinstance(text := getattr(conversation, name), str):
                    require_storable(text, name)
        except ValidationError as error:
            problems = (f"{name}: {' '.join(texts)}" for name, texts in error.message_dict.items())
            raise line.bad("; ".join(problems)) from error
        except ValueError as error:
            raise line.bad(str(error)) from error
        return conversation, created_at, updated_at

    def _contents(self, conversation: Conversation) -> int:
        """Insert all that follows up to the last line, and return the number of messages."""
        inserted: list[Message] = []
        messages = keys = others = chars = 0
        for line in self._lines:
            if line.problem:
                raise line.bad(line.problem)
            if line.has("app"):
                self._insert(inserted)  # to which its rows may refer
                self._other(line, conversation)
                others += 1
                chars = 0
            elif line.has("end"):
                self._insert(inserted)
                self._check_end(line, end_of(messages, keys, others))
                return messages
            elif line.has("position"):
                row = message_row(line, conversation)
                inserted.append(row)
                chars += sum(len(text or "") for text in (row.text, row.payload, row.native))
                messages += 1
                if len(inserted) >= _ROWS or chars >= _CHARS:
                    self._insert(inserted)
                    chars = 0
            elif line.has("idempotency_key"):
                self._key(line, conversation)
                keys += 1
            else:
                raise line.bad("unknown kind of line; expected a position, an idempotency key, an app or the end")
        raise BadRecordError(str(conversation.pk), "the end of this conversation is missing; is the file cut off?")

    def _other(self, line: Line, conversation: Conversation) -> None:
        """Let a capability restore a line of its own."""
        app = line.text("app")
        restore_line = self._restorers.get(app)
        if restore_line is None:
            problem = f"no app {app[:100]!r} in INSTALLED_APPS reads this; what it kept of the conversation is left out"
            self._left_out.setdefault(app, line.bad(problem))
            return
        write = restore_line(conversation, line)
        line.done()
        if self._dry_run is None:
            write()

    def _insert(self, rows: list[Message]) -> None:
        if self._dry_run is None:
            Message.objects.using(self._database).bulk_create(rows)
        rows.clear()

    def _check_end(self, line: Line, counted: dict[str, int]) -> None:
        said = line.data.pop("end")
        line.done()
        if said != counted:
            raise line.bad(f"expected {json.dumps(said)} in this conversation, found {json.dumps(counted)}")

    def _key(self, line: Line, conversation: Conversation) -> None:
        creator = line.text("creator", null=True)
        owner = None if creator is None else self._owner(line, creator)
        scope = scope_of(conversation) if creator is None else scope_of_owner(owner)
        record = IdempotencyKey(
            conversation=conversation,
            scope=scope,
            key=line.text("idempotency_key"),
            fingerprint=line.text("fingerprint"),
            account=line.text("account"),
        )
        created_at = line.moment("created_at")
        line.done()
        if self._dry_run is not None:
            return
        records = IdempotencyKey.objects.using(self._database)
        if creator is not None and made_by(owner, record.key, conversation.pk, self._database) != conversation.pk:
            raise line.bad(f"idempotency_key: {record.key!r} has made another conversation; erase that one")
        records.bulk_create([record])
        records.filter(conversation=conversation, scope=scope, key=record.key).update(created_at=created_at)

    def _digested(self, lines: Iterator[Line]) -> Iterator[Line]:
        """Yield ``lines``, and keep a digest of those read so far."""
        for line in lines:
            self._digest = hashlib.sha256(self._digest + json.dumps(line.data, sort_keys=True).encode()).digest()
            yield line

    def _compare_digests(self, restored: bytes, first: Line) -> None:
        """Compare the lines with those of the same conversation that came before them.

        Raises:
            BadRecordError: they differ.
        """
        for line in self._lines:
            if line.problem:
                raise line.bad(line.problem)
        if self._digest != restored:
            raise _other_content(first.place, first.uuid())

    def _compare(self, found: Conversation, first: Line, owner: Any) -> None:
        """Compare the stored conversation with the lines.

        Raises:
            BadRecordError: they differ.
        """
        place = first.place
        lines = map(json.loads, conversation_lines([found.pk], database=self._database))
        ours = (own for own in lines if not self._is_left_out(own))
        theirs = (line for line in chain([first], self._lines) if not self._is_left_out(line.data))
        for line, own in zip_longest(theirs, ours):
            if line is not None:
                place = line.place
                if line.problem:
                    raise line.bad(line.problem)
            same = line is not None and own is not None
            if same:
                del own["conversation"]
                for end in (own.get("end"), line.data.get("end")):
                    if isinstance(end, dict):
                        end.pop("others", None)  # of which some may be left out
                if "owner" in own and "owner" in line.data and found.owner_id == (owner and owner.pk):
                    own["owner"] = line.data["owner"]
                if "creator" in own:
                    own["creator"] = line.data.get("creator")
            if not same or own != line.data:
                raise _other_content(place, found.pk)

    def _is_left_out(self, data: dict[str, Any]) -> bool:
        """Return whether a line is that of an app that is not installed, or reads none."""
        return "app" in data and str(data["app"]) not in self._restorers


def _value(line: Line, field: Any) -> Any:
    """Take the value of a column out of a line."""
    if isinstance(field, models.BooleanField):
        return line.flag(field.name)
    if isinstance(field, models.IntegerField):
        return line.number(field.name, null=field.null)
    if not isinstance(field, models.JSONField):  # a key is a text, too
        return line.text(field.name, null=field.null)
    value = line.take(field.name, dict, "an object")
    if sum(1 for _level in levels(value)) > MAX_NESTING:  # Django fails to copy it
        raise line.bad(f"{field.name}: nested more than {MAX_NESTING} levels deep")
    return value


def _other_content(place: str, key: UUID) -> BadRecordError:
    problem = f"conversation {key} exists already with other content; erase it to restore it from this file"
    return BadRecordError(place, problem)


def message_row(line: Line, conversation: Conversation) -> Message:
    """Return the unsaved row of a message's line.

    Raises:
        BadRecordError: a field is missing, unknown or wrong.
    """
    said = line.take("message", dict, "a message", null=True)
    if line.has("problem"):
        # The export could not read the row, or not all of it, so its columns are restored as they were.
        line.text("problem")
        columns = {"type": line.text("type"), "text": line.text("text"), "payload": line.text("payload", null=True)}
    else:
        try:
            columns = to_columns(read_message(said, "message"))
        except (TypeError, ValueError) as error:
            raise line.bad(str(error)) from error
    native = line.data.pop("native", None)
    if isinstance(native, str):
        line.encodable("native", native)
    elif native is not None:
        native = json.dumps(native, separators=(",", ":"))
    origin, position = _origin(line), _position(line, conversation.next_position)
    covers_from, covers_to = _covers(line, origin, position)
    row = Message(
        conversation=conversation,
        **columns,
        native=native,
        position=position,
        token_count=line.number("token_count"),
        origin=origin,
        written_by=_written_by(line),
        covers_from=covers_from,
        covers_to=covers_to,
        pins=_pins(line, conversation.version),
        memory_order=_memory_order(line, position, conversation.next_position),
        added_in=line.number("added_in"),
        evicted_in=line.number("evicted_in", null=True),
        evicted_at=line.moment("evicted_at", null=True),
        eviction_reason=line.text("eviction_reason"),
        created_at=line.moment("created_at"),
    )
    line.done()
    return row


def _origin(line: Line) -> str:
    synthetic = line.flag("synthetic")
    origin: str = line.text("origin")
    if origin not in Origin.values:
        raise line.bad(f"origin: expected one of {', '.join(Origin.values)}, got {origin[:100]!r}")
    if synthetic != (origin != Origin.SAID):
        raise line.bad(f"synthetic: expected {json.dumps(not synthetic)}, as origin is {origin!r}")
    return origin


def _written_by(line: Line) -> str:
    written_by: str = line.text("written_by")
    if written_by and written_by not in WrittenBy.values:
        expected = ", ".join(WrittenBy.values)
        raise line.bad(f"written_by: expected one of {expected}, or an empty text, got {written_by[:100]!r}")
    return written_by


def _position(line: Line, end: int) -> int:
    position: int = line.number("position")
    if not 0 <= position < end:
        raise line.bad(
            f"position: expected at least 0, and less than next_position, {end}, got {str(position)[:100]}; "
            "export the conversation again"
        )
    return position


def _memory_order(line: Line, position: int, end: int) -> int:
    """Return the memory order, which is never behind the end of the memory when the message came.

    Raises:
        BadRecordError: it is, or it is further in front than any message can be that came up to now.
    """
    order: int = line.number("memory_order")
    # What is added next stands one step behind the last position, or in front of all by as many steps.
    least, most = -(end - 1) * ORDER_STEP, position * ORDER_STEP
    if not least <= order <= most:
        raise line.bad(
            f"memory_order: expected from {least} to {most}, got {str(order)[:100]}; the messages that are added next "
            "would stand in the wrong place, so export the conversation again"
        )
    return order


def _covers(line: Line, origin: str, position: int) -> tuple[int | None, int | None]:
    first, last = line.number("covers_from", null=True), line.number("covers_to", null=True)
    if (first is None) != (last is None) or (first is not None and not 0 <= first <= last):
        raise line.bad(
            f"covers_from and covers_to: expected the first and the last position that the message covers, or two "
            f"nulls, got {json.dumps(first)} and {json.dumps(last)}"
        )
    if last is not None and last >= position:
        raise line.bad(f"covers_to: expected a position before its own, {position}, got {last}")
    if first is not None and origin == Origin.SAID:
        raise line.bad(f"covers_from: expected null, as origin is {origin!r}; said messages cover themselves")
    if first is None and origin in STAND_INS:
        raise line.bad(f"covers_from: expected a position that it covers, as origin is {origin!r}, got null")
    return first, last


def _pins(line: Line, version: int) -> str:
    pins: str = line.text("pins")
    problem = problem_of_pins(pins)
    if not problem and pins and last_pin_change(pins) > version:
        problem = f"versions up to {version}, that of the conversation"
    if problem:
        raise line.bad(f"pins: expected {problem}, got {pins[:100]!r}")
    return pins
