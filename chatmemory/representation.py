"""How messages show themselves in a shell."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

__all__ = ["ShortRepr"]

_LONGEST = 120


class ShortRepr:
    """A ``repr`` for dataclasses that leaves out what is empty and shortens what is long."""

    def __repr__(self) -> str:
        shown = []
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if value is None or value == () or value == {} or (field.default is not MISSING and value == field.default):
                continue
            shown.append(f"{field.name}={_short(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"


def _short(value: Any) -> str:
    if isinstance(value, (str, bytes)) and len(value) > _LONGEST:
        return f"{value[:_LONGEST]!r}… ({len(value)} characters)"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_short, value)) + "]"
    text = repr(value)
    return text if len(text) <= 4 * _LONGEST else f"{text[: 4 * _LONGEST]}…"
