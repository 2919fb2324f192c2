"""Functions that a model may call, and the results of the calls."""

from __future__ import annotations

import inspect
import json
import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from asgiref.sync import async_to_sync

from chatmemory.assistant.errors import ToolError
from chatmemory.assistant.tool_arguments import (
    ArgumentError,
    Arguments,
    Schema,
    ToolContext,
    function_within,
    parameters_of,
    read_json,
)
from chatmemory.core.asynchronous import for_seconds, in_thread_for_functions, in_thread_for_seconds
from chatmemory.core.contents import Content, TextContent
from chatmemory.core.exceptions import InvalidMessageError, extra
from chatmemory.core.json_text import dumps
from chatmemory.core.messages import ToolExecutionRequest, ToolExecutionResultMessage
from chatmemory.core.serialization import storable_message

OnToolError: TypeAlias = Callable[[Exception], str]
"""A function of what a tool raised, which returns the text for the model."""

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

    Its parameters are described by their types, which may be any that pydantic has a JSON Schema for, and the model's
    arguments are checked against them. ``Annotated[T, "text"]`` describes one. A parameter of the type
    ``ToolContext`` is not shown to the model, but filled; nor are those that a
    ``functools.partial`` has filled.

    A text that is returned is the result's text, None is ``Success``. A ``Content``, or a list of them and of texts,
    are the result's contents. Any other value is written as JSON.

    An exception becomes a result that is marked as an error: the text of a ``ToolError``, or only the class of any
    other exception, because its text may be confidential. The log has that text.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> None:
        """
        Args:
            function: sync or async; it may be a ``functools.partial``.
            name: by default the function's.
            description: by default the function's docstring.
            parameters: a JSON Schema instead of the one made of the function's types. Then the only check is that the
                function takes arguments of these names.
            timeout: the seconds that a call may take; by default the assistant's ``tool_timeout``. ``math.inf`` is no
                limit. See there for what happens then.

        Raises:
            TypeError: ``function`` cannot be called, or a parameter has no type, or one without a schema.
            ValueError: ``timeout`` is not above zero.
            ImportError: pydantic is not installed, and there are no ``parameters``.
        """
        if not callable(function):
            raise TypeError(f"a tool must be a function or a Tool, but is: {type(function).__name__}")
        if timeout is not None and not timeout > 0:
            raise ValueError(f"timeout must be greater than zero, but is: {timeout}")
        self._function = function
        self.timeout = timeout
        """The seconds that a call may take; None for the assistant's ``tool_timeout``."""
        within = function_within(function)
        called = name if name is not None else getattr(within, "__name__", type(within).__name__)
        found = parameters_of(function, called, is_typed=parameters is None)
        self._of_context = found.of_context
        self._signature = inspect.signature(function)
        self._arguments = Arguments(found, called) if parameters is None else None
        said = description if description is not None else inspect.getdoc(within) or ""
        schema = dict(parameters or {}) if self._arguments is None else self._arguments.schema
        self.specification = ToolSpecification(called, said, schema)

    @property
    def needs_context(self) -> bool:
        """Whether the function has a parameter for the ``ToolContext``."""
        return bool(self._of_context)

    def run(
        self,
        request: ToolExecutionRequest,
        context: ToolContext | None = None,
        on_error: OnToolError | None = None,
        *,
        timeout: float | None = None,
    ) -> ToolExecutionResultMessage:
        """Run the tool and return its result, which may be an error for the model to read.

        Args:
            request: the call.
            context: who calls; by default an empty one.
            on_error: returns the text that the model reads if the function raises something else than a ``ToolError``.
            timeout: the seconds that the call may take if the tool itself has no limit.

        Raises:
            Exception: what ``on_error`` raised.
        """
        seconds = self.limit(timeout)
        try:
            arguments = self._read(request, context)
            if self._is_async:
                return result_of(request, async_to_sync(_within)(partial(self._function, **arguments), seconds))
            call = partial(self._function, **arguments)
            if seconds is None:
                value = call()
            elif (ended := in_thread_for_seconds(call, seconds)) is None:
                raise _too_long(seconds)
            else:
                [value] = ended
            # A decorator may hide that a function is async.
            return result_of(
                request, async_to_sync(_within)(lambda: value, seconds) if inspect.isawaitable(value) else value
            )
        except Exception as error:
            return _failure(request, error, on_error)

    async def arun(
        self,
        request: ToolExecutionRequest,
        context: ToolContext | None = None,
        on_error: OnToolError | None = None,
        *,
        timeout: float | None = None,
        begin: Callable[[], object] | None = None,
    ) -> ToolExecutionResultMessage:
        """Async version of ``run``. A sync function runs in a thread in which it may use the database.

        Args:
            request: the call.
            context: who calls; by default an empty one.
            on_error: as in ``run``; it is called in the thread of the event loop.
            timeout: as in ``run``.
            begin: called in that thread before the function; what it raises is raised here.
        """
        seconds = self.limit(timeout)
        try:
            arguments = self._read(request, context)
            if self._is_async:
                return result_of(request, await _within(partial(self._function, **arguments), seconds))
        except Exception as error:
            return _failure(request, error, on_error)

        def call() -> tuple[Any, Exception | None]:
            if begin is not None:
                begin()
            try:
                return self._function(**arguments), None
            except Exception as error:
                return None, error

        try:
            # The thread of the caller would not be free for the rest of the turn before the function ends.
            value, raised = await _within(partial(in_thread_for_functions, call, of_caller=seconds is None), seconds)
        except _TooLongError as error:
            value, raised = None, error
        try:
            if raised is not None:
                raise raised
            return result_of(request, await _within(lambda: value, seconds) if inspect.isawaitable(value) else value)
        except Exception as error:
            return _failure(request, error, on_error)

    def limit(self, timeout: float | None = None) -> float | None:
        """Return the seconds that a call may take, if those of a tool without a limit are ``timeout``; None if any."""
        seconds = timeout if self.timeout is None else self.timeout
        return None if seconds is None or math.isinf(seconds) else seconds

    @property
    def _is_async(self) -> bool:
        function = self._function
        return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004
        )

    def _read(self, request: ToolExecutionRequest, context: ToolContext | None) -> dict[str, Any]:
        """Return all arguments of a call."""
        filled = {name: context or ToolContext() for name in self._of_context}
        if self._arguments is not None:
            return self._arguments.read(request.arguments) | filled
        given = read_json(request.arguments)
        try:
            self._signature.bind(**given, **filled)
        except TypeError as error:
            raise ArgumentError(f"The arguments are wrong: {error}") from None
        return given | filled


class Toolbox:
    """The tools of one assistant."""

    def __init__(
        self,
        tools: Iterable[Tool | Callable[..., Any]],
        max_result_chars: int = 100_000,
        on_error: OnToolError | None = None,
        timeout: float | None = None,
    ) -> None:
        """Make tools of functions.

        Args:
            tools: the tools, and functions.
            max_result_chars: the number of characters after which a result is cut.
            on_error: as in ``Tool.run``.
            timeout: the seconds that a call may take; None if any.

        Raises:
            TypeError: one of ``tools`` cannot be a tool.
            ValueError: two have one name.
        """
        self._max_chars = max_result_chars
        self._on_error = on_error
        self._timeout = timeout
        self._tools: dict[str, Tool] = {}
        for given in tools:
            tool = given if isinstance(given, Tool) else Tool(given)
            name = tool.specification.name
            if name in self._tools:
                raise ValueError(f"two tools are called {name!r}; give one another name: Tool(function, name=…)")
            self._tools[name] = tool
        self.specifications: Sequence[ToolSpecification] = tuple(tool.specification for tool in self._tools.values())
        self.definitions = dumps([vars(tool) for tool in self.specifications]) if self.specifications else ""
        """The tools as requests describe them, as JSON; empty if there are none."""

    def limits(self) -> dict[str, float]:
        """Return the seconds that each tool's calls may take, by name, of those that have a limit."""
        limits = {name: tool.limit(self._timeout) for name, tool in self._tools.items()}
        return {name: seconds for name, seconds in limits.items() if seconds is not None}

    def needs_context(self, request: ToolExecutionRequest) -> bool:
        """Return whether the called tool wants to know who calls."""
        tool = self._tools.get(request.name or "")
        return tool is not None and tool.needs_context

    def run(self, request: ToolExecutionRequest, context: ToolContext | None = None) -> ToolExecutionResultMessage:
        """Run the called tool and return its result, which may be an error for the model to read."""
        tool = self._tools.get(request.name or "")
        if tool is None:
            return self._bounded(self._unknown(request))
        return self._bounded(tool.run(request, context, self._on_error, timeout=self._timeout))

    async def arun(
        self,
        request: ToolExecutionRequest,
        context: ToolContext | None = None,
        *,
        begin: Callable[[], object] | None = None,
    ) -> ToolExecutionResultMessage:
        """Async version of ``run``; ``begin`` as in ``Tool.arun``."""
        tool = self._tools.get(request.name or "")
        if tool is None:
            return self._bounded(self._unknown(request))
        return self._bounded(await tool.arun(request, context, self._on_error, timeout=self._timeout, begin=begin))

    def _bounded(self, result: ToolExecutionResultMessage) -> ToolExecutionResultMessage:
        return bounded(result, self._max_chars)

    def _unknown(self, request: ToolExecutionRequest) -> ToolExecutionResultMessage:
        there = ", ".join(self._tools) or "none"
        return failed(request, f"There is no tool {request.name!r:.100}. There is: {there}.")


class _TooLongError(ToolError):
    """A call that did not end in time."""


def _too_long(seconds: float) -> _TooLongError:
    return _TooLongError(
        f"The call did not end within {seconds:g} seconds, and was given up. Whether it had an effect is not known."
    )


async def _within(call: Callable[[], Awaitable[Any]], seconds: float | None) -> Any:
    """Await what ``call`` returns, and cancel it after so many seconds; with None never.

    Raises:
        _TooLongError: it did not end in time.
        Exception: what was raised.
    """
    if (ended := await for_seconds(call, seconds)) is None:
        raise _too_long(seconds or 0)
    return ended[0]


def _failure(
    request: ToolExecutionRequest, error: Exception, on_error: OnToolError | None
) -> ToolExecutionResultMessage:
    if isinstance(error, _TooLongError):
        _logger.warning("The tool %s took too long: %s", request.name, error)
    if isinstance(error, (ArgumentError, ToolError)):
        return failed(request, str(error))
    _logger.error("The tool %s failed", request.name, exc_info=error)
    if on_error is None:
        return failed(request, f"The tool failed: {type(error).__name__}")
    text = on_error(error)
    if not isinstance(text, str):
        raise TypeError(f"on_tool_error must return a text, but returned: {type(text).__name__}")
    return failed(request, text)


def result_of(request: ToolExecutionRequest, value: Any) -> ToolExecutionResultMessage:
    """Return the result of a call that returned ``value``.

    A text is the result's text, None is ``Success``; a ``Content``, or a list of them and of texts, are its contents;
    any other value is written as JSON.

    Raises:
        Exception: pydantic cannot write the value.
    """
    contents = _contents(value)
    try:
        if contents:
            return _storable(ToolExecutionResultMessage(request.id, request.name, contents=contents))
        text = "Success" if value is None else value if isinstance(value, str) else _json(value)
        return _storable(ToolExecutionResultMessage(request.id, request.name, text))
    except InvalidMessageError as error:
        return failed(request, str(error))


def failed(request: ToolExecutionRequest, text: str) -> ToolExecutionResultMessage:
    """Return the result of a call that failed, with ``text`` for the model to read."""
    return _storable(ToolExecutionResultMessage(request.id, request.name, text, is_error=True))


def _storable(result: ToolExecutionResultMessage) -> ToolExecutionResultMessage:
    storable = storable_message(result)
    assert isinstance(storable, ToolExecutionResultMessage)
    return storable


def bounded(result: ToolExecutionResultMessage, most: int) -> ToolExecutionResultMessage:
    """Return a result with at most ``most`` characters of text, and a line that says so if it was cut."""
    text = result.text or ""
    if len(text) <= most:
        return result
    note = f"[The result was cut here: it had {len(text)} characters.]"
    if len(result.contents) == 1:
        return replace(result, contents=(TextContent(f"{text[:most]}\n{note}"),))
    return replace(result, contents=(*_cut(result.contents, most), TextContent(note)))


def _cut(contents: tuple[Content, ...], left: int) -> Iterator[Content]:
    """Yield contents until their texts have so many characters; other content stays."""
    for content in contents:
        if not isinstance(content, TextContent):
            yield content
        elif left > 0:
            yield TextContent(content.text[:left])
            left -= len(content.text)


def _contents(value: Any) -> list[Content]:
    """Return the contents that a tool returned; none if it returned something else."""
    if isinstance(value, Content):
        return [value]
    if not isinstance(value, (list, tuple)) or not any(isinstance(one, Content) for one in value):
        return []
    if not all(isinstance(one, (str, Content)) for one in value):
        return []
    return [TextContent(one) if isinstance(one, str) else one for one in value]


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except TypeError:  # it holds what JSON does not have
        with extra("assistant"):
            from pydantic_core import to_jsonable_python
        plain = to_jsonable_python(value, by_alias=False, bytes_mode="base64", fallback=str)
        return json.dumps(plain, ensure_ascii=False)
