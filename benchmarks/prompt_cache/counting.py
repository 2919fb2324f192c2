"""Token counts of messages, as every contender gets them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from chatmemory import ChatMessage, OpenAiTokenCountEstimator

__all__ = ["ESTIMATOR", "CachingEstimator", "tokens_of_request"]


class CachingEstimator:
    """An estimator that counts each message once, for the memories of a simulation count the same again and again."""

    def __init__(self, model: str = "gpt-4o") -> None:
        self.model = model
        self._counting = OpenAiTokenCountEstimator(self.model)
        self.estimate_token_count_in_text = cache(self._counting.estimate_token_count_in_text)
        self._of_request = self._counting.estimate_token_count_in_messages([])
        self._counted: dict[int, tuple[ChatMessage, int]] = {}

    def estimate_token_count_in_message(self, message: ChatMessage) -> int:
        found = self._counted.get(id(message))  # far faster than by its hash; what is kept here keeps its ID
        if found is None:
            found = self._counted[id(message)] = (message, self._counting.estimate_token_count_in_message(message))
        return found[1]

    def estimate_token_count_in_messages(self, messages: Iterable[ChatMessage]) -> int:
        return self._of_request + sum(map(self.estimate_token_count_in_message, messages))


ESTIMATOR = CachingEstimator()


def tokens_of_request(messages: Iterable[ChatMessage]) -> int:
    """Return the tokens of a request."""
    return ESTIMATOR.estimate_token_count_in_messages(messages)
