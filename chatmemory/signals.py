"""What happens to a conversation. The sender is ``Conversation``.

What happened is told after the change is committed, with ``send_robust``: an exception in a receiver is logged and
does not reach the caller. What is named ``…ing`` is for apps that keep more of a conversation in tables of their own;
it is sent with ``send``, so what a receiver raises ends the work.
"""

from django.dispatch import Signal

__all__ = [
    "anonymising_conversation",
    "exporting_conversation",
    "memory_cleared",
    "memory_repaired",
    "memory_rewritten",
    "messages_added",
    "messages_evicted",
    "purging_evicted",
]

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

exporting_conversation = Signal()
"""``conversation``, of which a user's data are exported. A receiver gives an iterable of dicts, a line of JSON each."""

anonymising_conversation = Signal()
"""``conversation``, locked, within the transaction. A receiver deletes what it has of its words."""

purging_evicted = Signal()
"""``conversation`` and ``before``: what was evicted earlier is being erased, in several transactions. A receiver
deletes what it has of its own that is older. It is sent for conversations that evicted nothing as well."""
