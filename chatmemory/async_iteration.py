"""Iterators that ask the database, for async code."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from itertools import islice
from typing import TypeVar

from asgiref.sync import sync_to_async

__all__ = ["in_thread"]

T = TypeVar("T")


async def in_thread(steps: Iterator[T]) -> AsyncGenerator[T, None]:
    """What ``steps`` gives, each made in the thread where sync code may use the database."""

    def take() -> list[T]:
        return list(islice(steps, 1))

    while step := await sync_to_async(take)():
        yield step[0]
