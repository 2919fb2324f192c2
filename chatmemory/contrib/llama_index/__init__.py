"""LlamaIndex's chat stores, whose keys are the memory IDs of one owner's conversations.

    from chatmemory.contrib.llama_index import DjangoAsyncChatStore, DjangoChatStore

    memory = ChatMemoryBuffer.from_defaults(chat_store=DjangoChatStore(user), chat_store_key="support-42")
    memory = Memory.from_defaults(chat_store=DjangoAsyncChatStore(user), session_id="support-42")

A store returns the memory: the messages that the window of the conversation retains. Evicted messages stay in the
history of the conversation, which the admin and REST show.

``DjangoAsyncChatStore`` has an archive as well: the messages that the window or ``archive_oldest_messages``
evicted. Deleted messages are in neither. With ``KEEP_HISTORY = False`` there is no archive.

``Memory`` has a token limit of its own, and gives its memory blocks the messages that it archives because of that
limit. The blocks never get what the window of the conversation evicts. So ``DjangoAsyncChatStore`` creates
conversations with the largest limit, unless it was given another. The limit of a conversation that exists, or a
``limit`` that you give, must have room for ``token_limit`` times ``chat_history_token_ratio`` of ``Memory`` (21,000
tokens by default), and for one more turn. The same holds for ``DjangoChatStore`` with a
``ChatSummaryMemoryBuffer``, which summarises what exceeds its ``token_limit``. Each ``get()`` of that buffer deletes
all messages and adds them again, so the history of the conversation repeats them.

The sync methods of ``Memory`` run an event loop, so Django uses another thread and another connection for them: in sync
code, call ``async_to_sync(memory.aput)(message)``.

A memory holds one system message at a time: another one that is added takes its place, and an equal one adds nothing.
The window evicts tool results with their call; LlamaIndex takes out exactly the messages that it names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import starmap
from typing import Any, Unpack

from asgiref.sync import sync_to_async
from django.db import router
from django.db.models import Exists, OuterRef, Q

from chatmemory.contrib.native_memory import (
    ConversationSettings,
    NativeMemory,
    NativeMessages,
    async_change,
    async_read,
    left_as_found,
    settings_of_new,
    valid_among,
    valid_message,
    valid_rows,
    without_stale_thinking,
)
from chatmemory.core.arguments import require_list
from chatmemory.core.asynchronous import as_async_change
from chatmemory.core.entries import EvictionReason
from chatmemory.core.exceptions import extra
from chatmemory.core.messages import ChatMessage as CoreMessage
from chatmemory.database import operations
from chatmemory.database.connections import retry
from chatmemory.database.operations.archive import add_archived, archived_now, empty_archive, take_out
from chatmemory.models import MAX_LIMIT, Conversation, ConversationQuerySet, Message, MessageQuerySet, require_owner

with extra("llama-index"):
    from llama_index.core.base.llms.types import ChatMessage, ThinkingBlock
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.storage.chat_store.base import BaseChatStore
    from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus

    from chatmemory.contrib.llama_index.messages import FRAMEWORK, form_of, from_row, to_chat_message

__all__ = ["DjangoAsyncChatStore", "DjangoChatStore"]

_Valid = tuple[Message, CoreMessage]
"""A row with its message, see ``valid_among``."""

_OF_STATUS = {
    MessageStatus.ACTIVE: Q(evicted_in__isnull=True),
    MessageStatus.ARCHIVED: archived_now(),
    None: Q(evicted_in__isnull=True) | archived_now(),
}


class _Memory(NativeMemory):
    """The conversation under one key. Each change is one transaction, done whole or not at all."""

    def rows(self, status: MessageStatus | None) -> MessageQuerySet:
        """Return the rows of the memory, of the archive, or with None of both, in memory order."""
        return self.messages.filter(_OF_STATUS[status]).order_by("memory_order")

    def read(self, status: MessageStatus | None, part: slice = slice(None)) -> list[ChatMessage]:
        """Return a part of the messages of a status, of the memory and the archive if that is None.

        Those of the memory are without stale thinking, and without results whose call the window has evicted.
        """
        found = self.messages
        rows = retry(self.database, lambda: list(self.rows(status)))
        if status is not MessageStatus.ACTIVE:
            return [from_row(row, message) for row, message in valid_among(rows, None)][part]
        valid = list(valid_among(rows, found))
        return without_stale_thinking(valid, list(starmap(from_row, valid)), _without_signed_thinking)[part]

    def count(self, status: MessageStatus | None) -> int:
        """Count the messages of a status, see ``read``."""
        if status is MessageStatus.ACTIVE:
            return len(list(valid_rows(self)))
        return retry(self.database, self.rows(status).count)

    def put(self, messages: Sequence[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE) -> None:
        """Add ``messages`` to the memory, or to the archive."""
        said, forms = _said(messages)
        if status is MessageStatus.ACTIVE:
            self.add(said, forms)
        elif said:
            new = NativeMessages(FRAMEWORK, said, forms)
            new.tell_repairs(add_archived(self._target(), new.encoded))

    def replace(self, messages: Sequence[ChatMessage], status: MessageStatus | None = None) -> None:
        """Make ``messages`` the memory, and leave the archive alone.

        With a status memory and archive are emptied, and the messages go where it says.
        """
        said, forms = _said(messages)

        def work() -> None:
            if status is MessageStatus.ARCHIVED:
                self.remove(None)
                self.put(messages, status)
            else:
                self.set(said, forms)
            if status is MessageStatus.ACTIVE:
                empty_archive(self._target())

        self._at_once(work)

    def remove(self, status: MessageStatus | None) -> list[ChatMessage]:
        """Take all messages out of the memory, the archive, or with None both; history keeps them.

        Returns:
            The messages that were in the memory, if it was emptied.
        """

        def work() -> list[_Valid]:
            target = self._target(create=False)
            cleared = [] if status is MessageStatus.ARCHIVED else operations.clear(target).evicted
            if status is not MessageStatus.ACTIVE:
                empty_archive(target)
            return list(valid_among(cleared, None))

        return self._from_existing(work)

    def take(self, part: slice, reason: EvictionReason = EvictionReason.REWRITTEN) -> list[ChatMessage]:
        """Take a part of the active messages, see ``read``, out of the memory."""

        def work() -> list[_Valid]:
            taken: list[_Valid] = []

            def choose(rows: MessageQuerySet) -> list[Message]:
                taken[:] = list(valid_among(rows, self.messages))[part]
                return [row for row, _message in taken]

            take_out(self._target(create=False), choose, reason)
            return taken

        return self._from_existing(work)

    def take_at(self, index: int) -> ChatMessage | None:
        """Take the message at ``index``, from the end if negative, out of the memory; None if there is none."""
        taken = self.take(slice(index, index + 1 or None))
        return taken[0] if taken else None

    def take_row(self, key: int) -> list[ChatMessage]:
        """Take the row with a primary key out of the memory or the archive."""

        def read() -> list[_Valid]:
            row = self.rows(None).filter(pk=key).first()
            return [] if row is None else [(row, valid_message(row, self.rows(None)))]

        found = retry(self.database, read)  # before the lock: a row says the same for ever

        def work() -> list[_Valid]:
            target = self._target(create=False)
            taken = take_out(target, lambda rows: rows.filter(pk=key), EvictionReason.REWRITTEN)
            return found if taken or empty_archive(target, Q(pk=key)) else []

        return self._from_existing(work)

    def _from_existing(self, work: Callable[[], list[_Valid]]) -> list[ChatMessage]:
        try:
            return [from_row(row, message) for row, message in self._at_once(work)]
        except Conversation.DoesNotExist:
            return []


def _said(messages: Sequence[ChatMessage]) -> tuple[list[Any], list[Any]]:
    given = require_list(messages, "messages")
    return list(map(to_chat_message, given)), list(map(form_of, given))


class _Conversations:
    """The conversations of one owner, by LlamaIndex's keys."""

    def __init__(self, owner: Any, **settings: Unpack[ConversationSettings]) -> None:
        self._owner = require_owner(owner)
        self._settings = settings_of_new(**settings)

    def __getitem__(self, key: str) -> _Memory:
        return _Memory(FRAMEWORK, key, self._owner, **self._settings)

    @property
    def database(self) -> str:
        """The alias of the database, see ``NativeMemory``."""
        return router.db_for_write(Conversation)

    def keys(self, status: MessageStatus | None) -> list[str]:
        """Return the keys under which there are messages of a status, the oldest conversation first."""
        database = self.database
        messages = Message.objects.using(database).filter(_OF_STATUS[status], conversation=OuterRef("pk"))
        found: ConversationQuerySet = Conversation.objects.using(database).owned_by(self._owner)
        keys = found.filter(Exists(messages)).order_by("pk").values_list("memory_id", flat=True)
        return retry(database, lambda: list(keys))


def _without_signed_thinking(message: ChatMessage) -> ChatMessage | None:
    """Return a message without the thinking that a provider signed; None if it has none."""
    rest = [
        block
        for block in message.blocks
        if not (isinstance(block, ThinkingBlock) and block.additional_information.get("signature"))
    ]
    return None if len(rest) == len(message.blocks) else message.model_copy(update={"blocks": rest})


class DjangoChatStore(BaseChatStore):
    """The conversations of one owner, each created when something is first added under its key.

    A key that is empty or too long raises a ``ValueError``.
    """

    _conversations: _Conversations = PrivateAttr()

    def __init__(self, owner: Any = None, **settings: Unpack[ConversationSettings]) -> None:
        """
        Args:
            owner: the user who owns the conversations; None for those without an owner.
            settings: of new conversations, see
                ``ConversationSettings``.

        Raises:
            TypeError: there is no such setting.
            ValueError: an anonymous or unsaved user, or settings that no conversation can have.
        """
        super().__init__()
        self._conversations = _Conversations(owner, **settings)

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the class."""
        return "DjangoChatStore"

    @left_as_found()
    def set_messages(self, key: str, messages: list[ChatMessage]) -> None:
        """Make ``messages`` the memory, without applying its window. Messages that they leave out are evicted.

        Raises:
            TypeError: they are no list, or one of them is not a message of LlamaIndex's.
            ValueError: a value that has no JSON form.
        """
        self._conversations[key].replace(messages)

    @left_as_found()
    def get_messages(self, key: str) -> list[ChatMessage]:
        """Return the messages that the window retains, in order."""
        return self._conversations[key].read(MessageStatus.ACTIVE)

    @left_as_found()
    def add_message(self, key: str, message: ChatMessage) -> None:
        """Add a message.

        Raises:
            TypeError: it is not a message of LlamaIndex's.
            ValueError: a value that has no JSON form.
        """
        self._conversations[key].put([message])

    @left_as_found()
    def delete_messages(self, key: str) -> list[ChatMessage] | None:
        """Evict all messages.

        Returns:
            The evicted messages; None if there were none.
        """
        return self._conversations[key].remove(MessageStatus.ACTIVE) or None

    @left_as_found()
    def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Evict a message.

        Args:
            key: the key of the conversation.
            idx: the index of the message in the memory, from the end if negative.

        Returns:
            The evicted message; None if there is none.
        """
        return self._conversations[key].take_at(idx)

    @left_as_found()
    def delete_last_message(self, key: str) -> ChatMessage | None:
        """Evict the last message.

        Returns:
            The evicted message; None if there is none.
        """
        return self._conversations[key].take_at(-1)

    @left_as_found()
    def get_keys(self) -> list[str]:
        """Return the keys under which there are messages in the memory."""
        return self._conversations.keys(MessageStatus.ACTIVE)

    aset_messages = async_change(set_messages)
    aget_messages = async_read(get_messages)
    async_add_message = async_change(add_message)
    adelete_messages = async_change(delete_messages)
    adelete_message = async_change(delete_message)
    adelete_last_message = async_change(delete_last_message)
    aget_keys = async_read(get_keys)


class DjangoAsyncChatStore(AsyncDBChatStore):
    """The conversations of one owner, with active and archived messages, for LlamaIndex's ``Memory``.

    A key that is empty or too long raises a ``ValueError``.
    """

    _conversations: _Conversations = PrivateAttr()

    def __init__(self, owner: Any = None, **settings: Unpack[ConversationSettings]) -> None:
        """
        Args:
            owner: the user who owns the conversations; None for those without an owner.
            settings: see ``DjangoChatStore``. The default ``limit`` is the largest there is: ``Memory`` has a
                limit of its own, and gives its memory blocks only the messages that it archives itself.

        Raises:
            TypeError, ValueError: see ``DjangoChatStore``.
        """
        super().__init__()
        if settings.get("limit") is None:
            settings["limit"] = MAX_LIMIT
        self._conversations = _Conversations(owner, **settings)

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
        """Add all of ``messages`` or none, see ``add_message``."""
        await as_async_change(self._conversations[key].put)(messages, status)

    async def set_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Make ``messages`` the whole memory and archive, without applying the window.

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
