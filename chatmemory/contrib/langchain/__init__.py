"""A chat message history of LangChain's that is a conversation here.

    from chatmemory.contrib.langchain import DjangoChatMessageHistory

    def history(session_id: str) -> DjangoChatMessageHistory:
        return DjangoChatMessageHistory(session_id, owner=user, window="tokens", limit=4000)

    chat = RunnableWithMessageHistory(prompt | model, history, "question", history_messages_key="history")
    chat.invoke({"question": "Hello"}, {"configurable": {"session_id": "support-42"}})

``messages`` is the memory: what the window of the conversation retains. What was evicted or cleared stays in the
history of the conversation, for the admin and everybody else. Tool results leave with their call, so that what is left
is as valid as what was added.

A memory holds one system message at a time: another one takes its place, and an equal one adds nothing.

Without ``history_messages_key``, ``RunnableWithMessageHistory`` takes what is new in a run to be what comes after as
many messages as the history holds when the run ends: should somebody else add or evict meanwhile, it adds too few or
too many. With the key it does not count.

Either way LangChain reads the history in a thread of its own, which sees only what is committed: hold no transaction
around a run.
"""

from chatmemory.contrib.langchain.history import DjangoChatMessageHistory

__all__ = ["DjangoChatMessageHistory"]
