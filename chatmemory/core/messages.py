"""The messages of a conversation, as in LangChain4j: five types, immutable, equal by value.

Source: ``dev.langchain4j.data.message`` of LangChain4j 1.20. Texts may be empty where LangChain4j allows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from chatmemory.core.arguments import require_list, require_not_blank, require_optional_str, tuple_of
from chatmemory.core.contents import Content, FrozenDict, ShortRepr, TextContent, freeze
from chatmemory.core.exceptions import InvalidValueError

# Shared by all messages without attributes, because it is immutable.
_NO_ATTRIBUTES = FrozenDict()

STOPPED = "stopped"
"""The attribute, True, of an answer that its user stopped: the text is what the user has read."""


class ChatMessageType(StrEnum):
    """The ``type`` of a message in JSON and in its row."""

    SYSTEM = "SYSTEM"
    USER = "USER"
    AI = "AI"
    TOOL_EXECUTION_RESULT = "TOOL_EXECUTION_RESULT"
    CUSTOM = "CUSTOM"


class ChatMessage(ShortRepr):
    """A message; ``type`` says who wrote it."""

    type: ClassVar[ChatMessageType]

    if TYPE_CHECKING:  # the dataclasses below would take a property for the default of the field

        @property
        def text(self) -> str | None:
            """The texts of the message, joined by line breaks; None if there is no text."""


class _MessageWithContents(ChatMessage):
    """A message with contents instead of one text."""

    contents: tuple[Content, ...]

    @property
    def text(self) -> str | None:
        texts = [content.text for content in self.contents if isinstance(content, TextContent)]
        return "\n".join(texts) if texts else None

    def single_text(self) -> str:
        """Return the text of a message that consists of one text.

        Raises:
            ValueError: the message has other contents, or more than one.
        """
        if len(self.contents) == 1 and isinstance(self.contents[0], TextContent):
            return self.contents[0].text
        raise ValueError(f"Expecting single text content, but got: {list(self.contents)}")


def _attributes(value: Mapping[str, Any] | None) -> FrozenDict:
    if value is None:
        return _NO_ATTRIBUTES
    if not isinstance(value, Mapping):
        raise TypeError(f"attributes must be a dict, but is: {type(value).__name__}")
    frozen: FrozenDict = freeze(value)
    return frozen


@dataclass(frozen=True, repr=False)
class SystemMessage(ChatMessage):
    """Instructions to the model. A memory contains at most one system message.

    Raises:
        ValueError: ``text`` is None or blank.
    """

    text: str
    type: ClassVar[ChatMessageType] = ChatMessageType.SYSTEM

    def __post_init__(self) -> None:
        require_not_blank(self.text, "text")


@dataclass(frozen=True, repr=False, init=False)
class UserMessage(_MessageWithContents):
    """A user's message: ``UserMessage("Hi")`` or ``UserMessage(contents=[TextContent("Look"), ImageContent(url)])``.

    Raises:
        ValueError: there are no contents.
    """

    contents: tuple[Content, ...]
    name: str | None = None
    attributes: FrozenDict = field(default_factory=FrozenDict, hash=False)
    type: ClassVar[ChatMessageType] = ChatMessageType.USER

    def __init__(
        self,
        text: str | Iterable[Content] | None = None,
        *,
        contents: Iterable[Content] | None = None,
        name: str | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        if text is not None and contents is not None:
            raise InvalidValueError("Either text or contents must be provided, not both", code="repeated")
        if isinstance(text, str):
            parts: tuple[Content, ...] = (TextContent(text),)
        else:
            parts = tuple_of(Content, contents if text is None else text, "contents")
        if not parts:
            raise InvalidValueError("contents cannot be null or empty", code="empty")
        require_optional_str(name, "name")
        vars(self).update(contents=parts, name=name, attributes=_attributes(attributes))


@dataclass(frozen=True, repr=False)
class ToolExecutionRequest(ShortRepr):
    """A tool call by the model. ``arguments`` is the JSON text of an object, as the model wrote it."""

    id: str | None = None
    name: str | None = None
    arguments: str | None = None

    def __post_init__(self) -> None:
        require_optional_str(self.id, "id")
        require_optional_str(self.name, "name")
        require_optional_str(self.arguments, "arguments")


@dataclass(frozen=True, repr=False, init=False)
class AiMessage(ChatMessage):
    """An answer of the model: text, thinking and tool calls, each of which may be missing."""

    text: str | None = None
    tool_execution_requests: tuple[ToolExecutionRequest, ...] = ()
    thinking: str | None = None
    attributes: FrozenDict = field(default_factory=FrozenDict, hash=False)
    type: ClassVar[ChatMessageType] = ChatMessageType.AI

    def __init__(
        self,
        text: str | None = None,
        tool_execution_requests: Iterable[ToolExecutionRequest] | None = None,
        *,
        thinking: str | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        require_optional_str(text, "text")
        require_optional_str(thinking, "thinking")
        requests = tuple_of(ToolExecutionRequest, tool_execution_requests, "tool_execution_requests")
        vars(self).update(
            text=text,
            tool_execution_requests=requests,
            thinking=thinking,
            attributes=_attributes(attributes),
        )

    @property
    def is_stopped(self) -> bool:
        """Whether its user stopped it, so that the text may end in the middle of a sentence."""
        return self.attributes.get(STOPPED) is True


@dataclass(frozen=True, repr=False, init=False)
class ToolExecutionResultMessage(_MessageWithContents):
    """The result of a tool call: ``ToolExecutionResultMessage(request_id, "weather", "sunny")``, or ``contents=[…]``.

    Raises:
        ValueError: neither text nor contents, or both.
    """

    id: str | None
    tool_name: str | None
    contents: tuple[Content, ...]
    is_error: bool | None = None
    attributes: FrozenDict = field(default_factory=FrozenDict, hash=False)
    type: ClassVar[ChatMessageType] = ChatMessageType.TOOL_EXECUTION_RESULT

    def __init__(
        self,
        id: str | None = None,
        tool_name: str | None = None,
        text: str | None = None,
        *,
        contents: Iterable[Content] | None = None,
        is_error: bool | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        require_optional_str(id, "id")
        require_optional_str(tool_name, "tool_name")
        require_optional_str(text, "text")
        if is_error is not None and not isinstance(is_error, bool):
            raise TypeError(f"is_error must be True, False or None, but is: {is_error!r}")
        found = tuple_of(Content, contents, "contents")
        if text is not None and found:
            raise InvalidValueError("Either text or contents must be provided, not both", code="repeated")
        if text is None and not found:
            raise InvalidValueError("Either text or contents must be provided", code="required")
        contents = found or (TextContent(text or ""),)
        vars(self).update(
            id=id, tool_name=tool_name, contents=contents, is_error=is_error, attributes=_attributes(attributes)
        )


@dataclass(frozen=True, repr=False, init=False)
class CustomMessage(ChatMessage):
    """A message of the application's own kind, which only some models accept."""

    attributes: FrozenDict = field(default_factory=FrozenDict, hash=False)
    type: ClassVar[ChatMessageType] = ChatMessageType.CUSTOM

    def __init__(self, attributes: Mapping[str, Any] | None = None) -> None:
        vars(self).update(attributes=_attributes(attributes))

    @property
    def text(self) -> None:
        """Always None, because the text of a custom message is in its attributes."""


def require_messages(messages: Iterable[ChatMessage]) -> list[ChatMessage]:
    """Return ``messages`` as a list.

    Raises:
        TypeError: ``messages`` is not a list, or an item is not a message.
    """
    result = require_list(messages, "messages")
    for index, message in enumerate(result):
        if not isinstance(message, ChatMessage):
            raise TypeError(f"messages[{index}] must be a message, but is: {type(message).__name__}{_hint(message)}")
    return result


def _hint(value: Any) -> str:
    if isinstance(value, str):
        return '; for the message of a user, write UserMessage("…")'
    if isinstance(value, (list, tuple)):
        return "; pass each message to add() as a separate argument"
    if isinstance(value, Mapping) and "role" in value:
        return "; from_openai() of chatmemory.formats.openai reads messages of OpenAI's API"
    return "; use its attribute message" if isinstance(getattr(value, "message", None), ChatMessage) else ""
