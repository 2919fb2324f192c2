"""The protocol of token estimators. The one that counts as OpenAI's models do is in :mod:`.openai`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from chatmemory.core.messages import ChatMessage

__all__ = ["TokenCountEstimator", "require_count", "tokens_of", "tokens_of_request"]

_MOST = 2_147_483_647  # what a column of every database holds


class TokenCountEstimator(Protocol):
    """An estimator for token windows: any object with these three methods.

    Each returns a whole number from 0 to 2,147,483,647. The count of the third method for no messages is the overhead
    of a request; a window adds it once to the sum of its messages. An estimator may have a ``model`` attribute (a
    string): rows counted by one estimator are trusted by every other that has the same type and model.
    """

    def estimate_token_count_in_text(self, text: str) -> int:
        """Count the tokens of a bare text."""

    def estimate_token_count_in_message(self, message: ChatMessage) -> int:
        """Count the tokens of a message, with what the model's format adds to each message."""

    def estimate_token_count_in_messages(self, messages: Iterable[ChatMessage]) -> int:
        """Count the tokens of all messages, with what the model's format adds to each request."""


def tokens_of(message: ChatMessage, estimator: TokenCountEstimator) -> int:
    """Return the tokens of a message.

    Raises:
        TypeError: the estimator returned something that is not a whole number.
        ValueError: it returned a number below 0, or above what a column holds.
    """
    return require_count(estimator.estimate_token_count_in_message(message), estimator)


def tokens_of_request(estimator: TokenCountEstimator) -> int:
    """Return the tokens of a request without its messages.

    Raises:
        TypeError, ValueError: as above.
    """
    return require_count(estimator.estimate_token_count_in_messages([]), estimator)


def require_count(count: Any, estimator: TokenCountEstimator) -> int:
    """Return ``count``, which an estimator returned, if it can be stored.

    Raises:
        TypeError, ValueError: as above.
    """
    if isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= _MOST:
        return count
    kind = ValueError if isinstance(count, int) and not isinstance(count, bool) else TypeError
    raise kind(
        f"{type(estimator).__qualname__} must return a whole number from 0 to {_MOST}, but returned: {count!r:.300}"
    )
