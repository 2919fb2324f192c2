"""The capability of this app. Deleting a conversation deletes its checkpoints, too: see ``deletion``.

Every process of the project imports this module when it starts, so it does not import LangGraph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db.models import QuerySet

from chatmemory.capabilities import Capability
from chatmemory.contrib.langgraph.checking import broken_rows
from chatmemory.contrib.langgraph.deletion import delete_namespaces
from chatmemory.contrib.langgraph.models import Checkpoint
from chatmemory.contrib.langgraph.restoring import restore_record
from chatmemory.database.change import Target
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
        from chatmemory.contrib.langgraph.threads import alter

        # Most conversations have none, and a lock is expensive.
        rows = Checkpoint.objects.using(conversation._state.db).filter(conversation=conversation)
        if not rows.filter(namespace__conversation=conversation, created_at__lt=before).exists():
            return
        alter(Target.as_read(conversation), lambda change: delete_old(change.conversation, before), active=False)

    def export(self, conversation: Conversation) -> Iterable[dict[str, Any]]:
        from chatmemory.contrib.langgraph.exporting import checkpoint_records

        return checkpoint_records(conversation)

    def restore(self, conversation: Conversation, line: Line) -> Callable[[], object]:
        return restore_record(conversation, line)

    def verify(self, conversations: QuerySet[Conversation], *, repair: bool) -> Iterable[Finding]:
        return broken_rows(conversations, repair=repair)
