"""Receivers that purge, export and delete the checkpoints of a conversation. Deleting one deletes them, too: see
:mod:`.deletion`.

Every process of the project imports this module when it starts, so it does not import LangGraph.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.dispatch import receiver

from chatmemory.contrib.langgraph.deletion import delete_namespaces
from chatmemory.contrib.langgraph.models import Checkpoint
from chatmemory.database.target import Target
from chatmemory.models import Conversation
from chatmemory.signals import anonymising_conversation, exporting_conversation, purging_evicted

__all__: list[str] = []


@receiver(anonymising_conversation)
def forget_checkpoints(conversation: Conversation, **_: Any) -> None:
    """Delete the checkpoints of an anonymised conversation, which are useless without their texts."""
    delete_namespaces(conversation)


@receiver(purging_evicted)
def purge_checkpoints(conversation: Conversation, before: datetime, **_: Any) -> None:
    """Delete old checkpoints. The latest of a graph stays, with all that the graph has not trimmed itself."""
    from chatmemory.contrib.langgraph.pruning import delete_old
    from chatmemory.contrib.langgraph.threads import alter

    # Most conversations have none, and a lock is expensive.
    rows = Checkpoint.objects.using(conversation._state.db)
    if not rows.filter(conversation=conversation, namespace__conversation=conversation, created_at__lt=before).exists():
        return
    alter(Target.as_read(conversation), lambda change: delete_old(change.conversation, before), active=False)


@receiver(exporting_conversation)
def export_checkpoints(conversation: Conversation, **_: Any) -> Iterator[dict[str, Any]]:
    """Return the checkpoints, see :func:`~chatmemory.contrib.langgraph.exporting.checkpoint_records`."""
    from chatmemory.contrib.langgraph.exporting import checkpoint_records

    return checkpoint_records(conversation)
