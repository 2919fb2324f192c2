"""LlamaIndex's chat stores, whose keys are the memory IDs of one owner's conversations.

    from chatmemory.contrib.llama_index import DjangoAsyncChatStore, DjangoChatStore

    memory = ChatMemoryBuffer.from_defaults(chat_store=DjangoChatStore(user), chat_store_key="support-42")
    memory = Memory.from_defaults(chat_store=DjangoAsyncChatStore(user, window="tokens", limit=100_000), session_id="…")

A store returns the memory: the messages that the window of the conversation retains. Evicted messages stay in the
history of the conversation, which the admin and REST show.

:class:`DjangoAsyncChatStore` has an archive as well: the messages that the window or ``archive_oldest_messages``
evicted. Deleted messages are in neither. With ``KEEP_HISTORY = False`` there is no archive.

``Memory`` has a window of its own, and sends the messages that it archives to its memory blocks: make the window of the
conversation larger, or the blocks never get the messages that this one evicts. Its sync methods run an event loop, so
Django uses another thread and another connection for them: in sync code, call ``async_to_sync(memory.aput)(message)``.

A memory holds one system message at a time: another one that is added takes its place, and an equal one adds nothing.
The window evicts tool results with their call; LlamaIndex takes out exactly the messages that it names.
"""

from chatmemory.contrib.llama_index.stores import DjangoAsyncChatStore, DjangoChatStore

__all__ = ["DjangoAsyncChatStore", "DjangoChatStore"]
