"""Text of strangers in one line: short, and with nothing in it that cannot be seen."""

from __future__ import annotations

__all__ = ["one_line", "visible"]


def one_line(text: str, most: int) -> str:
    """Return at most ``most`` characters of a text as :func:`visible` shows them, and "…" if there are more."""
    start = visible(text[:most])
    return f"{start}…" if len(text) > most else start


def visible(text: str) -> str:
    r"""Return a text with escapes such as ``\u202e`` for invisible characters and for those that turn text around."""
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)
