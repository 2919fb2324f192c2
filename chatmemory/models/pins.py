"""The pins of a message, as the text of a column.

The text has the versions from which and up to which the message was pinned: ``"3-7 9-"`` says that it was pinned in
version 3, no longer in version 7, and again from version 9 on. So past memories know of their pins.
"""

from __future__ import annotations

import re
from itertools import pairwise

__all__ = [
    "OPEN",
    "close_pin",
    "is_pin_open",
    "last_pin_change",
    "open_pin",
    "pins_until",
    "problem_of_pins",
    "was_pin_open",
]

_PINS = re.compile("([1-9][0-9]{0,9}-[1-9][0-9]{0,9} )*[1-9][0-9]{0,9}-([1-9][0-9]{0,9})?")

OPEN = "-"
"""The end of the text if the last pin holds."""


def is_pin_open(pins: str) -> bool:
    """Return whether the last pin holds."""
    return pins.endswith(OPEN)


def was_pin_open(pins: str, version: int) -> bool:
    """Return whether a pin held at ``version``."""
    return is_pin_open(pins_until(pins, version))


def open_pin(pins: str, version: int) -> str:
    """Return ``pins`` with a pin that holds from ``version`` on."""
    return f"{pins} {version}{OPEN}".strip()


def close_pin(pins: str, version: int) -> str:
    """Return ``pins`` with the last one, which holds, ended: at ``version`` it no longer holds."""
    return f"{pins}{version}"


def pins_until(pins: str, version: int) -> str:
    """Return ``pins`` as they were at ``version``."""
    found = []
    for pin in pins.split():
        first, _, end = pin.partition(OPEN)
        if int(first) <= version:
            found.append(pin if end and int(end) <= version else f"{first}{OPEN}")
    return " ".join(found)


def last_pin_change(pins: str) -> int:
    """Return the last version in which a pin was made or ended."""
    return _versions(pins)[-1]


def problem_of_pins(pins: str) -> str:
    """Return the form that ``pins`` should have; an empty text if they have it."""
    if pins and not _PINS.fullmatch(pins):
        return "versions such as '3-7 9-'"
    if any(second <= first for first, second in pairwise(_versions(pins))):
        return "versions in ascending order"
    return ""


def _versions(pins: str) -> list[int]:
    return [int(number) for number in pins.replace(OPEN, " ").split()]
