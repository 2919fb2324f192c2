"""LlamaIndex's chat stores, whose keys are the memory IDs of one owner's conversations.

    from chatmemory.contrib.llama_index import DjangoAsyncChatStore, DjangoChatStore

    memory = ChatMemoryBuffer.from_defaults(chat_store=DjangoChatStore(user), chat_store_key="support-42")
    memory = Memory.from_defaults(chat_store=DjangoAsyncChatStore(user), session_id="support-42")

A store returns the memory: the messages that the window of the conversation retains. Evicted messages stay in the
history of the conversation, which the admin and REST show.

:class:`DjangoAsyncChatStore` has an archive as well: the messages that the window or ``archive_oldest_messages``
evicted. Deleted messages are in neither. With ``KEEP_HISTORY = False`` there is no archive.

``Memory`` has a token limit of its own, and gives its memory blocks the messages that it archives because of that
limit. The blocks never get what the window of the conversation evicts. So :class:`DjangoAsyncChatStore` creates
conversations with the largest limit, unless it was given another. The limit of a conversation that exists, or a
``limit`` that you give, must have room for ``token_limit`` times ``chat_history_token_ratio`` of ``Memory`` (21,000
tokens by default), and for one more turn. The same holds for :class:`DjangoChatStore` with a
``ChatSummaryMemoryBuffer``, which summarises what exceeds its ``token_limit``. Each ``get()`` of that buffer deletes
all messages and adds them again, so the history of the conversation repeats them.

The sync methods of ``Memory`` run an event loop, so Django uses another thread and another connection for them: in sync
code, call ``async_to_sync(memory.aput)(message)``.

A memory holds one system message at a time: another one that is added takes its place, and an equal one adds nothing.
The window evicts tool results with their call; LlamaIndex takes out exactly the messages that it names.
"""

from chatmemory.contrib.llama_index.stores import DjangoAsyncChatStore, DjangoChatStore

__all__ = ["DjangoAsyncChatStore", "DjangoChatStore"]
