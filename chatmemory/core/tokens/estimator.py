"""The protocol of token estimators. The one that counts as OpenAI's models do is in :mod:`.openai`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from chatmemory.core.messages import ChatMessage

__all__ = ["TokenCountEstimator"]


class TokenCountEstimator(Protocol):
    """An estimator for token windows: any object with these three methods.

    The count of the third method for no messages is the overhead of a request; a window adds it once to the sum of its
    messages. An estimator may have a ``model`` attribute (a string): rows counted by one estimator
    are trusted by every other that has the same type and model.
    """

    def estimate_token_count_in_text(self, text: str) -> int:
        """Count the tokens of a bare text."""

    def estimate_token_count_in_message(self, message: ChatMessage) -> int:
        """Count the tokens of a message, with what the model's format adds to each message."""

    def estimate_token_count_in_messages(self, messages: Iterable[ChatMessage]) -> int:
        """Count the tokens of all messages, with what the model's format adds to each request."""
