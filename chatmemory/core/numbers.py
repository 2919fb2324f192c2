"""Numbers that people write into addresses."""

from __future__ import annotations

__all__ = ["whole_number"]

# An address may be very long, and int() of so many digits is slow or an error.
_MOST_DIGITS = 18


def whole_number(text: str, *, most: int | None = None) -> int | None:
    """Return the whole number that ``text`` writes in ASCII digits; None if it is something else, or above ``most``.

    A number of more than 18 digits is returned as some number of 18 digits.
    """
    if not (text.isascii() and text.isdigit()):
        return None
    number = int(text.lstrip("0")[:_MOST_DIGITS] or "0")
    return number if most is None or number <= most else None
