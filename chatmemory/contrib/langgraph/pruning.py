"""Checkpoints deleted and copied."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol

from chatmemory.contrib.langgraph.deletion import delete_namespaces
from chatmemory.contrib.langgraph.mirror import MESSAGES, follow, mirror, mirrored_messages
from chatmemory.contrib.langgraph.models import ChannelValue, Checkpoint, Namespace, Write
from chatmemory.contrib.langgraph.reading import line
from chatmemory.contrib.langgraph.threads import Threads, namespace_of
from chatmemory.contrib.owned_conversations import insert
from chatmemory.core.arguments import require_list
from chatmemory.database.change import Change
from chatmemory.database.connections import retry
from chatmemory.database.reading import chunks
from chatmemory.models import Conversation


def delete_thread(threads: Threads, thread_id: str) -> None:
    """See ``saver.DjangoSaver.delete_thread``."""
    threads.change(thread_id, _followed(threads.serde, delete_namespaces), create=False)


def delete_for_runs(threads: Threads, run_ids: Sequence[str]) -> None:
    """See ``saver.DjangoSaver.delete_for_runs``; each thread has a transaction of its own."""
    wanted = [str(run_id) for run_id in require_list(run_ids, "run_ids") if run_id]
    rows = Checkpoint.objects.using(threads.database).filter(**threads.filter_of_all, run_id__in=wanted)

    def delete(conversation: Conversation) -> None:
        for namespace in _namespaces(conversation):
            gone = Checkpoint.objects.of(namespace).filter(run_id__in=wanted)
            _delete(namespace, list(gone.values_list("checkpoint_id", flat=True)))

    thread_ids = rows.values_list("conversation__memory_id", flat=True).distinct()
    for thread_id in retry(threads.database, lambda: list(thread_ids)):
        threads.change(thread_id, _followed(threads.serde, delete), create=False)


def prune(threads: Threads, thread_ids: Sequence[str], strategy: str) -> None:
    """See ``saver.DjangoSaver.prune``."""
    named = require_list(thread_ids, "thread_ids")
    if strategy not in ("keep_latest", "delete"):
        raise ValueError(f'strategy must be "keep_latest" or "delete", but is: {strategy!r}')
    for thread_id in named:
        if strategy == "delete":
            delete_thread(threads, thread_id)
        else:
            threads.change(thread_id, lambda change: delete_old(change.conversation), create=False)


def delete_old(conversation: Conversation, before: datetime | None = None) -> None:
    """Delete the checkpoints of a locked conversation that no later run needs.

    The latest of the graph and of each subgraph stays, and those from which its delta channels are rebuilt. Of a call
    of a subgraph, the latest stays until the graph has gone on.

    Args:
        conversation: the conversation, locked.
        before: delete only older checkpoints; a time with a time zone.
    """
    namespaces = list(_namespaces(conversation))
    current = max((_latest_id(namespace) for namespace in namespaces if not namespace.name), default="")
    for namespace in namespaces:
        rows = Checkpoint.objects.of(namespace)
        old = rows if before is None else rows.filter(created_at__lt=before)
        # Each call of a subgraph has a namespace of its own, with the ID of its task after a colon.
        has_ended = ":" in namespace.name and _latest_id(namespace) < current
        kept = set() if has_ended else _needed(namespace)
        _delete(namespace, [key for key in old.values_list("checkpoint_id", flat=True) if key not in kept])


def _latest_id(namespace: Namespace) -> str:
    rows = Checkpoint.objects.of(namespace).order_by("-checkpoint_id")
    return rows.values_list("checkpoint_id", flat=True).first() or ""


def _needed(namespace: Namespace) -> set[str]:
    kept: set[str] = set()
    missing: set[str] = set()
    for row in line(namespace):
        if not kept:
            missing = {channel for channel, version in row.versions.items() if version is None}
        kept.add(row.checkpoint_id)
        missing -= {channel for channel, version in row.versions.items() if version is not None}
        if not missing:
            break
    return kept


def copy_thread(threads: Threads, source: str, target: str) -> None:
    """See ``saver.DjangoSaver.copy_thread``."""
    if not retry(threads.database, threads.namespaces_of(source).exists):
        return

    def copy(conversation: Conversation) -> None:
        database = conversation._state.db or "default"
        if _namespaces(conversation).exists():
            raise ValueError(f"thread {target!r} has checkpoints already; delete_thread() deletes them")

        def read(change: Change) -> None:
            for namespace in _namespaces(change.conversation):
                into = namespace_of(conversation, namespace.name)
                for model in (ChannelValue, Checkpoint, Write):
                    rows = model.objects.of(namespace).order_by("pk")
                    insert(database, (_copied(row, into) for row in rows))

        threads.change(source, read, create=False)

    threads.change(target, _followed(threads.serde, copy))


def _copied(row: Any, into: Namespace) -> Any:
    row.pk, row.conversation_id, row.namespace, row._state.adding = None, into.conversation_id, into, True
    return row


def _followed(serde: SerializerProtocol, act: Callable[[Conversation], None]) -> Callable[[Change], None]:
    """Return a function that does ``act`` and then lets the memory follow the thread's current checkpoint."""

    def work(change: Change) -> None:
        conversation = change.conversation
        root = _root(conversation)
        before = [] if root is None else mirrored_messages(serde, root)
        act(conversation)
        root = _root(conversation)
        if root is None:
            follow(conversation, before, [], goes_on=False)
            return
        # Of a delta channel, the last snapshot is what is known of the messages.
        head = next((row for row in line(root) if row.versions.get(MESSAGES, "") is not None), None)
        mirror(serde, conversation, root, head, before)

    return work


def _root(conversation: Conversation) -> Namespace | None:
    found: Namespace | None = _namespaces(conversation).filter(name="").first()
    return found


def _namespaces(conversation: Conversation) -> Any:
    return Namespace.objects.using(conversation._state.db).filter(conversation=conversation)


def _delete(namespace: Namespace, checkpoint_ids: Iterable[str]) -> None:
    """Delete checkpoints, their pending writes, and the values that no other checkpoint has."""
    gone = list(checkpoint_ids)
    if not gone:
        return
    for part in chunks(gone):
        for model in (Checkpoint, Write):
            model.objects.of(namespace).filter(checkpoint_id__in=part).delete()
    left = Checkpoint.objects.of(namespace)
    used = {name for versions in left.values_list("versions", flat=True) for name in versions.items()}
    values = ChannelValue.objects.of(namespace)
    unused = [key for key, *name in values.values_list("pk", "channel", "version") if tuple(name) not in used]
    for keys in chunks(unused):
        values.filter(pk__in=keys).delete()
    # There may be writes for a checkpoint that is not stored yet.
    if not left.exists() and not Write.objects.of(namespace).exists():
        # Not namespace.delete(), which does not name the conversation.
        Namespace.objects.using(namespace._state.db).filter(
            conversation=namespace.conversation_id, pk=namespace.pk
        ).delete()
