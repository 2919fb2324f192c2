"""What ChatGPT's messages say, whatever their content is made of.

There is no published schema; the kinds are those that exports have been seen to have. Of a kind that nobody knows, the
content is given as JSON, so that nothing is lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

__all__ = ["attachments_of", "texts_of"]

# The fields of a content that hold what it says, in the order in which it is read.
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
    """The texts of a message; none, or only empty ones, of a message that says nothing."""
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
    """What stands for the files that a message came with, but for those that are among its parts."""
    metadata = message.get("metadata")
    attachments = metadata.get("attachments") if isinstance(metadata, dict) else None
    parts = json.dumps(message.get("content"))
    return [
        f"[file: {attachment.get('name') or attachment.get('id')}]"
        for attachment in (attachments if isinstance(attachments, list) else [])
        if isinstance(attachment, dict) and not (attachment.get("id") and str(attachment["id"]) in parts)
    ]


def _instructions(message: dict[str, Any]) -> Iterator[str]:
    """Older exports keep custom instructions in the metadata of an empty system message."""
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
