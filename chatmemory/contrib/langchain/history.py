"""The chat message history; see :mod:`chatmemory.contrib.langchain`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap
from typing import Any, Unpack

from asgiref.sync import sync_to_async

from chatmemory.contrib.langchain.messages import FRAMEWORK, form_of, from_row, to_chat_message
from chatmemory.contrib.native_memory import (
    ConversationSettings,
    NativeMemory,
    left_as_found,
    valid_rows,
    without_stale_thinking,
)
from chatmemory.core.arguments import require_list
from chatmemory.core.asynchronous import as_async_change
from chatmemory.core.exceptions import extra

with extra("langchain"):
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.messages import AIMessage, BaseMessage

__all__ = ["DjangoChatMessageHistory"]


class DjangoChatMessageHistory(BaseChatMessageHistory):
    """The conversation of one owner under ``session_id``, created when something is first added."""

    def __init__(self, session_id: Any, owner: Any = None, **settings: Unpack[ConversationSettings]) -> None:
        """
        Args:
            session_id: its text is the conversation's memory ID.
            owner: the user who owns the conversation; None for one without an owner.
            settings: those of a new conversation, see
                :class:`~chatmemory.contrib.native_memory.ConversationSettings`.

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


def without_signed_thinking(message: BaseMessage) -> BaseMessage | None:
    """Return an answer without the thinking that a provider signed; None if it has none."""
    if not isinstance(message, AIMessage) or isinstance(message.content, str):
        return None
    rest = [block for block in message.content if not _is_signed(block)]
    return None if len(rest) == len(message.content) else message.model_copy(update={"content": rest})


def _is_signed(block: Any) -> bool:
    match block:
        case {"type": "thinking" | "redacted_thinking"}:
            return True
        case {"type": "reasoning", "extras": {"signature": _}}:
            return True  # the same, in LangChain's own blocks
        case {"type": "non_standard", "value": {"type": "redacted_thinking"}}:
            return True
        case {"type": "reasoning_content", "reasoning_content": {"signature": _} | {"redacted_content": _}}:
            return True  # of Bedrock
    return False
