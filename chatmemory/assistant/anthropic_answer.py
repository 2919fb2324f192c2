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
from chatmemory.assistant.deltas import Answered, Thinking, Usage
from chatmemory.assistant.errors import ModelError
from chatmemory.core.exceptions import gettext_noop as _
from chatmemory.core.extras import extra
from chatmemory.core.messages import AiMessage, ChatMessage, UserMessage
from chatmemory.formats.anthropic import from_anthropic

with extra("anthropic"):
    import anthropic

__all__ = ["Answer", "StreamedAnswer", "in_container", "open_container"]

_CONTAINER = "anthropic_container"
"""The attribute of an answer with calls that names the container in which its code waits for their results."""

_PAUSED = "pause_turn"
_MOST_PAUSES = 10

_CUT_OFF = {
    "max_tokens": "the model's limit was reached",
    "model_context_window_exceeded": "the model's context was full",
    "refusal": "the model refused",
    _PAUSED: "the model paused",
}
"""The stop reasons that leave an answer incomplete, in words."""

_GROWS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "compaction_delta": "content",
}
"""The fields of blocks that come in pieces, by the types of the pieces."""


class Answer:
    """An answer in one message, or in several if it paused."""

    def __init__(self, name: str) -> None:
        """
        Args:
            name: the name of the model, for errors.
        """
        self._name = name
        self._stop_reason: Any = None
        self._blocks: list[dict[str, Any]] = []
        self._broken: dict[int, str] = {}
        """Arguments of calls that are no JSON objects, by the indexes of their blocks."""
        self._used: dict[str, Any] = {}
        """The figures of the message that comes now."""
        self._used_before = Usage()
        self._pauses = 0
        self._container: str | None = None

    @property
    def usage(self) -> Usage | None:
        """The tokens of all calls of the API so far, as far as the server has told them."""
        usage = self._used_before + _usage(self._used)
        return usage if usage != Usage() else None

    def read(self, message: Any) -> None:
        """Take in a message, as the package made it of a body that it does not check.

        Raises:
            ModelError: it is no message.
        """
        self._use(getattr(message, "usage", None))
        content = getattr(message, "content", None)  # a web page comes as text
        if not isinstance(content, list):
            raise ModelError(
                _("%(name)s did not answer with a message. Check ANTHROPIC_BASE_URL. It answered: %(answer)s"),
                name=self._name,
                answer=as_it_came(message),
            )
        with readable(self._name, message):
            self._blocks += [_block(block) for block in content]
            self._stop_reason = getattr(message, "stop_reason", None)
            self._run_in(getattr(message, "container", None))

    def requests(self, first: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the requests of the answer, each when the message before it was taken in: several if it pauses.

        Args:
            first: the request for its beginning.

        Raises:
            ModelError: the answer paused too often.
        """
        request: dict[str, Any] | None = first
        while request is not None:
            yield request
            request = self._next_request(first)

    def _next_request(self, first: dict[str, Any]) -> dict[str, Any] | None:
        if self._stop_reason != _PAUSED or not self._blocks:
            return None
        if self._pauses == _MOST_PAUSES:
            raise ModelError(
                _("%(name)s paused more than %(count)s times, and did not finish its answer."),
                name=self._name,
                count=_MOST_PAUSES,
            )
        self._pauses += 1
        self._stop_reason = None
        self._used_before, self._used = self._used_before + _usage(self._used), {}
        # As it came, and at the end: the API continues a message that it made itself.
        so_far = {"role": "assistant", "content": self._blocks}
        return {**in_container(first, self._container), "messages": [*first["messages"], so_far]}

    def whole(self) -> Answered:
        """Return the whole answer, and what it used.

        Raises:
            ModelError: it is no whole answer.
        """
        why = _CUT_OFF.get(self._stop_reason) if isinstance(self._stop_reason, str) else None
        with readable(self._name, self._blocks):
            [message] = from_anthropic([{"role": "assistant", "content": self._blocks}])
            assert isinstance(message, AiMessage)
            if self._broken:
                message = _with_arguments(message, self._blocks, self._broken)
        if self._container is not None and message.tool_execution_requests:
            attributes = {**message.attributes, _CONTAINER: self._container}
            message = AiMessage(
                message.text, message.tool_execution_requests, thinking=message.thinking, attributes=attributes
            )
        return Answered(whole_answer(self._name, message, why), self.usage)

    def _use(self, given: Any) -> None:
        # The figures of later events are totals, and may leave out what did not change.
        self._used |= {key: value for key, value in fields_of(given).items() if value is not None}

    def _run_in(self, container: Any) -> None:
        if isinstance(id := getattr(container, "id", None), str):
            self._container = id


class StreamedAnswer(Answer):
    """An answer that comes in events."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._coming: dict[int, dict[str, Any]] = {}
        """The blocks of the message that comes now, by their indexes in it."""
        self._inputs: dict[int, str] = {}
        self._has_begun = False

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Raise a ``ModelError`` if the connection breaks in the ``with`` block, in which the events of a message are
        read, or if they are not all of its events.
        """
        with unbroken(self._name, _says_more), understood(self._name, anthropic.APIResponseValidationError):
            yield
        if not self._has_begun:  # such as a web page, which the package reads as no events
            raise ModelError(
                _("%(name)s did not answer as a stream of messages. Check ANTHROPIC_BASE_URL."), name=self._name
            )
        if not self._stop_reason:
            raise broken_off(self._name)
        self._end_message()

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
                    self._run_in(getattr(event.message, "container", None))
                case "content_block_start":
                    self._coming[event.index] = block = _block(event.content_block)
                    return _said(block.get("type"), block)
                case "content_block_delta":
                    return self._grow(event.index, fields_of(event.delta))
                case "message_delta":
                    self._use(getattr(event, "usage", None))
                    self._run_in(getattr(event.delta, "container", None))
                    self._stop_reason = event.delta.stop_reason or self._stop_reason
        return ""

    def _end_message(self) -> None:
        for index in sorted(self._coming):
            if (text := self._inputs.get(index, "")).strip():
                arguments = _object(text)
                if arguments is None:
                    self._broken[len(self._blocks)] = text
                else:
                    self._coming[index]["input"] = arguments
            self._blocks.append(self._coming[index])
        self._coming, self._inputs = {}, {}

    def _grow(self, index: int, delta: Mapping[str, Any]) -> str | Thinking:
        block, kind = self._coming[index], delta["type"]
        if kind == "input_json_delta":
            self._inputs[index] = self._inputs.get(index, "") + delta["partial_json"]
        elif kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
        elif (field := _GROWS.get(kind)) is not None:
            piece = delta.get(field) or ""
            block[field] = (block.get(field) or "") + piece
            return _said(block.get("type"), {field: piece})
        return ""


def open_container(messages: Sequence[ChatMessage]) -> str | None:
    """Return the ID of the container in which tools of the turn under way ran; None if there is none."""
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            break
        if isinstance(message, AiMessage) and isinstance(id := message.attributes.get(_CONTAINER), str):
            return id
    return None


def in_container(request: Mapping[str, Any], id: str | None) -> dict[str, Any]:
    """Return a request that names a container, which the API demands while code waits there.

    Args:
        request: the request; a container that it names itself stays.
        id: the ID of the container; None if there is none.
    """
    given = request.get("container")
    if id is None or isinstance(given, str) or (given and given.get("id")):
        return {**request}
    return {**request, "container": id if given is None else {**given, "id": id}}


def _says_more(error: Exception) -> bool:
    if isinstance(error, anthropic.APITimeoutError):
        return True
    return isinstance(error, anthropic.AnthropicError) and not isinstance(error, anthropic.APIConnectionError)


def _said(kind: Any, block: Mapping[str, Any]) -> str | Thinking:
    if kind == "thinking" and (thought := block.get("thinking")):
        return Thinking(thought)
    return (block.get("text") or "") if kind == "text" else ""


def _block(given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        given = given.model_dump(mode="json", warnings=False, by_alias=True, exclude_unset=True)
    block = dict(given)
    if block.get("type") == "thinking" and block.get("signature") is None:
        block["signature"] = ""  # some servers sign nothing
    if block.get("type") == "tool_use" and block.get("input") is None:
        block["input"] = {}
    return block


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


def _usage(used: Mapping[str, Any]) -> Usage:
    """Return what a server says that a call used. Whatever is missing or no number of tokens is not known."""
    read, written = (token_count(used.get(f"cache_{what}_input_tokens")) for what in ("read", "creation"))
    uncached = token_count(used.get("input_tokens"))
    return Usage(
        # Anthropic counts what came from a cache, or went into one, apart.
        input_tokens=None if uncached is None else uncached + (read or 0) + (written or 0),
        output_tokens=token_count(used.get("output_tokens")),
        cached_input_tokens=read,
        reasoning_tokens=token_count(fields_of(used.get("output_tokens_details")).get("thinking_tokens")),
    )
