"""The rows of checkpoints, restored from the JSON objects of ``exporting``. LangGraph is not imported."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from chatmemory.contrib.langgraph.models import ChannelValue, Checkpoint, Namespace, Write
from chatmemory.contrib.langgraph.threads import namespace_of, storable_text
from chatmemory.core.json_text import require_json
from chatmemory.models import Conversation

if TYPE_CHECKING:
    from chatmemory.transfer.export import Line


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
