"""A server that speaks Anthropic's Messages, streamed and whole, and says what a test tells it to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.support.protocol_server import ONE_CERTIFICATE, ProtocolServer, in_pieces

__all__ = ["USED", "AnthropicServer", "anthropic_server", "call", "events", "message", "text", "thinking"]

Block = dict[str, Any]
Event = dict[str, Any]

USED = {"input_tokens": 10, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 300, "output_tokens": 7}


def text(said: str) -> Block:
    return {"type": "text", "text": said}


def thinking(said: str, signature: str = "c2ln") -> Block:
    return {"type": "thinking", "thinking": said, "signature": signature}


def call(id: str, name: str, input: dict[str, Any]) -> Block:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def message(*blocks: Block, stop: str | None = "end_turn", **fields: Any) -> str:
    """The body of an answer that is no stream."""
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-tiny", "stop_sequence": None}
    return json.dumps({**head, "content": blocks, "stop_reason": stop, "usage": USED, **fields})


def events(*blocks: Block, stop: str | None = "end_turn", usage: Any = None) -> list[Event]:
    """The events of an answer, whose texts come in pieces of three characters; without ``stop`` it never ends.

    Args:
        usage: what the last event says was used; by default ``USED``.
    """
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-tiny", "content": []}
    start = {**head, "stop_reason": None, "stop_sequence": None, "usage": {**USED, "output_tokens": 1}}
    made: list[Event] = [{"type": "message_start", "message": start}, {"type": "ping"}]
    for index, block in enumerate(blocks):
        made.append({"type": "content_block_start", "index": index, "content_block": _begun(block)})
        made += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in _deltas(block)]
        made.append({"type": "content_block_stop", "index": index})
    if stop:
        used = {"output_tokens": 7} if usage is None else usage
        made.append({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": used})
        made.append({"type": "message_stop"})
    return made


def _begun(block: Block) -> Block:
    return {**block, **{key: empty for key, empty in _EMPTY.items() if key in block}}


_EMPTY: dict[str, Any] = {"text": "", "thinking": "", "signature": "", "input": {}}


def _deltas(block: Block) -> Iterator[dict[str, Any]]:
    match block["type"]:
        case "text":
            yield from ({"type": "text_delta", "text": piece} for piece in _thirds(block["text"]))
        case "thinking":
            yield from ({"type": "thinking_delta", "thinking": piece} for piece in _thirds(block["thinking"]))
            yield {"type": "signature_delta", "signature": block["signature"]}
        case "tool_use" | "server_tool_use":
            yield {"type": "input_json_delta", "partial_json": ""}
            given = block["input"]
            whole = given if isinstance(given, str) else json.dumps(given) if given else ""
            yield from ({"type": "input_json_delta", "partial_json": piece} for piece in _thirds(whole))


def _thirds(whole: str) -> list[str]:
    return [whole[start : start + 3] for start in range(0, len(whole), 3)]


class AnthropicServer(ProtocolServer):
    """Speaks Anthropic's protocol."""

    def stream(
        self,
        events: Sequence[Event | bytes],
        *,
        bytes_each: int | None = None,
        wait_for: threading.Event | None = None,
        ends: bool = True,
        forever: bool = False,
    ) -> None:
        """Next time, stream ``events``, bytes as they are, in pieces of ``bytes_each``; the last after ``wait_for``."""
        chunks = [_bytes(event) for event in events]
        if bytes_each is not None:
            chunks = in_pieces(chunks, bytes_each)
        self.send(chunks, wait_for=wait_for, waits=len(chunks) - 1, ends=ends, forever=forever)

    def fail(self, status: int, said: str, kind: str = "api_error") -> None:
        """Next time, answer with an error."""
        error = {"type": "error", "error": {"type": kind, "message": said}}
        self.say(status, "application/json", json.dumps(error))


def _bytes(event: Event | bytes) -> bytes:
    if isinstance(event, bytes):
        return event
    return f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode(
        "utf-8", "backslashreplace"
    )


@pytest.fixture
def anthropic_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[AnthropicServer]:
    """The server that the environment names."""
    server = AnthropicServer()
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("SSL_CERT_FILE", ONE_CERTIFICATE)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    monkeypatch.setenv("CHATMEMORY_DEMO_MODEL", "anthropic:claude-tiny")
    yield server
    server.close()
