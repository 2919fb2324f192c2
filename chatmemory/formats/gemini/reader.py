"""The strict reader of Gemini's contents; see :mod:`chatmemory.formats.gemini`."""

from __future__ import annotations

import base64
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from itertools import groupby
from typing import Any, NamedTuple

from chatmemory.core.arguments import is_blank
from chatmemory.core.contents import Content, TextContent, VideoContent
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.json_text import dumps, require_json
from chatmemory.core.messages import (
    AiMessage,
    ChatMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.core.serialization import Fields, expected
from chatmemory.formats import CannotExpressError
from chatmemory.formats.gemini.part_writer import SCHEMES, answer_parts, content_part, function_response
from chatmemory.formats.kept_parts import read_system, with_attributes
from chatmemory.formats.media import content_of_type, is_at, is_base64

NO_SIGNATURE = "skip_thought_signature_validator"
"""The signature that Gemini takes for a call that it did not make."""


ATTRIBUTE = "gemini"
"""The attribute under which the parts that messages here cannot express are kept, as ``parts``."""
_SYSTEM_NAMES = ("system_instruction", "systemInstruction")


def from_gemini(data: Any, place: str = "") -> list[ChatMessage]:
    """Read messages from ``{"system_instruction": …, "contents": […]}``, contents, one content, or a response.

    Names may be those of the REST API (``functionCall``) or of the SDK (``function_call``); errors have the former.
    ``null`` is the same as a field that is not there. A response of a function gets the ID of its call; those without
    are put in the order of their calls.

    Args:
        place: what the data is called in errors, ``body`` say.

    Raises:
        InvalidMessageError: a ``ValueError`` that names the place: ``contents[3].parts[0].functionCall.name``.
    """
    if isinstance(data, (list, tuple)):
        return _contents(data, place)
    if not isinstance(data, Mapping):
        raise expected("an object or a list of contents", data, place)
    fields = Fields(data, place)
    at = fields.at
    if "candidates" in data:
        return _candidate(data["candidates"], at("candidates"))
    if "parts" in data:
        return _content(data, place, _Calls())
    fields.refuse_others(*_SYSTEM_NAMES, "contents")
    given = [name for name in _SYSTEM_NAMES if data.get(name) is not None]
    if len(given) > 1:
        raise InvalidMessageError("given twice", at(given[1]), code="repeated")
    system = [message for name in given for message in _system(data[name], at(name))]
    if not isinstance(data.get("contents"), (list, tuple)):
        raise expected("a list of contents", data.get("contents"), at("contents"))
    return [*system, *_contents(data["contents"], at("contents"))]


def _candidate(candidates: Any, place: str) -> list[ChatMessage]:
    if not isinstance(candidates, (list, tuple)):
        raise expected("a list of candidates", candidates, place)
    if len(candidates) != 1:
        raise InvalidMessageError(
            "expected one candidate, got %(count)s; read the content of one", place, count=len(candidates)
        )
    if not isinstance(candidates[0], Mapping):
        raise expected("an object", candidates[0], f"{place}[0]")
    content = candidates[0].get("content")
    if content is None:
        return [AiMessage()]
    if isinstance(content, Mapping) and content.get("role") is None:
        content = {**content, "role": "model"}  # who else; Gemini leaves it out at times, with the parts or without
    return _content(content, f"{place}[0].content", _Calls())


def _system(data: Any, place: str) -> list[ChatMessage]:
    if isinstance(data, str):
        data = {"parts": [{"text": data}]}
    _, parts, place = _parts(data, place)
    texts = [text.text for index, part in enumerate(parts) for text in read_part(part, f"{place}[{index}]", _SYSTEM)]
    return [read_system("\n\n".join(texts), place)] if texts else []


class _Calls:
    """The calls of the latest answer that wait for their responses."""

    def __init__(self, requests: Sequence[ToolExecutionRequest] = ()) -> None:
        self._requests = requests
        self._taken: set[int] = set()
        # Results without an ID take the first call of the tool's name, whatever its ID.
        self._by_id: defaultdict[tuple[str | None, str | None], deque[int]] = defaultdict(deque)
        self._by_name: defaultdict[str | None, deque[int]] = defaultdict(deque)
        for index, request in enumerate(requests):
            self._by_id[request.id, request.name].append(index)
            self._by_name[request.name].append(index)

    def take(self, result: ToolExecutionResultMessage) -> tuple[int, ToolExecutionResultMessage]:
        """Take the call that a result answers.

        Returns:
            The index of the call, -1 if it has an ID or is not there; and the result with the ID of the call.
        """
        name = result.tool_name
        waiting = self._by_name[name] if result.id is None else self._by_id[result.id, name]
        while waiting:
            index = waiting.popleft()
            if index not in self._taken:
                self._taken.add(index)
                id = self._requests[index].id
                return (-1 if id else index), replace(result, id=id)
        return -1, result


def _contents(data: Iterable[Any], place: str) -> list[ChatMessage]:
    messages: list[ChatMessage] = []
    calls = _Calls()
    for index, item in enumerate(data):
        said = _content(item, f"{place}[{index}]", calls)
        messages += said
        if isinstance(said[-1], AiMessage):
            calls = _Calls(said[-1].tool_execution_requests)
    return messages


def _content(data: Any, place: str, calls: _Calls) -> list[ChatMessage]:
    role, parts, place = _parts(data, place)
    if role == "model":
        answer = read_answer(parts, place)
        if _is_written_so(lambda: answer_parts(answer), parts):
            return [answer]
        return [with_attributes(answer, {ATTRIBUTE: {"parts": parts}})]
    if not parts:
        raise InvalidMessageError("expected at least one part, got none", place, code="empty")
    messages: list[ChatMessage] = []
    for is_response, group in groupby(enumerate(parts), lambda item: _is_response(item[1])):
        some = list(group)
        if is_response:
            found = [calls.take(read_result(part, f"{place}[{index}]")) for index, part in some]
            messages += [result for _, result in sorted(found, key=lambda item: item[0])]
        else:
            messages.append(_user([part for _, part in some], place, some[0][0]))
    return messages


def _parts(data: Any, place: str) -> tuple[str, list[Any], str]:
    """Return the role and the parts of a content, and the place of the parts."""
    fields = Fields(data, place)

    def read(fields: Fields) -> tuple[str, Any]:
        role = fields.choice("role", ("user", "model", "function", "system")) if fields.has("role") else "user"
        return role, fields.optional("parts", (list, tuple), "a list of parts") or []

    role, parts = fields.build(read)
    at = fields.at("parts")
    return role, [clean_part(part, f"{at}[{index}]") for index, part in enumerate(parts)], at


def _is_response(part: Any) -> bool:
    return isinstance(part, Mapping) and "functionResponse" in part


def _user(parts: list[Any], place: str, first: int) -> UserMessage:
    contents = read_contents(parts, place, first)
    said = [clean_said(part) for part in parts]
    same = _is_written_so(lambda: [content_part(content) for content in contents], said)
    return UserMessage(contents=contents, attributes=None if same else {ATTRIBUTE: {"parts": said}})


def _is_written_so(write: Callable[[], Any], parts: Any) -> bool:
    """Return whether writing what was read makes the parts again, so that they need not be kept."""
    try:
        return bool(write() == parts)
    except CannotExpressError:  # the name of a tool that is empty, say
        return False


def read_contents(parts: Sequence[Any], place: str = "", first: int = 0) -> list[Content]:
    """Read a user's parts, which are no responses of functions."""
    return [
        content
        for index, part in enumerate(parts, first)
        for content in read_part(part, f"{place}[{index}]", USER_PARTS)
    ]


def clean_parts(parts: Iterable[Any]) -> list[Any]:
    """Return the parts of an answer as they are kept."""
    return [clean_part(part, f"[{index}]") for index, part in enumerate(parts)]


def clean_contents(parts: Iterable[Any]) -> list[Any]:
    """Return the parts of a user or a tool as they are kept."""
    return [clean_said(part) for part in clean_parts(parts)]


def read_result(part: Any, place: str = "") -> ToolExecutionResultMessage:
    """Read the response of a function."""
    result: ToolExecutionResultMessage = read_part(part, place, USER_PARTS)
    given = part["functionResponse"]
    said = {key: value for key, value in given.items() if key not in ("id", "name")}
    if _is_written_so(lambda: function_response(result), said):
        return result
    return with_attributes(result, {ATTRIBUTE: {"parts": [clean_said(part)]}})


def read_answer(parts: Sequence[Any], place: str = "") -> AiMessage:
    """Read the parts of an answer, without what a message here has no place for."""
    found = [read_part(part, f"{place}[{index}]", ANSWER_PARTS) for index, part in enumerate(parts)]
    texts = [part.text for part in found if isinstance(part, TextContent)]
    thoughts = [part.text for part in found if isinstance(part, Thought)]
    return AiMessage(
        "".join(texts) if texts else None,
        [part for part in found if isinstance(part, ToolExecutionRequest)],
        thinking="".join(thoughts) if thoughts else None,
    )


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
            encode = base64.urlsafe_b64encode if name == "thoughtSignature" else base64.b64encode
            value = encode(value).decode()
        result[name] = value.value if isinstance(value, Enum) else value
    return result


def read_part(part: Any, place: str, readers: Mapping[str, Callable[[Fields], Any]]) -> Any:
    """Read a clean part."""

    def read(fields: Fields) -> Any:
        if fields.has("thoughtSignature"):
            _base64_text(fields, "thoughtSignature")
        fields.optional("partMetadata", Mapping, "an object")
        for key, read_object in _OF_MEDIA.items():
            fields.optional_object(key, read_object)
        kind = next((key for key in readers if fields.has(key)), None)
        if kind is None:
            raise InvalidMessageError("expected one of %(choices)s", place, code="required", choices=[*readers])
        return readers[kind](fields)

    return Fields(part, place).build(read)


def _video_metadata(fields: Fields) -> None:
    for key in ("startOffset", "endOffset"):
        if fields.has(key) and not _SECONDS.fullmatch(fields.text(key)):
            raise InvalidMessageError("expected seconds, such as 1.5s", fields.at(key))
    fields.optional("fps", (int, float), "a number")


def _media_resolution(fields: Fields) -> None:
    if fields.has("level"):
        _constant(fields, "level")
    fields.optional("numTokens", int, "a whole number")


def _constant(fields: Fields, key: str) -> None:
    # Gemini adds new ones.
    if not _CONSTANT.fullmatch(fields.text(key)):
        raise InvalidMessageError("expected a name in capital letters", fields.at(key))


def _base64_text(fields: Fields, key: str) -> str:
    text = fields.text(key)
    if not is_base64(text):
        raise InvalidMessageError("expected Base64", fields.at(key))
    return text


def _text_or_thought(fields: Fields) -> TextContent | Thought:
    is_thought = fields.flag("thought")
    text = fields.text("text")
    return Thought(text) if is_thought else TextContent(text)


def _function_call(fields: Fields) -> ToolExecutionRequest:
    fields.leave("thought")
    return fields.object("functionCall", _call)


def _call(fields: Fields) -> ToolExecutionRequest:
    fields.leave("partialArgs", "willContinue")
    id, name = fields.optional_text("id"), fields.text("name")
    return ToolExecutionRequest(id, name, dumps(fields.optional("args", Mapping, "an object") or {}))


def _result(fields: Fields) -> ToolExecutionResultMessage:
    fields.flag("willContinue")
    if fields.has("scheduling"):
        _constant(fields, "scheduling")
    id, name = fields.optional_text("id"), fields.text("name")
    response = fields.optional("response", Mapping, "an object") or {}
    place = fields.at("parts")
    parts = fields.optional("parts", (list, tuple), "a list") or []
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


def _named(fields: Fields, read: Callable[[Fields], Content]) -> list[Content]:
    # The model reads the name, so it is part of what is said.
    name = fields.optional_text("displayName")
    return [*([] if name is None or is_blank(name) else [TextContent(name)]), read(fields)]


def _inline(fields: Fields) -> Content:
    mime_type, data = fields.text("mimeType"), _base64_text(fields, "data")
    return _media(fields, mime_type, {"base64_data": data, "mime_type": mime_type})


def _file(fields: Fields) -> Content:
    url = fields.text("fileUri")
    if not is_at(url, SCHEMES):
        raise InvalidMessageError("expected a URL of http, https or gs", fields.at("fileUri"))
    if not fields.has("mimeType"):
        return VideoContent(url)  # YouTube's have none
    mime_type = fields.text("mimeType")
    return _media(fields, mime_type, {"url": url, "mime_type": mime_type})


def _media(fields: Fields, mime_type: str, media: dict[str, Any]) -> Content:
    content = content_of_type(mime_type, **media)
    if content is None:
        raise InvalidMessageError(
            "expected the type of an image, audio, a video or a PDF file", fields.at("mimeType"), code="not_supported"
        )
    return content


def _whole(key: str) -> Callable[[Fields], None]:
    def read(fields: Fields) -> None:
        fields.value(key, Mapping, "an object")
        fields.leave("thought")

    return read


_OF_MEDIA = {"videoMetadata": _video_metadata, "mediaResolution": _media_resolution}
_MEDIA: dict[str, Callable[[Fields], Any]] = {
    "inlineData": lambda fields: fields.object("inlineData", lambda inline: _named(inline, _inline)),
    "fileData": lambda fields: fields.object("fileData", lambda file: _named(file, _file)),
}
USER_PARTS: dict[str, Callable[[Fields], Any]] = {
    "text": lambda fields: [TextContent(fields.text("text"))],
    **_MEDIA,
    "functionResponse": lambda fields: fields.object("functionResponse", _result),
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

_SYSTEM = {"text": USER_PARTS["text"]}
