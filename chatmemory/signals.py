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

recall_failed = Signal()
"""``conversation``, ``message`` (the user's) and ``error``: the model answers without what could not be recalled."""

model_calling = Signal()
"""``conversation``, ``model``, ``provider`` and ``operation``: an assistant is about to call its model.

A receiver may raise ``chatmemory.assistant.CallRefusedError`` with a message for the user. Then the model is not
called. This signal is sent with ``send``: any other exception in a receiver also ends the turn. The arguments are those
of ``model_called``.
"""

model_called = Signal()
"""A model was called. The signal is sent after the commit of the answer, and also for calls that failed.

- ``conversation``: None for a memory that is not in Django's database.
- ``position``: the position of the stored answer, or None.
- ``usage``: a ``chatmemory.core.usage.Usage``, or None if the model did not report it; for a failed call, it is what
  the server reported before the failure.
- ``model`` and ``provider``: the name of the model that was asked, and its provider; ``provider`` may be empty.
- ``operation``: ``"chat"``, ``"summary"``, ``"title"`` or ``"tool"``.
- ``status``: ``"ok"``, ``"failed"`` or ``"interrupted"``.
- ``seconds``: the time from the request to the end of the answer, and ``first_delta_seconds`` until the first delta of
  a stream. Each is None if it is not known, for example for a call of another framework.
- ``estimated_tokens``: the estimate of the input tokens before the call, with the tools; or None, for example for a
  title, or a call of another framework.
- ``error``: the exception that ended the call, or None; ``GeneratorExit`` or ``CancelledError`` means that the caller
  disconnected.

An answer that Anthropic paused is one call with the usage of all its requests.
"""
