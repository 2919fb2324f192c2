"""The ranking: how well a message fits the words of a query.

A message has a score of its own: the sum of the weights of the words that it contains, each once, multiplied by a norm
for its length. This is BM25 without the frequency of words within a message, and with a larger exponent of idf, so that
common words count less, in any language. The final score is twice this score, plus the scores of the messages before
and after it in the conversation: an answer often contains none of the words of its question. Among equal scores, the
newest message is first.

Everything is computed with integers from what is searched only, so each database and machine finds the same. Constants
were chosen on five conversations of LoCoMo: see benchmarks/recall.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

LENGTH_BITS = 5
"""Lengths are stored as one of 32 classes. Class 0 is no message; each other one has twice the length of two before."""

_CLASSES = 1 << LENGTH_BITS
_BITS_OF_LOGARITHM = 12
_ONE = 1 << _BITS_OF_LOGARITHM

MOST_WEIGHT = 255
_MOST_DOCUMENTS = 1 << 20
"""A word that is in one of so many messages has the greatest weight."""

# (k + 1) / (1 + k (1 - b + b length / average)) with k = 1.2 and b = 0.5, in tenths.
_K_PLUS_ONE, _BASE, _SLOPE = 22, 16, 6
_SCALE = 22  # a message without any length has the norm 22 * 22 / 16, which 5 bits can hold


def weight(documents_with_word: int, documents: int) -> int:
    """Return the weight of a word: idf to the power of 1.5, from 1 to ``MOST_WEIGHT``.

    Args:
        documents_with_word: the number of messages with the word.
        documents: the number of messages that are searched, at least as many.
    """
    whole = isqrt(_idf(1, _MOST_DOCUMENTS) ** 3)
    return max(1, min(MOST_WEIGHT, MOST_WEIGHT * isqrt(_idf(documents_with_word, documents) ** 3) // whole))


def length_class(tokens: int) -> int:
    """Return the class of a message with so many tokens, at least one."""
    return min(_CLASSES - 1, 1 + 2 * logarithm(tokens, 1) // _ONE)


def norms(counts: Sequence[int]) -> list[int]:
    """Return the norm of each class of lengths.

    Args:
        counts: the number of messages in each class; that of class 0 is ignored.
    """
    documents = sum(counts[1:])
    total = sum(count * length for count, length in zip(counts[1:], _LENGTHS[1:], strict=True))
    if not documents:
        return [0] * _CLASSES
    exact = (_SCALE * _K_PLUS_ONE * total // (_BASE * total + _SLOPE * length * documents) for length in _LENGTHS)
    return [max(1, norm) for norm in exact]


def total(own: int, before: int, after: int) -> int:
    """Return the final score of a message from its own score and those of its neighbours."""
    return 2 * own + before + after


def logarithm(numerator: int, denominator: int) -> int:
    """Return the binary logarithm of a fraction of at least 1, in units of 1 / 4096, rounded down."""
    fraction = (numerator << 64) // denominator
    result = fraction.bit_length() - 65
    fraction >>= result
    for _ in range(_BITS_OF_LOGARITHM):
        fraction = fraction * fraction >> 64
        result <<= 1
        if fraction >> 65:
            fraction >>= 1
            result += 1
    return result


def _idf(documents_with_word: int, documents: int) -> int:
    return logarithm(2 * documents + 2, 2 * documents_with_word + 1)


# The middle of each class, in units of 1 / 16 token; the units cancel out.
_LENGTHS = [0, *(isqrt(256 << (number - 1)) for number in range(1, _CLASSES))]
