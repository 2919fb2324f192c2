"""Pydantic AI's message history, kept as the messages of a conversation.

::

    from pydantic_ai import Agent
    from chatmemory.contrib.pydantic_ai import DjangoMessageHistory

    history = DjangoMessageHistory("support-42", owner=request.user, window="messages", limit=50)
    result = agent.run_sync("Where is my parcel?", message_history=history.messages())
    history.add(result.new_messages())

What holds:

- ``messages()`` gives back what was added: equal objects, as ``ModelMessagesTypeAdapter`` reads what it wrote. It is
  the memory: the window bounds what the model gets, and history and admin keep all.
- A response is one message. A request is one for each of its parts: tool results, the system message, what the user
  says; those of one request that are still next to each other are one request again. So after an eviction there may
  be a part of a request, with its instructions.
- A tool result whose call was evicted is never there: the window takes both, or it is left out. Before anything was
  evicted all is as it was added, also what Pydantic AI itself repairs when it sends it.
- A memory holds one system message: the ``SystemPromptPart`` of one request together. Those of a later request take
  its place, and equal ones add nothing; but not those that are of one request only, or change an earlier part.
- A retry and a summary are messages of the user, as Pydantic AI sends them. Parts that say nothing to people
  (changes of tools, instructions and settings, tools that ran at the provider, files of the model) are kept with the
  message next to them, which names them in its attributes; a request of nothing else is a custom message.
- Messages that others added become requests and responses. What these have no place for is a text in brackets.
- No database takes U+0000 or half of a surrogate pair in a text: ``ValueError``.

Source: ``pydantic_ai.messages`` of pydantic-ai-slim 2.68.
"""

from chatmemory.contrib.pydantic_ai.history import DjangoMessageHistory

__all__ = ["DjangoMessageHistory"]
