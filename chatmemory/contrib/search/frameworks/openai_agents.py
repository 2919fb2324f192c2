"""A tool for OpenAI's Agents SDK, which finds what the memory of a conversation no longer contains::

from chatmemory.contrib.search.frameworks.openai_agents import conversation_search

agent = Agent(name="Support", tools=[conversation_search("support-42", owner=request.user)])
await Runner.run(agent, "Which allergy did I mention?", session=DjangoSession("support-42", owner=request.user))
"""

from __future__ import annotations

from typing import Any

from chatmemory.contrib.search.recall import TOOL_NAME, Scope
from chatmemory.contrib.search.tool import answer_or_error, description
from chatmemory.core.asynchronous import as_async_read
from chatmemory.core.exceptions import extra

with extra("openai-agents"):
    from agents import FunctionTool, function_tool


def conversation_search(memory_id: str | None = None, *, owner: Any = None, of_owner: bool = False) -> FunctionTool:
    """Return a tool that finds the evicted messages of a conversation, or the messages of an owner.

    Args:
        memory_id: the memory ID of the conversation; None for all conversations of the owner.
        owner: the user who owns it; None for a conversation without an owner.
        of_owner: whether to search the owner's other conversations, too.
    """

    def find(query: str, since: str | None, until: str | None, page: int) -> str:
        return answer_or_error(Scope.named(memory_id, owner, of_owner=of_owner), query, since, until, page)

    async def search(query: str, since: str | None = None, until: str | None = None, page: int = 1) -> str:
        """Find messages.

        Args:
            query: The words that matter, without the rest of the question.
            since: Only messages from this date or time on, in ISO 8601.
            until: Only messages until this date, which is included, or before this time, in ISO 8601.
            page: Further results: 2 for those after the first page, and so on.
        """
        return await as_async_read(find)(query, since, until, page)

    several = of_owner or memory_id is None
    return function_tool(search, name_override=TOOL_NAME, description_override=description(of_owner=several))
