"""The reader of tool parts: a call, its result, or both; see :mod:`chatmemory.formats.ai_sdk`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from chatmemory.core.contents import Content
from chatmemory.core.messages import ToolExecutionRequest, ToolExecutionResultMessage
from chatmemory.core.serialization.fields import Fields, expected
from chatmemory.core.serialization.storable import require_json
from chatmemory.formats.ai_sdk.content_parts import read_file, read_text
from chatmemory.formats.ai_sdk.json_values import text_of
from chatmemory.formats.ai_sdk.rest import KEY, attributes_in, rest_of

__all__ = ["Result", "read_tool"]

_STATES = (
    "input-streaming",
    "input-available",
    "approval-requested",
    "approval-responded",
    "output-available",
    "output-error",
    "output-denied",
)
_DENIED = "Tool call execution denied."  # as the AI SDK tells a model
_PARTS = {"text": read_text, "file": read_file}


class Result(NamedTuple):
    """A tool result, and its place."""

    message: ToolExecutionResultMessage

    at: int | None
    """Its number among what the assistant message is made of; None behind its call."""


def read_tool(fields: Fields) -> tuple[ToolExecutionRequest | None, Result | None]:
    """Read the call and the result of a part, either of which may be missing.

    A call whose input was still under way is none, and what a tool said before it was done is no result.
    """
    state = fields.choice("state", _STATES)
    call_rest = rest_of(fields, "callProviderMetadata") or {}
    rest_place = f"{fields.at('callProviderMetadata')}.{KEY}"
    id, name = fields.text("toolCallId"), fields.text("toolName")
    call = ToolExecutionRequest(
        _replaced(call_rest, "id", id, rest_place),
        _replaced(call_rest, "name", name, rest_place),
        _arguments(fields, call_rest, rest_place),
    )
    result = _result(fields, state, call)
    is_call = state != "input-streaming" and call_rest.get("call") is not False
    return (call if is_call else None), result


def _arguments(fields: Fields, rest: Mapping[str, Any], place: str) -> str | None:
    raw = _any(fields, "rawInput")
    input = _any(fields, "input")
    if input is None:
        input = raw
    if input is None or rest.get("arguments", "") is None:
        return None
    require_json(input, fields.at("input"))
    require_json(rest, place)
    return text_of(input, rest)


def _result(fields: Fields, state: str, call: ToolExecutionRequest) -> Result | None:
    rest = rest_of(fields, "resultProviderMetadata") or {}
    place = f"{fields.at('resultProviderMetadata')}.{KEY}"
    output, preliminary = _any(fields, "output"), _any(fields, "preliminary")
    is_error: bool | None = True
    match state:
        case "output-available" if preliminary is not True:
            require_json(output, fields.at("output"))
            text = text_of(output, rest)
            is_error = False if rest.get("isError") is False else None
        case "output-error":
            text = fields.text("errorText")
        case "output-denied":
            approval = _any(fields, "approval")
            text = (Fields(approval, fields.at("approval")).optional_text("reason") if approval else None) or _DENIED
        case _:
            return None
    contents = _contents(rest, output, fields.at("output.value"), f"{place}.contents")
    return Result(
        ToolExecutionResultMessage(
            _replaced(rest, "id", call.id, place),
            _replaced(rest, "toolName", call.name, place),
            None if contents else text,
            contents=contents,
            is_error=is_error,
            attributes=attributes_in(rest, place),
        ),
        _at(rest, place),
    )


def _contents(rest: Mapping[str, Any], output: Any, at_output: str, at_rest: str) -> list[Content] | None:
    """Return the contents of a result that is more than a text."""
    contents, place = rest.get("contents"), at_rest
    if contents is True:
        contents, place = output.get("value") if isinstance(output, Mapping) else None, at_output
    elif contents is None:
        return None
    if not isinstance(contents, (list, tuple)):
        raise expected("a list of parts", contents, place)
    return [
        Fields(part, f"{place}[{index}]").build(lambda fields: _PARTS[fields.choice("type", _PARTS)](fields))
        for index, part in enumerate(contents)
    ]


def _any(fields: Fields, key: str) -> Any:
    """Take out a value of any kind; return None for one that is missing."""
    return fields.value(key, object, "anything") if fields.has(key) else None


def _replaced(rest: Mapping[str, Any], key: str, default: str | None, place: str) -> str | None:
    return Fields(rest, place).optional_text(key) if key in rest else default


def _at(rest: Mapping[str, Any], place: str) -> int | None:
    at = rest.get("at")
    if at is not None and (not isinstance(at, int) or isinstance(at, bool) or at < 0):
        raise expected("a number from 0 on", at, f"{place}.at")
    return at
