"""A tool call in one line, as a program would write it: ``search_web(query="tea", page=2)``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from chatmemory.admin.display.visible_text import one_line, visible
from chatmemory.core.json_text import loads

__all__ = ["call_line"]

_LONGEST_NAME = 80
_LONGEST_VALUE = 40
_LONGEST_LINE = 160
_MOST_CHILDREN = 5

# Parsing more for one line is not worth its time.
_LONGEST_PARSED = 20_000


def call_line(name: str, arguments: str) -> str:
    """Return a call in one line. Long values are cut; where arguments are left out, the line ends with "…".

    Args:
        name: of the tool.
        arguments: JSON as the model wrote it, which may be no object, or no JSON at all.
    """
    start = one_line(name, _LONGEST_NAME) + "("
    shown: list[str] = []
    for argument in _arguments(arguments):
        if len(start) + len(", ".join([*shown, argument])) > _LONGEST_LINE and shown:
            shown.append("…")
            break
        shown.append(argument)
    return start + ", ".join(shown) + ")"


def _arguments(text: str) -> Iterator[str]:
    if not text.strip():
        return
    if len(text) > _LONGEST_PARSED:
        yield "…"
        return
    try:
        value = loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        yield one_line(text.strip(), _LONGEST_VALUE)
        return
    for key, argument in value.items():
        yield f"{one_line(key, _LONGEST_VALUE)}={_short(argument)}"


def _short(value: Any) -> str:
    """Return JSON of a value, shortened; of lists and objects only those that are small and flat."""
    match value:
        case str():
            cut = f"{value[:_LONGEST_VALUE]}…" if len(value) > _LONGEST_VALUE else value
            return visible(json.dumps(cut, ensure_ascii=False))
        case dict() | list():
            opening, closing = "{}" if isinstance(value, dict) else "[]"
            children = value.values() if isinstance(value, dict) else value
            if len(value) <= _MOST_CHILDREN and not any(isinstance(child, (dict, list)) for child in children):
                text = json.dumps(value, ensure_ascii=False)
                if len(text) <= _LONGEST_VALUE:
                    return visible(text)
            return f"{opening}…{closing}"
    return one_line(json.dumps(value), _LONGEST_VALUE)
