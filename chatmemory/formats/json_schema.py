"""The words that JSON Schemas are made of. A reference is the name of a component: OpenAPI documents make it whole."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

NOT_BLANK = r"[^\x00-\x20]"

# As chatmemory.core.arguments.require_url has it.
_URL_CHARACTER = r"[^\x00-\x20\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\x22<>\\^`{|}%#]"
_URL_PART = f"({_URL_CHARACTER}|%[0-9A-Fa-f]{{2}})*"
URL = f"{_URL_PART}(#{_URL_PART})?"


def ref(name: str) -> Schema:
    """Return a reference to a component."""
    return {"$ref": name}


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
        "discriminator": {
            "propertyName": tag,
            "mapping": {value: f"#/components/schemas/{name}" for value, name in names.items()},
        },
    }
