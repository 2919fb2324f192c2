"""Packages that are not installed unless somebody asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["extra"]


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Around the imports of what the extra ``name`` installs.

    Raises:
        ImportError: it is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ImportError(f'{error}. Install it: pip install "django-chatmemory[{name}]"') from error
