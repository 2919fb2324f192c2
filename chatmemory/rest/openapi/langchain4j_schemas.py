"""Messages in LangChain4j's JSON. What may be null or missing in a request is never null in an answer."""

from __future__ import annotations

from chatmemory.core.contents import DetailLevel
from chatmemory.rest.openapi.shapes import NOT_BLANK, URL, Schema, closed, constant, list_of, one_of, or_null, ref, text

__all__ = ["LANGCHAIN4J"]

_URL = text("A URL or another URI.", pattern=f"^{URL}$")
_BASE64 = text(
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
    "Audio": closed({}, {**_MEDIA, "binaryData": or_null(_BASE64)}, "At a URL, or here."),
    "Video": closed({}, _MEDIA, "At a URL, or here."),
    "PdfFile": closed({}, _MEDIA, "At a URL, or here."),
}
