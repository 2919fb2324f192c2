"""A proxy before a site that breaks connections as phones, tunnels and restarts do."""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

__all__ = ["WHOLE", "Cut", "CuttingProxy", "cutting_proxy"]

_HOP = re.compile(rb"\r\nconnection:[^\r]*", re.I)
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.I)
_CLOSE_AT_ONCE = struct.pack("ii", 1, 0)  # what SO_LINGER takes


@dataclass(frozen=True, kw_only=True)
class Cut:
    """What happens to one request."""

    after: int | None
    """The bytes of the response that pass; None if the site does not even get the request."""

    by: Literal["reset", "end", "silence"] = "reset"
    """The connection is reset, or ended as if the response were whole, or nothing more comes while it stays open."""


WHOLE = Cut(after=1 << 60)


class CuttingProxy:
    """Passes requests on, each on a connection of its own."""

    def __init__(self, site: str) -> None:
        """
        Args:
            site: its address.
        """
        parts = urlsplit(site)
        self._site = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self.address = f"http://{parts.hostname}:{self._listener.getsockname()[1]}"
        self.cut: Callable[[str, str], Cut] = lambda method, path: WHOLE
        """Decides what happens to the request of a method and a path. It is called in the request's thread."""

    def cut_all(self) -> None:
        """Reset all connections that are open."""
        with self._lock:
            for each in self._open:
                _reset(each)

    def run(self) -> None:
        with suppress(OSError):  # the listener is closed
            while True:
                client, _ = self._listener.accept()
                thread = threading.Thread(target=self._serve, args=(client,), name="cutting-proxy")
                self._threads.append(thread)
                thread.start()

    def close(self) -> None:
        # Only this wakes the thread that accepts.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut_all()
        for thread in self._threads:
            thread.join(60)

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            with self._lock:
                self._open.add(client)
            try:
                self._answer(client)
            finally:
                with self._lock:
                    self._open.discard(client)

    def _answer(self, client: socket.socket) -> None:
        head, body = _request(client)
        if not head:
            return  # browsers open connections that they may need
        method, path, _ = head.split(b"\r\n")[0].decode().split(" ")
        cut = self.cut(method, path)
        if cut.after is None:
            _reset(client)
            return
        with socket.create_connection(self._site) as site:
            site.sendall(_HOP.sub(b"", head) + b"\r\nConnection: close\r\n\r\n" + body)
            passed = 0
            while passed < cut.after:
                data = site.recv(min(65_536, cut.after - passed))
                if not data:
                    return
                client.sendall(data)
                passed += len(data)
            if cut.by == "reset":
                _reset(client)
            elif cut.by == "silence":
                client.recv(1)  # until the browser closes it


def _request(client: socket.socket) -> tuple[bytes, bytes]:
    """Read a request: its head without the empty line, and its body."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = client.recv(65_536)
        if not more:
            return b"", b""
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    found = _LENGTH.search(head)
    while found and len(body) < int(found[1]):
        body += client.recv(65_536)
    return head, body


def _reset(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _CLOSE_AT_ONCE)
        connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def cutting_proxy(site: str) -> Iterator[CuttingProxy]:
    """A proxy before a site, while the context lasts."""
    proxy = CuttingProxy(site)
    thread = threading.Thread(target=proxy.run, name="cutting-proxy")
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join(60)
