"""Try another window, or more messages, on a conversation without writing."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass
from typing import Unpack

from django.db import router

from chatmemory.core.eviction import Retained
from chatmemory.core.messages import ChatMessage
from chatmemory.core.tokens import stored_count
from chatmemory.core.window import Window
from chatmemory.database.change import WindowTrial
from chatmemory.database.connections import retry
from chatmemory.database.new_messages import NewMessages
from chatmemory.database.operations.pin import check_pins
from chatmemory.database.operations.plan import entry_of, placed_rows
from chatmemory.database.reading import is_at_the_end, read_rows
from chatmemory.database.stored_windows import apply_window_settings, check_window_settings, estimator_for, window_of
from chatmemory.models import Conversation, Message, WindowSettings


@dataclass(frozen=True, kw_only=True)
class MemoryToTry:
    """A memory that was read once, to try any number of windows on it."""

    conversation: Conversation
    """The row, of the version of ``rows``."""

    rows: list[Message]
    """The retained messages, in memory order."""

    @classmethod
    def read(cls, conversation: Conversation) -> MemoryToTry:
        """Read the memory of a conversation.

        Raises:
            Conversation.DoesNotExist: the conversation has been erased.
        """
        # Never a replica: what is tried is what the next turn will find.
        database = router.db_for_write(Conversation, instance=conversation)

        def read() -> MemoryToTry:
            row = Conversation.objects.using(database).get(pk=conversation.pk)
            rows = read_rows(row)  # which may read ``row`` anew, so it comes first
            return cls(conversation=row, rows=rows)

        return retry(database, read)

    def try_window(self, settings: WindowSettings, messages: Iterable[ChatMessage] = ()) -> WindowTrial:
        """Try a window on the memory, then add ``messages``; neither the memory nor the database is changed.

        Raises:
            TypeError: a setting that does not exist, or one of ``messages`` is no message.
            ValueError: a setting of the window has no meaning, pinned messages would take more than half of the limit,
                or a text that no database can hold.
        """
        check_window_settings(settings)
        new = NewMessages.of(messages)
        row, rows = copy(self.conversation), self.rows
        before = window_of(row)
        if apply_window_settings(row, settings):
            rows = [copy(kept) for kept in rows]
            for kept in rows:
                kept.token_count = stored_count(kept.message, estimator_for(row.model))
        bound = window_of(row)
        if any(kept.is_pinned for kept in rows):
            check_pins(rows, bound, before=before)
        return _fit(row, rows, new.rows(estimator_for(row.model)), bound)


def try_window(
    conversation: Conversation, *, messages: Iterable[ChatMessage] = (), **settings: Unpack[WindowSettings]
) -> WindowTrial:
    """Try a window on what is retained now, then add ``messages``; nothing is written.

    Raises:
        Conversation.DoesNotExist: the conversation has been erased.
        TypeError: a setting that does not exist, or one of ``messages`` is no message.
        ValueError: a setting of the window has no meaning, pinned messages would take more than half of the limit, or
            a text that no database can hold.
    """
    check_window_settings(settings)
    new = NewMessages.of(messages)
    return MemoryToTry.read(conversation).try_window(settings, new)


def fit_rows(conversation: Conversation) -> WindowTrial:
    """Return the memory as the row's window bounds it now: its limit may have become smaller since the last change."""
    return _fit(conversation, read_rows(conversation), [], window_of(conversation))


def _fit(conversation: Conversation, rows: list[Message], added: list[Message], bound: Window) -> WindowTrial:
    retained = Retained.fit([entry_of(row, bound) for row in rows], bound)
    for row in added:
        retained.add(entry_of(row, bound))
    said = placed_rows(retained, conversation.next_position, bound)
    for row in said:
        row.conversation = conversation
        row.added_in = conversation.version + 1
    stay = [entry.row for entry in retained.entries()]
    only_adds = not retained.evicted and all(map(is_at_the_end, said))
    return WindowTrial(
        window=bound.kind.value,
        limit=bound.limit,
        version=conversation.version,
        prefix_version=conversation.prefix_version if only_adds else conversation.version + 1,
        retained=stay,
        evicted=[(entry.row, reason) for entry, reason in retained.evicted],
        added=said,
        tokens=sum(row.token_count for row in stay),
    )
