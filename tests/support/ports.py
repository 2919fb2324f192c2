"""A port for a server that has to be told one."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["reserved_port"]


@contextmanager
def reserved_port() -> Iterator[int]:
    """A free port on 127.0.0.1, which one server may listen on, and nobody else is given, as long as the context lasts.

    Without the socket that keeps it, another process could have it before the server is up. Linux lets a server bind
    what is kept so, if it sets ``SO_REUSEADDR``, as Django's does.
    """
    with socket.socket() as keeper:
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind(("127.0.0.1", 0))
        yield keeper.getsockname()[1]
