"""Checkpoints, and the history of delta channels, read from their rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from django.db.models import F, Q, QuerySet
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple, DeltaChannelHistory, PendingWrite, writes_sort_key
from langgraph.checkpoint.serde.base import SerializerProtocol

from chatmemory.contrib.langgraph.models import ChannelValue, Checkpoint, Namespace, Write
from chatmemory.contrib.langgraph.threads import Threads
from chatmemory.core.arguments import require_list
from chatmemory.database.connections import retry
from chatmemory.database.reading import chunks

_PAGE = 20

Filter = dict[str, Any] | None

ValueKey = tuple[UUID, int, str, str]
"""The conversation, the namespace, the channel and the version of a value."""


def read_latest(threads: Threads, config: RunnableConfig) -> CheckpointTuple | None:
    """Return the checkpoint that ``config`` names, or the latest of its namespace; None if there is none."""
    configurable = config["configurable"]
    named: RunnableConfig = {
        "configurable": {
            "thread_id": configurable["thread_id"],
            "checkpoint_ns": configurable.get("checkpoint_ns", ""),
            "checkpoint_id": configurable.get("checkpoint_id"),
        }
    }
    found = retry(threads.database, partial(_read_page, threads, named, size=1))
    return found[0][1] if found else None


def read_pages(
    threads: Threads,
    config: RunnableConfig | None,
    filter: Filter = None,
    before: RunnableConfig | None = None,
    limit: int | None = None,
) -> Iterator[CheckpointTuple]:
    """Yield the matching checkpoints, the latest first, a page at a time; see ``_read_page``."""
    after: Checkpoint | None = None
    while limit is None or limit > 0:
        size = _PAGE if limit is None else min(_PAGE, limit)
        read = partial(_read_page, threads, config, filter, before, after=after, size=size)
        page = retry(threads.database, read)
        for _row, found in page:
            yield found
        if len(page) < size:
            return
        after = page[-1][0]
        limit = None if limit is None else limit - len(page)


def _read_page(
    threads: Threads,
    config: RunnableConfig | None,
    filter: Filter = None,
    before: RunnableConfig | None = None,
    *,
    after: Checkpoint | None = None,
    size: int = _PAGE,
) -> list[tuple[Checkpoint, CheckpointTuple]]:
    """Return the next ``size`` checkpoints that match, with their rows.

    Args:
        threads: the threads of one owner.
        config: names a thread, and may name a namespace and a checkpoint; None is every thread of the owner.
        filter: metadata that the checkpoints must have.
        before: names a checkpoint that all must be older than.
        after: the last row of the page before.
        size: the most checkpoints of the page, above zero.
    """
    rows = _matching(threads, config, before)
    found: list[tuple[Checkpoint, Any]] = []
    part_size = max(size, _PAGE) if filter else size
    while len(found) < size:
        part = list(_following(rows, after)[:part_size])
        for row in part:
            metadata = load(threads.serde, row.metadata_type, row.metadata)
            if all(metadata.get(name) == value for name, value in (filter or {}).items()):
                found.append((row, metadata))
        if len(part) < part_size:
            break
        after = part[-1]
    return _tuples(threads.serde, found[:size])


def _matching(
    threads: Threads, config: RunnableConfig | None, before: RunnableConfig | None
) -> QuerySet[Checkpoint, Checkpoint]:
    configurable = config["configurable"] if config else {}
    rows = Checkpoint.objects.using(threads.database)
    is_one = "thread_id" in configurable
    if is_one and "checkpoint_ns" in configurable:
        # A query of its own, so that the database reads its index from the end.
        space = threads.namespaces_of(configurable["thread_id"]).filter(name=configurable["checkpoint_ns"]).first()
        matching = rows.none() if space is None else rows.of(space)
    else:
        theirs = threads.filter_of(configurable["thread_id"]) if is_one else threads.filter_of_all
        matching = rows.filter(**{f"namespace__{column}": wanted for column, wanted in theirs.items()})
    if checkpoint_id := configurable.get("checkpoint_id"):
        matching = matching.filter(checkpoint_id=checkpoint_id)
    if before and (bound := before["configurable"].get("checkpoint_id")):
        matching = matching.filter(checkpoint_id__lt=bound)
    # Where rows are distributed by the conversation, each node can join them only by it.
    colocated = matching.filter(namespace__conversation=F("conversation"))
    return colocated.select_related("namespace__conversation")


def _following(rows: QuerySet[Checkpoint, Checkpoint], after: Checkpoint | None) -> QuerySet[Checkpoint, Checkpoint]:
    if after is not None:
        same = Q(checkpoint_id=after.checkpoint_id, pk__lt=after.pk)
        rows = rows.filter(Q(checkpoint_id__lt=after.checkpoint_id) | same)
    return rows.order_by("-checkpoint_id", "-pk")


def _tuples(
    serde: SerializerProtocol, found: Sequence[tuple[Checkpoint, Any]]
) -> list[tuple[Checkpoint, CheckpointTuple]]:
    rows = [row for row, _metadata in found]
    values = channel_values(serde, rows)
    pending = _pending_writes(serde, rows)
    tuples = []
    for (row, metadata), stored in zip(found, values, strict=True):
        checkpoint = load(serde, row.state_type, row.state)
        checkpoint["channel_values"] |= stored
        parent = _config(row, row.parent_checkpoint_id) if row.parent_checkpoint_id else None
        config = _config(row, row.checkpoint_id)
        tuples.append((row, CheckpointTuple(config, checkpoint, metadata, parent, pending[row.pk])))
    return tuples


def _config(row: Checkpoint, checkpoint_id: str) -> RunnableConfig:
    return {
        "configurable": {
            "thread_id": row.namespace.conversation.memory_id,
            "checkpoint_ns": row.namespace.name,
            "checkpoint_id": checkpoint_id,
        }
    }


def channel_values(serde: SerializerProtocol, rows: Sequence[Checkpoint]) -> list[dict[str, Any]]:
    """Return the values that are stored by version, for each of ``rows``, which are of one database."""
    wanted = [
        {
            channel: (row.conversation_id, row.namespace_id, channel, version)
            for channel, version in row.versions.items()
            if version
        }
        for row in rows
    ]
    keys = {key for one in wanted for key in one.values()}
    stored = stored_values(rows[0]._state.db, keys) if rows else {}
    # Deserialised for each checkpoint, since a caller may change the values of one.
    return [{channel: load(serde, *stored[key]) for channel, key in one.items() if key in stored} for one in wanted]


def stored_values(database: str | None, keys: set[ValueKey]) -> dict[ValueKey, tuple[str, bytes]]:
    """Return the serialised values, each with its type."""
    if not keys:
        return {}
    conversations, namespaces, channels, versions = (set(part) for part in zip(*keys, strict=True))
    rows = ChannelValue.objects.using(database).filter(
        conversation__in=conversations, namespace__in=namespaces, channel__in=channels, version__in=versions
    )
    found = {
        (row.conversation_id, row.namespace_id, row.channel, row.version): (row.type, bytes(row.value)) for row in rows
    }
    return {key: value for key, value in found.items() if key in keys}


def _pending_writes(serde: SerializerProtocol, rows: Sequence[Checkpoint]) -> dict[int, list[PendingWrite]]:
    pending: dict[int, list[PendingWrite]] = defaultdict(list)
    if not rows:
        return pending
    keys = {(row.namespace_id, row.checkpoint_id): row.pk for row in rows}
    writes = Write.objects.using(rows[0]._state.db).filter(
        conversation__in={row.conversation_id for row in rows},
        namespace__in={row.namespace_id for row in rows},
        checkpoint_id__in={row.checkpoint_id for row in rows},
    )
    # Sorted as Python orders texts: databases have collations.
    for write in sorted(writes, key=lambda one: writes_sort_key(one.task_path, one.task_id, one.index)):
        row = keys.get((write.namespace_id, write.checkpoint_id))
        if row is not None:
            pending[row].append((write.task_id, write.channel, load(serde, write.type, write.value)))
    return pending


def load(serde: SerializerProtocol, type: str, value: Any) -> Any:
    """Return a deserialised value."""
    return serde.loads_typed((type, bytes(value)))


_ANCESTORS_AT_ONCE = 200

# A checkpoint and its ancestors, the nearest first.
Path = list[Checkpoint]


def read_histories(threads: Threads, config: RunnableConfig, channels: Sequence[str]) -> dict[str, DeltaChannelHistory]:
    """See ``saver.DjangoSaver.get_delta_channel_history``."""
    names = require_list(channels, "channels")
    return retry(threads.database, partial(_read, threads, config, names)) if names else {}


def _read(threads: Threads, config: RunnableConfig, channels: Sequence[str]) -> dict[str, DeltaChannelHistory]:
    configurable, serde = config["configurable"], threads.serde
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
            known = {row.checkpoint_id: row for row in older[:_ANCESTORS_AT_ONCE]}
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
