"""The errors of this API in the language of the request, which Django's ``LocaleMiddleware`` takes from its headers."""

from __future__ import annotations

import re
from functools import cache

from django.utils.translation import gettext

from chatmemory.rest.sentences import SENTENCES

__all__ = ["NESTED", "found_pattern", "translated"]

NESTED = frozenset({"error", "got", "known", "problem", "unit", "what", "why"})
"""The placeholders that may hold a sentence or words of ours. All others quote what was sent, or a number."""

_PLACEHOLDER = re.compile(r"%\((\w+)\)s")


class Pattern:
    """A sentence with placeholders."""

    def __init__(self, english: str) -> None:
        self.english = english
        first, *rest = _PLACEHOLDER.split(english)
        self._names, self._literals = rest[::2], [first, *rest[1::2]]
        self.weight = sum(map(len, self._literals))

    def values(self, sentence: str) -> dict[str, str] | None:
        """Return what ``sentence`` has in place of each placeholder; None if it is another sentence.

        A regular expression could be made to search for very long; this takes one pass.
        """
        if not self._names:
            return {} if sentence == self.english else None
        first, *between, last = self._literals
        at, end = len(first), len(sentence) - len(last)
        if at > end or not sentence.startswith(first) or not sentence.endswith(last):
            return None
        found = {}
        for name, literal in zip(self._names, between, strict=False):
            here = sentence.find(literal, at, end)
            if here < 0:
                return None
            found[name], at = sentence[at:here], here + len(literal)
        found[self._names[-1]] = sentence[at:end]
        return found


def translated(sentence: str) -> str:
    """Return ``sentence`` in the active language; as it is if it is unknown, for instance another package's."""
    pattern, values = found_pattern(sentence)
    if pattern is None:
        return sentence
    told = {name: translated(value) if name in NESTED else value for name, value in values.items()}
    text = gettext(pattern.english)
    return text % told if told else text


def found_pattern(sentence: str) -> tuple[Pattern | None, dict[str, str]]:
    """Return the pattern that ``sentence`` was made from, and the values of its placeholders."""
    for pattern in _patterns():
        values = pattern.values(sentence)
        if values is not None:
            return pattern, values
    return None, {}


@cache
def _patterns() -> list[Pattern]:
    """Return all patterns; of two that fit a sentence the one that says more comes first."""
    return sorted(map(Pattern, SENTENCES), key=lambda pattern: -pattern.weight)
