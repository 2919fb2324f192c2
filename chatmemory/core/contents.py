"""The contents of user messages and tool results (text, images, audio, video, PDF files), and read-only values.

The types and their checks are those of LangChain4j's ``dev.langchain4j.data.message``. The read-only dict and list
compare, pickle and serialise like plain ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from typing import Any, ClassVar, NoReturn, Self, TypeVar

from chatmemory.core.arguments import require_not_blank, require_optional_str, require_str, require_url
from chatmemory.core.exceptions import InvalidValueError
from chatmemory.core.json_text import MAX_NESTING, TOO_DEEP

_MAX_SHOWN_CHARS = 120


def _refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
    raise TypeError("a message is immutable: build a new one instead")


class FrozenDict(dict[str, Any]):
    """A read-only dict with string keys."""

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)

    def __deepcopy__(self, memo: object) -> Self:
        return self


class FrozenList(list[Any]):
    """A read-only list."""

    __setitem__ = __delitem__ = append = clear = extend = insert = pop = remove = reverse = sort = _refuse
    __iadd__ = __imul__ = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenList, (list(self),)

    def __deepcopy__(self, memo: object) -> Self:
        return self


def freeze(value: Any, depth: int = 0) -> Any:
    """Return ``value`` with read-only copies of all its dicts, lists and tuples.

    Raises:
        TypeError: a key of a dict is not a string.
        InvalidValueError: ``value`` is nested deeper than ``MAX_NESTING``.
    """
    # Loops, because in Python 3.11 each comprehension takes a stack frame.
    if depth > MAX_NESTING:
        raise InvalidValueError(TOO_DEEP, most=MAX_NESTING)
    if isinstance(value, (FrozenDict, FrozenList)):
        return value
    if isinstance(value, Mapping):
        frozen = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"keys of attributes must be strings, but one is: {key!r}")
            frozen[key] = freeze(item, depth + 1)
        return FrozenDict(frozen)
    if isinstance(value, (list, tuple)):
        items = []
        for item in value:
            items.append(freeze(item, depth + 1))  # noqa: PERF401
        return FrozenList(items)
    return value


class ShortRepr:
    """A ``repr`` for dataclasses that omits empty values and shortens long ones."""

    def __repr__(self) -> str:
        shown = []
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if value is None or value == () or value == {} or (field.default is not MISSING and value == field.default):
                continue
            shown.append(f"{field.name}={_short(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"


def _short(value: Any) -> str:
    if isinstance(value, (str, bytes)) and len(value) > _MAX_SHOWN_CHARS:
        return f"{value[:_MAX_SHOWN_CHARS]!r}… ({len(value)} characters)"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_short, value)) + "]"
    text = repr(value)
    return text if len(text) <= 4 * _MAX_SHOWN_CHARS else f"{text[: 4 * _MAX_SHOWN_CHARS]}…"


M = TypeVar("M", bound="Media")


class ContentType(StrEnum):
    """The ``type`` of a content in JSON."""

    TEXT = "TEXT"
    IMAGE = "IMAGE"
    AUDIO = "AUDIO"
    VIDEO = "VIDEO"
    PDF = "PDF"


class DetailLevel(StrEnum):
    """The detail level of an image for the model."""

    LOW = "LOW"
    MEDIUM = "MEDIUM"
    HIGH = "HIGH"
    ULTRA_HIGH = "ULTRA_HIGH"
    AUTO = "AUTO"


@dataclass(frozen=True, repr=False)
class Media(ShortRepr):
    """Media, at a URL or as Base64. The Base64 is neither decoded nor checked.

    Raises:
        ValueError: ``url`` is not a URI.
    """

    url: str | None = None
    base64_data: str | None = None
    mime_type: str | None = None

    def __post_init__(self) -> None:
        require_url(self.url, "url")
        require_optional_str(self.base64_data, "base64_data")
        require_optional_str(self.mime_type, "mime_type")


@dataclass(frozen=True, repr=False)
class Image(Media):
    """An image; ``revised_prompt`` is the prompt as the image model rewrote it."""

    revised_prompt: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_optional_str(self.revised_prompt, "revised_prompt")


@dataclass(frozen=True, repr=False)
class Audio(Media):
    """A recording; it may also hold raw bytes."""

    binary_data: bytes | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.binary_data is not None and not isinstance(self.binary_data, bytes):
            raise TypeError(f"binary_data must be bytes, but is: {type(self.binary_data).__name__}")


@dataclass(frozen=True, repr=False)
class Video(Media):
    """A video."""


@dataclass(frozen=True, repr=False)
class PdfFile(Media):
    """A PDF file."""

    def __post_init__(self) -> None:
        if self.mime_type is None:
            object.__setattr__(self, "mime_type", "application/pdf")
        super().__post_init__()


class Content(ShortRepr):
    """One content of a message, of the kind ``type``."""

    type: ClassVar[ContentType]

    @property
    def media(self) -> Media | None:
        """The image, audio, video or PDF file; None if there is none."""
        return None


@dataclass(frozen=True, repr=False)
class TextContent(Content):
    """Text, which may be empty."""

    text: str
    type: ClassVar[ContentType] = ContentType.TEXT

    def __post_init__(self) -> None:
        require_str(self.text, "text")


def _media(kind: type[M], given: M | None, url: str | None, base64_data: str | None, mime_type: str | None) -> M | None:
    """Return the media from either form of the constructors below, or None without arguments."""
    if given is not None:
        if not isinstance(given, kind):
            raise TypeError(f"expected {kind.__name__}, but is: {type(given).__name__}")
        if (url, base64_data, mime_type) != (None, None, None):
            raise InvalidValueError(
                "Either %(kind)s or its fields must be provided, not both", code="repeated", kind=kind.__name__
            )
        return given
    if base64_data is not None or (mime_type is not None and url is None):
        require_not_blank(base64_data, "base64_data")
        if kind is not PdfFile:
            require_not_blank(mime_type, "mime_type")
    elif url is None:
        return None
    return kind(url=url, base64_data=base64_data, mime_type=mime_type)


@dataclass(frozen=True, repr=False, init=False)
class ImageContent(Content):
    """An image: ``ImageContent(url)``, ``ImageContent(base64_data=…, mime_type=…)`` or ``ImageContent(image=…)``.

    Raises:
        ValueError: the image or the detail level is missing, ``base64_data`` or ``mime_type`` is blank, or ``url`` is
            not a URI.
    """

    image: Image
    detail_level: DetailLevel
    type: ClassVar[ContentType] = ContentType.IMAGE

    def __init__(
        self,
        url: str | None = None,
        base64_data: str | None = None,
        mime_type: str | None = None,
        *,
        image: Image | None = None,
        detail_level: DetailLevel | str = DetailLevel.LOW,
    ) -> None:
        found = _media(Image, image, url, base64_data, mime_type)
        if found is None:
            raise InvalidValueError("image cannot be null", code="null")
        if detail_level is None:
            raise InvalidValueError("detail_level cannot be null", code="null")
        vars(self).update(image=found, detail_level=DetailLevel(detail_level))

    @property
    def media(self) -> Image:
        return self.image


class _MediaContent(Content):
    """The base of audio, video and PDF contents, whose media may be missing."""

    _field: ClassVar[str]
    _kind: ClassVar[Any]

    def __init__(
        self,
        url: str | None = None,
        base64_data: str | None = None,
        mime_type: str | None = None,
        **media: Any,
    ) -> None:
        given = media.pop(self._field, None)
        if media:
            raise TypeError(f"{type(self).__name__} got an unexpected keyword argument {next(iter(media))!r}")
        vars(self)[self._field] = _media(self._kind, given, url, base64_data, mime_type)

    @property
    def media(self) -> Media | None:
        found: Media | None = getattr(self, self._field)
        return found


@dataclass(frozen=True, repr=False, init=False)
class AudioContent(_MediaContent):
    """Audio: ``AudioContent(url)``, ``AudioContent(base64_data=…, mime_type=…)`` or ``AudioContent(audio=…)``."""

    audio: Audio | None
    type: ClassVar[ContentType] = ContentType.AUDIO
    _field = "audio"
    _kind = Audio


@dataclass(frozen=True, repr=False, init=False)
class VideoContent(_MediaContent):
    """Video: ``VideoContent(url)``, ``VideoContent(base64_data=…, mime_type=…)`` or ``VideoContent(video=…)``."""

    video: Video | None
    type: ClassVar[ContentType] = ContentType.VIDEO
    _field = "video"
    _kind = Video


@dataclass(frozen=True, repr=False, init=False)
class PdfFileContent(_MediaContent):
    """A PDF: ``PdfFileContent(url)``, ``PdfFileContent(base64_data=…)`` or ``PdfFileContent(pdf_file=…)``."""

    pdf_file: PdfFile | None
    type: ClassVar[ContentType] = ContentType.PDF
    _field = "pdf_file"
    _kind = PdfFile
