"""Run sync code from async code, in the thread that it needs, with the context that it needs there."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar, copy_context
from functools import partial, wraps
from itertools import islice
from threading import Thread
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from asgiref.sync import AsyncToSync, SyncToAsync, async_to_sync, sync_to_async

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

# The limit of threads, each of which may open a connection. A change is short; a function of the project may be slow.
_FOR_CHANGES = 16
_FOR_FUNCTIONS = 32

# The nesting of threads of this module: 1 within a tool that runs in a thread, 2 within a tool of an assistant that
# this tool asks. Each depth has its own threads, because a shared pool would deadlock when all its threads wait for
# another one.
_depth: ContextVar[int] = ContextVar("chatmemory_depth", default=0)


ThreadContext: TypeAlias = "Callable[[], AbstractContextManager[Any]]"
"""A function that returns a context manager for another thread: a new one each time, because threads work at once."""

# The context of the thread that started this task. An event loop has a thread of its own, which knows nothing of it.
_of_task: ContextVar[ThreadContext | None] = ContextVar("chatmemory_thread_context", default=None)


class ThreadNeeds:
    """What sync code needs of its thread. In memory, code needs nothing; database connections belong to threads."""

    def for_other_thread(self, work: Callable[[], T]) -> Callable[[], T]:
        """Return ``work`` as it must run in another thread. Called in the thread of the event loop."""
        return work

    def run_in_callers(self, thread: object, work: Callable[[], T]) -> T:
        """Run ``work`` here, in ``thread``, and return its result."""
        return work()

    def may_stay(self, thread: object, *, is_change: bool) -> bool:
        """Return whether the code may have to run in ``thread``. Called in the thread of the event loop.

        Args:
            thread: the object that identifies the caller's thread, or the thread that all tasks of the process share.
            is_change: whether the code changes a memory; otherwise it is a function of the project.
        """
        return False

    def run_if_it_stays(self, thread: object, work: Callable[[], T], *, is_change: bool) -> tuple[T] | None:
        """Run ``work`` here, in ``thread``, and return its result in a tuple, or return None if ``work`` need not run
        here.
        """
        return None

    def must_stay(self) -> bool:
        """Return whether a function of the project must run in the current thread."""
        return False

    def run(self, work: Callable[[], T]) -> T:
        """Run ``work`` in a new thread, and return its result."""
        return work()

    def thread_context(self) -> Callable[[], ThreadContext] | None:
        """Return a function that returns the context of the thread that calls it; None if there are no contexts."""
        return None

    def release(self) -> None:
        """Release what the current thread does not need while it waits."""


class _Threads:
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
        work = _within(await _athread_context(), self.needs.for_other_thread(work))
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
        work = self._deeper(_within(thread_context(), work))
        future = self._pool(_depth.get(), is_change=False).submit(copy_context().run, work)
        self.needs.release()
        if wait([future], seconds).done or not (future.cancel() or future.running()):
            return (future.result(),)
        return None

    def run_in_new_for(self, work: Callable[[], T], seconds: float) -> tuple[T] | None:
        if self.needs.must_stay():
            return (work(),)
        future: Future[T] = Future()
        work = for_new_thread(work)

        def run() -> None:
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)

        Thread(target=run, name="chatmemory-summarizer", daemon=True).start()
        self.needs.release()
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


def thread_context() -> ThreadContext:
    """Return the context of this thread, for another one in which its work goes on. Not for the thread of a loop."""
    of_project = _threads.needs.thread_context()
    return nullcontext if of_project is None else of_project()


async def _athread_context() -> ThreadContext:
    """Return the context of the caller's thread; else that of this task; else that of the thread that tasks share."""
    of_project = _threads.needs.thread_context()
    if of_project is None:
        return nullcontext
    of_task = None if has_thread_of_caller() else _of_task.get()
    return of_task or await sync_to_async(of_project)()


def _within(context: ThreadContext, work: Callable[[], T]) -> Callable[[], T]:
    if context is nullcontext:
        return work

    def run() -> T:
        with context():
            return work()

    return run


def in_context(work: Callable[[], T], context: ThreadContext | None = None) -> Callable[[], T]:
    """Return ``work`` as it runs later or in another thread: with the context variables and the context of this one.

    Args:
        work: the work.
        context: that of another thread, in place of this one's.
    """
    return partial(copy_context().run, _within(context or thread_context(), work))


def for_new_thread(work: Callable[[], T], context: ThreadContext | None = None) -> Callable[[], T]:
    """Return ``work`` as it runs in a thread that is started for it: see ``in_context`` and ``ThreadNeeds.run``."""
    return partial(_threads.needs.run, in_context(work, context))


def iterate_in_context(steps: Iterator[T]) -> Iterator[T]:
    """Return an iterator of the items of ``steps``, each of which runs ``in_context`` of the current thread."""
    end: Any = object()
    return iter(in_context(partial(next, steps, end)), end)


def release() -> None:
    """Release the database connections of the current thread, if it has any, before it waits.

    Otherwise, it may wait for a thread that waits for a connection. Call this after the last query before each wait.
    """
    _threads.needs.release()


def has_thread_of_caller() -> bool:
    """Return whether there is a thread of the caller: the thread of a request, or one that waits for this task.

    The caller may have opened a transaction, which belongs to the connection of that thread. In the event loop of a
    script or a worker, there is no such thread: asgiref runs all thread-sensitive code in one thread that tasks share.
    """
    return _thread_of_caller() is not None


# asgiref does not document how it finds a thread. If we did not know the thread, either a change would miss the
# transaction that its caller has open, and wait for its locks forever, or all changes of a process would wait for each
# other.


def _thread_of_tasks() -> object:
    """Return the object by which asgiref finds the thread that tasks share."""
    return SyncToAsync.single_thread_executor


def _thread_of_caller() -> object | None:
    """Return the object by which asgiref finds the thread of the caller, or None."""
    return (
        getattr(AsyncToSync.executors, "current", None)
        or SyncToAsync.thread_sensitive_context.get(None)
        or AsyncToSync.loop_thread_executors.get(asyncio.get_running_loop())
    )


def as_async_change(change: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return the async version of ``change``, a function that changes a memory and may wait for a lock.

    The change runs in the thread of the caller if there is one, otherwise in a separate thread, so tasks don't block
    each other. In a separate thread, a cancelled caller gets its ``CancelledError`` when the change has ended.
    """

    @wraps(change)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        if has_thread_of_caller():
            return await _threads.run_in_callers(partial(change, *args, **kwargs))
        return await run_to_the_end(partial(change, *args, **kwargs))

    return run


def as_async_read(read: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return the async version of ``read``, which never waits for a lock. It runs where Django's ORM runs."""

    @wraps(read)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return await sync_to_async(read)(*args, **kwargs)

    return run


def async_change(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Return the async version of a method that changes a memory. It calls the method of the subclass."""
    return _async_version(method, as_async_change)


def async_read(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Return the async version of a method that never waits for a lock. It calls the method of the subclass."""
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
    """Run a function of the project, which may be slow. A cancelled caller does not wait for it.

    Args:
        function: the function.
        of_caller: whether to use the thread of the caller, if there is one; otherwise a separate thread.
    """
    if of_caller and has_thread_of_caller():
        return await _threads.run_in_callers(function)
    return await _threads.run(function, is_change=False)


def in_thread_for_seconds(function: Callable[[], T], seconds: float) -> tuple[T] | None:
    """Run a function of the project in a separate thread, and return its result in a tuple.

    Return None if the function does not end in time. It then continues in its thread, or does not start if no thread is
    free. A function that must stay in the current thread, for example because of an open transaction, has no time
    limit.
    """
    return _threads.run_for(function, seconds)


def in_new_thread_for_seconds(function: Callable[[], T], seconds: float) -> tuple[T] | None:
    """Do what ``in_thread_for_seconds`` does, in a new thread that the end of the process does not wait for.

    However many functions hang, others get their threads.
    """
    return _threads.run_in_new_for(function, seconds)


async def for_seconds(call: Callable[[], Awaitable[T]], seconds: float | None) -> tuple[T] | None:
    """Await what ``call`` returns, and return a tuple of its result; None if it was cancelled after so many seconds.

    With None for the seconds it may take any time.
    """
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return (await call(),)
    except TimeoutError:
        if limit.expired():
            return None
        raise


async def iterate_in_thread(steps: Iterator[T]) -> AsyncGenerator[T, None]:
    """Yield the items of ``steps``. Each step runs where ``as_async_change`` runs a change.

    Steps may run in different threads, so no step may leave a transaction or a cursor open.
    """

    def take() -> list[T]:
        return list(islice(steps, 1))

    while step := await as_async_change(take)():
        yield step[0]


def as_async_iterator(function: Callable[P, Iterator[T]]) -> Callable[P, AsyncIterator[T]]:
    """Return the async version of a function that returns an iterator, with ``iterate_in_thread``."""

    @wraps(function)
    async def steps(*args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        async for step in iterate_in_thread(function(*args, **kwargs)):
            yield step

    return steps


_tasks: set[asyncio.Task[None]] = set()
"""The running tasks of ``start_task``. Without a reference, they could be garbage-collected."""


def start_task(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Start a task in the event loop that waits for this thread. Do not wait for the task.

    The task has the context of this thread, but not this thread as its caller's, which ends before the task does.
    """
    context = copy_context()
    context.run(setattr, AsyncToSync.executors, "current", None)
    context.run(SyncToAsync.thread_sensitive_context.set, None)  # type: ignore[arg-type]
    context.run(SyncToAsync.deadlock_context.set, False)  # nobody waits for the task, not even who has that thread now
    context.run(_of_task.set, thread_context())

    async def start() -> None:
        task = asyncio.get_running_loop().create_task(work(), context=context)
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)

    async_to_sync(start)()
