"""The formats by name, for REST, the admin and ``conversation.memory.to_format()``: the built-in and a project's own.

A project adds its own with the setting ``FORMATS``: ``{"acme": "acme.chat.FORMAT"}``, the dotted path of a
``MessageFormat``. One with the name of a built-in format takes its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from chatmemory.conf import setting
from chatmemory.core.exceptions import InvalidValueError
from chatmemory.core.messages import ChatMessage
from chatmemory.core.serialization import message_to_data, read_messages
from chatmemory.formats import MessageFormat, schemas


def _langchain4j(messages: Sequence[ChatMessage]) -> list[Any]:
    return [message_to_data(message) for message in messages]


LANGCHAIN4J = MessageFormat(
    title="LangChain4j",
    # Not the format of an API, so that nothing has to be repaired.
    write=lambda messages, on_repair: _langchain4j(messages),
    write_each=_langchain4j,
    read=read_messages,
    schemas=schemas.LANGCHAIN4J,
)


class _BuiltIn(Mapping[str, MessageFormat]):
    """The built-in formats by name. The module of one is imported when it is asked for: few processes need all."""

    _paths: ClassVar = {
        "langchain4j": "chatmemory.formats.registry.LANGCHAIN4J",
        "openai": "chatmemory.formats.openai.FORMAT",
        "openai-responses": "chatmemory.formats.responses.FORMAT",
        "anthropic": "chatmemory.formats.anthropic.FORMAT",
        "gemini": "chatmemory.formats.gemini.FORMAT",
        "ai-sdk": "chatmemory.formats.ai_sdk.FORMAT",
    }

    def __getitem__(self, name: str) -> MessageFormat:
        found: MessageFormat = import_string(self._paths[name])
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


BUILT_IN = _BuiltIn()


def message_formats() -> dict[str, MessageFormat]:
    """Return all formats by name."""
    own: dict[str, str] = setting("FORMATS")
    return {**BUILT_IN, **{name: import_string(path) for name, path in own.items()}}


def message_format(name: str) -> MessageFormat:
    """Return the format of this name.

    Raises:
        InvalidValueError: there is none.
    """
    own: dict[str, str] = setting("FORMATS")
    if name in own:
        found: MessageFormat = import_string(own[name])
        return found
    if name not in BUILT_IN:
        raise InvalidValueError(
            "unknown format %(name)s; expected one of %(choices)s",
            code="invalid_choice",
            name=repr(name[:100]),
            choices=known_names(),
        )
    return BUILT_IN[name]


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
