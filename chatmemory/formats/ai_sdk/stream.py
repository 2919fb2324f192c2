"""The stream in which an assistant message comes to a page: the AI SDK's "UI message stream", version 1.

What a reader of the stream has in the end is the message that :func:`chatmemory.formats.ai_sdk.to_ai_sdk` makes of the
stored messages. Text and thinking come in deltas before that; what the deltas did not say comes when it is stored.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from chatmemory.core.json_text import dumps
from chatmemory.core.messages import AiMessage, ChatMessage, ToolExecutionResultMessage, UserMessage
from chatmemory.formats.ai_sdk.answer import alone_rest, call_fields, result_fields, step_rest
from chatmemory.formats.ai_sdk.calls import Calls
from chatmemory.formats.ai_sdk.rest import kept

__all__ = ["DONE", "HEADERS", "Chunk", "UIMessageStream", "sse"]

Chunk = dict[str, Any]
"""One event of the stream, a JSON object with a ``type``."""

HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",  # nginx would wait for more
    "X-Vercel-AI-UI-Message-Stream": "v1",
}
"""The headers of a response that is such a stream."""

DONE = b"data: [DONE]\n\n"
"""The last event of a stream."""

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def sse(chunk: Chunk) -> bytes:
    """Return the server-sent event of a chunk."""
    try:
        text = _ENCODER.encode(chunk)
    except (TypeError, ValueError):  # attributes may have what only our writer of JSON knows
        text = dumps(chunk)
    # Half of a surrogate pair becomes JSON's escape of it: the other half may be in the next delta.
    return f"data: {text}\n\n".encode("utf-8", "backslashreplace")


class UIMessageStream:
    """The writer of one assistant message's stream. It keeps in mind what was sent, and does no I/O."""

    def __init__(self, message_id: str) -> None:
        """
        Args:
            message_id: the ID of the assistant message.
        """
        self._message_id = message_id
        self._calls = Calls()
        self._count = 0  # of the messages that were said
        self._step = -1
        self._is_speaking = False  # whether the answer of the step is still to be said
        self._sent: list[tuple[str, list[str]]] = []  # kind and deltas of each part of that answer
        self._is_open = False  # whether the last of these parts is

    def start(self) -> list[Chunk]:
        """Return the beginning of the stream."""
        return [{"type": "start", "messageId": self._message_id}]

    def text(self, delta: str) -> list[Chunk]:
        """Return the chunks for a delta of the answer's text, as the model gives it."""
        return self._delta("text", delta)

    def thinking(self, delta: str) -> list[Chunk]:
        """Return the chunks for a delta of the model's thinking."""
        return self._delta("reasoning", delta)

    def said(self, messages: Sequence[ChatMessage]) -> list[Chunk]:
        """Return the chunks for messages that were stored together.

        What comes before a user's message, and that itself, is the opening of the turn, and not of this assistant
        message; nor are system messages and custom ones.
        """
        users = (index for index in range(len(messages) - 1, -1, -1) if isinstance(messages[index], UserMessage))
        chunks: list[Chunk] = []
        for message in messages[next(users, -1) + 1 :]:
            if isinstance(message, AiMessage):
                chunks += self._answer(message)
            elif isinstance(message, ToolExecutionResultMessage):
                chunks += self._result(message)
        return chunks

    def memory(self, data: Any) -> list[Chunk]:
        """Return the chunk that tells a page how the memory has changed; it stays out of the assistant message."""
        return [{"type": "data-memory", "data": data, "transient": True}]

    def finish(self) -> list[Chunk]:
        """Return the end of a stream whose turn has ended as it should."""
        return [*self._end_step(), {"type": "finish"}]

    def error(self, text: str) -> list[Chunk]:
        """Return the end of a stream whose turn has failed; people read the text."""
        return [*self._end_step(), {"type": "error", "errorText": text}]

    def abort(self) -> list[Chunk]:
        """Return the end of a stream whose turn was interrupted."""
        return [*self._end_step(), {"type": "abort"}]

    def _delta(self, kind: str, delta: str) -> list[Chunk]:
        if not delta:
            return []
        chunks = self._begin_step()
        if not (self._is_open and self._sent[-1][0] == kind):
            chunks += self._close() + self._open(kind)
        self._sent[-1][1].append(delta)
        chunks.append({"type": f"{kind}-delta", "id": self._part_id(kind), "delta": delta})
        return chunks

    def _answer(self, message: AiMessage) -> list[Chunk]:
        chunks = self._begin_step()
        texts = [("reasoning", message.thinking), ("text", message.text)]
        whole = [(kind, text) for kind, text in texts if text is not None]
        if not self._is_beginning_of(whole):
            # The model has said something else in the end, or in another order.
            chunks += [*self._close(), {"type": "reset-step"}]
            self._sent = []
        for index, (kind, text) in enumerate(whole):
            if index >= len(self._sent):
                chunks += self._open(kind)
            elif index < len(self._sent) - 1 or not self._is_open:
                continue
            sent = _joined(self._sent[index][1])
            if len(sent) < len(text):
                chunks.append({"type": f"{kind}-delta", "id": self._part_id(kind), "delta": text[len(sent) :]})
            chunks += self._close()
        for request, call in zip(
            message.tool_execution_requests, self._calls.of(message.tool_execution_requests, self._step), strict=True
        ):
            input, rest = call_fields(request, call)
            chunks.append(_tool("input-available", call.id, rest, toolName=request.name or "", input=input))
        if (rest_of_step := step_rest(message)) is not None:
            metadata = kept({"steps": {str(self._step): rest_of_step}})
            chunks.append({"type": "message-metadata", "messageMetadata": metadata})
        self._count += 1
        self._is_speaking = False
        return chunks

    def _result(self, message: ToolExecutionResultMessage) -> list[Chunk]:
        chunks: list[Chunk] = []
        call = self._calls.answered_by(message)
        if call is None:
            call = self._calls.alone(message, self._step)
            rest = alone_rest(call)
            chunks.append(_tool("input-available", call.id, rest, toolName=message.tool_name or "", input=None))
        at = None if self._calls.is_next(call, self._step) else self._count
        said, rest = result_fields(message, call, at)
        chunks.append(_tool("output-error" if "errorText" in said else "output-available", call.id, rest, **said))
        self._count += 1
        return chunks

    def _begin_step(self) -> list[Chunk]:
        if self._is_speaking:
            return []
        chunks = self._end_step()
        self._step += 1
        self._is_speaking = True
        self._sent = []
        return [*chunks, {"type": "start-step"}]

    def _end_step(self) -> list[Chunk]:
        return [*self._close(), {"type": "finish-step"}] if self._step >= 0 else []

    def _open(self, kind: str) -> list[Chunk]:
        self._sent.append((kind, []))
        self._is_open = True
        return [{"type": f"{kind}-start", "id": self._part_id(kind)}]

    def _close(self) -> list[Chunk]:
        if not self._is_open:
            return []
        self._is_open = False
        kind = self._sent[-1][0]
        return [{"type": f"{kind}-end", "id": self._part_id(kind)}]

    def _part_id(self, kind: str) -> str:
        return f"{kind}-{self._step}"

    def _is_beginning_of(self, whole: list[tuple[str, str]]) -> bool:
        """Return whether ``whole``, an answer, begins with what was sent."""
        if len(self._sent) > len(whole):
            return False
        for index, ((kind, deltas), (wanted, text)) in enumerate(zip(self._sent, whole, strict=False)):
            sent = _joined(deltas)
            may_go_on = self._is_open and index == len(self._sent) - 1
            if kind != wanted or not (text.startswith(sent) if may_go_on else text == sent):
                return False
        return True


def _joined(deltas: list[str]) -> str:
    """Return the text that deltas make in a browser, where two halves of a surrogate pair become one character."""
    return "".join(deltas).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _tool(event: str, id: str, rest: dict[str, Any], **fields: Any) -> Chunk:
    # Dynamic: a page need not know the tools, and their names may be any.
    chunk = {"type": f"tool-{event}", "toolCallId": id, **fields, "dynamic": True}
    return {**chunk, "providerMetadata": kept(rest)} if rest else chunk
