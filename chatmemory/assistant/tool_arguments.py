"""The arguments that a model writes: their JSON Schema, and their check, both by pydantic (extra ``assistant``)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from chatmemory.assistant.tool_parameters import Parameters
from chatmemory.assistant.tool_schemas import Schema, plain
from chatmemory.core.extras import extra
from chatmemory.core.json_text import loads

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

__all__ = ["ArgumentError", "Arguments", "read_json"]

_Place: TypeAlias = "tuple[int | str, ...]"

# The problems that are told at once, and the characters of each.
_MOST_PROBLEMS = 5
_MOST_CHARS = 500

# Beyond this a float does not hold each whole number.
_LARGEST_WHOLE = 2**53


class ArgumentError(ValueError):
    """Arguments that a tool cannot take; the text names the place, for the model to read."""


class Arguments:
    """The arguments of one tool, as the types of its parameters want them.

    They are read as strictly as JSON is: ``"1"`` is no number. Types that JSON does not have are read from texts, such
    as ``date`` or ``Decimal``. A pydantic model among the types keeps its own configuration.
    """

    def __init__(self, parameters: Parameters, tool: str) -> None:
        """
        Args:
            parameters: of the function.
            tool: its name, for errors.

        Raises:
            TypeError: one of the types has no JSON Schema.
            ImportError: pydantic is not installed.
        """
        with extra("assistant"):
            import pydantic
            from pydantic.errors import PydanticInvalidForJsonSchema
            from pydantic_core import SchemaValidator
        self._names = tuple(parameters.types)
        self._error = pydantic.ValidationError
        try:
            adapter = _adapter(parameters)
            self._validator = SchemaValidator(_with_items_at_once(adapter.core_schema))
            self.schema = self._described(plain(adapter), parameters)
        except (
            pydantic.PydanticUserError,
            pydantic.PydanticUndefinedAnnotation,
            PydanticInvalidForJsonSchema,
        ) as error:
            raise TypeError(
                f"{_culprit(parameters)} of tool {tool} has a type without a JSON Schema; use another type, or write "
                f"the tool's parameters yourself: Tool(function, parameters=…). {error}"
            ) from error

    def read(self, text: str | None) -> dict[str, Any]:
        """Return the arguments in a JSON text, each as its type wants it.

        Raises:
            ArgumentError: they are not as the schema says.
            Exception: what a check of the project's raised.
        """
        given = read_json(text)
        try:
            read: dict[str, Any] = self._validator.validate_json(json.dumps(_with_whole_numbers(given)))
        except self._error as error:
            raise self._problem(error) from None
        return read

    def _described(self, schema: Schema, parameters: Parameters) -> Schema:
        return {
            "type": "object",
            "properties": schema.get("properties", {}),
            "required": list(parameters.required),
            "additionalProperties": False,
            **({"$defs": schema["$defs"]} if "$defs" in schema else {}),
        }

    def _problem(self, error: ValidationError) -> Exception:
        """Return the exception to raise: that of a check of the project's own if it failed, with its text."""
        found = error.errors(include_url=False, include_input=False)
        refused = [one["ctx"]["error"] for one in found if one["type"] in ("value_error", "assertion_error")]
        if len(refused) == len(found) and isinstance(refused[0], Exception):
            return refused[0]
        told = [self._told(one) for one in found if one["type"] not in ("value_error", "assertion_error")]
        return ArgumentError("; ".join(told[:_MOST_PROBLEMS]))

    def _told(self, problem: Any) -> str:
        place = _named(problem["loc"])
        if problem["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            there = f"; there is {', '.join(self._names) or 'nothing'}" if len(problem["loc"]) == 1 else ""
            return f"{place} is not known{there}"
        if problem["type"] == "missing":
            return f"{place} is missing"
        return f"{place or 'The arguments'}: {problem['msg']:.{_MOST_CHARS}}"


def read_json(text: str | None) -> dict[str, Any]:
    """Return the object in a JSON text; an empty one if there is no text.

    Raises:
        ArgumentError: it is no JSON, or no object.
    """
    try:
        given = loads(text or "{}")
    except ValueError as error:
        raise ArgumentError(f"The arguments are not JSON: {error}") from None
    if not isinstance(given, dict):
        raise ArgumentError("The arguments must be a JSON object")
    return given


def _adapter(parameters: Parameters) -> TypeAdapter[Any]:
    from pydantic import ConfigDict, TypeAdapter
    from typing_extensions import TypedDict

    fields = {
        name: kind if name in parameters.required else NotRequired[kind]
        for name, kind in ((name, _with_description(_readable(kind))) for name, kind in parameters.types.items())
    }
    given: Any = TypedDict("Arguments", fields)  # type: ignore[misc]  # made of what a function has
    given.__pydantic_config__ = ConfigDict(extra="forbid", strict=True)  # type: ignore[attr-defined]
    return TypeAdapter(given)


def _readable(kind: Any, within: tuple[Any, ...] = ()) -> Any:
    """Return a type in which each ``TypedDict`` is one that pydantic reads: before Python 3.12 not those of ``typing``.

    Args:
        kind: the type.
        within: the dicts that it is in. One that contains itself stays as it is, and pydantic says what to do.
    """
    if sys.version_info >= (3, 12):
        return kind
    if is_typeddict(kind):
        return kind if type(kind).__module__ != "typing" or kind in within else _typed_dict(kind, (*within, kind))
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return Annotated[(_readable(args[0], within), *args[1:])]
    if origin is None or origin is Literal:
        return kind
    read = tuple(_readable(one, within) for one in args)
    if read == args:
        return kind
    return Union[read] if origin is UnionType else origin[read if len(read) > 1 else read[0]]  # noqa: UP007


def _typed_dict(kind: Any, within: tuple[Any, ...]) -> Any:
    from typing_extensions import TypedDict

    try:
        hints = get_type_hints(kind, include_extras=True)
    except NameError:  # pydantic says what to do
        return kind
    fields = {}
    for name, hint in hints.items():
        given = _readable(hint, within)
        if get_origin(given) not in (Required, NotRequired):
            given = Required[given] if name in kind.__required_keys__ else NotRequired[given]
        fields[name] = given
    same: Any = TypedDict(kind.__name__, fields)  # type: ignore[misc]  # made of what another one has
    same.__doc__ = kind.__doc__
    if hasattr(kind, "__pydantic_config__"):
        same.__pydantic_config__ = kind.__pydantic_config__  # type: ignore[attr-defined]
    return same


def _with_items_at_once(schema: Any) -> Any:
    """Return a schema of pydantic's that checks all items of an ``Iterable`` first, and not while a tool reads them."""
    from pydantic_core.core_schema import no_info_after_validator_function

    if isinstance(schema, list):
        return [_with_items_at_once(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _with_items_at_once(value) for key, value in schema.items()}
    if made.get("type") != "generator":
        return made
    items: Any = {**made, "type": "list"}
    return no_info_after_validator_function(iter, items)


def _with_description(kind: Any) -> Any:
    """Return a type whose ``Annotated`` text is the description for the model."""
    from pydantic import Field

    if get_origin(kind) is not Annotated:
        return kind
    inner, *notes = get_args(kind)
    said = [note for note in notes if isinstance(note, str)]
    return Annotated[(inner, *notes, Field(description=said[0]))] if said else kind


def _culprit(parameters: Parameters) -> str:
    """Return the first parameter whose type alone has no schema."""
    for name, kind in parameters.types.items():
        try:
            plain(_adapter(Parameters({name: kind}, (name,), ())))
        except Exception:  # whichever it was that all of them together raised
            return f"parameter {name}"
    return "a parameter"


def _named(place: _Place) -> str:
    def parts() -> Iterator[str]:
        for index, part in enumerate(place):
            yield f"[{part}]" if isinstance(part, int) else f".{part:.100}" if index else f"{part:.100}"

    return "".join(parts())


def _with_whole_numbers(value: Any) -> Any:
    """Return a JSON value with 2 for 2.0: JSON has one kind of numbers."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST_WHOLE:
        return int(value)
    if isinstance(value, dict):
        return {key: _with_whole_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_whole_numbers(item) for item in value]
    return value
