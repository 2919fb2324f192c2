"""The signals of a conversation. The sender is ``Conversation``.

A signal about a change is sent after the change is committed, with ``send_robust``: an exception in a receiver is
logged and does not reach the caller. Apps that keep more of a conversation in tables of their own are capabilities, see
``chatmemory.capabilities``.
"""

from django.dispatch import Signal

messages_added = Signal()
"""``conversation`` and ``messages``, the new rows. Some of them may be evicted already."""

messages_evicted = Signal()
"""``conversation`` and ``messages``, the rows that left the memory; each has its ``eviction_reason``."""

memory_cleared = Signal()
"""``conversation``. Follows ``messages_evicted``."""

memory_rewritten = Signal()
"""``conversation`` and ``messages``, the new rows. Follows ``messages_evicted``."""

memory_repaired = Signal()
"""``conversation``, ``format`` (its name) and ``repairs``, a list of ``chatmemory.formats.validity.Repair``.

A model's API would have refused the memory as it is, so ``conversation.memory.to_format()`` or ``GET memory/`` returned
it repaired. Nothing was changed in the memory, and the position of a repair counts its messages.

Or a framework added a text that no database can store; ``format`` is the framework then (``"openai_agents"``, for
example). The text is stored with U+FFFD in place of such characters, and the position counts the messages that were
added, or set, together.
"""

compaction_failed = Signal()
"""``conversation``, ``plan`` (a ``CompactionPlan``) and ``error``: no summary was made, and nothing has changed.

It is sent outside of any transaction, right after the failure.
"""

model_called = Signal()
"""``conversation``, ``usage``, ``model``, ``seconds`` and ``error``: an assistant called its model.

It is sent after each call, also after one that failed or was interrupted. ``conversation`` is None for a memory that is
not in the database, ``usage`` is a ``chatmemory.assistant.Usage``, or None if the model did not say what it used,
``model`` its name, ``seconds`` the time from the request to the end of the answer, and ``error`` the exception that
ended the call, or None: ``GeneratorExit`` or ``CancelledError`` if the caller went away. The usage of a call that
failed is what the model's server had told until then. An answer that Anthropic paused is one call, whose usage is the
sum of all its requests.
"""
