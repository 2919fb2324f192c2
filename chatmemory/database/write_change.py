"""Write the rows of a change and its counters, and send the signals after the commit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from django.db import transaction
from django.utils import timezone

from chatmemory import signals
from chatmemory.conf import setting
from chatmemory.core.entries import EvictionReason
from chatmemory.database.change import Change, Gone, MemorySize, mark_evicted
from chatmemory.database.reading import ROWS_AT_ONCE, chunks, is_at_the_end, rows_of
from chatmemory.database.sql.raw_rows import token_count
from chatmemory.database.sql.writes import CHARS_AT_ONCE, chars_of, fits_one_statement, key_of, save
from chatmemory.models import Conversation, Message, Origin

__all__ = [
    "after_commit",
    "already_stored",
    "send_signals",
    "update_counters",
    "write",
    "write_columns",
]


def write(
    change: Change,
    added: list[Message],
    evicted: Sequence[Gone],
    *,
    rewritten: bool = False,
) -> None:
    """Write rows and counters of a locked conversation as one version, and send the signals once it is committed.

    Args:
        change: is filled with the account.
        added: unsaved rows that have their places.
        evicted: stored rows, or some of ``added``.
        rewritten: whether the memory was set anew.
    """
    update_counters(change, added, evicted)
    _write_rows(change.conversation, added, already_stored(evicted))
    send_signals(change, rewritten=rewritten)


def update_counters(change: Change, added: list[Message], evicted: Sequence[Gone]) -> None:
    """Update the counters of the conversation, unsaved, and fill the account; see :func:`write`."""
    conversation = change.conversation
    now = conversation.updated_at = timezone.now()
    if added or evicted:
        conversation.version += 1
    for row in added:
        row.conversation = conversation
        row.added_in = conversation.version
        row.created_at = now
        conversation.message_count += row.origin == Origin.SAID
        conversation.retained_count += 1
        conversation.retained_tokens += row.token_count
    for gone, reason in evicted:
        conversation.retained_count -= 1
        if isinstance(gone, Message):
            conversation.retained_tokens -= gone.token_count
            mark_evicted(gone, conversation.version, now, reason)
        else:
            conversation.retained_tokens -= token_count(gone)
    if evicted or not all(map(is_at_the_end, added)):
        conversation.prefix_version = conversation.version
    reasons = {reason for _, reason in evicted}
    is_cleared = EvictionReason.CLEARED in reasons and not conversation.retained_count
    if is_cleared or (EvictionReason.REWRITTEN in reasons and not setting("KEEP_HISTORY")):
        # No summary that is being made may bring back what somebody took out. What is deleted tells no reason later.
        conversation.compacted_to = conversation.next_position
    change.added, change.gone = added, list(evicted)
    change.size, change.moment = MemorySize.of(conversation), now


def write_columns(conversation: Conversation, names: Sequence[str]) -> None:
    """Write columns of a locked conversation, of which some may be the window's settings."""
    row = Conversation.objects.using(conversation._state.db).filter(pk=conversation.pk)
    row.update(**{name: getattr(conversation, name) for name in names})
    conversation.note_stored(names)


def already_stored(evicted: Sequence[Gone]) -> list[Gone]:
    """Return the evicted rows that the database has; the others were added by this very change."""
    return [(row, reason) for row, reason in evicted if not isinstance(row, Message) or row.pk is not None]


def send_signals(change: Change, *, rewritten: bool = False) -> None:
    """Send the signals of a change once it is committed."""
    conversation = change.conversation
    if change.gone and signals.messages_evicted.has_listeners(Conversation):
        after_commit(signals.messages_evicted, conversation, messages=change.evicted)
    if rewritten:
        after_commit(signals.memory_rewritten, conversation, messages=change.added)
    elif change.added:
        after_commit(signals.messages_added, conversation, messages=change.added)


def _write_rows(conversation: Conversation, added: list[Message], evicted: list[Gone]) -> None:
    if not setting("KEEP_HISTORY"):
        for chunk in chunks(evicted):
            rows_of(conversation).filter(pk__in=[key_of(row) for row, _ in chunk]).delete()
        kept = [row for row in added if row.evicted_in is None]
        conversation.purged_count += len(evicted) + len(added) - len(kept)
        added, evicted = kept, []
    if not fits_one_statement(added):
        longest = max(map(chars_of, added))
        batch_size = max(1, min(ROWS_AT_ONCE, CHARS_AT_ONCE // max(1, longest)))
        Message.objects.using(conversation._state.db).bulk_create(added, batch_size=batch_size)
        added = []
    save(conversation, added, evicted)


def after_commit(signal: Any, conversation: Conversation, **kwargs: Any) -> None:
    """Send a signal once the transaction is committed."""
    if not signal.has_listeners(Conversation):
        return
    send = partial(signal.send_robust, sender=Conversation, conversation=conversation, **kwargs)
    transaction.on_commit(send, using=conversation._state.db, robust=True)
