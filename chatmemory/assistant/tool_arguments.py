"""The arguments that a model writes: the parameters of a function, their JSON Schema, and their check by pydantic.

It needs the extra ``assistant``.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    NotRequired,
    Required,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from chatmemory.core.exceptions import extra
from chatmemory.core.json_text import loads

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError
    from pydantic.json_schema import GenerateJsonSchema

    from chatmemory.models import Conversation


@dataclass(frozen=True, kw_only=True)
class ToolContext:
    """The conversation that calls a tool.

    A parameter of a tool with this type is filled by the assistant. The model is not told of it and cannot set it.
    """

    conversation: Conversation | None = None
    """None if the memory is not in Django's database."""

    owner: Any = None
    """The user whose conversation it is; None if it has no owner."""

    memory_id: Any = None
    """The ID of the memory; of a conversation its ``memory_id``."""

    data: Any = None
    """The ``context`` that ``chat()`` was given; over REST the request."""


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
            schema = plain(adapter)
            self.schema: Schema = {
                "type": "object",
                "properties": schema.get("properties", {}),
                "required": list(parameters.required),
                "additionalProperties": False,
                **({"$defs": schema["$defs"]} if "$defs" in schema else {}),
            }
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
        for name, kind in ((name, _with_description(kind)) for name, kind in parameters.types.items())
    }
    given: Any = TypedDict("Arguments", fields)  # type: ignore[misc]  # made of what a function has
    given.__pydantic_config__ = ConfigDict(extra="forbid", strict=True)  # type: ignore[attr-defined]
    return TypeAdapter(given)


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


def _named(place: Sequence[int | str]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part:.100}" for part in place).removeprefix(".")


def _with_whole_numbers(value: Any) -> Any:
    """Return a JSON value with 2 for 2.0: JSON has one kind of numbers."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST_WHOLE:
        return int(value)
    if isinstance(value, dict):
        return {key: _with_whole_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_whole_numbers(item) for item in value]
    return value


@dataclass(frozen=True)
class Parameters:
    """The parameters of one function, without those that a ``functools.partial`` has filled by name."""

    types: dict[str, Any]
    """The types of those that the model gives, by name."""

    required: tuple[str, ...]
    """The names of the parameters that have no default."""

    of_context: tuple[str, ...]
    """The names of those that get the ``ToolContext``."""


def function_within(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that a ``functools.partial`` calls; any other function itself."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def parameters_of(function: Callable[..., Any], name: str, *, is_typed: bool) -> Parameters:
    """Return the parameters of a tool's function.

    Args:
        function: the function, or a ``functools.partial`` of one.
        name: the tool's name, for errors.
        is_typed: whether all parameters must have a type, because the schema is made of the types.

    Raises:
        TypeError: a parameter cannot be passed by name; or must have a type, and has none that can be read.
    """
    filled = set(_filled(function))
    kinds: dict[str, Any] = {}
    of_context, required = [], []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in filled:
            continue
        place = f"parameter {parameter.name} of tool {name}"
        try:
            kind = _hint(function_within(function), parameter.name)
        except NameError as error:
            if is_typed:
                raise TypeError(
                    f"tool {name}: a type of its parameters cannot be read: {error}; import it where the function is, "
                    "and not under TYPE_CHECKING"
                ) from error
            kind = Any
        if _is_context(kind):
            of_context.append(parameter.name)
            continue
        if is_typed and parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{place} cannot be passed by name")
        if is_typed and kind is inspect.Parameter.empty:
            raise TypeError(f"{place} has no type; write one, such as {parameter.name}: str")
        kinds[parameter.name] = kind
        if parameter.default is inspect.Parameter.empty:
            required.append(parameter.name)
    return Parameters(kinds, tuple(required), tuple(of_context))


def _hint(function: Callable[..., Any], name: str) -> Any:
    """Return the type of one parameter; ``inspect.Parameter.empty`` if it has none.

    The others, and the result's, are not read: they may be for type checkers only.

    Raises:
        NameError: it is written as text, and names what is not there.
    """
    hinted = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    given = inspect.get_annotations(hinted)
    if name not in given:
        return inspect.Parameter.empty
    one = types.SimpleNamespace(__annotations__={name: given[name]})
    return get_type_hints(one, globalns=getattr(inspect.unwrap(hinted), "__globals__", {}), include_extras=True)[name]


def _filled(function: Callable[..., Any]) -> Iterator[str]:
    while isinstance(function, functools.partial):
        yield from function.keywords
        function = function.func


def _is_context(kind: Any) -> bool:
    if get_origin(kind) is Annotated:
        return _is_context(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return any(map(_is_context, get_args(kind)))
    return kind is ToolContext


Schema: TypeAlias = dict[str, Any]

_REFERENCE = re.compile(r'"\$ref": "#/\$defs/([^"]*)"')

# The keys of a schema that hold one schema, several, and several by names.
_ONE = ("items", "additionalProperties", "not", "contains", "propertyNames")
_SEVERAL = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "patternProperties")

# Titles only repeat names, and a discriminator refers to what is written in place.
_LEFT_OUT = ("title", "discriminator", "$defs")


def plain(adapter: TypeAdapter[Any]) -> Schema:
    """Return the JSON Schema of what an adapter reads.

    Definitions are written where they are used, because not all models follow references. Only types that contain
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
    name = schema["$ref"].rpartition("/")[2] if isinstance(schema.get("$ref"), str) else None
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


def _reached(schema: Any, definitions: dict[str, Any]) -> set[str]:
    """Return the names of the definitions that a schema refers to, in however many steps."""
    reached: set[str] = set()
    left = [schema]
    while left:
        new = (definitions.keys() & _REFERENCE.findall(json.dumps(left.pop()))) - reached
        reached |= new
        left += [definitions[name] for name in new]
    return reached


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
        hints = {} if kind is None else get_type_hints(kind, include_extras=True)
    except NameError:  # pydantic looks in more places
        return schema
    for name, annotation in hints.items():
        if get_origin(annotation) in (Required, NotRequired):
            [annotation] = get_args(annotation)
        said = [note for note in get_args(annotation)[1:] if isinstance(note, str)]
        if get_origin(annotation) is Annotated and said and name in schema.get("properties", {}):
            schema["properties"][name].setdefault("description", said[0])
    return schema
