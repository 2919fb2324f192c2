"""Run sync code that uses the database from async code, in the thread that Django allows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from itertools import islice
from typing import Any, TypeVar

from asgiref.sync import sync_to_async

__all__ = ["iterate_in_thread", "run_to_the_end"]

T = TypeVar("T")


async def iterate_in_thread(steps: Iterator[T]) -> AsyncGenerator[T, None]:
    """Yield the items of ``steps``, each of which is made in the thread."""

    def take() -> list[T]:
        return list(islice(steps, 1))

    while step := await sync_to_async(take)():
        yield step[0]


async def run_to_the_end(method: Callable[..., T], *args: Any) -> T:
    """Run ``method`` in the thread and return its result. A cancelled caller gets its ``CancelledError`` after that."""
    task = asyncio.ensure_future(sync_to_async(method)(*args))
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is not None:
        task.exception()  # marks it as retrieved, so that asyncio does not log it
        raise cancelled
    return task.result()
