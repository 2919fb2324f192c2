"""The stream of a turn, as the server-sent events of the AI SDK's UI message stream.

The turn runs here, or was answered before, or runs elsewhere, perhaps in another process: then its rows are followed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing, closing

from django.utils.translation import get_language, override
from django.utils.translation import gettext_noop as _

from chatmemory.assistant import Added, Thinking, Turn, TurnLostError
from chatmemory.assistant.turn import TurnEvent
from chatmemory.assistant.turns.opening import running_turn
from chatmemory.core.asynchronous import iterate_in_thread
from chatmemory.database.change import Change, MemorySize
from chatmemory.database.connections import give_back
from chatmemory.database.reading import rows_of
from chatmemory.formats.ai_sdk.stream import DONE, Chunk, UIMessageStream, sse
from chatmemory.formats.registry import MessageFormat
from chatmemory.models import Conversation, Message
from chatmemory.rest.serializers import change_to_data
from chatmemory.rest.turns import delivery
from chatmemory.rest.turns.history import answer_rows, is_answer
from chatmemory.rest.turns.problems import ModelFailed, safe_message
from chatmemory.rest.turns.taking import TurnAnswer

__all__ = ["LOOK_AGAIN", "TurnStream", "apaced", "arun", "follow", "paced", "run", "tell"]

LOOK_AGAIN = 0.3
"""Seconds after which the rows of a running turn are read again."""


class TurnStream:
    """The writer of one turn's events."""

    def __init__(self, question: int | None, format: MessageFormat) -> None:
        """
        Args:
            question: the position of the message that the turn answers.
            format: the format of the messages in ``data-memory``.
        """
        self.question = question
        self._format = format
        # The ID that to_ai_sdk() gives it.
        self._stream = UIMessageStream("answer" if question is None else f"answer-{question}")
        self._language = get_language()  # the stream may be written in other threads

    def begin(self, changes: Iterable[Change], rows: Sequence[Message]) -> bytes:
        """Return the beginning, with what was changed before the model is asked, and what is stored of the answer."""
        return _bytes(self._stream.start(), *map(self._change, changes)) + self.rows(rows)

    def event(self, event: TurnEvent) -> bytes:
        """Return the events for one of the turn; none for the answer itself, whose text came before."""
        match event:
            case str():
                return _bytes(self._stream.text(event))
            case Thinking(text):
                return _bytes(self._stream.thinking(text))
            case Added(messages, change):
                return _bytes(self._stream.said(messages), [] if change is None else self._change(change))
        return b""

    def rows(self, rows: Sequence[Message]) -> bytes:
        """Return the events for messages that are stored already."""
        return _bytes(*(self._stream.said([row.message]) for row in rows))

    def memory(self, memory: MemorySize, added: Iterable[Message], evicted: Iterable[Message]) -> bytes:
        """Return the event that tells how the memory has changed."""
        return _bytes(self._stream.memory(change_to_data(memory, added, evicted, self._format)))

    def end(self) -> bytes:
        """Return the end of a turn that was answered."""
        return _bytes(self._stream.finish()) + DONE

    def abort(self) -> bytes:
        """Return the end of a turn that was interrupted."""
        return _bytes(self._stream.abort()) + DONE

    def fail(self, error: Exception) -> bytes:
        """Return the end of a turn that raised ``error``: ``abort``, or a message that is safe to show."""
        if isinstance(error, TurnLostError) and error.interrupted:
            return self.abort()
        with override(self._language):
            return _bytes(self._stream.error(safe_message(error))) + DONE

    def _change(self, change: Change) -> list[Chunk]:
        return self._stream.memory(change_to_data(change.memory, change.added, change.evicted, self._format))


def run(stream: TurnStream, answer: TurnAnswer, turn: Turn) -> Iterator[bytes]:
    """Run a turn to its end, and yield its stream, which an error of the turn ends as well.

    Args:
        stream: writes the events.
        answer: its answer. The rows that it has come first, if the turn goes on after a failure: the page has dropped
            them.
        turn: the turn.
    """
    try:
        yield stream.begin(answer.changes, answer.rows)
        with closing(turn.events()) as events:
            for event in events:
                yield stream.event(event)
        yield stream.end()
    except Exception as error:
        yield stream.fail(error)


async def arun(stream: TurnStream, answer: TurnAnswer, turn: Turn) -> AsyncIterator[bytes]:
    """Async version of :func:`run`."""
    try:
        yield stream.begin(answer.changes, answer.rows)
        async with aclosing(turn.aevents()) as events:
            async for event in events:
                yield stream.event(event)
        yield stream.end()
    except Exception as error:
        yield stream.fail(error)


def tell(stream: TurnStream, answer: TurnAnswer) -> Iterator[bytes]:
    """Yield the stream of an answer that was given before: what the first request got, but in fewer deltas."""
    yield stream.begin([], answer.rows)
    if answer.message is not None and not (answer.rows and is_answer(answer.rows[-1].message)):
        yield stream.event(Added((answer.message,)))  # a rewrite put it into the memory, and nobody said it
    yield stream.memory(*answer.changed())
    yield stream.end()


def follow(stream: TurnStream, conversation: Conversation, number: int) -> Iterator[bytes]:
    """Yield the stream of a turn that runs now, as far as its rows show, and an empty event before each look at them.

    Args:
        stream: writes the events.
        conversation: its row.
        number: the number of the turn.
    """
    version, told_at = conversation.version, time.monotonic()
    rows = answer_rows(conversation, stream.question)
    yield stream.begin([], rows)
    last = rows[-1] if rows else None
    while True:
        yield b""
        try:
            # Asked before the rows are read, so that nothing is missed that was stored before the end.
            running = running_turn(conversation)
            rows = answer_rows(conversation, stream.question)
            # Afterwards: a version that is older than the rows would not tell what they changed.
            conversation.refresh_from_db(using=conversation._state.db)
        except Conversation.DoesNotExist as error:
            yield stream.fail(error)
            return
        new = [row for row in rows if last is None or row.position > last.position]
        event, last = stream.rows(new), new[-1] if new else last
        if conversation.version != version:
            changed = rows_of(conversation).order_by("position")
            added, evicted = changed.filter(added_in__gt=version), changed.filter(evicted_in__gt=version)
            event += stream.memory(MemorySize.of(conversation), added, evicted)
            version = conversation.version
        if last is not None and is_answer(last.message):
            yield event + stream.end()
            return
        if running != number:
            is_interrupted = conversation.turn != number
            unanswered = ModelFailed(_("The turn ended without an answer. What was said is kept. Try again."))
            yield event + (stream.abort() if is_interrupted else stream.fail(unanswered))
            return
        if not event and time.monotonic() - told_at > delivery.SILENCE:
            event = delivery.COMMENT
        if event:
            told_at = time.monotonic()
            yield event


def paced(events: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the events of :func:`follow`, and wait before each look."""
    for event in events:
        if event:
            yield event
        else:
            give_back()
            time.sleep(LOOK_AGAIN)


async def apaced(events: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Async version of :func:`paced`."""
    async with aclosing(iterate_in_thread(events)) as steps:
        async for event in steps:
            if event:
                yield event
            else:
                await asyncio.sleep(LOOK_AGAIN)


def _bytes(*chunks: Iterable[Chunk]) -> bytes:
    return b"".join(sse(chunk) for some in chunks for chunk in some)
