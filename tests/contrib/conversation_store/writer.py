"""A process that saves to a conversation: ``python -m tests.contrib.conversation_store.writer ID NAME``."""

from __future__ import annotations

import sys

import django
from asgiref.sync import async_to_sync
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict
from pydantic_ai.messages import ModelRequest


def write(conversation_id: str, name: str, count: int) -> None:
    """Add messages, each to what was just loaded, and again if the save was too late."""
    from chatmemory.contrib.pydantic_ai import DjangoConversationStore

    store = DjangoConversationStore()

    async def save(text: str) -> None:
        conversation = await store.load(conversation_id) or Conversation(conversation_id=conversation_id)
        conversation.messages.append(ModelRequest.user_text_prompt(text))
        conversation.usage.requests += 1
        await store.save(conversation)

    for number in range(count):
        while True:
            try:
                async_to_sync(save)(f"{name} {number}")
                break
            except ConversationConflict:
                continue


if __name__ == "__main__":
    django.setup()
    write(sys.argv[1], f"process {sys.argv[2]}", 4)
