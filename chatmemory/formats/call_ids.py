"""IDs for tool calls that have none, and which of these calls a result without an ID answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from itertools import count

from chatmemory.core.messages import AiMessage, ChatMessage, ToolExecutionResultMessage
from chatmemory.formats import CannotExpressError

__all__ = ["CallIds", "unused_ids", "used_ids"]


def used_ids(messages: Iterable[ChatMessage]) -> set[str | None]:
    """Return the IDs that calls and results have."""
    used: set[str | None] = set()
    for message in messages:
        if isinstance(message, AiMessage):
            used.update(request.id for request in message.tool_execution_requests)
        elif isinstance(message, ToolExecutionResultMessage):
            used.add(message.id)
    return used


def unused_ids(used: Collection[str | None]) -> Iterator[str]:
    """Yield ``call_0`` and so on, without those that are used."""
    return (id for number in count() if (id := f"call_{number}") not in used)


class CallIds:
    """IDs for calls without one, and for the results without one that follow, in the order of the calls."""

    def __init__(self, new_id: Callable[[int], str], *, keep_empty: bool = False) -> None:
        """
        Args:
            new_id: returns the ID for the call that is the n-th of its answer.
            keep_empty: whether an empty ID is an ID, rather than missing.
        """
        self._new_id = new_id
        self._keep_empty = keep_empty
        self._waiting: deque[str] = deque()

    def with_ids(self, message: AiMessage) -> AiMessage:
        """Return an answer with an ID for each call. Results without an ID that come later answer this one."""
        self._waiting.clear()
        requests = []
        for number, request in enumerate(message.tool_execution_requests):
            if self._is_missing(request.id):
                request = replace(request, id=self._new_id(number))
                self._waiting.append(request.id or "")
            requests.append(request)
        return replace(message, tool_execution_requests=tuple(requests)) if self._waiting else message

    def id_answered_by(self, message: ToolExecutionResultMessage) -> str | None:
        """Return the ID of the call that a result answers; None if it has no ID and no call waits for it."""
        if not self._is_missing(message.id):
            return message.id
        return self._waiting.popleft() if self._waiting else None

    def require_id_answered_by(self, message: ToolExecutionResultMessage) -> str:
        """Return the ID of the call that a result answers.

        Raises:
            CannotExpressError: it has no ID, and no call waits for it.
        """
        id = self.id_answered_by(message)
        if id is None:
            raise CannotExpressError(
                "OpenAI needs the ID of the call: the result has none, and there is no unanswered call without an ID"
            )
        return id

    def _is_missing(self, id: str | None) -> bool:
        return id is None or (id == "" and not self._keep_empty)
