"""What the formats of models' APIs have in common about images and files."""

from __future__ import annotations

import re

__all__ = ["data_uri", "is_base64"]

_BASE64 = re.compile("[A-Za-z0-9+/_-]*={0,2}")


def data_uri(uri: str) -> tuple[str, str | None]:
    """The MIME type and the Base64 of a data URI; no Base64 if it is something else."""
    head, _, data = uri.partition(",")
    if head[:5].lower() == "data:" and head[-7:].lower() == ";base64":
        return head[5:-7], data
    return "", None


def is_base64(data: str) -> bool:
    """Whether it is Base64 of either alphabet."""
    return len(data) % 4 == 0 and _BASE64.fullmatch(data) is not None
