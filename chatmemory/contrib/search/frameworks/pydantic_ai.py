"""A toolset for Pydantic AI, which finds what the memory of a conversation no longer contains::

    from chatmemory.contrib.search.frameworks.pydantic_ai import conversation_search

    agent = Agent(model, toolsets=[conversation_search("support-42", owner=request.user)])

Its tool has the name and the arguments of that of ``ConversationSearch`` in ``pydantic-ai-harness``, but reads an index
instead of the whole history. A run is a conversation here, and its ID is the conversation's primary key.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from chatmemory.contrib.search.recall import Scope
from chatmemory.contrib.search.tool import answer_or_error, description
from chatmemory.core.asynchronous import as_async_read
from chatmemory.core.exceptions import extra

with extra("pydantic-ai"):
    from pydantic_ai import FunctionToolset, RunContext


def conversation_search(
    memory_id: str | None = None, *, owner: Any = None, of_owner: bool = False
) -> FunctionToolset[Any]:
    """Return a toolset with the tool ``search_conversation_history``.

    Args:
        memory_id: the memory ID of the conversation; None for all conversations of the owner.
        owner: the user who owns it; None for a conversation without an owner.
        of_owner: whether to search the owner's other conversations, too.
    """
    toolset: FunctionToolset[Any] = FunctionToolset()

    def find(query: str, run_id: str | None) -> str:
        scope = Scope.named(memory_id, owner, of_owner=of_owner)
        if run_id is not None:
            key = _key(run_id)
            rows = scope.conversations.none() if key is None else scope.conversations.filter(pk=key)
            scope = Scope(rows, scope.current)
            if not rows.exists():
                return f"No persisted history for run {run_id!r:.100}."
        return answer_or_error(scope, query, id_name="run_id")

    async def search_conversation_history(ctx: RunContext[Any], query: str, run_id: str | None = None) -> str:
        """Find messages.

        Args:
            ctx: The run.
            query: The words that matter, without the rest of the question.
            run_id: Only the conversation of a result that has this run_id.
        """
        return await as_async_read(find)(query, run_id)

    several = of_owner or memory_id is None
    toolset.add_function(search_conversation_history, description=description(of_owner=several))
    return toolset


def _key(run_id: str) -> UUID | None:
    try:
        return UUID(run_id)
    except ValueError:
        return None
