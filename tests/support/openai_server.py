"""A server that speaks OpenAI's streaming chat completions, and says what a test tells it to."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

__all__ = ["ModelServer", "calls", "completion", "model_server", "says", "thinks"]

Piece = dict[str, Any]


def says(*pieces: str, finish: str | None = "stop") -> list[Piece]:
    """The chunks of an answer in words; without ``finish`` it never ends."""
    return [*(_chunk({"content": piece}) for piece in pieces), *([_chunk({}, finish)] if finish else [])]


def thinks(names: list[str], *pieces: str) -> list[Piece]:
    """The chunks of its thinking, each under all the ``names`` that servers have for that."""
    return [_chunk(dict.fromkeys(names, piece)) for piece in pieces]


def calls(*requests: tuple[str, str, str]) -> list[Piece]:
    """The chunks of an answer that calls tools: each an ID, a name and arguments, which come in two pieces."""
    chunks = []
    for index, (id, name, arguments) in enumerate(requests):
        half = len(arguments) // 2
        function = {"name": name, "arguments": ""}
        chunks.append(_chunk({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]}))
        pieces = [{"index": index, "function": {"arguments": piece}} for piece in (arguments[:half], arguments[half:])]
        chunks += [_chunk({"tool_calls": [piece]}) for piece in pieces]
    return [*chunks, _chunk({}, "tool_calls")]


def completion(finish_reason: str = "stop", **message: Any) -> str:
    """The body of an answer that is no stream."""
    choice = {"index": 0, "finish_reason": finish_reason, "message": {"role": "assistant", **message}}
    return json.dumps({"id": "1", "object": "chat.completion", "created": 1, "model": "tiny", "choices": [choice]})


def _chunk(delta: Piece, finish: str | None = None) -> Piece:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "tiny", "choices": [choice]}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client that has read enough of an answer hangs up.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class ModelServer:
    """Answers each request with the next of what was told, and keeps the bodies that came."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self._answers: list[Callable[[BaseHTTPRequestHandler], object]] = []
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stream(self, chunks: Sequence[Piece | str], *, wait_for: threading.Event | None = None) -> None:
        """Next time, stream ``chunks``, texts as they are; the last one only after ``wait_for``."""

        def send(handler: BaseHTTPRequestHandler) -> None:
            _start(handler)
            for index, chunk in enumerate(chunks):
                if wait_for is not None and index == len(chunks) - 1:
                    wait_for.wait(30)
                _send(handler, f"data: {chunk if isinstance(chunk, str) else json.dumps(chunk)}\n\n")
            _send(handler, "data: [DONE]\n\n")
            _send(handler, "")

        self._answers.append(send)

    def fail(self, status: int, message: str) -> None:
        """Next time, answer with an error."""
        self.say(status, "application/json", json.dumps({"error": {"message": message}}))

    def say(self, status: int, content_type: str, text: str) -> None:
        """Next time, answer with a text that is no stream."""

        def send(handler: BaseHTTPRequestHandler) -> None:
            body = text.encode()
            handler.send_response(status)
            handler.send_header("Content-Type", content_type)
            handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body)

        self._answers.append(send)

    def hang(self, until: threading.Event) -> None:
        """Next time, say nothing ``until`` then."""
        self._answers.append(lambda handler: until.wait(30))

    def break_off(self, chunks: list[Piece]) -> None:
        """Next time, close the connection after ``chunks``."""

        def send(handler: BaseHTTPRequestHandler) -> None:
            _start(handler)
            for chunk in chunks:
                _send(handler, f"data: {json.dumps(chunk)}\n\n")
            handler.close_connection = True

        self._answers.append(send)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.requests.append({**body, "path": self.path, "key": self.headers["Authorization"]})
                server._answers.pop(0)(self)

            def log_message(self, *args: Any) -> None:
                pass

        return Handler


def _start(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream")
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()


def _send(handler: BaseHTTPRequestHandler, text: str) -> None:
    data = text.encode()
    handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
    handler.wfile.flush()


@pytest.fixture
def model_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """The server that the environment names."""
    server = ModelServer()
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("CHATMEMORY_DEMO_MODEL", "tiny")
    yield server
    server.close()
