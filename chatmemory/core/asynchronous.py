"""Iterators that ask the database, for async code."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from itertools import islice
from typing import Any, TypeVar

from asgiref.sync import sync_to_async

__all__ = ["iterate_in_thread", "run_to_the_end"]

T = TypeVar("T")


async def iterate_in_thread(steps: Iterator[T]) -> AsyncGenerator[T, None]:
    """What ``steps`` gives, each made in the thread where sync code may use the database."""

    def take() -> list[T]:
        return list(islice(steps, 1))

    while step := await sync_to_async(take)():
        yield step[0]


async def run_to_the_end(method: Callable[..., T], *args: Any) -> T:
    """The result of ``method`` in a thread. Who is cancelled meanwhile hears of it when the work is done or undone."""
    task = asyncio.ensure_future(sync_to_async(method)(*args))
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is not None:
        task.exception()  # heard of, so that nobody reports it as lost
        raise cancelled
    return task.result()
