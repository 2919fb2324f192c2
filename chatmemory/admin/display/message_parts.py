"""The parts of a message, which a page shows one below the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from chatmemory.admin.display.call_line import call_line
from chatmemory.admin.display.json_layout import lay_out
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
from chatmemory.core.json_text import dumps
from chatmemory.core.messages import (
    AiMessage,
    ChatMessage,
    CustomMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.formats.media import data_uri

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

__all__ = ["MediaPlaceholder", "Part", "Passage", "ToolCall", "parts_of", "short"]

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
    """Whether it may be drawn as Markdown: somebody wrote it for people to read."""

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
    if isinstance(message, (AiMessage, CustomMessage, ToolExecutionResultMessage, UserMessage)) and message.attributes:
        yield Passage(text=lay_out(dumps(message.attributes)), label=_("Attributes"), is_code=True)


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
