"""A model on any server that speaks OpenAI's chat completions."""

from __future__ import annotations

import logging
import os
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from chatmemory.formats import UnsupportedContentError
from chatmemory.formats.openai import to_openai
from chatmemory.messages import AiMessage, ChatMessage, ToolExecutionRequest, ToolExecutionResultMessage
from demo_project.chat.speakers import SpeakerError
from demo_project.chat.tools import SPECIFICATIONS

if TYPE_CHECKING:
    from openai import OpenAIError

__all__ = ["OpenAiSpeaker"]

_SECONDS = 60
_OPENAI = "https://api.openai.com/v1"

_CUT_OFF = {"length": "the model's limit was reached", "content_filter": "a content filter stopped it"}
"""Reasons to finish that leave an answer incomplete."""

_logger = logging.getLogger("demo_project.chat")


class OpenAiSpeaker:
    """Asks through the ``openai`` package, which reads ``OPENAI_BASE_URL`` and ``OPENAI_API_KEY``."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._host = urlsplit(os.environ.get("OPENAI_BASE_URL") or _OPENAI).netloc
        self.name = f"{model} at {self._host}"

    def speak(self, messages: Sequence[ChatMessage]) -> Generator[str, None, AiMessage]:
        try:
            import openai
        except ImportError as error:
            raise SpeakerError("The package openai is missing. Install it: pip install openai") from error
        try:
            sent = to_openai(_without_orphans(messages))
        except UnsupportedContentError as error:
            raise SpeakerError(f"This memory cannot be sent to {self.name}: {error}") from error
        try:
            return (yield from self._stream(openai, sent))
        except openai.OpenAIError as error:
            raise SpeakerError(self._explain(openai, error)) from error

    def _stream(self, openai: Any, sent: list[dict[str, Any]]) -> Generator[str, None, AiMessage]:
        # Servers on one's own machine need no key, but the package does. The page has a button to try again.
        key = os.environ.get("OPENAI_API_KEY") or "none"
        answer = _Answer()
        with (
            openai.OpenAI(api_key=key, timeout=_SECONDS, max_retries=0) as client,
            client.chat.completions.create(
                model=self._model, messages=sent, tools=SPECIFICATIONS, stream=True
            ) as chunks,
        ):
            yield from self._read(openai, chunks, answer)
        if not answer.has_begun:  # such as a web page, which the package reads as no events
            raise SpeakerError(f"{self._host} did not answer as a stream of chat completions. Check OPENAI_BASE_URL.")
        if not answer.finish_reason:
            raise self._broken_off()
        why = _CUT_OFF.get(answer.finish_reason)
        if answer.calls and why:
            raise SpeakerError(f"The tool calls of {self.name} were cut off: {why}.")
        if not (answer.text or answer.calls):
            raise SpeakerError(f"{self.name} gave an empty answer{f': {why}' if why else ''}.")
        return answer.message()

    def _read(self, openai: Any, chunks: Iterable[Any], answer: _Answer) -> Generator[str, None, None]:
        try:
            yield from answer.read(chunks)
        except openai.APITimeoutError:
            raise
        except Exception as error:
            # Some versions of the package let through what their HTTP library says.
            if isinstance(error, openai.OpenAIError) and not isinstance(error, openai.APIConnectionError):
                raise
            _logger.warning("The stream from %s broke off", self.name, exc_info=True)
            raise self._broken_off() from error

    def _broken_off(self) -> SpeakerError:
        return SpeakerError(f"{self._host} broke off in the middle of its answer.")

    def _explain(self, openai: Any, error: OpenAIError) -> str:
        status = getattr(error, "status_code", None)
        body = getattr(error, "body", None)
        said = str(body["message"] if isinstance(body, dict) and "message" in body else error)[:300]
        if isinstance(error, openai.APITimeoutError):
            return f"{self._host} did not answer within {_SECONDS} seconds."
        if isinstance(error, openai.APIConnectionError):
            return f"{self._host} cannot be reached. Check OPENAI_BASE_URL, and that the server runs."
        if status in (401, 403):
            return f"{self._host} refused the key ({status}). Check OPENAI_API_KEY. It said: {said}"
        if status == 404:
            return f"{self._host} does not know this (404). Check CHATMEMORY_DEMO_MODEL and OPENAI_BASE_URL: {said}"
        if status is not None:
            return f"{self.name} failed ({status}). It said: {said}"
        return f"{self.name} failed. It said: {said}"


def _without_orphans(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """The messages but for tool results whose call is gone, which no model accepts.

    Raises:
        SpeakerError: such results are what the model is to answer.
    """
    kept: list[ChatMessage] = []
    called: set[str | None] = set()
    for message in messages:
        if isinstance(message, ToolExecutionResultMessage):
            if message.id in called:
                kept.append(message)
            continue
        called = (
            {request.id for request in message.tool_execution_requests} if isinstance(message, AiMessage) else set()
        )
        kept.append(message)
    if messages and isinstance(messages[-1], ToolExecutionResultMessage) and messages[-1] not in kept:
        raise SpeakerError(
            "The window is too small for a tool call and its results, so the model would not see both. "
            "Make the window larger, then say it again.",
            again=False,
        )
    return kept


@dataclass
class _Call:
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass
class _Answer:
    """An answer that comes in pieces."""

    text: str = ""
    calls: dict[int, _Call] = field(default_factory=dict)
    has_begun: bool = False
    finish_reason: str | None = None

    def read(self, chunks: Iterable[Any]) -> Generator[str, None, None]:
        """Take in the pieces; yield those of its text."""
        for chunk in chunks:
            self.has_begun = True
            for choice in chunk.choices[:1]:  # the last chunk may have none, but the usage
                self.finish_reason = choice.finish_reason or self.finish_reason
                for call in choice.delta.tool_calls or ():
                    self._add(call)
                if piece := choice.delta.content or choice.delta.refusal:
                    self.text += piece
                    yield piece

    def message(self) -> AiMessage:
        calls = [
            ToolExecutionRequest(id=call.id or None, name=call.name, arguments=call.arguments)
            for _index, call in sorted(self.calls.items())
        ]
        why = _CUT_OFF.get(self.finish_reason or "")
        # Beside the text, which stays what the model said; the page shows it.
        return AiMessage(self.text or None, calls, attributes={"cut_off": why} if why else None)

    def _add(self, piece: Any) -> None:
        call = self.calls.setdefault(piece.index, _Call())
        call.id = call.id or piece.id or ""
        if piece.function:
            call.name += piece.function.name or ""
            call.arguments += piece.function.arguments or ""
