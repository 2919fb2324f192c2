"""The chat message history; see :mod:`chatmemory.contrib.langchain`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap
from typing import Any, Unpack

from asgiref.sync import sync_to_async

from chatmemory.contrib.common.connections import left_as_found
from chatmemory.contrib.common.native_memory import NativeMemory
from chatmemory.contrib.common.new_conversations import ConversationSettings
from chatmemory.contrib.common.stale_thinking import without_stale_thinking
from chatmemory.contrib.common.valid_memory import valid_rows
from chatmemory.contrib.langchain.messages import FRAMEWORK, form_of, from_row, to_chat_message
from chatmemory.core.arguments import require_list
from chatmemory.core.asynchronous import as_async_change
from chatmemory.core.extras import extra

with extra("langchain"):
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.messages import BaseMessage

    from chatmemory.contrib.langchain.signed_thinking import without_signed_thinking

__all__ = ["DjangoChatMessageHistory"]


class DjangoChatMessageHistory(BaseChatMessageHistory):
    """The conversation of one owner under ``session_id``, created when something is first added."""

    def __init__(self, session_id: Any, owner: Any = None, **settings: Unpack[ConversationSettings]) -> None:
        """
        Args:
            session_id: its text is the conversation's memory ID.
            owner: the user who owns the conversation; None for one without an owner.
            settings: those of a new conversation, see
                :class:`~chatmemory.contrib.common.new_conversations.ConversationSettings`.

        Raises:
            TypeError: there is no such setting.
            ValueError: an anonymous or unsaved user, an ID that is empty or too long, or settings that no conversation
                can have.
        """
        self._memory = NativeMemory(FRAMEWORK, session_id, owner, **settings)

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        """The messages that the window retains, in order."""
        with left_as_found(self._memory.database):
            return self._get()

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add all of ``messages`` or none.

        Raises:
            TypeError: they are no list; or one of them is not a message, or holds a value that has no JSON form.
            ValueError: a number that is not finite.
        """
        with left_as_found(self._memory.database):
            self._add(messages)

    def clear(self) -> None:
        """Evict all messages; the conversation's history keeps them."""
        with left_as_found(self._memory.database):
            self._memory.clear()

    async def aget_messages(self) -> list[BaseMessage]:
        """Async twin of :attr:`messages`."""
        return await sync_to_async(self._get)()

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Async twin of :meth:`add_messages`."""
        await as_async_change(self._add)(messages)

    async def aclear(self) -> None:
        """Async twin of :meth:`clear`."""
        await as_async_change(self._memory.clear)()

    def _get(self) -> list[BaseMessage]:
        rows = list(valid_rows(self._memory))
        return without_stale_thinking(rows, list(starmap(from_row, rows)), without_signed_thinking)

    def _add(self, messages: Sequence[BaseMessage]) -> None:
        given = require_list(messages, "messages")
        self._memory.add(list(map(to_chat_message, given)), list(map(form_of, given)))
