"""The ranking: how well a message fits the words of a query.

A message has a score of its own: the sum of the weights of the words that it contains, each once, multiplied by a norm
for its length. This is BM25 without the frequency of words within a message, with a larger exponent of idf, so that
common words count less, in any language, and with a norm that needs no average. The messages before and after a message
lend it two thirds of their scores, because an answer often contains none of the words of its question. So a message can
be found that contains no word of the query. Among equal scores, the newest message is first.

Everything is computed with integers from what is searched only, so each database and machine finds the same. Constants
were chosen on five conversations of LoCoMo: see benchmarks/recall.
"""

from __future__ import annotations

from math import isqrt

LENGTH_BITS = 5
"""Lengths are stored as one of 32 classes. Class 0 is no message; each other one has twice the length of two before."""

MOST_WEIGHT = 255
"""The weight of a word that one message contains. 63 would find the same; 255 has fewer equal scores."""

OWN, LENT = 3, 2
"""What a message's own score is multiplied by, and that of each neighbour."""

_STEPS = 64  # of a logarithm, for each doubling


def weight(documents_with_word: int, documents: int) -> int:
    """Return the weight of a word: idf to the power of 1.5, from 1 to ``MOST_WEIGHT``.

    A power of 1 gives common words too much weight. A power of 2 gives too little to words that are not rare, which
    matters where messages are long.

    Args:
        documents_with_word: the number of messages with the word, at least 1.
        documents: the number of messages that are searched, at least as many.
    """
    idf = _logarithm(2 * documents + 2, 2 * documents_with_word + 1)
    most = _logarithm(2 * documents + 2, 3)
    return max(1, isqrt(MOST_WEIGHT**2 * idf**3 // most**3))


def length_class(tokens: int) -> int:
    """Return the class of a message with so many tokens, at least one."""
    return min((1 << LENGTH_BITS) - 1, (tokens * tokens).bit_length())


def _norm(length: int) -> int:
    # The nearest integer; the shortest message of the class has 2 ** ((length - 1) / 2) tokens.
    return max(norm for norm in range(1, 32) if (2 * norm - 1) ** 8 << (length - 1) <= (2 * 31) ** 8)


NORMS = (0, *map(_norm, range(1, 1 << LENGTH_BITS)))
"""The norm of each class of lengths: 31 divided by the fourth root of the length.

BM25 compares the length with the average. A chat of short questions and long answers has no message of average length.
"""


def total(own: int, before: int, after: int) -> int:
    """Return the final score of a message from its own score and those of its neighbours."""
    return OWN * own + LENT * (before + after)


def _logarithm(numerator: int, denominator: int) -> int:
    """Return the binary logarithm of a fraction of at least 1, in steps, rounded down."""
    power: int = numerator**_STEPS // denominator**_STEPS
    return power.bit_length() - 1
