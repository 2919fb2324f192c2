"""The writer of OpenAI's messages; see :mod:`chatmemory.formats.openai`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from chatmemory.core.arguments import tuple_of
from chatmemory.core.contents import (
    Audio,
    AudioContent,
    Content,
    ImageContent,
    PdfFileContent,
    TextContent,
)
from chatmemory.core.messages import (
    AiMessage,
    ChatMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.formats import CannotExpressError, naming_message
from chatmemory.formats.media import (
    OPENAI_DETAILS,
    PDF_TYPES,
    Data,
    MediaRule,
    data_of,
    data_uri,
    openai_image_url,
    require_base64,
    sendable,
)
from chatmemory.formats.openai.reader import ATTRIBUTE, OF_ANSWER, OF_CALL
from chatmemory.formats.pairing import CallIds, arguments_text, unused_ids, used_ids
from chatmemory.formats.rules import Names, Repair, RepairReason, Rules, tell
from chatmemory.formats.validity import Valid, make_valid

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

    OpenAI accepts whatever is returned: what :mod:`chatmemory.formats.validity` says is repaired, and
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
    new_ids = unused_ids(used_ids(written))
    calls = CallIds(lambda number: next(new_ids))
    result = []
    for position, message in zip(positions, written, strict=True):
        with naming_message(given, position):
            result.append(_message(message, calls, record=not repair, extras=extras) | _thinking(message, thinking_as))
    return result


def _names(valid: Valid) -> Iterator[Repair]:
    """Yield a repair for each answer whose name is not sent as it is."""
    for position, message in zip(valid.positions, valid.messages, strict=True):
        if isinstance(message, AiMessage):
            said, sent = (_kept(message, record=record).get("name") for record in (True, False))
            if sent != said:
                yield Repair(position, RepairReason.NAME, f"An answer was given the name {sent}.")


def _thinking(message: ChatMessage, field: str | None) -> dict[str, str]:
    if field is None or not isinstance(message, AiMessage) or message.thinking is None:
        return {}
    return {field: message.thinking}


def _message(message: ChatMessage, calls: CallIds, *, record: bool, extras: bool) -> dict[str, Any]:
    match message:
        case SystemMessage():
            return {"role": "system", "content": message.text}
        case UserMessage():
            name = {"name": message.name} if message.name else {}
            return {"role": "user", "content": _user_content(message.contents, record=record), **name}
        case AiMessage():
            written = _assistant(calls.with_ids(message), record=record)
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


def _assistant(message: AiMessage, *, record: bool) -> dict[str, Any]:
    data: dict[str, Any] = {"role": "assistant", "content": message.text, **_kept(message, record=record)}
    if message.text is not None and message.text == data.get("refusal"):
        data["content"] = None  # the reader made the refusal the text
    if message.tool_execution_requests:
        data["tool_calls"] = [_tool_call(request, record=record) for request in message.tool_execution_requests]
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


def _kept(message: AiMessage, *, record: bool) -> dict[str, Any]:
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


def _tool_call(request: ToolExecutionRequest, *, record: bool) -> dict[str, Any]:
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
            return {"type": "file", "file": _file(content, record)}
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


def _file(content: PdfFileContent, record: bool) -> dict[str, Any]:
    rule = replace(_PDF_FILES, base64_only=not record)
    found = cast(Data, sendable(content.pdf_file, rule))  # the rule has no addresses
    # OpenAI refuses a file without a name.
    return {"file_data": f"data:application/pdf;base64,{found.base64}", "filename": "file.pdf"}
