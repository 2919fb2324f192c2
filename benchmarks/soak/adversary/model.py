"""A memory as the documentation describes it, in plain Python: nothing here uses the package's code.

Costs are simple: each message is one. A state never changes; every act returns another one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["CALL", "RESULT", "SYSTEM", "Messages", "Said", "State"]

SYSTEM = "SYSTEM"
CALL = "CALL"
"""The kind of an answer that calls tools."""
RESULT = "TOOL_EXECUTION_RESULT"


@dataclass(frozen=True)
class Said:
    """A message: what matters for an eviction, and what tells it from others."""

    kind: str
    text: str


Messages = tuple[Said, ...]


@dataclass(frozen=True)
class State:
    """A memory, its history, and its counters."""

    limit: int
    memory: Messages = ()
    history: Messages = ()
    """What was said. A rewrite says nothing."""

    version: int = 0
    next_position: int = 0
    """The number of messages that ever came, by a rewrite too."""

    def add(self, *said: Said) -> State:
        """Add messages, one after the other."""
        memory, added = self.memory, []
        for message in said:
            memory = _fitting(memory, self.limit)
            present = next((one for one in memory if one.kind == SYSTEM), None)
            if message.kind == SYSTEM and present is not None:
                if present == message:
                    continue
                memory = tuple(one for one in memory if one is not present)
            memory = _fitting((*memory, message), self.limit)
            added.append(message)
        if not added:
            return self
        return replace(self, memory=memory, history=self.history + tuple(added))._next(len(added))

    def set(self, messages: Messages, *, said: Messages = ()) -> State:
        """Make messages the memory.

        Args:
            messages: the new memory, which the window bounds.
            said: those of them that count as said; then the window is another program's, and bounds nothing here.
        """
        memory = messages if said else _fitting(messages, self.limit)
        if memory == self.memory:
            return self
        new = len(messages) - _in_common(self.memory, messages)
        return replace(self, memory=memory, history=self.history + said)._next(new)

    def clear(self) -> State:
        """Evict everything."""
        return replace(self, memory=())._next(0) if self.memory else self

    def bound(self, limit: int) -> State:
        """Bound the memory by another limit."""
        memory = _fitting(self.memory, limit)
        state = replace(self, memory=memory, limit=limit)
        return state if memory == self.memory else state._next(0)

    def pin(self) -> State:
        """Pin a message."""
        return self._next(0)

    def unpin(self) -> State:
        """Unpin what kept the memory above its limit."""
        return replace(self, memory=_fitting(self.memory, self.limit))._next(0)

    def clear_results(self, placeholder: str, *results: Said) -> State:
        """Put placeholders in the place of tool results."""
        cleared = Said(RESULT, placeholder)
        memory = tuple(cleared if one in results else one for one in self.memory)
        return replace(self, memory=memory)._next(len(results))

    def summarise(self, summary: Said, *, kept: int) -> State:
        """Put a summary in the place of all but the system message at the front and the last ``kept`` messages."""
        return replace(self, memory=(self.memory[0], summary, *self.memory[-kept:]))._next(1)

    def _next(self, came: int) -> State:
        return replace(self, version=self.version + 1, next_position=self.next_position + came)


def _fitting(messages: Messages, limit: int) -> Messages:
    """Return what is left when the oldest go until no more than ``limit`` are there.

    A system message at the front stays. The results of a call go with it.
    """
    kept = list(messages)
    while len(kept) > limit:
        oldest = 1 if kept[0].kind == SYSTEM else 0
        if oldest == len(kept):
            break
        gone = kept.pop(oldest)
        while gone.kind == CALL and oldest < len(kept) and kept[oldest].kind == RESULT:
            kept.pop(oldest)
    return tuple(kept)


def _in_common(one: Messages, other: Messages) -> int:
    """Return the length of the longest common subsequence."""
    lengths = [0] * (len(other) + 1)
    for left in one:
        before = 0
        for index, right in enumerate(other, 1):
            before, lengths[index] = (
                lengths[index],
                before + 1 if left == right else max(lengths[index], lengths[index - 1]),
            )
    return lengths[-1]
