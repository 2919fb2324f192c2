"""The results for the model, made of what tools return and raise."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from chatmemory.core.contents import Content, TextContent
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.extras import extra
from chatmemory.core.messages import ToolExecutionRequest, ToolExecutionResultMessage
from chatmemory.core.serialization.codec import message_to_json
from chatmemory.core.serialization.storable import require_json, require_storable

__all__ = ["bounded", "failed", "result_of"]


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
            result = ToolExecutionResultMessage(request.id, request.name, contents=contents)
            require_json(json.loads(message_to_json(result))["contents"], "contents")
            return result
        text = "Success" if value is None else value if isinstance(value, str) else _json(value)
        return ToolExecutionResultMessage(request.id, request.name, require_storable(text, "the result"))
    except InvalidMessageError as error:
        return failed(request, str(error))


def failed(request: ToolExecutionRequest, text: str) -> ToolExecutionResultMessage:
    """Return the result of a call that failed, with ``text`` for the model to read."""
    # Characters that cannot be stored must not keep the model from learning that the tool failed.
    storable = text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")
    return ToolExecutionResultMessage(request.id, request.name, storable, is_error=True)


def bounded(result: ToolExecutionResultMessage, most: int) -> ToolExecutionResultMessage:
    """Return a result with at most ``most`` characters of text, and a line that says so if it was cut."""
    text = result.text or ""
    if len(text) <= most:
        return result
    note = f"[The result was cut here: it had {len(text)} characters.]"
    if len(result.contents) == 1:
        cut = f"{text[:most]}\n{note}"
        return ToolExecutionResultMessage(result.id, result.tool_name, cut, is_error=result.is_error)
    contents = [*_cut(result.contents, most), TextContent(note)]
    return ToolExecutionResultMessage(result.id, result.tool_name, contents=contents, is_error=result.is_error)


def _cut(contents: tuple[Content, ...], left: int) -> Iterator[Content]:
    """Yield contents until their texts have so many characters; what is no text stays."""
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
