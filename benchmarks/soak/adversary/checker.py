"""Whether a history is linearizable: whether some order explains it.

In that order each operation happens at one moment between its request and its answer, and has the answer that the model
of a memory gives. The search is that of Wing and Gong, "Testing and verifying concurrent objects" (1993): take any
operation that no other must precede, and go back if that leads nowhere. It remembers where it has been, as Lowe's
"Testing for linearizability" (2017) does. Versions leave it little to choose.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

from benchmarks.soak.adversary.history import Operation, messages_in
from benchmarks.soak.adversary.model import State

__all__ = ["Board", "unexplained"]

_Key = tuple[str, tuple[int, ...], int]


@dataclass(frozen=True)
class Board:
    """The state of a conversation, and the keys that came with their positions and versions."""

    state: State
    keys: frozenset[_Key] = frozenset()

    def after(self, operation: Operation) -> Board | None:
        """Return the board after an operation; None if it has another answer than here."""
        state, given, told = self.state, operation.given, operation.result
        match operation.act:
            case "add":
                return self._after_addition(operation)
            case "set":
                following = state.set(messages_in(given["messages"]))
            case "clear":
                following = state.clear()
            case "bound":
                following = state.bound(given["limit"])
            case _:
                return self if told is None or self._shows(told) else None
        return replace(self, state=following) if told is None or told["version"] == following.version else None

    def _after_addition(self, operation: Operation) -> Board | None:
        key, told = operation.given["key"], operation.result
        came = next((one for one in self.keys if one[0] == key), None)
        if came is not None:
            following, positions, version = self.state, came[1], came[2]
        else:
            following = self.state.add(*messages_in(operation.given["messages"]))
            positions = tuple(range(self.state.next_position, following.next_position))
            version = following.version
        if told is not None and (tuple(told["positions"]), told["version"]) != (positions, version):
            return None
        keys = self.keys if key is None or came else self.keys | {(key, positions, version)}
        return Board(following, keys)

    def _shows(self, told: dict[str, object]) -> bool:
        state = self.state
        shown = {"version": state.version, "retained": len(state.memory)}
        shown["messages"] = [[one.kind, one.text] for one in state.memory]  # type: ignore[assignment]
        return all(shown[name] == value for name, value in told.items())


def unexplained(history: Sequence[Operation], start: Board) -> list[Operation]:
    """Return the operations that no order explains, after the longest part that one explains; none if all is well."""
    operations = sorted(history, key=lambda operation: operation.invoked)
    answered = sum(1 << index for index, one in enumerate(operations) if one.returned != inf)
    longest = 0
    been = {(0, start)}
    path = [(0, _next(operations, 0, start))]
    while path:
        done, ways = path[-1]
        if done & answered == answered:
            return []
        following = next((way for way in ways if way not in been), None)
        if following is None:
            path.pop()
            continue
        been.add(following)
        longest = max(longest, following[0], key=int.bit_count)
        path.append((following[0], _next(operations, *following)))
    return [one for index, one in enumerate(operations) if not longest >> index & 1]


def _next(operations: Sequence[Operation], done: int, board: Board) -> Iterator[tuple[int, Board]]:
    """Yield what is done, and the board, after each operation that may be the next."""
    candidates = list(_first(operations, done))
    for index in candidates:
        if operations[index].is_read and board.after(operations[index]) is not None:
            yield done | 1 << index, board  # it changes nothing, so there is no better moment for it
            return
    for index in candidates:
        following = None if operations[index].is_read else board.after(operations[index])
        if following is not None:
            yield done | 1 << index, following


def _first(operations: Sequence[Operation], done: int) -> Iterator[int]:
    """Yield the operations before which no other was answered."""
    index, until = _lowest_not_in(done), inf
    while index < len(operations) and operations[index].invoked <= until:
        if not done >> index & 1:
            yield index
            until = min(until, operations[index].returned)
        index += 1


def _lowest_not_in(done: int) -> int:
    return (~done & done + 1).bit_length() - 1
