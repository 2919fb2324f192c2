"""The parts of user messages and tool results, and values of JSON, both ways; see ``chatmemory.formats.ai_sdk``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from chatmemory.core.contents import Content, Media, TextContent
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.json_text import MAX_NESTING, dumps, loads, require_json
from chatmemory.core.messages import ChatMessage, UserMessage
from chatmemory.core.serialization import MEDIA_FIELDS, Fields, expected, message_to_data, read_message
from chatmemory.formats.media import WEB, content_of_type, data_of, data_uri, is_at, is_base64

# UI messages have no place for some facts, which are kept in their metadata, and in that of their parts, under one key.
KEY = "chatmemory"
"""The key in ``metadata``, ``providerMetadata``, ``callProviderMetadata`` and ``resultProviderMetadata``."""

_ABOVE_ATTRIBUTES = 3  # {"steps": {"0": {"attributes": …}}}


def kept(rest: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata that keep ``rest``."""
    return {KEY: rest}


def rest_of(fields: Fields, key: str) -> Mapping[str, Any] | None:
    """Take out metadata, and return what is kept in them; None if nothing is."""
    metadata = fields.optional(key, (Mapping, list, tuple, str, int, float), "metadata")
    rest = metadata.get(KEY) if isinstance(metadata, Mapping) else None
    if rest is None:
        return None
    place = f"{fields.at(key)}.{KEY}"
    if not isinstance(rest, Mapping):
        raise expected("an object", rest, place)
    require_json(rest, place, deepest=MAX_NESTING + _ABOVE_ATTRIBUTES)
    return rest


def attributes_of(message: ChatMessage) -> dict[str, Any]:
    """Return the attributes of a message as JSON has them; an empty dict for a message without any."""
    return message_to_data(message).get("attributes") or {}


def attributes_in(rest: Mapping[str, Any] | None, place: str) -> Mapping[str, Any] | None:
    """Return the attributes that are kept; None if there are none."""
    found: Mapping[str, Any] | None = Fields(rest or {}, place).optional("attributes", Mapping, "an object")
    return found


_ANY_OF = {"IMAGE": "image", "AUDIO": "audio", "VIDEO": "video", "PDF": "application/pdf"}
"""The media type of media that do not say theirs."""

_NOTHING = "data:,"
"""The URL of media that have none, and no data."""


def content_part(content: Content) -> dict[str, Any]:
    """Return the part for one content: a text, or a file with a ``data:`` URL or the URL that it has."""
    if isinstance(content, TextContent):
        return {"type": "text", "text": content.text}
    data = _data(content)
    media: Mapping[str, Any] | None = data.get(MEDIA_FIELDS[content.type])
    part = {"type": "file", **_address(content, content.media or Media())}
    try:
        says_all = _data(_file(part["mediaType"], part["url"], "")) == data
    except ValueError:
        says_all = False
    if says_all:
        return part
    rest: dict[str, Any] = {"type": data["type"]}
    if "detailLevel" in data:
        rest["detailLevel"] = data["detailLevel"]
    if media is not None:
        there = _there(part["url"])
        # True is what the part has: data may be long.
        rest["media"] = {key: True if value == there.get(key) else value for key, value in media.items()}
    return {**part, "providerMetadata": kept(rest)}


def read_text(fields: Fields) -> TextContent:
    """Read a text part."""
    text = fields.text("text")
    fields.leave_all()
    return TextContent(text)


def read_file(fields: Fields) -> Content:
    """Read a file part."""
    media_type, url = fields.text("mediaType"), fields.text("url")
    place = fields.at("url")
    rest = rest_of(fields, "providerMetadata")
    where = f"{fields.at('providerMetadata')}.{KEY}"
    fields.leave_all()
    return _file(media_type, url, place) if rest is None else _remembered(rest, url, where)


def _data(content: Content) -> dict[str, Any]:
    data: dict[str, Any] = message_to_data(UserMessage(contents=[content]))["contents"][0]
    return data


def _address(content: Content, media: Media) -> dict[str, str]:
    data = data_of(media)
    url = media.url or _NOTHING
    mime_type = media.mime_type or data_uri(url)[0] or _ANY_OF[content.type]
    if data is not None and not is_at(url, WEB):
        url = f"data:{data.mime_type};base64,{data.base64}"
    return {"mediaType": mime_type, "url": url}


def _there(url: str) -> dict[str, Any]:
    """Return the fields of media that a URL gives: itself, and the data in it."""
    data = data_uri(url)[1]
    return {"url": url} if data is None else {"url": url, "base64Data": data, "binaryData": data}


def _file(media_type: str, url: str, place: str) -> Content:
    """Return the content of a file part that another program has written."""
    mime_type = media_type if "/" in media_type and not media_type.endswith("/*") else None
    in_url, data = data_uri(url)
    if data is not None:
        if not data or not is_base64(data):
            raise InvalidMessageError("expected data:…;base64, and then Base64", place)
        media: dict[str, Any] = {"base64_data": data, "mime_type": mime_type or in_url}
    elif is_at(url, WEB):
        media = {"url": url, "mime_type": mime_type}
    else:
        raise InvalidMessageError("expected a URL of http or https, or data:…;base64,…", place)
    content = content_of_type(media_type.partition(";")[0].strip(), **media)
    if content is not None:
        return content
    raise InvalidMessageError(
        "a file of the type %(type)s cannot be kept, only images, audio, video and PDF files; "
        "give its text as a text part",
        place.removesuffix("url") + "mediaType",
        code="not_supported",
        type=repr(media_type[:100]),
    )


def _remembered(rest: Mapping[str, Any], url: str, place: str) -> Content:
    """Return the content of a file part that ``content_part`` has written."""
    data = {key: value for key, value in rest.items() if key != "media"}
    if "media" in rest:
        if not isinstance(rest["media"], Mapping):
            raise expected("an object", rest["media"], f"{place}.media")
        there = _there(url)
        field = MEDIA_FIELDS.get(str(data.get("type")), "media")
        data[field] = {key: there.get(key) if value is True else value for key, value in rest["media"].items()}
    message = read_message({"type": "USER", "contents": [data]}, place)
    return cast(UserMessage, message).contents[0]


_SPACED = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def value_of(text: str) -> tuple[Any, dict[str, Any]]:
    """Return the object or list that a text is in JSON, else the text; and what ``text_of`` needs beside it.

    The latter says how the JSON is spelled, and is empty for the shortest spelling.
    """
    if text.lstrip()[:1] not in ("{", "["):
        return text, {}
    try:
        value = loads(text)
        require_json(value, "")  # it may have escapes of what our reader refuses
        spaced, shortest = _SPACED.encode(value), dumps(value)  # the first refuses 1e999
    except (ValueError, RecursionError):
        return text, {}
    if text == shortest:
        return value, {}
    return value, {"spaced": True} if text == spaced else {"text": text}


def text_of(value: Any, spelling: Mapping[str, Any]) -> str:
    """Return the text that a value stands for.

    Args:
        value: anything that JSON has; a string stands for itself.
        spelling: what ``value_of`` returned beside it.
    """
    # Anybody may write metadata, so the text counts only as long as it says what the value says.
    if isinstance(text := spelling.get("text"), str) and value_of(text)[0] == value:
        return text
    if isinstance(value, str):
        return value
    return _SPACED.encode(value) if spelling.get("spaced") else dumps(value)
