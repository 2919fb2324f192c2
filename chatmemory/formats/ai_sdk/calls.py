"""The tool calls of one assistant message: an ID of its own for each, and the results that answer them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from chatmemory.core.messages import ToolExecutionRequest, ToolExecutionResultMessage
from chatmemory.formats.call_ids import unused_ids

__all__ = ["Call", "Calls"]


@dataclass(frozen=True)
class Call:
    """A call, or the place of a result that answers none."""

    id: str
    """Its ID in the assistant message, which no other call of it has."""

    given_id: str | None
    """The ID that the model gave it."""

    name: str | None

    step: int
    """The number of the answer that makes it."""

    number: int
    """Its number among the calls of the assistant message."""


class Calls:
    """The calls of one assistant message so far.

    A result answers the latest call of its ID that has none, as :mod:`chatmemory.formats.validity` says.
    """

    def __init__(self) -> None:
        self._taken: set[str | None] = set()
        self._new = unused_ids(self._taken)
        self._count = 0
        self._waiting: defaultdict[str, list[list[Call]]] = defaultdict(list)
        self._latest_answered = -1

    def of(self, requests: Sequence[ToolExecutionRequest], step: int) -> list[Call]:
        """Return the calls that an answer makes."""
        calls = []
        groups: defaultdict[str, list[Call]] = defaultdict(list)
        for request in requests:
            call = self._call(request.id, request.name, step)
            calls.append(call)
            groups[request.id or ""].append(call)
        for id, group in groups.items():
            self._waiting[id].append(group)
        return calls

    def answered_by(self, result: ToolExecutionResultMessage) -> Call | None:
        """Return the call that a result answers; None if there is none."""
        groups = self._waiting.get(result.id or "")
        if not groups:
            return None
        call = groups[-1].pop(0)
        if not groups[-1]:
            groups.pop()
        return call

    def alone(self, result: ToolExecutionResultMessage, step: int) -> Call:
        """Return a place for a result that answers no call."""
        return self._call(result.id, result.tool_name, step)

    def is_next(self, call: Call, step: int) -> bool:
        """Return whether a reader expects the result of a call here: those of an answer are in the calls' order.

        Args:
            call: the call, whose result must be the latest.
            step: the number of the latest answer.
        """
        expected = call.step == step and call.number > self._latest_answered
        self._latest_answered = max(self._latest_answered, call.number)
        return expected

    def _call(self, given_id: str | None, name: str | None, step: int) -> Call:
        id = given_id if given_id and given_id not in self._taken else next(self._new)
        self._taken.add(id)
        self._count += 1
        return Call(id, given_id, name, step, self._count - 1)
