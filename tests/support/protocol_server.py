"""A local server that answers as tests tell it to; its subclasses speak the protocols of models."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

__all__ = ["ONE_CERTIFICATE", "ProtocolServer", "in_pieces"]

ONE_CERTIFICATE = str(Path(__file__).with_name("one_certificate.pem"))
"""For ``SSL_CERT_FILE``: clients load every authority there is otherwise, and speak without TLS here anyway."""

_POLL_SECONDS = 0.005  # the end of each test waits so long


def in_pieces(chunks: Sequence[bytes], size: int) -> list[bytes]:
    """The same bytes in pieces of ``size``, which begin and end anywhere: in an event, in a character."""
    whole = b"".join(chunks)
    return [whole[start : start + size] for start in range(0, len(whole), size)]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client that has read enough of an answer hangs up.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class ProtocolServer:
    """Answers each request with the next of what was told, and keeps the bodies that came."""

    path = ""
    """The path of the base URL."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.left = threading.Event()
        """Set when a client has hung up in the middle of a stream."""
        self._answers: list[Callable[[BaseHTTPRequestHandler], object]] = []
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}{self.path}"
        threading.Thread(target=self._server.serve_forever, args=(_POLL_SECONDS,), daemon=True).start()

    def send(
        self,
        chunks: Sequence[bytes],
        *,
        ends: bool = True,
        wait_for: threading.Event | None = None,
        waits: int = 0,
        forever: bool = False,
    ) -> None:
        """Next time, send events.

        Args:
            ends: whether the stream ends as it should, rather than that the connection is closed.
            wait_for: what the server waits for before it sends the chunk with the index ``waits``.
            forever: whether the last chunk is repeated until the client hangs up.
        """

        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.send_header("Content-Type", "text/event-stream")
            handler.send_header("Transfer-Encoding", "chunked")
            handler.end_headers()
            for index, chunk in enumerate(chunks):
                if wait_for is not None and index == waits:
                    wait_for.wait(60)
                _send(handler, chunk)
            while forever:
                try:
                    _send(handler, chunks[-1])
                except ConnectionError:
                    self.left.set()
                    raise
            if ends:
                _send(handler, b"")
            else:
                handler.close_connection = True

        self._answers.append(answer)

    def say(self, status: int, content_type: str, text: str) -> None:
        """Next time, answer with a text that is no stream."""

        def answer(handler: BaseHTTPRequestHandler) -> None:
            body = text.encode()
            handler.send_response(status)
            handler.send_header("Content-Type", content_type)
            handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body)

        self._answers.append(answer)

    def hang(self, until: threading.Event) -> None:
        """Next time, say nothing ``until`` then."""
        self._answers.append(lambda handler: until.wait(60))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = server._answers.pop(0)
                server.requests.append({**body, "path": self.path, "key": server.key(self.headers)})
                answer(self)

            def do_GET(self) -> None:
                """Answer who asks for the models that there are, as the demo does at its start."""
                if server._answers:
                    server._answers.pop(0)(self)
                else:
                    self.send_error(501)

            def log_message(self, *args: Any) -> None:
                pass

        return Handler

    def key(self, headers: Any) -> str | None:
        """The key that a request came with."""
        key: str | None = headers["Authorization"] or headers["x-api-key"] or headers["x-goog-api-key"]
        return key


def _send(handler: BaseHTTPRequestHandler, data: bytes) -> None:
    handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
    handler.wfile.flush()
