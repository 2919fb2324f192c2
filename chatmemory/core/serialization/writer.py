"""The writer of LangChain4j's JSON."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from chatmemory.core.contents import Content, ImageContent, Media, TextContent
from chatmemory.core.messages import (
    AiMessage,
    ChatMessage,
    CustomMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)

__all__ = ["message_to_data"]


def message_to_data(message: ChatMessage) -> dict[str, Any]:
    """Return a message as LangChain4j's JSON object, fields in its order, attributes as they are.

    Raises:
        TypeError: ``message`` is no message.
    """
    data: dict[str, Any] = {}
    match message:
        case SystemMessage():
            data["text"] = message.text
        case UserMessage():
            if message.name:
                data["name"] = message.name
            data["contents"] = [_content_to_data(content) for content in message.contents]
            if message.attributes:
                data["attributes"] = _plain(message.attributes)
        case AiMessage():
            if message.text is not None:
                data["text"] = message.text
            if message.thinking is not None:
                data["thinking"] = message.thinking
            data["toolExecutionRequests"] = [_request_to_data(r) for r in message.tool_execution_requests]
            data["attributes"] = _plain(message.attributes)
        case ToolExecutionResultMessage():
            if message.id is not None:
                data["id"] = message.id
            if message.tool_name is not None:
                data["toolName"] = message.tool_name
            data["contents"] = [_content_to_data(content) for content in message.contents]
            if message.is_error is not None:
                data["isError"] = message.is_error
            data["attributes"] = _plain(message.attributes)
        case CustomMessage():
            data["attributes"] = _plain(message.attributes)
        case _:
            raise TypeError(f"expected a message, got {type(message).__name__}")
    data["type"] = str(message.type)
    return data


def _request_to_data(request: ToolExecutionRequest) -> dict[str, Any]:
    fields = {"id": request.id, "name": request.name, "arguments": request.arguments}
    return {key: value for key, value in fields.items() if value is not None}


def _content_to_data(content: Content) -> dict[str, Any]:
    data: dict[str, Any] = {}
    match content:
        case TextContent():
            data["text"] = content.text
        case ImageContent():
            data["image"] = _media_to_data(content.image)
            data["detailLevel"] = str(content.detail_level)
        case _:
            field = {"AUDIO": "audio", "VIDEO": "video", "PDF": "pdf_file"}[content.type]
            media = getattr(content, field)
            if media is not None:
                data["pdfFile" if field == "pdf_file" else field] = _media_to_data(media)
    data["type"] = str(content.type)
    return data


def _media_to_data(media: Media) -> dict[str, Any]:
    fields = {
        "url": media.url,
        "binaryData": getattr(media, "binary_data", None),
        "base64Data": media.base64_data,
        "mimeType": media.mime_type,
        "revisedPrompt": getattr(media, "revised_prompt", None),
    }
    return {key: _plain(value) for key, value in fields.items() if value is not None}


def _plain(value: Any) -> Any:
    """Return attributes as data, with messages, contents and images in them in their JSON forms."""
    match value:
        case ChatMessage():
            return message_to_data(value)
        case Content():
            return _content_to_data(value)
        case Media():
            return _media_to_data(value)
        case ToolExecutionRequest():
            return _request_to_data(value)
        case bytes():
            return base64.b64encode(value).decode()
        case Mapping():
            data = {}
            for key, item in value.items():  # no comprehension: see freeze()
                data[key] = _plain(item)
            return data
        case list() | tuple():
            items = []
            for item in value:
                items.append(_plain(item))  # noqa: PERF401
            return items
    return value
