"""The fields of answers, tool calls and results in an assistant message; see :mod:`chatmemory.formats.ai_sdk`."""

from __future__ import annotations

from typing import Any

from chatmemory.core.contents import TextContent
from chatmemory.core.messages import AiMessage, ToolExecutionRequest, ToolExecutionResultMessage
from chatmemory.formats.ai_sdk.calls import Call
from chatmemory.formats.ai_sdk.content_parts import content_part
from chatmemory.formats.ai_sdk.json_values import value_of
from chatmemory.formats.ai_sdk.rest import attributes_of

__all__ = ["alone_rest", "call_fields", "result_fields", "step_rest"]


def step_rest(message: AiMessage) -> dict[str, Any] | None:
    """Return what the parts of an answer do not say; None if they say all."""
    if message.attributes:
        return {"attributes": attributes_of(message)}
    says_nothing = message.text is None and message.thinking is None and not message.tool_execution_requests
    return {} if says_nothing else None


def call_fields(request: ToolExecutionRequest, call: Call) -> tuple[Any, dict[str, Any]]:
    """Return the input of a call, and what a reader needs beside it."""
    rest = _call_rest(call)
    if request.arguments is None:
        return {}, {**rest, "arguments": None}
    value, spelling = value_of(request.arguments)
    return value, {**rest, **spelling}


def alone_rest(call: Call) -> dict[str, Any]:
    """Return what a reader needs beside the place of a result that answers no call."""
    return {"call": False, **_call_rest(call)}


def _call_rest(call: Call) -> dict[str, Any]:
    rest: dict[str, Any] = {}
    if call.id != call.given_id:
        rest["id"] = call.given_id
    if call.name is None:
        rest["name"] = None
    return rest


def result_fields(
    result: ToolExecutionResultMessage, call: Call, at: int | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return ``{"output": …}`` or ``{"errorText": …}`` for a result, and what a reader needs beside it.

    Args:
        result: the result.
        call: the call that it answers, or its place.
        at: its number among what the assistant message is made of; None if that is where a reader expects it.
    """
    rest: dict[str, Any] = {}
    if result.id != call.given_id:
        rest["id"] = result.id
    if result.tool_name != call.name:
        rest["toolName"] = result.tool_name
    if result.is_error is False:
        rest["isError"] = False
    said, of_contents = _said(result)
    rest |= of_contents
    if result.attributes:
        rest["attributes"] = attributes_of(result)
    if at is not None:
        rest["at"] = at
    return said, rest


def _said(result: ToolExecutionResultMessage) -> tuple[dict[str, Any], dict[str, Any]]:
    [first, *others] = result.contents
    if others or not isinstance(first, TextContent):
        parts = [content_part(content) for content in result.contents]
        if result.is_error:
            return {"errorText": result.text or ""}, {"contents": parts}
        return {"output": {"type": "content", "value": parts}}, {"contents": True}
    if result.is_error:
        return {"errorText": first.text}, {}
    value, spelling = value_of(first.text)
    return {"output": value}, spelling
