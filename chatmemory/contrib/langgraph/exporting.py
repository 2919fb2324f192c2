"""The checkpoints of a conversation as JSON objects, to be read by people, and exactly as they are stored."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

from langchain_core.messages import BaseMessage, message_to_dict
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from chatmemory.contrib.langgraph.models import ChannelValue, Checkpoint, Namespace, Write
from chatmemory.database.reading import in_parts
from chatmemory.models import Conversation

# Creates no object of a type that a graph defines: nothing is imported, and only the data are exported.
_SERDE = JsonPlusSerializer(allowed_msgpack_modules=None)


def checkpoint_records(conversation: Conversation) -> Iterator[dict[str, Any]]:
    """Yield each namespace, checkpoint, value and pending write.

    Data that only the graph's own serialiser can read are Base64. Under ``stored`` there are all data as the rows have
    them, by which ``restoring`` restores them.
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
