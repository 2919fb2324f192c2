"""Functions that a model may call."""

from __future__ import annotations

import dataclasses
import inspect
import json
import logging
import types
import typing
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from asgiref.sync import async_to_sync

from chatmemory.assistant.errors import ToolError
from chatmemory.assistant.schemas import ArgumentError, Schema, read_values, schema_of
from chatmemory.core.asynchronous import in_thread_for_functions
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.json_text import loads
from chatmemory.core.messages import ToolExecutionRequest, ToolExecutionResultMessage
from chatmemory.core.serialization.storable import require_storable

__all__ = ["Tool", "ToolSpecification", "Toolbox"]

_logger = logging.getLogger("chatmemory.assistant")


@dataclass(frozen=True)
class ToolSpecification:
    """The description of a tool that the model gets."""

    name: str

    description: str
    """The purpose of the tool and when to call it; may be empty."""

    parameters: Schema
    """The JSON Schema of the arguments, an object."""


class Tool:
    """A function, with its description for the model.

    Its parameters are described by their types (:func:`chatmemory.assistant.schemas.schema_of`), and the model's
    arguments are checked against them. The return value is the result's text, as JSON if it is no text; None is
    ``Success``. An exception becomes a result that is marked as an error: the text of a ``ToolError``, or only the
    class of any other exception, because its text may be confidential. The log has that text.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        """
        Args:
            function: sync or async.
            name: by default the function's.
            description: by default the function's docstring.
            parameters: a JSON Schema instead of the one made of the function's types. Then the only check is that the
                function takes arguments of these names.

        Raises:
            TypeError: ``function`` is none, or a parameter has no type, or one without a schema.
        """
        if not callable(function):
            raise TypeError(f"a tool must be a function or a Tool, but is: {type(function).__name__}")
        self._function = function
        self._signature = inspect.signature(function)
        called = name if name is not None else getattr(function, "__name__", type(function).__name__)
        self._types = None if parameters is not None else _types(function, self._signature, called)
        self._required = [
            parameter.name
            for parameter in self._signature.parameters.values()
            if parameter.default is inspect.Parameter.empty
        ]
        if parameters is None:
            schema: Schema = {
                "type": "object",
                "properties": {
                    one: schema_of(kind, f"parameter {one} of tool {called}") for one, kind in self._types.items()
                }
                if self._types
                else {},
                "required": self._required,
                "additionalProperties": False,
            }
        else:
            schema = dict(parameters)
        said = description if description is not None else inspect.getdoc(function) or ""
        self.specification = ToolSpecification(called, said, schema)

    def run(self, request: ToolExecutionRequest) -> ToolExecutionResultMessage:
        """Run the tool and return its result, which may be an error for the model to read."""
        try:
            arguments = self._arguments(request)
            if self._is_async:
                return _result(request, async_to_sync(self._function)(**arguments))
            value = self._function(**arguments)
            # A decorator may hide that a function is async.
            return _result(request, async_to_sync(_awaited)(value) if inspect.isawaitable(value) else value)
        except Exception as error:
            return _failure(request, error)

    async def arun(
        self, request: ToolExecutionRequest, begin: Callable[[], object] | None = None
    ) -> ToolExecutionResultMessage:
        """Async twin of :meth:`run`. A sync function runs in a thread in which it may use the database.

        Args:
            request: the call.
            begin: called in that thread before the function; what it raises is raised here.
        """
        try:
            arguments = self._arguments(request)
            if self._is_async:
                return _result(request, await self._function(**arguments))
        except Exception as error:
            return _failure(request, error)

        def call() -> tuple[Any, Exception | None]:
            if begin is not None:
                begin()
            try:
                return self._function(**arguments), None
            except Exception as error:
                return None, error

        value, failed = await in_thread_for_functions(call)
        try:
            if failed is not None:
                raise failed
            return _result(request, await value if inspect.isawaitable(value) else value)
        except Exception as error:
            return _failure(request, error)

    @property
    def _is_async(self) -> bool:
        function = self._function
        return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004
        )

    def _arguments(self, request: ToolExecutionRequest) -> dict[str, Any]:
        try:
            given = loads(request.arguments or "{}")
        except ValueError as error:
            raise ArgumentError(f"The arguments are not JSON: {error}") from None
        if self._types is not None:
            return read_values(given, self._types, self._required, "")
        if not isinstance(given, dict):
            raise ArgumentError("The arguments must be a JSON object")
        try:
            self._signature.bind(**given)
        except TypeError as error:
            raise ArgumentError(f"The arguments are wrong: {error}") from None
        return given


class Toolbox:
    """The tools of one assistant."""

    def __init__(self, tools: Iterable[Tool | Callable[..., Any]], max_result_chars: int = 100_000) -> None:
        """Make tools of functions.

        Args:
            tools: the tools, and functions.
            max_result_chars: the number of characters after which a result is cut.

        Raises:
            TypeError: one of ``tools`` cannot be a tool.
            ValueError: two have one name.
        """
        self._max_chars = max_result_chars
        self._tools: dict[str, Tool] = {}
        for given in tools:
            tool = given if isinstance(given, Tool) else Tool(given)
            name = tool.specification.name
            if name in self._tools:
                raise ValueError(f"two tools are called {name!r}; give one another name: Tool(function, name=…)")
            self._tools[name] = tool
        self.specifications: Sequence[ToolSpecification] = tuple(tool.specification for tool in self._tools.values())

    def run(self, request: ToolExecutionRequest) -> ToolExecutionResultMessage:
        """Run the called tool and return its result, which may be an error for the model to read."""
        tool = self._tools.get(request.name or "")
        return self._bounded(self._unknown(request) if tool is None else tool.run(request))

    async def arun(
        self, request: ToolExecutionRequest, begin: Callable[[], object] | None = None
    ) -> ToolExecutionResultMessage:
        """Async twin of :meth:`run`; ``begin`` as in :meth:`Tool.arun`."""
        tool = self._tools.get(request.name or "")
        return self._bounded(self._unknown(request) if tool is None else await tool.arun(request, begin))

    def _bounded(self, result: ToolExecutionResultMessage) -> ToolExecutionResultMessage:
        text = result.text or ""
        if len(text) <= self._max_chars:
            return result
        cut = f"{text[: self._max_chars]}\n[The result was cut here: it had {len(text)} characters.]"
        return ToolExecutionResultMessage(result.id, result.tool_name, cut, is_error=result.is_error)

    def _unknown(self, request: ToolExecutionRequest) -> ToolExecutionResultMessage:
        there = ", ".join(self._tools) or "none"
        return _error(request, f"There is no tool {request.name!r:.100}. There is: {there}.")


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


def _types(function: Callable[..., Any], signature: inspect.Signature, name: str) -> dict[str, Any]:
    hinted = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    try:
        hints = _hints(hinted)
    except NameError as error:
        raise TypeError(
            f"tool {name}: a type of its parameters cannot be read: {error}; import it where the function is, and not "
            "under TYPE_CHECKING"
        ) from error
    found = {}
    for parameter in signature.parameters.values():
        place = f"parameter {parameter.name} of tool {name}"
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{place} cannot be passed by name")
        if parameter.name not in hints:
            raise TypeError(f"{place} has no type; write one, such as {parameter.name}: str")
        found[parameter.name] = hints[parameter.name]
    return found


def _hints(function: Any) -> dict[str, Any]:
    """Return the types of the parameters. The result's is of no use to a model, and may be for type checkers only."""
    given = inspect.get_annotations(function)
    parameters = types.SimpleNamespace(__annotations__={one: kind for one, kind in given.items() if one != "return"})
    names = getattr(inspect.unwrap(function), "__globals__", {})
    return typing.get_type_hints(parameters, globalns=names, include_extras=True)


def _result(request: ToolExecutionRequest, value: Any) -> ToolExecutionResultMessage:
    if value is None:
        text = "Success"
    elif isinstance(value, str):
        text = value
    else:
        text = json.dumps(value, ensure_ascii=False, default=_plain)
    try:
        return ToolExecutionResultMessage(request.id, request.name, require_storable(text, "the result"))
    except InvalidMessageError as error:
        return _error(request, str(error))


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return str(value)


def _failure(request: ToolExecutionRequest, error: Exception) -> ToolExecutionResultMessage:
    if isinstance(error, (ArgumentError, ToolError)):
        return _error(request, str(error))
    _logger.error("The tool %s failed", request.name, exc_info=error)
    return _error(request, f"The tool failed: {type(error).__name__}")


def _error(request: ToolExecutionRequest, text: str) -> ToolExecutionResultMessage:
    # Characters that cannot be stored must not keep the model from learning that the tool failed.
    storable = text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")
    return ToolExecutionResultMessage(request.id, request.name, storable, is_error=True)
