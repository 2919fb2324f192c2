"""Files of messages: in OpenAI's chat format, and in LangChain4j's JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.messages import AiMessage, ChatMessage, ToolExecutionResultMessage
from chatmemory.core.serialization import read_message
from chatmemory.formats.openai import ATTRIBUTE, from_openai
from chatmemory.transfer.files import MAX_RECORD_CHARS, TOO_LONG, Source, numbered_lines, read_items, read_json
from chatmemory.transfer.records import BadRecordError, Found, FoundConversation, FoundMessage

_WEIGHT = "weight"

_Item = tuple[str, Any] | BadRecordError
"""The place and the value of an item, or an error."""


def read_openai(source: Source, memory_id: str) -> Found:
    """Yield the conversations of a file, which has JSON lines if its name ends in ``.jsonl``.

    The memory ID of a conversation on a line ends with the number of the line: ``train-17``. An array is read message
    by message; an object, or a line, at once.
    """
    if source.name.endswith(".jsonl"):
        for place, line in numbered_lines(source):
            yield _conversation(place, f"{memory_id}-{place.rpartition(':')[2]}", line, is_line=True)
        return
    first = source.text.read(1)
    while first.isspace():
        first = source.text.read(1)
    source.text.seek(0)
    if first == "[":
        yield FoundConversation(
            place=source.name,
            memory_id=memory_id,
            messages=_messages(read_items(source, lambda place, data: (place, data))),
        )
    else:
        text = source.text.read(MAX_RECORD_CHARS + 1)
        yield _conversation(source.name, memory_id, text if len(text) <= MAX_RECORD_CHARS else None)


def _conversation(
    place: str, memory_id: str, text: str | None, *, is_line: bool = False
) -> FoundConversation | BadRecordError:
    if text is None:
        return BadRecordError(place, TOO_LONG)
    try:
        data = read_json(text)
    except ValueError as error:
        is_more = not is_line and "Extra data" in str(error)
        hint = "; the name of a file of JSON lines must end with .jsonl" if is_more else ""
        return BadRecordError(place, f"{error}{hint}")
    if not isinstance(data, dict) or not isinstance(data.get("messages"), list):
        return BadRecordError(place, 'expected an object with the list "messages"')
    messages = ((f"{place}: messages[{index}]", item) for index, item in enumerate(data.pop("messages")))
    metadata = {ATTRIBUTE: data} if data else {}
    return FoundConversation(place=place, memory_id=memory_id, metadata=metadata, messages=_messages(messages))


def _messages(found: Iterable[_Item]) -> Iterator[FoundMessage | BadRecordError]:
    tools: dict[str | None, str | None] = {}
    for item in found:
        if isinstance(item, BadRecordError):
            yield item
            continue
        place, data = item
        try:
            message = _openai_chat_message(data)
        except InvalidMessageError as error:
            # It was the only one of its list.
            at = error.place.removeprefix("[0]").removeprefix(".")
            yield BadRecordError(place, f"{at}: {error.problem}" if at else error.problem)
            continue
        if isinstance(message, AiMessage):
            tools.update({request.id: request.name for request in message.tool_execution_requests})
        elif isinstance(message, ToolExecutionResultMessage):
            message = ToolExecutionResultMessage(message.id, tools.get(message.id), contents=message.contents)
        yield FoundMessage(place=place, message=message)


def _openai_chat_message(data: Any) -> ChatMessage:
    weight = data.get(_WEIGHT) if isinstance(data, dict) else None
    if weight is None:
        return from_openai([data])[0]
    message = from_openai([{key: value for key, value in data.items() if key != _WEIGHT}])[0]
    if not isinstance(message, AiMessage) or not isinstance(weight, int):
        raise InvalidMessageError("only an answer can have one, and it is 0 or 1", _WEIGHT)
    attributes = {**message.attributes, _WEIGHT: weight}
    return AiMessage(message.text, message.tool_execution_requests, thinking=message.thinking, attributes=attributes)


def read_langchain4j(source: Source, memory_id: str) -> Found:
    """Yield the one conversation of a file."""
    messages = read_items(source, _langchain4j_message)
    yield FoundConversation(place=source.name, memory_id=memory_id, messages=messages)


def _langchain4j_message(place: str, data: Any) -> FoundMessage:
    return FoundMessage(place=place, message=read_message(_as_now(data)))


def _as_now(data: Any) -> Any:
    """Return a message of an early version as version 1 writes it; anything else as it is."""
    match data:
        case {"type": "USER", "text": text, **others} if "contents" not in others:
            return {"type": "USER", "contents": [{"type": "TEXT", "text": text}], **others}
        case {"type": "AI", "toolExecutionRequest": request, **others} if "toolExecutionRequests" not in others:
            return {"type": "AI", "toolExecutionRequests": [request], **others}
    return data
