"""What the formats of models' APIs have in common about images and files."""

from __future__ import annotations

__all__ = ["data_uri"]


def data_uri(uri: str) -> tuple[str, str | None]:
    """The MIME type and the Base64 of a data URI; no Base64 if it is something else."""
    head, _, data = uri.partition(",")
    if head[:5].lower() == "data:" and head[-7:].lower() == ";base64":
        return head[5:-7], data
    return "", None
