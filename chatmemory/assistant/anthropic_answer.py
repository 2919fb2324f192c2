"""The answer in one of Anthropic's messages, also of servers that do not keep to its API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from chatmemory.assistant.answers import (
    as_it_came,
    broken_off,
    fields_of,
    readable,
    token_count,
    unbroken,
    understood,
    whole_answer,
)
from chatmemory.assistant.errors import ModelError
from chatmemory.assistant.pieces import Answered, Thinking
from chatmemory.assistant.usage import Usage
from chatmemory.core.extras import extra
from chatmemory.core.messages import AiMessage
from chatmemory.formats.anthropic import from_anthropic

with extra("anthropic"):
    import anthropic

__all__ = ["StreamedAnswer", "read_message"]

_CUT_OFF = {
    "max_tokens": "the model's limit was reached",
    "model_context_window_exceeded": "the model's context was full",
    "refusal": "the model refused",
    "pause_turn": "the model paused",
}
"""The stop reasons that leave an answer incomplete, in words."""

_GROWS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "compaction_delta": "content",
}
"""The fields of blocks that come in pieces, by the types of the pieces."""


def read_message(name: str, answer: Any) -> Answered:
    """Return the answer in a message, and what it used.

    Args:
        name: the name of the model, for errors.
        answer: what the package made of the body, which it does not check.

    Raises:
        ModelError: it is no answer, or not a whole one.
    """
    content = getattr(answer, "content", None)  # a web page comes as text
    if not isinstance(content, list):
        raise ModelError(
            f"{name} did not answer with a message. Check ANTHROPIC_BASE_URL. It answered: {as_it_came(answer)}"
        )
    with readable(name, answer):
        blocks = [_block(block) for block in content]
        message = _answer(name, blocks, {}, getattr(answer, "stop_reason", None))
        return Answered(message, _usage(fields_of(getattr(answer, "usage", None))))


class StreamedAnswer:
    """An answer that comes in events."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, str] = {}
        self._used: dict[str, Any] = {}
        self._has_begun = False
        self._stop_reason: str | None = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Raise a ``ModelError`` if the connection breaks in the ``with`` block, in which events are read."""
        with unbroken(self._name, _says_more), understood(self._name, anthropic.APIResponseValidationError):
            yield

    def take(self, event: Any) -> str | Thinking:
        """Take in an event and return what it says: a text, which is empty as a sign of life, or thinking.

        Raises:
            ModelError: it is no event of an answer.
        """
        self._has_begun = True
        with readable(self._name, event):
            match event.type:
                case "message_start":
                    self._use(getattr(event.message, "usage", None))
                case "content_block_start":
                    self._blocks[event.index] = block = _block(event.content_block)
                    return _said(block.get("type"), block)
                case "content_block_delta":
                    return self._grow(event.index, fields_of(event.delta))
                case "message_delta":
                    self._use(getattr(event, "usage", None))
                    self._stop_reason = event.delta.stop_reason or self._stop_reason
        return ""

    def whole(self) -> Answered:
        """Return the whole answer, and what it used.

        Raises:
            ModelError: the answer is not whole.
        """
        if not self._has_begun:  # such as a web page, which the package reads as no events
            raise ModelError(f"{self._name} did not answer as a stream of messages. Check ANTHROPIC_BASE_URL.")
        if not self._stop_reason:
            raise broken_off(self._name)
        places = {index: place for place, index in enumerate(sorted(self._blocks))}
        blocks = [self._blocks[index] for index in places]
        inputs = {places[index]: text for index, text in self._inputs.items()}
        return Answered(_answer(self._name, blocks, inputs, self._stop_reason), _usage(self._used))

    def _grow(self, index: int, delta: Mapping[str, Any]) -> str | Thinking:
        block, kind = self._blocks[index], delta["type"]
        if kind == "input_json_delta":
            self._inputs[index] = self._inputs.get(index, "") + delta["partial_json"]
        elif kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
        elif (field := _GROWS.get(kind)) is not None:
            piece = delta.get(field) or ""
            block[field] = (block.get(field) or "") + piece
            return _said(block.get("type"), {field: piece})
        return ""

    def _use(self, given: Any) -> None:
        # The figures of later events are totals, and may leave out what did not change.
        self._used |= {key: value for key, value in fields_of(given).items() if value is not None}


def _says_more(error: Exception) -> bool:
    if isinstance(error, anthropic.APITimeoutError):
        return True
    return isinstance(error, anthropic.AnthropicError) and not isinstance(error, anthropic.APIConnectionError)


def _said(kind: Any, block: Mapping[str, Any]) -> str | Thinking:
    if kind == "thinking" and (thought := block.get("thinking")):
        return Thinking(thought)
    return (block.get("text") or "") if kind == "text" else ""


def _block(given: Any) -> dict[str, Any]:
    block = dict(given if isinstance(given, Mapping) else given.model_dump(mode="json", warnings=False, by_alias=True))
    if block.get("type") == "thinking" and block.get("signature") is None:
        block["signature"] = ""  # some servers sign nothing
    if block.get("type") == "tool_use" and block.get("input") is None:
        block["input"] = {}
    return block


def _answer(name: str, blocks: list[dict[str, Any]], inputs: Mapping[int, str], stop_reason: Any) -> AiMessage:
    """Return the answer in blocks.

    Args:
        name: the name of the model.
        blocks: its blocks.
        inputs: the arguments of calls as they came, by the indexes of their blocks.
        stop_reason: why it ended.
    """
    why = _CUT_OFF.get(stop_reason) if isinstance(stop_reason, str) else None
    broken: dict[int, str] = {}
    for index, text in inputs.items():
        if text.strip():
            arguments = _object(text)
            if arguments is None:
                broken[index] = text
            else:
                blocks[index]["input"] = arguments
    with readable(name, blocks):
        [message] = from_anthropic([{"role": "assistant", "content": blocks}])
        assert isinstance(message, AiMessage)
    return whole_answer(name, _with_arguments(message, blocks, broken) if broken else message, why)


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _with_arguments(message: AiMessage, blocks: Sequence[Mapping[str, Any]], broken: Mapping[int, str]) -> AiMessage:
    """Return an answer whose calls have the arguments that came, though they are no JSON: the model is told so."""
    calls = [index for index, block in enumerate(blocks) if block["type"] == "tool_use"]
    requests = [
        replace(request, arguments=broken.get(index, request.arguments))
        for index, request in zip(calls, message.tool_execution_requests, strict=True)
    ]
    return AiMessage(message.text, requests, thinking=message.thinking, attributes=message.attributes)


def _usage(used: Mapping[str, Any]) -> Usage | None:
    """Return what a server says that a call used. Whatever is missing or no number of tokens is not known."""
    read, written = (token_count(used.get(f"cache_{what}_input_tokens")) for what in ("read", "creation"))
    uncached = token_count(used.get("input_tokens"))
    usage = Usage(
        # Anthropic counts what came from a cache, or went into one, apart.
        input_tokens=None if uncached is None else uncached + (read or 0) + (written or 0),
        output_tokens=token_count(used.get("output_tokens")),
        cached_input_tokens=read,
        reasoning_tokens=token_count(fields_of(used.get("output_tokens_details")).get("thinking_tokens")),
    )
    return usage if usage != Usage() else None
