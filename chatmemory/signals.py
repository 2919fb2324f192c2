"""The signals of a conversation. The sender is ``Conversation``.

Signals about changes are sent after the commit, with ``send_robust``: an exception in a receiver is logged and does not
reach the caller. An app that stores more of a conversation uses ``chatmemory.capabilities`` instead.
"""

from django.dispatch import Signal

messages_added = Signal()
"""``conversation`` and ``messages``, the new rows. Some may already be evicted."""

messages_evicted = Signal()
"""``conversation`` and ``messages``, the evicted rows, each with its ``eviction_reason``."""

memory_cleared = Signal()
"""``conversation``. Sent after ``messages_evicted``."""

memory_rewritten = Signal()
"""``conversation`` and ``messages``, the new rows. Sent after ``messages_evicted``."""

memory_repaired = Signal()
"""``conversation``, ``format`` (its name) and ``repairs``, a list of ``chatmemory.formats.validity.Repair``.

A model's API would have refused the memory, so ``conversation.memory.to_format()`` or ``GET memory/`` returned it
repaired. The memory itself is unchanged, and the position of a repair counts its messages.

Or a framework added text that databases cannot store. Then ``format`` is the framework, for example
``"openai_agents"``, such characters are stored as U+FFFD, and the position counts the messages of this addition or
rewrite.
"""

compaction_failed = Signal()
"""``conversation``, ``plan`` (a ``CompactionPlan``) and ``error``. Nothing was summarised, and nothing has changed.

It is sent outside of any transaction, right after the failure.
"""

answer_stored = Signal()
"""``conversation``, ``message``, ``usage``, ``model`` and ``seconds``: an assistant stored an answer of its model.

It is sent after the commit, after ``model_called`` for the same call. ``message`` is the new row. The other arguments
are those of ``model_called``.
"""

model_called = Signal()
"""``conversation``, ``usage``, ``model``, ``seconds`` and ``error``: an assistant called its model.

It is sent after each call, including calls that failed or were interrupted. ``conversation`` is None for a memory that
is not in Django's database. ``usage`` is a ``chatmemory.assistant.Usage``, or None if the model did not report it; for
a failed call, it is what the server reported before the failure. ``model`` is the model's name. ``seconds`` is the time
from the request to the end of the answer. ``error`` is the exception that ended the call, or None; ``GeneratorExit`` or
``CancelledError`` means that the caller disconnected. An answer that Anthropic paused is one call with the usage of all
its requests.
"""
