"""The store on Django's ORM."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Unpack

from django.db import router

from chatmemory.core.asynchronous import async_change, async_read
from chatmemory.core.memory import WindowedChatMemoryStore
from chatmemory.core.messages import ChatMessage
from chatmemory.core.window import Window
from chatmemory.database import operations
from chatmemory.database.change import Change, Target, Terms
from chatmemory.database.rows import read_memory
from chatmemory.database.statements import Key
from chatmemory.database.stored_windows import read_window, settings_of
from chatmemory.models import Conversation, require_owner
from chatmemory.models.fields import memory_id_text
from chatmemory.models.message import from_columns


class DjangoChatMemoryStore(WindowedChatMemoryStore):
    """A store of one owner's memories. Each memory is a conversation, which is created by the first write.

    The memories of this package apply their window in a database transaction, so several processes may add messages at
    the same time. The memories of other libraries may use the three methods of every store: messages that they omit are
    evicted as ``rewritten``, and messages that they append count as said.

    A memory is identified by the text of its ID: 1 and "1" are the same. An ID that is None, empty or longer than 255
    characters raises ``ValueError``.
    """

    def __init__(self, owner: Any = None) -> None:
        """Args:
            owner: the user who owns the memories; None for memories without an owner.

        Raises:
            ValueError: ``owner`` is an anonymous or unsaved user.
        """
        self._owner = require_owner(owner)

    def get_messages(self, memory_id: Any) -> list[ChatMessage]:
        """Return the retained messages, in order."""
        return [from_columns(*row[:3]) for row in read_memory(self._key(memory_id))]

    aget_messages = async_read(get_messages)

    def update_messages(self, memory_id: Any, messages: Sequence[ChatMessage]) -> None:
        """Make ``messages`` the memory: evict the messages that are not in the list, insert the new ones.

        Raises:
            TypeError: an item is not a message.
            ValueError: databases cannot store a text.
        """
        self.rewrite(memory_id, messages)

    aupdate_messages = async_change(update_messages)

    def rewrite(self, memory_id: Any, messages: Sequence[ChatMessage], **terms: Unpack[Terms]) -> Change:
        """Like ``update_messages``, with the caller's ``Terms``."""
        return operations.rewrite(self.target(memory_id, **terms), messages, from_foreign_memory=True)

    arewrite = async_change(rewrite)

    def delete_messages(self, memory_id: Any) -> None:
        """Evict all messages. They stay in the history."""
        with suppress(Conversation.DoesNotExist):
            operations.clear(self.target(memory_id, create=False))

    adelete_messages = async_change(delete_messages)

    def get_window(self, memory_id: Any, window: Window) -> list[ChatMessage]:
        """Return the messages that fit ``window``. Nothing is written, and stored token counts are reused."""
        return read_window(self._key(memory_id), window)

    aget_window = async_read(get_window)

    def add_to_window(self, memory_id: Any, messages: Sequence[ChatMessage], window: Window) -> None:
        """Add ``messages``, and evict what does not fit, in one transaction."""
        self.add(memory_id, messages, window)

    aadd_to_window = async_change(add_to_window)

    def add(
        self,
        memory_id: Any,
        messages: Sequence[ChatMessage],
        window: Window,
        *,
        idempotency_key: str | None = None,
        **terms: Unpack[Terms],
    ) -> Change:
        """Like ``add_to_window``; see ``ConversationMemory.add_all``."""
        target = self.target(memory_id, window, **terms)
        return operations.add(target, messages, window=window, idempotency_key=idempotency_key)

    aadd = async_change(add)

    def set_window(self, memory_id: Any, messages: Sequence[ChatMessage], window: Window) -> None:
        """Make ``messages`` the memory, and evict what does not fit, in one transaction."""
        operations.rewrite(self.target(memory_id, window), messages, window=window)

    aset_window = async_change(set_window)

    def target(
        self, memory_id: Any, window: Window | None = None, *, create: bool = True, **terms: Unpack[Terms]
    ) -> Target:
        """Return the target for a change of a memory.

        Args:
            memory_id: the memory ID.
            window: the window of the conversation if it is created.
            create: whether it may be created.
        """
        text = memory_id_text(memory_id)

        def new() -> Conversation:
            conversation = Conversation(owner=self._owner, memory_id=text)
            if window is not None:
                for name, value in settings_of(window, conversation).items():
                    setattr(conversation, name, value)
            return conversation

        return Target.named(self._owner, text, new if create else None, **terms)

    def _key(self, memory_id: Any) -> Key:
        # Never from a replica, because the next turn needs what was just said.
        return Key.named(self._owner, memory_id_text(memory_id), router.db_for_write(Conversation))
