"""A conversation as LlamaIndex's chat stores have it: a memory, and an archive of the messages that it evicted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import starmap
from typing import Any, TypeVar, Unpack

from django.db import router, transaction
from django.db.models import Exists, OuterRef, Q
from llama_index.core.base.llms.types import ChatMessage, ThinkingBlock
from llama_index.core.storage.chat_store.base_db import MessageStatus

from chatmemory.contrib.llama_index.messages import FRAMEWORK, form_of, from_row, to_chat_message
from chatmemory.contrib.native_memory import (
    ConversationSettings,
    NativeMemory,
    NativeMessages,
    settings_of_new,
    valid_among,
    valid_message,
    valid_rows,
    without_stale_thinking,
)
from chatmemory.core.arguments import require_list
from chatmemory.core.entries import EvictionReason
from chatmemory.core.messages import ChatMessage as CoreMessage
from chatmemory.database import operations
from chatmemory.database.connections import retry
from chatmemory.database.operations.archive import ARCHIVED, add_archived, empty_archive, take_out
from chatmemory.models import Conversation, ConversationQuerySet, Message, MessageQuerySet, require_owner

__all__ = ["Conversations"]


T = TypeVar("T")

Valid = tuple[Message, CoreMessage]
"""A row with its message, see :func:`~chatmemory.contrib.native_memory.valid_among`."""

_OF_STATUS = {
    MessageStatus.ACTIVE: Q(evicted_in__isnull=True),
    MessageStatus.ARCHIVED: ARCHIVED,
    None: Q(evicted_in__isnull=True) | ARCHIVED,
}


class ArchivingMemory(NativeMemory):
    """The conversation under one key. Each change is one transaction, done whole or not at all."""

    def rows(self, status: MessageStatus | None) -> MessageQuerySet:
        """Return the rows of the memory, of the archive, or with None of both, in memory order."""
        return self.messages.filter(_OF_STATUS[status]).order_by("memory_order")

    def read(self, status: MessageStatus | None, part: slice = slice(None)) -> list[ChatMessage]:
        """Return a part of the messages of a status, of the memory and the archive if that is None.

        Those of the memory are without stale thinking, and without results whose call the window has evicted.
        """
        found = self.messages
        rows = retry(self.database, lambda: list(found.filter(_OF_STATUS[status]).order_by("memory_order")))
        if status is not MessageStatus.ACTIVE:
            return [from_row(row, message) for row, message in valid_among(rows, None)][part]
        valid = list(valid_among(rows, found))
        return without_stale_thinking(valid, list(starmap(from_row, valid)), without_signed_thinking)[part]

    def count(self, status: MessageStatus | None) -> int:
        """Count the messages of a status, see :meth:`read`."""
        if status is MessageStatus.ACTIVE:
            return len(list(valid_rows(self)))
        return retry(self.database, self.rows(status).count)

    def put(self, messages: Sequence[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE) -> None:
        """Add ``messages`` to the memory, or to the archive.

        Raises:
            TypeError: they are no list, or one of them is not a message of LlamaIndex's.
            ValueError: a value that has no JSON form.
        """
        said, forms = _said(messages)
        if status is MessageStatus.ACTIVE:
            self.add(said, forms)
        elif said:
            new = NativeMessages(FRAMEWORK, said, forms)
            new.tell_repairs(add_archived(self._target(), new.encoded))

    def replace(self, messages: Sequence[ChatMessage], status: MessageStatus | None = None) -> None:
        """Make ``messages`` the memory.

        Args:
            messages: the messages, in order.
            status: None leaves the archive alone. Otherwise memory and archive are emptied, and the messages go where
                the status says.

        Raises:
            TypeError: they are no list, or one of them is not a message of LlamaIndex's.
            ValueError: a value that has no JSON form.
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

        def work() -> list[Valid]:
            target = self._target(create=False)
            cleared = [] if status is MessageStatus.ARCHIVED else operations.clear(target).evicted
            if status is not MessageStatus.ACTIVE:
                empty_archive(target)
            return list(valid_among(cleared, None))

        return self._from_existing(work)

    def take(self, part: slice, reason: EvictionReason = EvictionReason.REWRITTEN) -> list[ChatMessage]:
        """Take a part of the active messages, see :meth:`read`, out of the memory."""

        def work() -> list[Valid]:
            taken: list[Valid] = []

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

        def read() -> list[Valid]:
            row = self.rows(None).filter(pk=key).first()
            return [] if row is None else [(row, valid_message(row, self.rows(None)))]

        found = retry(self.database, read)  # before the lock: a row says the same for ever

        def work() -> list[Valid]:
            target = self._target(create=False)
            taken = take_out(target, lambda rows: rows.filter(pk=key), EvictionReason.REWRITTEN)
            return found if taken or empty_archive(target, Q(pk=key)) else []

        return self._from_existing(work)

    def _from_existing(self, work: Callable[[], list[Valid]]) -> list[ChatMessage]:
        try:
            return [from_row(row, message) for row, message in self._at_once(work)]
        except Conversation.DoesNotExist:
            return []

    def _at_once(self, work: Callable[[], T]) -> T:
        """Do several changes in one transaction."""

        def transact() -> T:
            with transaction.atomic(using=self.database):
                return work()

        return retry(self.database, transact)


def _said(messages: Sequence[ChatMessage]) -> tuple[list[Any], list[Any]]:
    given = require_list(messages, "messages")
    return list(map(to_chat_message, given)), list(map(form_of, given))


class Conversations:
    """The conversations of one owner, by LlamaIndex's keys."""

    def __init__(self, owner: Any, **settings: Unpack[ConversationSettings]) -> None:
        """
        Args:
            owner: the user who owns the conversations; None for those without an owner.
            settings: those of a new conversation, see
                :class:`~chatmemory.contrib.native_memory.ConversationSettings`.

        Raises:
            TypeError: there is no such setting.
            ValueError: an anonymous or unsaved user, or settings that no conversation can have.
        """
        self._owner = require_owner(owner)
        self._settings = settings_of_new(**settings)

    def __getitem__(self, key: str) -> ArchivingMemory:
        return ArchivingMemory(FRAMEWORK, key, self._owner, **self._settings)

    @property
    def database(self) -> str:
        """The alias of the database, see :class:`~chatmemory.contrib.native_memory.NativeMemory`."""
        return router.db_for_write(Conversation)

    def keys(self, status: MessageStatus | None) -> list[str]:
        """Return the keys under which there are messages of a status, the oldest conversation first."""
        database = self.database
        messages = Message.objects.using(database).filter(_OF_STATUS[status], conversation=OuterRef("pk"))
        found: ConversationQuerySet = Conversation.objects.using(database).owned_by(self._owner)
        keys = found.filter(Exists(messages)).order_by("pk").values_list("memory_id", flat=True)
        return retry(database, lambda: list(keys))


def without_signed_thinking(message: ChatMessage) -> ChatMessage | None:
    """Return a message without the thinking that a provider signed; None if it has none."""
    rest = [
        block
        for block in message.blocks
        if not (isinstance(block, ThinkingBlock) and block.additional_information.get("signature"))
    ]
    return None if len(rest) == len(message.blocks) else message.model_copy(update={"blocks": rest})
