"""What a token window asks of an estimator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from chatmemory.core.messages import ChatMessage

__all__ = ["TokenCountEstimator"]


class TokenCountEstimator(Protocol):
    """Anything with these three methods counts for a token window.

    What the third method gives for no messages is taken as the overhead of a request; a window adds it once to
    the sum of its messages. An estimator may have a ``model`` attribute (a string): rows counted by one estimator
    are trusted by every other that has the same type and model.
    """

    def estimate_token_count_in_text(self, text: str) -> int:
        """Tokens of a bare text."""

    def estimate_token_count_in_message(self, message: ChatMessage) -> int:
        """Tokens of a message, with what the model's format adds to each message."""

    def estimate_token_count_in_messages(self, messages: Iterable[ChatMessage]) -> int:
        """Tokens of all messages, with what the model's format adds to each request."""
