"""A server that speaks OpenAI's streaming chat completions, in a process of its own.

It answers a user message that ends with a number with as many pieces, each sent by itself, as fast as it can.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["running_model"]

_PIECE = "word "


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = body["messages"][-1]["content"]
        text = said if isinstance(said, str) else said[-1]["text"]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunk in _chunks(int(text.rsplit(" ", 1)[1])):
            self.wfile.write(chunk)

    def log_message(self, *args: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do nothing: a client that has read all it wants hangs up."""


@cache
def _chunks(pieces: int) -> list[bytes]:
    from tests.support.openai_server import says

    events = [json.dumps(chunk) for chunk in says(*[_PIECE] * pieces)] + ["[DONE]"]
    lines = [f"data: {event}\n\n".encode() for event in events]
    return [*(b"%x\r\n%s\r\n" % (len(line), line) for line in lines), b"0\r\n\r\n"]


@contextmanager
def running_model() -> Iterator[str]:
    """Run the server while the context lasts; give its base URL."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.streams.model", str(listener.fileno())], pass_fds=[listener.fileno()]
        )
        port = listener.getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait()


def _serve(listener: int) -> None:
    server = _Server(("127.0.0.1", 0), _Handler, bind_and_activate=False)
    server.socket = socket.socket(fileno=listener)
    server.serve_forever()


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
