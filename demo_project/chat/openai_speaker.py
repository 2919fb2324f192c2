"""A model on any server that speaks OpenAI's chat completions."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from chatmemory.assistant import ChatModel
from demo_project.chat.model_speaker import SECONDS, ModelSpeaker

__all__ = ["OpenAiSpeaker"]


class OpenAiSpeaker(ModelSpeaker):
    """A model asked through the ``openai`` package."""

    package = "openai"
    key = "OPENAI_API_KEY"
    address = "OPENAI_BASE_URL"
    default_address = "https://api.openai.com/v1"

    def _look(self) -> None:
        from openai import OpenAI

        with OpenAI(**self._options()) as client:
            client.models.list()

    @contextmanager
    def _connected(self) -> Iterator[ChatModel]:
        from openai import OpenAI

        from chatmemory.assistant.openai import OpenAiChatModel

        with OpenAI(**self._options()) as client:
            yield OpenAiChatModel(self.model, client=client)

    @asynccontextmanager
    async def _aconnected(self) -> AsyncIterator[ChatModel]:
        from openai import AsyncOpenAI

        from chatmemory.assistant.openai import OpenAiChatModel

        async with AsyncOpenAI(**self._options()) as client:
            yield OpenAiChatModel(self.model, async_client=client)

    def _options(self) -> dict[str, Any]:
        # Local servers need no key, but the package does.
        key = (os.environ.get(self.key) or "none") if os.environ.get(self.address) else self._require_key()
        # No retries: the page has a button to try again.
        return {"api_key": key, "timeout": SECONDS, "max_retries": 0}

    def _explain(self, error: Exception) -> str | None:
        import openai

        if isinstance(error, openai.APITimeoutError):
            return self._is_late()
        if isinstance(error, openai.APIConnectionError):
            return self._is_not_there()
        if not isinstance(error, openai.OpenAIError):
            return None
        body = getattr(error, "body", None)
        said = body["message"] if isinstance(body, dict) and "message" in body else error
        return self._told(getattr(error, "status_code", None), str(said))
