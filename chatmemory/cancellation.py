"""Changes that async code waits for, whatever becomes of the task that wants them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from asgiref.sync import sync_to_async

__all__ = ["settled"]

T = TypeVar("T")


async def settled(method: Callable[..., T], *args: Any) -> T:
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
