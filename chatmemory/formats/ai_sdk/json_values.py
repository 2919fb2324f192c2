"""The conversion of texts that are JSON to the values that a page shows, and back to the same texts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from chatmemory.core.json_text import dumps, loads
from chatmemory.core.serialization.storable import require_json

__all__ = ["text_of", "value_of"]

_SPACED = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def value_of(text: str) -> tuple[Any, dict[str, Any]]:
    """Return the object or list that a text is in JSON, else the text; and what :func:`text_of` needs beside it.

    The latter says how the JSON is spelled, and is empty for the shortest spelling.
    """
    if text.lstrip()[:1] not in ("{", "["):
        return text, {}
    try:
        value = loads(text)
        require_json(value, "")  # it may have escapes of what our reader refuses
        spaced, shortest = _SPACED.encode(value), dumps(value)  # the first refuses 1e999
    except (ValueError, RecursionError):
        return text, {}
    if text == shortest:
        return value, {}
    return value, {"spaced": True} if text == spaced else {"text": text}


def text_of(value: Any, spelling: Mapping[str, Any]) -> str:
    """Return the text that a value stands for.

    Args:
        value: anything that JSON has; a string stands for itself.
        spelling: what :func:`value_of` returned beside it.
    """
    # Anybody may write metadata, so the text counts only as long as it says what the value says.
    if isinstance(text := spelling.get("text"), str) and value_of(text)[0] == value:
        return text
    if isinstance(value, str):
        return value
    return _SPACED.encode(value) if spelling.get("spaced") else dumps(value)
