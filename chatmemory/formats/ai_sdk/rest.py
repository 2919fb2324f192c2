"""The facts that UI messages have no place for, kept in their metadata, and in that of their parts, under one key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chatmemory.core.json_text import MAX_NESTING, require_json
from chatmemory.core.messages import ChatMessage
from chatmemory.core.serialization import Fields, expected, message_to_data

__all__ = ["KEY", "attributes_in", "attributes_of", "kept", "rest_of"]

KEY = "chatmemory"
"""The key in ``metadata``, ``providerMetadata``, ``callProviderMetadata`` and ``resultProviderMetadata``."""

_ABOVE_ATTRIBUTES = 3  # {"steps": {"0": {"attributes": …}}}


def kept(rest: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata that keep ``rest``."""
    return {KEY: rest}


def rest_of(fields: Fields, key: str) -> Mapping[str, Any] | None:
    """Take out metadata, and return what is kept in them; None if nothing is."""
    if not fields.has(key):
        return None
    metadata = fields.value(key, (Mapping, list, tuple, str, int, float), "metadata")
    rest = metadata.get(KEY) if isinstance(metadata, Mapping) else None
    if rest is None:
        return None
    place = f"{fields.at(key)}.{KEY}"
    if not isinstance(rest, Mapping):
        raise expected("an object", rest, place)
    require_json(rest, place, deepest=MAX_NESTING + _ABOVE_ATTRIBUTES)
    return rest


def attributes_of(message: ChatMessage) -> dict[str, Any]:
    """Return the attributes of a message as JSON has them; an empty dict for a message without any."""
    return message_to_data(message).get("attributes") or {}


def attributes_in(rest: Mapping[str, Any] | None, place: str) -> Mapping[str, Any] | None:
    """Return the attributes that are kept; None if there are none."""
    attributes = rest.get("attributes") if rest is not None else None
    if attributes is not None and not isinstance(attributes, Mapping):
        raise expected("an object", attributes, f"{place}.attributes")
    return attributes
