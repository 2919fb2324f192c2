"""A model on any server that speaks OpenAI's chat completions, whose errors say what to do."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from chatmemory import AiMessage, ChatMessage
from chatmemory.assistant import ToolSpecification
from chatmemory.formats import UnsupportedContentError
from demo_project.chat.speaker import Speaker, SpeakerError

if TYPE_CHECKING:
    from openai import OpenAIError

__all__ = ["OpenAiSpeaker"]

_SECONDS = 60
_OPENAI = "https://api.openai.com/v1"


class OpenAiSpeaker(Speaker):
    """A model asked through the ``openai`` package, which reads ``OPENAI_BASE_URL`` and ``OPENAI_API_KEY``."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._host = urlsplit(os.environ.get("OPENAI_BASE_URL") or _OPENAI).netloc
        self.name = f"{model} at {self._host}"

    def stream(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> Iterator[str | AiMessage]:
        try:
            import openai

            from chatmemory.assistant.openai import OpenAiChatModel
        except ImportError as error:
            raise SpeakerError("The package openai is missing. Install it: pip install openai") from error
        # Local servers need no key, but the package does. No retries: the page has a button to try again.
        key = os.environ.get("OPENAI_API_KEY") or "none"
        try:
            with openai.OpenAI(api_key=key, timeout=_SECONDS, max_retries=0) as client:
                yield from OpenAiChatModel(self._model, client=client).stream(messages, tools)
        except UnsupportedContentError as error:
            raise SpeakerError(f"This memory cannot be sent to {self.name}: {error}") from error
        except openai.OpenAIError as error:
            raise SpeakerError(self._explain(openai, error)) from error

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
