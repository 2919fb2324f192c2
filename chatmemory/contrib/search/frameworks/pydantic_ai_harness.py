"""The history that ``ConversationSearch`` of ``pydantic-ai-harness`` searches: the evicted messages of conversations.

::

    from pydantic_ai_harness.conversation_search import ConversationSearch
    from chatmemory.contrib.search.frameworks.pydantic_ai_harness import DjangoHistorySource

    agent = Agent(model, capabilities=[ConversationSearch(DjangoHistorySource(owner=request.user))])

``ConversationSearch`` reads all messages of all runs for each search. For long histories, use the toolset in
``chatmemory.contrib.search.frameworks.pydantic_ai``, which has an index and finds words in every script.
"""

from __future__ import annotations

from typing import Any

from pydantic_ai.messages import ModelMessage
from pydantic_ai_harness.step_persistence import RunRecord

from chatmemory.contrib.search.recall import Scope
from chatmemory.core.asynchronous import as_async_read
from chatmemory.core.messages import AiMessage, UserMessage
from chatmemory.database.reading import read_in_parts
from chatmemory.formats.pydantic_ai import model_message
from chatmemory.models.branch import current_rows


class DjangoHistorySource:
    """A ``HistorySource``. A run is a conversation, and its ID is the conversation's primary key."""

    def __init__(self, memory_id: str | None = None, *, owner: Any = None) -> None:
        """
        Args:
            memory_id: the memory ID of the conversation; None for all conversations of the owner.
            owner: the user who owns it; None for a conversation without an owner.
        """
        self._memory_id, self._owner = memory_id, owner

    async def list_runs(self) -> list[RunRecord]:
        """Return the conversations, the oldest first."""
        return await as_async_read(self._runs)()

    async def run_history(self, *, run_id: str) -> list[ModelMessage]:
        """Return the evicted messages of a conversation that have text: those of the user and of the model."""
        return await as_async_read(self._messages)(run_id)

    def _runs(self) -> list[RunRecord]:
        rows = Scope.named(self._memory_id, self._owner).conversations.order_by("created_at", "pk")
        return [RunRecord(run_id=str(row.pk), conversation_id=row.memory_id, started_at=row.created_at) for row in rows]

    def _messages(self, run_id: str) -> list[ModelMessage]:
        rows = Scope.named(self._memory_id, self._owner).conversations
        conversation = next((row for row in rows if str(row.pk) == run_id), None)
        if conversation is None:
            return []
        said = current_rows(conversation).history()
        evicted = said.filter(evicted_in__isnull=False, type__in=("USER", "AI"))
        return [
            model_message(text, row.created_at)
            for row in read_in_parts(evicted)
            if (text := _text_alone(row.message)) is not None
        ]


def _text_alone(message: Any) -> UserMessage | AiMessage | None:
    """Return a message with its text only: a call without its result is no history."""
    text = message.text if isinstance(message, (UserMessage, AiMessage)) else None
    return type(message)(text) if text else None
