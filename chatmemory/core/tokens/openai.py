"""The counts of LangChain4j's ``OpenAiTokenCountEstimator``, and estimates where that one refuses to count."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from chatmemory.core.contents import Content, DetailLevel, ImageContent, TextContent
from chatmemory.core.messages import (
    AiMessage,
    ChatMessage,
    CustomMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.core.serialization.codec import message_to_json
from chatmemory.core.tokens.encodings import count_tokens, encoding_name
from chatmemory.core.tokens.estimator import TokenCountEstimator, require_count

__all__ = ["OpenAiTokenCountEstimator", "stored_count"]

# 3 for the frame around every message, 1 for its role.
_PER_MESSAGE = 4

# What one image costs the GPT-4o family: a low-detail one, and one of 1024 x 1024 pixels in high detail.
_IMAGE_LOW, _IMAGE_HIGH = 85, 765

# The length of a recording, a video or a PDF at some URL is not known: one page or half a minute.
_OTHER_MEDIA = 1000


class OpenAiTokenCountEstimator:
    """An estimator of the tokens of messages in OpenAI's chat format.

    It agrees with LangChain4j wherever that counts. Where that refuses, this estimates: an image is 85 tokens (765
    unless its detail is low), other media 1,000, a custom message its JSON text, several contents of a tool
    result their sum, arguments that are no JSON object their text.
    """

    def __init__(self, model: str, *, fallback_encoding: str = "o200k_base") -> None:
        """
        Args:
            model: such as ``"gpt-4o"``.
            fallback_encoding: for models that tiktoken does not know, ``"o200k_base"`` or ``"cl100k_base"``.

        Raises:
            ValueError: ``model`` is empty, or ``fallback_encoding`` is none of these.
        """
        if not isinstance(model, str) or not model.strip():
            raise ValueError("model_name cannot be null or blank")
        self.model = model
        self.encoding = encoding_name(model, fallback_encoding)
        self._overhead_per_request = 2 if model.startswith("o") else 3
        self._overhead_per_ai_message = 2 if model.startswith("o4") else 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"

    def estimate_token_count_in_text(self, text: str) -> int:
        """Count the tokens of a bare text."""
        return count_tokens(text, self.encoding)

    def estimate_token_count_in_messages(self, messages: Iterable[ChatMessage]) -> int:
        """Count the tokens of a request that holds ``messages``."""
        return self._overhead_per_request + sum(map(self.estimate_token_count_in_message, messages))

    def estimate_token_count_in_message(self, message: ChatMessage) -> int:
        """Count the tokens of one message.

        Raises:
            TypeError: ``message`` is none of the five types.
        """
        return _PER_MESSAGE + self._count(message)

    def _count(self, message: ChatMessage) -> int:
        text = self.estimate_token_count_in_text
        match message:
            case SystemMessage():
                return text(message.text)
            case UserMessage():
                name = 0 if message.name is None else 1 + text(message.name)
                return name + sum(map(self._content, message.contents))
            case AiMessage():
                return (
                    self._overhead_per_ai_message
                    + text(message.text or "")
                    + self._requests(message.tool_execution_requests)
                )
            case ToolExecutionResultMessage():
                return sum(map(self._content, message.contents))
            case CustomMessage():
                return text(_json(message))
            case _:
                raise TypeError(f"Unknown message type: {type(message).__name__}")

    def _content(self, content: Content) -> int:
        if isinstance(content, TextContent):
            return self.estimate_token_count_in_text(content.text)
        if isinstance(content, ImageContent):
            return _IMAGE_LOW if content.detail_level is DetailLevel.LOW else _IMAGE_HIGH
        return _OTHER_MEDIA

    def _requests(self, requests: Sequence[ToolExecutionRequest]) -> int:
        text = self.estimate_token_count_in_text
        if not requests:
            return 0
        if len(requests) == 1:
            name, arguments = requests[0].name or "", requests[0].arguments or ""
            return 5 + 2 * text(name) + text(arguments)
        return 21 + sum(7 + text(request.name or "") + self._arguments(request.arguments or "") for request in requests)

    def _arguments(self, arguments: str) -> int:
        text = self.estimate_token_count_in_text
        if not arguments:
            return 0
        try:
            parsed = json.loads(arguments)
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict):
            return text(arguments)
        return sum(
            2 + text(key) + text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
            for key, value in parsed.items()
        )


def stored_count(message: ChatMessage, estimator: TokenCountEstimator) -> int:
    """Count the tokens of a stored message, with OpenAI's estimator if ``estimator`` fails.

    So no stored message can make its memory unreadable. But a count that cannot be stored is an error.

    Raises:
        TypeError: the estimator returned something that is not a whole number.
        ValueError: it returned a number below 0, or above what a column holds.
    """
    try:
        counted = estimator.estimate_token_count_in_message(message)
    except Exception:
        return OpenAiTokenCountEstimator("gpt-4o").estimate_token_count_in_message(message)
    return require_count(counted, estimator)


def _json(message: CustomMessage) -> str:
    try:
        return message_to_json(message)
    except (TypeError, ValueError):  # attributes that have no JSON form still cost something
        return str(dict(message.attributes))
