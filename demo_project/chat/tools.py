"""The two tools that the demo's models may call, both local."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from chatmemory.messages import ToolExecutionRequest, ToolExecutionResultMessage
from demo_project.chat.arithmetic import ArithmeticProblem, calculate

__all__ = ["CALCULATOR", "LOOK_UP_ORDER", "SPECIFICATIONS", "run_tool"]

CALCULATOR = "calculator"
LOOK_UP_ORDER = "look_up_order"

_ORDERS = {
    "1001": "a blue teapot, on its way, arrives on Friday",
    "1002": "two mugs, being packed, leave tomorrow",
    "1003": "a bread knife, delivered on Monday",
    "1004": "a garden chair, cancelled and refunded",
}


def _calculator(expression: str) -> str:
    try:
        return f"{expression.strip()} = {calculate(expression)}"
    except ArithmeticProblem as problem:
        raise _ToolError(f"{expression.strip()[:100]} cannot be calculated: {problem}.") from problem


def _look_up_order(number: str) -> str:
    if number not in _ORDERS:
        raise _ToolError(f"There is no order {number[:100]}. The demo knows {', '.join(_ORDERS)}.")
    return f"Order {number}: {_ORDERS[number]}."


class _ToolError(Exception):
    """What the model is told instead of a result."""


_TOOLS: dict[str, tuple[str, Callable[[str], str]]] = {
    CALCULATOR: ("expression", _calculator),
    LOOK_UP_ORDER: ("number", _look_up_order),
}


def _specification(name: str, description: str, argument: str, what: str) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": {argument: {"type": "string", "description": what}},
        "required": [argument],
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


SPECIFICATIONS = [
    _specification(CALCULATOR, "Works out arithmetic.", "expression", "For example 12*(3+4)."),
    _specification(LOOK_UP_ORDER, "Says where an order is.", "number", "The order's number, for example 1001."),
]
"""The tools, as OpenAI's ``tools=`` takes them."""


def run_tool(request: ToolExecutionRequest) -> ToolExecutionResultMessage:
    """What a call gives, which may be an error for the model to read."""
    try:
        text, failed = _run(request), False
    except _ToolError as error:
        text, failed = str(error), True
    return ToolExecutionResultMessage(request.id, request.name, text, is_error=failed)


def _run(request: ToolExecutionRequest) -> str:
    if request.name not in _TOOLS:
        raise _ToolError(f"There is no tool {request.name!r:.100}.")
    argument, tool = _TOOLS[request.name]
    try:
        arguments = json.loads(request.arguments or "{}")
    except (ValueError, RecursionError) as error:
        raise _ToolError("The arguments are not JSON.") from error
    value = arguments.get(argument) if isinstance(arguments, dict) else None
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)  # models like to give an order's number as one
    if not isinstance(value, str):
        raise _ToolError(f"The arguments need a string {argument!r}.")
    return tool(value)
