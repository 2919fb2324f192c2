"""The event loop, one in each process, in which all models of Pydantic AI are asked."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future
from typing import Any

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def start_in_loop(work: Coroutine[Any, Any, Any]) -> Future[Any]:
    """Start ``work`` in the loop, whose thread begins with the first call. Cancelling the future ends it."""
    global _loop
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="chatmemory-pydantic-ai", daemon=True).start()
        loop = _loop
    return asyncio.run_coroutine_threadsafe(work, loop)


def read_in_loop(items: AsyncIterator[Any], put: Callable[[Any], object]) -> Future[Any]:
    """Read a stream in the loop, in one task, whose end closes its connection. ``put`` gets each item, then None."""

    async def read() -> None:
        try:
            async for item in items:
                put((item,))
        except Exception as error:
            put(error)
        else:
            put(None)

    return start_in_loop(read())


def _forget() -> None:
    global _lock, _loop
    _lock, _loop = threading.Lock(), None


os.register_at_fork(after_in_child=_forget)  # the thread stays with the parent
