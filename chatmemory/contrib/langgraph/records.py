"""The checkpoints of a conversation as JSON objects, for people and as they are stored, and the rows made of these."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage, message_to_dict
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from chatmemory.contrib.langgraph.models import ChannelValue, Checkpoint, Namespace, Write
from chatmemory.contrib.langgraph.threads import namespace_of
from chatmemory.contrib.owned_conversations import storable_text
from chatmemory.core.json_text import require_json
from chatmemory.database.reading import in_parts
from chatmemory.models import Conversation

if TYPE_CHECKING:
    from chatmemory.transfer.export import Line

# Creates no object of a type that a graph defines: nothing is imported, and only the data are exported.
_SERDE = JsonPlusSerializer(allowed_msgpack_modules=None)


def checkpoint_records(conversation: Conversation) -> Iterator[dict[str, Any]]:
    """Yield each namespace, checkpoint, value and pending write.

    Data that only the graph's own serialiser can read are Base64. Under ``stored`` there are all data as the rows have
    them, by which ``restore_record`` restores them.
    """
    database = conversation._state.db
    for namespace in in_parts(Namespace.objects.using(database).filter(conversation=conversation)):
        graph = {"graph": namespace.name}
        yield {**graph, "mirrored": namespace.mirrored}
        for row in in_parts(Checkpoint.objects.of(namespace)):
            yield {
                **graph,
                "checkpoint": row.checkpoint_id,
                "parent": row.parent_checkpoint_id,
                "run": row.run_id,
                "created_at": row.created_at.isoformat(),
                # PostgreSQL returns the keys of objects in an order of its own.
                "versions": dict(sorted(row.versions.items())),
                "state": _readable(row.state_type, row.state),
                "metadata": _readable(row.metadata_type, row.metadata),
                "stored": {
                    "state": _stored(row.state_type, row.state),
                    "metadata": _stored(row.metadata_type, row.metadata),
                },
            }
        for value in in_parts(ChannelValue.objects.of(namespace), 20):
            said = _readable(value.type, value.value)
            stored = {"value": _stored(value.type, value.value)}
            yield {**graph, "channel": value.channel, "version": value.version, "value": said, "stored": stored}
        for write in in_parts(Write.objects.of(namespace), 20):
            yield {
                **graph,
                "task": write.task_id,
                "written_on": write.checkpoint_id,
                "index": write.index,
                "path": write.task_path,
                "channel": write.channel,
                "value": _readable(write.type, write.value),
                "stored": {"value": _stored(write.type, write.value)},
            }


def _readable(type: str, value: Any) -> Any:
    stored = bytes(value)
    try:
        return json.loads(json.dumps(_SERDE.loads_typed((type, stored)), default=_plain, skipkeys=True))
    except (NotImplementedError, TypeError, ValueError):
        return _stored(type, stored)


def _stored(type: str, value: Any) -> dict[str, str]:
    return {"type": type, "base64": base64.b64encode(bytes(value)).decode()}


def _plain(value: Any) -> Any:
    return message_to_dict(value) if isinstance(value, BaseMessage) else str(value)


def restore_record(conversation: Conversation, line: Line) -> Callable[[], None]:
    """Return the function that writes the row of a line.

    Raises:
        BadRecordError: a field is missing or wrong.
    """
    graph = line.text("graph")
    if line.has("mirrored"):
        namespace = Namespace(conversation=conversation, name=graph, mirrored=line.text("mirrored"))
        _check(line, namespace)
        return lambda: namespace.save(using=conversation._state.db, force_insert=True)
    row = _row(line)
    _check(line, row)
    created_at = row.created_at if isinstance(row, Checkpoint) else None

    def write() -> None:
        namespace = namespace_of(conversation, graph)
        row.conversation, row.namespace = conversation, namespace
        row.save(using=conversation._state.db, force_insert=True)
        if created_at is not None:
            rows = Checkpoint.objects.of(namespace).filter(pk=row.pk)
            rows.update(created_at=created_at)  # which saving has set to now

    return write


def _row(line: Line) -> Any:
    """Return the unsaved row of a checkpoint, of a value or of a write, without its namespace."""
    kind = next((kind for kind in ("checkpoint", "task", "channel") if line.has(kind)), None)
    if kind is None:
        raise line.bad("unknown kind of line; expected a graph, checkpoint, channel or task")
    if not line.has("stored"):
        raise line.bad("stored is missing: an older version wrote this file, and only for people to read")
    stored = line.take("stored", dict, "an object")
    if kind == "checkpoint":
        for name in ("state", "metadata"):  # for people
            line.data.pop(name, None)
        state_type, state = _data(line, stored, "state")
        metadata_type, metadata = _data(line, stored, "metadata")
        return Checkpoint(
            checkpoint_id=line.text("checkpoint"),
            parent_checkpoint_id=line.text("parent"),
            run_id=line.text("run"),
            created_at=line.moment("created_at"),
            versions=_versions(line),
            state_type=state_type,
            state=state,
            metadata_type=metadata_type,
            metadata=metadata,
        )
    line.data.pop("value", None)
    type, value = _data(line, stored, "value")
    if kind == "channel":
        return ChannelValue(channel=line.text("channel"), version=line.text("version"), type=type, value=value)
    return Write(
        task_id=line.text("task"),
        checkpoint_id=line.text("written_on"),
        index=line.number("index"),
        task_path=line.text("path"),
        channel=line.text("channel"),
        type=type,
        value=value,
    )


def _versions(line: Line) -> Any:
    versions = line.take("versions", dict, "an object")
    if not all(version is None or isinstance(version, str) for version in versions.values()):
        raise line.bad("versions: expected texts and nulls")
    return versions


def _data(line: Line, stored: dict[str, Any], name: str) -> tuple[str, bytes]:
    """Return the type of a serialised value, and its bytes."""
    data = stored.get(name)
    try:
        kind, text = data["type"], data["base64"]  # type: ignore[index]
        value = base64.b64decode(text, validate=True)
    except (KeyError, TypeError, ValueError):
        value = None
    if value is None or not isinstance(kind, str):
        raise line.bad(f"stored: expected the type and the Base64 of {name}")
    return kind, value


def _check(line: Line, row: Any) -> None:
    """Require that the texts fit their columns.

    Raises:
        BadRecordError: they do not.
    """
    try:
        for field in row._meta.concrete_fields:
            if isinstance(text := getattr(row, field.attname), str):
                storable_text(type(row), field.name, text)
        if isinstance(row, Checkpoint):
            require_json(row.versions, "versions")
    except ValueError as error:
        raise line.bad(str(error)) from error
