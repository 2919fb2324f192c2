"""The parts that scenarios are written with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = [
    "Op",
    "Scenario",
    "add",
    "clear",
    "clear_tool_results",
    "each",
    "of_messages",
    "of_tokens",
    "pin",
    "set_messages",
    "set_window",
    "talk",
    "unpin",
]

Op = dict[str, Any]
"""One step: ``op`` and its arguments."""


@dataclass(frozen=True)
class Scenario:
    """One memory, and what is done to it."""

    name: str

    shows: str
    """What it shows, in a sentence."""

    window: dict[str, Any]
    """The settings of its window."""

    ops: list[Op]


def of_messages(limit: int, **settings: Any) -> dict[str, Any]:
    """A window of messages."""
    return {"window": "messages", "limit": limit, **settings}


def of_tokens(limit: int, **settings: Any) -> dict[str, Any]:
    """A window of tokens."""
    return {"window": "tokens", "limit": limit, **settings}


def add(*messages: Any) -> list[Op]:
    """Add messages, in one change."""
    return [{"op": "add", "messages": list(messages)}]


def each(*messages: Any) -> list[Op]:
    """Add messages, each in a change of its own."""
    return [op for message in messages for op in add(message)]


def talk(first: int, last: int) -> list[Op]:
    """Add questions and answers with these numbers, each in a change of its own: U 1, A 1, U 2, A 2 …"""
    return [op for number in range(first, last + 1) for op in each(f"U {number}", f"A {number}")]


def set_messages(*messages: Any) -> list[Op]:
    """Make these messages the memory."""
    return [{"op": "set", "messages": list(messages)}]


def clear() -> list[Op]:
    """Clear the memory."""
    return [{"op": "clear"}]


def pin(message: Any, *, refused: bool = False) -> list[Op]:
    """Pin a message; with ``refused`` that is an error."""
    return [{"op": "pin", "message": message} | ({"refused": True} if refused else {})]


def unpin(message: Any) -> list[Op]:
    """Unpin a message."""
    return [{"op": "unpin", "message": message}]


def clear_tool_results(**arguments: Any) -> list[Op]:
    """Clear old tool results at once."""
    return [{"op": "clear_tool_results", **arguments}]


def set_window(*, refused: bool = False, **settings: Any) -> list[Op]:
    """Change settings of the window; with ``refused`` that is an error."""
    return [{"op": "set_window", "settings": settings} | ({"refused": True} if refused else {})]
