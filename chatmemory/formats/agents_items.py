"""Items of the Agents SDK as messages, and back; see ``chatmemory.contrib.openai_agents``.

Reading is lenient: whatever an item is, the item itself is kept beside the message, so the message holds what it can.
Source: ``openai.types.responses.ResponseInputItemParam`` of the SDK, 3.54.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from chatmemory.core.arguments import is_blank
from chatmemory.core.contents import AudioContent, Content, TextContent
from chatmemory.core.messages import (
    AiMessage,
    ChatMessage,
    CustomMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.core.serialization import Fields
from chatmemory.formats import CannotExpressError
from chatmemory.formats.responses import CONTENTS, content_parts, text_or_parts
from chatmemory.formats.validity import arguments_text

Item = dict[str, Any]
"""An item as JSON has it."""

FRAMEWORK = "openai_agents"
"""The framework of the native forms."""

ATTRIBUTE = FRAMEWORK
"""The attribute that lists the types of the items that a message cannot express."""

# What follows these is not part of the same answer, but comes from outside: the call's output, or a human's approval.
_CALLS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "tool_search_call": "tool_search_output",
    "program": "program_output",
    "mcp_approval_request": "mcp_approval_response",
}
_RESULTS = frozenset(_CALLS.values())
_OF_FUNCTION = "function_call_output"
# What ran at OpenAI, or was thought there, is part of the answer.
_HOSTED = frozenset(
    {
        "reasoning",
        "compaction",
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "mcp_call",
        "mcp_list_tools",
        "hosted_tool_call",
    }
)


def groups(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Yield the items in groups, those of one answer of the model together.

    An answer is what the model said without anything else in between. A message without an ID begins another answer
    if a message or a call came before it: no model says several of those at once.
    """
    group: list[Item] = []
    for item in items:
        if not _is_of_answer(item):
            if group:
                yield group
            yield [item]
            group = []
            continue
        if _is_message(item) and "id" not in item and any(_is_message(said) or _is_call(said) for said in group):
            yield group
            group = []
        group.append(item)
    if group:
        yield group


def messages_of(grouped: Iterable[list[Item]]) -> Iterator[ChatMessage]:
    """Yield a message for each group. A result gets the name of the tool that an earlier group calls."""
    names: dict[str | None, str | None] = {}
    for group in grouped:
        if _is_of_answer(group[0]):
            message = answer(group)
            names |= {request.id: request.name for request in message.tool_execution_requests}
            yield message
        else:
            yield _other(group[0], names)


def answer(items: list[Item]) -> AiMessage:
    """Read the items of one answer."""
    texts = [_answer_text(item) for item in items if _is_message(item)]
    thoughts = [text for item in items if item.get("type") == "reasoning" for text in _thoughts(item)]
    silent = [
        item["type"] for item in items if not (_is_message(item) or _is_call(item) or item["type"] == "reasoning")
    ]
    return AiMessage(
        "\n".join(texts) if texts else None,
        [_request(item) for item in items if _is_call(item)],
        thinking="\n".join(thoughts) if thoughts else None,
        attributes={ATTRIBUTE: silent} if silent else None,
    )


def items_of(message: ChatMessage) -> list[Item]:
    """Return the items for a message of any framework, at least one."""
    match message:
        case SystemMessage():
            return [{"role": "system", "content": message.text}]
        case UserMessage():
            return [{"role": "user", "content": _content(message.contents)}]
        case AiMessage():
            calls = [_call(request) for request in message.tool_execution_requests]
            said = [{"role": "assistant", "content": message.text or ""}] if message.text or not calls else []
            return said + calls
        case ToolExecutionResultMessage():
            output = _content(message.contents)
            return [{"type": "function_call_output", "call_id": message.id, "output": output}]
    attributes = message.attributes if isinstance(message, CustomMessage) else {}
    return [{"role": "user", "content": f"[custom message: {_json(attributes)}]"}]


def answered_alike(written: Sequence[tuple[ChatMessage, list[Item]]]) -> list[list[Item]]:
    """Return the items of a memory in which each result is of its call's kind, for OpenAI takes no other.

    The placeholder of a cleared result is that of a function. If its call is of another kind, all calls of that answer,
    with their results, become those of functions.

    Args:
        written: each message of the memory with its items, in order.
    """
    calls: dict[str | None, tuple[int, str]] = {}
    results: dict[int, list[int]] = {}
    differing: set[int] = set()
    for index, (_message, items) in enumerate(written):
        for item in items:
            if _is_call(item):
                calls[_id(item)] = index, _CALLS[item["type"]]
            elif item.get("type") in _RESULTS and (found := calls.get(_id(item))):
                call, kind = found
                results.setdefault(call, []).append(index)
                if kind != item["type"] == _OF_FUNCTION:
                    differing.add(call)
    changed = differing.union(*(results[call] for call in differing))
    return [items_of(message) if index in changed else items for index, (message, items) in enumerate(written)]


def _id(item: Item) -> str | None:
    """Return the ID of a call, or that of the call which a result answers."""
    return next((found for key in ("call_id", "approval_request_id", "id") if (found := _text(item.get(key)))), None)


def _call(request: ToolExecutionRequest) -> Item:
    return {
        "type": "function_call",
        "call_id": request.id,
        "name": request.name or "_",
        "arguments": arguments_text(request.arguments),
    }


def _is_message(item: Item) -> bool:
    return item.get("type") in (None, "message") and item.get("role") == "assistant"


def _is_call(item: Item) -> bool:
    # A search that OpenAI makes has its output in the same answer.
    return item.get("type") in _CALLS and not _is_search_at_openai(item)


def _is_search_at_openai(item: Item) -> bool:
    is_search = item.get("type") in ("tool_search_call", "tool_search_output")
    return is_search and (item.get("execution") == "server" or not item.get("call_id"))


def _is_of_answer(item: Item) -> bool:
    return _is_message(item) or _is_call(item) or item.get("type") in _HOSTED or _is_search_at_openai(item)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _answer_text(item: Item) -> str:
    content = item.get("content")
    if isinstance(content, str):
        return content
    parts = [part for part in content or [] if isinstance(part, Mapping)]
    return "".join(_text(part.get("text")) or _text(part.get("refusal")) or "" for part in parts)


def _thoughts(item: Item) -> Iterator[str]:
    for part in item.get("content") or item.get("summary") or []:
        text = _text(part.get("text")) if isinstance(part, Mapping) else None
        if text is not None:
            yield text


def _request(item: Item) -> ToolExecutionRequest:
    kind = item["type"]
    if kind == "mcp_approval_request":
        return ToolExecutionRequest(_text(item.get("id")), _text(item.get("name")), _text(item.get("arguments")))
    id = _text(item.get("call_id"))
    if kind == "function_call":
        return ToolExecutionRequest(id, _text(item.get("name")), _text(item.get("arguments")))
    if kind == "custom_tool_call":
        return ToolExecutionRequest(id, _text(item.get("name")), _json({"input": item.get("input")}))
    said = {key: value for key, value in item.items() if key not in ("type", "id", "call_id", "status")}
    return ToolExecutionRequest(id, kind.removesuffix("_call"), _json(said))


def _other(item: Item, names: Mapping[str | None, str | None]) -> ChatMessage:
    """Read an item of a user, a system or a tool."""
    kind, role = item.get("type"), item.get("role")
    if kind in _RESULTS:
        id = _id(item)
        return ToolExecutionResultMessage(id, names.get(id), contents=_contents(_output(item)))
    if kind in (None, "message") and "content" in item:
        contents = _contents(item["content"])
        if role == "user":
            return UserMessage(contents)
        text = "".join(content.text for content in contents if isinstance(content, TextContent))
        if role in ("system", "developer") and not is_blank(text):
            return SystemMessage(text)
    return CustomMessage({ATTRIBUTE: [str(kind)]})


def _output(item: Item) -> Any:
    for key in ("output", "result"):
        if key in item:
            return item[key]
    keys = ("type", "id", "call_id", "status", "approval_request_id")
    return {key: value for key, value in item.items() if key not in keys}


def _contents(value: Any) -> list[Content]:
    """Return at least one content; a value that is no content becomes its JSON text."""
    if isinstance(value, str):
        return [TextContent(value)]
    if isinstance(value, Mapping) and value.get("type") == "computer_screenshot":
        value = [value]
    is_content = isinstance(value, list) and all(isinstance(part, Mapping) and "type" in part for part in value)
    return [_part(part) for part in value] if is_content and value else [TextContent(_json(value))]


def _part(part: Mapping[str, Any]) -> Content:
    """Return the content; for one without a form here, such as a file that OpenAI holds, a text that names it."""
    kind = part["type"]
    text = _text(part.get("text"))
    if text is not None:
        return TextContent(text)
    try:
        if kind == "computer_screenshot":
            return Fields({"image_url": part.get("image_url")}, "").build(CONTENTS["input_image"])
        if kind == "input_audio":
            audio = part["input_audio"]
            return AudioContent(base64_data=audio["data"], mime_type=f"audio/{audio['format']}")
        if kind in CONTENTS:
            return Fields({key: value for key, value in part.items() if key != "type"}, "").build(CONTENTS[kind])
    except (KeyError, TypeError, ValueError):
        pass
    name = next((found for key in ("filename", "file_id") if (found := _text(part.get(key)))), None)
    return TextContent(f"[{kind} {name}]" if name else f"[{kind}]")


def _content(contents: tuple[Content, ...]) -> str | list[Item]:
    try:
        return text_or_parts(contents, record=True)  # its model may be anybody's
    except CannotExpressError:
        return [part for content in contents for part in _named(content)]


def _named(content: Content) -> list[Item]:
    """Return the part for a content; for one without a form there, a text that names it."""
    if isinstance(content, AudioContent) and content.audio is not None and content.audio.base64_data:
        format = (content.audio.mime_type or "audio/wav").partition("/")[2]
        return [{"type": "input_audio", "input_audio": {"data": content.audio.base64_data, "format": format}}]
    try:
        return content_parts([content], record=True)
    except CannotExpressError:
        return [{"type": "input_text", "text": f"[{content.type.lower()}]"}]
