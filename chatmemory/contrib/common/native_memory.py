"""The memory that the adapters share: its messages keep the form in which a framework added them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Unpack

from django.db import router
from django.db.models import F

from chatmemory.contrib.common.new_conversations import ConversationSettings, settings_of_new
from chatmemory.contrib.common.repaired_texts import NativeMessages
from chatmemory.core.messages import ChatMessage
from chatmemory.database import operations
from chatmemory.database.operations.take_back import Remainder, take_back
from chatmemory.database.target import Target
from chatmemory.models import Conversation, Message, MessageQuerySet, require_owner
from chatmemory.models.conversation_names import named_rows
from chatmemory.models.identifiers import memory_id_text

__all__ = ["NativeMemory"]


class NativeMemory:
    """The conversation under one memory ID, created when something is first added.

    Each method is one transaction, done whole or not at all, so async callers may run it in any thread.
    """

    def __init__(
        self, framework: str, memory_id: Any, owner: Any = None, **settings: Unpack[ConversationSettings]
    ) -> None:
        """
        Args:
            framework: the framework of the native forms.
            memory_id: its text is the conversation's memory ID.
            owner: the user who owns the conversation; None for one without an owner.
            settings: those of a new conversation, see
                :class:`~chatmemory.contrib.common.new_conversations.ConversationSettings`.

        Raises:
            TypeError: there is no such setting.
            ValueError: an anonymous or unsaved user, an ID that is empty or too long, or settings that no conversation
                can have.
        """
        self._framework = framework
        self._owner = require_owner(owner)
        self._memory_id = memory_id_text(memory_id)
        self._settings = settings_of_new(**settings)

    @property
    def database(self) -> str:
        """The alias of the database, never a replica's: the next turn must read what was just added."""
        return router.db_for_write(Conversation)

    @property
    def messages(self) -> MessageQuerySet:
        """The rows of the conversation, each with its ``prefix_version``."""
        found = Message.objects.using(self.database).annotate(prefix_version=F("conversation__prefix_version"))
        return found.filter(**named_rows(self._owner, self._memory_id, self.database))

    def add(self, messages: Sequence[ChatMessage], forms: Sequence[Any], replaced: Collection[int] = ()) -> None:
        """Add all of ``messages`` or none.

        Args:
            messages: the messages, in order. See :class:`~chatmemory.contrib.common.repaired_texts.NativeMessages` for
                texts that no database can store.
            forms: the framework's own form of each, a JSON value; None if the message expresses all of it.
            replaced: the indexes of messages in which the caller has replaced characters.

        Raises:
            ValueError: a form that is no JSON.
        """
        if messages:
            new = NativeMessages(self._framework, messages, forms, replaced)
            new.tell_repairs(operations.add(self._target(), new.encoded))

    def set(self, messages: Sequence[ChatMessage], forms: Sequence[Any]) -> None:
        """Make ``messages`` the memory, even if they exceed its window. New ones after all that stay count as said.

        Raises:
            ValueError: see :meth:`add`.
        """
        new = NativeMessages(self._framework, messages, forms)
        target, native = self._target(), new.encoded.native
        new.tell_repairs(operations.rewrite(target, new.encoded, native=native, from_foreign_memory=True))

    def take_back(self, shorten: Callable[[Message], Remainder] = lambda row: None) -> Message | None:
        """Evict the last message, or put a shorter one in its place.

        Returns:
            The row as it was; None if the memory is empty.
        """
        try:
            return take_back(self._target(create=False), shorten)
        except Conversation.DoesNotExist:
            return None

    def clear(self) -> None:
        """Evict all messages; history keeps them."""
        try:
            operations.clear(self._target(create=False))
        except Conversation.DoesNotExist:
            return

    def _target(self, *, create: bool = True) -> Target:
        def new() -> Conversation:
            return Conversation(owner=self._owner, memory_id=self._memory_id, **self._settings)

        return Target.named(self._owner, self._memory_id, new if create else None)
