"""Messages to and from the JSON that LangChain4j writes.

``message_to_json`` and ``messages_to_json`` return LangChain4j's text, character for character. The readers accept what
LangChain4j writes (and the older form of tool results, with ``text``). They refuse everything else, with the field
path: ``[3].toolExecutionRequests[0].name: expected a string, got a number``.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, TypeVar

from chatmemory.core.arguments import require_list
from chatmemory.core.contents import (
    Audio,
    AudioContent,
    Content,
    ContentType,
    DetailLevel,
    Image,
    ImageContent,
    Media,
    PdfFile,
    PdfFileContent,
    TextContent,
    Video,
    VideoContent,
)
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.json_text import (
    TypedTwice,
    dumps,
    is_storable,
    java_map_order,
    loads,
    require_json,
    require_storable,
    with_replacements,
)
from chatmemory.core.messages import (
    AiMessage,
    ChatMessage,
    ChatMessageType,
    CustomMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)

MEDIA_FIELDS = {"IMAGE": "image", "AUDIO": "audio", "VIDEO": "video", "PDF": "pdfFile"}
"""The field that contains the media of a content, by type of content."""


def message_to_json(message: ChatMessage | None) -> str:
    """Return the JSON text of one message.

    Raises:
        TypeError: an attribute has no JSON form.
    """
    data = None if message is None else message_to_data(message)
    if isinstance(message, UserMessage) and data and message.attributes:
        # LangChain4j copies the attributes of user messages, and only these, into a HashMap.
        data["attributes"] = {key: data["attributes"][key] for key in java_map_order(data["attributes"])}
    return dumps(data)


def messages_to_json(messages: Iterable[ChatMessage | None] | None) -> str:
    """Return the JSON text of a list of messages.

    Raises:
        TypeError: ``messages`` is not a list, or an attribute has no JSON form.
    """
    if messages is None:
        return "null"
    return "[" + ",".join(map(message_to_json, require_list(messages, "messages"))) + "]"


def message_from_json(text: str) -> ChatMessage:
    """Read one message.

    Raises:
        InvalidMessageError: the message is invalid. The error names the field path.
    """
    return read_message(_parsed(text))


def messages_from_json(text: str | None) -> list[ChatMessage]:
    """Read a list of messages. None and ``null`` give an empty list.

    Raises:
        InvalidMessageError: a message is invalid. The error names the field path.
    """
    return read_messages(None if text is None else _parsed(text))


def _parsed(text: str) -> Any:
    if text is None:
        raise InvalidMessageError("expected JSON text, got null", code="null")
    try:
        return loads(text)
    except ValueError as error:
        raise InvalidMessageError(error) from error


_MISSING = object()
_KINDS: dict[type, str] = {bool: "true or false", int: "a number", float: "a number", type(None): "null"}

T = TypeVar("T")


class Fields:
    """The fields of one JSON object, which are taken out one by one. Fields that are left over are unknown."""

    def __init__(self, data: Any, place: str) -> None:
        """Args:
            data: the object.
            place: its field path, such as ``messages[3]``; empty for the whole document.

        Raises:
            InvalidMessageError: ``data`` is not an object.
        """
        if not isinstance(data, Mapping):
            raise expected("an object", data, place)
        self._data = dict(data)
        self._place = place

    def at(self, key: str) -> str:
        """Return the path of a field."""
        return f"{self._place}.{key}" if self._place else key

    def has(self, key: str) -> bool:
        """Return whether a field has a value. Remove the field if it is null."""
        if self._data.get(key) is None:
            self._data.pop(key, None)
            return False
        return True

    def value(self, key: str, kind: type | tuple[type, ...], what: str) -> Any:
        """Take out a value of a type, which errors call ``what``."""
        value = self._data.pop(key, _MISSING)
        if not isinstance(value, kind):
            raise expected(what, value, self.at(key))
        return value

    def text(self, key: str) -> str:
        """Take out a text that databases can store."""
        text: str = self.value(key, str, "a string")
        return require_storable(text, self.at(key))

    def optional_text(self, key: str) -> str | None:
        """Take out a text; return None if it is missing or null."""
        return self.text(key) if self.has(key) else None

    def optional(self, key: str, kind: type | tuple[type, ...], what: str) -> Any:
        """Take out a value of a type; return None if it is missing or null."""
        return self.value(key, kind, what) if self.has(key) else None

    def flag(self, key: str) -> bool | None:
        """Take out a boolean; return None if it is missing or null."""
        found: bool | None = self.optional(key, bool, "true or false")
        return found

    def choice(self, key: str, choices: Iterable[str], refused: Mapping[str, str] | None = None) -> str:
        """Take out one of ``choices``. ``refused`` has error messages for known values that are not supported."""
        value = self._data.pop(key, _MISSING)
        if isinstance(value, str):
            if value in choices:
                return value
            if refused and value in refused:
                raise InvalidMessageError(refused[value], self.at(key), code="not_supported")
        raise InvalidMessageError(
            "expected one of %(choices)s, got %(got)s",
            self.at(key),
            code="invalid_choice" if isinstance(value, str) else _code_of(value),
            choices=[*choices],
            got=repr(value[:100]) if isinstance(value, str) else _kind_of(value),
        )

    def object(self, key: str, read: Callable[[Self], T]) -> T:
        """Take out an object, and return the result of ``read`` for its fields."""
        return self._within(self._data.pop(key, _MISSING), self.at(key)).build(read)

    def optional_object(self, key: str, read: Callable[[Self], T]) -> T | None:
        """Take out an object; return None if it is missing or null."""
        return self.object(key, read) if self.has(key) else None

    def items(self, key: str, read: Callable[[Self], T]) -> list[T]:
        """Take out a list of objects, which may be missing, and return the results of ``read``."""
        if not self.has(key):
            return []
        value = self.value(key, (list, tuple), "a list")
        return [self._within(item, f"{self.at(key)}[{index}]").build(read) for index, item in enumerate(value)]

    def content(self, parts: Mapping[str, Callable[[Self], T]], key: str = "content") -> str | list[T]:
        """Take out a text or a list of parts. ``parts`` has the function that reads each ``type`` of part."""
        value = self._data.get(key, _MISSING)
        if isinstance(value, str):
            return self.text(key)
        if not isinstance(value, (list, tuple)):
            raise expected("a string or a list of parts", value, self.at(key))
        found = self.items(key, lambda part: parts[part.choice("type", parts)](part))
        if not found:
            raise InvalidMessageError("expected at least one part, got none", self.at(key), code="empty")
        return found

    def others(self) -> dict[str, Any]:
        """Take out all remaining fields, and return those that are not null."""
        found = {key: value for key, value in self._data.items() if value is not None}
        self._data.clear()
        return found

    def leave(self, *keys: str) -> None:
        """Ignore fields."""
        for key in keys:
            self._data.pop(key, None)

    def leave_all(self) -> None:
        """Ignore all remaining fields."""
        self._data.clear()

    def refuse(self, key: str, problem: str, code: str = "not_supported") -> None:
        """Raise an error for a field that is known, but not supported."""
        if self.has(key):
            raise InvalidMessageError(problem, self.at(key), code=code)

    def refuse_others(self, *known: str) -> None:
        """Raise an error for a remaining field, unless it is one of ``known``."""
        unknown = next((str(key) for key in self._data if key not in known), None)
        if unknown is not None:
            raise InvalidMessageError("unknown field; leave it out", self.at(unknown[:100]), code="unknown_field")

    def build(self, read: Callable[[Self], T]) -> T:
        """Return the result of ``read``, which must take out all fields."""
        try:
            result = read(self)
        except InvalidMessageError:
            raise
        except ValueError as error:  # a constructor's own check
            self.refuse_others()  # a misspelt field explains a missing one better
            raise InvalidMessageError(error, self._place) from error
        self.refuse_others()
        return result

    def _within(self, data: Any, place: str) -> Self:
        return type(self)(data, place)


def expected(what: str, value: Any, place: str) -> InvalidMessageError:
    """Return the error for a value that is not ``what`` was expected."""
    return InvalidMessageError(
        "expected %(expected)s, got %(got)s", place, code=_code_of(value), expected=what, got=_kind_of(value)
    )


def _code_of(value: Any) -> str:
    return "required" if value is _MISSING else "null" if value is None else "invalid_type"


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


def storable_message(message: ChatMessage) -> ChatMessage:
    """Return a message of a model or a tool as ``with_replacements`` returns its texts; itself if they are storable.

    Raises:
        InvalidMessageError: the rest of the message is not valid.
        TypeError: an attribute has no JSON form.
    """
    if is_storable(message_to_data(message)):
        return message
    return read_message(with_replacements(loads(message_to_json(message))))


def read_messages(data: Any, place: str = "", *, strict: bool = True) -> list[ChatMessage]:
    """Read messages from a parsed JSON array. Null gives an empty list."""
    if data is None:
        return []
    if not isinstance(data, list):
        raise expected("a list of messages", data, place)
    return [read_message(item, f"{place}[{index}]", strict=strict) for index, item in enumerate(data)]


def read_message(data: Any, place: str = "", *, strict: bool = True) -> ChatMessage:
    """Read a message from a parsed JSON object. Unless ``strict``, ignore unknown fields."""
    fields = _Fields(data, place, strict)
    kind = fields.type(ChatMessageType)
    return fields.build(_MESSAGES[kind])


class _Fields(Fields):
    """The fields of one of LangChain4j's objects. Every field may be missing."""

    def __init__(self, data: Any, place: str, strict: bool) -> None:
        super().__init__(data, place)
        self._typed_twice = isinstance(data, TypedTwice)
        self._strict = strict

    def type(self, kinds: type[ContentType] | type[ChatMessageType]) -> Any:
        if self._typed_twice:
            raise InvalidMessageError("given twice", self.at("type"), code="repeated")
        return kinds(self.choice("type", kinds.__members__))

    def bytes(self, key: str) -> bytes | None:
        value = self.optional_text(key)
        try:
            return None if value is None else base64.b64decode(value, validate=True)
        except ValueError as error:
            raise InvalidMessageError("expected Base64: %(error)s", self.at(key), error=str(error)) from error

    def attributes(self) -> Mapping[str, Any] | None:
        value: Mapping[str, Any] | None = self.optional("attributes", Mapping, "an object")
        require_json(value, self.at("attributes"), 1)
        return value

    def refuse_others(self, *known: str) -> None:
        if self._strict:
            super().refuse_others(*known)

    def _within(self, data: Any, place: str) -> Self:
        return type(self)(data, place, self._strict)


def _user(fields: _Fields) -> UserMessage:
    return UserMessage(
        contents=fields.items("contents", _content), name=fields.optional_text("name"), attributes=fields.attributes()
    )


def _ai(fields: _Fields) -> AiMessage:
    return AiMessage(
        fields.optional_text("text"),
        fields.items("toolExecutionRequests", _request),
        thinking=fields.optional_text("thinking"),
        attributes=fields.attributes(),
    )


def _tool_result(fields: _Fields) -> ToolExecutionResultMessage:
    return ToolExecutionResultMessage(
        fields.optional_text("id"),
        fields.optional_text("toolName"),
        fields.optional_text("text"),
        contents=fields.items("contents", _content),
        is_error=fields.flag("isError"),
        attributes=fields.attributes(),
    )


_MESSAGES: dict[ChatMessageType, Callable[[_Fields], ChatMessage]] = {
    # The constructor refuses None.
    ChatMessageType.SYSTEM: lambda fields: SystemMessage(fields.optional_text("text")),  # type: ignore[arg-type]
    ChatMessageType.USER: _user,
    ChatMessageType.AI: _ai,
    ChatMessageType.TOOL_EXECUTION_RESULT: _tool_result,
    ChatMessageType.CUSTOM: lambda fields: CustomMessage(fields.attributes()),
}


def _request(fields: _Fields) -> ToolExecutionRequest:
    return ToolExecutionRequest(
        fields.optional_text("id"), fields.optional_text("name"), fields.optional_text("arguments")
    )


def _content(fields: _Fields) -> Content:
    match fields.type(ContentType):
        case ContentType.TEXT:
            return TextContent(fields.optional_text("text"))  # type: ignore[arg-type]  # the constructor refuses None
        case ContentType.IMAGE:
            image = fields.optional_object(
                "image", lambda its: Image(**_media(its), revised_prompt=its.optional_text("revisedPrompt"))
            )
            return ImageContent(image=image, detail_level=_detail_level(fields))
        case ContentType.AUDIO:
            return AudioContent(
                audio=fields.optional_object(
                    "audio", lambda its: Audio(**_media(its), binary_data=its.bytes("binaryData"))
                )
            )
        case ContentType.VIDEO:
            return VideoContent(video=fields.optional_object("video", lambda its: Video(**_media(its))))
        case _:
            return PdfFileContent(pdf_file=fields.optional_object("pdfFile", lambda its: PdfFile(**_media(its))))


def _detail_level(fields: _Fields) -> DetailLevel:
    value = fields.optional_text("detailLevel")
    if value is None or value not in DetailLevel.__members__:
        raise InvalidMessageError(
            "expected one of %(choices)s",
            fields.at("detailLevel"),
            code="required" if value is None else "invalid_choice",
            choices=[*DetailLevel.__members__],
        )
    return DetailLevel(value)


def _media(fields: _Fields) -> dict[str, str | None]:
    return {
        "url": fields.optional_text("url"),
        "base64_data": fields.optional_text("base64Data"),
        "mime_type": fields.optional_text("mimeType"),
    }


def message_to_data(message: ChatMessage) -> dict[str, Any]:
    """Return a message as LangChain4j's JSON object, with LangChain4j's order of fields and unchanged attributes.

    Raises:
        TypeError: ``message`` is not a message.
    """
    data: dict[str, Any] = {}
    match message:
        case SystemMessage():
            data["text"] = message.text
        case UserMessage():
            if message.name:
                data["name"] = message.name
            data["contents"] = [_content_to_data(content) for content in message.contents]
            if message.attributes:
                data["attributes"] = _plain(message.attributes)
        case AiMessage():
            if message.text is not None:
                data["text"] = message.text
            if message.thinking is not None:
                data["thinking"] = message.thinking
            data["toolExecutionRequests"] = [_request_to_data(r) for r in message.tool_execution_requests]
            data["attributes"] = _plain(message.attributes)
        case ToolExecutionResultMessage():
            if message.id is not None:
                data["id"] = message.id
            if message.tool_name is not None:
                data["toolName"] = message.tool_name
            data["contents"] = [_content_to_data(content) for content in message.contents]
            if message.is_error is not None:
                data["isError"] = message.is_error
            data["attributes"] = _plain(message.attributes)
        case CustomMessage():
            data["attributes"] = _plain(message.attributes)
        case _:
            raise TypeError(f"expected a message, got {type(message).__name__}")
    data["type"] = str(message.type)
    return data


def _request_to_data(request: ToolExecutionRequest) -> dict[str, Any]:
    fields = {"id": request.id, "name": request.name, "arguments": request.arguments}
    return {key: value for key, value in fields.items() if value is not None}


def _content_to_data(content: Content) -> dict[str, Any]:
    data: dict[str, Any] = {}
    if isinstance(content, TextContent):
        data["text"] = content.text
    elif content.media is not None:
        data[MEDIA_FIELDS[content.type]] = _media_to_data(content.media)
    if isinstance(content, ImageContent):
        data["detailLevel"] = str(content.detail_level)
    data["type"] = str(content.type)
    return data


def _media_to_data(media: Media) -> dict[str, Any]:
    fields = {
        "url": media.url,
        "binaryData": getattr(media, "binary_data", None),
        "base64Data": media.base64_data,
        "mimeType": media.mime_type,
        "revisedPrompt": getattr(media, "revised_prompt", None),
    }
    return {key: _plain(value) for key, value in fields.items() if value is not None}


def _plain(value: Any) -> Any:
    """Return attributes as plain data. Messages, contents and images in them become their JSON forms."""
    match value:
        case ChatMessage():
            return message_to_data(value)
        case Content():
            return _content_to_data(value)
        case Media():
            return _media_to_data(value)
        case ToolExecutionRequest():
            return _request_to_data(value)
        case bytes():
            return base64.b64encode(value).decode()
        case Mapping():
            data = {}
            for key, item in value.items():  # no comprehension: see freeze()
                data[key] = _plain(item)
            return data
        case list() | tuple():
            items = []
            for item in value:
                items.append(_plain(item))  # noqa: PERF401
            return items
    return value
