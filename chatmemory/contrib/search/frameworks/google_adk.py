"""A memory service for Google's Agent Development Kit, with which its tools find what users said before::

    from google.adk.runners import Runner
    from google.adk.tools import load_memory, preload_memory
    from chatmemory.contrib.search.frameworks.google_adk import DjangoMemoryService

    agent = Agent(name="support", model=model, tools=[load_memory])    # or preload_memory
    runner = Runner(agent=agent, app_name="shop", session_service=sessions, memory_service=DjangoMemoryService())

ADK does not say which session searches, so the messages of all conversations of the user are found. Texts are
quotations as ``chatmemory.contrib.search.tool`` writes them: ADK itself escapes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError

from chatmemory.contrib.search.preload import query_of
from chatmemory.contrib.search.recall import Result, Scope, results, speaker, written
from chatmemory.core.asynchronous import as_async_read
from chatmemory.core.exceptions import extra

with extra("google-adk"):
    from google.adk.memory import BaseMemoryService
    from google.adk.memory.base_memory_service import SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.adk.sessions import Session
    from google.genai import types


def user_by_primary_key(user_id: str) -> Any:
    """Return the user whose primary key ADK knows as ``user_id``; None if there is none."""
    try:
        return get_user_model()._default_manager.filter(pk=user_id).first()
    except (ValueError, ValidationError):
        return None


class DjangoMemoryService(BaseMemoryService):
    """The conversations of each user, as they are stored."""

    def __init__(self, owner_of: Callable[[str], Any] = user_by_primary_key, *, most: int = 5) -> None:
        """
        Args:
            owner_of: returns the owner of conversations for ADK's ``user_id``, or None for a user who has none.
            most: the maximum number of memories that a search returns.
        """
        self._owner_of = owner_of
        self._most = most

    async def add_session_to_memory(self, session: Session) -> None:
        """Do nothing: what is added to the memory of a conversation is found, and nothing else."""

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Return the messages that fit best to the words of a query. The name of the app has no influence."""
        return SearchMemoryResponse(memories=await as_async_read(self._find)(user_id, query))

    def _find(self, user_id: str, query: str) -> list[MemoryEntry]:
        owner, words = self._owner_of(user_id), query_of(query)
        if owner is None or not words:
            return []
        return [_memory(result) for result in results(Scope.of_owner(owner), words, most=self._most)]


def _memory(result: Result) -> MemoryEntry:
    data = result.to_data()
    del data["text"]  # ADK gives the metadata to the model, too
    row = next((quoted.row for quoted in result.quotations if quoted.row.position == data["position"]), None)
    return MemoryEntry(
        id=f"{data['conversation']}-{data['position']}",
        content=types.Content(role="user", parts=[types.Part(text=written([result]))]),
        author=None if row is None else speaker(row),
        timestamp=data["said_at"],
        custom_metadata=data,
    )
