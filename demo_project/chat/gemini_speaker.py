"""A model behind Gemini's API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from chatmemory.assistant import ChatModel
from demo_project.chat.model_speaker import SECONDS, ModelSpeaker

if TYPE_CHECKING:
    from google.genai import Client

__all__ = ["GeminiSpeaker"]

_HTTP_LIBRARIES = ("aiohttp", "httpx", "httpx2")
"""The libraries whose exceptions the package lets through."""


class GeminiSpeaker(ModelSpeaker):
    """A model asked through the ``google-genai`` package."""

    package = "google-genai"
    key = "GEMINI_API_KEY"
    address = "GOOGLE_GEMINI_BASE_URL"
    default_address = "https://generativelanguage.googleapis.com"

    def _look(self) -> None:
        with self._client() as client:
            client.models.list(config={"page_size": 1})

    @contextmanager
    def _connected(self) -> Iterator[ChatModel]:
        from chatmemory.assistant.gemini import GeminiChatModel

        with self._client() as client:
            yield GeminiChatModel(self.model, client=client)

    @asynccontextmanager
    async def _aconnected(self) -> AsyncIterator[ChatModel]:
        from chatmemory.assistant.gemini import GeminiChatModel

        with self._client() as client:
            async with client.aio:
                yield GeminiChatModel(self.model, client=client)

    def _client(self) -> Client:
        from google.genai import Client
        from google.genai.types import HttpOptions

        options = HttpOptions(timeout=SECONDS * 1000)  # in milliseconds
        return Client(api_key=self._require_key(), vertexai=False, http_options=options)

    def _explain(self, error: Exception) -> str | None:
        from google.genai import errors

        if isinstance(error, errors.APIError):
            # A key that is wrong is a bad request here.
            status = 401 if error.code == 400 and "API key" in str(error.message) else error.code
            return self._told(status, str(error.message or error))
        if isinstance(error, TimeoutError) or "Timeout" in type(error).__name__:
            return self._is_late()
        if type(error).__module__.partition(".")[0] in _HTTP_LIBRARIES:
            return self._is_not_there()
        return None
