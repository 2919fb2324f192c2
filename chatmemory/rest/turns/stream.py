"""The stream of a turn, as the server-sent events of the AI SDK's UI message stream.

The turn runs here, or was answered before, or runs elsewhere, perhaps in another process: then its rows are followed.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing, closing, contextmanager
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from django.db import connections
from django.utils.translation import get_language, override
from django.utils.translation import gettext_noop as _

from chatmemory.assistant import Added, Thinking, Turn, TurnLostError
from chatmemory.assistant.assistant import is_stopping, running_turn
from chatmemory.assistant.turn import TurnEvent
from chatmemory.core.asynchronous import (
    as_async_read,
    for_new_thread,
    in_context,
    iterate_in_context,
    iterate_in_thread,
    start_task,
)
from chatmemory.core.messages import AiMessage, ChatMessage
from chatmemory.core.usage import Usage
from chatmemory.database.change import MemorySize
from chatmemory.database.connections import give_back
from chatmemory.database.reading import rows_of
from chatmemory.formats import MessageFormat
from chatmemory.formats.ai_sdk.stream import DONE, Chunk, UIMessageStream, sse
from chatmemory.models import Conversation, Message
from chatmemory.rest.reader import Reader
from chatmemory.rest.serializers import change_to_data
from chatmemory.rest.turns.history import answer_rows, is_answer, is_awaited
from chatmemory.rest.turns.taking import ModelFailed, TurnAnswer, safe_message

SILENCE = 15.0
"""The seconds without an event after which a comment is sent, so that no proxy closes the connection."""

COMMENT = b": the turn goes on\n\n"

_LOOK_AGAIN = 0.3
"""Seconds after which the rows of a running turn are read again."""

_LONGEST_OPENING = 2.0
"""Seconds to wait for the message of a turn that has begun."""


class TurnStream:
    """The writer of one turn's events."""

    def __init__(self, question: int | None, id: str, format: MessageFormat, reader: Reader) -> None:
        """
        Args:
            question: the position of the message that the turn answers.
            id: the ID of the UI message with the answer.
            format: the format of the messages in ``data-memory``.
            reader: what is shown of messages.
        """
        self.question = question
        self.language = get_language()  # the stream may be written in other threads
        self._format, self._reader = format, reader
        self._usage: Usage | None = None
        self._stream = UIMessageStream(id)

    def begin(self, added: Iterable[Added], rows: Sequence[Message]) -> bytes:
        """Return the beginning, with what was added before the model is asked, and what is stored of the answer."""
        return _bytes(self._stream.start(), *map(self._change, added)) + self.rows(rows)

    def tell(self, answer: TurnAnswer) -> bytes:
        """Return all but the end for an answer that was given before: what the first request got, in fewer deltas."""
        told = self.begin([], answer.rows)
        if answer.message is not None and not (answer.rows and is_answer(answer.rows[-1].message)):
            told += self.event(Added((answer.message,)))  # a rewrite put it into the memory, and nobody said it
        return told + self.memory(*answer.changed())

    def event(self, event: TurnEvent) -> bytes:
        """Return the events for one of the turn; none for the answer itself, whose text came before."""
        match event:
            case str():
                return _bytes(self._stream.text(event))
            case Thinking(text):
                return _bytes(self._stream.thinking(text))
            case Added(messages):
                if event.usage is not None:
                    self._usage = event.usage if self._usage is None else self._usage + event.usage
                return self._said(messages) + _bytes(self._change(event))
        return b""

    def rows(self, rows: Sequence[Message]) -> bytes:
        """Return the events for messages that are stored already."""
        return self._said(row.message for row in rows)

    def memory(self, memory: MemorySize, added: Iterable[Message], evicted: Iterable[Message]) -> bytes:
        """Return the event that tells how the memory has changed."""
        return _bytes(self._stream.memory(change_to_data(memory, added, evicted, self._format, self._reader)))

    def end(self, error: Exception | None = None) -> bytes:
        """Return the end of a turn that was answered, or raised ``error``: ``abort``, or a message safe to show."""
        if error is None:
            chunks = self._stream.finish(self._usage)
        elif isinstance(error, TurnLostError) and error.interrupted:
            chunks = self._stream.abort()
        else:
            with override(self.language):
                chunks = self._stream.error(safe_message(error))
        return _bytes(chunks) + DONE

    def _said(self, messages: Iterable[ChatMessage]) -> bytes:
        return _bytes(self._stream.said([self._reader.message(message) for message in messages]))

    def _change(self, added: Added) -> list[Chunk]:
        change, recalled = added.change, added.recalled
        if change is None:
            return []
        data = change_to_data(change.memory, change.added, change.evicted, self._format, self._reader)
        return self._stream.memory(data if recalled is None else {**data, "recalled": list(recalled.positions)})


class _Delivery:
    """A stream on its way to a reader. Its turn goes on in a thread or a task of its own, even if the reader leaves.

    That is so for two reasons. While the model is silent the connection needs a sign of life, and a client that goes
    away must not take the answer along.
    """

    _queue_type: Any

    def __init__(self, stream: TurnStream, answer: TurnAnswer, *, interrupts: bool = False, here: bool = False) -> None:
        """Begin to run the turn. An answer that was given before is written at once.

        Args:
            stream: writes the events.
            answer: has the turn. The rows that it has come first, if the turn goes on after a failure: the page has
                dropped them.
            interrupts: whether a client that goes away interrupts the turn.
            here: whether the turn is run in this thread, before anything is read.
        """
        self._stream, self._answer = stream, answer
        # With the context of now: when the response is closed, middleware may have undone it.
        self._interrupt = in_context(answer.turn.interrupt) if interrupts and answer.turn is not None else None
        self._has_reader, self._has_ended = True, False
        self._queue = self._queue_type()  # of events, and None at the end
        if answer.turn is None:
            with self._writing():
                self._put(stream.tell(answer))
        elif here:
            with self._writing():
                self._run(answer.turn)
        else:
            try:
                self._start(answer.turn)
            except BaseException:
                answer.turn.release()  # nobody runs it: the thread could not start, say
                raise

    def close(self) -> None:
        """Note that the client is gone. Django calls it at the end of each response, in a thread of the request."""
        self._has_reader = False
        if self._interrupt is not None and not self._has_ended:
            self._interrupt()

    def _start(self, turn: Turn) -> None:
        raise NotImplementedError

    def _run(self, turn: Turn) -> None:
        with override(self._stream.language):
            self._put(self._stream.begin(turn.added, self._answer.rows))
            with closing(turn.events()) as events:
                for event in events:
                    self._put(self._stream.event(event))

    async def _arun(self, turn: Turn) -> None:
        """Run the turn in a task, and write its end."""
        with self._writing(), override(self._stream.language):
            self._put(self._stream.begin(turn.added, self._answer.rows))
            async with aclosing(turn.aevents()) as events:
                async for event in events:
                    self._put(self._stream.event(event))

    def _put(self, event: bytes) -> None:
        if self._has_reader and event:
            self._queue.put_nowait(event)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Write the end, which an error of the turn makes as well."""
        try:
            yield
            self._put(self._stream.end())
        except Exception as error:
            self._put(self._stream.end(error))
        finally:
            self._has_ended = True
            self._queue.put_nowait(None)


class ThreadDelivery(_Delivery):
    """An iterable of a stream whose turn runs in a thread, for WSGI."""

    _queue_type = SimpleQueue

    def _start(self, turn: Turn) -> None:
        work = for_new_thread(partial(self._run, turn))

        def run() -> None:
            with self._writing():  # also if the context of the thread fails
                work()

        # Not a daemon: a process that ends in order lets the model finish.
        threading.Thread(target=run, name="chatmemory-turn").start()

    def __iter__(self) -> Iterator[bytes]:
        give_back()  # here, because middleware may use the database after the view
        while True:
            try:
                event = self._queue.get(timeout=SILENCE)
            except Empty:
                event = COMMENT
            if event is None:
                return
            yield event


class TaskDelivery(_Delivery):
    """An async iterable of a stream whose turn runs in a task of the server's event loop, for ASGI."""

    _queue_type = asyncio.Queue

    def _start(self, turn: Turn) -> None:
        start_task(partial(self._arun, turn))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        await as_async_read(give_back)()
        while True:
            try:
                async with asyncio.timeout(SILENCE):
                    event = await self._queue.get()
            except TimeoutError:
                event = COMMENT
            if event is None:
                return
            yield event


def turn_to_follow(conversation: Conversation) -> int | None:
    """Return the number of the turn that runs now and has a message to answer; None if there is no such turn.

    For a moment, between its beginning and its message, and between its answer and its end, a turn has none.
    """
    until = time.monotonic() + _LONGEST_OPENING
    while (number := running_turn(conversation)) is not None:
        if is_awaited(conversation):
            return number
        if time.monotonic() > until:
            break
        give_back()
        time.sleep(_LOOK_AGAIN / 10)
    return None


def wait_until_stopped(conversation: Conversation) -> None:
    """Wait until a turn that was interrupted, and runs in another process, has stored what was said of its answer.

    It has a few seconds for that.
    """
    # Within a transaction, nobody else sees the interruption.
    while not connections[conversation._state.db or "default"].in_atomic_block and is_stopping(conversation):
        give_back()
        time.sleep(_LOOK_AGAIN / 3)


def follow(stream: TurnStream, conversation: Conversation, number: int) -> Iterator[bytes]:
    """Return the stream of a turn that runs now, as far as its rows show. It is read in the context of this thread.

    Args:
        stream: writes the events.
        conversation: its row.
        number: the number of the turn.
    """
    return _with_pauses(iterate_in_context(_looks(stream, conversation, number)))


def afollow(stream: TurnStream, conversation: Conversation, number: int) -> AsyncIterator[bytes]:
    """Return the async version of ``follow``."""
    return _with_async_pauses(iterate_in_context(_looks(stream, conversation, number)))


def _with_pauses(looks: Iterator[bytes | None]) -> Iterator[bytes]:
    for event in looks:
        if event is None:
            time.sleep(_LOOK_AGAIN)
        else:
            yield event


async def _with_async_pauses(looks: Iterator[bytes | None]) -> AsyncIterator[bytes]:
    async with aclosing(iterate_in_thread(looks)) as events:
        async for event in events:
            if event is None:
                await asyncio.sleep(_LOOK_AGAIN)
            else:
                yield event


def _looks(stream: TurnStream, conversation: Conversation, number: int) -> Iterator[bytes | None]:
    """Yield the events, and None before each look at the rows. No connection is held while they are sent or waited."""
    for event in _events(stream, conversation, number):
        give_back()
        yield event


def _events(stream: TurnStream, conversation: Conversation, number: int) -> Iterator[bytes | None]:
    version, told_at = conversation.version, time.monotonic()
    rows = answer_rows(conversation, stream.question)
    yield stream.begin([], rows)
    last = rows[-1] if rows else None
    while True:
        yield None
        try:
            # Asked before the rows are read, so that nothing is missed that was stored before the end.
            running = running_turn(conversation)
            rows = answer_rows(conversation, stream.question)
            # Afterwards: a version that is older than the rows would not tell what they changed.
            conversation.refresh_from_db(using=conversation._state.db)
        except Conversation.DoesNotExist as error:
            yield stream.end(error)
            return
        new = [row for row in rows if last is None or row.position > last.position]
        event, last = stream.rows(new), new[-1] if new else last
        if conversation.version != version:
            changed = rows_of(conversation).order_by("position")
            added, evicted = changed.filter(added_in__gt=version), changed.filter(evicted_in__gt=version)
            event += stream.memory(MemorySize.of(conversation), added, evicted)
            version = conversation.version
        if last is not None and is_answer(last.message):
            is_stopped = isinstance(last.message, AiMessage) and last.message.is_stopped
            yield event + stream.end(TurnLostError(interrupted=True) if is_stopped else None)
            return
        if running != number:
            is_interrupted = conversation.turn != number
            unanswered = ModelFailed(_("The turn ended without an answer. What was said is kept. Try again."))
            yield event + stream.end(TurnLostError(interrupted=True) if is_interrupted else unanswered)
            return
        if not event and time.monotonic() - told_at > SILENCE:
            event = COMMENT
        if event:
            told_at = time.monotonic()
            yield event


def _bytes(*chunks: Iterable[Chunk]) -> bytes:
    return b"".join(sse(chunk) for some in chunks for chunk in some)
