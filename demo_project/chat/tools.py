"""The tool that the demo's models may call."""

from __future__ import annotations

from typing import Annotated

from chatmemory.assistant import ToolError

__all__ = ["TOOLS", "look_up_order"]

_ORDERS = {
    "1001": "a blue teapot, on its way, arrives on Friday",
    "1002": "two mugs, being packed, leave tomorrow",
    "1003": "a bread knife, delivered on Monday",
    "1004": "a garden chair, cancelled and refunded",
}


# Models often pass an order's number as a number.
def look_up_order(number: Annotated[str | int, "The order's number, for example 1001."]) -> str:
    """Say where an order is."""
    found = _ORDERS.get(str(number))
    if found is None:
        raise ToolError(f"There is no order {str(number)[:100]}. The demo knows {', '.join(_ORDERS)}.")
    return f"Order {number}: {found}."


TOOLS = [look_up_order]
