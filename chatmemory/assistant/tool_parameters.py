"""The parameters of a function that a model calls: those that the model gives, and those that the assistant fills."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

from chatmemory.assistant.tool_context import ToolContext

__all__ = ["Parameters", "function_within", "parameters_of"]


@dataclass(frozen=True)
class Parameters:
    """The parameters of one function, without those that a ``functools.partial`` has filled by name."""

    types: dict[str, Any]
    """The types of those that the model gives, by name."""

    required: tuple[str, ...]
    """The names of the parameters that have no default."""

    of_context: tuple[str, ...]
    """The names of those that get the :class:`~chatmemory.assistant.ToolContext`."""


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
    hints = _Hints(function_within(function))
    kinds: dict[str, Any] = {}
    of_context, required = [], []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in filled:
            continue
        place = f"parameter {parameter.name} of tool {name}"
        try:
            kind = hints.of(parameter.name)
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


class _Hints:
    """The types of a function's parameters. The result's is not read: it may be for type checkers only."""

    def __init__(self, function: Callable[..., Any]) -> None:
        hinted = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
        self._given = inspect.get_annotations(hinted)
        self._names = getattr(inspect.unwrap(hinted), "__globals__", {})

    def of(self, name: str) -> Any:
        """Return the type of one parameter; ``inspect.Parameter.empty`` if it has none.

        Raises:
            NameError: it is written as text, and names what is not there.
        """
        if name not in self._given:
            return inspect.Parameter.empty
        one = types.SimpleNamespace(__annotations__={name: self._given[name]})
        return typing.get_type_hints(one, globalns=self._names, include_extras=True)[name]


def _filled(function: Callable[..., Any]) -> Iterator[str]:
    while isinstance(function, functools.partial):
        yield from function.keywords
        function = function.func


def _is_context(kind: Any) -> bool:
    if get_origin(kind) is Annotated:
        return _is_context(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return any(map(_is_context, get_args(kind)))
    return kind is ToolContext
