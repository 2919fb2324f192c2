"""A conversation as Pydantic AI's message history.

::

    from pydantic_ai import Agent
    from chatmemory.contrib.pydantic_ai import DjangoMessageHistory

    history = DjangoMessageHistory("support-42", owner=request.user, window="messages", limit=50)
    result = agent.run_sync("Where is my parcel?", message_history=history.messages())
    history.add(result.new_messages())

What it promises:

- ``messages()`` returns the messages that were added, as equal objects: ``ModelMessagesTypeAdapter`` reads what it
  wrote. It is the memory: the window bounds what the model gets, and history and admin keep all.
- A response is one message. A request is one message for each of its parts: tool results, the system message, the
  user's prompt; messages of one request that are still next to each other become one request again. So after an
  eviction there may be a part of a request, with its instructions.
- A tool result without its call is never returned after an eviction: the window evicts both, or the result is left
  out. Before the first eviction all is as it was added, including what Pydantic AI itself repairs when it sends it.
- A memory holds one system message: all ``SystemPromptPart`` of one request. Those of a later request take its place,
  and equal ones add nothing. A part that holds for one request only, or changes an earlier part, does not count.
- A retry and a summary are messages of the user, as Pydantic AI sends them. Parts without text for people (changes of
  tools, instructions and settings, tools that ran at the provider, files of the model) are kept with the message next
  to them, which names them in its attributes; a request of nothing else is a custom message.
- The messages of other programs become requests and responses; content that these cannot express is a text in brackets.
- No database takes U+0000 or half of a surrogate pair in a text: U+FFFD takes its place, and the signal
  ``memory_repaired`` tells of it.

Source: ``pydantic_ai.messages`` of pydantic-ai-slim 2.68.
"""

from chatmemory.contrib.pydantic_ai.history import DjangoMessageHistory

__all__ = ["DjangoMessageHistory"]
