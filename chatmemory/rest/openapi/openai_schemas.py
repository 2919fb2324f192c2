"""Messages in OpenAI's Chat Completions format."""

from __future__ import annotations

from chatmemory.rest.openapi.shapes import NOT_BLANK, URL, Schema, closed, constant, list_of, one_of, or_null, ref, text

__all__ = ["OPENAI"]

_TEXTS = list_of(ref("OpenAiTextPart"), minItems=1)
_SAID_TEXTS = {
    **_TEXTS,
    "contains": {"type": "object", "required": ["text"], "properties": {"text": {"pattern": NOT_BLANK}}},
}

_BASE64 = "[A-Za-z0-9+/]+={0,2}"
_PDF_DATA = f"^data:application/pdf;base64,{_BASE64}$"
_URL_OR_DATA = rf"^(data:[\s\S]*{NOT_BLANK}[\s\S]*;base64,{_BASE64}|{URL})$"

OPENAI: dict[str, Schema] = {
    "OpenAiMessage": one_of(
        "role",
        {
            "system": "OpenAiSystemMessage",
            "developer": "OpenAiSystemMessage",
            "user": "OpenAiUserMessage",
            "assistant": "OpenAiAssistantMessage",
            "tool": "OpenAiToolMessage",
        },
        "A message of OpenAI's Chat Completions, ready for `messages=` (`?format=openai`).",
    ),
    "OpenAiSystemMessage": closed(
        {
            "role": text("developer in requests only; it comes back as system.", enum=["system", "developer"]),
            "content": {"anyOf": [text("Not blank.", pattern=NOT_BLANK), _SAID_TEXTS]},
        }
    ),
    "OpenAiUserMessage": closed(
        {
            "role": constant("user"),
            "content": {"anyOf": [text(), list_of(ref("OpenAiUserPart"), minItems=1)]},
        },
        {"name": or_null(text())},
    ),
    "OpenAiAssistantMessage": closed(
        {"role": constant("assistant")},
        {
            "content": {
                "anyOf": [
                    {"type": ["string", "null"]},
                    list_of({"anyOf": [ref("OpenAiTextPart"), ref("OpenAiRefusalPart")]}, minItems=1),
                ]
            },
            "refusal": or_null(text("Here or in a part of the content, not both.")),
            "name": or_null(text()),
            "tool_calls": {**list_of(ref("OpenAiToolCall")), "type": ["array", "null"]},
            "audio": {
                "type": ["object", "null"],
                "properties": {"id": text()},
                "required": ["id"],
                "additionalProperties": True,
            },
            "annotations": {"type": ["array", "null"], "items": {}, "description": "Kept, but not given back."},
            "reasoning_content": or_null(text("DeepSeek's and vLLM's: the thinking. Not given back.")),
            "reasoning": or_null(text("The same; one of the two, not both.")),
            "function_call": {"type": "null", "description": "Of the past; the SDK still writes it."},
        },
    ),
    "OpenAiToolMessage": closed(
        {"role": constant("tool"), "tool_call_id": text("Of the call."), "content": {"anyOf": [text(), _TEXTS]}},
        {"name": or_null(text("Of the tool. Not given back."))},
    ),
    "OpenAiToolCall": closed(
        {
            "id": text(),
            "type": constant("function"),
            "function": closed({"name": text(), "arguments": text("The JSON text of an object.")}),
        },
        {"index": {"description": "Not kept."}},
    ),
    "OpenAiUserPart": one_of(
        "type",
        {
            "text": "OpenAiTextPart",
            "image_url": "OpenAiImagePart",
            "input_audio": "OpenAiAudioPart",
            "file": "OpenAiFilePart",
        },
        "A part of what the user said.",
    ),
    "OpenAiTextPart": closed({"type": constant("text"), "text": text()}),
    "OpenAiRefusalPart": closed({"type": constant("refusal"), "refusal": text()}),
    "OpenAiImagePart": closed(
        {
            "type": constant("image_url"),
            "image_url": closed(
                {"url": text("A URL, or data:image/png;base64,…", pattern=_URL_OR_DATA)},
                {"detail": or_null(text("original in requests only.", enum=["auto", "low", "high", "original"]))},
            ),
        }
    ),
    "OpenAiAudioPart": closed(
        {
            "type": constant("input_audio"),
            "input_audio": closed({"data": text("In Base64.", pattern=NOT_BLANK), "format": text(enum=["wav", "mp3"])}),
        }
    ),
    "OpenAiFilePart": closed(
        {
            "type": constant("file"),
            "file": closed(
                {"file_data": text("data:application/pdf;base64,…", pattern=_PDF_DATA)},
                {"filename": or_null(text("Not kept."))},
            ),
        }
    ),
}
