"""The history of a stored conversation, mirrored in the memory of its row.

The form of each message names its entry, by which its row is found again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q
from pydantic_ai.messages import ModelMessage, ModelResponse

from chatmemory.contrib.native_memory import NativeMessages, tell_calls
from chatmemory.contrib.pydantic_ai.history import said_of
from chatmemory.core.messages import ChatMessage, SystemMessage
from chatmemory.database import operations
from chatmemory.database.reading import chunks, rows_of
from chatmemory.formats.pydantic_ai import FRAMEWORK
from chatmemory.formats.usage import read_usage
from chatmemory.models import Conversation, Message, Origin

# The database looks for IDs in the forms of messages: this bounds a statement.
_IDS_AT_ONCE = 50


@dataclass(frozen=True)
class Logged:
    """An entry of the history."""

    entry_id: str
    message: ModelMessage
    plain: dict[str, Any]
    """The message as a JSON object."""

    is_repaired: bool = False
    """Whether U+FFFD took the place of a character that no database can store."""

    def said(self) -> Iterable[tuple[ChatMessage, dict[str, Any]]]:
        """Yield the messages made of it, each with its form."""
        for message, form in said_of(self.message, self.entry_id, self.plain):
            yield message, {**form, "entry": self.entry_id}


Part = tuple[str, tuple[int, ...]]
"""The ID of a row's entry, and the indexes of its parts if the entry is a request."""


@dataclass(eq=False)
class _Wanted:
    """A message that belongs into the memory."""

    message: ChatMessage
    form: Any
    row: Message | None
    """Its row, retained or evicted; None for a new one."""

    is_repaired: bool = False


def add(conversation: Conversation, entries: Sequence[Logged]) -> None:
    """Add the entries that follow the history to the memory of a locked conversation."""
    new = [_Wanted(message, form, None, entry.is_repaired) for entry in entries for message, form in entry.said()]
    if new:
        stored = _native(new)
        change = conversation.memory.add_all(stored.encoded)
        stored.tell_repairs(change)
        answers = (entry.message for entry in entries if isinstance(entry.message, ModelResponse))
        tell_calls(change, list(map(read_usage, answers)))


def follow(conversation: Conversation, before: Collection[str], now: Sequence[Logged]) -> None:
    """Let the memory of a locked conversation follow to another history.

    Entries that left the history are evicted, and those that came into it are added, as copies if they were there
    before. What the window evicted of the rest does not return. Messages of other programs stay where they are.

    Args:
        conversation: the conversation, locked.
        before: the IDs of the entries that the memory mirrors until now.
        now: the entries from now on, in order.
    """
    rows = list(rows_of(conversation).retained())
    own = _own_parts(conversation, rows)
    retained = {part: row for row in rows if (part := own.get(row.pk)) is not None}
    came = {entry.entry_id for entry in now}.difference(before)
    said = [(entry, message, form) for entry in now for message, form in entry.said()]
    systems = [index for index, (_, message, _) in enumerate(said) if isinstance(message, SystemMessage)]
    system = systems[-1] if systems else None  # a memory holds one at a time
    evicted = _evicted(conversation, came if system is None else came | {said[system][0].entry_id})
    wanted: list[_Wanted] = []
    for index, (entry, message, form) in enumerate(said):
        if isinstance(message, SystemMessage) and index != system:
            continue
        part = _part(form)
        assert part is not None, "said() names the entry"
        if part in retained:
            row = retained[part]
            wanted.append(_Wanted(row.message, row.native_of(FRAMEWORK), row))
        elif entry.entry_id in came or index == system:
            wanted.append(_Wanted(message, form, evicted.get(part), entry.is_repaired))
    order = _merged(rows, own, wanted, has_system=system is not None)
    stored = _native(order)
    change = operations.rewrite(
        conversation.memory.target(),
        stored.encoded,
        native=stored.encoded.native,
        from_foreign_memory=True,
        rows=[one.row for one in order],
    )
    stored.tell_repairs(change)


def _merged(
    rows: Sequence[Message], own: dict[int, Part], wanted: Sequence[_Wanted], *, has_system: bool
) -> list[_Wanted]:
    """Return the memory in its new order: the wanted messages, between those of other programs."""
    places = {one.row.pk: place for place, one in enumerate(wanted) if one.row is not None}
    order: list[_Wanted] = []
    start = 0
    for row in rows:
        if row.pk in places:
            order += wanted[start : places[row.pk] + 1]
            start = max(start, places[row.pk] + 1)
        elif row.pk not in own and not (has_system and isinstance(row.message, SystemMessage)):
            order.append(_Wanted(row.message, row.native_of(FRAMEWORK), row))
    return [*order, *wanted[start:]]


def _own_parts(conversation: Conversation, rows: Sequence[Message]) -> dict[int, Part]:
    """Return what each retained row has of an entry, by primary key. A placeholder has what the cleared row had."""
    own = {row.pk: part for row in rows if (part := _part(row.native_of(FRAMEWORK))) is not None}
    cleared = {row.covers_from: row.pk for row in rows if row.origin == Origin.CLEARED and row.pk not in own}
    if cleared:
        for row in rows_of(conversation).filter(position__in=list(cleared)):
            if (part := _part(row.native_of(FRAMEWORK))) is not None:
                own[cleared[row.position]] = part
    return own


def _evicted(conversation: Conversation, entry_ids: Iterable[str]) -> dict[Part, Message]:
    """Return the evicted rows of these entries, the latest of each part."""
    found: dict[Part, Message] = {}
    for ids in chunks(list(entry_ids), _IDS_AT_ONCE):
        asked = Q(*(Q(native__contains=json.dumps(entry_id)) for entry_id in ids), _connector=Q.OR)
        for row in rows_of(conversation).evicted().filter(asked).order_by("position"):
            if (part := _part(row.native_of(FRAMEWORK))) is not None:
                found[part] = row
    return found


def _part(form: Any) -> Part | None:
    return (form["entry"], tuple(form.get("parts", ()))) if form is not None and "entry" in form else None


def _native(messages: Sequence[_Wanted]) -> NativeMessages:
    replaced = [index for index, one in enumerate(messages) if one.is_repaired]
    return NativeMessages(FRAMEWORK, [one.message for one in messages], [one.form for one in messages], replaced)
