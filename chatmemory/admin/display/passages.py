"""The passage of a text around what was searched for, with the words marked.

The database cuts it out, so that a long text is not read to show a line of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet, Value
from django.db.models.functions import Greatest, StrIndex, Substr, Upper
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from chatmemory.models import Message

_BEFORE = 30
_LENGTH = 200
_LONGEST_PART_OF_WORD = 15


@dataclass(kw_only=True)
class _Piece:
    text: str

    before: int
    """The number of characters before the first word that was searched for."""

    is_begun: bool
    """Whether there is text before the piece."""

    goes_on: bool = False
    """Whether there is text after it."""

    @property
    def line(self) -> str:
        """The piece on one line, which begins with a whole word where words have spaces between them."""
        text = self.text
        part_of_word = re.match(r"\S*\s", text[: min(self.before, _LONGEST_PART_OF_WORD)])
        if self.is_begun and part_of_word:
            text = text[part_of_word.end() :]
        return f"{'…' * self.is_begun}{' '.join(text.split())}{'…' * self.goes_on}"


def with_passages(rows: QuerySet[Message], wanted: Sequence[str]) -> QuerySet[Message]:
    """Return the rows with what :func:`passage` needs of their texts, which are not read."""
    cut: dict[str, Any] = {}
    for number, word in enumerate(wanted):
        # As icontains compares. Where a database sees more than one way to write a word as the same, it finds more.
        hit = StrIndex(Upper("text"), Upper(Value(word)))
        cut[f"hit_{number}"] = hit
        # One character more than is shown, to know whether there are more.
        cut[f"cut_{number}"] = Substr("text", Greatest(hit - _BEFORE, Value(1)), _LENGTH + 1)
    return rows.defer("text", "payload", "native").annotate(**cut)


def passage(row: Message, wanted: Sequence[str]) -> SafeString | None:
    """Return the parts of a row's text that have the words, in their order, marked; None if it has none of them.

    Args:
        row: one of :func:`with_passages`, with the same words.
        wanted: the words that were searched for.
    """
    pieces: list[_Piece] = []
    end = 0
    for hit, cut in sorted((getattr(row, f"hit_{n}"), getattr(row, f"cut_{n}")) for n in range(len(wanted))):
        if not hit or hit <= end:
            continue
        start = max(1, hit - _BEFORE)
        if start <= end:
            pieces[-1].text += cut[end + 1 - start : _LENGTH]
        else:
            pieces.append(_Piece(text=cut[:_LENGTH], before=hit - start, is_begun=start > 1))
        pieces[-1].goes_on = len(cut) > _LENGTH
        end = start + _LENGTH - 1
    return marked(" ".join(piece.line for piece in pieces).replace("… …", " … "), wanted) if pieces else None


def marked(text: str, wanted: Sequence[str]) -> SafeString:
    """Return a text as HTML, with the words marked."""
    words = sorted({" ".join(word.split()) for word in wanted} - {""}, key=len, reverse=True)
    if not words:
        return format_html("{}", text)
    pieces = re.split(f"({'|'.join(map(re.escape, words))})", text, flags=re.IGNORECASE)
    return format_html_join("", "{}{}", ((piece, _mark(hit)) for piece, hit in _pairs(pieces)))


def _pairs(pieces: list[str]) -> list[tuple[str, str]]:
    return list(zip(pieces[::2], [*pieces[1::2], ""], strict=True))


def _mark(hit: str) -> str:
    return format_html("<mark>{}</mark>", hit) if hit else ""
