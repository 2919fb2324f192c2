"""The strict reader of Anthropic's messages; see :mod:`chatmemory.formats.anthropic`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import groupby
from typing import Any

from chatmemory.core.contents import Content, TextContent
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.messages import (
    AiMessage,
    ChatMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.core.serialization.fields import Fields, expected
from chatmemory.core.serialization.storable import require_json
from chatmemory.formats import CannotExpressError
from chatmemory.formats.anthropic.block_reader import (
    ANSWER_BLOCKS,
    SYSTEM_BLOCKS,
    USER_BLOCKS,
    Redacted,
    Thought,
    read_content,
    read_parts,
    read_tool_result,
)
from chatmemory.formats.anthropic.block_writer import (
    REDACTED_THINKING,
    THINKING_SIGNATURE,
    answer_blocks,
    content_block,
)

__all__ = ["ATTRIBUTE", "clean_blocks", "clean_contents", "from_anthropic", "read_answer", "read_contents"]

ATTRIBUTE = "anthropic"
"""The attribute under which the blocks that messages here cannot express are kept, as ``content``."""

_OF_THE_ANSWER = (
    "id",
    "type",
    "model",
    "usage",
    "stop_reason",
    "stop_sequence",
    "stop_details",
    "container",
    "context_management",
    "diagnostics",
)


def from_anthropic(data: Any, place: str = "") -> list[ChatMessage]:
    """Read messages from ``{"system": …, "messages": […]}``, a list of messages, or one answer that the SDK dumps.

    ``null`` is the same as a field that is not there. A tool result gets the name of the tool that an earlier message
    calls by its ID.

    Args:
        place: what the data is called in errors, ``body`` say.

    Raises:
        InvalidMessageError: a ``ValueError`` that names the place: ``messages[3].content[0].tool_use_id``.
    """
    if isinstance(data, (list, tuple)):
        return _messages(data, place)
    if not isinstance(data, Mapping):
        raise expected("an object or a list of messages", data, place)
    fields = Fields(data, place)
    at = fields.at
    if "role" in data:
        return fields.build(_message)
    fields.refuse_others("system", "messages")
    if not isinstance(data.get("messages"), (list, tuple)):
        raise expected("a list of messages", data.get("messages"), at("messages"))
    system: list[ChatMessage] = []
    if data.get("system") is not None:
        require_json(data["system"], at("system"))
        text = _system_text(data["system"], at("system"))
        system = [_system(text, at("system"))] if text else []
    return system + _messages(data["messages"], at("messages"))


def _messages(data: Iterable[Any], place: str) -> list[ChatMessage]:
    messages: list[ChatMessage] = []
    tools: dict[str | None, str | None] = {}
    for index, item in enumerate(data):
        for message in Fields(item, f"{place}[{index}]").build(_message):
            if isinstance(message, AiMessage):
                tools.update({request.id: request.name for request in message.tool_execution_requests})
            elif isinstance(message, ToolExecutionResultMessage):
                message = ToolExecutionResultMessage(
                    message.id, tools.get(message.id), contents=message.contents, is_error=message.is_error
                )
            messages.append(message)
    return messages


def _message(fields: Fields) -> list[ChatMessage]:
    role = fields.choice("role", ("user", "assistant", "system"))
    place = fields.at("content")
    content = read_content(fields)
    if role == "system":
        return [_system(_system_text(content, place), place)]
    if role == "user":
        return _user(content, place)
    fields.leave(*_OF_THE_ANSWER)
    return [_kept_beside(read_answer(content, place), clean_blocks(content))]


def _system(text: str, place: str) -> SystemMessage:
    try:
        return SystemMessage(text)
    except ValueError as error:
        raise InvalidMessageError(error, place) from error


def _system_text(content: Any, place: str) -> str:
    if not isinstance(content, (str, list, tuple)):
        raise expected("a string or a list of blocks", content, place)
    return "\n\n".join(part.text for part in read_parts(content, place, SYSTEM_BLOCKS))


def _user(content: Any, place: str) -> list[ChatMessage]:
    if isinstance(content, str):
        return [UserMessage(content)]
    if not content:
        raise InvalidMessageError("expected at least one block, got none", place, code="empty")
    blocks = list(enumerate(content))
    messages: list[ChatMessage] = []
    for is_result, group in groupby(blocks, lambda item: _type(item[1]) == "tool_result"):
        some = list(group)
        if is_result:
            messages += [Fields(block, f"{place}[{index}]").build(read_tool_result) for index, block in some]
        else:
            contents = [content for index, block in some for content in _user_part(block, f"{place}[{index}]")]
            kept = clean_contents([block for _, block in some])
            try:
                same = kept == [content_block(content) for content in contents]
            except CannotExpressError as error:  # data that are no Base64
                raise InvalidMessageError(error, place) from error
            messages.append(UserMessage(contents=contents, attributes=None if same else {ATTRIBUTE: {"content": kept}}))
    return messages


def read_contents(blocks: list[Any]) -> list[Content]:
    """Read a user's blocks, which are no tool results."""
    return [content for index, block in enumerate(blocks) for content in _user_part(block, f"[{index}]")]


def clean_contents(blocks: list[Any]) -> list[dict[str, Any]]:
    """Return a user's blocks without fields that say nothing: only a model cites."""
    return [
        {key: value for key, value in block.items() if (block.get("type"), key) != ("text", "citations")}
        for block in clean_blocks(blocks)
    ]


def _user_part(block: Any, place: str) -> list[Content]:
    contents: list[Content] = read_parts([block], place, USER_BLOCKS, at=place)[0]
    return contents


def read_answer(content: Any, place: str = "") -> AiMessage:
    """Read the blocks of an answer, without what a message here has no place for."""
    parts = read_parts(content, place, ANSWER_BLOCKS)
    texts = [part.text for part in parts if isinstance(part, TextContent)]
    thoughts = [part for part in parts if isinstance(part, Thought)]
    signature = "\n".join(thought.signature for thought in thoughts)
    redacted = [part.data for part in parts if isinstance(part, Redacted)]
    attributes: dict[str, Any] = {}
    if signature:
        attributes[THINKING_SIGNATURE] = signature
    if redacted:
        attributes[REDACTED_THINKING] = redacted
    return AiMessage(
        "".join(texts) if texts else None,
        [part for part in parts if isinstance(part, ToolExecutionRequest)],
        thinking="\n".join(thought.thinking for thought in thoughts) if thoughts else None,
        attributes=attributes,
    )


def _kept_beside(answer: AiMessage, blocks: list[dict[str, Any]]) -> AiMessage:
    """Return the answer, with its blocks kept aside if writing it would not make them again."""
    with suppress(CannotExpressError):  # the name of a tool that is empty
        if answer_blocks(answer) == blocks:
            return answer
    attributes = {**answer.attributes, ATTRIBUTE: {"content": blocks}}
    return AiMessage(answer.text, answer.tool_execution_requests, thinking=answer.thinking, attributes=attributes)


def clean_blocks(content: Any) -> list[dict[str, Any]]:
    """Return the blocks without fields that say nothing."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [
        {
            key: value
            for key, value in block.items()
            if value is not None and key != "cache_control" and (key, value) != ("caller", {"type": "direct"})
        }
        for block in content
    ]


def _type(block: Any) -> Any:
    return block.get("type") if isinstance(block, Mapping) else None
