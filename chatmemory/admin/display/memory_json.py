"""A memory as the JSON of each format, to copy or to download."""

from __future__ import annotations

from dataclasses import dataclass

from chatmemory.admin.display.json_layout import lay_out
from chatmemory.core.json_text import dumps
from chatmemory.formats import UnsupportedContentError
from chatmemory.formats.registry import message_formats
from chatmemory.models import Message

__all__ = ["JsonText", "json_texts"]

# Longer JSON is offered as a file: nobody copies it out of a box.
_MOST_JSON_CHARS = 100_000


@dataclass(frozen=True, kw_only=True)
class JsonText:
    """A memory as the JSON of one format."""

    key: str

    name: str
    """The title of the format."""

    text: str = ""
    """The JSON; empty if it is too long to show, or the format cannot express the memory."""

    problem: str = ""
    """The reason why the format cannot express the memory; empty if it can."""


def json_texts(rows: list[Message], fresh: list[int], refused: dict[str, str]) -> list[JsonText]:
    """Return the JSON of each format.

    Args:
        rows: the memory.
        fresh: the indexes of the messages before which nothing has changed.
        refused: the formats known to be unable to express it, and why.
    """
    # A format adds about a hundred characters to each message.
    is_long = sum(100 + len(row.text) + len(row.payload or "") for row in rows) > _MOST_JSON_CHARS
    messages = [] if is_long else [row.message for row in rows]
    found = []
    for key, format in message_formats().items():
        text, problem = "", refused.get(key, "")
        if not (is_long or problem):
            try:
                text = lay_out(dumps(format.write_memory(messages, fresh)))
            except UnsupportedContentError as error:
                problem = str(error)
        found.append(JsonText(key=key, name=format.title, text=text, problem=problem))
    return found
