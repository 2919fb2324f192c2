"""A client that reads the stream of a turn as it comes, and can go away in the middle."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tests.support.server import HttpClient

__all__ = ["COMMENT", "DONE", "TurnStream", "open_stream"]

COMMENT = {"type": "comment"}
"""What ``TurnStream`` makes of a comment."""

DONE = {"type": "done"}
"""What it makes of the end."""

_PATIENCE = 60  # seconds


class TurnStream:
    """The response to a request for a stream."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self._response = response

    def next(self) -> dict[str, Any]:
        """Return the next part, as soon as it comes.

        Raises:
            EOFError: the connection ended without ``[DONE]``.
        """
        line = self._response.readline()
        if not line:
            raise EOFError
        assert self._response.readline() == b"\n"
        if line.startswith(b":"):
            return COMMENT
        data = line.removeprefix(b"data: ").strip()
        return DONE if data == b"[DONE]" else json.loads(data)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while (part := self.next()) != DONE:
            if part != COMMENT:
                yield part
        assert self._response.read() == b""

    def until(self, is_it: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Read on to a part, and return it."""
        while not is_it(part := self.next()):
            assert part != DONE
        return part

    def piece(self) -> str:
        """Return the next piece of text."""
        return str(self.until(lambda part: part["type"] == "text-delta")["delta"])


@contextmanager
def open_stream(
    http_client: HttpClient, path: str, message: Any = None, method: str = "POST", **headers: str
) -> Iterator[TurnStream]:
    """Send a request, and give the stream when its headers are there. The connection ends with the context.

    Args:
        http_client: who asks.
        path: of the turns.
        message: what is said, or a whole body such as ``useChat`` sends.
        method: of the request.
        headers: more headers.
    """
    connection = http.client.HTTPConnection("127.0.0.1", http_client.port, timeout=_PATIENCE)
    more = {name.replace("_", "-"): value for name, value in headers.items()}
    body = json.dumps(message if isinstance(message, dict) else {"message": message}) if method == "POST" else None
    try:
        connection.request(method, path, body, http_client.headers({"Accept": "text/event-stream", **more}))
        sock: Any = connection.sock
        response = connection.getresponse()
        try:
            yield TurnStream(response)
        finally:
            with suppress(OSError):  # the server was faster
                sock.shutdown(socket.SHUT_RDWR)  # else what reads from it would keep it open
            response.close()
    finally:
        connection.close()
