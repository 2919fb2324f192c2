"""Python's types as JSON Schema, and the check of values that a model wrote against them."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

__all__ = ["ArgumentError", "Schema", "fields_of", "read_value", "schema_of"]

Schema: TypeAlias = dict[str, Any]

_SIMPLE = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
_LISTS = (list, Sequence)
_DICTS = (dict, Mapping)


class ArgumentError(ValueError):
    """A value that is not of its type; the text names the place, for the model to read."""


def schema_of(annotation: Any, place: str, within: tuple[type, ...] = ()) -> Schema:
    """Return the JSON Schema of a type.

    Args:
        annotation: ``str``, ``int``, ``float``, ``bool``, ``None``, ``Any``, ``Literal``, an enum, a dataclass, or
            ``list``, ``dict`` with string keys, and unions of these. ``Annotated[T, "text"]`` describes it.
        place: the parameter or field that has this type, for the error.
        within: the dataclasses that the type is part of.

    Raises:
        TypeError: any other type.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        said = [text for text in arguments[1:] if isinstance(text, str)]
        return schema_of(arguments[0], place, within) | ({"description": said[0]} if said else {})
    if annotation is Any:
        return {}
    if annotation is None:
        return {"type": "null"}
    if annotation in _SIMPLE:
        return {"type": _SIMPLE[annotation]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema_of(one, place, within) for one in arguments]}
    if annotation in _LISTS or origin in _LISTS:
        return {"type": "array", "items": schema_of(arguments[0], f"{place}[]", within) if arguments else {}}
    if annotation in _DICTS or (origin in _DICTS and arguments[0] is str):
        values = schema_of(arguments[1], f"{place}{{}}", within) if arguments else {}
        return {"type": "object", "additionalProperties": values}
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return {"enum": [member.value for member in annotation]}
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        if annotation in within:
            raise TypeError(f"{place}: {annotation.__name__} contains itself; write the tool's parameters yourself")
        described, required = fields_of(annotation)
        properties = {name: schema_of(one, f"{place}.{name}", (*within, annotation)) for name, one in described.items()}
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    raise TypeError(
        f"{place}: the type {annotation!r} has no JSON Schema here; use str, int, float, bool, Literal, list, dict, "
        "an enum or a dataclass, or write the tool's parameters yourself"
    )


def fields_of(kind: type) -> tuple[dict[str, Any], list[str]]:
    """Return the types of a dataclass's fields by name, and the names of those that have no default."""
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = [field for field in dataclasses.fields(kind) if field.init]
    missing = dataclasses.MISSING
    required = [field.name for field in fields if field.default is missing and field.default_factory is missing]
    return {field.name: hints[field.name] for field in fields}, required


def read_value(value: Any, annotation: Any, place: str) -> Any:
    """Return a value from JSON as its type wants it: an enum's member or a dataclass's instance is made of it.

    Raises:
        ArgumentError: the value is of another type.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return read_value(value, arguments[0], place)
    if annotation is Any:
        return value
    if origin in (Union, types.UnionType):
        return _read_union(value, arguments, place)
    if annotation in (*_LISTS, *_DICTS) or origin in (*_LISTS, *_DICTS):
        return _read_container(value, annotation, place)
    if origin is Literal:
        # 1 and True are equal, but not the same.
        if any(value == one and type(value) is type(one) for one in arguments):
            return value
        raise ArgumentError(f"{place} must be one of {', '.join(map(repr, arguments))}")
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        try:
            return annotation(value)
        except ValueError:
            raise ArgumentError(
                f"{place} must be one of {', '.join(repr(member.value) for member in annotation)}"
            ) from None
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        described, required = fields_of(annotation)
        return annotation(**read_values(value, described, required, place))
    return _read_simple(value, annotation, place)


def read_values(value: Any, described: Mapping[str, Any], required: Sequence[str], place: str) -> dict[str, Any]:
    """Return the members of an object, each as its type wants it.

    Args:
        value: the object from JSON.
        described: the types, by name.
        required: the names that must be there.
        place: of the object; empty for a tool's arguments.

    Raises:
        ArgumentError: ``value`` is no object, or a member is missing, unknown or of another type.
    """
    whole = place or "The arguments"
    if not isinstance(value, dict):
        raise ArgumentError(f"{whole} must be a JSON object")
    if unknown := [name for name in value if name not in described]:
        raise ArgumentError(f"{whole} have no {unknown[0]!r:.100}; there is {', '.join(described) or 'nothing'}")
    if missing := [name for name in required if name not in value]:
        raise ArgumentError(f"{whole} need {missing[0]!r}")
    prefix = f"{place}." if place else ""
    return {name: read_value(given, described[name], f"{prefix}{name}") for name, given in value.items()}


def _read_union(value: Any, arguments: tuple[Any, ...], place: str) -> Any:
    problems = []
    for one in arguments:
        try:
            return read_value(value, one, place)
        except ArgumentError as error:
            problems.append(str(error))
    raise ArgumentError(" or ".join(dict.fromkeys(problems)))


def _read_container(value: Any, annotation: Any, place: str) -> Any:
    origin, arguments = get_origin(annotation) or annotation, get_args(annotation)
    if origin in _LISTS:
        if not isinstance(value, list):
            raise ArgumentError(f"{place} must be a list")
        if not arguments:
            return value
        return [read_value(item, arguments[0], f"{place}[{index}]") for index, item in enumerate(value)]
    if not isinstance(value, dict):
        raise ArgumentError(f"{place} must be a JSON object")
    return (
        {key: read_value(item, arguments[1], f"{place}.{key}") for key, item in value.items()} if arguments else value
    )


def _read_simple(value: Any, annotation: Any, place: str) -> Any:
    wanted = type(None) if annotation is None else annotation
    if wanted is int and type(value) is float and value.is_integer():
        return int(value)  # JSON has one kind of numbers
    if wanted is float and type(value) is int:
        return float(value)
    if type(value) is not wanted:
        raise ArgumentError(f"{place} must be {_SIMPLE[wanted]}")
    return value
