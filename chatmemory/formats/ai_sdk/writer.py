"""The writer of UI messages; see ``chatmemory.formats.ai_sdk``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from chatmemory.core.arguments import tuple_of
from chatmemory.core.messages import AiMessage, ChatMessage, CustomMessage, ToolExecutionResultMessage, UserMessage
from chatmemory.formats.ai_sdk.content_parts import KEY, attributes_of, content_part, kept
from chatmemory.formats.ai_sdk.stream import Chunk, UIMessageStream
from chatmemory.formats.validity import Repair


def to_ai_sdk(
    messages: Iterable[ChatMessage],
    on_repair: Callable[[Repair], object] | None = None,
    *,
    ids: Sequence[str] | None = None,
) -> list[dict[str, Any]]:
    """Return messages as whole ``UIMessage`` objects, as ``useChat`` shows them.

    Answers of the model and tool results that follow each other are one assistant message, whose ID is ``answer-`` and
    the ID of the message before it; just ``answer`` if it is the first.

    Args:
        messages: the messages.
        on_repair: is never called, because nothing has to be repaired.
        ids: an ID for each message; None for its index.

    Raises:
        TypeError: something is no message.
    """
    given: tuple[ChatMessage, ...] = tuple_of(ChatMessage, messages, "messages")
    names = _names(given, ids)
    written: list[dict[str, Any]] = []
    answer: UIMessageStream | None = None
    for index, message in enumerate(given):
        if not isinstance(message, (AiMessage, ToolExecutionResultMessage)):
            answer = None
            written.append(_spoken(message, names[index]))
            continue
        if answer is None:
            id = f"answer-{names[index - 1]}" if index else "answer"
            answer = UIMessageStream(id)
            written.append({"id": id, "role": "assistant", "parts": []})
        for chunk in answer.said([message]):
            _apply(chunk, written[-1])
    return written


def plain_to_ai_sdk(type: str, text: str, id: str) -> dict[str, Any]:
    """Return what ``to_ai_sdk`` returns for a message that has a text and nothing else, in a fraction of the time.

    Args:
        type: ``"USER"`` or ``"AI"``.
        text: the text, which is not empty.
        id: the ID.
    """
    if type == UserMessage.type:
        return {"id": id, "role": "user", "parts": [{"type": "text", "text": text}]}
    parts = [{"type": "step-start"}, {"type": "text", "text": text, "state": "done"}]
    return {"id": id, "role": "assistant", "parts": parts}


def each_to_ai_sdk(messages: Iterable[ChatMessage], *, ids: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Return one ``UIMessage`` object for each message, for a record of what was said.

    Args:
        messages: the messages.
        ids: an ID for each message; None for its index.

    Raises:
        TypeError: something is no message.
    """
    given: tuple[ChatMessage, ...] = tuple_of(ChatMessage, messages, "messages")
    return [_alone(message, name) for message, name in zip(given, _names(given, ids), strict=True)]


def history_to_ai_sdk(read: Callable[[], Iterable[ChatMessage]]) -> Iterator[dict[str, Any]]:
    """Yield what ``each_to_ai_sdk(read())`` returns."""
    return (_alone(message, str(index)) for index, message in enumerate(read()))


def _alone(message: ChatMessage, id: str) -> dict[str, Any]:
    return {**to_ai_sdk([message])[0], "id": id}


def _names(messages: Sequence[ChatMessage], ids: Sequence[str] | None) -> Sequence[str]:
    if ids is None:
        return [str(index) for index in range(len(messages))]
    if len(ids) != len(messages):
        raise ValueError(f"ids must have one for each of the {len(messages)} messages, but has {len(ids)}")
    return ids


def _spoken(message: ChatMessage, id: str) -> dict[str, Any]:
    """Return the UI message for a message that is no answer and no result."""
    rest: dict[str, Any] = {}
    parts: list[dict[str, Any]]
    if isinstance(message, CustomMessage):
        role, parts = "assistant", [{"type": "data-custom", "data": attributes_of(message)}]
        rest["type"] = str(message.type)
    elif isinstance(message, UserMessage):
        role, parts = "user", [content_part(content) for content in message.contents]
        if message.name is not None:
            rest["name"] = message.name
        if message.attributes:
            rest["attributes"] = attributes_of(message)
    else:
        role, parts = "system", [{"type": "text", "text": message.text}]
    return {"id": id, "role": role, **({"metadata": kept(rest)} if rest else {}), "parts": parts}


def _apply(chunk: Chunk, message: dict[str, Any]) -> None:
    """Apply a chunk to an assistant message, as a page does that reads it."""
    parts = message["parts"]
    match chunk["type"]:
        case "start-step":
            parts.append({"type": "step-start"})
        case "reasoning-start":
            parts.append({"type": "reasoning", "id": chunk["id"], "text": "", "state": "done"})
        case "text-start":
            parts.append({"type": "text", "text": "", "state": "done"})
        case "reasoning-delta" | "text-delta":
            parts[-1]["text"] += chunk["delta"]
        case "message-metadata":
            metadata = message.setdefault("metadata", kept({"steps": {}}))
            steps = metadata[KEY]["steps"] | chunk["messageMetadata"][KEY]["steps"]
            metadata |= chunk["messageMetadata"] | kept({"steps": steps})
        case "tool-input-available":
            call = {key: chunk[key] for key in ("toolName", "toolCallId", "input")}
            parts.append({"type": "dynamic-tool", **call, "state": "input-available"})
            if "providerMetadata" in chunk:
                parts[-1]["callProviderMetadata"] = chunk["providerMetadata"]
        case "tool-output-available" | "tool-output-error":
            part = next(part for part in reversed(parts) if part.get("toolCallId") == chunk["toolCallId"])
            part["state"] = chunk["type"].removeprefix("tool-")
            part |= {key: chunk[key] for key in ("output", "errorText") if key in chunk}
            if "providerMetadata" in chunk:
                part["resultProviderMetadata"] = chunk["providerMetadata"]
