"""Parameters of typed dicts, and of items that come one by one."""

from __future__ import annotations

import sys
import typing
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired, Optional, Required

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from chatmemory import ToolExecutionRequest
from chatmemory.assistant import Tool


class Leaf(TypedDict):
    """One leaf."""

    grams: Annotated[float, "On the scale."]


class Tea(Leaf, total=False):
    name: Required[str]
    leaves: list[Leaf]
    best: Optional[Leaf]  # noqa: UP045 - a union of typing's


class Blend(TypedDict, total=False):
    of: dict[str, Tea]
    note: NotRequired[str]


@dataclass
class Counts:
    of: Iterable[int]


class Numbered(TypedDict):
    numbers: Iterable[int]


def tool_of(kind: Any, call: Callable[[Any], Any]) -> Tool:
    def tool(x: Any) -> Any:
        """Does it."""
        return call(x)

    tool.__annotations__["x"] = kind
    return Tool(tool)


def result(kind: Any, arguments: str, call: Callable[[Any], Any] = lambda x: x) -> tuple[str | None, bool | None]:
    said = tool_of(kind, call).run(ToolExecutionRequest("1", "tool", f'{{"x": {arguments}}}'))
    return said.text, said.is_error


class TestTypedDicts:
    @pytest.mark.parametrize(
        ("kind", "arguments"),
        [
            (Leaf, '{"grams": 2.5}'),
            (list[Leaf], '[{"grams": 2.5}]'),
            (Leaf | None, '{"grams": 2.5}'),
            (Optional[Leaf], '{"grams": 2.5}'),  # noqa: UP045
            (Annotated[Leaf, "Green."], '{"grams": 2.5}'),
            (Tea, '{"grams": 2.5, "name": "Sencha"}'),
            (Tea, '{"grams": 2.5, "name": "Sencha", "leaves": [{"grams": 1.0}], "best": null}'),
            (Blend, '{"of": {"a": {"grams": 2.5, "name": "Sencha"}}}'),
            (dict[str, Blend], '{"a": {}}'),
        ],
    )
    def test_are_read(self, kind: Any, arguments: str) -> None:
        assert result(kind, arguments) == (arguments, None)

    @pytest.mark.parametrize(
        ("kind", "arguments", "problem"),
        [
            (Leaf, "{}", "x.grams is missing"),
            (Leaf, '{"grams": "2"}', "x.grams: Input should be a valid number"),
            (list[Leaf], '[{"grams": 1.0}, {}]', "x[1].grams is missing"),
            (Tea, "{}", "x.grams is missing; x.name is missing"),
            (Tea, '{"grams": 1.0, "name": "a", "leaves": [{}]}', "x.leaves[0].grams is missing"),
            (Blend, '{"of": {"a": {"grams": 1.0}}}', "x.of.a.name is missing"),
        ],
    )
    def test_the_model_reads_what_is_wrong(self, kind: Any, arguments: str, problem: str) -> None:
        assert result(kind, arguments) == (problem, True)

    def test_are_described(self) -> None:
        [described] = tool_of(Tea, id).specification.parameters["properties"].values()
        assert described["required"] == ["grams", "name"]
        assert described["properties"]["leaves"]["items"]["description"] == "One leaf."

    @pytest.mark.skipif(sys.version_info >= (3, 12), reason="pydantic takes them")
    def test_one_that_cannot_be_read_is_an_error_that_names_the_other_kind(self) -> None:
        class Old(typing.TypedDict):
            grams: float

        with pytest.raises(TypeError, match=r"parameter x of tool tool .*Please use `typing_extensions.TypedDict`"):
            tool_of(Old, id)


class TestItems:
    @pytest.mark.parametrize(
        "kind", [Iterable[int], typing.Iterable[int], Generator[int, None, None]], ids=["abc", "typing", "generator"]
    )
    def test_come_as_their_type_says(self, kind: Any) -> None:
        assert result(kind, "[1, 2]", list) == ("[1, 2]", None)
        assert result(kind, "[]", list) == ("[]", None)
        assert result(kind, "[1, 2]", lambda x: next(iter(x))) == ("1", None)
        assert tool_of(kind, list).specification.parameters["properties"]["x"] == {
            "type": "array",
            "items": {"type": "integer"},
        }

    @pytest.mark.parametrize(
        ("kind", "arguments", "problem"),
        [
            (Iterable[int], '[1, "2"]', "x[1]: Input should be a valid integer"),
            (Iterable[Leaf], '[{"grams": 1.0}, {}]', "x[1].grams is missing"),
            (list[Iterable[int]], '[[1], ["2"]]', "x[1][0]: Input should be a valid integer"),
            (Numbered, '{"numbers": [true]}', "x.numbers[0]: Input should be a valid integer"),
            (Counts, '{"of": [null]}', "x.of[0]: Input should be a valid integer"),
            (Optional[Iterable[int]], '["2"]', "x[0]: Input should be a valid integer"),  # noqa: UP045
            (Iterable[int], "5", "x: Input should be a valid array"),
        ],
    )
    def test_the_model_reads_which_one_is_wrong_and_the_tool_does_not_run(
        self, kind: Any, arguments: str, problem: str
    ) -> None:
        has_run: list[Any] = []
        text, is_error = result(kind, arguments, has_run.append)
        assert (is_error, has_run) == (True, [])
        assert (text or "").startswith(problem)

    def test_those_of_a_model_of_pydantic_are_checked_when_they_are_read(self) -> None:
        class Order(BaseModel):
            items: Iterable[int]

        assert result(Order, '{"items": [1]}', lambda order: list(order.items)) == ("[1]", None)
        text, is_error = result(Order, '{"items": ["x"]}', lambda order: list(order.items))
        assert (text, is_error) == ("The tool failed: ValidationError", True)
