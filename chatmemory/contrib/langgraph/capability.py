"""The capability of this app. Deleting a conversation deletes its checkpoints, too: see ``deletion``.

Every process of the project imports this module when it starts, so it does not import LangGraph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import Count, Exists, OuterRef, QuerySet

from chatmemory.capabilities import Capability
from chatmemory.contrib.langgraph.deletion import delete_namespaces
from chatmemory.contrib.langgraph.models import ChannelValue, Checkpoint, Namespace, Write
from chatmemory.database.change import Change, Target
from chatmemory.database.connections import retry
from chatmemory.database.reading import in_parts, pages
from chatmemory.models import Conversation
from chatmemory.verification import Finding

if TYPE_CHECKING:
    from chatmemory.transfer.export import Line


class LanggraphCapability(Capability):
    """The checkpoints of a conversation are purged, anonymised, exported, restored and verified with it."""

    def anonymise(self, conversation: Conversation) -> None:
        delete_namespaces(conversation)  # which are useless without their texts

    def purge(self, conversation: Conversation, before: datetime) -> None:
        """Delete old checkpoints. The latest of a graph stays, with all that the graph has not trimmed itself."""
        from chatmemory.contrib.langgraph.pruning import delete_old
        from chatmemory.contrib.owned_conversations import alter

        # Most conversations have none, and a lock is expensive.
        rows = Checkpoint.objects.using(conversation._state.db).filter(conversation=conversation)
        if not rows.filter(namespace__conversation=conversation, created_at__lt=before).exists():
            return
        alter(Target.as_read(conversation), lambda change: delete_old(change.conversation, before), active=False)

    def export(self, conversation: Conversation) -> Iterable[dict[str, Any]]:
        from chatmemory.contrib.langgraph.records import checkpoint_records

        return checkpoint_records(conversation)

    def restore(self, conversation: Conversation, line: Line) -> Callable[[], object]:
        from chatmemory.contrib.langgraph.records import restore_record

        return restore_record(conversation, line)

    def verify(self, conversations: QuerySet[Conversation], *, repair: bool) -> Iterable[Finding]:
        return _broken_rows(conversations, repair=repair)


def _broken_rows(conversations: QuerySet[Conversation], *, repair: bool) -> Iterator[Finding]:
    """Yield checkpoints with missing values; if the conversations are all, also rows that belong to no conversation.

    Args:
        conversations: the conversations.
        repair: delete the rows that are found. A checkpoint stays if the values of later ones may be built on it.
    """
    for page in pages(conversations):
        names = Namespace.objects.using(conversations.db).filter(conversation__in=page)
        graphs = set(names.values_list("conversation_id", flat=True))
        for conversation in page:
            if conversation.pk in graphs and _missing(conversation):
                yield from _examine_locked(conversation, repair)
    if not conversations.query.has_filters():
        yield from _strays(conversations.db, repair)


def _examine_locked(conversation: Conversation, repair: bool) -> list[Finding]:
    findings: list[Finding] = []

    def work(change: Change) -> None:
        findings.clear()
        for namespace, checkpoint_id, channels in _missing(change.conversation):
            is_deleted = repair and not _has_deltas(namespace)
            if is_deleted:
                for model in (Checkpoint, Write):
                    model.objects.of(namespace).filter(checkpoint_id=checkpoint_id).delete()
            findings.append(
                Finding(
                    conversation=conversation.pk,
                    memory_id=conversation.memory_id,
                    what=f"LangGraph checkpoint {checkpoint_id!r} of graph {namespace.name!r}",
                    expected="the values of all its channels",
                    found=f"none of {', '.join(channels)}"[:1000],
                    repaired=is_deleted,
                )
            )

    try:
        Target.as_read(conversation).change(work)
    except Conversation.DoesNotExist:
        return []
    return findings


def _missing(conversation: Conversation) -> list[tuple[Namespace, str, list[str]]]:
    """Return the checkpoints of a conversation some of whose values are missing, with the names of their channels."""
    found = []
    for namespace in in_parts(Namespace.objects.using(conversation._state.db).filter(conversation=conversation)):
        # The checkpoints first: values are stored before them, and deleted after them.
        rows = Checkpoint.objects.of(namespace).values_list("checkpoint_id", "versions").order_by("checkpoint_id")
        checkpoints = list(rows)
        stored = set(ChannelValue.objects.of(namespace).values_list("channel", "version"))
        for checkpoint_id, versions in checkpoints:
            channels = sorted(name for name, version in versions.items() if version and (name, version) not in stored)
            if channels:
                found.append((namespace, checkpoint_id, channels))
    return found


def _has_deltas(namespace: Namespace) -> bool:
    """Return whether the values of some checkpoints are built from those of older ones."""
    rows = Checkpoint.objects.of(namespace).values_list("versions", flat=True)
    return any(None in versions.values() for versions in rows)


def _strays(database: str, repair: bool) -> Iterator[Finding]:
    """Yield rows whose conversation is gone, or whose namespace is gone or another conversation's."""
    there = Exists(Conversation.objects.filter(pk=OuterRef("conversation")))
    placed = Exists(Namespace.objects.filter(pk=OuterRef("namespace"), conversation=OuterRef("conversation")))
    for model, belongs in ((Write, there & placed), (ChannelValue, there & placed), (Checkpoint, there & placed)):
        yield from _deleted(model._base_manager.using(database).filter(~belongs), repair)
    yield from _deleted(Namespace._base_manager.using(database).filter(~there), repair)


def _deleted(strays: QuerySet[Any], repair: bool) -> Iterator[Finding]:
    """Yield a finding for each conversation that rows name, and with ``repair`` delete the rows."""
    counted = strays.order_by().values_list("conversation_id").annotate(Count("pk"))
    found: list[tuple[UUID, int]] = retry(strays.db, lambda: list(counted))
    if found and repair:
        # Not delete(), which would first look for what refers to them: that was deleted before.
        retry(strays.db, lambda: strays._raw_delete(strays.db))
    for key, count in found:
        yield Finding(
            conversation=key,
            memory_id="",
            what=f"LangGraph {strays.model._meta.verbose_name_plural}",
            expected="each in a graph of its conversation",
            found=f"{count} in none",
            repaired=repair,
        )
