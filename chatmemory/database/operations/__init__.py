"""The changes of a conversation's memory. Each change is one transaction."""

from chatmemory.database.operations.add import add
from chatmemory.database.operations.change_window import (
    calibrate,
    estimate_request,
    make_room,
    recount,
    reserve,
    room_to_recall,
    set_window,
)
from chatmemory.database.operations.clear_tool_results import clear_tool_results
from chatmemory.database.operations.pin import pin, unpin
from chatmemory.database.operations.rewrite import clear, erase, rewrite

__all__ = [
    "add",
    "calibrate",
    "clear",
    "clear_tool_results",
    "erase",
    "estimate_request",
    "make_room",
    "pin",
    "recount",
    "reserve",
    "rewrite",
    "room_to_recall",
    "set_window",
    "unpin",
]
