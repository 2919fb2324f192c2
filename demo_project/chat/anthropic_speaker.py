"""A model of Anthropic's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from chatmemory.assistant import ChatModel
from demo_project.chat.model_speaker import SECONDS, ModelSpeaker

__all__ = ["AnthropicSpeaker"]


class AnthropicSpeaker(ModelSpeaker):
    """A model asked through the ``anthropic`` package."""

    package = "anthropic"
    key = "ANTHROPIC_API_KEY"
    address = "ANTHROPIC_BASE_URL"
    default_address = "https://api.anthropic.com"

    def _look(self) -> None:
        from anthropic import Anthropic

        with Anthropic(**self._options()) as client:
            client.models.list(limit=1)

    @contextmanager
    def _connected(self) -> Iterator[ChatModel]:
        from anthropic import Anthropic

        from chatmemory.assistant.anthropic import AnthropicChatModel

        with Anthropic(**self._options()) as client:
            yield AnthropicChatModel(self.model, client=client)

    @asynccontextmanager
    async def _aconnected(self) -> AsyncIterator[ChatModel]:
        from anthropic import AsyncAnthropic

        from chatmemory.assistant.anthropic import AnthropicChatModel

        async with AsyncAnthropic(**self._options()) as client:
            yield AnthropicChatModel(self.model, async_client=client)

    def _options(self) -> dict[str, Any]:
        # No retries: the page has a button to try again.
        return {"api_key": self._require_key(), "timeout": SECONDS, "max_retries": 0}

    def _explain(self, error: Exception) -> str | None:
        import anthropic

        if isinstance(error, anthropic.APITimeoutError):
            return self._is_late()
        if isinstance(error, anthropic.APIConnectionError):
            return self._is_not_there()
        if not isinstance(error, anthropic.AnthropicError):
            return None
        body = getattr(error, "body", None)
        inner = body.get("error") if isinstance(body, dict) else None
        said = inner["message"] if isinstance(inner, dict) and "message" in inner else error
        status = getattr(error, "status_code", None)
        return self._told(None if status == 200 else status, str(said))  # 200: an error in the middle of a stream
