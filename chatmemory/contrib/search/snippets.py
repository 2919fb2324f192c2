"""The passage of a text that has most of what was searched for, and where to mark it."""

from __future__ import annotations

from collections import Counter

from chatmemory.contrib.search.query import Query, places
from chatmemory.contrib.search.tokenizer import Token, is_beginning, is_mark, root, sequence_tokens, tokens

_BEFORE = 30
_LONGEST_PART_OF_WORD = 20

Mark = tuple[int, int]


def snippet(text: str, query: Query, *, length: int = 160, related: bool = False) -> tuple[str, list[Mark]]:
    """Return a passage of at most ``length`` characters, with ``…`` where it is cut; and the marks in it.

    The marks are (start, end) in the passage, in order, and do not overlap. White space becomes one space.

    Args:
        text: what a message says.
        query: what was searched for.
        length: of the passage, in characters, without the ``…``.
        related: whether words match that begin alike, as in a search by relevance.
    """
    found = tokens(text)
    hits = _related_hits(found, query) if related else _exact_hits(found, query)
    hits += _phrase_hits(text, query.quoted if related else query.phrases)
    hits.sort(key=lambda hit: hit[:2])
    start, end = _passage(text, found, hits, length)
    return _one_line(text, start, end, hits)


# The place of a token or phrase, and what it counts as.
_Hit = tuple[int, int, str | tuple[str, ...]]


def _exact_hits(found: list[Token], query: Query) -> list[_Hit]:
    beginnings = [word for word in query.words if is_beginning(word)]
    if query.prefix is not None:
        beginnings.append(query.prefix)
    hits: list[_Hit] = [(start, end, text) for text, start, end in found if text in query.words]
    return hits + _hits_of_beginnings(found, beginnings)


def _related_hits(found: list[Token], query: Query) -> list[_Hit]:
    related = {root(term) or term for term in query.terms}
    beginnings = [term for term in query.terms if is_beginning(term)]
    hits: list[_Hit] = [(start, end, key) for text, start, end in found if (key := root(text) or text) in related]
    return hits + _hits_of_beginnings(found, beginnings)


def _hits_of_beginnings(found: list[Token], beginnings: list[str]) -> list[_Hit]:
    hits: list[_Hit] = []
    for number, (text, start, end) in enumerate(found if beginnings else ()):
        for beginning in beginnings:
            if text.startswith(beginning):
                if is_beginning(beginning) and not is_beginning(text):
                    end = found[number + 1].start  # of two characters the first
                hits.append((start, end, beginning))
    return hits


def _phrase_hits(text: str, phrases: tuple[tuple[str, ...], ...]) -> list[_Hit]:
    if not phrases:
        return []
    steps = sequence_tokens(text)
    texts = [step.text for step in steps]
    return [
        (steps[place].start, steps[place + len(phrase) - 1].end, phrase)
        for phrase in phrases
        for place in places(phrase, texts)
    ]


def _passage(text: str, found: list[Token], hits: list[_Hit], length: int) -> tuple[int, int]:
    """Return where the passage with most different hits is: the first of the best."""
    first, span = _best(hits, length)
    start = max(0, min(first - min(_BEFORE, max(0, length - span)), len(text) - length))
    if start > 0:
        start = _whole_from(text, found, start, first)
    end = min(len(text), start + length)
    if end < len(text):
        end = _whole_to(text, found, end, max(start + 1, first + span))
    return start, end


def _best(hits: list[_Hit], length: int) -> tuple[int, int]:
    """Return the start of the first hit, and the number of characters to the end of the last."""
    best, most = (0, 0), 0
    counts: Counter[str | tuple[str, ...]] = Counter()
    last = 0
    for start, end, key in hits:
        while last < len(hits) and (hits[last][1] - start <= length or hits[last][0] == start):
            counts[hits[last][2]] += 1
            last += 1
        if len(counts) > most:
            most = len(counts)
            best = start, max(end, hits[last - 1][1]) - start
        counts[key] -= 1
        if not counts[key]:
            del counts[key]
    return best


def _whole_from(text: str, found: list[Token], place: int, first: int) -> int:
    """Return the next place at which neither a word nor a character is cut, at most ``first``."""
    ends = [token.end for token in _cut_tokens(found, place) if token.end <= first]
    place = max(ends, default=place)
    while place < first and is_mark(text[place]):
        place += 1
    return place


def _whole_to(text: str, found: list[Token], place: int, last: int) -> int:
    """Return the place before at which neither a word nor a character is cut, at least ``last``."""
    starts = [token.start for token in _cut_tokens(found, place) if token.start >= last]
    place = min(starts, default=place)
    while place > last and is_mark(text[place]):
        place -= 1
    return place


def _cut_tokens(found: list[Token], place: int) -> list[Token]:
    return [
        token
        for token in found
        if token.start < place < token.end
        and token.end - token.start <= _LONGEST_PART_OF_WORD
        and not token.text.startswith("c")
    ]


def _one_line(text: str, start: int, end: int, hits: list[_Hit]) -> tuple[str, list[Mark]]:
    line = "…" if start > 0 else ""
    moved = [len(line)]
    for character in text[start:end]:
        if not character.isspace():
            line += character
        elif line not in ("", "…") and not line.endswith(" "):
            line += " "
        moved.append(len(line))
    line = line.rstrip(" ")
    marks: list[Mark] = []
    for hit_start, hit_end, _ in hits:
        if hit_start >= end or hit_end <= start:
            continue
        first, last = moved[max(hit_start, start) - start], min(moved[min(hit_end, end) - start], len(line))
        if marks and first < marks[-1][1]:
            marks[-1] = marks[-1][0], max(last, marks[-1][1])
        elif first < last:
            marks.append((first, last))
    return line + "…" * (end < len(text)), marks
