"""Python functions as tools: what the model is told, and what becomes of what it gives."""

from __future__ import annotations

import asyncio
import datetime
import functools
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory import AiMessage, MessageWindowChatMemory, ToolExecutionRequest, ToolExecutionResultMessage
from chatmemory.assistant import Assistant, Tool, ToolError, TurnLostError
from chatmemory.assistant.tool_arguments import ArgumentError, Arguments, Parameters
from chatmemory.assistant.tools import Toolbox

if TYPE_CHECKING:
    from typing import Any as OnlyForCheckers


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Item:
    name: str
    count: int = 1
    tags: list[str] = field(default_factory=list)


@dataclass
class Order:
    items: list[Item]
    colour: Colour | None = None


@dataclass
class Refund:
    amount: float

    def __post_init__(self) -> None:
        if self.amount > 55.2:
            raise ValueError("there are 55.20 left")


class Lock: ...


def call(tool: Tool, arguments: str | None) -> ToolExecutionResultMessage:
    """Its result; the async twin's is the same."""
    request = ToolExecutionRequest("1", tool.specification.name, arguments)
    result = tool.run(request)
    assert asyncio.run(tool.arun(request)) == result
    return result


def order(
    order: Order,
    to: Annotated[str, "A street and a city."],
    *,
    how: Literal["slow", "fast"] = "slow",
    limits: dict[str, float] | None = None,
) -> str:
    """Orders things.

    And pays for them.
    """
    return f"{order} {to} {how} {limits}"


def test_what_the_model_is_told() -> None:
    specification = Tool(order).specification
    assert (specification.name, specification.description) == ("order", "Orders things.\n\nAnd pays for them.")
    item = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "count": {"type": "integer", "default": 1},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["name"],
        "additionalProperties": False,
    }
    assert specification.parameters == {
        "type": "object",
        "properties": {
            "order": {
                "type": "object",
                "properties": {
                    "items": {"type": "array", "items": item},
                    "colour": {
                        "anyOf": [{"enum": ["red", "blue"], "type": "string"}, {"type": "null"}],
                        "default": None,
                    },
                },
                "required": ["items"],
                "additionalProperties": False,
            },
            "to": {"type": "string", "description": "A street and a city."},
            "how": {"enum": ["slow", "fast"], "type": "string"},
            "limits": {"anyOf": [{"type": "object", "additionalProperties": {"type": "number"}}, {"type": "null"}]},
        },
        "required": ["order", "to"],
        "additionalProperties": False,
    }


def test_what_the_function_gets() -> None:
    arguments = {"order": {"items": [{"name": "tea", "count": 2.0}], "colour": "red"}, "to": "x", "limits": {"a": 1}}
    expected = Order([Item("tea", 2)], Colour.RED)
    assert call(Tool(order), json.dumps(arguments)).text == f"{expected} x slow {{'a': 1.0}}"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("{", "The arguments are not JSON"),
        ("[" * 100_000, "The arguments are not JSON"),
        ("[]", "The arguments must be a JSON object"),
        ("{}", "order is missing; to is missing"),
        ('{"order": {"items": []}, "to": "x", "by": 1}', "by is not known; there is order, to, how, limits"),
        ('{"order": {"items": []}, "to": 1}', "to: Input should be a valid string"),
        (
            '{"order": {"items": [{"name": "a"}, {"name": true}]}, "to": "x"}',
            "order.items[1].name: Input should be a valid string",
        ),
        ('{"order": {"items": [{}]}, "to": "x"}', "order.items[0].name is missing"),
        ('{"order": {"items": {}}, "to": "x"}', "order.items: Input should be a valid array"),
        ('{"order": {"items": []}, "to": "x", "how": "no"}', "how: Input should be 'slow' or 'fast'"),
        ('{"order": {"items": [], "colour": "x"}, "to": "x"}', "order.colour: Input should be 'red' or 'blue'"),
        ('{"order": {"items": []}, "to": "x", "limits": {"a": true}}', "limits.a: Input should be a valid number"),
        ('{"order": {"items": []}, "to": "x", "limits": []}', "limits: Input should be an object"),
    ],
)
def test_wrong_arguments_are_an_error_that_the_model_can_read(arguments: str, problem: str) -> None:
    result = call(Tool(order), arguments)
    assert result.is_error
    assert problem in result.text


@pytest.mark.parametrize("arguments", [None, "", "{}"])
def test_no_arguments(arguments: str | None) -> None:
    assert call(Tool(lambda: "now", name="now"), arguments) == ToolExecutionResultMessage("1", "now", "now")


@dataclass
class Weather:
    day: datetime.date
    degrees: float


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("sunny", "sunny"),
        (None, "Success"),
        (3, "3"),
        ({"city": "Köln"}, '{"city": "Köln"}'),
        ([Weather(datetime.date(2026, 1, 2), 3.5)], '[{"day": "2026-01-02", "degrees": 3.5}]'),
    ],
)
def test_what_a_tool_returns(value: Any, text: str) -> None:
    def sync() -> Any:
        return value

    async def not_sync() -> Any:
        return value

    for function in (sync, not_sync):
        assert call(Tool(function, name="it"), "{}") == ToolExecutionResultMessage("1", "it", text)


def test_a_decorator_may_hide_that_a_function_is_async() -> None:
    async def double(number: int) -> int:
        return 2 * number

    @functools.wraps(double)
    def wrapped(**arguments: Any) -> Any:
        return double(**arguments)

    assert call(Tool(wrapped), '{"number": 2}').text == "4"


def test_the_type_of_the_result_may_be_for_checkers_only() -> None:
    def answer(number: int) -> OnlyForCheckers:
        return number

    assert call(Tool(answer), '{"number": 42}').text == "42"


def test_an_object_may_be_a_tool_and_so_may_its_method() -> None:
    class Shop:
        def __call__(self, count: int) -> int:
            return count

        def sell(self, count: int) -> int:
            return count + 1

    assert call(Tool(Shop(), name="shop"), '{"count": 1}').text == "1"
    assert call(Tool(Shop().sell), '{"count": 1}').text == "2"


class TestFailures:
    def test_the_text_of_an_exception_is_for_the_log_alone(self, caplog: pytest.LogCaptureFixture) -> None:
        def fail() -> None:
            raise ConnectionError("postgresql://shop:s3cret@10.0.0.7/shop does not answer")

        result = call(Tool(fail), "{}")
        assert (result.is_error, result.text) == (True, "The tool failed: ConnectionError")
        assert "The tool fail failed" in caplog.text
        assert "Traceback" in caplog.text
        assert "s3cret" in caplog.text
        assert {record.name for record in caplog.records} >= {"chatmemory.assistant"}

    def test_arguments_that_the_project_refuses(self, caplog: pytest.LogCaptureFixture) -> None:
        """What it says of them may be about more than them."""

        def refund(refund: Refund) -> None: ...

        result = call(Tool(refund), '{"refund": {"amount": 70}}')
        assert (result.is_error, result.text) == (True, "The tool failed: ValueError")
        assert "there are 55.20 left" in caplog.text

    def test_a_project_may_say_what_the_model_reads(self, caplog: pytest.LogCaptureFixture) -> None:
        def fail() -> None:
            raise KeyError("s3cret")

        async def afail(amount: int) -> None:
            raise ToolError("Ask Ann.") if amount else OSError("s3cret")

        heard: list[Exception] = []

        def tell(error: Exception) -> str:
            heard.append(error)
            return f"Sorry: {type(error).__name__}\x00"

        box = Toolbox([fail, afail], on_error=tell)
        for name, arguments, text in (
            ("fail", "{}", "Sorry: KeyError\ufffd"),
            ("afail", '{"amount": 0}', "Sorry: OSError\ufffd"),
            ("afail", '{"amount": 1}', "Ask Ann."),
            ("afail", '{"amount": "1"}', "amount: Input should be a valid integer"),
        ):
            request = ToolExecutionRequest("1", name, arguments)
            result = box.run(request)
            assert (result.is_error, result.text) == (True, text)
            assert asyncio.run(box.arun(request)) == result
        assert [type(error) for error in heard] == [KeyError, KeyError, OSError, OSError]
        assert "s3cret" in caplog.text

    @pytest.mark.parametrize(
        ("tell", "error"), [(lambda error: 1 / 0, ZeroDivisionError), (lambda error: 3, TypeError)]
    )
    def test_an_error_of_what_says_it_ends_the_turn(self, tell: Any, error: type[Exception]) -> None:
        def fail() -> None:
            raise KeyError

        request = ToolExecutionRequest("1", "fail", "{}")
        with pytest.raises(error):
            Toolbox([fail], on_error=tell).run(request)
        with pytest.raises(error):
            asyncio.run(Toolbox([fail], on_error=tell).arun(request))

    def test_a_tool_may_say_itself_what_went_wrong(self, caplog: pytest.LogCaptureFixture) -> None:
        def look_up() -> None:
            raise ToolError("There is no order 7.")

        assert call(Tool(look_up), "{}") == ToolExecutionResultMessage(
            "1", "look_up", "There is no order 7.", is_error=True
        )
        assert caplog.text == ""


class TestWithoutTypes:
    schema: Mapping[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}

    def test_the_schema_may_be_ones_own(self) -> None:
        tool = Tool(lambda a, b=2: a + b, name="plus", description="Adds.", parameters=self.schema)
        assert tool.specification.parameters == self.schema
        assert tool.specification.description == "Adds."
        assert call(tool, '{"a": 1}').text == "3"
        assert call(tool, '{"c": 1}').text.startswith("The arguments are wrong: ")
        assert call(tool, "3").text == "The arguments must be a JSON object"


def untyped(a): ...  # type: ignore[no-untyped-def]
def starred(*a: int) -> None: ...
def of_locks(number: int, a: list[Lock]) -> None: ...
def of_functions(a: Callable[[], None]) -> None: ...
def of_unknown(a: OnlyForCheckers) -> None: ...


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (untyped, "parameter a of tool untyped has no type; write one, such as a: str"),
        (starred, "parameter a of tool starred cannot be passed by name"),
        (of_locks, "parameter a of tool of_locks has a type without a JSON Schema; use another type, or write"),
        (of_functions, "parameter a of tool of_functions has a type without a JSON Schema"),
        (of_unknown, "tool of_unknown: a type of its parameters cannot be read: name 'OnlyForCheckers' is not defined"),
        (3, "a tool must be a function or a Tool, but is: int"),
    ],
)
def test_what_cannot_be_a_tool(function: Callable[..., Any], problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        Tool(function)


annotations = st.recursive(
    st.sampled_from([str, int, float, bool, None, Any, Literal["a", 1], Colour, Item, Order, list, dict]),
    lambda inner: st.one_of(
        inner.map(lambda one: list[one]),  # type: ignore[valid-type]
        inner.map(lambda one: Sequence[one]),  # type: ignore[valid-type]
        inner.map(lambda one: dict[str, one]),  # type: ignore[valid-type]
        inner.map(lambda one: Optional[one]),  # noqa: UP045
    ),
    max_leaves=4,
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 2.0, "a", "red", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "count", "tags", "items", "colour"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.slow
@given(annotations, json_values)
def test_a_value_is_taken_exactly_if_its_schema_takes_it(annotation: Any, value: Any) -> None:
    arguments = Arguments(Parameters({"it": annotation}, ("it",), ()), "tool")
    is_valid = jsonschema.Draft202012Validator(arguments.schema).is_valid({"it": value})
    try:
        arguments.read(json.dumps({"it": value}))
    except ArgumentError:
        assert not is_valid
    else:
        assert is_valid


class TestThreads:
    """Async code outside of requests."""

    def test_tools_do_not_wait_for_each_other(self) -> None:
        together = threading.Barrier(5)
        tool = Tool(lambda: together.wait(timeout=60), name="meet")
        request = ToolExecutionRequest("1", "meet", "{}")

        async def five() -> list[ToolExecutionResultMessage]:
            return await asyncio.gather(*(tool.arun(request) for _ in range(5)))

        assert sorted(result.text for result in asyncio.run(five())) == [*"01234"]

    def test_a_turn_that_was_lost_while_a_tool_waited_for_its_thread_runs_no_tool(self) -> None:
        ran = []

        def lost() -> None:
            raise TurnLostError("lost")

        toolbox = Toolbox([Tool(lambda: ran.append(1), name="act")])
        with pytest.raises(TurnLostError):
            asyncio.run(toolbox.arun(ToolExecutionRequest("1", "act", "{}"), begin=lost))
        assert ran == []

    def test_what_a_sync_tool_returns_to_be_awaited_is_awaited(self) -> None:
        async def late() -> str:
            return "done"

        tool = Tool(lambda: late(), name="late")
        assert asyncio.run(tool.arun(ToolExecutionRequest("1", "late", "{}"))).text == "done"


@pytest.mark.slow
def test_as_many_tools_at_once_as_there_are_threads_may_each_ask_another_assistant() -> None:
    def answer(messages: Any, tools: Any) -> AiMessage:
        return AiMessage("Four.")

    def in_process(key: Any) -> MessageWindowChatMemory:
        return MessageWindowChatMemory(id=key, max_messages=10)

    expert = Assistant(answer, memory=in_process)
    turns = range(64)
    all_there = threading.Barrier(32)  # as many as run at once

    def ask(number: int) -> str:
        all_there.wait(60)
        return str(asyncio.run(expert.achat(number, "2 + 2?")).text)

    async def use() -> list[str | None]:
        calls = [Tool(ask).arun(ToolExecutionRequest("1", "ask", f'{{"number": {turn}}}')) for turn in turns]
        async with asyncio.timeout(120):
            return [result.text for result in await asyncio.gather(*calls)]

    assert asyncio.run(use()) == ["Four." for _ in turns]
