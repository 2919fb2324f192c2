"""The messages of a graph, mirrored in the memory of its conversation."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from chatmemory.contrib.common.repaired_texts import NativeMessages
from chatmemory.contrib.common.valid_memory import valid_among
from chatmemory.contrib.langchain.messages import FRAMEWORK, form_of, from_chat_message, from_row, to_chat_message
from chatmemory.contrib.langgraph.models import ChannelValue, Checkpoint, Namespace
from chatmemory.contrib.langgraph.reading import load
from chatmemory.core.messages import ChatMessage
from chatmemory.core.serialization.storable import with_replacements
from chatmemory.database import operations
from chatmemory.database.batches import rows_of
from chatmemory.database.target import Target
from chatmemory.models import Conversation, Message

__all__ = ["MESSAGES", "as_graph_message", "follow", "followed_until", "messages_at", "newest"]

MESSAGES = "messages"
"""The channel that is mirrored; ``MessagesState`` and agents of LangGraph's name it so."""


def newest(namespace: Namespace) -> Checkpoint | None:
    """Return the checkpoint from which the next run continues; None if there is none."""
    found: Checkpoint | None = Checkpoint.objects.of(namespace).order_by("-checkpoint_id").first()
    return found


def messages_at(serde: SerializerProtocol, row: Checkpoint | None) -> list[BaseMessage] | None:
    """Return the messages of a checkpoint; None if it does not store them, or they are not LangChain's.

    A checkpoint between two snapshots of a delta channel does not store the messages.

    Args:
        serde: deserialises values.
        row: the checkpoint; None for a thread without checkpoints, which has no messages.
    """
    if row is None or MESSAGES not in row.versions:
        return []
    version = row.versions[MESSAGES]
    return None if version is None else _stored(serde, row, version=version)


def followed_until(serde: SerializerProtocol, namespace: Namespace, row: Checkpoint | None) -> list[BaseMessage]:
    """Return the messages of a checkpoint, or if it does not store them, those that were stored last."""
    found = messages_at(serde, row)
    return (_stored(serde, namespace) or []) if found is None else found


def _stored(serde: SerializerProtocol, place: Namespace | Checkpoint, **version: str) -> list[BaseMessage] | None:
    row = ChannelValue.objects.of(place).filter(channel=MESSAGES, **version).order_by("-pk").first()
    return None if row is None else _messages(load(serde, row.type, row.value))


def _messages(value: Any) -> list[BaseMessage] | None:
    found = value.value if isinstance(value, _DeltaSnapshot) else value
    if not isinstance(found, list) or not all(isinstance(message, BaseMessage) for message in found):
        return None
    return found


def as_graph_message(row: Message, message: ChatMessage) -> BaseMessage:
    """Return the message of a row for a graph. One without an ID gets an ID by which :func:`follow` finds the row.

    Args:
        row: a row of the conversation.
        message: its message, in which every tool call and result has an ID.
    """
    read = from_row(row, message)
    return read if read.id else read.model_copy(update={"id": f"{_prefix(row.conversation_id)}{row.position}"})


def _prefix(conversation_id: Any) -> str:
    return f"chatmemory-{conversation_id}-"


def follow(conversation: Conversation, before: Sequence[BaseMessage], now: Sequence[BaseMessage]) -> None:
    """Change the memory as the messages of the graph have changed.

    New messages are added; a changed one takes the place of the old; a removed one is evicted. Messages of other
    programs stay, and evicted ones do not return.

    Args:
        conversation: the conversation, locked.
        before: the graph's messages that the memory mirrors until now.
        now: the graph's messages from now on.
    """
    start = len(before)
    if before and list(now[:start]) == list(before):
        _add(conversation, [message for message in now[start:] if not _is_made_of_row(conversation, message)])
        return
    mirrored, wanted = dict(_keyed(before)), _keyed(now)
    rows = list(rows_of(conversation).retained())
    valid = {row.pk: message for row, message in valid_among(rows, None)}
    as_read = {row.pk: as_graph_message(row, valid[row.pk]) for row in rows}
    known = dict(zip(_keys(as_read.values()), rows, strict=True))
    known |= {key: row for key, row in zip(_keys(map(from_row, rows)), rows, strict=True) if key not in known}
    still = {key for key, _message in wanted}
    gone = {row.pk for key, row in known.items() if key in mirrored and key not in still}
    changed: dict[Any, BaseMessage] = {}
    new: dict[Any, list[BaseMessage]] = {}
    place = None
    for key, message in wanted:
        row = known.get(key)
        if row is not None:
            place = row.pk
            if message != mirrored.get(key, as_read[place]):
                changed[place] = message
        elif key not in mirrored and not _is_made_of_row(conversation, message):
            new.setdefault(place, []).append(message)
    last = new.pop(place, [])
    if not (gone or changed or new):
        _add(conversation, last)
        return
    memory = [_said(message) for message in new.get(None, [])]
    for row in rows:
        if row.pk in changed:
            memory.append(_said(changed[row.pk]))
        elif row.pk not in gone:
            memory.append((row.message, row.native_of(FRAMEWORK)))
        memory += map(_said, new.get(row.pk, []))
    memory += map(_said, last)
    stored = _native(memory)
    stored.tell_repairs(operations.rewrite(Target.of(conversation), stored.encoded, from_foreign_memory=True))


def _add(conversation: Conversation, new: Sequence[BaseMessage]) -> None:
    if new:
        stored = _native([_said(message) for message in new])
        stored.tell_repairs(operations.add(Target.of(conversation), stored.encoded))


def _native(said: Sequence[tuple[ChatMessage, Any]]) -> NativeMessages:
    return NativeMessages(FRAMEWORK, [message for message, _form in said], [form for _message, form in said])


def _is_made_of_row(conversation: Conversation, message: BaseMessage) -> bool:
    """Return whether the message was made of a row of this conversation, retained or evicted."""
    return (message.id or "").startswith(_prefix(conversation.pk))


def _keyed(messages: Sequence[BaseMessage]) -> list[tuple[str, BaseMessage]]:
    return list(zip(_keys(messages), messages, strict=True))


def _keys(messages: Iterable[BaseMessage]) -> list[str]:
    """Return a key for each message: its ID; without one its content and the number of equal messages before it."""
    times: Counter[str] = Counter()
    keys = []
    for message in messages:
        key = message.id
        if not key:
            text = _json(message)
            times[text] += 1
            key = f"{times[text]} {text}"
        keys.append(key)
    return keys


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
