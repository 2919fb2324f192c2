"""The formats by name, for REST, the admin and ``conversation.memory.to_format()``: the built-in and a project's own.

A project adds its own with the setting ``FORMATS``: ``{"acme": "acme.chat.FORMAT"}``, the dotted path of a
:class:`MessageFormat`. One with the name of a built-in format takes its place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from chatmemory.conf import setting
from chatmemory.core.exceptions import InvalidValueError
from chatmemory.core.messages import ChatMessage
from chatmemory.core.serialization import message_to_data, read_messages
from chatmemory.formats import anthropic, gemini, openai, responses, schemas
from chatmemory.formats.ai_sdk import each_to_ai_sdk, from_ai_sdk, to_ai_sdk
from chatmemory.formats.anthropic import REDACTED_THINKING, THINKING_SIGNATURE, from_anthropic, to_anthropic
from chatmemory.formats.gemini import from_gemini, to_gemini
from chatmemory.formats.openai import from_openai, to_openai
from chatmemory.formats.responses import from_responses, to_responses
from chatmemory.formats.validity import Repair


@dataclass(frozen=True, kw_only=True)
class MessageFormat:
    """A way to write messages as JSON."""

    title: str
    """The name for people."""

    write: Callable[..., Any]
    """The writer of a whole memory, made acceptable to a model: it is called with the messages, and with a function (or
    None) that it calls with each repair.

    It raises ``UnsupportedContentError``.
    """

    binds_thinking: bool = False
    """Whether the API binds thinking to all that was said before it.

    Then ``write`` takes ``thinking=`` as well: the indexes of the messages before which nothing has changed.
    """

    write_each: Callable[[Sequence[ChatMessage]], list[Any]] | None = None
    """The writer of one JSON value a message, as a record of what was said; None if the format has no such values.

    It raises ``UnsupportedContentError``.
    """

    read: Callable[[Any, str], list[ChatMessage]] | None = None
    """The reader of parsed JSON, which errors call the second argument; None if the format cannot be read.

    It raises ``InvalidMessageError``. REST passes a list of values such as ``write_each`` returns.
    """

    attributes: tuple[str, ...] = ()
    """The attributes in which ``read`` keeps what messages have no place for, and from which ``write`` takes it.

    What a browser says in a turn has none of them.
    """

    schemas: Mapping[str, Any] = field(default_factory=dict)
    """The JSON Schemas of the format by name, for OpenAPI documents: first that of a value of ``write_each``, or
    without it of what ``write`` returns; then those that it refers to, as ``{"$ref": name}``. Empty: it is anything.
    """

    def write_memory(
        self,
        messages: Sequence[ChatMessage],
        fresh: Collection[int],
        on_repair: Callable[[Repair], object] | None = None,
    ) -> Any:
        """Write a whole memory with the thinking that the API still takes.

        Args:
            messages: the memory.
            fresh: the indexes of the messages before which nothing has changed since they were added.
            on_repair: is called with each repair.

        Raises:
            UnsupportedContentError: the format cannot express a message.
        """
        return self.write(messages, on_repair, **({"thinking": fresh} if self.binds_thinking else {}))


def _langchain4j(messages: Sequence[ChatMessage]) -> list[Any]:
    return [message_to_data(message) for message in messages]


BUILT_IN = {
    # Not the format of an API, so that nothing has to be repaired.
    "langchain4j": MessageFormat(
        title="LangChain4j",
        write=lambda messages, on_repair: _langchain4j(messages),
        write_each=_langchain4j,
        read=read_messages,
        schemas=schemas.LANGCHAIN4J,
    ),
    "openai": MessageFormat(
        title="OpenAI",
        write=to_openai,
        write_each=lambda messages: to_openai(messages, repair=False),
        read=from_openai,
        attributes=(openai.ATTRIBUTE,),
        schemas=schemas.OPENAI,
    ),
    "openai-responses": MessageFormat(
        title="OpenAI Responses",
        write=to_responses,
        read=from_responses,
        attributes=(responses.ATTRIBUTE,),
        schemas=schemas.RESPONSES,
    ),
    "anthropic": MessageFormat(
        title="Anthropic",
        write=to_anthropic,
        binds_thinking=True,
        read=from_anthropic,
        attributes=(anthropic.ATTRIBUTE, THINKING_SIGNATURE, REDACTED_THINKING),
        schemas=schemas.ANTHROPIC,
    ),
    "gemini": MessageFormat(
        title="Gemini",
        write=to_gemini,
        read=from_gemini,
        attributes=(gemini.ATTRIBUTE,),
        schemas=schemas.GEMINI,
    ),
    # Not the format of an API either, but that of pages.
    "ai-sdk": MessageFormat(
        title="AI SDK",
        write=to_ai_sdk,
        write_each=each_to_ai_sdk,
        read=from_ai_sdk,
        schemas=schemas.AI_SDK,
    ),
}


def message_formats() -> dict[str, MessageFormat]:
    """Return all formats by name."""
    own: dict[str, str] = setting("FORMATS")
    return BUILT_IN | {name: import_string(path) for name, path in own.items()}


def message_format(name: str) -> MessageFormat:
    """Return the format of this name.

    Raises:
        InvalidValueError: there is none.
    """
    formats = message_formats()
    if name not in formats:
        raise InvalidValueError(
            "unknown format %(name)s; expected one of %(choices)s",
            code="invalid_choice",
            name=repr(name[:100]),
            choices=[*formats],
        )
    return formats[name]


def known_names() -> list[str]:
    """Return the names of all formats, without importing any.

    Django makes addresses of them before the check of the setting runs, which must get its chance to report it.
    """
    try:
        own = setting("FORMATS")
    except ImproperlyConfigured:
        own = None
    return [*{**BUILT_IN, **(own if isinstance(own, dict) else {})}]


def one_for_one(*, readable: bool = False) -> list[str]:
    """Return the names of the formats that have a value for each message, and with ``readable`` can be read."""
    return [
        name
        for name, format in message_formats().items()
        if format.write_each is not None and (format.read is not None or not readable)
    ]
