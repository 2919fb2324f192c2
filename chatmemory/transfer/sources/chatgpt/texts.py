"""The texts in the content of ChatGPT's messages, whatever kind of content it is.

There is no published schema; the kinds here are those that exports have been seen to have. The content of an unknown
kind becomes JSON, so that nothing is lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

__all__ = ["attachments_of", "texts_of"]

# The fields of each kind of content that have texts, in reading order.
_FIELDS: dict[str, tuple[str, ...]] = {
    "text": ("parts",),
    "multimodal_text": ("parts",),
    "code": ("text", "parts"),
    "execution_output": ("text", "parts"),
    "thoughts": ("thoughts",),
    "reasoning_recap": ("content",),
    "user_editable_context": ("user_profile", "user_instructions"),
    "model_editable_context": ("model_set_context", "repo_summary", "structured_context"),
    "tether_browsing_display": ("summary", "result"),
    "tether_quote": ("title", "url", "text"),
    "sonic_webpage": ("title", "url", "text", "snippet"),
    "system_error": ("name", "text"),
}


def texts_of(message: dict[str, Any]) -> list[str]:
    """Return the texts of a message; none, or only empty ones, if it has no content."""
    content = message.get("content")
    if not isinstance(content, dict):
        return [] if content is None else [_json(content)]
    fields = _FIELDS.get(str(content.get("content_type")))
    if fields is None:
        said = {name: value for name, value in content.items() if name != "content_type" and value}
        return [_json(said)] if said else []
    texts = [text for name in fields for text in _texts(content.get(name))]
    return texts if any(texts) else [*texts, *_instructions(message)]


def attachments_of(message: dict[str, Any]) -> list[str]:
    """Return a text for each file that is attached to a message and is not among its parts."""
    metadata = message.get("metadata")
    attachments = metadata.get("attachments") if isinstance(metadata, dict) else None
    parts = json.dumps(message.get("content"))
    return [
        f"[file: {attachment.get('name') or attachment.get('id')}]"
        for attachment in (attachments if isinstance(attachments, list) else [])
        if isinstance(attachment, dict) and not (attachment.get("id") and str(attachment["id"]) in parts)
    ]


def _instructions(message: dict[str, Any]) -> Iterator[str]:
    """Yield the custom instructions that older exports keep in the metadata of an empty system message."""
    metadata = message.get("metadata")
    instructions = metadata.get("user_context_message_data") if isinstance(metadata, dict) else None
    if isinstance(instructions, dict):
        yield from (text for text in instructions.values() if isinstance(text, str) and text)


def _texts(value: Any) -> Iterator[str]:
    match value:
        case None:
            return
        case str():
            yield value
        case list():
            for item in value:
                yield from _texts(item)
        case {"asset_pointer": str() as pointer}:
            yield f"[{value.get('content_type') or 'file'}: {pointer}]"
        case {"content_type": "audio_transcription", "text": str() as text}:
            yield text
        case {"content_type": "real_time_user_audio_video_asset_pointer"}:
            yield from (text for part in value.values() for text in _texts(part) if isinstance(part, (dict, list)))
        case {"summary": str() as summary, "content": str() as content}:  # a thought
            yield "\n".join(text for text in (summary, content) if text)
        case {"text": str() as text}:
            yield text
        case _:
            yield _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
