"""The pairing of tool calls and their results, by IDs; the rules are those of :mod:`chatmemory.formats.validity`."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Generic, TypeVar

from chatmemory.core.json_text import dumps, loads
from chatmemory.core.messages import AiMessage, ChatMessage, ToolExecutionRequest, ToolExecutionResultMessage
from chatmemory.formats import CannotExpressError
from chatmemory.formats.rules import Repair, RepairReason, Rules

C = TypeVar("C")


_NO_RESULT = "(No result: this tool call was not completed.)"


def arguments_object(arguments: str | None) -> dict[str, Any] | None:
    """Return the object that the arguments of a call are, an empty one for none; None if they are no object."""
    if arguments is None or not arguments.strip():
        return {}
    try:
        value = loads(arguments)
        # What is read may still have no JSON: 1e999, or half of a surrogate pair.
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return dict(value) if isinstance(value, dict) else None


def arguments_text(arguments: str | None, *, keep_blank: bool = False) -> str:
    """Return the arguments of a call as JSON text: an empty object if there are none, or blank ones that may go."""
    if arguments is None or not (keep_blank or arguments.strip()):
        return "{}"
    return arguments


@dataclass
class _Call:
    """A call that waits for its result."""

    position: int
    id: str | None
    name: str | None
    is_answered: bool = False


class _Ids:
    """The IDs of calls: their own where the rules allow these, else new ones.

    Later messages change no ID, so that what stands before them is sent as it was: caches and signatures depend on it.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._given: set[str | None] = set()
        self._new = unused_ids(self._given)
        self._made: set[str] = set()
        self._taken: set[str] = set()

    def of(self, message: AiMessage) -> list[str | None]:
        self._given |= used_ids([message])
        taken = self._taken if self._rules.unique_ids else set(self._made)
        ids: list[str | None] = []
        for request in message.tool_execution_requests:
            if not (request.id or self._rules.needs_ids):
                ids.append(request.id)
                continue
            id = self._rules.ids.allowed(request.id or "")
            if not id or id in taken or (id != request.id and id in self._given):
                id = next(new for new in self._new if new not in taken)
                self._made.add(id)
            taken.add(id)
            ids.append(id)
        return ids


class Waiting(Generic[C]):
    """The calls without a result, by their IDs before any were changed. What stands for a call is the user's."""

    def __init__(self) -> None:
        self._calls: defaultdict[str, list[deque[C]]] = defaultdict(list)

    def add(self, requests: Sequence[ToolExecutionRequest], calls: Sequence[C]) -> None:
        """Add the calls of an answer."""
        groups: defaultdict[str, deque[C]] = defaultdict(deque)
        for request, call in zip(requests, calls, strict=True):
            groups[request.id or ""].append(call)
        for id, group in groups.items():
            self._calls[id].append(group)

    def take(self, id: str | None) -> C | None:
        """Take the call that a result with this ID answers; None if there is none."""
        groups = self._calls.get(id or "")
        if not groups:
            return None
        call = groups[-1].popleft()
        if not groups[-1]:
            groups.pop()
        return call


def paired(given: Sequence[ChatMessage], rules: Rules, repairs: list[Repair]) -> Iterator[tuple[int, ChatMessage]]:
    """Yield the messages with every call directly followed by its results, and no other results."""
    ids = _Ids(rules)
    waiting: Waiting[_Call] = Waiting()
    calls: dict[int, list[_Call]] = {}
    results: defaultdict[int, list[tuple[int, ChatMessage]]] = defaultdict(list)
    before = -1  # the latest message that is no result
    for position, message in enumerate(given):
        if not isinstance(message, ToolExecutionResultMessage):
            before = position
            if isinstance(message, AiMessage):
                requests = message.tool_execution_requests
                calls[position] = [
                    _Call(position, id, request.name) for id, request in zip(ids.of(message), requests, strict=True)
                ]
                waiting.add(requests, calls[position])
            continue
        call = waiting.take(message.id)
        if call is None:
            repairs.append(
                Repair(position, RepairReason.RESULT_WITHOUT_CALL, "A tool result that answers no call was left out.")
            )
            continue
        if call.position != before:
            repairs.append(
                Repair(position, RepairReason.RESULT_NOT_AFTER_CALL, "A tool result was moved behind its call.")
            )
        call.is_answered = True
        results[call.position].append((position, replace(message, id=call.id)))
    for position, message in enumerate(given):
        if isinstance(message, AiMessage):
            yield position, _called(message, position, calls[position], rules, repairs)
            yield from results[position]
            for call in calls[position]:
                if not call.is_answered:
                    what = "A tool call without a result was given one that says so."
                    repairs.append(Repair(position, RepairReason.CALL_WITHOUT_RESULT, what))
                    yield position, ToolExecutionResultMessage(call.id, call.name, _NO_RESULT, is_error=True)
        elif not isinstance(message, ToolExecutionResultMessage):
            yield position, message


def _called(message: AiMessage, position: int, calls: list[_Call], rules: Rules, repairs: list[Repair]) -> AiMessage:
    """Return an answer whose calls have what the rules demand."""
    requests = []
    for request, call in zip(message.tool_execution_requests, calls, strict=True):
        if call.id != request.id:
            what = f"A tool call was given the ID {call.id}."
            repairs.append(Repair(position, RepairReason.TOOL_CALL_ID, what))
        name = None if request.name is None else rules.tool_names.allowed(request.name) or "_"
        if name != request.name:
            repairs.append(Repair(position, RepairReason.NAME, f"A called tool was given the name {name}."))
        arguments = request.arguments
        if rules.object_arguments and arguments_object(arguments) is None:
            what = "Arguments of a tool call that were no JSON object were put into one."
            repairs.append(Repair(position, RepairReason.ARGUMENTS, what))
            arguments = dumps({"arguments": arguments})
        requests.append(ToolExecutionRequest(call.id, name, arguments))
    return (
        message
        if tuple(requests) == message.tool_execution_requests
        else replace(message, tool_execution_requests=tuple(requests))
    )


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
