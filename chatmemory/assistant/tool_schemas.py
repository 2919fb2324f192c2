"""JSON Schemas as models like them: pydantic's, without titles and with as few references as can be."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_args, get_origin

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic.json_schema import GenerateJsonSchema

__all__ = ["Schema", "plain"]

Schema: TypeAlias = dict[str, Any]

_REFERENCE = "#/$defs/"

# The keys of a schema that hold one schema, several, and several by names.
_ONE = ("items", "additionalProperties", "not", "contains", "propertyNames")
_SEVERAL = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "patternProperties")

# Titles only repeat names, and a discriminator refers to what is written in place.
_LEFT_OUT = ("title", "discriminator", "$defs")


def plain(adapter: TypeAdapter[Any]) -> Schema:
    """Return the JSON Schema of what an adapter reads.

    Definitions are written where they are used, for not all models follow references. Only types that contain
    themselves stay in ``$defs``.
    """
    schema = adapter.json_schema(schema_generator=_generator())
    definitions = schema.get("$defs", {})
    endless = {name for name in definitions if name in _reached(definitions[name], definitions)}
    found: Schema = _in_place(schema, definitions, endless)
    if endless:
        found["$defs"] = {name: _in_place(definitions[name], definitions, endless) for name in sorted(endless)}
    return found


def _in_place(schema: Any, definitions: dict[str, Any], endless: set[str]) -> Any:
    if not isinstance(schema, dict):
        return schema  # "additionalProperties": false
    name = _referred(schema)
    if name is not None and name not in endless:
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return _in_place(definitions[name] | beside, definitions, endless)
    found = {key: value for key, value in schema.items() if key not in _LEFT_OUT}
    for key, value in found.items():
        if key in _ONE:
            found[key] = _in_place(value, definitions, endless)
        elif key in _SEVERAL:
            found[key] = [_in_place(one, definitions, endless) for one in value]
        elif key in _NAMED:
            found[key] = {one: _in_place(its, definitions, endless) for one, its in value.items()}
    return found


def _referred(schema: dict[str, Any]) -> str | None:
    reference = schema.get("$ref")
    return reference.removeprefix(_REFERENCE) if isinstance(reference, str) else None


def _reached(schema: Any, definitions: dict[str, Any]) -> set[str]:
    """Return the names of the definitions that a schema refers to, in however many steps."""
    reached: set[str] = set()
    left = list(_references(schema))
    while left:
        name = left.pop()
        if name not in reached:
            reached.add(name)
            left.extend(_references(definitions[name]))
    return reached


def _references(schema: Any) -> Iterator[str]:
    if not isinstance(schema, dict):
        return
    name = _referred(schema)
    if name is not None:
        yield name
    for key, value in schema.items():
        within = [value] if key in _ONE else value if key in _SEVERAL else value.values() if key in _NAMED else ()
        for one in within:
            yield from _references(one)


@cache
def _generator() -> type[GenerateJsonSchema]:
    from pydantic.json_schema import GenerateJsonSchema

    class Generator(GenerateJsonSchema):
        """A generator that describes the fields of dataclasses by the texts of their ``Annotated``, too."""

        # A default that JSON does not have is left out.
        ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}

        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

        def dataclass_schema(self, schema: Any) -> Schema:
            return _described(super().dataclass_schema(schema), schema["cls"], schema)

        def typed_dict_schema(self, schema: Any) -> Schema:
            return _described(super().typed_dict_schema(schema), schema.get("cls"), schema)

    return Generator


def _described(schema: Schema, kind: Any, core: Any) -> Schema:
    if core.get("config", {}).get("extra_fields_behavior") == "forbid":  # before 2.12 pydantic leaves it out
        schema["additionalProperties"] = False
    try:
        hints = {} if kind is None else typing.get_type_hints(kind, include_extras=True)
    except NameError:  # pydantic looks in more places
        return schema
    for name, annotation in hints.items():
        if get_origin(annotation) in (typing.Required, typing.NotRequired):
            [annotation] = get_args(annotation)
        said = [note for note in get_args(annotation)[1:] if isinstance(note, str)]
        if get_origin(annotation) is Annotated and said and name in schema.get("properties", {}):
            schema["properties"][name].setdefault("description", said[0])
    return schema
