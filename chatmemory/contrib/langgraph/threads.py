"""The threads of one owner: each is the conversation whose memory ID is the thread's ID."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db.models import QuerySet

from chatmemory.contrib.langgraph.models import Namespace
from chatmemory.contrib.owned_conversations import OwnedConversations
from chatmemory.models import Conversation

if TYPE_CHECKING:
    from langgraph.checkpoint.serde.base import SerializerProtocol


@dataclass(frozen=True)
class Threads(OwnedConversations):
    """The threads of one owner, and what serialises their states and values."""

    serde: SerializerProtocol

    def namespaces_of(self, thread_id: Any) -> QuerySet[Namespace]:
        """Return the namespaces of one thread, see ``filter_of``."""
        return Namespace.objects.using(self.database).filter(**self.filter_of(thread_id))


def namespace_of(conversation: Conversation, name: str) -> Namespace:
    """Return the namespace of a locked conversation; create it if it is missing."""
    found, _ = Namespace.objects.using(conversation._state.db).get_or_create(conversation=conversation, name=name)
    return found
