"""The exceptions that several parts of this app raise."""

from __future__ import annotations

__all__ = [
    "IdempotencyConflictError",
    "InvalidMessageError",
    "NotRetainedError",
    "PinnedTooMuchError",
    "UnusableSummaryError",
]


class InvalidMessageError(ValueError):
    """A message from outside that does not have the form it must have."""

    def __init__(self, problem: str, place: str = "") -> None:
        """
        Args:
            problem: what is wrong, and what is expected.
            place: where, as a path into the JSON: ``[3].contents[0].text``. Empty for the whole document.
        """
        # Both may quote the input, and half of a surrogate pair in it could not be printed.
        self.problem = problem.encode("utf-8", "backslashreplace").decode()
        self.place = place.encode("utf-8", "backslashreplace").decode()
        super().__init__(f"{self.place}: {self.problem}" if place else self.problem)


class IdempotencyConflictError(ValueError):
    """An idempotency key that was used before, for another request."""


class NotRetainedError(ValueError):
    """A position at which the memory has no message."""


class PinnedTooMuchError(ValueError):
    """Pinned messages, with those that stay with them, that take more than half of the limit."""

    def __init__(self, cost: int, limit: int, unit: str) -> None:
        """
        Args:
            cost: the part of ``limit`` that they take.
            limit: the limit of the window.
            unit: what it counts, ``"messages"`` or ``"tokens"``.
        """
        self.cost = cost
        self.limit = limit
        self.unit = unit
        super().__init__(
            f"pinned messages, with the calls, results and questions that stay with them, would take {cost} of "
            f"{limit} {unit}, more than half; unpin some, or choose a limit of at least {cost * 2}"
        )


class UnusableSummaryError(ValueError):
    """A summary that cannot take the place of the messages that it stands for. They stay as they are."""
