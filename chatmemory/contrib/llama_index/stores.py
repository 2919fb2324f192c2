"""The chat stores; see :mod:`chatmemory.contrib.llama_index`."""

from __future__ import annotations

from typing import Any, Unpack

from asgiref.sync import sync_to_async

from chatmemory.contrib.native_memory import ConversationSettings, left_as_found
from chatmemory.core.asynchronous import as_async_change
from chatmemory.core.entries import EvictionReason
from chatmemory.core.exceptions import extra
from chatmemory.models import MAX_LIMIT

with extra("llama-index"):
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.storage.chat_store.base import BaseChatStore
    from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus

    from chatmemory.contrib.llama_index.memory import Conversations

__all__ = ["DjangoAsyncChatStore", "DjangoChatStore"]


class DjangoChatStore(BaseChatStore):
    """The conversations of one owner, each created when something is first added under its key.

    A key that is empty or too long is a ``ValueError``.
    """

    _conversations: Conversations = PrivateAttr()

    def __init__(self, owner: Any = None, **settings: Unpack[ConversationSettings]) -> None:
        """
        Args:
            owner: the user who owns the conversations; None for those without an owner.
            settings: of new conversations, see
                :class:`~chatmemory.contrib.native_memory.ConversationSettings`.

        Raises:
            TypeError: there is no such setting.
            ValueError: an anonymous or unsaved user, or settings that no conversation can have.
        """
        super().__init__()
        self._conversations = Conversations(owner, **settings)

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the class."""
        return "DjangoChatStore"

    def set_messages(self, key: str, messages: list[ChatMessage]) -> None:
        """Make ``messages`` the memory, whatever its window. Messages that they leave out are evicted.

        Raises:
            TypeError: they are no list, or one of them is not a message of LlamaIndex's.
            ValueError: a value that has no JSON form.
        """
        with left_as_found(self._conversations.database):
            self._conversations[key].replace(messages)

    def get_messages(self, key: str) -> list[ChatMessage]:
        """Return the messages that the window retains, in order."""
        with left_as_found(self._conversations.database):
            return self._conversations[key].read(MessageStatus.ACTIVE)

    def add_message(self, key: str, message: ChatMessage) -> None:
        """Add a message.

        Raises:
            TypeError: it is not a message of LlamaIndex's.
            ValueError: a value that has no JSON form.
        """
        with left_as_found(self._conversations.database):
            self._conversations[key].put([message])

    def delete_messages(self, key: str) -> list[ChatMessage] | None:
        """Evict all messages.

        Returns:
            The evicted messages; None if there were none.
        """
        with left_as_found(self._conversations.database):
            return self._conversations[key].remove(MessageStatus.ACTIVE) or None

    def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Evict a message.

        Args:
            key: the key of the conversation.
            idx: the index of the message in the memory, from the end if negative.

        Returns:
            The evicted message; None if there is none.
        """
        with left_as_found(self._conversations.database):
            return self._conversations[key].take_at(idx)

    def delete_last_message(self, key: str) -> ChatMessage | None:
        """Evict the last message.

        Returns:
            The evicted message; None if there is none.
        """
        return self.delete_message(key, -1)

    def get_keys(self) -> list[str]:
        """Return the keys under which there are messages in the memory."""
        with left_as_found(self._conversations.database):
            return self._conversations.keys(MessageStatus.ACTIVE)

    async def aset_messages(self, key: str, messages: list[ChatMessage]) -> None:
        """Async twin of :meth:`set_messages`."""
        await as_async_change(self._conversations[key].replace)(messages)

    async def aget_messages(self, key: str) -> list[ChatMessage]:
        """Async twin of :meth:`get_messages`."""
        return await sync_to_async(self._conversations[key].read)(MessageStatus.ACTIVE)

    async def async_add_message(self, key: str, message: ChatMessage) -> None:
        """Async twin of :meth:`add_message`."""
        await as_async_change(self._conversations[key].put)([message])

    async def adelete_messages(self, key: str) -> list[ChatMessage] | None:
        """Async twin of :meth:`delete_messages`."""
        return await as_async_change(self._conversations[key].remove)(MessageStatus.ACTIVE) or None

    async def adelete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Async twin of :meth:`delete_message`."""
        return await as_async_change(self._conversations[key].take_at)(idx)

    async def adelete_last_message(self, key: str) -> ChatMessage | None:
        """Async twin of :meth:`delete_last_message`."""
        return await self.adelete_message(key, -1)

    async def aget_keys(self) -> list[str]:
        """Async twin of :meth:`get_keys`."""
        return await sync_to_async(self._conversations.keys)(MessageStatus.ACTIVE)


class DjangoAsyncChatStore(AsyncDBChatStore):
    """The conversations of one owner, with active and archived messages, for LlamaIndex's ``Memory``.

    A key that is empty or too long is a ``ValueError``.
    """

    _conversations: Conversations = PrivateAttr()

    def __init__(self, owner: Any = None, **settings: Unpack[ConversationSettings]) -> None:
        """
        Args:
            owner: the user who owns the conversations; None for those without an owner.
            settings: see :class:`DjangoChatStore`. The default ``limit`` is the largest there is: ``Memory`` has a
                limit of its own, and gives its memory blocks only the messages that it archives itself.

        Raises:
            TypeError, ValueError: see :class:`DjangoChatStore`.
        """
        super().__init__()
        if settings.get("limit") is None:
            settings["limit"] = MAX_LIMIT
        self._conversations = Conversations(owner, **settings)

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the class."""
        return "DjangoAsyncChatStore"

    async def get_messages(
        self,
        key: str,
        status: MessageStatus | None = MessageStatus.ACTIVE,
        limit: int | None = None,
        offset: int | None = None,
    ) -> list[ChatMessage]:
        """Return the messages of a status, or with None of both, in order: ``limit`` after the first ``offset``."""
        start = offset or 0
        part = slice(start, None if limit is None else start + limit)
        return await sync_to_async(self._conversations[key].read)(status, part)

    async def count_messages(self, key: str, status: MessageStatus | None = MessageStatus.ACTIVE) -> int:
        """Count the messages of a status, or with None of both."""
        return await sync_to_async(self._conversations[key].count)(status)

    async def add_message(self, key: str, message: ChatMessage, status: MessageStatus = MessageStatus.ACTIVE) -> None:
        """Add a message, to the memory or to the archive.

        Raises:
            TypeError: it is not a message of LlamaIndex's.
            ValueError: a value that has no JSON form.
        """
        await self.add_messages(key, [message], status)

    async def add_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Add all of ``messages`` or none, see :meth:`add_message`."""
        await as_async_change(self._conversations[key].put)(messages, status)

    async def set_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Make ``messages`` the whole of memory and archive, whatever the window.

        Raises:
            TypeError: they are no list, or one of them is not a message of LlamaIndex's.
            ValueError: a value that has no JSON form.
        """
        await as_async_change(self._conversations[key].replace)(messages, status)

    async def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Take a message out of memory or archive.

        Args:
            key: the key of the conversation.
            idx: the primary key of the message's row.

        Returns:
            The message; None if it is in neither.
        """
        taken = await as_async_change(self._conversations[key].take_row)(idx)
        return taken[0] if taken else None

    async def delete_messages(self, key: str, status: MessageStatus | None = None) -> None:
        """Take all messages out of the memory, the archive or, with None, both."""
        await as_async_change(self._conversations[key].remove)(status)

    async def delete_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Take the oldest ``n`` messages out of the memory.

        Returns:
            The messages that were taken out.
        """
        return await as_async_change(self._conversations[key].take)(slice(max(n, 0)))

    async def archive_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Move the oldest ``n`` messages from the memory to the archive, as if the window had evicted them.

        Returns:
            The messages that were moved.
        """
        take = as_async_change(self._conversations[key].take)
        return await take(slice(max(n, 0)), EvictionReason.WINDOW)

    async def get_keys(self) -> list[str]:
        """Return the keys under which there are messages in memory or archive."""
        return await sync_to_async(self._conversations.keys)(None)
