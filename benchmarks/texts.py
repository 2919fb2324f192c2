"""The texts of messages: the same in every run, and different in every turn."""

from __future__ import annotations

from array import array
from functools import cache, lru_cache

from chatmemory import OpenAiTokenCountEstimator

__all__ = ["PER_MESSAGE", "ai_text", "count_tokens", "message_text", "text_of", "token_counts", "user_text"]

PER_MESSAGE = 3
"""Tokens that a message takes beside its text, as OpenAI documents it."""

_STORY = (
    "the order from last week arrived with one part missing and nobody could tell me when it would be sent again "
    "please look whether a new lamp of that size is in stock because our kitchen has been dark since Monday evening "
    "thank you for writing to us yes we found your parcel in Hamburg where customs asked about its contents twice "
    "before they let it pass so it should reach you on Thursday between nine and noon unless snow closes the bridge "
    "if you prefer another day choose any afternoon after Friday and answer here or call the number on your bill"
)
_WORDS = _STORY.split()
_TOKENS_PER_WORD = 1.05  # of these words in o200k_base
_STEP = 37  # with no factor in common with the number of words, so that beginnings take long to repeat


def _words(number: int, count: int) -> str:
    start = number * _STEP
    return " ".join(_WORDS[index % len(_WORDS)] for index in range(start, start + count))


def text_of(tokens: int, number: int) -> str:
    """Return a text of about so many tokens. It begins with ``number``, so that no two texts are the same."""
    return f"{number}: {_words(number, max(1, round(tokens / _TOKENS_PER_WORD)))}."


def user_text(turn: int) -> str:
    """Return the user's text of a turn: about 25 tokens."""
    return f"Question {turn}: {_words(turn, 20)}?"


def ai_text(turn: int) -> str:
    """Return the AI's text of a turn: about 60 tokens."""
    return f"Answer {turn}: {_words(turn * 3 + 1, 55)}."


def message_text(position: int) -> str:
    """Return the text at a position of the history, which consists of turns of two messages."""
    return ai_text(position // 2) if position % 2 else user_text(position // 2)


@cache
def _estimator() -> OpenAiTokenCountEstimator:
    return OpenAiTokenCountEstimator("gpt-4o")


def count_tokens(text: str) -> int:
    """Return the tokens of o200k_base in a text. Every contender counts so: tiktoken would download its vocabulary."""
    return _estimator().estimate_token_count_in_text(text)


@lru_cache(maxsize=2)
def token_counts(history: int) -> array[int]:
    """Return the token counts of the texts of a history, in order."""
    return array("I", (count_tokens(message_text(position)) for position in range(history)))
