"""Checkpoints and writes stored as rows. Everything is serialised before the thread is locked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, ChannelVersions, CheckpointMetadata, get_checkpoint_metadata
from langgraph.checkpoint.base import Checkpoint as LangGraphCheckpoint

from chatmemory.contrib.langgraph.mirror import MESSAGES, mirror, mirrored_messages, newest
from chatmemory.contrib.langgraph.models import ChannelValue, Checkpoint, Namespace, Write
from chatmemory.contrib.langgraph.threads import Threads, namespace_of
from chatmemory.contrib.owned_conversations import insert, storable_text
from chatmemory.database.change import Change

# Stored with the state: a row of their own would be longer.
_SHORT = (type(None), bool, int, float)


def put(
    threads: Threads,
    config: RunnableConfig,
    checkpoint: LangGraphCheckpoint,
    metadata: CheckpointMetadata,
    new_versions: ChannelVersions,
) -> RunnableConfig:
    """Store a checkpoint, and let the conversation's memory follow it; see ``saver.DjangoSaver.put``."""
    configurable, serde = config["configurable"], threads.serde
    name = storable_text(Namespace, "name", configurable.get("checkpoint_ns", ""))
    values = checkpoint["channel_values"]
    short = {channel: value for channel, value in values.items() if type(value) in _SHORT}
    state: Any = {**checkpoint, "channel_values": short}
    about = get_checkpoint_metadata(config, metadata)
    state_type, state_bytes = serde.dumps_typed(state)
    metadata_type, metadata_bytes = serde.dumps_typed(about)
    checkpoint_id = storable_text(Checkpoint, "checkpoint_id", checkpoint["id"])
    parent_id = storable_text(Checkpoint, "parent_checkpoint_id", configurable.get("checkpoint_id") or "")
    run_id = storable_text(Checkpoint, "run_id", about.get("run_id") or "")
    versions: dict[str, str | None] = dict.fromkeys(about.get("counters_since_delta_snapshot") or ())
    versions |= {
        channel: str(version)
        for channel, version in checkpoint["channel_versions"].items()
        if channel in values and channel not in short
    }
    stored = [
        (
            storable_text(ChannelValue, "channel", channel),
            storable_text(ChannelValue, "version", version),
            *serde.dumps_typed(values[channel]),
        )
        for channel, version in new_versions.items()
        if channel in values and channel not in short
    ]

    def work(change: Change) -> None:
        conversation = change.conversation
        database = conversation._state.db or "default"
        namespace = namespace_of(conversation, name)
        last = None if name else newest(namespace)
        insert(
            database,
            [
                ChannelValue(**namespace.place, channel=channel, version=version, type=kind, value=value)
                for channel, version, kind, value in stored
            ],
        )
        row = Checkpoint(
            **namespace.place,
            checkpoint_id=checkpoint_id,
            parent_checkpoint_id=parent_id,
            run_id=run_id,
            state_type=state_type,
            state=state_bytes,
            versions=versions,
            metadata_type=metadata_type,
            metadata=metadata_bytes,
        )
        written = ["parent_checkpoint_id", "run_id", "state_type", "state", "versions", "metadata_type", "metadata"]
        insert(database, [row], ["namespace", "checkpoint_id", "conversation"], written)
        is_newest = last is None or last.checkpoint_id <= checkpoint_id
        if not name and is_newest and versions.get(MESSAGES, "") not in (None, namespace.mirrored):
            goes_on = last is not None and last.checkpoint_id == parent_id
            before = mirrored_messages(serde, namespace)
            mirror(serde, conversation, namespace, row, before, goes_on=goes_on)

    threads.change(configurable["thread_id"], work)
    return {
        "configurable": {
            "thread_id": configurable["thread_id"],
            "checkpoint_ns": name,
            "checkpoint_id": checkpoint["id"],
        }
    }


def put_writes(
    threads: Threads,
    config: RunnableConfig,
    writes: Sequence[tuple[str, Any]],
    task_id: str,
    task_path: str,
) -> None:
    """See ``saver.DjangoSaver.put_writes``."""
    configurable, serde = config["configurable"], threads.serde
    name = storable_text(Namespace, "name", configurable.get("checkpoint_ns", ""))
    key = {
        "checkpoint_id": storable_text(Write, "checkpoint_id", configurable["checkpoint_id"]),
        "task_id": storable_text(Write, "task_id", task_id),
        "task_path": storable_text(Write, "task_path", task_path),
    }
    # By their indexes: of two interrupts the last one is stored.
    stored = {
        WRITES_IDX_MAP.get(channel, index): (storable_text(Write, "channel", channel), *serde.dumps_typed(value))
        for index, (channel, value) in enumerate(writes)
    }

    def work(change: Change) -> None:
        conversation = change.conversation
        database = conversation._state.db or "default"
        namespace = namespace_of(conversation, name)
        rows = [
            Write(**namespace.place, **key, index=index, channel=channel, type=kind, value=value)
            for index, (channel, kind, value) in stored.items()
        ]
        unique = ["namespace", "checkpoint_id", "task_id", "index", "conversation"]
        insert(database, [row for row in rows if row.index >= 0])
        insert(database, [row for row in rows if row.index < 0], unique, ["task_path", "channel", "type", "value"])

    threads.change(configurable["thread_id"], work)
