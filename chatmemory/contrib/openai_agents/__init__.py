"""A conversation as a session of OpenAI's Agents SDK.

::

    from agents import Agent, Runner
    from chatmemory.contrib.openai_agents import DjangoSession

    session = DjangoSession("support-42", owner=request.user, window="messages", limit=50)
    result = await Runner.run(Agent(name="Support"), "Where is my parcel?", session=session)

Beyond the SDK's ``Session`` protocol:

- The session is the memory: the window evicts whole messages, and history and admin keep all. ``clear_session`` and
  ``pop_item`` evict, too. A window counts messages or tokens; ``limit`` of ``get_items`` counts items.
- The items of one answer (reasoning, text, calls, tools that ran at OpenAI) that are added at once, as ``Runner`` adds
  them, are one message, so the window evicts them together, and with the outputs that follow. Once the window has
  evicted something, outputs whose call is gone are left out of ``get_items``; otherwise it returns what was added.
- Calls of every type are tool requests of the message, and their outputs tool results: computer, shell, patches,
  custom tools, programs, and an MCP approval, too. Other items of an answer are named in its attributes. An item that
  is not part of a conversation (an item reference, an item of an unknown type) is a custom message.
- A memory holds one system message: a ``system`` or ``developer`` item takes the place of the one before, and an equal
  one adds nothing. Instructions of an agent are not stored.
- The messages of other programs become items: thinking is left out, and content that the Responses API cannot express
  is a text in brackets that names it.
- ``Runner.run_sync`` within a transaction uses another connection, which does not see what the transaction wrote. If
  the transaction has locked the conversation, that is a ``TransactionManagementError`` after 5 seconds. There, call
  ``async_to_sync(Runner.run)(…)``, which uses the same connection.
- An item must be JSON. No database takes U+0000 or half of a surrogate pair in a text: U+FFFD takes its place, and the
  signal ``memory_repaired`` tells of it.

Source: ``agents.memory`` of openai-agents 0.24.
"""

from chatmemory.contrib.openai_agents.session import DjangoSession

__all__ = ["DjangoSession"]
