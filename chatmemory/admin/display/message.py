"""A message as the parts that a page shows one below the other."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from chatmemory.admin.display.memory_map import count_tokens
from chatmemory.core.contents import (
    Audio,
    AudioContent,
    Content,
    DetailLevel,
    Image,
    ImageContent,
    PdfFile,
    PdfFileContent,
    TextContent,
    Video,
    VideoContent,
)
from chatmemory.core.json_text import dumps, levels, loads
from chatmemory.core.messages import (
    STOPPED,
    AiMessage,
    ChatMessage,
    ChatMessageType,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.core.summaries import summary_text
from chatmemory.formats.media import data_uri
from chatmemory.models import Message, Origin, WrittenBy

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

# Parsing longer JSON, and indenting deeper JSON, costs more than it shows.
_LONGEST_PARSED = 20_000
_DEEPEST = 50


def lay_out(text: str) -> str:
    """Return JSON with line breaks and indentation; unchanged if it is long, deep or not JSON."""
    value = _parsed(text)
    if value is None or sum(1 for _level in levels(value)) > _DEEPEST:
        return text
    return "\n".join(map(visible, json.dumps(value, ensure_ascii=False, indent=2).split("\n")))


def _parsed(text: str) -> Any:
    """Return the value of JSON; None if it is long, or no JSON."""
    try:
        return loads(text) if len(text) <= _LONGEST_PARSED else None
    except ValueError:
        return None


def one_line(text: str, most: int) -> str:
    """Return at most ``most`` characters of a text as ``visible`` shows them, and "…" if there are more."""
    start = visible(text[:most])
    return f"{start}…" if len(text) > most else start


def visible(text: str) -> str:
    r"""Return a text with escapes such as ``\u202e`` for invisible characters and for those that turn text around."""
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)


_LONGEST_TOOL_NAME = 60
_LONGEST_ARGUMENTS = 100


def call_line(name: str, arguments: str) -> str:
    """Return a call in one line, cut if it is long.

    Args:
        name: of the tool.
        arguments: JSON as the model wrote it, which may be no object, or no JSON at all.
    """
    value = _parsed(arguments)
    if isinstance(value, dict):
        arguments = ", ".join(f"{key}={json.dumps(given, ensure_ascii=False)}" for key, given in value.items())
    return f"{one_line(name, _LONGEST_TOOL_NAME)}({one_line(arguments.strip(), _LONGEST_ARGUMENTS)})"


_LONG_CHARS = 2000
_LONG_LINES = 40
_LONGEST_NAME = 300

_DETAIL_LEVELS = {
    DetailLevel.LOW: _("low detail"),
    DetailLevel.MEDIUM: _("medium detail"),
    DetailLevel.HIGH: _("high detail"),
    DetailLevel.ULTRA_HIGH: _("ultra-high detail"),
    DetailLevel.AUTO: _("detail chosen by the model"),
}


class Part:
    """A part of a message, drawn by a template of its own."""

    template: ClassVar[str]

    def within(self, chars: int) -> Part:
        """Return a copy with at most ``chars`` characters of text."""
        return self

    @property
    def chars(self) -> int:
        """The number of characters of its text."""
        return 0


@dataclass(frozen=True, kw_only=True)
class Passage(Part):
    """A text."""

    text: str

    label: StrOrPromise = ""
    """The kind of the text, if it is not the message's own."""

    is_code: bool = False
    """Whether it is code, which runs from left to right in every language."""

    is_markdown: bool = False
    """Whether it may be drawn as Markdown: a person wrote it for people."""

    template = "admin/chatmemory/conversation/passage.html"

    @property
    def is_long(self) -> bool:
        """Whether it is shown in a box with a scroll bar, so that one message does not fill the page."""
        return len(self.text) > _LONG_CHARS or self.text.count("\n") >= _LONG_LINES

    def within(self, chars: int) -> Passage:
        return replace(self, text=self.text[:chars])

    @property
    def chars(self) -> int:
        return len(self.text)


@dataclass(frozen=True, kw_only=True)
class ToolCall(Part):
    """A tool call that the model asked for."""

    line: str
    """The call with its arguments, shortened."""

    id: str

    arguments: Passage | None
    """The arguments as the model wrote them; None if there are none, or no room for them."""

    template = "admin/chatmemory/conversation/tool_call.html"

    def within(self, chars: int) -> ToolCall:
        if self.arguments is None:
            return self
        return replace(self, arguments=self.arguments.within(chars) if chars > 0 else None)

    @property
    def chars(self) -> int:
        return 0 if self.arguments is None else self.arguments.chars


@dataclass(frozen=True, kw_only=True)
class MediaPlaceholder(Part):
    """A placeholder for an image, a recording or a file. Nothing is fetched: the URL may lead anywhere."""

    kind: StrOrPromise
    mime_type: str
    url: str
    byte_count: int | None
    """The size of the stored data; None if there is only a URL."""

    note: StrOrPromise
    """Anything else known about it, such as the detail of an image."""

    template = "admin/chatmemory/conversation/media.html"


def parts_of(message: ChatMessage) -> Iterator[Part]:
    """Yield the parts of a message."""
    match message:
        case SystemMessage():
            yield Passage(text=message.text, is_markdown=True)
        case UserMessage():
            for part in _contents(message.contents):
                yield replace(part, is_markdown=True) if isinstance(part, Passage) else part
        case AiMessage():
            if message.thinking:
                yield Passage(text=message.thinking, label=_("Thinking"), is_markdown=True)
            if message.text:
                yield Passage(text=message.text, is_markdown=True)
            yield from map(_tool_call, message.tool_execution_requests)
        case ToolExecutionResultMessage():
            yield from _contents(message.contents)
    if attributes := _attributes(message):
        yield Passage(text=lay_out(dumps(attributes)), label=_("Attributes"), is_code=True)


def _attributes(message: ChatMessage) -> Mapping[str, Any]:
    """Return the attributes, without one that has a badge."""
    attributes: Mapping[str, Any] = getattr(message, "attributes", {})
    if isinstance(message, AiMessage) and message.is_stopped:
        return {name: value for name, value in attributes.items() if name != STOPPED}
    return attributes


def _tool_call(request: ToolExecutionRequest) -> ToolCall:
    arguments = request.arguments
    return ToolCall(
        line=call_line(request.name or gettext("a tool without a name"), arguments or ""),
        id=short(request.id),
        arguments=Passage(text=lay_out(arguments), is_code=True) if arguments else None,
    )


def _contents(contents: Iterable[Content]) -> Iterator[Part]:
    for content in contents:
        match content:
            case TextContent():
                yield Passage(text=content.text)
            case ImageContent():
                yield _placeholder(_("Image"), content.image, _DETAIL_LEVELS[content.detail_level])
            case AudioContent():
                yield _placeholder(_("Audio"), content.audio)
            case VideoContent():
                yield _placeholder(_("Video"), content.video)
            case PdfFileContent():
                yield _placeholder(_("PDF file"), content.pdf_file)


def _placeholder(
    kind: StrOrPromise, media: Image | Audio | Video | PdfFile | None, note: StrOrPromise = ""
) -> MediaPlaceholder:
    if media is None:
        return MediaPlaceholder(kind=kind, mime_type="", url="", byte_count=None, note=note)
    byte_count = None
    if media.base64_data is not None:
        byte_count = _decoded_size(len(media.base64_data.rstrip("=")))
    elif isinstance(media, Audio) and media.binary_data is not None:
        byte_count = len(media.binary_data)
    url, mime_type = media.url or "", media.mime_type or ""
    type_in_url, data = data_uri(url)
    if data is not None:
        byte_count = _decoded_size(len(data.rstrip("=")))
        url, mime_type = "", mime_type or type_in_url.partition(";")[0]
    return MediaPlaceholder(kind=kind, mime_type=short(mime_type), url=short(url), byte_count=byte_count, note=note)


def _decoded_size(base64_chars: int) -> int:
    return base64_chars * 3 // 4


def short(text: str | None) -> str:
    """Return a name or an address, cut if it is very long."""
    text = text or ""
    return text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}…"


UNREADABLE = (TypeError, ValueError)
"""Exceptions raised by reading a row that was written outside this app."""

_WRITTEN_BY = {WrittenBy.CLIENT.value: _("written by a client"), WrittenBy.STAFF.value: _("written by staff")}

_LONGEST_EXCERPT = 160
_MOST_CALLS = 10

LONGEST_SHOWN = 20_000
"""The most characters that a page with several messages shows of one."""

_MOST_CHARS_OF_A_PAGE = 1_000_000
_FEWEST_CHARS = 1000
_MOST_PARTS = 100


@dataclass(frozen=True, kw_only=True)
class ShownMessage:
    """A row, and what it says."""

    row: Message
    role: StrOrPromise

    parts: list[Part]

    name: str = ""
    """The name of the user or of the tool, if it has one."""

    call_id: str = ""
    """The ID of the tool call that this answers."""

    is_error: bool = False
    """Whether the tool failed."""

    is_stopped: bool = False
    """Whether the answer was stopped by its user."""

    problem: str = ""
    """The reason why the row cannot be read; empty if it can."""

    is_hidden: bool = False
    """Whether this reader may not read its text."""

    is_cut: bool = False
    """Whether only a part of it is shown."""

    left_out: int = 0
    """Number of characters that are not shown."""

    notes: list[str] = field(default_factory=list)
    """HTML of capabilities below it."""

    @property
    def role_class(self) -> str:
        """The class of an element that has the colour of who speaks, as ``roles.css`` names it."""
        return f"chatmemory-role-{role_of(self.row)}"

    @property
    def unusual_writer(self) -> StrOrPromise:
        """The unexpected writer of the message, in words; otherwise empty.

        An answer that a client added is not the model's, and what staff said is not the user's.
        """
        is_forged = self.row.written_by == WrittenBy.CLIENT and self.row.type != ChatMessageType.USER.value
        if is_forged or self.row.written_by == WrittenBy.STAFF:
            return _WRITTEN_BY[self.row.written_by]
        return ""

    @cached_property
    def size(self) -> str:
        """Its tokens in words, which a folded row says twice."""
        return count_tokens(self.row.token_count)

    @cached_property
    def calls(self) -> list[str]:
        """The tool calls that it asks for, each in one line; the first few of many, and "…"."""
        lines = [part.line for part in self.parts if isinstance(part, ToolCall)]
        return lines if len(lines) <= _MOST_CALLS else [*lines[:_MOST_CALLS], "…"]

    @cached_property
    def beginning(self) -> str:
        """The beginning of its text; without a text, its media."""
        if self.is_hidden:
            return ""
        text = said_by(self.row).lstrip()
        if text and self.row.origin == Origin.SUMMARY:
            text = summary_text(UserMessage(text))
        if text:
            start = " ".join(text[:_LONGEST_EXCERPT].split())
            return f"{start}…" if len(text) > _LONGEST_EXCERPT else start
        return ", ".join(str(part.kind) for part in self.parts if isinstance(part, MediaPlaceholder))

    @property
    def excerpt(self) -> str:
        """The beginning of its text; without a text, its tool calls or media."""
        if self.calls and not self.beginning:
            return gettext("Calls %(tools)s") % {"tools": ", ".join(self.calls)}
        return self.beginning


def role_of(row: Message) -> str:
    """Return who speaks, as ``roles.css`` names it."""
    return "tool" if row.type == ChatMessageType.TOOL_EXECUTION_RESULT.value else row.type.lower()


def most_chars(messages: int) -> int:
    """Return the number of characters to show of each message on a page of ``messages`` messages."""
    return max(_FEWEST_CHARS, min(LONGEST_SHOWN, _MOST_CHARS_OF_A_PAGE // max(1, messages)))


def shown(row: Message, *, with_text: bool = True, most: int | None = LONGEST_SHOWN) -> ShownMessage:
    """Return a row as it is shown. One that cannot be read has its ``problem`` instead of an exception.

    Args:
        row: read without its text if that must not be shown.
        with_text: whether this reader may read what it says.
        most: characters to show; None for all of them.
    """
    role = row.get_type_display()
    if not with_text:
        return ShownMessage(row=row, role=role, parts=[], is_hidden=True)
    if "text" not in row.__dict__:  # it is too long to be read on this page
        beginning = said_by(row) if most is None else said_by(row)[:most]
        parts: list[Part] = [Passage(text=beginning)] if beginning else []
        left_out = row.chars - len(beginning)  # type: ignore[attr-defined]
        return ShownMessage(row=row, role=role, parts=parts, is_cut=True, left_out=left_out)
    try:
        message = row.message
    except UNREADABLE as error:
        return _cut(ShownMessage(row=row, role=role, parts=[Passage(text=row.text)], problem=short(str(error))), most)
    whole = ShownMessage(row=row, role=role, parts=list(parts_of(message)))
    match message:
        case AiMessage():
            whole = replace(whole, is_stopped=message.is_stopped)
        case UserMessage():
            whole = replace(whole, name=short(message.name))
        case ToolExecutionResultMessage():
            whole = replace(
                whole,
                name=short(message.tool_name),
                call_id=short(message.id),
                is_error=bool(message.is_error),
            )
    return _cut(whole, most)


def said_by(row: Message) -> str:
    """Return the text of a row, or as much of it as was read."""
    return row.text if "text" in row.__dict__ else getattr(row, "beginning", "")


def _cut(message: ShownMessage, most: int | None) -> ShownMessage:
    total = sum(part.chars for part in message.parts)
    if most is None or (total <= most and len(message.parts) <= _MOST_PARTS):
        return message
    parts, left = [], most
    for part in islice(message.parts, _MOST_PARTS):
        # What a long answer calls is said in any case.
        if left > 0 or isinstance(part, ToolCall):
            parts.append(part.within(left))
            left -= parts[-1].chars
    return replace(message, parts=parts, is_cut=True, left_out=total - (most - left))


def unreadable(rows: Iterable[Message]) -> list[int]:
    """Return the positions of the rows that cannot be read."""
    found = []
    for row in rows:
        try:
            row.message  # noqa: B018
        except UNREADABLE:
            found.append(row.position)
    return found
