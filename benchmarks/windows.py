"""The two windows that are measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["WINDOWS", "Window"]


@dataclass(frozen=True)
class Window:
    """A window: how much of a history the model gets."""

    kind: str
    """``messages`` or ``tokens``."""

    limit: int

    @property
    def title(self) -> str:
        return f"{self.limit:,} {self.kind}".replace(",", " ")

    def evicted_by(self, costs: Sequence[int], overhead: int = 0) -> list[int]:
        """Return, for each message evicted while ``costs`` are added one by one, the position that pushed it out.

        Args:
            costs: what each message takes of the limit, in order.
            overhead: what is taken of the limit by no message.
        """
        pushed: list[int] = []
        total = overhead
        for position, cost in enumerate(costs):
            total += cost
            while total > self.limit:
                total -= costs[len(pushed)]
                pushed.append(position)
        return pushed


WINDOWS = {"messages": Window("messages", 20), "tokens": Window("tokens", 2000)}
