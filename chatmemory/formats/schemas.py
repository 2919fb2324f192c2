"""The JSON Schemas of the formats. The first of each is that of a message, or of a whole request.

What may be null or missing where messages are read is never null where they are written. A reference is the name of a
component: OpenAPI documents make it whole.
"""

from __future__ import annotations

from typing import Any

from chatmemory.core.contents import DetailLevel

Schema = dict[str, Any]

NOT_BLANK = r"[^\x00-\x20]"

# As chatmemory.core.arguments.require_url has it.
_URL_CHARACTER = r"[^\x00-\x20\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\x22<>\\^`{|}%#]"
_URL_PART = f"({_URL_CHARACTER}|%[0-9A-Fa-f]{{2}})*"
URL = f"{_URL_PART}(#{_URL_PART})?"


def ref(name: str) -> Schema:
    """Return a reference to a component."""
    return {"$ref": name}


def closed(required: Schema, optional: Schema | None = None, description: str = "", **more: Any) -> Schema:
    """Return the schema of an object with these properties and no others."""
    return {
        "type": "object",
        **({"description": description} if description else {}),
        "properties": {**required, **(optional or {})},
        **({"required": list(required)} if required else {}),
        "additionalProperties": False,
        **more,
    }


def text(description: str = "", **limits: Any) -> Schema:
    """Return the schema of a string."""
    return {"type": "string", **({"description": description} if description else {}), **limits}


def constant(value: str) -> Schema:
    """Return the schema of one string."""
    return {"type": "string", "const": value}


def list_of(schema: Schema, description: str = "", **limits: Any) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", **({"description": description} if description else {}), "items": schema, **limits}


def or_null(schema: Schema) -> Schema:
    """Return ``schema`` with null as another value."""
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    choices = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return {**schema, "type": [schema["type"], "null"], **choices}


def one_of(tag: str, names: dict[str, str], description: str) -> Schema:
    """Return a union; ``names`` are the schemas by the value of the property ``tag``."""
    return {
        "description": description,
        "oneOf": [ref(name) for name in dict.fromkeys(names.values())],
        "discriminator": {
            "propertyName": tag,
            "mapping": {value: f"#/components/schemas/{name}" for value, name in names.items()},
        },
    }


_URL = text("A URL or another URI.", pattern=f"^{URL}$")
_BYTES = text(
    "The bytes, in Base64.", pattern="^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$", format="byte"
)
_ATTRIBUTES = {
    "type": ["object", "null"],
    "description": "Anything the application wants to keep with the message; the model does not get it.",
    "additionalProperties": True,
}
_MEDIA = {
    "url": or_null(_URL),
    "base64Data": or_null(text("The bytes, in Base64; kept as they are.")),
    "mimeType": or_null(text("Such as image/png.")),
}


def _media_content(kind: str, field: str, media: Schema, description: str) -> Schema:
    return closed({"type": constant(kind)}, {field: or_null(media)}, description)


LANGCHAIN4J: dict[str, Schema] = {
    "ChatMessage": one_of(
        "type",
        {
            "SYSTEM": "SystemMessage",
            "USER": "UserMessage",
            "AI": "AiMessage",
            "TOOL_EXECUTION_RESULT": "ToolExecutionResultMessage",
            "CUSTOM": "CustomMessage",
        },
        "A message in LangChain4j's JSON.",
    ),
    "SystemMessage": closed(
        {"type": constant("SYSTEM"), "text": text("Not blank.", pattern=NOT_BLANK)},
        description="Instructions to the model. A memory holds one at a time: another one replaces it.",
    ),
    "UserMessage": closed(
        {"type": constant("USER"), "contents": list_of(ref("Content"), minItems=1)},
        {"name": or_null(text("Who said it, where several do.")), "attributes": _ATTRIBUTES},
        "What the user said.",
    ),
    "AiMessage": closed(
        {"type": constant("AI")},
        {
            "text": or_null(text()),
            "thinking": or_null(text("How the model came to its answer.")),
            "toolExecutionRequests": {**list_of(ref("ToolExecutionRequest")), "type": ["array", "null"]},
            "attributes": _ATTRIBUTES,
        },
        "What the model answered: text, its thinking, the tools that it wants called.",
    ),
    "ToolExecutionRequest": closed(
        {},
        {
            "id": or_null(text("By which the result names the call.")),
            "name": or_null(text("Of the tool.")),
            "arguments": or_null(text("The JSON text of an object, as the model wrote it.")),
        },
        "A tool that the model wants called.",
    ),
    "ToolExecutionResultMessage": closed(
        {"type": constant("TOOL_EXECUTION_RESULT")},
        {
            "id": or_null(text("Of the call.")),
            "toolName": or_null(text()),
            "text": or_null(
                text("In place of contents, by LangChain4j up to 1.12. Of answers, only those of stores/ have it.")
            ),
            "contents": {**list_of(ref("Content")), "type": ["array", "null"]},
            "isError": {"type": ["boolean", "null"]},
            "attributes": _ATTRIBUTES,
        },
        "What a tool gave back: contents, or text.",
        **{
            "if": {"required": ["contents"], "properties": {"contents": {"type": "array", "minItems": 1}}},
            "then": {"properties": {"text": {"type": "null"}}},
            "else": {"required": ["text"], "properties": {"text": {"type": "string"}}},
        },
    ),
    "CustomMessage": closed(
        {"type": constant("CUSTOM")},
        {"attributes": _ATTRIBUTES},
        "A message of the application's own kind. No model format but LangChain4j's has it.",
    ),
    "Content": one_of(
        "type",
        {
            "TEXT": "TextContent",
            "IMAGE": "ImageContent",
            "AUDIO": "AudioContent",
            "VIDEO": "VideoContent",
            "PDF": "PdfFileContent",
        },
        "A part of a message.",
    ),
    "TextContent": closed({"type": constant("TEXT"), "text": text()}),
    "ImageContent": closed(
        {
            "type": constant("IMAGE"),
            "image": ref("Image"),
            "detailLevel": text(enum=[str(level) for level in DetailLevel]),
        }
    ),
    "AudioContent": _media_content("AUDIO", "audio", ref("Audio"), "A recording."),
    "VideoContent": _media_content("VIDEO", "video", ref("Video"), "A film."),
    "PdfFileContent": _media_content("PDF", "pdfFile", ref("PdfFile"), "A PDF file."),
    "Image": closed(
        {}, {**_MEDIA, "revisedPrompt": or_null(text("What an image model made of the prompt."))}, "At a URL, or here."
    ),
    "Audio": closed({}, {**_MEDIA, "binaryData": or_null(_BYTES)}, "At a URL, or here."),
    "Video": closed({}, _MEDIA, "At a URL, or here."),
    "PdfFile": closed({}, _MEDIA, "At a URL, or here."),
}

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

# The requests of models' APIs that have no value for each message. Only their frames are described.
_ANYTHING: Schema = {"type": "object", "additionalProperties": True}
_TURN = {"role": text(enum=["user", "assistant"]), "content": {"anyOf": [text(), list_of(_ANYTHING, minItems=1)]}}
_PARTS = list_of(_ANYTHING, minItems=1)

RESPONSES: dict[str, Schema] = {
    "OpenAiResponsesInput": list_of(
        _ANYTHING, "Items of OpenAI's Responses, ready for `input=` (`?format=openai-responses`)."
    )
}

ANTHROPIC: dict[str, Schema] = {
    "AnthropicRequest": closed(
        {"messages": list_of(closed(_TURN), minItems=1)},
        {"system": {"anyOf": [text(), list_of(_ANYTHING, minItems=1)]}},
        "Two arguments of Anthropic's Messages, `messages=` and `system=` (`?format=anthropic`).",
    )
}

GEMINI: dict[str, Schema] = {
    "GeminiRequest": closed(
        {"contents": list_of(closed({"role": text(enum=["user", "model"]), "parts": _PARTS}), minItems=1)},
        {"system_instruction": closed({"parts": _PARTS})},
        "Two fields of a request to Gemini's `generateContent` (`?format=gemini`).",
    )
}

AI_SDK: dict[str, Schema] = {
    "UIMessage": {
        "type": "object",
        "description": "A message as the AI SDK's `useChat` has it.",
        "properties": {
            "id": text(minLength=1, maxLength=255),
            "role": text(enum=["system", "user", "assistant"]),
            "parts": list_of(
                {
                    "type": "object",
                    "description": "Its `type` is text, reasoning, file, step-start, dynamic-tool and so on.",
                    "properties": {"type": text()},
                    "required": ["type"],
                }
            ),
            "metadata": {},
        },
        "required": ["id", "role", "parts"],
    },
}
