"""The demo's secret key: a random one for each checkout."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from django.core.management.utils import get_random_secret_key

__all__ = ["secret_key"]


def secret_key(path: Path) -> str:
    """Return the key that the file ``path`` holds; make the file, for its owner's eyes only, at the first start."""
    with suppress(FileExistsError):
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(get_random_secret_key())
    return path.read_text()
