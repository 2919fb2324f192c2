"""The record and the entries of a conversation as JSON objects, and the rows made of these."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from chatmemory.contrib.owned_conversations import storable_text
from chatmemory.contrib.pydantic_ai.models import Entry, Record
from chatmemory.contrib.pydantic_ai.store import as_record, json_text, messages_of
from chatmemory.database.reading import in_parts
from chatmemory.models import Conversation

if TYPE_CHECKING:
    from chatmemory.transfer.export import Line


def log_records(conversation: Conversation) -> Iterator[dict[str, Any]]:
    """Yield each entry, and then the record, by which ``restore_record`` restores them."""
    for entry in in_parts(Entry.objects.of(conversation), 20):
        yield {
            "entry": entry.entry_id,
            "parent": entry.parent_id,
            "kind": entry.kind,
            "message": json.loads(entry.message),
            "created_at": entry.created_at.isoformat(),
        }
    for record in Record.objects.of(conversation):
        yield {
            "head": record.head_id,
            # PostgreSQL returns the keys of objects in an order of its own.
            "usage": dict(sorted(record.usage.items())),
            "deferred_tool_requests": json.loads(record.deferred_tool_requests or "null"),
            "scope": record.scope,
            "forked_from": record.forked_from,
            "forked_at": record.forked_at,
            "branches": record.branches,
            "revision": record.revision,
            "updated_at": record.updated_at.isoformat(),
            "format_version": record.format_version,
        }


def restore_record(conversation: Conversation, line: Line) -> Callable[[], object]:
    """Read a line that ``log_records`` yielded, and return what writes its row.

    Raises:
        BadRecordError: the line cannot be read.
    """
    row = _entry(line) if line.has("entry") else _record(line)
    row.conversation = conversation
    try:
        for field in row._meta.concrete_fields:
            if isinstance(text := getattr(row, field.attname), str):
                storable_text(type(row), field.name, text)
        if isinstance(row, Entry):
            messages_of([row])
        else:
            as_record(row)
    except ValueError as error:
        raise line.bad(str(error)) from error

    def write() -> None:
        row.save(using=conversation._state.db, force_insert=True)

    return write


def _entry(line: Line) -> Entry:
    return Entry(
        entry_id=line.text("entry"),
        parent_id=line.text("parent", null=True),
        kind=line.text("kind"),
        message=json_text(line.take("message", dict, "an object")),
        created_at=line.moment("created_at"),
    )


def _record(line: Line) -> Record:
    deferred = line.take("deferred_tool_requests", dict, "an object", null=True)
    branches = line.take("branches", list, "a list")
    if not all(isinstance(tip, str) for tip in branches):
        raise line.bad("branches: expected a list of texts")
    return Record(
        head_id=line.text("head", null=True),
        usage=line.take("usage", dict, "an object"),
        deferred_tool_requests=None if deferred is None else json_text(deferred),
        scope=line.text("scope", null=True),
        forked_from=line.text("forked_from", null=True),
        forked_at=line.text("forked_at", null=True),
        branches=branches,
        revision=line.text("revision"),
        updated_at=line.moment("updated_at"),
        format_version=line.number("format_version"),
    )
