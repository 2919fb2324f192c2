"""Summaries that are made after turns, in threads that no turn waits for."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Hashable
from contextvars import copy_context
from functools import partial

from chatmemory.assistant.turns.base import Turn
from chatmemory.core.summaries import Summarizer

__all__ = ["Summaries"]

_logger = logging.getLogger("chatmemory.assistant")

_MOST_THREADS = 4
_MOST_WAITING = 1000


class _Threads:
    """The threads of this process, which begin when there is work, and end when there is none.

    A process that ends does not wait for them: a summary that is half done changes nothing.
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
        """Do ``job`` as soon as a thread is free, and return whether that will be."""
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


class Summaries:
    """The summaries that one assistant has asked for."""

    def __init__(self, summarizer: Summarizer) -> None:
        self._summarizer = summarizer
        self._changed = threading.Condition()
        self._waiting: set[Hashable] = set()
        """The keys of the conversations whose summary has not begun."""
        self._left = 0

    def add(self, turn: Turn) -> None:
        """Have a summary made after a turn, if one is due, and do not wait for it.

        If very many are waiting already, it is left to a later turn.
        """
        key = turn.summary_key()
        if key is None:
            return
        with self._changed:
            if key in self._waiting:
                return
            self._waiting.add(key)
            self._left += 1
        # A database router, for example, may read from the context whose conversation it is.
        if not _threads.add(partial(copy_context().run, self._make, turn, key)):
            with self._changed:
                self._waiting.discard(key)
            self._end()

    def wait(self, timeout: float | None) -> bool:
        """Wait until all summaries are made or have failed, and return whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._left, timeout)

    def _make(self, turn: Turn, key: Hashable) -> None:
        with self._changed:
            self._waiting.discard(key)  # from here on, what a further turn adds may need another
        try:
            turn.summarize(self._summarizer)
        except BaseException:  # tiktoken and other packages have exceptions that are no Exception
            _logger.exception("No summary of conversation %s could be made; its memory stays as it is", turn.name)
        finally:
            self._end()

    def _end(self) -> None:
        with self._changed:
            self._left -= 1
            self._changed.notify_all()
