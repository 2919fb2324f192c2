"""The events of a turn as the parts of the AI SDK's UI message stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing, closing

from chatmemory.assistant import Added, Thinking, TurnLostError
from chatmemory.assistant.begun import BegunTurn, TurnEvent
from chatmemory.database.change import Change
from chatmemory.formats.ai_sdk.stream import DONE, Chunk, UIMessageStream, sse
from chatmemory.models import Message
from chatmemory.rest.serializers import change_to_data
from chatmemory.rest.turns.problems import safe_sentence
from chatmemory.rest.turns.rows import is_answer
from chatmemory.rest.turns.taking import TakenTurn

__all__ = ["TurnParts", "aturn_parts", "stored_parts", "turn_parts"]


class TurnParts:
    """The writer of one turn's stream, in bytes of server-sent events."""

    def __init__(self, question: int | None, format_name: str) -> None:
        """
        Args:
            question: the position of the message that the turn answers.
            format_name: the format of the messages in ``data-memory``.
        """
        # The ID that to_ai_sdk() gives it.
        self._stream = UIMessageStream("answer" if question is None else f"answer-{question}")
        self._format_name = format_name

    def begin(self, changes: Iterable[Change]) -> bytes:
        """Return the beginning, with what was added and evicted before the model was asked."""
        return _bytes(self._stream.start(), *map(self._memory, changes))

    def of(self, event: TurnEvent) -> bytes:
        """Return the parts for an event; empty for the answer itself, whose text came before."""
        match event:
            case str():
                return _bytes(self._stream.text(event))
            case Thinking(text):
                return _bytes(self._stream.thinking(text))
            case Added(messages, change):
                told = [] if change is None else self._memory(change)
                return _bytes(self._stream.said(messages), told)
        return b""

    def of_rows(self, rows: Sequence[Message]) -> bytes:
        """Return the parts for messages that are stored already."""
        return _bytes(*(self._stream.said([row.message]) for row in rows))

    def of_memory(self, data: object) -> bytes:
        """Return a part with what became of the memory."""
        return _bytes(self._stream.memory(data))

    def end(self) -> bytes:
        """Return the end of a turn that was answered."""
        return _bytes(self._stream.finish()) + DONE

    def stopped(self) -> bytes:
        """Return the end of a turn that was interrupted."""
        return _bytes(self._stream.abort()) + DONE

    def failed(self, error: Exception) -> bytes:
        """Return the end of a turn that raised ``error``: ``abort``, or a sentence that is safe to show."""
        if isinstance(error, TurnLostError) and error.interrupted:
            return self.stopped()
        return self.broken(safe_sentence(error))

    def broken(self, sentence: str) -> bytes:
        """Return the end of a turn without an answer, with a sentence for its user."""
        return _bytes(self._stream.error(sentence)) + DONE

    def _memory(self, change: Change) -> list[Chunk]:
        return self._stream.memory(change_to_data(change, self._format_name))


def turn_parts(turn: BegunTurn, rows: Sequence[Message], parts: TurnParts) -> Iterator[bytes]:
    """Run a turn that has begun to its end, and yield its stream, which an error of the turn ends as well.

    Args:
        turn: the turn.
        rows: what it has stored already, if it goes on after a failure: the page has dropped it.
        parts: writes the stream.
    """
    try:
        yield parts.begin(turn.changes) + parts.of_rows(rows)
        with closing(turn.events()) as events:
            for event in events:
                yield parts.of(event)
        yield parts.end()
    except Exception as error:
        yield parts.failed(error)


async def aturn_parts(turn: BegunTurn, rows: Sequence[Message], parts: TurnParts) -> AsyncIterator[bytes]:
    """Async twin of :func:`turn_parts`."""
    try:
        yield parts.begin(turn.changes) + parts.of_rows(rows)
        async with aclosing(turn.aevents()) as events:
            async for event in events:
                yield parts.of(event)
        yield parts.end()
    except Exception as error:
        yield parts.failed(error)


def stored_parts(turn: TakenTurn, memory: object, parts: TurnParts) -> Iterator[bytes]:
    """Yield the stream of a turn that ended before: what the first request got, but in fewer pieces.

    Args:
        turn: it has an answer.
        memory: what ``data-memory`` tells.
        parts: writes the stream.
    """
    yield parts.begin([])
    yield parts.of_rows(turn.rows)
    if turn.answer is not None and not (turn.rows and is_answer(turn.rows[-1].message)):
        yield parts.of(Added((turn.answer,)))  # a rewrite put it into the memory, and nobody said it
    yield parts.of_memory(memory)
    yield parts.end()


def _bytes(*chunks: Iterable[Chunk]) -> bytes:
    return b"".join(sse(chunk) for some in chunks for chunk in some)
