"""How tests take turns over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from django.db import connections
from django.test import Client

from chatmemory import AiMessage
from chatmemory.models import Conversation
from tests.support.api import post, url
from tests.support.assistants import Speaker, choose

__all__ = [
    "STREAM",
    "Gate",
    "ask",
    "chat",
    "chunks_of",
    "message_of",
    "said",
    "stream",
    "texts_of",
    "turn_under_way",
    "ui_message",
]

STREAM = "text/event-stream"


def ask(client: Client, conversation: Conversation, message: Any, query: str = "", **headers: str) -> Any:
    """Take a turn, and return its JSON response."""
    return post(client, url(conversation, f"turns/{query}"), {"message": message}, accept="application/json", **headers)


def stream(client: Client, conversation: Conversation, message: Any, query: str = "", **headers: str) -> Any:
    """Take a turn, and return its streaming response."""
    return post(client, url(conversation, f"turns/{query}"), {"message": message}, accept=STREAM, **headers)


def chat(client: Client, conversation: Conversation, *messages: dict[str, Any], **headers: str) -> Any:
    """Take a turn as ``useChat`` does, and return its response."""
    body = {"id": "chat", "messages": list(messages), "trigger": "submit-message"}
    return post(client, url(conversation, "turns/"), body, **{"accept": "*/*", **headers})


def ui_message(text: str, id: str = "m1", role: str = "user") -> dict[str, Any]:
    """Return a message as ``useChat`` sends it."""
    return {"id": id, "role": role, "parts": [{"type": "text", "text": text}]}


def said(conversation: Conversation) -> list[str]:
    """Return the texts of the history."""
    return [row.text for row in conversation.messages.history()]


def chunks_of(response: Any) -> list[dict[str, Any]]:
    """Return the chunks of a stream, which must end as one does."""
    assert response.status_code == 200, response.content
    return chunks_in(response.streaming_content)


def chunks_in(parts: Iterable[bytes]) -> list[dict[str, Any]]:
    """Return the chunks in the bytes of a stream."""
    events = [event for event in b"".join(parts).decode().split("\n\n") if event]
    assert events[-1] == "data: [DONE]"
    return [json.loads(event.removeprefix("data: ")) for event in events[:-1] if not event.startswith(":")]


def texts_of(chunks: Iterable[dict[str, Any]]) -> str:
    """Return the text of the answer."""
    return "".join(chunk["delta"] for chunk in chunks if chunk["type"] == "text-delta")


def message_of(chunks: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the assistant message that a page has when it has read the chunks."""
    message: dict[str, Any] = {"role": "assistant", "parts": []}
    parts = message["parts"]
    for chunk in chunks:
        match chunk["type"]:
            case "start":
                message["id"] = chunk["messageId"]
            case "start-step":
                parts.append({"type": "step-start"})
            case "text-start" | "reasoning-start":
                parts.append({"type": chunk["type"].removesuffix("-start"), "text": ""})
            case "text-delta" | "reasoning-delta":
                parts[-1]["text"] += chunk["delta"]
            case "tool-input-available":
                parts.append(
                    {"type": "dynamic-tool", **{key: chunk[key] for key in ("toolCallId", "toolName", "input")}}
                )
            case "tool-output-available" | "tool-output-error":
                [call] = [part for part in parts if part.get("toolCallId") == chunk["toolCallId"]]
                call |= {key: chunk[key] for key in ("output", "errorText") if key in chunk}
            case "reset-step":
                while parts[-1]["type"] != "step-start":
                    parts.pop()
    return message


class Gate:
    """A model that says half of its answer, and waits in the middle until it may go on."""

    def __init__(self) -> None:
        self.is_reached = Event()
        self.go = Event()

    def speak(self, messages: Any) -> Iterator[Any]:
        yield "Half "
        self.is_reached.set()
        assert self.go.wait(60)
        yield "whole"
        yield AiMessage("Half whole")


@contextmanager
def turn_under_way(
    client: Client, conversation: Conversation, text: str, gate: Gate, **headers: str
) -> Iterator[list[Any]]:
    """Take a turn in another thread, and begin when its model waits. At the end the list has the chunks."""
    choose(Speaker(gate.speak))
    chunks: list[Any] = []

    def run() -> None:
        try:
            chunks.extend(chunks_of(stream(client, conversation, text, **headers)))
        finally:
            connections.close_all()

    thread = Thread(target=run)
    thread.start()
    try:
        assert gate.is_reached.wait(60)
        yield chunks
    finally:
        gate.go.set()
        thread.join(60)
        assert not thread.is_alive()
