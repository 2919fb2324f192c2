"""A query: words, phrases and exclusions, read from one line of text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chatmemory.contrib.search.tokenizer import Token, fits, is_beginning, sequence, tokens
from chatmemory.core.exceptions import InvalidValueError

LONGEST_QUERY = 1000
"""In characters."""

MOST_TERMS = 64
"""Of a query with more tokens the first ones count."""


@dataclass(frozen=True)
class Query:
    """The tokens of a query.

    A token of one Chinese, Thai or similar character matches each token that begins with it: see ``tokenizer.fits``.
    """

    words: tuple[str, ...] = ()
    """For exact search: tokens that must be in the message. An identifier is its whole token."""

    phrases: tuple[tuple[str, ...], ...] = ()
    """For exact search: tokens that must follow each other, in quotes, or without a space (``北京大学``)."""

    quoted: tuple[tuple[str, ...], ...] = ()
    """What is in quotes, even one token. A search by relevance requires these, too."""

    excluded: tuple[tuple[str, ...], ...] = ()
    """Tokens that must not follow each other. One token alone must not be in the message."""

    prefix: str | None = None
    """For exact search while somebody types: the beginning of a token that must be there."""

    terms: tuple[str, ...] = ()
    """For a search by relevance: the tokens that count, of words, phrases, prefix, and parts of identifiers.

    Most words of Chinese have one or two characters, and a run does not say where they begin. So its pairs count, and
    each ideograph, too.
    """

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to find, even if something is excluded."""
        return not (self.words or self.phrases or self.prefix)


def parse(text: str, *, prefix: bool = False) -> Query:
    """Return the query: words, ``"phrases"`` and ``-exclusions``.

    Args:
        text: what somebody wrote. A quote that is not closed is a phrase to the end.
        prefix: whether the last word may be unfinished, unless there is a space or a quote after it.

    Raises:
        InvalidValueError: the text is longer than ``LONGEST_QUERY``.
    """
    if len(text) > LONGEST_QUERY:
        template = "has %(count)s characters; at most %(most)s are searched for"
        raise InvalidValueError(template, code="max_length", count=len(text), most=LONGEST_QUERY)
    text = unicodedata.normalize("NFKC", text)
    words: list[str] = []
    phrases: list[tuple[str, ...]] = []
    quoted: list[tuple[str, ...]] = []
    excluded: list[tuple[str, ...]] = []
    counted: list[list[Token]] = []
    unfinished: str | None = None
    room = MOST_TERMS
    for piece in _PIECE.finditer(text):
        word = piece["word"]
        part = piece["phrase"] if word is None else word
        units = _units(tokens(part))
        required = [_required(unit) for unit in units]
        if len(units) > 1 and (word is None or piece["no"]):
            required = [_without_last_character(sequence(part))]
        required = [some[: max(0, room - sum(map(len, required[:number])))] for number, some in enumerate(required)]
        required = [some for some in required if some]
        room -= sum(map(len, required))
        if piece["no"]:
            excluded += required
            continue
        counted += units
        if prefix and word is not None and required and piece.end() == len(text) and _reaches_end(units[-1], part):
            *others, last = required.pop()
            unfinished = last
            required += [tuple(others)] if others else []
        words += [some[0] for some in required if len(some) == 1]
        phrases += [some for some in required if len(some) > 1]
        quoted += [some for some in required if word is None]
    return Query(
        words=(*dict.fromkeys(words),),
        phrases=(*dict.fromkeys(phrases),),
        quoted=(*dict.fromkeys(quoted),),
        excluded=(*dict.fromkeys(excluded),),
        prefix=unfinished,
        terms=_counted(counted),
    )


def any_word(text: str) -> Query:
    """Return a query by relevance for the words of a text of any length. Quotes and hyphens have no meaning."""
    return Query(terms=_counted(_units(tokens(text))))


def places(phrase: Sequence[str], steps: Sequence[str]) -> Iterator[int]:
    """Yield the indexes at which a phrase begins among ``tokenizer.sequence`` of a text."""
    for start in range(len(steps) - len(phrase) + 1):
        if all(fits(wanted, steps[start + number]) for number, wanted in enumerate(phrase)):
            yield start


def has_phrase(phrase: Sequence[str], steps: Sequence[str]) -> bool:
    """Return whether the tokens of a phrase follow each other in ``tokenizer.sequence`` of a text.

    A token alone is looked for among ``tokenizer.token_texts``, because a name as a whole is not in a sequence.
    """
    return next(places(phrase, steps), None) is not None


# Between two Hebrew letters the ASCII quote is the sign of an abbreviation.
_ABBREVIATION = r"(?<=[\u05d0-\u05ea])\"(?=[\u05d0-\u05ea])"
_OPEN, _CLOSE = '"“”„‟«「『〝', '"“”»」』〞〟'
_PIECE = re.compile(
    rf"(?P<no>(?<!\S)-(?=[^\s-]))?"
    rf"(?:(?!{_ABBREVIATION})[{_OPEN}](?P<phrase>(?:{_ABBREVIATION}|[^{_CLOSE}])*)[{_CLOSE}]?"
    rf"|(?P<word>(?:{_ABBREVIATION}|[^\s{_OPEN}])+))"
)


_IDEOGRAPH = re.compile("c[\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003fffd]")


def _units(found: list[Token]) -> list[list[Token]]:
    """Return the tokens in groups: a name with its parts, or a run of characters."""
    units: list[list[Token]] = []
    end = 0
    for token in found:
        if units and token.start < end:
            units[-1].append(token)
        else:
            units.append([token])
        end = max(end, token.end)
    return units


def _counted(units: list[list[Token]]) -> tuple[str, ...]:
    """Return the terms of a search by relevance. Single ideographs come last, so that they are cut first."""
    terms = [term for unit in units for term in _terms(unit)]
    terms += [token.text[:2] for unit in units for token in unit if _IDEOGRAPH.match(token.text)]
    return (*dict.fromkeys(terms),)[:MOST_TERMS]


def _is_run(unit: list[Token]) -> bool:
    return unit[0].text[0] == "c"


def _reaches_end(unit: list[Token], part: str) -> bool:
    return max(token.end for token in unit) == len(part)


def _terms(unit: list[Token]) -> list[str]:
    return [token.text for token in (unit[:-1] or unit if _is_run(unit) else unit)]


def _required(unit: list[Token]) -> tuple[str, ...]:
    if _is_run(unit):
        return _without_last_character([token.text for token in unit])
    return (unit[0].text,)


def _without_last_character(steps: list[str]) -> tuple[str, ...]:
    """Return the tokens without a last character that the token before it has, too: more may follow it in a text."""
    if len(steps) > 1 and is_beginning(steps[-1]) and not is_beginning(steps[-2]) and steps[-2].startswith("c"):
        return tuple(steps[:-1])
    return tuple(steps)
