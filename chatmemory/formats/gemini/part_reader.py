"""The reader of the parts of Gemini's contents; see :mod:`chatmemory.formats.gemini`."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple

from chatmemory.core.arguments import is_blank
from chatmemory.core.contents import (
    AudioContent,
    Content,
    DetailLevel,
    ImageContent,
    PdfFileContent,
    TextContent,
    VideoContent,
)
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.json_text import dumps
from chatmemory.core.messages import ToolExecutionRequest, ToolExecutionResultMessage
from chatmemory.core.serialization.fields import Fields
from chatmemory.core.serialization.storable import require_json
from chatmemory.formats.gemini.part_writer import SCHEMES
from chatmemory.formats.media import is_at, is_base64

__all__ = ["ANSWER_PARTS", "NO_SIGNATURE", "USER_PARTS", "Thought", "clean_part", "clean_said", "read_part"]

NO_SIGNATURE = "skip_thought_signature_validator"
"""The signature that Gemini takes for a call that it did not make."""

_SECONDS = re.compile(r"\d{1,12}(\.\d{1,9})?s")
_CONSTANT = re.compile("[A-Z][A-Z0-9_]{0,63}")

_OBJECTS = (
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "videoMetadata",
    "mediaResolution",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
)


class Thought(NamedTuple):
    text: str


def clean_part(part: Any, place: str) -> Any:
    """Return a part with the names of the REST API, without fields that say nothing."""
    cleaned = _clean_part(part, place)
    if isinstance(cleaned, Mapping):
        require_json(cleaned, place, 4)  # stored within {"attributes": {"gemini": {"parts": [part]}}}
    return cleaned


def clean_said(part: Any) -> Any:
    """Return a clean part of a user or a tool without what only parts of a model have, or no model gets."""
    if not isinstance(part, Mapping):
        return part
    return {key: value for key, value in part.items() if key not in ("thoughtSignature", "partMetadata")}


def _clean_part(part: Any, place: str) -> Any:
    if not isinstance(part, Mapping):
        return part
    cleaned = {
        key: _clean_object(value, f"{place}.{key}") if key in _OBJECTS and isinstance(value, Mapping) else value
        for key, value in _in_camel_case(part, place).items()
    }
    if "functionCall" in cleaned and cleaned.get("thoughtSignature") == NO_SIGNATURE:
        del cleaned["thoughtSignature"]
    return cleaned


def _clean_object(value: Mapping[str, Any], place: str) -> dict[str, Any]:
    cleaned = _in_camel_case(value, place)
    if isinstance(cleaned.get("parts"), (list, tuple)):
        parts = enumerate(cleaned["parts"])
        cleaned["parts"] = [clean_said(_clean_part(part, f"{place}.parts[{index}]")) for index, part in parts]
    return cleaned


def _in_camel_case(data: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return the fields that have a value. The SDK has bytes and enums, and writes names with underscores."""
    result: dict[str, Any] = {}
    for key, value in data.items():
        name = re.sub("_([a-z])", lambda found: found[1].upper(), str(key))
        if value is None:
            continue
        if name in result:
            raise InvalidMessageError("given twice", f"{place}.{name[:100]}", code="repeated")
        if isinstance(value, bytes):
            value = base64.urlsafe_b64encode(value).decode() if name == "thoughtSignature" else _base64(value)
        result[name] = value.value if isinstance(value, Enum) else value
    return result


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def read_part(part: Any, place: str, readers: Mapping[str, Callable[[Fields], Any]]) -> Any:
    """Read a clean part."""

    def read(fields: Fields) -> Any:
        if fields.has("thoughtSignature"):
            _base64_text(fields, "thoughtSignature")
        if fields.has("partMetadata"):
            fields.value("partMetadata", Mapping, "an object")
        for key, read_object in _OF_MEDIA.items():
            if fields.has(key):
                fields.object(key, read_object)
        kind = next((key for key in readers if fields.has(key)), None)
        if kind is None:
            raise InvalidMessageError("expected one of %(choices)s", place, code="required", choices=[*readers])
        return readers[kind](fields)

    return Fields(part, place).build(read)


def _video_metadata(fields: Fields) -> None:
    for key in ("startOffset", "endOffset"):
        if fields.has(key) and not _SECONDS.fullmatch(fields.text(key)):
            raise InvalidMessageError("expected seconds, such as 1.5s", fields.at(key))
    if fields.has("fps"):
        fields.value("fps", (int, float), "a number")


def _media_resolution(fields: Fields) -> None:
    if fields.has("level"):
        _constant(fields, "level")
    if fields.has("numTokens"):
        fields.value("numTokens", int, "a whole number")


def _constant(fields: Fields, key: str) -> None:
    # Gemini adds new ones.
    if not _CONSTANT.fullmatch(fields.text(key)):
        raise InvalidMessageError("expected a name in capital letters", fields.at(key))


def _base64_text(fields: Fields, key: str) -> str:
    text = fields.text(key)
    if not is_base64(text):
        raise InvalidMessageError("expected Base64", fields.at(key))
    return text


def _text(fields: Fields) -> list[Content]:
    return [TextContent(fields.text("text"))]


def _text_or_thought(fields: Fields) -> TextContent | Thought:
    is_thought = fields.has("thought") and fields.value("thought", bool, "true or false")
    text = fields.text("text")
    return Thought(text) if is_thought else TextContent(text)


def _function_call(fields: Fields) -> ToolExecutionRequest:
    fields.leave("thought")
    return fields.object("functionCall", _call)


def _call(fields: Fields) -> ToolExecutionRequest:
    fields.leave("partialArgs", "willContinue")
    id, name = fields.optional_text("id"), fields.text("name")
    return ToolExecutionRequest(
        id, name, dumps(fields.value("args", Mapping, "an object") if fields.has("args") else {})
    )


def _function_response(fields: Fields) -> ToolExecutionResultMessage:
    return fields.object("functionResponse", _result)


def _result(fields: Fields) -> ToolExecutionResultMessage:
    if fields.has("willContinue"):
        fields.value("willContinue", bool, "true or false")
    if fields.has("scheduling"):
        _constant(fields, "scheduling")
    id, name = fields.optional_text("id"), fields.text("name")
    response = fields.value("response", Mapping, "an object") if fields.has("response") else {}
    place = fields.at("parts")
    parts = fields.value("parts", (list, tuple), "a list") if fields.has("parts") else []
    media = [found for index, part in enumerate(parts) for found in read_part(part, f"{place}[{index}]", _MEDIA)]
    texts, is_error = _said(response)
    contents: list[Content] = [*map(TextContent, texts), *media]
    return ToolExecutionResultMessage(id, name, contents=contents or [TextContent("")], is_error=is_error)


def _said(response: Mapping[str, Any]) -> tuple[list[str], bool | None]:
    """Return the texts of a response, and whether it is an error."""
    if not response:
        return [], None
    if len(response) == 1:
        for key, is_error in (("output", None), ("error", True)):
            said = response.get(key)
            if isinstance(said, str):
                return [said], is_error
            if isinstance(said, (list, tuple)) and all(isinstance(text, str) for text in said):
                return list(said), is_error
    return [dumps(response)], True if "error" in response and "output" not in response else None


def _inline_data(fields: Fields) -> list[Content]:
    return fields.object("inlineData", lambda inline: _named(inline, _inline))


def _named(fields: Fields, read: Callable[[Fields], Content]) -> list[Content]:
    # The model reads the name, so it is part of what is said.
    name = fields.optional_text("displayName")
    return [*([] if name is None or is_blank(name) else [TextContent(name)]), read(fields)]


def _inline(fields: Fields) -> Content:
    mime_type, data = fields.text("mimeType"), _base64_text(fields, "data")
    return _media(fields, mime_type, {"base64_data": data, "mime_type": mime_type})


def _file_data(fields: Fields) -> list[Content]:
    return fields.object("fileData", lambda file: _named(file, _file))


def _file(fields: Fields) -> Content:
    url = fields.text("fileUri")
    if not is_at(url, SCHEMES):
        raise InvalidMessageError("expected a URL of http, https or gs", fields.at("fileUri"))
    if not fields.has("mimeType"):
        return VideoContent(url)  # YouTube's have none
    mime_type = fields.text("mimeType")
    return _media(fields, mime_type, {"url": url, "mime_type": mime_type})


def _media(fields: Fields, mime_type: str, media: dict[str, Any]) -> Content:
    kind = mime_type.partition("/")[0].lower()
    if kind == "image":
        return ImageContent(**media, detail_level=DetailLevel.AUTO)  # Gemini does not say how closely to look
    if kind == "audio":
        return AudioContent(**media)
    if kind == "video":
        return VideoContent(**media)
    if mime_type.lower() == "application/pdf":
        return PdfFileContent(**media)
    raise InvalidMessageError(
        "expected the type of an image, audio, a video or a PDF file", fields.at("mimeType"), code="not_supported"
    )


def _whole(key: str) -> Callable[[Fields], None]:
    def read(fields: Fields) -> None:
        fields.value(key, Mapping, "an object")
        fields.leave("thought")

    return read


_OF_MEDIA = {"videoMetadata": _video_metadata, "mediaResolution": _media_resolution}
_MEDIA: dict[str, Callable[[Fields], Any]] = {"inlineData": _inline_data, "fileData": _file_data}
USER_PARTS: dict[str, Callable[[Fields], Any]] = {
    "text": _text,
    **_MEDIA,
    "functionResponse": _function_response,
}
ANSWER_PARTS: dict[str, Callable[[Fields], Any]] = {
    "text": _text_or_thought,
    "functionCall": _function_call,
    # What Gemini made or ran itself needs no answer from here, and is of use only unchanged.
    **{
        key: _whole(key)
        for key in ("inlineData", "fileData", "executableCode", "codeExecutionResult", "toolCall", "toolResponse")
    },
}
