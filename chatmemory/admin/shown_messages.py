"""A message as the parts that a page shows one below the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from django.utils.translation import gettext_lazy as _

from chatmemory.admin.json_layout import lay_out
from chatmemory.contents import (
    Audio,
    AudioContent,
    Content,
    Image,
    ImageContent,
    PdfFile,
    PdfFileContent,
    TextContent,
    Video,
    VideoContent,
)
from chatmemory.json_text import dumps
from chatmemory.messages import (
    AiMessage,
    ChatMessage,
    CustomMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.models import Message

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

__all__ = ["MediaPlaceholder", "Part", "Passage", "ShownMessage", "ToolCall", "shown"]

_LONG_CHARS = 2000
_LONG_LINES = 40
_LONGEST_URL = 300
_LONGEST_EXCERPT = 160


class Part:
    """Something in a message, drawn by a template of its own."""

    template: ClassVar[str]


@dataclass(frozen=True, kw_only=True)
class Passage(Part):
    """A text."""

    text: str

    label: StrOrPromise = ""
    """What the text is, where it is not simply what was said."""

    is_code: bool = False
    """Whether it runs from left to right in any language."""

    template = "admin/chatmemory/conversation/passage.html"

    @property
    def is_long(self) -> bool:
        """Whether it gets a box to scroll in, so that one message does not fill the page."""
        return len(self.text) > _LONG_CHARS or self.text.count("\n") >= _LONG_LINES


@dataclass(frozen=True, kw_only=True)
class ToolCall(Part):
    """A tool that the model wanted called."""

    name: str
    id: str
    arguments: Passage | None

    template = "admin/chatmemory/conversation/tool_call.html"


@dataclass(frozen=True, kw_only=True)
class MediaPlaceholder(Part):
    """What stands for an image, a recording or a file. Nothing is fetched: the address may be anybody's."""

    kind: StrOrPromise
    mime_type: str
    url: str
    byte_count: int | None
    """The size of what is stored here."""

    note: str
    """What else is known about it."""

    template = "admin/chatmemory/conversation/media.html"


@dataclass(frozen=True, kw_only=True)
class ShownMessage:
    """A row, and what it says."""

    row: Message
    role: StrOrPromise

    parts: list[Part]

    name: str = ""
    """Who spoke, or which tool answered."""

    call_id: str = ""
    """The call that a tool answered."""

    is_error: bool = False
    """Whether the tool failed."""

    problem: str = ""
    """Why the row cannot be read, if it cannot."""

    is_hidden: bool = False
    """Whether its words are not for this reader."""

    @property
    def excerpt(self) -> str:
        """How its text begins, for the line that it is folded to."""
        return "" if self.is_hidden else " ".join(self.row.text[:_LONGEST_EXCERPT].split())


def shown(row: Message, *, with_text: bool = True) -> ShownMessage:
    """What to show of a row. One that cannot be read does not cost the reader the others."""
    role = row.get_type_display()
    if not with_text:
        return ShownMessage(row=row, role=role, parts=[], is_hidden=True)
    try:
        message = row.message
    except ValueError as error:
        return ShownMessage(row=row, role=role, parts=[Passage(text=row.text)], problem=str(error))
    parts = list(_parts(message))
    match message:
        case UserMessage():
            return ShownMessage(row=row, role=role, parts=parts, name=message.name or "")
        case ToolExecutionResultMessage():
            return ShownMessage(
                row=row,
                role=role,
                parts=parts,
                name=message.tool_name or "",
                call_id=message.id or "",
                is_error=bool(message.is_error),
            )
    return ShownMessage(row=row, role=role, parts=parts)


def _parts(message: ChatMessage) -> Iterator[Part]:
    match message:
        case SystemMessage():
            yield Passage(text=message.text)
        case UserMessage():
            yield from _contents(message.contents)
        case AiMessage():
            if message.thinking:
                yield Passage(text=message.thinking, label=_("Thinking"))
            if message.text:
                yield Passage(text=message.text)
            yield from map(_tool_call, message.tool_execution_requests)
        case ToolExecutionResultMessage():
            yield from _contents(message.contents)
    if isinstance(message, (AiMessage, CustomMessage, ToolExecutionResultMessage, UserMessage)) and message.attributes:
        yield Passage(text=lay_out(dumps(message.attributes)), label=_("Attributes"), is_code=True)


def _tool_call(request: ToolExecutionRequest) -> ToolCall:
    arguments = request.arguments
    return ToolCall(
        name=request.name or "",
        id=request.id or "",
        arguments=Passage(text=lay_out(arguments), is_code=True) if arguments else None,
    )


def _contents(contents: Iterable[Content]) -> Iterator[Part]:
    for content in contents:
        match content:
            case TextContent():
                yield Passage(text=content.text)
            case ImageContent():
                yield _placeholder(_("Image"), content.image, str(content.detail_level))
            case AudioContent():
                yield _placeholder(_("Audio"), content.audio)
            case VideoContent():
                yield _placeholder(_("Video"), content.video)
            case PdfFileContent():
                yield _placeholder(_("PDF file"), content.pdf_file)


def _placeholder(kind: StrOrPromise, media: Image | Audio | Video | PdfFile | None, note: str = "") -> MediaPlaceholder:
    if media is None:
        return MediaPlaceholder(kind=kind, mime_type="", url="", byte_count=None, note=note)
    byte_count = None
    if media.base64_data is not None:
        byte_count = len(media.base64_data.rstrip("=")) * 3 // 4
    elif isinstance(media, Audio) and media.binary_data is not None:
        byte_count = len(media.binary_data)
    url = media.url or ""
    if len(url) > _LONGEST_URL:  # a data: URL, most likely
        url = f"{url[:_LONGEST_URL]}…"
    return MediaPlaceholder(kind=kind, mime_type=media.mime_type or "", url=url, byte_count=byte_count, note=note)
