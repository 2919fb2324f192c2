"""The rows of messages, read and checked field by field from the lines of an export."""

from __future__ import annotations

import json

from chatmemory.core.serialization.reader import read_message
from chatmemory.models import ORDER_STEP, STAND_INS, Conversation, Message, Origin
from chatmemory.models.message_columns import to_columns
from chatmemory.models.pins import last_pin_change, problem_of_pins
from chatmemory.transfer.json_lines.lines import Line

__all__ = ["message_row"]


def message_row(line: Line, conversation: Conversation) -> Message:
    """Return the unsaved row of a message's line.

    Raises:
        BadRecordError: a field is missing, unknown or wrong.
    """
    said = line.take("message", dict, "a message", null=True)
    if line.has("problem"):
        # The export could not read the row, or not all of it, so its columns are restored as they were.
        line.text("problem")
        columns = {"type": line.text("type"), "text": line.text("text"), "payload": line.text("payload", null=True)}
    else:
        try:
            columns = to_columns(read_message(said, "message"))
        except (TypeError, ValueError) as error:
            raise line.bad(str(error)) from error
    native = line.data.pop("native", None)
    if isinstance(native, str):
        line.encodable("native", native)
    elif native is not None:
        native = json.dumps(native, separators=(",", ":"))
    origin, position = _origin(line), _position(line, conversation.next_position)
    covers_from, covers_to = _covers(line, origin, position)
    row = Message(
        conversation=conversation,
        **columns,
        native=native,
        position=position,
        token_count=line.number("token_count"),
        origin=origin,
        covers_from=covers_from,
        covers_to=covers_to,
        pins=_pins(line, conversation.version),
        memory_order=_memory_order(line, position, conversation.next_position),
        added_in=line.number("added_in"),
        evicted_in=line.number("evicted_in", null=True),
        evicted_at=line.moment("evicted_at", null=True),
        eviction_reason=line.text("eviction_reason"),
        created_at=line.moment("created_at"),
    )
    line.done()
    return row


def _origin(line: Line) -> str:
    synthetic = line.flag("synthetic")
    origin: str = line.text("origin")
    if origin not in Origin.values:
        raise line.bad(f"origin: expected one of {', '.join(Origin.values)}, got {origin[:100]!r}")
    if synthetic != (origin != Origin.SAID):
        raise line.bad(f"synthetic: expected {json.dumps(not synthetic)}, as origin is {origin!r}")
    return origin


def _position(line: Line, end: int) -> int:
    position: int = line.number("position")
    if not 0 <= position < end:
        raise line.bad(
            f"position: expected at least 0, and less than next_position, {end}, got {str(position)[:100]}; "
            "export the conversation again"
        )
    return position


def _memory_order(line: Line, position: int, end: int) -> int:
    """Return the memory order, which is never behind the end of the memory when the message came.

    Raises:
        BadRecordError: it is, or it is further in front than any message can be that came up to now.
    """
    order: int = line.number("memory_order")
    # What is added next stands one step behind the last position, or in front of all by as many steps.
    least, most = -(end - 1) * ORDER_STEP, position * ORDER_STEP
    if not least <= order <= most:
        raise line.bad(
            f"memory_order: expected from {least} to {most}, got {str(order)[:100]}; the messages that are added next "
            "would stand in the wrong place, so export the conversation again"
        )
    return order


def _covers(line: Line, origin: str, position: int) -> tuple[int | None, int | None]:
    first, last = line.number("covers_from", null=True), line.number("covers_to", null=True)
    if (first is None) != (last is None) or (first is not None and not 0 <= first <= last):
        raise line.bad(
            f"covers_from and covers_to: expected the first and the last position that the message stands for, or two "
            f"nulls, got {json.dumps(first)} and {json.dumps(last)}"
        )
    if last is not None and last >= position:
        raise line.bad(f"covers_to: expected a position before its own, {position}, got {last}")
    if first is not None and origin == Origin.SAID:
        raise line.bad(f"covers_from: expected null, as origin is {origin!r}; said messages stand for themselves")
    if first is None and origin in STAND_INS:
        raise line.bad(f"covers_from: expected a position that it stands for, as origin is {origin!r}, got null")
    return first, last


def _pins(line: Line, version: int) -> str:
    pins: str = line.text("pins")
    problem = problem_of_pins(pins)
    if not problem and pins and last_pin_change(pins) > version:
        problem = f"versions up to {version}, that of the conversation"
    if problem:
        raise line.bad(f"pins: expected {problem}, got {pins[:100]!r}")
    return pins
