"""What this app adds to chatmemory."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import QuerySet

from chatmemory.capabilities import Capability
from chatmemory.contrib.citus.checking import wrong_names
from chatmemory.models import Conversation
from chatmemory.models.conversation_names import kept_names
from chatmemory.verification import Finding

__all__ = ["CitusCapability"]


class CitusCapability(Capability):
    """The names of conversations are compared with these."""

    def verify(self, conversations: QuerySet[Conversation], *, repair: bool) -> Iterable[Finding]:
        return () if kept_names(conversations.db) is None else wrong_names(conversations, repair=repair)
