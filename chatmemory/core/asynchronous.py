"""Run sync code from async code, in the thread that it needs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import ContextVar, copy_context
from functools import partial, wraps
from itertools import islice
from threading import Thread
from typing import Any, Concatenate, ParamSpec, TypeVar

from asgiref.sync import AsyncToSync, SyncToAsync, async_to_sync, sync_to_async

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

# The most threads, each of which may have a connection. A change is short, a function of the project's may be long.
_FOR_CHANGES = 16
_FOR_FUNCTIONS = 32

# How many functions wait for this code in threads of this module, such as a tool that asks another assistant. Each
# depth has threads of its own: if all waited for others of the same pool, none would ever end.
_depth: ContextVar[int] = ContextVar("chatmemory_depth", default=0)


class ThreadNeeds:
    """The needs that sync code has of its thread: in memory none, but a database's connections belong to threads."""

    def for_other_thread(self, work: Callable[[], T]) -> Callable[[], T]:
        """Return ``work`` as another thread has to do it. This is called in the thread of the event loop."""
        return work

    def run_in_callers(self, thread: object, work: Callable[[], T]) -> T:
        """Run ``work`` here, in ``thread``, and return its result."""
        return work()

    def may_stay(self, thread: object, *, is_change: bool) -> bool:
        """Return whether the code might have to run in ``thread``. This is called in the thread of the event loop.

        Args:
            thread: what stands for the thread of the caller, or for the one that all tasks of the process share.
            is_change: whether the code changes a memory; if not, it is a function of the project's.
        """
        return False

    def run_if_it_stays(self, thread: object, work: Callable[[], T], *, is_change: bool) -> tuple[T] | None:
        """Run ``work`` here, in ``thread``, and return a tuple of its result; do nothing, and return None, if it need
        not run here."""
        return None

    def must_stay(self) -> bool:
        """Return whether a function of the project's has to run in this thread, which calls this."""
        return False

    def run(self, work: Callable[[], T]) -> T:
        """Run ``work`` in a thread of its own, and return its result."""
        return work()


class _Threads:
    """The threads of this process that are not shared."""

    def __init__(self) -> None:
        self.needs = ThreadNeeds()
        self._open()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._open)  # a child has none of its parent's threads

    def _open(self) -> None:
        self._pools: dict[tuple[bool, int], ThreadPoolExecutor] = {}

    async def run_in_callers(self, work: Callable[[], T]) -> T:
        return await sync_to_async(self.needs.run_in_callers)(_thread_of_caller(), work)

    async def run(self, work: Callable[[], T], *, is_change: bool) -> T:
        work = self.needs.for_other_thread(work)
        thread = _thread_of_caller() or _thread_of_tasks()
        if self.needs.may_stay(thread, is_change=is_change):
            result = await sync_to_async(self.needs.run_if_it_stays)(thread, work, is_change=is_change)
            if result is not None:
                return result[0]
        executor = self._pool(_depth.get(), is_change=is_change)
        return await sync_to_async(self._deeper(work), thread_sensitive=False, executor=executor)()

    def run_for(self, work: Callable[[], T], seconds: float) -> tuple[T] | None:
        if self.needs.must_stay():
            return (work(),)
        future = self._pool(_depth.get(), is_change=False).submit(copy_context().run, self._deeper(work))
        if wait([future], seconds).done or not (future.cancel() or future.running()):
            return (future.result(),)
        return None

    def run_in_new_for(self, work: Callable[[], T], seconds: float) -> tuple[T] | None:
        if self.needs.must_stay():
            return (work(),)
        future: Future[T] = Future()
        context = copy_context()

        def run() -> None:
            try:
                future.set_result(context.run(self.needs.run, work))
            except BaseException as error:
                future.set_exception(error)

        Thread(target=run, name="chatmemory-summarizer", daemon=True).start()
        return (future.result(),) if wait([future], seconds).done else None

    def _deeper(self, work: Callable[[], T]) -> Callable[[], T]:
        depth = _depth.get() + 1

        def run() -> T:
            token = _depth.set(depth)
            try:
                return self.needs.run(work)
            finally:
                _depth.reset(token)

        return run

    def _pool(self, depth: int, *, is_change: bool) -> ThreadPoolExecutor:
        pool = self._pools.get((is_change, depth))
        if pool is None:
            size, name = (_FOR_CHANGES, "chatmemory-change") if is_change else (_FOR_FUNCTIONS, "chatmemory-function")
            pool = self._pools.setdefault((is_change, depth), ThreadPoolExecutor(size, name))
        return pool


_threads = _Threads()


def set_thread_needs(needs: ThreadNeeds) -> None:
    """Set what sync code needs of its thread in this process."""
    _threads.needs = needs


def has_thread_of_caller() -> bool:
    """Return whether sync code has a thread of its caller's: that of a request, or one that waits for this task.

    The caller may have begun a transaction, which belongs to the connection of that thread. In the event loop of a
    script or a worker there is no such thread, and asgiref runs all that is thread-sensitive in one that tasks share.
    """
    return _thread_of_caller() is not None


# asgiref does not document by what it finds a thread. Without knowing, a change would either miss the transaction that
# its caller has open, and wait for its locks for ever, or all changes of a process would wait for one that waits.


def _thread_of_tasks() -> object:
    """Return the object by which asgiref finds the thread that all tasks without another one share."""
    return SyncToAsync.single_thread_executor


def _thread_of_caller() -> object | None:
    """Return the object by which asgiref finds the thread of the caller; None if there is none."""
    return (
        getattr(AsyncToSync.executors, "current", None)
        or SyncToAsync.thread_sensitive_context.get(None)
        or AsyncToSync.loop_thread_executors.get(asyncio.get_running_loop())
    )


def as_async_change(change: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return the async version of ``change``, a function that changes a memory and may wait for a lock.

    It runs in the thread of the caller if there is one. Otherwise it runs in a thread of its own, so that no other task
    waits as well; there a cancelled caller gets its ``CancelledError`` when the change has ended.
    """

    @wraps(change)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        if has_thread_of_caller():
            return await _threads.run_in_callers(partial(change, *args, **kwargs))
        return await run_to_the_end(partial(change, *args, **kwargs))

    return run


def as_async_read(read: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return the async version of ``read``, which waits for no lock. It runs where all of Django's ORM does."""

    @wraps(read)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return await sync_to_async(read)(*args, **kwargs)

    return run


def async_change(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Return the async version of a method that changes a memory; it calls the method as its class has it."""
    return _async_version(method, as_async_change)


def async_read(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Return the async version of a method that waits for no lock; it calls the method as its class has it."""
    return _async_version(method, as_async_read)


def _async_version(method: Callable[..., Any], derive: Callable[..., Any]) -> Callable[..., Any]:
    name = method.__name__

    @wraps(method)
    async def run(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return await derive(getattr(self, name))(*args, **kwargs)

    run.__name__, run.__qualname__ = f"a{name}", method.__qualname__.removesuffix(name) + f"a{name}"
    run.__doc__ = f"Async version of ``{name}``."
    run.__isabstractmethod__ = False  # type: ignore[attr-defined] # only the method that it calls is
    return run


async def run_to_the_end(change: Callable[..., T], *args: Any) -> T:
    """Run ``change`` where ``as_async_change`` does. A cancelled caller gets its ``CancelledError`` at the end."""
    work = partial(change, *args)
    there = _threads.run_in_callers(work) if has_thread_of_caller() else _threads.run(work, is_change=True)
    task = asyncio.ensure_future(there)
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


async def in_thread_for_functions(function: Callable[[], T], *, of_caller: bool = True) -> T:
    """Run a function of the project's, which may take long. A cancelled caller does not wait for its end.

    Args:
        function: the function.
        of_caller: run it in the thread of the caller, if there is one; otherwise in a thread of its own.
    """
    if of_caller and has_thread_of_caller():
        return await _threads.run_in_callers(function)
    return await _threads.run(function, is_change=False)


def in_thread_for_seconds(function: Callable[[], T], seconds: float) -> tuple[T] | None:
    """Run a function of the project's in a thread of its own, and return a tuple of its result.

    Return None if it does not end in time: it goes on in its thread, or, if that was not free yet, does not begin. A
    function that has to stay in this thread, because of an open transaction, say, has all the time that it wants.
    """
    return _threads.run_for(function, seconds)


def in_new_thread_for_seconds(function: Callable[[], T], seconds: float) -> tuple[T] | None:
    """Do what ``in_thread_for_seconds`` does, in a new thread that the end of the process does not wait for.

    However many functions hang, others get their threads.
    """
    return _threads.run_in_new_for(function, seconds)


async def iterate_in_thread(steps: Iterator[T]) -> AsyncGenerator[T, None]:
    """Yield the items of ``steps``, each of which is made where ``as_async_change`` makes a change.

    A step may run in another thread than the one before, so none may leave a transaction or a cursor open.
    """

    def take() -> list[T]:
        return list(islice(steps, 1))

    while step := await as_async_change(take)():
        yield step[0]


def as_async_iterator(function: Callable[P, Iterator[T]]) -> Callable[P, AsyncIterator[T]]:
    """Return the async version of a function that returns an iterator: ``iterate_in_thread`` makes its items."""

    @wraps(function)
    async def steps(*args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        async for step in iterate_in_thread(function(*args, **kwargs)):
            yield step

    return steps


_tasks: set[asyncio.Task[None]] = set()
"""The tasks of ``start_task``: an event loop itself would let them be collected as garbage."""


def start_task(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Start a task in the event loop that waits for this thread, and do not wait for it.

    It has the context of this thread, but not the thread as that of its caller, which ends before the task does.
    """
    context = copy_context()
    context.run(setattr, AsyncToSync.executors, "current", None)
    context.run(SyncToAsync.thread_sensitive_context.set, None)  # type: ignore[arg-type]

    async def start() -> None:
        task = asyncio.get_running_loop().create_task(work(), context=context)
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)

    async_to_sync(start)()
