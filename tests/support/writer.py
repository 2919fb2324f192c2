"""A process that adds to a conversation: ``python -m tests.support.writer MEMORY_ID NAME COUNT``."""

import sys

import django

if __name__ == "__main__":
    django.setup()

    from chatmemory import AiMessage, MessageWindowChatMemory, UserMessage
    from chatmemory.stores import DjangoChatMemoryStore

    memory_id, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    memory = MessageWindowChatMemory(id=memory_id, max_messages=5, store=DjangoChatMemoryStore())
    for number in range(0, count, 2):
        memory.add(UserMessage(f"{name} {number}"))
        memory.add(AiMessage(f"{name} {number + 1}"))
