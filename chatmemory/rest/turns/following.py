"""A turn that runs, perhaps in another process, followed from row to row."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

from django.utils.translation import get_language, override

from chatmemory.assistant.turns.opening import running_turn
from chatmemory.core.asynchronous import as_async_change
from chatmemory.database.batches import rows_of
from chatmemory.database.connections import give_back
from chatmemory.formats.registry import MessageFormat
from chatmemory.models import Conversation, Message
from chatmemory.rest.serializers import message_items
from chatmemory.rest.translation import translated
from chatmemory.rest.turns import delivery
from chatmemory.rest.turns.parts import TurnParts
from chatmemory.rest.turns.rows import answer_rows, is_answer, last_question

__all__ = ["LOOK_AGAIN", "RunningTurn", "afollowed", "followed"]

LOOK_AGAIN = 0.3
"""Seconds after which the rows of a running turn are read again."""


class RunningTurn:
    """A turn that runs now, perhaps in another process, as far as its rows show."""

    def __init__(self, conversation: Conversation, number: int, format_name: str, format: MessageFormat) -> None:
        """
        Args:
            conversation: its row.
            number: the number of the turn.
            format_name: the name of the format of the messages in ``data-memory``.
            format: that format.
        """
        self._conversation = conversation
        self._number = number
        self._format = format
        self._question = last_question(conversation)
        self._parts = TurnParts(self._question, format_name)
        self._position = -1 if self._question is None else self._question
        self._version = conversation.version
        self._last: Message | None = None
        self._told_at = time.monotonic()
        self._language = get_language()  # the stream is read in other threads

    def begin(self) -> bytes:
        """Return the beginning of the stream, with all that the turn has stored so far."""
        return self._parts.begin([]) + self._new_rows()

    def follow(self) -> tuple[bytes, bool]:
        """Return what was stored since, or a comment if nothing was for long, and whether the turn has ended."""
        part, has_ended = self._look()
        if part:
            self._told_at = time.monotonic()
        elif time.monotonic() - self._told_at > delivery.SILENCE:
            self._told_at = time.monotonic()
            part = delivery.COMMENT
        return part, has_ended

    def _look(self) -> tuple[bytes, bool]:
        try:
            # Asked before the rows are read, so that nothing is missed that was stored before the end.
            number = running_turn(self._conversation)
            rows = self._new_rows()
            # Afterwards: a version that is older than the rows would not tell what they changed.
            self._conversation.refresh_from_db(using=self._conversation._state.db)
        except Conversation.DoesNotExist:
            return self._broken("This conversation has been erased."), True
        found = rows + self._new_memory()
        if self._last is not None and is_answer(self._last.message):
            return found + self._parts.end(), True
        if number == self._number:
            return found, False
        if self._conversation.turn != self._number:
            return found + self._parts.stopped(), True
        return found + self._broken("The turn ended without an answer. What was said is kept. Try again."), True

    def _broken(self, sentence: str) -> bytes:
        with override(self._language):
            return self._parts.broken(translated(sentence))

    def _new_rows(self) -> bytes:
        rows = [row for row in answer_rows(self._conversation, self._question) if row.position > self._position]
        if rows:
            self._position, self._last = rows[-1].position, rows[-1]
        return self._parts.of_rows(rows)

    def _new_memory(self) -> bytes:
        now, since = self._conversation, self._version
        if now.version == since:
            return b""
        self._version = now.version
        rows = rows_of(now)
        changed = {
            "added": message_items(list(rows.filter(added_in__gt=since).order_by("position")), self._format),
            "evicted": message_items(list(rows.filter(evicted_in__gt=since).order_by("position")), self._format),
        }
        size = {"messages": now.retained_count, "tokens": now.retained_tokens}
        memory = {"window": now.window, "limit": now.limit, **size}
        return self._parts.of_memory({**changed, "memory": memory, "version": now.version})


def followed(running: RunningTurn) -> Iterator[bytes]:
    """Yield the stream of a running turn, to its end."""
    yield running.begin()
    has_ended = False
    while not has_ended:
        part, has_ended = running.follow()
        if part:
            yield part
        if not has_ended:
            give_back()
            time.sleep(LOOK_AGAIN)


async def afollowed(running: RunningTurn) -> AsyncIterator[bytes]:
    """Async twin of :func:`followed`."""
    yield await as_async_change(running.begin)()
    has_ended = False
    while not has_ended:
        part, has_ended = await as_async_change(running.follow)()
        if part:
            yield part
        if not has_ended:
            await asyncio.sleep(LOOK_AGAIN)
