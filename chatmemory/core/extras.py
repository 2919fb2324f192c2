"""Optional dependencies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["extra"]


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Make the error of a failed import in the ``with`` block say how to install the extra ``name``.

    Raises:
        ImportError: a package of the extra is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ImportError(f'{error}. Install it: pip install "django-chatmemory[{name}]"') from error
