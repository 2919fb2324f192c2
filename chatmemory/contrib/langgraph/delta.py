"""The last stored value of delta channels and the writes since, from which LangGraph rebuilds them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import DeltaChannelHistory, writes_sort_key
from langgraph.checkpoint.serde.base import SerializerProtocol

from chatmemory.contrib.langgraph.models import Checkpoint, Namespace, Write
from chatmemory.contrib.langgraph.reading import load, stored_values
from chatmemory.contrib.langgraph.threads import Threads
from chatmemory.core.arguments import require_list
from chatmemory.database.connections import retry
from chatmemory.database.reading import chunks

__all__ = ["line", "read_histories"]

_PAGE = 200

# A checkpoint and its ancestors, the nearest first.
Path = list[Checkpoint]


def read_histories(
    threads: Threads, serde: SerializerProtocol, config: RunnableConfig, channels: Sequence[str]
) -> dict[str, DeltaChannelHistory]:
    """Return for each channel the last value stored before a checkpoint, if there is one, and the writes since.

    This takes at most five statements for each 200 checkpoints since that value, however many writes there were.

    Args:
        threads: the threads of one owner.
        serde: deserialises values.
        config: names the checkpoint, or a namespace whose latest one it is.
        channels: the names of the channels.

    Raises:
        TypeError: ``channels`` is no list.
    """
    names = require_list(channels, "channels")
    return retry(threads.database, partial(_read, threads, serde, config, names)) if names else {}


def _read(
    threads: Threads, serde: SerializerProtocol, config: RunnableConfig, channels: Sequence[str]
) -> dict[str, DeltaChannelHistory]:
    configurable = config["configurable"]
    spaces = threads.namespaces_of(configurable["thread_id"])
    namespace = spaces.filter(name=configurable.get("checkpoint_ns", "")).first()
    if namespace is None:
        return {channel: {"writes": []} for channel in channels}
    paths = _paths(namespace, configurable.get("checkpoint_id"), channels)
    seeds = _seeds(serde, namespace, paths)
    writes = _writes(namespace, paths)
    found: dict[str, DeltaChannelHistory] = {}
    for channel, path in paths.items():
        ordered = [write for row in reversed(path) for write in writes[row.checkpoint_id, channel]]
        found[channel] = {"writes": [(one.task_id, one.channel, load(serde, one.type, one.value)) for one in ordered]}
        if channel in seeds:
            found[channel]["seed"] = seeds[channel]
    return found


def _paths(namespace: Namespace, checkpoint_id: str | None, channels: Sequence[str]) -> dict[str, Path]:
    """Return for each channel the ancestors of a checkpoint until the nearest one that stores its value by version."""
    paths: dict[str, Path] = {channel: [] for channel in channels}
    missing = set(channels)
    rows = line(namespace, checkpoint_id)
    next(rows, None)  # its own writes are not applied yet
    for row in rows:
        for channel in missing:
            paths[channel].append(row)
        missing = {channel for channel in missing if not row.versions.get(channel)}
        if not missing:
            break
    return paths


def line(namespace: Namespace, checkpoint_id: str | None = None) -> Iterator[Checkpoint]:
    """Yield a checkpoint, by default the latest, and its ancestors, read 200 at once. Their states are not read."""
    rows = Checkpoint.objects.of(namespace).order_by("-checkpoint_id")
    rows = rows.only("conversation", "namespace", "checkpoint_id", "parent_checkpoint_id", "versions")
    known: dict[str, Checkpoint] = {}
    while True:
        if not checkpoint_id or checkpoint_id not in known:
            older = rows.filter(checkpoint_id__lte=checkpoint_id) if checkpoint_id else rows
            known = {row.checkpoint_id: row for row in older[:_PAGE]}
        row = known.get(checkpoint_id or next(iter(known), ""))
        if row is None:
            return
        yield row
        checkpoint_id = row.parent_checkpoint_id
        if not checkpoint_id:
            return


def _seeds(serde: SerializerProtocol, namespace: Namespace, paths: dict[str, Path]) -> dict[str, Any]:
    """Return the seed of each channel that has one, and end its path there."""
    # A channel without a version was not written yet, or its value is stored with the state: it was short, of another
    # kind of channel.
    unclear = {row.pk for channel, path in paths.items() for row in path if channel not in row.versions}
    states: dict[int, Any] = {}
    for part in chunks(sorted(unclear)):
        for row in Checkpoint.objects.of(namespace).filter(pk__in=part):
            states[row.pk] = load(serde, row.state_type, row.state)["channel_values"]
    seeds: dict[str, Any] = {}
    for channel, path in paths.items():
        index = next((index for index, row in enumerate(path) if channel in states.get(row.pk, ())), None)
        if index is not None:
            seeds[channel] = states[path[index].pk][channel]
            del path[index + 1 :]
    keys = {
        channel: (namespace.conversation_id, namespace.pk, channel, path[-1].versions[channel])
        for channel, path in paths.items()
        if path and path[-1].versions.get(channel)
    }
    stored = stored_values(namespace._state.db, set(keys.values()))
    return seeds | {channel: load(serde, *stored[key]) for channel, key in keys.items() if key in stored}


def _writes(namespace: Namespace, paths: dict[str, Path]) -> dict[tuple[str, str], list[Write]]:
    """Return the writes on each checkpoint of the paths to each channel, in the order in which they are applied."""
    found: dict[tuple[str, str], list[Write]] = defaultdict(list)
    rows = Write.objects.of(namespace).filter(channel__in=list(paths))
    for part in chunks(sorted({row.checkpoint_id for path in paths.values() for row in path})):
        for write in rows.filter(checkpoint_id__in=part):
            found[write.checkpoint_id, write.channel].append(write)
    for writes in found.values():
        # As Python orders texts: databases have collations.
        writes.sort(key=lambda one: writes_sort_key(one.task_path, one.task_id, one.index))
    return found
