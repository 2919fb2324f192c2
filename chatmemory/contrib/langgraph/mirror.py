"""The messages of a graph, mirrored in the memory of its conversation."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from django.db.models import Q
from langchain_core import messages as lc
from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from chatmemory.contrib.langchain.messages import FRAMEWORK, form_of, from_chat_message, from_row, to_chat_message
from chatmemory.contrib.langgraph.models import ChannelValue, Checkpoint, Namespace
from chatmemory.contrib.langgraph.reading import load
from chatmemory.contrib.native_memory import NativeMessages, tell_calls, valid_among
from chatmemory.core.entries import EvictionReason
from chatmemory.core.json_text import with_replacements
from chatmemory.core.messages import AiMessage, ChatMessage, SystemMessage
from chatmemory.core.serialization import message_to_data
from chatmemory.core.usage import Usage
from chatmemory.database import operations
from chatmemory.database.operations.plan import longest_common_subsequence, pairs_between
from chatmemory.database.reading import chunks, rows_of
from chatmemory.formats.usage import read_usage
from chatmemory.models import Conversation, Message, MessageQuerySet, Origin

MESSAGES = "messages"
"""The channel that is mirrored; ``MessagesState`` and agents of LangGraph's name it so."""

# The reasons for which the graph itself takes a message out of the memory.
_RETURNING = (EvictionReason.REWRITTEN.value, EvictionReason.REPLACED.value)

# The most versions ago that a run that goes on looks for evicted messages.
_VERSIONS_ASKED = 100

# The database looks for IDs in the forms of messages: these bound a statement.
_IDS_AT_ONCE = 50
_CHARS_ASKED = 100


def newest(namespace: Namespace) -> Checkpoint | None:
    """Return the checkpoint from which the next run continues; None if there is none."""
    found: Checkpoint | None = Checkpoint.objects.of(namespace).order_by("-checkpoint_id").first()
    return found


def mirrored_messages(serde: SerializerProtocol, namespace: Namespace) -> list[BaseMessage]:
    """Return the messages of the root graph that its memory mirrors until now."""
    return _stored(serde, namespace, namespace.mirrored) or []


def mirror(
    serde: SerializerProtocol,
    conversation: Conversation,
    namespace: Namespace,
    head: Checkpoint | None,
    before: Sequence[BaseMessage],
    *,
    goes_on: bool = False,
) -> None:
    """Let the memory follow the root graph to a checkpoint. It stays as it is if that has values of another kind.

    A checkpoint between two snapshots of a delta channel does not store the messages: then the memory stays, too.

    Args:
        serde: deserialises values.
        conversation: the conversation, locked.
        namespace: the root graph's.
        head: the checkpoint; None if there is none any more.
        before: see ``mirrored_messages``.
        goes_on: see ``follow``.
    """
    version = "" if head is None else head.versions.get(MESSAGES, "")
    now = None if version is None else _stored(serde, namespace, version)
    if now is None:
        return
    follow(conversation, before, now, goes_on=goes_on)
    # Not namespace.save(), which does not name the conversation.
    rows = Namespace.objects.using(namespace._state.db).filter(conversation=conversation.pk, pk=namespace.pk)
    rows.update(mirrored=version)


def _stored(serde: SerializerProtocol, namespace: Namespace, version: str) -> list[BaseMessage] | None:
    """Return the messages of a version, none of the empty one; None if they are not stored, or not LangChain's."""
    if not version:
        return []
    row = ChannelValue.objects.of(namespace).filter(channel=MESSAGES, version=version).first()
    return None if row is None else _messages(load(serde, row.type, row.value))


def _messages(value: Any) -> list[BaseMessage] | None:
    found = value.value if isinstance(value, _DeltaSnapshot) else value
    if not isinstance(found, list) or not all(isinstance(message, BaseMessage) for message in found):
        return None
    return found


def as_graph_message(row: Message, message: ChatMessage) -> BaseMessage:
    """Return the message of a row for a graph. One without an ID gets an ID by which ``follow`` finds the row.

    Args:
        row: a row of the conversation.
        message: its message, in which every tool call and result has an ID.
    """
    read = from_row(row, message)
    return read if read.id else read.model_copy(update={"id": f"{_prefix(row.conversation_id)}{row.position}"})


def _prefix(conversation_id: Any) -> str:
    return f"chatmemory-{conversation_id}-"


def follow(
    conversation: Conversation, before: Sequence[BaseMessage], now: Sequence[BaseMessage], *, goes_on: bool
) -> None:
    """Change the memory as the messages of the graph have changed: by their IDs, and in their order.

    New messages are added; a changed one takes the place of the old; a removed one is evicted. Messages of other
    programs stay where they are, and what left the memory for another reason does not return.

    Args:
        conversation: the conversation, locked.
        before: the graph's messages that the memory mirrors until now.
        now: the graph's messages from now on.
        goes_on: whether they are of the checkpoint that follows the one before. Otherwise the graph is at another point
            of its past, or in another run, and messages may return that the memory had already.
    """
    start = len(before)
    new = [message for message in now[start:] if not _is_made_of_row(conversation, message)]
    is_new = not conversation.next_position
    if (
        (is_new or (goes_on and before))
        and list(now[:start]) == list(before)
        and not _system_texts(new) & _system_texts(before)  # an addition ignores a system message that says the same
        and not _having(rows_of(conversation).retained(), conversation, new)  # another program's, which a run read
        and not _evicted(conversation, new, goes_on=True)
    ):
        _add(conversation, list(map(_said, new)))
        return
    rows = list(rows_of(conversation).retained())
    wanted, gone = _compare(conversation, rows, before, now, goes_on=goes_on)
    order = _order(rows, wanted, gone)
    if conversation.always_keep_system_message_first:
        order.sort(key=lambda one: not isinstance(one.message, SystemMessage))
    end = order[len(rows) :]
    if order[: len(rows)] == rows and all(isinstance(one, _Wanted) and one.row is None for one in end):
        _add(conversation, [one.said for one in end if isinstance(one, _Wanted)])
        return
    said = [one.said if isinstance(one, _Wanted) else (one.message, one.native_of(FRAMEWORK)) for one in order]
    stored = _native(said)
    change = operations.rewrite(
        conversation.memory.target(),
        stored.encoded,
        native=stored.encoded.native,
        from_foreign_memory=True,
        rows=[one.row or one.slot if isinstance(one, _Wanted) else one for one in order],
    )
    stored.tell_repairs(change)


@dataclass(eq=False)
class _Wanted:
    """A message of the graph that belongs into the memory."""

    said: tuple[ChatMessage, Any]
    """The message, and LangChain's form of it."""

    slot: Message | None = None
    """The retained row that it is, changed or not."""

    row: Message | None = None
    """A row that says the same, retained or evicted: it stays if it can, and is copied otherwise."""

    is_changed: bool = True
    """Whether the row in the slot must give way."""

    @property
    def message(self) -> ChatMessage:
        return self.said[0]


Key = tuple[str, int]
"""The ID of a message, or without one its content, and the number of such messages up to it."""


def _compare(
    conversation: Conversation,
    rows: Sequence[Message],
    before: Sequence[BaseMessage],
    now: Sequence[BaseMessage],
    *,
    goes_on: bool,
) -> tuple[list[_Wanted], set[int]]:
    """Return what the graph wants in the memory, in its order, and the keys of the retained rows that it removed."""
    read = [as_graph_message(row, message) for row, message in valid_among(rows, None)]
    own = dict(zip(_keys(map(from_row, rows)), rows, strict=True)) | dict(zip(_keys(read), rows, strict=True))
    as_read = {row.pk: message for row, message in zip(rows, read, strict=True)}
    behind = _rows_behind(conversation, rows)
    held, mirrored = dict(_keyed(before)), dict(_one_system(_keyed(before)))
    keyed = _one_system(_keyed(now))
    slots: dict[Key, Message] = {}
    taken: set[int] = set()
    for known in (own, behind):
        for key, _message in keyed:
            row = known.get(key)
            if row is not None and key not in slots and row.pk not in taken:
                slots[key] = row
                taken.add(row.pk)
    gone = {row.pk for known in (own, behind) for key, row in known.items() if key in held and row.pk not in taken}
    wanted = []
    new: list[tuple[_Wanted, BaseMessage]] = []
    for key, message in keyed:
        slot = slots.get(key)
        if slot is not None:
            old = held.get(key, as_read[slot.pk])
            wanted.append(_in_slot(slot, message, old, stands_for=own.get(key) is not slot))
        elif key not in mirrored:
            wanted.append(_Wanted(_said(message)))
        else:
            continue
        if wanted[-1].row is None:
            new.append((wanted[-1], message))
    evicted = _evicted(conversation, [message for _one, message in new], goes_on=goes_on and len(mirrored) == len(held))
    for one, message in new:
        left = evicted.get(message.id or "", [])
        stays_out = left[-1].eviction_reason not in _RETURNING if left else _is_made_of_row(conversation, message)
        if one.slot is None and stays_out:
            wanted.remove(one)
        one.row = next((row for row in reversed(left) if _says_the_same(row, one.said)), None)
    return wanted, gone


def _in_slot(row: Message, message: BaseMessage, old: BaseMessage, *, stands_for: bool) -> _Wanted:
    """Return the message that a row has, or that the row stands for: then its metadata does not matter."""
    same = to_chat_message(message) == to_chat_message(old) if stands_for else message == old
    if same and (stands_for or row.native_of(FRAMEWORK) is not None):
        return _Wanted((row.message, row.native_of(FRAMEWORK)), row, row, is_changed=False)
    chat, form = _said(message)
    said = (row.message if same else chat), form  # another program's calls may have no IDs
    return _Wanted(said, row, row if _says_the_same(row, said) else None, is_changed=not same)


def _rows_behind(conversation: Conversation, rows: Sequence[Message]) -> dict[Key, Message]:
    """Return the rows that stand for another message, a cleared tool result for one, by the key of that one."""
    standing = {
        row.covers_from: row
        for row in rows
        if row.origin in (Origin.CLEARED, Origin.COPY, Origin.RESTORED)
        and row.covers_from == row.covers_to
        and row.native_of(FRAMEWORK) is None
    }
    if not standing:
        return {}
    behind = rows_of(conversation).filter(position__in=list(standing))
    return {_key(as_graph_message(row, row.message)): standing[row.position] for row in behind}


def _evicted(conversation: Conversation, messages: Sequence[BaseMessage], *, goes_on: bool) -> dict[str, list[Message]]:
    """Return the evicted rows of those messages that the memory had before, by ID.

    A run that goes on returns to what was said long ago only from a point in the past, to which it went shortly before.
    """
    since = max(conversation.version - _VERSIONS_ASKED, 0) if goes_on else 0
    if conversation.prefix_version <= since:  # nothing was evicted
        return {}
    return _having(rows_of(conversation).evicted().filter(evicted_in__gt=since), conversation, messages)


def _having(
    rows: MessageQuerySet, conversation: Conversation, messages: Sequence[BaseMessage]
) -> dict[str, list[Message]]:
    """Return those of ``rows`` that have the ID of one of ``messages``, by ID."""
    found: dict[str, list[Message]] = defaultdict(list)
    prefix = _prefix(conversation.pk)
    wanted = [message.id for message in messages if message.id]
    for part in chunks(wanted, _IDS_AT_ONCE):
        numbers = [id.removeprefix(prefix) for id in part if id.startswith(prefix)]
        asked = Q(position__in=[int(number) for number in numbers if number.isdecimal()])
        for id in part:
            asked |= Q(native__contains=json.dumps(id[:_CHARS_ASKED])[:-1])
        for row in rows.filter(asked):
            found[as_graph_message(row, row.message).id or ""].append(row)
    return {id: found[id] for id in wanted if id in found}


def _order(rows: Sequence[Message], wanted: Sequence[_Wanted], gone: set[int]) -> list[Message | _Wanted]:
    """Return the memory in its new order: rows that stay where they are, and messages that come in or move."""
    slots = {one.slot.pk for one in wanted if one.slot is not None}
    graphs = [row for row in rows if row.pk in slots or row.pk in gone]
    pairs = longest_common_subsequence(
        [row.pk for row in graphs], [None if one.slot is None else one.slot.pk for one in wanted]
    )
    # A copy with another ID comes where the message was.
    similar = pairs_between(
        pairs,
        [_content(row.message) if row.pk in gone else object() for row in graphs],
        [_content(one.message) if one.slot is None and one.row is None else object() for one in wanted],
    )
    for index, place in similar:
        wanted[place].row = graphs[index]
    places = {graphs[index].pk: place for index, place in [*pairs, *similar]}
    fixed = sorted(places.values())
    following = dict(pairwise([*fixed, fixed[-1] + 1])) if fixed else {}
    brings_system = any(one.slot is None and isinstance(one.message, SystemMessage) for one in wanted)
    order: list[Message | _Wanted] = [*wanted[: fixed[0]]] if fixed else []
    for row in rows:
        if row.pk in places:
            start = places[row.pk]
            order.append(wanted[start] if wanted[start].is_changed else row)
            order += wanted[start + 1 : following[start]]
        elif not (row.pk in gone or row.pk in slots or (brings_system and isinstance(row.message, SystemMessage))):
            order.append(row)
    return [*order, *wanted[fixed[-1] + 1 if fixed else 0 :]]


def _add(conversation: Conversation, said: Sequence[tuple[ChatMessage, Any]]) -> None:
    if said:
        stored = _native(said)
        change = conversation.memory.add_all(stored.encoded)
        stored.tell_repairs(change)
        tell_calls(change, [_usage_in(form) for message, form in said if isinstance(message, AiMessage)])


def _usage_in(form: Any) -> Usage:
    fields = form["data"] if isinstance(form, dict) else {}
    return read_usage(fields) if fields.get("usage_metadata") else Usage()


def _native(said: Sequence[tuple[ChatMessage, Any]]) -> NativeMessages:
    return NativeMessages(FRAMEWORK, [message for message, _form in said], [form for _message, form in said])


def _is_made_of_row(conversation: Conversation, message: BaseMessage) -> bool:
    """Return whether the message was made of a row of this conversation, retained or evicted."""
    return (message.id or "").startswith(_prefix(conversation.pk))


def _keyed(messages: Sequence[BaseMessage]) -> list[tuple[Key, BaseMessage]]:
    return list(zip(_keys(messages), messages, strict=True))


def _keys(messages: Iterable[BaseMessage]) -> list[Key]:
    times: Counter[str] = Counter()
    keys = []
    for message in messages:
        name, _number = _key(message)
        times[name] += 1
        keys.append((name, times[name]))
    return keys


def _key(message: BaseMessage) -> Key:
    return message.id or _json(message), 1


def _one_system(keyed: Sequence[tuple[Key, BaseMessage]]) -> list[tuple[Key, BaseMessage]]:
    """Return the messages without all system messages but the last: a memory holds one at a time."""
    systems = [key for key, message in keyed if _is_system(message)]
    return [(key, message) for key, message in keyed if key not in systems[:-1]]


def _is_system(message: BaseMessage) -> bool:
    may_be = isinstance(message, (lc.SystemMessage, lc.ChatMessage))
    return may_be and isinstance(to_chat_message(message), SystemMessage)


def _system_texts(messages: Iterable[BaseMessage]) -> set[str]:
    return {str(message.text) for message in messages if _is_system(message)}


def _says_the_same(row: Message, said: tuple[ChatMessage, Any]) -> bool:
    return _content(row.message) == _content(said[0])


def _content(message: ChatMessage) -> str:
    return json.dumps(with_replacements(message_to_data(message)), sort_keys=True)  # as it is stored


def _said(message: BaseMessage) -> tuple[ChatMessage, Any]:
    try:
        form = form_of(message)
    except (TypeError, ValueError):
        # An artifact may be any object. The checkpoint stores it whole.
        form = json.loads(_json(message), parse_constant=str)
        if not _can_be_read(form):
            # The ID is how it is found again.
            alike = from_chat_message(to_chat_message(message)).model_copy(update={"id": message.id})
            form = message_to_dict(alike)
    return to_chat_message(message), form


def _can_be_read(form: dict[str, Any]) -> bool:
    try:
        messages_from_dict([form])
    except (TypeError, ValueError):  # a type of message of the project's own
        return False
    return True


def _json(message: BaseMessage) -> str:
    text = json.dumps(message_to_dict(message), default=repr, sort_keys=True)
    return json.dumps(with_replacements(json.loads(text)), sort_keys=True)  # as it is stored
