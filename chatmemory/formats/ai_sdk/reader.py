"""The strict reader of UI messages; see :mod:`chatmemory.formats.ai_sdk`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chatmemory.core.contents import Content, TextContent
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.messages import ChatMessage, ChatMessageType, CustomMessage, SystemMessage, UserMessage
from chatmemory.core.serialization.fields import Fields, expected
from chatmemory.core.serialization.storable import require_json
from chatmemory.formats.ai_sdk.answer_reader import is_data, read_answer
from chatmemory.formats.ai_sdk.content_parts import read_file, read_text
from chatmemory.formats.ai_sdk.rest import KEY, attributes_in, rest_of

__all__ = ["from_ai_sdk"]

_USER_PARTS = {"text": read_text, "file": read_file}
_SYSTEM_PARTS = {"text": read_text}


def from_ai_sdk(data: Any, place: str = "") -> list[ChatMessage]:
    """Read messages from a list of ``UIMessage`` objects in parsed JSON, whole ones or one for each message.

    ``null`` is the same as a field that is not there. Fields that messages here have no use for are ignored: IDs,
    titles, a project's own metadata, and parts such as sources and data. An assistant message that says nothing, as an
    aborted stream leaves it, is no message.

    Args:
        place: what the list is called in errors, ``messages`` say.

    Raises:
        InvalidMessageError: a ``ValueError`` that names the place: ``messages[3].parts[0].text``.
    """
    if not isinstance(data, (list, tuple)):
        raise expected("a list of messages", data, place)
    messages: list[ChatMessage] = []
    for index, item in enumerate(data):
        messages += Fields(item, f"{place}[{index}]").build(_message)
    return messages


def _message(fields: Fields) -> Sequence[ChatMessage]:
    role = fields.choice("role", ("system", "user", "assistant"))
    rest = rest_of(fields, "metadata")
    where = f"{fields.at('metadata')}.{KEY}"
    place = fields.at("parts")
    parts = fields.value("parts", (list, tuple), "a list of parts")
    fields.leave_all()
    if role == "system":
        texts = _contents(parts, place, _SYSTEM_PARTS)
        return [SystemMessage("".join(part.text for part in texts if isinstance(part, TextContent)))]
    if role == "user":
        name = None if rest is None else Fields(rest, where).optional_text("name")
        return [UserMessage(_contents(parts, place, _USER_PARTS), name=name, attributes=attributes_in(rest, where))]
    if rest is not None and rest.get("type") == ChatMessageType.CUSTOM:
        return [CustomMessage(_custom_attributes(parts, place))]
    return read_answer(parts, place, _steps(rest, where), f"{where}.steps")


def _contents(parts: Sequence[Any], place: str, readers: Mapping[str, Any]) -> list[Content]:
    def read(fields: Fields) -> Content:
        content: Content = readers[fields.choice("type", readers)](fields)
        return content

    contents = [Fields(part, f"{place}[{index}]").build(read) for index, part in enumerate(parts) if not is_data(part)]
    if not contents:
        raise InvalidMessageError(
            "expected at least one part of the type %(types)s, got none",
            place,
            code="empty",
            types=" or ".join(readers),
        )
    return contents


def _custom_attributes(parts: Sequence[Any], place: str) -> Mapping[str, Any]:
    if len(parts) != 1:
        raise InvalidMessageError(
            "expected one part of the type data-custom, got %(count)s parts", place, count=len(parts)
        )
    fields = Fields(parts[0], f"{place}[0]")
    fields.choice("type", ["data-custom"])
    attributes: Mapping[str, Any] = fields.value("data", Mapping, "an object")
    require_json(attributes, fields.at("data"), 1)
    return attributes


def _steps(rest: Mapping[str, Any] | None, place: str) -> Mapping[str, Any]:
    steps = rest.get("steps", {}) if rest is not None else {}
    if not isinstance(steps, Mapping):
        raise expected("an object", steps, f"{place}.steps")
    return steps
