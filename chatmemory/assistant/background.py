"""Summaries and titles, which are made after turns or during them, in threads that no turn waits for."""

from __future__ import annotations

import logging
import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from functools import partial

from chatmemory.assistant.lease import Lease
from chatmemory.core.asynchronous import for_new_thread, release
from chatmemory.core.summaries import Summarizer

_logger = logging.getLogger("chatmemory.assistant")

_MOST_THREADS = 4
_MOST_WAITING = 1000


class _Threads:
    """The threads of this process, which begin when there is work, and end when there is none.

    A process that ends does not wait for them: unfinished work changes nothing.
    """

    def __init__(self) -> None:
        self._begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin)  # a child has none of its parent's threads

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._jobs: deque[Callable[[], None]] = deque()
        self._running = 0

    def add(self, job: Callable[[], None]) -> bool:
        """Leave ``job`` to the next free thread, and return whether it will be done."""
        with self._lock:
            if len(self._jobs) >= _MOST_WAITING:
                return False
            self._jobs.append(job)
            if self._running == _MOST_THREADS:
                return True
            self._running += 1
        try:
            threading.Thread(target=self._work, name="chatmemory-summary", daemon=True).start()
        except RuntimeError:  # the interpreter ends, or there are too many threads
            with self._lock:
                self._running -= 1
                if job in self._jobs:
                    self._jobs.remove(job)
                    return False
        return True

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._jobs:
                    self._running -= 1
                    return
                job = self._jobs.popleft()
            job()


_threads = _Threads()


class BackgroundTask(ABC):
    """A kind of work that is done after a turn, or during it."""

    @abstractmethod
    def key_of(self, lease: Lease, *, is_under_way: bool) -> Hashable | None:
        """Return the key of the work if a turn may have left some, or has some while it goes on; no database is asked.

        Work with a key that waits already is not added.
        """

    @abstractmethod
    def do(self, lease: Lease) -> None:
        """Do the work. This thread releases all its connections."""

    @abstractmethod
    def note_failure(self, lease: Lease) -> None:
        """Log the exception that is handled now."""


class Summaries(BackgroundTask):
    """The summaries that are made after the turns of one assistant, and between the tool calls of long ones."""

    def __init__(self, summarizer: Summarizer | None) -> None:
        """
        Args:
            summarizer: writes them; None is that of the setting ``SUMMARIZER``, if there is one.
        """
        self._summarizer = summarizer

    def key_of(self, lease: Lease, *, is_under_way: bool) -> Hashable | None:
        return lease.summary_key(self._summarizer, is_under_way=is_under_way)

    def do(self, lease: Lease) -> None:
        lease.summarize(self._summarizer)

    def note_failure(self, lease: Lease) -> None:
        _logger.exception("No summary of conversation %s could be made; its memory stays as it is", lease.name)


class BackgroundTasks:
    """The work that one assistant has left after its turns."""

    def __init__(self, kinds: Sequence[BackgroundTask]) -> None:
        self._kinds = kinds
        self._changed = threading.Condition()
        self._waiting: set[tuple[BackgroundTask, Hashable]] = set()
        """The kinds and keys of what has not begun."""
        self._left = 0

    def add(self, lease: Lease, *, is_under_way: bool = False) -> None:
        """Start the work that a turn has left, if any, without waiting for it.

        If very much is waiting already, the work is left to a later turn.

        Args:
            lease: the turn.
            is_under_way: whether it goes on.
        """
        for kind in self._kinds:
            key = kind.key_of(lease, is_under_way=is_under_way)
            if key is not None:
                self._add(kind, key, lease)

    def wait(self, timeout: float | None) -> bool:
        """Wait until all work is done or has failed, and return whether that is so."""
        release()
        with self._changed:
            return self._changed.wait_for(lambda: not self._left, timeout)

    def _add(self, kind: BackgroundTask, key: Hashable, lease: Lease) -> None:
        with self._changed:
            if (kind, key) in self._waiting:
                return
            self._waiting.add((kind, key))
            self._left += 1
        # A database router, for example, may read from the context whose conversation it is.
        work = for_new_thread(partial(kind.do, lease), lease.context)
        if not _threads.add(partial(self._do, kind, key, lease, work)):
            with self._changed:
                self._waiting.discard((kind, key))
            self._end()

    def _do(self, kind: BackgroundTask, key: Hashable, lease: Lease, work: Callable[[], None]) -> None:
        with self._changed:
            self._waiting.discard((kind, key))  # from here on, what a further turn adds may need more
        try:
            work()
        except BaseException:  # tiktoken and other packages have exceptions that are no Exception
            kind.note_failure(lease)
        finally:
            self._end()

    def _end(self) -> None:
        with self._changed:
            self._left -= 1
            self._changed.notify_all()
