"""A server that speaks Gemini's ``generateContent``, streamed and whole, and says what a test tells it to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.support.protocol_server import ONE_CERTIFICATE, ProtocolServer, in_pieces

__all__ = ["USED", "GeminiServer", "chunks", "gemini_server", "response"]

Part = dict[str, Any]
Chunk = dict[str, Any]

USED = {
    "promptTokenCount": 300,
    "candidatesTokenCount": 7,
    "thoughtsTokenCount": 5,
    "cachedContentTokenCount": 256,
    "totalTokenCount": 312,
}


def response(*parts: Part, finish: str | None = "STOP", usage: Any = USED) -> Chunk:
    """A response, whole or one of a stream; without ``parts`` it has no content."""
    candidate: dict[str, Any] = {"index": 0}
    if parts:
        candidate["content"] = {"role": "model", "parts": list(parts)}
    if finish:
        candidate["finishReason"] = finish
    used = {} if usage is None else {"usageMetadata": usage}
    return {"candidates": [candidate], "modelVersion": "gemini-tiny", "responseId": "r1", **used}


def chunks(*parts: Part, finish: str | None = "STOP") -> list[Chunk]:
    """The responses of a stream, a part in each; without ``finish`` it never ends."""
    each = [response(part, finish=None, usage={"promptTokenCount": 300}) for part in parts]
    return [*each, *([response({"text": ""}, finish=finish)] if finish else [])]


class GeminiServer(ProtocolServer):
    """Speaks Gemini's protocol."""

    def stream(
        self,
        chunks: Sequence[Chunk | bytes],
        *,
        bytes_each: int | None = None,
        wait_for: threading.Event | None = None,
        ends: bool = True,
        forever: bool = False,
    ) -> None:
        """Next time, stream ``chunks``, bytes as they are, in pieces of ``bytes_each``; the last after ``wait_for``."""
        events = [chunk if isinstance(chunk, bytes) else _event(chunk) for chunk in chunks]
        if bytes_each is not None:
            events = in_pieces(events, bytes_each)
        self.send(events, wait_for=wait_for, waits=len(events) - 1, ends=ends, forever=forever)

    def answer(self, body: Any) -> None:
        """Next time, answer with JSON that is no stream."""
        self.say(200, "application/json", json.dumps(body))

    def fail(self, status: int, said: str, kind: str = "INTERNAL") -> None:
        """Next time, answer with an error."""
        error = {"error": {"code": status, "message": said, "status": kind}}
        self.say(status, "application/json", json.dumps(error))


def _event(chunk: Chunk) -> bytes:
    return f"data: {json.dumps(chunk, ensure_ascii=False)}\r\n\r\n".encode("utf-8", "backslashreplace")


@pytest.fixture
def gemini_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[GeminiServer]:
    """The server that the environment names."""
    server = GeminiServer()
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
    monkeypatch.setenv("SSL_CERT_FILE", ONE_CERTIFICATE)
    monkeypatch.setenv("GEMINI_API_KEY", "secret")
    monkeypatch.setenv("CHATMEMORY_DEMO_MODEL", "gemini:gemini-tiny")
    yield server
    server.close()
