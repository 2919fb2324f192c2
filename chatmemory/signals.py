"""The signals of conversations. The sender is ``Conversation``.

Most are sent after the change is committed, with ``send_robust``: an exception in a receiver is logged and does not
reach the caller. Those whose names contain ``…ing`` are for apps that keep data of conversations in their own tables;
they are sent with ``send``, so an exception in a receiver ends the work.
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

Nothing was changed: a model's API would have refused the memory as it is, so ``conversation.memory.to_format()`` or
``GET memory/`` returned it repaired. The position of a repair counts the messages of that memory.
"""

exporting_conversation = Signal()
"""``conversation``, whose data are exported. A receiver returns an iterable of dicts, one for each line of JSON."""

anonymising_conversation = Signal()
"""``conversation``, locked, within the transaction. A receiver deletes its copies of the conversation's words."""

purging_evicted = Signal()
"""``conversation`` and ``before``: messages evicted earlier are being erased, in several transactions. A receiver
deletes its own data that are older. The signal is sent for conversations without evicted messages as well."""
