"""The strict reader of OpenAI's messages; see :mod:`chatmemory.formats.openai`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from chatmemory.contents import AudioContent, Content, DetailLevel, ImageContent, PdfFileContent, TextContent
from chatmemory.exceptions import InvalidMessageError
from chatmemory.messages import (
    AiMessage,
    ChatMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.reader import require_json, require_storable

__all__ = ["KEPT_UNDER", "from_openai"]

KEPT_UNDER = "openai"
"""The attribute under which what only OpenAI has is kept: ``name``, ``refusal``, ``annotations``, ``audio``."""

_DETAIL_LEVELS = {
    "auto": DetailLevel.AUTO,
    "low": DetailLevel.LOW,
    "high": DetailLevel.HIGH,
    "original": DetailLevel.ULTRA_HIGH,
}

_MISSING = object()
_KINDS: dict[type, str] = {bool: "true or false", int: "a number", float: "a number", type(None): "null"}

T = TypeVar("T")


def from_openai(data: Any, place: str = "") -> list[ChatMessage]:
    """Messages from the parsed JSON list of OpenAI's, or from what its SDK dumps.

    ``null`` is the same as a field that is not there. A refusal is the text of an answer that has no other. What only
    OpenAI has is kept under the attribute ``openai``. A tool result is given the name of the tool that an earlier
    message of the list calls by its ID.

    Args:
        place: what the list is called in errors, ``messages`` say.

    Raises:
        InvalidMessageError: a ``ValueError`` that names the place: ``messages[3].tool_calls[0].function.name``.
    """
    if not isinstance(data, (list, tuple)):
        raise _expected("a list of messages", data, place)
    messages: list[ChatMessage] = []
    tools: dict[str | None, str | None] = {}
    for index, item in enumerate(data):
        fields = _Fields(item, f"{place}[{index}]")
        role = fields.choice("role", _ROLES, _REFUSED_ROLES)
        message = fields.build(_ROLES[role])
        if isinstance(message, AiMessage):
            tools.update({request.id: request.name for request in message.tool_execution_requests})
        elif isinstance(message, ToolExecutionResultMessage):
            message = ToolExecutionResultMessage(message.id, tools.get(message.id), contents=message.contents)
        messages.append(message)
    return messages


def _kind_of(value: Any) -> str:
    if value is _MISSING:
        return "nothing"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, (list, tuple)):
        return "a list"
    return _KINDS.get(type(value), type(value).__name__)


def _expected(what: str, value: Any, place: str) -> InvalidMessageError:
    return InvalidMessageError(f"expected {what}, got {_kind_of(value)}", place)


class _Fields:
    """The fields of one JSON object, taken out one by one; what is left over in the end is unknown."""

    def __init__(self, data: Any, place: str) -> None:
        if not isinstance(data, Mapping):
            raise _expected("an object", data, place)
        self._data = dict(data)
        self._place = place

    def at(self, key: str) -> str:
        return f"{self._place}.{key}"

    def has(self, key: str) -> bool:
        """Whether the field has a value. A null is taken out."""
        if self._data.get(key) is None:
            self._data.pop(key, None)
            return False
        return True

    def text(self, key: str) -> str:
        value = self._data.pop(key, _MISSING)
        if not isinstance(value, str):
            raise _expected("a string", value, self.at(key))
        return require_storable(value, self.at(key))

    def optional_text(self, key: str) -> str | None:
        return self.text(key) if self.has(key) else None

    def choice(self, key: str, choices: Iterable[str], refused: Mapping[str, str] | None = None) -> str:
        value = self._data.pop(key, _MISSING)
        if isinstance(value, str):
            if value in choices:
                return value
            if refused and value in refused:
                raise InvalidMessageError(refused[value], self.at(key))
        got = repr(value[:100]) if isinstance(value, str) else _kind_of(value)
        raise InvalidMessageError(f"expected one of {', '.join(choices)}, got {got}", self.at(key))

    def object(self, key: str, read: Callable[[_Fields], T]) -> T:
        return _Fields(self._data.pop(key, _MISSING), self.at(key)).build(read)

    def items(self, key: str, read: Callable[[_Fields], T]) -> list[T]:
        """The items of a list that may be missing."""
        if not self.has(key):
            return []
        value = self._data.pop(key)
        if not isinstance(value, (list, tuple)):
            raise _expected("a list", value, self.at(key))
        return [_Fields(item, f"{self.at(key)}[{index}]").build(read) for index, item in enumerate(value)]

    def content(self, parts: Mapping[str, Callable[[_Fields], T]]) -> str | list[T]:
        """The ``content``: text, or the parts that it is made of."""
        if isinstance(self._data.get("content"), str):
            return self.text("content")
        value = self._data.get("content", _MISSING)
        if not isinstance(value, (list, tuple)):
            raise _expected("a string or a list of parts", value, self.at("content"))
        found = self.items("content", lambda part: parts[part.choice("type", parts)](part))
        if not found:
            raise InvalidMessageError("expected at least one part, got none", self.at("content"))
        return found

    def kept(self, key: str, kind: type | tuple[type, ...], what: str) -> Any:
        """A value that is kept as it is; None for one that is missing."""
        if not self.has(key):
            return None
        value = self._data.pop(key)
        if not isinstance(value, kind):
            raise _expected(what, value, self.at(key))
        require_json(value, self.at(key), 3)  # it becomes {"attributes": {"openai": {key: value}}}
        return value

    def refuse(self, key: str, problem: str) -> None:
        """Refuse a field that is known, but cannot be kept."""
        if self.has(key):
            raise InvalidMessageError(problem, self.at(key))

    def build(self, read: Callable[[_Fields], T]) -> T:
        try:
            result = read(self)
        except InvalidMessageError:
            raise
        except ValueError as error:  # a constructor's own check
            self._refuse_unknown()
            raise InvalidMessageError(str(error), self._place) from error
        self._refuse_unknown()
        return result

    def _refuse_unknown(self) -> None:
        if self._data:
            raise InvalidMessageError("unknown field; leave it out", self.at(str(next(iter(self._data)))[:100]))


def _system(fields: _Fields) -> SystemMessage:
    fields.refuse("name", "the name of a system message cannot be kept; leave it out")
    content = fields.content(_TEXT_PARTS)
    return SystemMessage(content if isinstance(content, str) else _joined(content))


def _user(fields: _Fields) -> UserMessage:
    return UserMessage(fields.content(_USER_PARTS), name=fields.optional_text("name"))


def _tool(fields: _Fields) -> ToolExecutionResultMessage:
    id = fields.text("tool_call_id")
    content = fields.content(_TEXT_PARTS)
    if isinstance(content, str):
        return ToolExecutionResultMessage(id, text=content)
    return ToolExecutionResultMessage(id, contents=content)


def _assistant(fields: _Fields) -> AiMessage:
    fields.refuse("function_call", "function_call is of the past; use tool_calls")
    content = fields.content(_ASSISTANT_PARTS) if fields.has("content") else None
    refusal = fields.optional_text("refusal")
    if isinstance(content, list):
        refused = [part for part in content if isinstance(part, str)]
        texts = [part for part in content if isinstance(part, TextContent)]
        if refusal and refused:
            raise InvalidMessageError("given twice, there is one in the content", fields.at("refusal"))
        refusal = refusal or "".join(refused)
        content = _joined(texts) if texts else None
    kept = {
        "name": fields.optional_text("name"),
        "refusal": refusal,
        "annotations": fields.kept("annotations", (list, tuple), "a list"),
        "audio": fields.kept("audio", Mapping, "an object"),
    }
    if kept["audio"] is not None:
        _Fields(kept["audio"], fields.at("audio")).text("id")
    kept = {key: value for key, value in kept.items() if value}
    return AiMessage(
        refusal or None if content is None else content,
        fields.items("tool_calls", _tool_call),
        attributes={KEPT_UNDER: kept} if kept else None,
    )


def _joined(texts: Iterable[TextContent]) -> str:
    return "".join(text.text for text in texts)


def _tool_call(fields: _Fields) -> ToolExecutionRequest:
    refused = {"custom": "a call of a custom tool cannot be kept, only one of a function"}
    fields.choice("type", ["function"], refused)
    id = fields.text("id")
    name, arguments = fields.object("function", lambda function: (function.text("name"), function.text("arguments")))
    return ToolExecutionRequest(id, name, arguments)


def _text(fields: _Fields) -> TextContent:
    return TextContent(fields.text("text"))


def _refusal(fields: _Fields) -> str:
    return fields.text("refusal")


def _image(fields: _Fields) -> ImageContent:
    return fields.object("image_url", _image_url)


def _image_url(fields: _Fields) -> ImageContent:
    url = fields.text("url")
    # OpenAI's default, not that of ImageContent: it is how closely the model has looked.
    detail = fields.choice("detail", _DETAIL_LEVELS) if fields.has("detail") else "auto"
    mime_type, data = _data_uri(url)
    if data is None:
        return ImageContent(url, detail_level=_DETAIL_LEVELS[detail])
    return ImageContent(base64_data=data, mime_type=mime_type, detail_level=_DETAIL_LEVELS[detail])


def _audio(fields: _Fields) -> AudioContent:
    return fields.object("input_audio", _input_audio)


def _input_audio(fields: _Fields) -> AudioContent:
    format = fields.choice("format", ["wav", "mp3"])
    return AudioContent(base64_data=fields.text("data"), mime_type=f"audio/{format}")


def _file(fields: _Fields) -> PdfFileContent:
    return fields.object("file", _file_file)


def _file_file(fields: _Fields) -> PdfFileContent:
    fields.refuse("file_id", "a file that OpenAI holds cannot be kept; give its file_data")
    fields.optional_text("filename")
    mime_type, data = _data_uri(fields.text("file_data"))
    if data is None or mime_type.lower() != "application/pdf":
        raise InvalidMessageError("expected data:application/pdf;base64,…", fields.at("file_data"))
    return PdfFileContent(base64_data=data)


def _data_uri(url: str) -> tuple[str, str | None]:
    """The MIME type and the Base64 of a data URI; no Base64 if it is something else."""
    head, _, data = url.partition(",")
    if head[:5].lower() == "data:" and head[-7:].lower() == ";base64":
        return head[5:-7], data
    return "", None


_ROLES: dict[str, Callable[[_Fields], ChatMessage]] = {
    "system": _system,
    "developer": _system,
    "user": _user,
    "assistant": _assistant,
    "tool": _tool,
}
_REFUSED_ROLES = {"function": "the role function is of the past; use tool, with a tool_call_id"}

_TEXT_PARTS = {"text": _text}
_ASSISTANT_PARTS: dict[str, Callable[[_Fields], TextContent | str]] = {"text": _text, "refusal": _refusal}
_USER_PARTS: dict[str, Callable[[_Fields], Content]] = {
    "text": _text,
    "image_url": _image,
    "input_audio": _audio,
    "file": _file,
}
