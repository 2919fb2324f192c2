"""The answer of a turn as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from chatmemory.assistant import Added, Usage
from chatmemory.assistant.begun import TurnEvent
from chatmemory.core.messages import AiMessage
from chatmemory.database.batches import rows_of
from chatmemory.database.change import Change, MemorySize
from chatmemory.formats.registry import message_format
from chatmemory.models import Conversation, Message
from chatmemory.rest.serializers import message_items
from chatmemory.rest.turns.taking import TakenTurn

__all__ = ["TurnAnswer", "stored_answer"]


class TurnAnswer:
    """All that a turn changed, from the user's message to the answer."""

    def __init__(self, changes: Iterable[Change]) -> None:
        """Begin with what was added before the model was asked."""
        self._added: list[Message] = []
        self._evicted: list[Message] = []
        self._memory: MemorySize | None = None
        self._usages: list[Usage] = []
        self._answer: AiMessage | None = None
        for change in changes:
            self.add(change)

    def add(self, change: Change) -> None:
        """Take in a change."""
        self._added += change.added
        self._evicted += change.evicted
        self._memory = change.memory

    def take(self, event: TurnEvent) -> None:
        """Take in an event of the turn."""
        if isinstance(event, AiMessage):
            self._answer = event
        elif isinstance(event, Added):
            if event.change is not None:
                self.add(event.change)
            if event.usage is not None:
                self._usages.append(event.usage)

    def to_data(self, format_name: str) -> dict[str, Any]:
        """Return the answer, and what the turn added and evicted.

        A message that this very turn evicted again is told as it is at the end.
        """
        assert self._answer is not None
        assert self._memory is not None
        format = message_format(format_name)
        gone = {row.position: row for row in self._evicted}
        added = [gone.get(row.position, row) for row in self._added]
        assert format.write_each is not None
        return {
            "answer": format.write_each([self._answer])[0],
            "added": message_items(added, format),
            "evicted": message_items(self._evicted, format),
            "memory": {
                "window": self._memory.window,
                "limit": self._memory.limit,
                "messages": self._memory.messages,
                "tokens": self._memory.tokens,
            },
            "version": self._memory.version,
            "usage": sum(self._usages, Usage()).to_data() if self._usages else None,
        }


def stored_answer(turn: TakenTurn, conversation: Conversation) -> TurnAnswer:
    """Return the answer of a turn that ended before.

    What it added is told, and the memory as it is now; which messages left then is not.

    Args:
        turn: it has an answer.
        conversation: its conversation, as it is now.
    """
    assert turn.answer is not None
    # As they are now: an account of the first request would have them as they were then.
    positions = [row.position for change in turn.changes for row in change.added]
    added = rows_of(conversation).filter(position__in=positions).order_by("position") if positions else []
    answer = TurnAnswer([Change(conversation, added=[*added, *turn.rows])])
    answer.take(turn.answer)
    return answer
