"""OpenAI's Chat Completions messages: ``to_openai`` writes what ``messages=`` takes, ``from_openai`` reads it.

``from_openai`` also reads what the SDK dumps: ``completion.choices[0].message.model_dump()``.

OpenAI wants every call answered right after it, and nothing else answered: what ``chatmemory.formats.validity`` says
is repaired, and reported. Names of answers are repaired as those of users are.

Not written, because OpenAI has no place for it and the model does not need it:

- ``thinking``, unless the caller names a field for it
- ``attributes``, but for what ``from_openai`` put there: the refusal, name and audio ID of an answer, and, unless
  ``extras=False``, what another server of this API added to it and to its calls
- ``is_error`` and ``tool_name`` of a tool result
- ``revised_prompt`` of an image, and its Base64 and MIME type when it has a URL that OpenAI fetches
- ``url`` of audio and PDF files that are here as data, the bytes of audio that is here as Base64
- an empty ``name`` of a user message

Of detail levels, every model has low, high and auto: medium is written as auto, ultra-high as high. ``original``, which
only some have, is read as ultra-high. Everything else that has no place is an ``UnsupportedContentError``: images of
other types than JPEG, PNG, GIF and WebP, URLs of other schemes than http and https, and data that is not Base64, among
others. (In a record of what was said, images may be of any kind, and data may be anything.)

Not kept by ``from_openai``: that a system message's role was ``developer``, the file name of a PDF, and the ``index``
of a call. Several text parts of a system or assistant message become one text.

Source: ``openai.types.chat`` of the SDK, 3.52; https://platform.openai.com/docs/api-reference/chat/create.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, cast

from chatmemory.core.arguments import tuple_of
from chatmemory.core.contents import Audio, AudioContent, Content, ImageContent, PdfFileContent, TextContent
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.json_text import require_json, require_storable
from chatmemory.core.kept import OPENAI
from chatmemory.core.messages import (
    AiMessage,
    ChatMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.core.serialization import Fields, expected
from chatmemory.formats import CannotExpressError, MessageFormat, naming_message, schemas
from chatmemory.formats.kept_parts import with_tool_names
from chatmemory.formats.media import (
    OPENAI_DETAILS,
    PDF_TYPES,
    Data,
    MediaRule,
    data_of,
    data_uri,
    openai_image,
    openai_image_url,
    openai_pdf_file,
    require_base64,
    sendable,
)
from chatmemory.formats.validity import (
    CallIds,
    Names,
    Repair,
    RepairReason,
    Rules,
    Valid,
    arguments_text,
    make_valid,
    tell,
    unused_ids,
    used_ids,
)

ATTRIBUTE = OPENAI
"""The attribute for what only OpenAI has: ``name``, ``refusal``, ``annotations``, ``audio``; and for what other servers
put on an answer (``extra``) and on each of its calls (``calls``)."""

OF_ANSWER = (
    "role",
    "content",
    "name",
    "refusal",
    "annotations",
    "audio",
    "tool_calls",
    "function_call",
    "reasoning_content",
    "reasoning",
)
"""The fields of an answer whose meaning is known."""

OF_CALL = ("id", "type", "index", "function", "custom")
"""The fields of a tool call whose meaning is known."""

_REFUSED_ROLES = {"function": "the role function is deprecated; use tool, with a tool_call_id"}


def from_openai(data: Any, place: str = "") -> list[ChatMessage]:
    """Read messages from OpenAI's list in parsed JSON, or from what its SDK dumps.

    ``null`` is the same as a field that is not there. A refusal is the text of an answer that has no other. What only
    OpenAI has is kept under the attribute ``openai``. A tool result gets the name of the tool that an earlier
    message of the list calls by its ID, unless it has a ``name`` itself.

    What other servers of this API add is read where its meaning is plain: ``reasoning_content`` (DeepSeek, vLLM) or
    ``reasoning`` (vLLM, OpenRouter) of an answer is its thinking. All else that they put on an answer or a tool call,
    such as ``extra_content`` with Gemini's ``thought_signature``, is kept, because they may want it back.

    Args:
        place: what the list is called in errors, ``messages`` say.

    Raises:
        InvalidMessageError: a ``ValueError`` that names the place: ``messages[3].tool_calls[0].function.name``.
    """
    if not isinstance(data, (list, tuple)):
        raise expected("a list of messages", data, place)
    return list(with_tool_names(_read_message(Fields(item, f"{place}[{index}]")) for index, item in enumerate(data)))


def _read_message(fields: Fields) -> ChatMessage:
    return fields.build(_ROLES[fields.choice("role", _ROLES, _REFUSED_ROLES)])


def _system(fields: Fields) -> SystemMessage:
    fields.refuse("name", "the name of a system message cannot be kept; leave it out")
    content = fields.content(_TEXT_PARTS)
    return SystemMessage(content if isinstance(content, str) else _joined(content))


def _tool(fields: Fields) -> ToolExecutionResultMessage:
    id, name = fields.text("tool_call_id"), fields.optional_text("name") or None
    content = fields.content(_TEXT_PARTS)
    contents = [TextContent(content)] if isinstance(content, str) else content
    return ToolExecutionResultMessage(id, name, contents=contents)


def _read_assistant(fields: Fields) -> AiMessage:
    fields.refuse("function_call", "function_call is deprecated; use tool_calls")
    content = fields.content(_ASSISTANT_PARTS) if fields.has("content") else None
    refusal = fields.optional_text("refusal")
    if isinstance(content, list):
        refused = [part for part in content if isinstance(part, str)]
        texts = [part for part in content if isinstance(part, TextContent)]
        if refusal and refused:
            raise InvalidMessageError("given twice, there is one in the content", fields.at("refusal"), code="repeated")
        refusal = refusal or "".join(refused)
        content = _joined(texts) if texts else None
    kept = {
        "name": fields.optional_text("name"),
        "refusal": refusal,
        "annotations": _read_kept(fields, "annotations", (list, tuple), "a list"),
        "audio": _read_kept(fields, "audio", Mapping, "an object"),
    }
    if kept["audio"] is not None:
        Fields(kept["audio"], fields.at("audio")).text("id")
    calls = fields.items("tool_calls", _read_tool_call)
    thinking = _read_thinking(fields)
    if any(extra for _, extra in calls):
        kept["calls"] = [extra for _, extra in calls]
    kept["extra"] = _others(fields, OF_ANSWER, 4)
    kept = {key: value for key, value in kept.items() if value}
    return AiMessage(
        refusal or None if content is None else content,
        [request for request, _ in calls],
        thinking=thinking,
        attributes={ATTRIBUTE: kept} if kept else None,
    )


def _others(fields: Fields, known: Iterable[str], depth: int) -> dict[str, Any]:
    """Take out the fields that another server put there; refuse a known field that is misspelt."""
    others = fields.others()
    for key, value in others.items():
        if len(key) < 40 and (meant := get_close_matches(key, known, 1, 0.85)):
            raise InvalidMessageError(
                "unknown field; did you mean %(meant)s?", fields.at(key[:100]), code="unknown_field", meant=meant[0]
            )
        require_storable(key, fields.at(key[:100]))
        require_json(value, fields.at(key[:100]), depth)
    return others


def _read_kept(fields: Fields, key: str, kind: type | tuple[type, ...], what: str) -> Any:
    """Take out a value to keep it as it is; return None for one that is missing."""
    value = fields.optional(key, kind, what)
    require_json(value, fields.at(key), 3)  # it becomes {"attributes": {"openai": {key: value}}}
    return value


def _read_thinking(fields: Fields) -> str | None:
    thinking, other = fields.optional_text("reasoning_content"), fields.optional_text("reasoning")
    if thinking and other and thinking != other:
        raise InvalidMessageError("given twice, there is a reasoning_content", fields.at("reasoning"), code="repeated")
    return thinking or other or None


def _joined(texts: Iterable[TextContent]) -> str:
    return "".join(text.text for text in texts)


def _read_tool_call(fields: Fields) -> tuple[ToolExecutionRequest, dict[str, Any]]:
    refused = {"custom": "a call of a custom tool cannot be kept, only one of a function"}
    fields.choice("type", ["function"], refused)
    fields.leave("index")  # DeepSeek's; they come in order
    id = fields.text("id")
    name, arguments = fields.object("function", lambda function: (function.text("name"), function.text("arguments")))
    return ToolExecutionRequest(id, name, arguments), _others(fields, OF_CALL, 5)


_ROLES: dict[str, Callable[[Fields], ChatMessage]] = {
    "system": _system,
    "developer": _system,
    "user": lambda fields: UserMessage(fields.content(_USER_PARTS), name=fields.optional_text("name")),
    "assistant": _read_assistant,
    "tool": _tool,
}


def _text(fields: Fields) -> TextContent:
    return TextContent(fields.text("text"))


def _audio(fields: Fields) -> AudioContent:
    format = fields.choice("format", ["wav", "mp3"])
    return AudioContent(base64_data=fields.text("data"), mime_type=f"audio/{format}")


def _read_file(fields: Fields) -> PdfFileContent:
    fields.refuse("file_id", "a file that OpenAI holds cannot be kept; give its file_data")
    fields.optional_text("filename")
    return openai_pdf_file(fields)


_TEXT_PARTS = {"text": _text}
_ASSISTANT_PARTS: dict[str, Callable[[Fields], TextContent | str]] = {
    "text": _text,
    "refusal": lambda fields: fields.text("refusal"),
}
_USER_PARTS: dict[str, Callable[[Fields], Content]] = {
    "text": _text,
    "image_url": lambda fields: fields.object("image_url", lambda image: openai_image(image.text("url"), image)),
    "input_audio": lambda fields: fields.object("input_audio", _audio),
    "file": lambda fields: fields.object("file", _read_file),
}

_NAMES = Names(r"[\s<|\\/>]", 64)
_RULES = Rules(ids=Names(None, 40), unique_ids=False, tool_names=Names(r"[^a-zA-Z0-9_-]", 64), user_names=_NAMES)


def to_openai(
    messages: Iterable[ChatMessage],
    on_repair: Callable[[Repair], object] | None = None,
    *,
    repair: bool = True,
    thinking_as: str | None = None,
    extras: bool = True,
) -> list[dict[str, Any]]:
    """Return the messages as ``messages=`` of a chat completion takes them.

    OpenAI accepts every result: what ``chatmemory.formats.validity`` says is repaired, and
    what is valid comes out one for one. Missing and blank arguments are written as ``{}``: OpenAI wants a string, and
    servers that parse it want JSON.

    Args:
        on_repair: called with each repair, in the order of the messages.
        repair: False writes every message, one for one, for a record of what was said rather than a request.
            Then images may be of any type and at any URL, blank arguments and names stay as they are, and only IDs are
            made up: a tool call without one (or with an empty one) gets ``call_0`` and so on, and the
            results without an ID that follow it answer such calls in order.
        thinking_as: the field that thinking is written to, for servers that want it back: ``"reasoning_content"`` for
            DeepSeek. OpenAI refuses it.
        extras: whether an answer and its tool calls have the fields that another server put there. Gemini refuses a
            call without its ``extra_content``; OpenAI may refuse one that has it.

    Raises:
        UnsupportedContentError: a ``ValueError``; the format cannot express a message. Nothing is left out in silence.
        TypeError: something is no message.
    """
    given: tuple[ChatMessage, ...] = tuple_of(ChatMessage, messages, "messages")
    written: Sequence[ChatMessage] = given
    positions: Sequence[int] = range(len(given))
    if repair:
        valid = make_valid(given, _RULES)
        written, positions = valid.messages, valid.positions
        tell([*valid.repairs, *_names(valid)], on_repair)
    calls = _call_ids(written)
    result = []
    for position, message in zip(positions, written, strict=True):
        with naming_message(given, position):
            result.append(
                _write_message(message, calls, record=not repair, extras=extras) | _write_thinking(message, thinking_as)
            )
    return result


def _history_to_openai(read: Callable[[], Iterable[ChatMessage]]) -> Iterator[dict[str, Any]]:
    """Yield what ``to_openai(read(), repair=False)`` returns."""
    calls = _call_ids(read())
    for index, message in enumerate(read()):
        with naming_message({index: message}, index):
            value = _write_message(message, calls, record=True, extras=True)
        yield value


def _call_ids(messages: Iterable[ChatMessage]) -> CallIds:
    new_ids = unused_ids(used_ids(messages))
    return CallIds(lambda number: next(new_ids))


def _names(valid: Valid) -> Iterator[Repair]:
    """Yield a repair for each answer whose name is not sent as it is."""
    for position, message in zip(valid.positions, valid.messages, strict=True):
        if isinstance(message, AiMessage):
            said, sent = (_write_kept(message, record=record).get("name") for record in (True, False))
            if sent != said:
                yield Repair(position, RepairReason.NAME, f"An answer was given the name {sent}.")


def _write_thinking(message: ChatMessage, field: str | None) -> dict[str, str]:
    if field is None or not isinstance(message, AiMessage) or message.thinking is None:
        return {}
    return {field: message.thinking}


def _write_message(message: ChatMessage, calls: CallIds, *, record: bool, extras: bool) -> dict[str, Any]:
    match message:
        case SystemMessage():
            return {"role": "system", "content": message.text}
        case UserMessage():
            name = {"name": message.name} if message.name else {}
            return {"role": "user", "content": _user_content(message.contents, record=record), **name}
        case AiMessage():
            written = _write_assistant(calls.with_ids(message), record=record)
            return _with_extras(written, message) if extras else written
        case ToolExecutionResultMessage():
            id = calls.require_id_answered_by(message)
            return {"role": "tool", "tool_call_id": id, "content": _tool_content(message.contents)}
    raise CannotExpressError("%(api)s has no such messages", api="OpenAI")


def _user_content(contents: tuple[Content, ...], *, record: bool) -> str | list[dict[str, Any]]:
    if len(contents) == 1 and isinstance(contents[0], TextContent):
        return contents[0].text
    return [content_part(content, record=record) for content in contents]


def _tool_content(contents: tuple[Content, ...]) -> str | list[dict[str, Any]]:
    for content in contents:
        if not isinstance(content, TextContent):
            raise CannotExpressError(
                "OpenAI takes only text in a tool result, but it has %(content)s", content=content.type.value
            )
    return _user_content(contents, record=False)


def _write_assistant(message: AiMessage, *, record: bool) -> dict[str, Any]:
    data: dict[str, Any] = {"role": "assistant", "content": message.text, **_write_kept(message, record=record)}
    if message.text is not None and message.text == data.get("refusal"):
        data["content"] = None  # the reader made the refusal the text
    if message.tool_execution_requests:
        data["tool_calls"] = [_write_tool_call(request, record=record) for request in message.tool_execution_requests]
    if data["content"] is None and not data.keys() & {"tool_calls", "refusal", "audio"}:
        data["content"] = ""  # OpenAI refuses null where there is nothing else
    return data


def _with_extras(data: dict[str, Any], message: AiMessage) -> dict[str, Any]:
    """Return a written answer with the fields that another server put on it and on its calls."""
    kept = message.attributes.get(ATTRIBUTE)
    if not isinstance(kept, Mapping):
        return data
    of_calls, calls = kept.get("calls"), data.get("tool_calls", [])
    if isinstance(of_calls, (list, tuple)) and len(of_calls) == len(calls):
        written = zip(calls, of_calls, strict=True)
        data = data | {"tool_calls": [_unknown_of(extra, OF_CALL) | call for call, extra in written]}
    return _unknown_of(kept.get("extra"), OF_ANSWER) | data


def _unknown_of(extra: Any, known: Sequence[str]) -> dict[str, Any]:
    if not isinstance(extra, Mapping):
        return {}
    return {key: value for key, value in extra.items() if key not in known and value is not None}


def _write_kept(message: AiMessage, *, record: bool) -> dict[str, Any]:
    """Return what ``from_openai`` kept aside and OpenAI takes back. Anybody may have written it, so it is checked."""
    kept = message.attributes.get(ATTRIBUTE)
    if not isinstance(kept, Mapping):
        return {}
    data: dict[str, Any] = {}
    for key in ("name", "refusal"):
        if isinstance(kept.get(key), str) and kept[key]:
            data[key] = kept[key]
    if "name" in data and not record:
        data["name"] = _NAMES.allowed(data["name"])
    audio = kept.get("audio")
    if isinstance(audio, Mapping) and isinstance(audio.get("id"), str) and (audio["id"] or record):
        data["audio"] = {"id": audio["id"]}
    return data


def _write_tool_call(request: ToolExecutionRequest, *, record: bool) -> dict[str, Any]:
    if request.name is None:
        raise CannotExpressError("%(api)s needs the name of the tool that is called", api="OpenAI")
    function = {"name": request.name, "arguments": arguments_text(request.arguments, keep_blank=record)}
    return {"id": request.id, "type": "function", "function": function}


_PDF_FILES = MediaRule(api="OpenAI", kind="a PDF file", types=PDF_TYPES, schemes=(), data_first=True)

_AUDIO_FORMATS = {
    "audio/wav": "wav",
    "audio/wave": "wav",
    "audio/x-wav": "wav",
    "audio/vnd.wave": "wav",
    "audio/mp3": "mp3",
    "audio/mpeg": "mp3",
}


def content_part(content: Content, *, record: bool) -> dict[str, Any]:
    """Return the part for one content of a user message.

    For a record of what was said, images may be of any kind, and data may be anything.
    """
    match content:
        case TextContent():
            return {"type": "text", "text": content.text}
        case ImageContent():
            url = openai_image_url(content, record=record)
            return {"type": "image_url", "image_url": {"url": url, "detail": OPENAI_DETAILS[content.detail_level]}}
        case AudioContent():
            return {"type": "input_audio", "input_audio": _input_audio(content.audio or Audio(), record)}
        case PdfFileContent():
            return {"type": "file", "file": _write_file(content, record)}
    raise CannotExpressError("%(api)s takes no %(content)s", api="OpenAI", content=content.type.value)


def _input_audio(audio: Audio, record: bool) -> dict[str, Any]:
    mime_type, data = data_of(audio) or data_uri(audio.url or "")
    if not data:
        raise CannotExpressError("%(api)s needs the data of %(kind)s; a URL is not enough", api="OpenAI", kind="audio")
    format = _AUDIO_FORMATS.get(mime_type.lower())
    if format is None:
        raise CannotExpressError(
            "OpenAI takes audio/wav and audio/mp3, but the MIME type is %(mime_type)s",
            mime_type=repr(mime_type or None)[:100],
        )
    if not record:
        require_base64(data, "OpenAI", "audio")
    return {"data": data, "format": format}


def _write_file(content: PdfFileContent, record: bool) -> dict[str, Any]:
    rule = replace(_PDF_FILES, base64_only=not record)
    found = cast(Data, sendable(content.pdf_file, rule))  # the rule has no addresses
    # OpenAI refuses a file without a name.
    return {"file_data": f"data:application/pdf;base64,{found.base64}", "filename": "file.pdf"}


FORMAT = MessageFormat(
    title="OpenAI",
    write=to_openai,
    write_each=lambda messages: to_openai(messages, repair=False),
    write_history=_history_to_openai,
    read=from_openai,
    attributes=(ATTRIBUTE,),
    schemas=schemas.OPENAI,
)
