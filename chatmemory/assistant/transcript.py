"""Messages as a transcript for a model that reads about a conversation, and is not part of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from chatmemory.core.contents import Content, Media, TextContent
from chatmemory.core.messages import (
    AiMessage,
    ChatMessage,
    CustomMessage,
    SystemMessage,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.core.serialization import message_to_json

TRANSCRIPT, SO_FAR = "transcript", "summary_so_far"
"""The tags around the transcript, and around the summary of what was said before it."""

_MESSAGE, _CALL, _RESULT = "message", "call", "result"
# White space is matched in one way only, so that much of it takes no more time than it is long.
_TAGS = "|".join((TRANSCRIPT, SO_FAR, _MESSAGE, _CALL, _RESULT))
_TAG = re.compile(rf"<(\\*)(?=\s*(?:/\s*)?(?:{_TAGS})\b)", re.IGNORECASE)

# Of a name in a tag (providers allow no longer ones), and of the address of an image.
_MOST_CHARS = 100
_MOST_OF_ADDRESS = 300


@dataclass(frozen=True)
class _Part:
    """A text with the tag that says whose it is."""

    tag: str
    attributes: str
    text: str

    def written(self, number: int = 1, of: int = 1) -> str:
        place = "" if of == 1 else f' part="{number} of {of}"'
        return f"<{self.tag}{self.attributes}{place}>\n{self.text}\n</{self.tag}>\n"


def framed(tag: str, text: str) -> str:
    """Return ``text`` between two tags, which nothing in it can end."""
    return f"<{tag}>\n{_escaped(text)}\n</{tag}>\n"


def transcripts(
    messages: Iterable[ChatMessage], *, tool_result_chars: int, most: int, count: Callable[[str], int]
) -> list[str]:
    """Return the messages as one transcript, or as several if one would be too long.

    They have all texts, except thinking and what tool results have beyond ``tool_result_chars``. A text that is too
    long for one transcript goes on in the next. No text can end its own tag, or begin another.

    Args:
        messages: the messages, in order.
        tool_result_chars: the characters after which the text of a tool's result is cut, with a mark that says so.
        most: the most tokens of a transcript.
        count: counts the tokens of a text.
    """
    whole: list[str] = []
    open_one, tokens = "", 0
    for message in messages:
        for part in _parts(message, tool_result_chars):
            for text in _pieces(part, most, count):
                cost = count(text)
                if tokens + cost > most:
                    whole.append(open_one)
                    open_one, tokens = "", 0
                open_one, tokens = open_one + text, tokens + cost
    return [f"<{TRANSCRIPT}>\n{text}</{TRANSCRIPT}>\n" for text in (*whole, open_one) if text or not whole]


def _pieces(part: _Part, most: int, count: Callable[[str], int]) -> list[str]:
    """Return a part as it is written, in several pieces if it is too long."""
    texts = list(_halves(part, most, count))
    pieces = (_Part(part.tag, part.attributes, text) for text in texts)
    return [piece.written(number, len(texts)) for number, piece in enumerate(pieces, 1)]


def _halves(part: _Part, most: int, count: Callable[[str], int]) -> Iterator[str]:
    # The tag must fit, too, even if it says that there are very many parts.
    if len(part.text) < 2 or count(part.written(9999, 9999)) <= most:
        yield part.text
        return
    middle = len(part.text) // 2
    for half in (part.text[:middle], part.text[middle:]):
        yield from _halves(_Part(part.tag, part.attributes, half), most, count)


def _parts(message: ChatMessage, tool_result_chars: int) -> Iterator[_Part]:
    match message:
        case SystemMessage():
            yield _part(_MESSAGE, message.text, {"from": "system"})
        case UserMessage():
            yield _part(_MESSAGE, _text_of(message.contents), {"from": "user", "name": message.name})
        case AiMessage():
            if message.text:
                yield _part(_MESSAGE, message.text, {"from": "assistant"})
            for request in message.tool_execution_requests:
                yield _part(_CALL, request.arguments or "", {"tool": request.name})
        case ToolExecutionResultMessage():
            status = "error" if message.is_error else None
            text = _cut(_text_of(message.contents), tool_result_chars)
            yield _part(_RESULT, text, {"tool": message.tool_name, "status": status})
        case CustomMessage():
            yield _part(_MESSAGE, message_to_json(message), {"from": "custom"})


def _part(tag: str, text: str, attributes: dict[str, str | None]) -> _Part:
    named = "".join(f" {name}={_quoted(value)}" for name, value in attributes.items() if value)
    return _Part(tag, named, _escaped(text))


def _quoted(value: str) -> str:
    return _escaped(json.dumps(_shortened(value, _MOST_CHARS), ensure_ascii=False))


def _escaped(text: str) -> str:
    return _TAG.sub(r"<\\\1", text)


def _text_of(contents: Sequence[Content]) -> str:
    return "\n".join(one.text if isinstance(one, TextContent) else _note(one) for one in contents)


def _note(content: Content) -> str:
    """Return a note in the place of an image, a file or another content that is no text."""
    kind = content.type.value.lower().replace("_", " ")
    media = next((one for one in vars(content).values() if isinstance(one, Media)), None)
    told = [] if media is None else [media.mime_type, _address(media.url or "")]
    return f"[{', '.join([kind, *filter(None, told)])}]"


def _address(url: str) -> str:
    """Return the beginning of a URL; of a ``data:`` URL what stands before the data."""
    return url.partition(",")[0] if url.startswith("data:") else _shortened(url, _MOST_OF_ADDRESS)


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return f"{text[:most]}\n[cut: {len(text) - most:,} of {len(text):,} characters are left out]"


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
