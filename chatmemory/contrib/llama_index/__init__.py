"""LlamaIndex's chat stores, whose keys are the memory IDs of one owner's conversations.

    from chatmemory.contrib.llama_index import DjangoAsyncChatStore, DjangoChatStore

    memory = ChatMemoryBuffer.from_defaults(chat_store=DjangoChatStore(user), chat_store_key="support-42")
    memory = Memory.from_defaults(chat_store=DjangoAsyncChatStore(user, window="tokens", limit=100_000), session_id="…")

What a store gives is the memory: what the window of the conversation retains. Whatever leaves it stays in the history
of the conversation, for the admin and everybody else.

:class:`DjangoAsyncChatStore` has an archive as well: what the window evicted, and what ``archive_oldest_messages``
did. What was deleted is in neither. With ``KEEP_HISTORY = False`` there is no archive.

``Memory`` has a window of its own, and gives what it archives to its memory blocks: let the conversation's be larger,
or the blocks never get what that evicts. Its sync methods run an event loop, so that Django takes another thread and
another connection for them: in sync code, call ``async_to_sync(memory.aput)(message)``.

A memory holds one system message at a time: another one that is added takes its place, and an equal one adds nothing.
Tool results leave with their call when the window evicts it; what LlamaIndex takes out is exactly what it names.
"""

from chatmemory.contrib.llama_index.stores import DjangoAsyncChatStore, DjangoChatStore

__all__ = ["DjangoAsyncChatStore", "DjangoChatStore"]
