"""Clients for async code, one for each event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["LoopClients"]

T = TypeVar("T")


class LoopClients(Generic[T]):
    """The clients of event loops: one for each, because connections belong to a loop, or a given one for all."""

    def __init__(self, make: Callable[[], T], given: T | None = None) -> None:
        """
        Args:
            make: returns a new client.
            given: the client to use in place of new ones.
        """
        self._make = make
        self._given = given
        self._clients: dict[asyncio.AbstractEventLoop, T] = {}

    def current(self) -> T:
        """Return the client of the running event loop."""
        if self._given is not None:
            return self._given
        loop = asyncio.get_running_loop()
        if (client := self._clients.get(loop)) is None:
            client = self._make()
            # Without loops that have ended: under WSGI each async view has one of its own.
            open_ones = {one: its for one, its in list(self._clients.items()) if not one.is_closed()}
            self._clients = {**open_ones, loop: client}
        return client
