"""An async stream that a task of its own reads, so that whoever leaves it ends the request at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TypeVar

__all__ = ["read_ahead"]

T = TypeVar("T")


async def read_ahead(items: AsyncIterator[T]) -> AsyncGenerator[T, None]:
    """Yield the items, which a task of its own reads.

    Closing a generator does not close those within it, on whose end the connection of ``google-genai`` waits: they
    would go on until they are collected as garbage. A task that is cancelled while it waits in them ends them all.
    """
    read: asyncio.Queue[tuple[T] | Exception | None] = asyncio.Queue()

    async def read_all() -> None:
        try:
            async for item in items:
                read.put_nowait((item,))
        except Exception as error:
            read.put_nowait(error)
        else:
            read.put_nowait(None)

    reader = asyncio.create_task(read_all())
    try:
        while (got := await read.get()) is not None:
            if isinstance(got, Exception):
                raise got
            yield got[0]
    finally:
        reader.cancel()
        await asyncio.wait([reader])
