"""The two tools that the demo's models may call, both local."""

from __future__ import annotations

from typing import Annotated

from chatmemory.assistant import ToolError
from demo_project.chat.arithmetic import ArithmeticProblem, calculate

__all__ = ["TOOLS", "calculator", "look_up_order"]

_ORDERS = {
    "1001": "a blue teapot, on its way, arrives on Friday",
    "1002": "two mugs, being packed, leave tomorrow",
    "1003": "a bread knife, delivered on Monday",
    "1004": "a garden chair, cancelled and refunded",
}


def calculator(expression: Annotated[str, "For example 12*(3+4)."]) -> str:
    """Work out arithmetic."""
    try:
        return f"{expression.strip()} = {calculate(expression)}"
    except ArithmeticProblem as problem:
        raise ToolError(f"{expression.strip()[:100]} cannot be calculated: {problem}.") from problem


# Models often pass an order's number as a number.
def look_up_order(number: Annotated[str | int, "The order's number, for example 1001."]) -> str:
    """Say where an order is."""
    found = _ORDERS.get(str(number))
    if found is None:
        raise ToolError(f"There is no order {str(number)[:100]}. The demo knows {', '.join(_ORDERS)}.")
    return f"Order {number}: {found}."


TOOLS = [calculator, look_up_order]
