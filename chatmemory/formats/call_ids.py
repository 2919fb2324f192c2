"""The IDs of tool calls in a record of what was said, which OpenAI's formats do not do without."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import count

from chatmemory.core.messages import AiMessage, ChatMessage, ToolExecutionResultMessage
from chatmemory.formats import CannotExpressError

__all__ = ["CallIds"]


class CallIds:
    """The IDs of tool calls, made up where they are missing, and those of them that wait for their result."""

    def __init__(self, messages: Iterable[ChatMessage]) -> None:
        self._new_ids = self._unused_ids(messages)
        self._waiting: deque[str] = deque()

    @staticmethod
    def _unused_ids(messages: Iterable[ChatMessage]) -> Iterator[str]:
        used: set[str | None] = set()
        for message in messages:
            if isinstance(message, AiMessage):
                used.update(request.id for request in message.tool_execution_requests)
            elif isinstance(message, ToolExecutionResultMessage):
                used.add(message.id)
        return (id for number in count() if (id := f"call_{number}") not in used)

    def ids_of(self, message: AiMessage) -> list[str]:
        self._waiting.clear()
        ids = []
        for request in message.tool_execution_requests:
            if request.id:
                ids.append(request.id)
            else:
                ids.append(next(self._new_ids))
                self._waiting.append(ids[-1])
        return ids

    def id_answered_by(self, message: ToolExecutionResultMessage) -> str:
        if message.id:
            return message.id
        if not self._waiting:
            raise CannotExpressError("OpenAI needs the ID of the call, and no call without one waits for a result")
        return self._waiting.popleft()
