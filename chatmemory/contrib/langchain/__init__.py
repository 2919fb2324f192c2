"""A conversation as LangChain's chat message history.

    from chatmemory.contrib.langchain import DjangoChatMessageHistory

    def history(session_id: str) -> DjangoChatMessageHistory:
        return DjangoChatMessageHistory(session_id, owner=user, window="tokens", limit=4000)

    chat = RunnableWithMessageHistory(prompt | model, history, "question", history_messages_key="history")
    chat.invoke({"question": "Hello"}, {"configurable": {"session_id": "support-42"}})

``messages`` is the memory: the messages that the window of the conversation retains. Evicted messages stay in the
history of the conversation, which the admin and REST show. Tool results are evicted with their call, so the rest is as
valid as what was added.

A memory holds one system message at a time: another one takes its place, and an equal one adds nothing.

Without ``history_messages_key``, ``RunnableWithMessageHistory`` finds the new messages of a run by counting: it skips
as many as the history holds when the run ends. If somebody else adds or evicts messages meanwhile, it adds too few or
too many. With the key it does not count.

Either way LangChain reads the history in a thread of its own, which sees only what is committed: do not start a run
within a transaction.
"""

from chatmemory.contrib.langchain.history import DjangoChatMessageHistory

__all__ = ["DjangoChatMessageHistory"]
