"""The delivery of a stream: the turn goes on in a thread or a task of its own, even if its reader leaves.

That is so for two reasons. While the model is silent the connection needs a sign of life, and a client that goes away
must not take the answer along.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextvars import Context, copy_context
from queue import Empty, SimpleQueue
from typing import Any

from asgiref.sync import AsyncToSync, SyncToAsync, async_to_sync
from django.utils.translation import get_language, override

from chatmemory.database.connections import close_all

__all__ = ["COMMENT", "SILENCE", "TaskDelivery", "ThreadDelivery"]

SILENCE = 15.0
"""The seconds without an event after which a comment is sent, so that no proxy takes the connection for dead."""

COMMENT = b": the turn goes on\n\n"

Leave = Callable[[], object]
"""A function that is called when the client has gone away before the end."""


class _Delivery:
    """What a reader and the turn of a stream know of each other."""

    def __init__(self, on_leave: Leave | None) -> None:
        self._on_leave = on_leave
        self._has_reader = True
        self._has_ended = False
        self._language = get_language()  # Django knows it for each thread by itself

    def close(self) -> None:
        """Note that nobody reads any more. Django calls it at the end of each response, in a thread of the request."""
        self._has_reader = False
        if self._on_leave is not None and not self._has_ended:
            self._on_leave()


class ThreadDelivery(_Delivery):
    """An iterator of a stream whose turn runs in a thread, for WSGI."""

    def __init__(self, events: Iterator[bytes], on_leave: Leave | None) -> None:
        """
        Args:
            events: the stream; the thread runs it to its end.
            on_leave: what to do if the client goes away before.
        """
        super().__init__(on_leave)
        self._events = events
        self._queue: SimpleQueue[bytes | None] = SimpleQueue()
        # Not a daemon: a process that ends in order lets the model finish.
        threading.Thread(target=copy_context().run, args=(self._run,), name="chatmemory-turn").start()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            event = self._queue.get(timeout=SILENCE)
        except Empty:
            return COMMENT
        if event is None:
            raise StopIteration
        return event

    def _run(self) -> None:
        try:
            with override(self._language):
                for event in self._events:
                    if self._has_reader and event:
                        self._queue.put(event)
        finally:
            self._has_ended = True
            self._queue.put(None)
            close_all()


class TaskDelivery(_Delivery):
    """An async iterable of a stream whose turn runs in a task of the server's event loop, for ASGI."""

    _tasks: set[asyncio.Task[None]] = set()
    """The tasks that run: an event loop itself would let them be collected as garbage."""

    def __init__(self, events: AsyncIterator[bytes], on_leave: Leave | None) -> None:
        """
        Args:
            events: the stream; the task runs it to its end.
            on_leave: what to do if the client goes away before.
        """
        super().__init__(on_leave)
        self._events = events
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._loop = async_to_sync(_running_loop)()
        self._loop.call_soon_threadsafe(self._start, self._run, _context_of_its_own())

    def _start(self, work: Callable[[], Coroutine[Any, Any, None]], context: Context) -> None:
        task = self._loop.create_task(work(), context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        event: asyncio.Task[bytes | None] = asyncio.ensure_future(self._queue.get())
        try:
            while True:
                done, _ = await asyncio.wait({event}, timeout=SILENCE)
                if not done:
                    yield COMMENT
                    continue
                if (found := event.result()) is None:
                    return
                yield found
                event = asyncio.ensure_future(self._queue.get())
        finally:
            event.cancel()

    async def _run(self) -> None:
        try:
            with override(self._language):
                async for event in self._events:
                    if self._has_reader and event:
                        self._queue.put_nowait(event)
        finally:
            self._has_ended = True
            self._queue.put_nowait(None)


async def _running_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def _context_of_its_own() -> Context:
    """Return a copy of this context without the thread of the request, which ends before the turn does."""
    context = copy_context()
    context.run(setattr, AsyncToSync.executors, "current", None)
    context.run(SyncToAsync.thread_sensitive_context.set, None)  # type: ignore[arg-type]
    return context
