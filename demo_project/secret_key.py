"""The demo's secret key: a random one for each checkout."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from django.core.management.utils import get_random_secret_key

__all__ = ["secret_key"]


def secret_key(path: Path) -> str:
    """Return the key that the file ``path`` holds; make the file, for its owner's eyes only, at the first start."""
    if not path.exists():
        descriptor, whole = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}-")  # whole, or not there at all
        with os.fdopen(descriptor, "w") as file:
            file.write(get_random_secret_key())
        os.replace(whole, path)
    return path.read_text()
