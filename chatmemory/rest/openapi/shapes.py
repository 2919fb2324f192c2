"""The words that the schemas are made of."""

from __future__ import annotations

from typing import Any

from chatmemory.models import MAX_LIMIT

__all__ = [
    "COUNT",
    "MOMENT",
    "NOT_BLANK",
    "NOT_TRIMMED",
    "URL",
    "Schema",
    "closed",
    "constant",
    "list_of",
    "number",
    "one_of",
    "or_null",
    "ref",
    "text",
    "whole",
]

Schema = dict[str, Any]

NOT_BLANK = r"[^\x00-\x20]"

# A character that REST framework does not take off. JavaScript's \S would be others: U+001D and U+FEFF, say.
NOT_TRIMMED = r"[^\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"

# As chatmemory.core.arguments.require_url has it.
_URL_CHARACTER = r"[^\x00-\x20\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\x22<>\\^`{|}%#]"
_URL_PART = f"({_URL_CHARACTER}|%[0-9A-Fa-f]{{2}})*"
URL = f"{_URL_PART}(#{_URL_PART})?"


def ref(name: str, kind: str = "schemas") -> Schema:
    """Return a reference to a component."""
    return {"$ref": f"#/components/{kind}/{name}"}


def closed(required: Schema, optional: Schema | None = None, description: str = "", **more: Any) -> Schema:
    """Return the schema of an object with these properties and no others."""
    return {
        "type": "object",
        **({"description": description} if description else {}),
        "properties": {**required, **(optional or {})},
        **({"required": list(required)} if required else {}),
        "additionalProperties": False,
        **more,
    }


def text(description: str = "", **limits: Any) -> Schema:
    """Return the schema of a string."""
    return {"type": "string", **({"description": description} if description else {}), **limits}


def whole(minimum: int, maximum: int | None = None, description: str = "") -> Schema:
    """Return the schema of a whole number."""
    most = {} if maximum is None else {"maximum": maximum}
    return {"type": "integer", "minimum": minimum, **most, **({"description": description} if description else {})}


def number(minimum: int, maximum: int | None = None, description: str = "") -> Schema:
    """Return the schema of a number that need not be whole."""
    return {**whole(minimum, maximum, description), "type": "number"}


def constant(value: str) -> Schema:
    """Return the schema of one string."""
    return {"type": "string", "const": value}


def list_of(schema: Schema, description: str = "", **limits: Any) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", **({"description": description} if description else {}), "items": schema, **limits}


def or_null(schema: Schema) -> Schema:
    """Return ``schema`` with null as another value."""
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    choices = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return {**schema, "type": [schema["type"], "null"], **choices}


def one_of(tag: str, names: dict[str, str], description: str) -> Schema:
    """Return a union; ``names`` are the schemas by the value of the property ``tag``."""
    return {
        "description": description,
        "oneOf": [ref(name) for name in dict.fromkeys(names.values())],
        "discriminator": {"propertyName": tag, "mapping": {value: ref(name)["$ref"] for value, name in names.items()}},
    }


COUNT = whole(0, MAX_LIMIT)
MOMENT = {"type": "string", "format": "date-time"}
