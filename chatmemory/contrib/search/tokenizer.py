"""The tokens of a text, in any script, without a dictionary or a language.

The first character of a token is its kind:

- ``w``: a word of letters. Accents and case are folded: ``Café`` is ``wcafe``.
- ``c``: two characters of a script without spaces between words (Chinese, Japanese, Thai, Lao, Khmer, Burmese), or of
  Hangul. ``北京大`` is ``c北京``, ``c京大`` and ``c大``: each character begins a token, so a query of one character
  finds the tokens that begin with it.
- ``n``: a number without separators.
- ``x``: a name as a whole: ``snake_case``, ``v2.3.1``, ``2024-01-31``, an address. Its parts are tokens, too.
- ``e``: an emoji.

The same text has the same tokens on each database. A newer version of Python may know more characters of Unicode.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

ROOT_LETTERS = 5
LONGEST_TOKEN = 64
"""In characters. Longer tokens are cut, in texts and in queries."""


class Token(NamedTuple):
    """A token, and where it is in the text, in code points."""

    text: str
    start: int
    end: int


def tokens(text: str) -> list[Token]:
    """Return the tokens in the order of their starts: names before their parts."""
    return _with_places(text, _SEARCH)


def token_texts(text: str) -> list[str]:
    """Return the texts of ``tokens(text)``, faster."""
    found: list[str] = []
    for chunk in _normal(text).split():
        word = chunk.strip(_NO_TOKENS)
        found += _texts_of_short(word) if len(word) <= _LONGEST_KEPT else _split(word)[_SEARCH].texts
    return found


def sequence(text: str) -> list[str]:
    """Return the tokens that follow each other: those of ``tokens`` without names as a whole, and without extra parts.

    Phrases are compared with these. ``my snake_case`` is ``wmy``, ``wsnake`` and ``wcase``.
    """
    found: list[str] = []
    for chunk in _normal(text).split():
        found += _tokens_of(chunk.strip(_NO_TOKENS))[_SEQUENCE].texts
    return found


def sequence_tokens(text: str) -> list[Token]:
    """Return ``sequence(text)`` with the places in the text."""
    return _with_places(text, _SEQUENCE)


def root(token: str) -> str | None:
    """Return the beginning that related tokens have in common; None if only the whole token is related.

    A word shorter than ``ROOT_LETTERS`` has no root, because ``cat`` is not related to ``category``.
    """
    if token[0] == "w":
        return token[: ROOT_LETTERS + 1] if len(token) > ROOT_LETTERS else None
    return token if is_beginning(token) else None


def is_beginning(token: str) -> bool:
    """Return whether the token is one character of a script of kind ``c``.

    Such a token of a query matches each token that begins with it, for each character of a text begins one.
    """
    return token[0] == "c" and _CHARACTER.fullmatch(token, 1) is not None


def fits(wanted: str, token: str) -> bool:
    """Return whether a token of a text matches one of a query."""
    return token == wanted or (token.startswith(wanted) and is_beginning(wanted))


def is_mark(character: str) -> bool:
    """Return whether the character belongs to the one before it."""
    return _MARK.fullmatch(character) is not None


# Where characters are


def _marks() -> str:
    """Return the characters that belong to the character before them, as the inside of a class."""
    blocks = (
        *((0x300, 0x1E00), (0x20D0, 0x2100), (0x2CE0, 0x2E00), (0x302A, 0x309B), (0xA660, 0xAC00), (0xFB1E, 0xFB1F)),
        *((0xFE00, 0xFE30), (0x10000, 0x12000), (0x16A00, 0x17000), (0x1BC00, 0x1BD00), (0x1CF00, 0x1D000)),
        *((0x1D100, 0x1E960), (0xE0100, 0xE01F0)),
    )
    codes = [code for first, end in blocks for code in range(first, end) if unicodedata.category(chr(code))[0] == "M"]
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


# Soft hyphens, joiners, spaces of no width and marks of direction: they may be anywhere in a word, and mean nothing.
_IGNORED = "\u00ad\u061c\u180e\u200b-\u200f\u2060\ufeff"
_VARIATIONS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_MARKS = _marks() + _IGNORED
# What NFKC may join with the character before it, without being a mark: vowels and final consonants of Hangul (also in
# their narrow forms), the narrow voice marks of katakana, vowels of Kirat Rai.
_JOINING = "\u1160-\u11ff\u314f-\u3163\u3187-\u318e\ud7b0-\ud7ff\uff9e-\uff9f\uffc2-\uffdc\U00016d63\U00016d67"
_LONELY = (  # scripts without spaces between words, and Hangul
    # Han, kana, bopomofo, Hangul
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3038-\u303c\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u312f"
    "\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\ua4cf\uf900-\ufaff\U00016fe0-\U0001b2ff"
    "\U00020000-\U0003fffd\u1100-\u11ff\ua960-\ua97f\uac00-\ud7ff"
    # Thai, Lao, Burmese, Khmer, Tai
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e80-\u0ecf\u0edc-\u0edf\u1000-\u103f\u1050-\u108f\u109a-\u109d\ua9e0-\ua9ef"
    "\ua9fa-\ua9fe\uaa60-\uaa7f\u1780-\u17d3\u17d7\u17dc-\u17dd\u1950-\u1974\u1980-\u19cf\u1a20-\u1a7c\uaa80-\uaadf"
)

# A letter modified to be an apostrophe separates words, as the others do.
_WORD = rf"[^\W_\u02bc{_LONELY}](?:[^\W_\u02bc{_LONELY}]|[{_MARKS}])*+"
# The time of 2024-01-31T12:30 is no part of the day. C++ and C# are not C.
_ATOM = rf"(?:\d\d(?=[Tt]\d\d:)|[A-Za-z](?:\+\+|#)(?!\w)|{_WORD})"
_TIGHT_JOINT = r"(?:[.‐-]|_+|(?<=\d),(?=\d))"
_LOOSE_JOINT = r"(?::(?:/{1,3}|\\{1,2}|:)?|->|[/\\]+\.?|[@?&=#%~+]|(?<=\d)[Tt](?=\d\d:))"
_PICTURE = (
    r"[\u2194-\u2199\u21a9\u21aa\u231a\u231b\u2328\u23cf\u23e9-\u23fa\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe"
    r"\u2600-\u27bf\u2934\u2935\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55\u3030\u303d\U0001f000-\U0001f0ff"
    r"\U0001f170-\U0001f1e5\U0001f200-\U0001f3fa\U0001f400-\U0001faff]"
)
_EMOJI = (
    r"[0-9#*]\ufe0f?\u20e3|[\U0001f1e6-\U0001f1ff]{1,2}|[\U0001f3fb-\U0001f3ff]"
    rf"|{_PICTURE}(?:[\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]|\u200d{_PICTURE})*+"
)

_CHUNK = re.compile(r"\S+")
_MAY_BE_FLOOD = re.compile(r"[^\x00-\x7f]{31}")
_FLOOD = re.compile(rf"([{_MARKS}{_JOINING}]{{30}})[{_MARKS}{_JOINING}]+")
_CLUSTER = re.compile(rf"[\x00-\x7f]+(?![{_MARKS}{_JOINING}])|.[{_MARKS}{_JOINING}]*|.", re.DOTALL)
_UNIT = re.compile(
    rf"(?P<emoji>{_EMOJI})|(?P<run>[{_LONELY}][{_LONELY}{_MARKS}]*+)"
    rf"|(?P<name>{_ATOM}(?:(?:{_TIGHT_JOINT}|{_LOOSE_JOINT}){_ATOM})*+)"
)
_MARK = re.compile(rf"[{_MARKS}]")
_CHARACTER = re.compile(rf"[^{_MARKS}][{_MARKS}]*+|[{_MARKS}]+")
_TIGHT_NAME = re.compile(rf"{_LOOSE_JOINT}?({_ATOM}(?:{_TIGHT_JOINT}{_ATOM})*+)")
_ONE_ATOM = re.compile(_ATOM)
# An address is the same without its beginning, and people search for it so.
_SCHEME = re.compile(r"(?:https?://)?(?:www\.(?=[^.]+\.))?", re.IGNORECASE)
_HUMP = re.compile(r"[A-Z]{2,}(?=s?(?![A-Za-z]))|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
# The parts of iPhone15 are words; those of b2b, or of half a UUID, are not.
_LETTERS_AND_DIGITS = re.compile(r"(?:\d++|[^\W\d]{2,}+)++")
_DIGITS_OR_NOT = re.compile(r"\d+|\D+")


# The same text in other forms


def _normal(text: str) -> str:
    if text.isascii():
        return text
    # So many marks on one character are no text, and to put them in order takes quadratic time.
    if _MAY_BE_FLOOD.search(text):
        text = _FLOOD.sub(r"\1", text)
    return unicodedata.normalize("NFKC", text)


def _normal_with_starts(text: str) -> tuple[str, list[int] | None]:
    """Return the normal text, and where its characters are in the text, with its end; None if they are in place."""
    normal = _normal(text)
    if normal == text:
        return text, None
    pieces: list[str] = []
    starts: list[int] = []
    for cluster in _CLUSTER.finditer(text):
        pieces.append(piece := _normal(cluster.group()))
        if piece == cluster.group():
            starts += range(cluster.start(), cluster.end())
        else:
            starts += [cluster.start()] * len(piece)
    return "".join(pieces), [*starts, len(text)]


def _with_places(text: str, purpose: int) -> list[Token]:
    normal, starts = _normal_with_starts(text)
    found = [
        Token(token, chunk.start() + start, chunk.start() + end)
        for chunk in _CHUNK.finditer(normal)
        for token, start, end in zip(*_tokens_of(chunk.group())[purpose], strict=True)
    ]
    return found if starts is None else [_moved(token, starts) for token in found]


def _moved(token: Token, starts: list[int]) -> Token:
    start = starts[token.start]
    # The end is where the next character begins that is not part of the same one in the text.
    last = starts[token.end - 1]
    end = token.end
    while starts[end] == last and end < len(starts) - 1:
        end += 1
    return Token(token.text, start, starts[end])


# Letters that are others with a mark, but that Unicode does not take apart, and letters that keyboards exchange.
_SAME = str.maketrans(
    {"ł": "l", "đ": "d", "ø": "o", "ħ": "h", "ı": "i", "ŧ": "t", "æ": "ae", "œ": "oe", "ى": "ي", "ی": "ي", "ک": "ك"}
    | {"ة": "ه", "‐": "-"}
    # Both say that a vowel is nasal, and which one is written differs from person to person.
    | {"ँ": "ं"}
)
_DROPPED = re.compile(
    # Accents. Not of й, ў and ї: they are other letters than и, у and і, have keys of their own, and nobody writes one
    # for the other. But most people write е for ё.
    rf"[\u0300-\u0305\u0307\u0309-\u036f\u20d0-\u20ff\ufe20-\ufe2f\u1ab0-\u1aff\u1dc0-\u1dff{_VARIATIONS}{_IGNORED}]"
    r"|(?<![иуИУ])\u0306|(?<![іІ])\u0308|[\u0483-\u0489]"
    # The dots that Devanagari has for foreign sounds, which many people leave out. ड़ and ढ़ are never without theirs.
    r"|(?<=[कखगजफ])\u093c"
    # Points of Hebrew and Syriac; vowels and the long line of Arabic.
    r"|[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0730-\u074a]"
    r"|[\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u08d3-\u08ff]"
)
_MEANINGLESS = re.compile(rf"[{_VARIATIONS}{_IGNORED}]+")
_DECIMAL = re.compile(r"[^\W0-9]")


def _folded(word: str) -> str:
    """Return a word, or a name as a whole, in the form in which all its spellings are the same."""
    word = word[: 4 * LONGEST_TOKEN]  # so a long one is not folded whole
    if word.isascii():
        return word.lower()
    bare = _DROPPED.sub("", unicodedata.normalize("NFKD", word)).casefold()
    bare = _DROPPED.sub("", unicodedata.normalize("NFKD", bare)).translate(_SAME)
    return _DECIMAL.sub(_ascii_digit, unicodedata.normalize("NFC", bare))


def _ascii_digit(match: re.Match[str]) -> str:
    digit = unicodedata.decimal(match.group(), None)
    return match.group() if digit is None else str(digit)


# The tokens of a chunk: of what is between spaces


class _Tokens(NamedTuple):
    texts: tuple[str, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]


_Chunk = tuple[_Tokens, _Tokens]
_SEARCH, _SEQUENCE = 0, 1
"""What the two are for."""

_LONGEST_KEPT = 40
_NO_TOKENS = ".,!?;()[]{}<>|`\"'“”‘’"
"""Characters that change nothing at the ends of a chunk: without them more chunks are the same."""


def _tokens_of(chunk: str) -> _Chunk:
    # Text without spaces is one long chunk, which never comes again.
    return _tokens_of_short(chunk) if len(chunk) <= _LONGEST_KEPT else _split(chunk)


@lru_cache(maxsize=8_192)
def _tokens_of_short(chunk: str) -> _Chunk:
    return _split(chunk)


@lru_cache(maxsize=8_192)
def _texts_of_short(word: str) -> tuple[str, ...]:
    return (_plain(word),) if _is_plain(word) else _split(word)[_SEARCH].texts


def _is_plain(word: str) -> bool:
    return word.isalpha() and word.isascii() and (word.islower() or word[1:].islower())


def _plain(word: str) -> str:
    return f"w{word.lower()}"[:LONGEST_TOKEN]


def _split(chunk: str) -> _Chunk:
    word = chunk.strip(_NO_TOKENS)
    if _is_plain(word):
        start = chunk.index(word)
        plain = _Tokens((_plain(word),), (start,), (start + len(word),))
        return plain, plain
    found = [(token[:LONGEST_TOKEN], start, end, follows) for token, start, end, follows in _found(chunk)]
    return _columns(found), _columns([token for token in found if token[3]])


def _columns(found: list[tuple[str, int, int, bool]]) -> _Tokens:
    return _Tokens(
        tuple(text for text, _, _, _ in found),
        tuple(start for _, start, _, _ in found),
        tuple(end for _, _, end, _ in found),
    )


# A token, its start and end, and whether it is one of ``sequence``.
_Found = Iterator[tuple[str, int, int, bool]]


def _found(chunk: str) -> _Found:
    for unit in _UNIT.finditer(chunk):
        if unit.lastgroup == "name":
            yield from _of_name(chunk, unit.start(), unit.end())
        elif unit.lastgroup == "run":
            yield from _of_run(unit)
        else:
            yield "e" + re.sub("[\ufe0e\ufe0f]", "", unit.group()), unit.start(), unit.end(), True


def _of_run(run: re.Match[str]) -> _Found:
    characters = [
        (bare, run.start() + match.start(), run.start() + match.end())
        for match in _CHARACTER.finditer(run.group())
        if (bare := _MEANINGLESS.sub("", match.group()))
    ]
    for (character, start, _), (following, _, end) in pairwise(characters):
        yield f"c{character}{following}", start, end, True
    if characters:
        character, start, end = characters[-1]
        yield f"c{character}", start, end, True


def _of_name(chunk: str, start: int, end: int) -> _Found:
    names = [*_TIGHT_NAME.finditer(chunk, start, end)]
    if len(names) > 1:
        yield _whole_name(chunk, start, end)
    for name in names:
        atoms = [*_ONE_ATOM.finditer(chunk, *name.span(1))]
        if len(atoms) > 1:
            yield _whole_name(chunk, *name.span(1))
        for atom in atoms:
            yield from _of_atom(atom)


def _whole_name(chunk: str, start: int, end: int) -> tuple[str, int, int, bool]:
    scheme = _SCHEME.match(chunk, start, end)
    return "x" + _folded(chunk[scheme.end() if scheme else start : end]), start, end, False


def _of_atom(atom: re.Match[str]) -> _Found:
    whole, start = atom.group(), atom.start()
    text = _folded(whole)
    if not text:
        return
    has_digits, has_letters = any(map(str.isdecimal, text)), not text.isdecimal()
    kind = "x" if text[-1] in "+#" or (has_digits and has_letters) else "n" if has_digits else "w"
    yield kind + text, start, atom.end(), True
    if len(whole) > LONGEST_TOKEN or not (_LETTERS_AND_DIGITS.fullmatch(whole) if kind == "x" else whole.isascii()):
        return
    for part in _DIGITS_OR_NOT.finditer(whole):
        place = start + part.start()
        if kind == "x":
            part_kind = "n" if part.group().isdecimal() else "w"
            yield part_kind + _folded(part.group()), place, start + part.end(), False
        humps = [*_HUMP.finditer(part.group())] if part.group().isascii() else []
        for hump in humps if len(humps) > 1 else ():
            if len(hump.group()) > 1:
                yield "w" + hump.group().lower(), place + hump.start(), place + hump.end(), False
