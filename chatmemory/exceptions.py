"""What this app raises of its own."""

from __future__ import annotations

__all__ = ["IdempotencyConflictError", "InvalidMessageError"]


class InvalidMessageError(ValueError):
    """A message from outside is not what it must be."""

    def __init__(self, problem: str, place: str = "") -> None:
        """
        Args:
            problem: what is wrong, and what is expected.
            place: where, as a path into the JSON: ``[3].contents[0].text``. Empty for the whole document.
        """
        super().__init__(f"{place}: {problem}" if place else problem)
        self.problem = problem
        self.place = place


class IdempotencyConflictError(ValueError):
    """An idempotency key comes again, with other messages than the first time."""
