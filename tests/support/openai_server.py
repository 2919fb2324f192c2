"""A server that speaks OpenAI's streaming chat completions, and says what a test tells it to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.support.protocol_server import ONE_CERTIFICATE, ProtocolServer

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


class ModelServer(ProtocolServer):
    """Speaks OpenAI's protocol."""

    path = "/v1"

    def stream(self, chunks: Sequence[Piece | str], *, wait_for: threading.Event | None = None) -> None:
        """Next time, stream ``chunks``, texts as they are; the last one only after ``wait_for``."""
        self.send([_event(chunk) for chunk in chunks] + [b"data: [DONE]\n\n"], wait_for=wait_for, waits=len(chunks) - 1)

    def fail(self, status: int, message: str) -> None:
        """Next time, answer with an error."""
        self.say(status, "application/json", json.dumps({"error": {"message": message}}))

    def break_off(self, chunks: list[Piece]) -> None:
        """Next time, close the connection after ``chunks``."""
        self.send([_event(chunk) for chunk in chunks], ends=False)


def _event(chunk: Piece | str) -> bytes:
    return f"data: {chunk if isinstance(chunk, str) else json.dumps(chunk)}\n\n".encode()


@pytest.fixture
def model_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """The server that the environment names."""
    server = ModelServer()
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("SSL_CERT_FILE", ONE_CERTIFICATE)
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("CHATMEMORY_DEMO_MODEL", "tiny")
    yield server
    server.close()
