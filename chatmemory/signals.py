"""Sent after a change is committed, so a receiver can never undo it. The sender is ``Conversation``.

Receivers run with ``send_robust``: an exception in one is logged and does not reach the caller.
"""

from django.dispatch import Signal

__all__ = ["memory_cleared", "memory_repaired", "memory_rewritten", "messages_added", "messages_evicted"]

messages_added = Signal()
"""``conversation`` and ``messages``, the new rows. Some of them may be evicted already."""

messages_evicted = Signal()
"""``conversation`` and ``messages``, the rows that left the memory; each has its ``eviction_reason``."""

memory_cleared = Signal()
"""``conversation``. Follows ``messages_evicted``."""

memory_rewritten = Signal()
"""``conversation`` and ``messages``, the new rows. Follows ``messages_evicted``."""

memory_repaired = Signal()
"""``conversation``, ``format`` (its name) and ``repairs``, a list of :class:`chatmemory.formats.rules.Repair`.

Nothing was changed: a model's API would have refused the memory as it is, so it was given out repaired, by
``conversation.to_format()`` or ``GET memory/``. The position of a repair counts the messages of that memory.
"""
