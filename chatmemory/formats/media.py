"""The media that models' APIs take, as data of some types or at addresses of some schemes; and images for OpenAI."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from chatmemory.core.contents import (
    Audio,
    AudioContent,
    Content,
    DetailLevel,
    ImageContent,
    Media,
    PdfFileContent,
    VideoContent,
)
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.serialization import Fields
from chatmemory.formats import CannotExpressError

WEB = ("http", "https")
"""The schemes of addresses on the web."""

IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
"""The MIME types of images that Anthropic and OpenAI take as data."""

PDF_TYPES = ("application/pdf",)

_PLURALS = {"an image": "images", "a video": "videos", "a PDF file": "PDF files"}

_BASE64 = re.compile("[A-Za-z0-9+/_-]*={0,2}")

_DETAIL_LEVELS = {
    "auto": DetailLevel.AUTO,
    "low": DetailLevel.LOW,
    "high": DetailLevel.HIGH,
    "original": DetailLevel.ULTRA_HIGH,
}


OPENAI_DETAILS = {
    DetailLevel.LOW: "low",
    DetailLevel.MEDIUM: "auto",
    DetailLevel.HIGH: "high",
    DetailLevel.ULTRA_HIGH: "high",
    DetailLevel.AUTO: "auto",
}
"""How closely to look at an image, as every model of OpenAI's understands it."""


class Data(NamedTuple):
    """Media that are here."""

    mime_type: str
    base64: str


@dataclass(frozen=True, kw_only=True)
class MediaRule:
    """The media of one kind that an API takes."""

    api: str

    kind: str
    """One of them, as errors call it: ``an image``."""

    types: tuple[str, ...]
    """The MIME types of data, or patterns of these: ``image/*``."""

    schemes: tuple[str, ...] | None = WEB
    """The schemes of the addresses that it fetches: empty if it takes data only, None if any address will do."""

    data_first: bool = False
    """Whether media that have both are sent as data."""

    base64_only: bool = True
    """Whether data must be Base64, as every API requires."""

    def as_recorded(self) -> MediaRule:
        """Return the rule for a record of what was said, which may have any type, address and data."""
        return replace(self, types=("*",), schemes=None, base64_only=False)

    def require_type(self, mime_type: str) -> None:
        """Raise ``CannotExpressError`` for a MIME type that the API does not take."""
        if not any(fnmatchcase(_bare(mime_type), type) for type in self.types):
            raise CannotExpressError(
                "%(api)s takes %(kinds)s of %(types)s, but the MIME type is %(mime_type)s",
                api=self.api,
                kinds=_PLURALS.get(self.kind, self.kind),
                types=[*self.types],
                mime_type=repr(mime_type)[:100],
            )


_OPENAI_IMAGES = MediaRule(api="OpenAI", kind="an image", types=IMAGE_TYPES)


def sendable(media: Media | None, rule: MediaRule) -> Data | str:
    """Return the data of media, or their URL, whichever the API takes.

    Raises:
        CannotExpressError: there is neither, or nothing that the API takes.
    """
    ways: list[Callable[[Media, MediaRule], Data | str | None]] = [_at_url, _as_data]
    problem = None
    for way in reversed(ways) if rule.data_first else ways:
        try:
            found = way(media or Media(), rule)
        except CannotExpressError as error:
            problem = problem or error
        else:
            if found is not None:
                return found
    if problem is not None:
        raise problem
    if rule.schemes == ():
        raise CannotExpressError(
            "%(api)s needs the data of %(kind)s; a URL is not enough", api=rule.api, kind=rule.kind
        )
    raise CannotExpressError("%(api)s needs the URL or the data of %(kind)s", api=rule.api, kind=rule.kind)


def _as_data(media: Media, rule: MediaRule) -> Data | None:
    data = data_of(media)
    return None if data is None else _allowed(data, rule)


def _at_url(media: Media, rule: MediaRule) -> Data | str | None:
    url = media.url or ""
    mime_type, data = data_uri(url)
    if data:
        return _allowed(Data(mime_type, data), rule)
    if not url or data == "" or rule.schemes == ():
        return None
    if rule.schemes is None or is_at(url, rule.schemes):
        return url
    *others, last = rule.schemes
    schemes = f"{', '.join(others)} and {last}" if others else last
    raise CannotExpressError(
        "%(api)s takes %(kind)s from %(schemes)s only, but the URL is %(url)s",
        api=rule.api,
        kind=rule.kind,
        schemes=schemes,
        url=repr(url)[:100],
    )


def _allowed(data: Data, rule: MediaRule) -> Data:
    mime_type = _bare(data.mime_type)
    if not mime_type:
        raise CannotExpressError(
            "%(api)s needs the MIME type of %(kind)s that is given as data", api=rule.api, kind=rule.kind
        )
    rule.require_type(mime_type)
    if rule.base64_only:
        require_base64(data.base64, rule.api, rule.kind)
    return Data(mime_type, data.base64) if mime_type in rule.types else data


def _bare(mime_type: str) -> str:
    """Return a MIME type without its parameters, in its usual spelling."""
    bare = mime_type.partition(";")[0].strip().lower()
    return "image/jpeg" if bare == "image/jpg" else bare


def data_of(media: Media) -> Data | None:
    """Return the data that media have beside their URL; None if they have none."""
    data = media.base64_data
    if not data and isinstance(media, Audio) and media.binary_data:
        data = base64.b64encode(media.binary_data).decode()
    return Data(media.mime_type or "", data) if data else None


def data_uri(uri: str) -> tuple[str, str | None]:
    """Return the MIME type and the Base64 of a data URI; an empty type and None for any other URI."""
    head, comma, data = uri.partition(",")
    if comma and head[:5].lower() == "data:" and head[-7:].lower() == ";base64":
        return head[5:-7], data
    return "", None


def is_at(url: str, schemes: tuple[str, ...]) -> bool:
    """Return whether a URL is an address with a host, of one of the schemes."""
    scheme, _, rest = url.partition("://")
    return scheme.lower() in schemes and rest[:1] not in ("", "/", "?", "#")


def is_base64(data: str) -> bool:
    """Return whether ``data`` is Base64 of either alphabet."""
    return len(data) % 4 == 0 and _BASE64.fullmatch(data) is not None


def content_of_type(mime_type: str, /, **media: Any) -> Content | None:
    """Return the content for media, which are the other arguments, of a MIME type; None for one of another kind."""
    match mime_type.partition("/")[0].lower():
        case "image":
            return ImageContent(**media, detail_level=DetailLevel.AUTO)  # nobody says how closely to look
        case "audio":
            return AudioContent(**media)
        case "video":
            return VideoContent(**media)
    return PdfFileContent(**media) if mime_type.lower() in PDF_TYPES else None


def require_base64(data: str, api: str, kind: str) -> None:
    """Raise ``CannotExpressError`` for data that is not Base64.

    Args:
        data: the data.
        api: the API that takes it.
        kind: the kind of media, see ``MediaRule``.
    """
    if not is_base64(data):
        raise CannotExpressError("%(api)s takes the data of %(kind)s as Base64 only", api=api, kind=kind)


def openai_image_url(content: ImageContent, *, record: bool) -> str:
    """Return the URL of an image, a data URI for one that is here as data.

    Args:
        content: the image.
        record: whether it is for a record of what was said, in which an image may be of any kind.
    """
    found = sendable(content.image, _OPENAI_IMAGES.as_recorded() if record else _OPENAI_IMAGES)
    return found if isinstance(found, str) else f"data:{found.mime_type};base64,{found.base64}"


def openai_image(url: str, fields: Fields) -> ImageContent:
    """Return the image at ``url``, with the ``detail`` of ``fields``."""
    # OpenAI's default, not that of ImageContent: it is how closely the model has looked.
    detail = _DETAIL_LEVELS[fields.choice("detail", _DETAIL_LEVELS) if fields.has("detail") else "auto"]
    mime_type, data = data_uri(url)
    if data is None:
        return ImageContent(url, detail_level=detail)
    return ImageContent(base64_data=data, mime_type=mime_type, detail_level=detail)


def openai_pdf_file(fields: Fields) -> PdfFileContent:
    """Return the PDF file that is the ``file_data`` of ``fields``."""
    mime_type, data = data_uri(fields.text("file_data"))
    if data is None or mime_type.lower() != "application/pdf":
        raise InvalidMessageError("expected data:application/pdf;base64,…", fields.at("file_data"))
    return PdfFileContent(base64_data=data)
