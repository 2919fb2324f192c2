"""The memory of one conversation row."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import router

from chatmemory import changes
from chatmemory.hot_path import Key
from chatmemory.ledger import Target
from chatmemory.memory import ChatMemory, require_messages
from chatmemory.messages import ChatMessage
from chatmemory.models import Conversation
from chatmemory.reading import read_window

__all__ = ["ConversationMemory"]


class ConversationMemory(ChatMemory):
    """What ``conversation.memory`` is: the row's own window applies, as it is when the change happens."""

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.conversation!r})"

    @property
    def id(self) -> str:
        return str(self.conversation.memory_id)

    def add(self, *messages: ChatMessage) -> None:
        added = require_messages(messages)
        if added:
            changes.add(Target.of(self.conversation), added)

    def set(self, messages: Iterable[ChatMessage]) -> None:
        changes.rewrite(Target.of(self.conversation), messages)

    def messages(self) -> list[ChatMessage]:
        # Never a replica: the next turn needs what was just said.
        database = router.db_for_write(Conversation, instance=self.conversation)
        return read_window(Key.of(self.conversation, database))

    def clear(self) -> None:
        changes.clear(Target.of(self.conversation))
