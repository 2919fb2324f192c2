"""The stream in which an assistant message comes to a page: the AI SDK's "UI message stream", version 1.

What a reader of the stream has in the end is the message that ``chatmemory.formats.ai_sdk.to_ai_sdk`` makes of the
stored messages. Text and thinking come in deltas before that; what the deltas did not say comes when it is stored.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chatmemory.core.contents import TextContent
from chatmemory.core.json_text import dumps
from chatmemory.core.messages import (
    STOPPED,
    AiMessage,
    ChatMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.core.usage import Usage
from chatmemory.formats.ai_sdk.content_parts import attributes_of, content_part, kept, value_of
from chatmemory.formats.validity import Waiting, unused_ids

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
    # Arguments and results that are JSON may escape a lone surrogate, which the page gets escaped, too.
    return f"data: {text}\n\n".encode("utf-8", "backslashreplace")


class UIMessageStream:
    """The writer of one assistant message's stream. It remembers what was sent, and does no I/O."""

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

    def finish(self, usage: Usage | None = None) -> list[Chunk]:
        """Return the end of a stream whose turn has ended as it should.

        Args:
            usage: the tokens of all calls of the turn; None if they are not known.
        """
        metadata = {} if usage is None else {"messageMetadata": {"usage": _usage(usage)}}
        return [*self._end_step(), {"type": "finish", **metadata}]

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
            sent = "".join(self._sent[index][1])
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
            if message.is_stopped:
                metadata[STOPPED] = True
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
            sent = "".join(deltas)
            may_go_on = self._is_open and index == len(self._sent) - 1
            if kind != wanted or not (text.startswith(sent) if may_go_on else text == sent):
                return False
        return True


def _usage(usage: Usage) -> dict[str, Any]:
    """Return the AI SDK's ``LanguageModelUsage``, without what is not known."""
    uncached = text = total = None
    if usage.input_tokens is not None:
        uncached = max(0, usage.input_tokens - (usage.cache_read_tokens or 0) - (usage.cache_write_tokens or 0))
    if usage.output_tokens is not None:
        text = max(0, usage.output_tokens - (usage.reasoning_tokens or 0))
        total = None if usage.input_tokens is None else usage.input_tokens + usage.output_tokens
    return {
        **_known(inputTokens=usage.input_tokens),
        "inputTokenDetails": _known(
            noCacheTokens=uncached,
            cacheReadTokens=usage.cache_read_tokens,
            cacheWriteTokens=usage.cache_write_tokens,
        ),
        **_known(outputTokens=usage.output_tokens),
        "outputTokenDetails": _known(textTokens=text, reasoningTokens=usage.reasoning_tokens),
        **_known(totalTokens=total),
    }


def _known(**counts: int | None) -> dict[str, Any]:
    return {name: count for name, count in counts.items() if count is not None}


def _tool(event: str, id: str, rest: dict[str, Any], **fields: Any) -> Chunk:
    # Dynamic: a page need not know the tools, and their names may be any.
    chunk = {"type": f"tool-{event}", "toolCallId": id, **fields, "dynamic": True}
    return {**chunk, "providerMetadata": kept(rest)} if rest else chunk


@dataclass(frozen=True)
class Call:
    """A call, or the place of a result that answers none."""

    id: str
    """Its ID in the assistant message, which no other call of it has."""

    given_id: str | None
    """The ID that the model gave it."""

    name: str | None

    step: int
    """The number of the answer that makes it."""

    number: int
    """Its number among the calls of the assistant message."""


class Calls:
    """The calls of one assistant message so far.

    A result answers the latest call of its ID that has none, as ``chatmemory.formats.validity`` says.
    """

    def __init__(self) -> None:
        self._taken: set[str | None] = set()
        self._new = unused_ids(self._taken)
        self._count = 0
        self._waiting: Waiting[Call] = Waiting()
        self._latest_answered = -1

    def of(self, requests: Sequence[ToolExecutionRequest], step: int) -> list[Call]:
        """Return the calls that an answer makes."""
        calls = [self._call(request.id, request.name, step) for request in requests]
        self._waiting.add(requests, calls)
        return calls

    def answered_by(self, result: ToolExecutionResultMessage) -> Call | None:
        """Return the call that a result answers; None if there is none."""
        return self._waiting.take(result.id)

    def alone(self, result: ToolExecutionResultMessage, step: int) -> Call:
        """Return a place for a result that answers no call."""
        return self._call(result.id, result.tool_name, step)

    def is_next(self, call: Call, step: int) -> bool:
        """Return whether a reader expects the result of a call here: those of an answer are in the calls' order.

        Args:
            call: the call, whose result must be the latest.
            step: the number of the latest answer.
        """
        expected = call.step == step and call.number > self._latest_answered
        self._latest_answered = max(self._latest_answered, call.number)
        return expected

    def _call(self, given_id: str | None, name: str | None, step: int) -> Call:
        id = given_id if given_id and given_id not in self._taken else next(self._new)
        self._taken.add(id)
        self._count += 1
        return Call(id, given_id, name, step, self._count - 1)


def step_rest(message: AiMessage) -> dict[str, Any] | None:
    """Return what the parts of an answer do not say; None if they say all."""
    if message.attributes:
        return {"attributes": attributes_of(message)}
    says_nothing = message.text is None and message.thinking is None and not message.tool_execution_requests
    return {} if says_nothing else None


def call_fields(request: ToolExecutionRequest, call: Call) -> tuple[Any, dict[str, Any]]:
    """Return the input of a call, and what a reader needs beside it."""
    rest = _call_rest(call)
    if request.arguments is None:
        return {}, {**rest, "arguments": None}
    value, spelling = value_of(request.arguments)
    return value, {**rest, **spelling}


def alone_rest(call: Call) -> dict[str, Any]:
    """Return what a reader needs beside the place of a result that answers no call."""
    return {"call": False, **_call_rest(call)}


def _call_rest(call: Call) -> dict[str, Any]:
    rest: dict[str, Any] = {}
    if call.id != call.given_id:
        rest["id"] = call.given_id
    if call.name is None:
        rest["name"] = None
    return rest


def result_fields(
    result: ToolExecutionResultMessage, call: Call, at: int | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return ``{"output": …}`` or ``{"errorText": …}`` for a result, and what a reader needs beside it.

    Args:
        result: the result.
        call: the call that it answers, or its place.
        at: its number among what the assistant message is made of; None if that is where a reader expects it.
    """
    rest: dict[str, Any] = {}
    if result.id != call.given_id:
        rest["id"] = result.id
    if result.tool_name != call.name:
        rest["toolName"] = result.tool_name
    if result.is_error is False:
        rest["isError"] = False
    said, of_contents = _said(result)
    rest |= of_contents
    if result.attributes:
        rest["attributes"] = attributes_of(result)
    if at is not None:
        rest["at"] = at
    return said, rest


def _said(result: ToolExecutionResultMessage) -> tuple[dict[str, Any], dict[str, Any]]:
    [first, *others] = result.contents
    if others or not isinstance(first, TextContent):
        parts = [content_part(content) for content in result.contents]
        if result.is_error:
            return {"errorText": result.text or ""}, {"contents": parts}
        return {"output": {"type": "content", "value": parts}}, {"contents": True}
    if result.is_error:
        return {"errorText": first.text}, {}
    value, spelling = value_of(first.text)
    return {"output": value}, spelling
