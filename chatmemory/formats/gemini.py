"""Gemini's contents: ``to_gemini`` writes what ``generateContent`` takes, ``from_gemini`` reads it.

``from_gemini`` also reads what the SDK dumps: ``response.model_dump()``, or one content of it.

Gemini wants the turns of the user and of the model to alternate, the user's first; after a turn with calls, a turn with
one response for each call and nothing else; and the system text apart. So

- system messages are written as ``system_instruction``, wherever they are; several become several parts
- neighbours of one role become one content, but responses of functions stay apart from what the user says after them
- what ``chatmemory.formats.validity`` says is repaired, and reported
- what ran at Gemini (code, calls of its tools) is sent with its result: a half without the other is left out, and
  reported. Calls of the last answer stay if nothing but results of tools is said after it
- calls that another model made have no signature: the first one of an answer gets the placeholder that Gemini accepts,
  ``skip_thought_signature_validator``; reading removes it

Not written, because Gemini has no place for it and the model does not need it:

- thinking and ``attributes``, but for what ``from_gemini`` put there; an answer of nothing but thinking
- an empty text of an answer; ``name`` of a user message
- ``tool_name`` of a result: it gets the name of the call that it answers; ``is_error`` if it is false
- in which order texts and media of a tool result were: texts come first
- ``detail_level`` and ``revised_prompt`` of an image
- ``url`` of media that are here as data, the bytes of audio that is here as Base64

A URL gets the MIME type that its ending says, if it has no other. Media in tool results are for Gemini 3 and later.
Everything else that has no place is an ``UnsupportedContentError``: media whose MIME type is of another
kind, URLs of other schemes than http, https and gs, and data that is not Base64, among others.

What ``from_gemini`` finds that messages here have no place for is kept aside, in the attribute ``gemini``: the parts of
an answer as they came, if it has several texts, thoughts, signatures, media, or what ran at Gemini; those of a user, if
media have a name, a resolution or a clip; and a response of a function that has other keys than ``output`` or
``error``, which is read as JSON. The name of media is read as text before them: a model reads it, so it is part of what
is said. The parts are written again as long as the message says what they say, and they have no more in them than
``from_gemini`` keeps.

Not kept by ``from_gemini``: what a response says of itself (``usageMetadata``, ``finishReason`` …), safety ratings and
citations; ``thoughtSignature`` and ``partMetadata`` of what users and tools say. Several texts of an answer become one,
several parts of ``system_instruction`` one message, with an empty line between them. A content that was made of several
messages is read as one.

Source: ``google.genai.types`` of the SDK, 3.4; https://ai.google.dev/api/generate-content,
https://ai.google.dev/gemini-api/docs/thought-signatures.
"""

from __future__ import annotations

import base64
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from itertools import groupby
from typing import Any, Literal, NamedTuple

from chatmemory.core.arguments import is_blank, tuple_of
from chatmemory.core.contents import Content, ContentType, TextContent, VideoContent
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.json_text import dumps, require_json
from chatmemory.core.kept import GEMINI
from chatmemory.core.messages import (
    AiMessage,
    ChatMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.core.serialization import Fields, expected
from chatmemory.formats import CannotExpressError, MessageFormat, schemas
from chatmemory.formats.kept_parts import (
    Half,
    given_up,
    is_same_answer,
    kept_pieces,
    read_system,
    with_attributes,
    without_lone_halves,
    write_transcript,
)
from chatmemory.formats.media import PDF_TYPES, WEB, MediaRule, content_of_type, is_at, is_base64, sendable
from chatmemory.formats.validity import Names, Repair, Rules, arguments_object, make_valid, tell

NO_SIGNATURE = "skip_thought_signature_validator"
"""The signature that Gemini takes for a call that it did not make."""


ATTRIBUTE = GEMINI
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


def _read_function_call(fields: Fields) -> ToolExecutionRequest:
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
    "functionCall": _read_function_call,
    # What Gemini made or ran itself needs no answer from here, and is of use only unchanged.
    **{
        key: _whole(key)
        for key in ("inlineData", "fileData", "executableCode", "codeExecutionResult", "toolCall", "toolResponse")
    },
}

_SYSTEM = {"text": USER_PARTS["text"]}

SCHEMES = (*WEB, "gs")
"""The schemes of the addresses that Gemini fetches."""


def _rule(kind: str, *types: str) -> MediaRule:
    return MediaRule(api="Gemini", kind=kind, types=types, schemes=SCHEMES, data_first=True)


_MEDIA_RULES = {
    ContentType.IMAGE: _rule("an image", "image/*"),
    ContentType.AUDIO: _rule("audio", "audio/*"),
    ContentType.VIDEO: _rule("a video", "video/*"),
    ContentType.PDF: _rule("a PDF file", *PDF_TYPES),
}

# By what the path of a URL ends with. A fixed list, so that the same memory is written the same everywhere.
_MIME_TYPES = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "heic": "image/heic",
    "heif": "image/heif",
    "gif": "image/gif",
    "wav": "audio/wav",
    "mp3": "audio/mp3",
    "aiff": "audio/aiff",
    "aac": "audio/aac",
    "ogg": "audio/ogg",
    "flac": "audio/flac",
    "mp4": "video/mp4",
    "mpeg": "video/mpeg",
    "mov": "video/mov",
    "webm": "video/webm",
    "pdf": "application/pdf",
}


def answer_parts(message: AiMessage) -> list[dict[str, Any]]:
    """Return the parts of an answer: its text, and its calls."""
    parts: list[dict[str, Any]] = [] if message.text is None else [{"text": message.text}]
    return parts + [{"functionCall": _write_function_call(request)} for request in message.tool_execution_requests]


def _write_function_call(request: ToolExecutionRequest) -> dict[str, Any]:
    if not request.name:
        raise CannotExpressError("%(api)s needs the name of the tool that is called", api="Gemini")
    id = {"id": request.id} if request.id else {}
    return id | {"name": request.name, "args": arguments_object(request.arguments)}


def function_response(message: ToolExecutionResultMessage) -> dict[str, Any]:
    """Return a response without its ID and name: ``output`` or ``error`` with the texts, ``parts`` with the media."""
    texts = [content.text for content in message.contents if isinstance(content, TextContent)]
    media = [content_part(content) for content in message.contents if not isinstance(content, TextContent)]
    said: dict[str, Any] = {"error" if message.is_error else "output": texts[0] if len(texts) == 1 else texts}
    return {"response": said} | ({"parts": media} if media else {})


def content_part(content: Content) -> dict[str, Any]:
    """Return the part for one content of a user message or a tool result."""
    if isinstance(content, TextContent):
        return {"text": content.text}
    media, rule = content.media, _MEDIA_RULES[content.type]
    found = sendable(media, rule)
    if not isinstance(found, str):
        return {"inlineData": {"mimeType": found.mime_type, "data": found.base64}}
    given = media.mime_type if media is not None else None
    mime_type = given or _MIME_TYPES.get(re.split("[?#]", found, maxsplit=1)[0].rpartition(".")[2].lower())
    if mime_type:
        rule.require_type(mime_type)
        return {"fileData": {"fileUri": found, "mimeType": mime_type}}
    if content.type is ContentType.VIDEO:  # of YouTube, which have none
        return {"fileData": {"fileUri": found}}
    raise CannotExpressError(
        "%(api)s needs the MIME type of %(kind)s, and the ending of its URL names none", api=rule.api, kind=rule.kind
    )


_HALVES: tuple[tuple[Literal["call", "result"], str, str], ...] = (
    ("call", "code", "executableCode"),
    ("result", "code", "codeExecutionResult"),
    ("call", "tool", "toolCall"),
    ("result", "tool", "toolResponse"),
)
_RULES = Rules(
    ids=Names(None, 64),
    unique_ids=False,
    needs_ids=False,
    tool_names=Names(r"^[^a-zA-Z_]|[^a-zA-Z0-9_.:-]", 128),
    object_arguments=True,
    blank_texts=False,
    user_first=True,
    says_nothing=lambda message: not _answer_parts(message),
)


def to_gemini(messages: Iterable[ChatMessage], on_repair: Callable[[Repair], object] | None = None) -> dict[str, Any]:
    """Return ``contents`` and, with a system message, ``system_instruction``, which belongs into the SDK's ``config``.

    Gemini accepts every result; a message that it has no place for is an error.

    Args:
        on_repair: called with each repair, in the order of the messages.

    Raises:
        UnsupportedContentError: a ``ValueError``; the format cannot express a message. Nothing is left out in silence.
        TypeError: something is no message.
    """
    given: tuple[ChatMessage, ...] = tuple_of(ChatMessage, messages, "messages")
    valid = make_valid(given, _RULES)
    repairs = [*valid.repairs, *given_up(given, valid, _kept_parts)]
    valid, _ = without_lone_halves(valid, _kept_parts, _half, _with_parts, repairs)
    texts, turns = write_transcript(valid, given, _Writer().speaker_and_parts)
    tell(repairs, on_repair)
    system = [{"text": text} for text in texts]
    contents = [{"role": "model" if speaker == "model" else "user", "parts": parts} for speaker, parts in turns]
    return ({"system_instruction": {"parts": system}} if system else {}) | {"contents": contents}


class _Writer:
    """A writer of one message after the other."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, deque[ToolExecutionRequest]] = defaultdict(deque)
        """The calls that still wait for their responses, by their IDs."""

    def speaker_and_parts(self, message: ChatMessage) -> tuple[str, list[dict[str, Any]]]:
        match message:
            case UserMessage():
                return "user", _user_parts(message)
            case AiMessage():
                self._waiting.clear()
                for request in message.tool_execution_requests:
                    self._waiting[request.id or ""].append(request)
                return "model", _signed(_answer_parts(message))
            case ToolExecutionResultMessage():
                # Each answers a call, and those without an ID in order: that is what was made valid.
                request = self._waiting[message.id or ""].popleft()
                id = {"id": request.id} if request.id else {}
                return "function", [{"functionResponse": id | {"name": request.name} | _response(message)}]
        raise CannotExpressError("%(api)s has no such messages", api="Gemini")


def _user_parts(message: UserMessage) -> list[dict[str, Any]]:
    def is_same(parts: list[dict[str, Any]]) -> bool:
        return read_contents(parts) == list(message.contents)

    kept = kept_pieces(message, ATTRIBUTE, "parts", clean_contents, is_same)
    return _sayable([content_part(content) for content in message.contents] if kept is None else kept)


def _kept_parts(message: AiMessage) -> list[dict[str, Any]] | None:
    """Return the parts that ``from_gemini`` kept aside; None if there are none to write."""
    return kept_pieces(
        message, ATTRIBUTE, "parts", clean_parts, lambda parts: is_same_answer(read_answer(parts), message)
    )


def _half(part: dict[str, Any]) -> Half:
    """Return what a part is in the run of a tool at Gemini."""
    for kind, tool, key in _HALVES:
        if key in part:
            return Half(kind, (tool, str(part[key].get("id"))))
    return Half()


def _with_parts(message: AiMessage, parts: list[dict[str, Any]]) -> AiMessage | None:
    """Return an answer with other parts, which say the same; None if Gemini would get none of them."""
    rest = with_attributes(message, {**message.attributes, ATTRIBUTE: {"parts": parts}})
    return rest if _answer_parts(rest) else None


def _answer_parts(message: AiMessage) -> list[dict[str, Any]]:
    kept = _kept_parts(message)
    parts = _sayable(answer_parts(message) if kept is None else kept)
    # Thinking alone is no answer.
    return parts if any(not part.get("thought") and part.get("text") != "" for part in parts) else []


def _response(message: ToolExecutionResultMessage) -> dict[str, Any]:
    def is_same(parts: list[dict[str, Any]]) -> bool:
        results = [read_result(part) for part in parts]
        return [(result.contents, result.is_error) for result in results] == [(message.contents, message.is_error)]

    kept = kept_pieces(message, ATTRIBUTE, "parts", clean_contents, is_same)
    if kept is None:
        return function_response(message)
    return {key: value for key, value in kept[0]["functionResponse"].items() if key not in ("id", "name")}


def _sayable(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    # Gemini refuses an empty text, unless there is a signature with it.
    return [part for part in parts if part.get("text") != "" or part.get("thoughtSignature")]


def _signed(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the parts with a signature at the first call: Gemini 3 and later refuse one without."""
    first = next((index for index, part in enumerate(parts) if "functionCall" in part), None)
    if first is not None and not parts[first].get("thoughtSignature"):
        parts[first] = parts[first] | {"thoughtSignature": NO_SIGNATURE}
    return parts


FORMAT = MessageFormat(
    title="Gemini",
    write=to_gemini,
    read=from_gemini,
    attributes=(ATTRIBUTE,),
    schemas=schemas.GEMINI,
)
