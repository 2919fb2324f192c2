"""The rows of a page, read whole only as far as it can show them; or the passage around what was searched for.

The database cuts it out, so that a long text is not read to show a line of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import QuerySet, Sum, Value
from django.db.models.functions import Greatest, Left, StrIndex, Substr, Upper
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from chatmemory.admin.display.message import LONGEST_SHOWN
from chatmemory.conf import setting
from chatmemory.database.reading import CHARS
from chatmemory.models import Message

_BEFORE = 30
_LENGTH = 200
_LONGEST_PART_OF_WORD = 15


def with_passages(rows: QuerySet[Message], wanted: Sequence[str]) -> QuerySet[Message]:
    """Return the rows with what ``passage`` needs of their texts, which are not read."""
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
        row: one of ``with_passages``, with the same words.
        wanted: the words that were searched for.
    """
    pieces: list[str] = []
    end, is_begun, goes_on = 0, False, False
    for hit, cut in sorted((getattr(row, f"hit_{n}"), getattr(row, f"cut_{n}")) for n in range(len(wanted))):
        if not hit or hit <= end:
            continue
        start, text = max(1, hit - _BEFORE), cut[:_LENGTH]
        if start <= end:
            pieces[-1] += text[end + 1 - start :]
        else:
            # It begins with a whole word where words have spaces between them.
            part_of_word = re.match(r"\S*\s", text[: min(hit - start, _LONGEST_PART_OF_WORD)]) if start > 1 else None
            pieces.append(text[part_of_word.end() :] if part_of_word else text)
            is_begun = is_begun or (start > 1 and len(pieces) == 1)
        end, goes_on = start + _LENGTH - 1, len(cut) > _LENGTH
    if not pieces:
        return None
    line = " … ".join(" ".join(piece.split()) for piece in pieces)
    return marked(f"{'…' * is_begun}{line}{'…' * goes_on}", wanted)


def beginning(row: Message) -> SafeString:
    """Return the beginning of a row's text that has none of the words as they were typed: ``passage`` is None.

    Args:
        row: one of ``with_passages``.
    """
    text: str = getattr(row, "cut_0")  # noqa: B009
    return format_html("{}{}", " ".join(text[:_LENGTH].split()), "…" * (len(text) > _LENGTH))


def marked(text: str, wanted: Sequence[str]) -> SafeString:
    """Return a text as HTML, with the words marked."""
    words = sorted({" ".join(word.split()) for word in wanted} - {""}, key=len, reverse=True)
    if not words:
        return format_html("{}", text)
    pieces = re.split(f"({'|'.join(map(re.escape, words))})", text, flags=re.IGNORECASE)
    # The hits are the pieces at odd places.
    return format_html_join("", "{}<mark>{}</mark>", zip(pieces[::2], pieces[1::2], strict=False)) + conditional_escape(
        pieces[-1]
    )


_MOST_RANGES = 4


def position_ranges(positions: Iterable[int]) -> str:
    """Return positions as ranges: ``0, 155–175``. Of more than four only the last four are there, after ``…``."""
    ranges: list[tuple[int, int]] = []
    for position in sorted(set(positions)):
        if ranges and ranges[-1][1] == position - 1:
            ranges[-1] = ranges[-1][0], position
        else:
            ranges.append((position, position))
    said = [str(first) if first == last else f"{first}–{last}" for first, last in ranges]
    return gettext(", ").join(said if len(said) <= _MOST_RANGES else ["…", *said[-_MOST_RANGES:]])


_MOST_CHARS_READ = 4_000_000


def are_too_long(rows: QuerySet[Message]) -> bool:
    """Return whether the rows together have more than ``MAX_MEMORY_CHARS`` characters."""
    chars = rows.order_by().aggregate(chars=Sum(CHARS))["chars"] or 0
    return bool(chars > setting("MAX_MEMORY_CHARS"))


def without_text(rows: QuerySet[Message]) -> QuerySet[Message]:
    """Return the rows without what they say."""
    return rows.defer("text", "payload", "native")


def read_bounded(rows: QuerySet[Message], *, with_text: bool, first: int | None = None) -> list[Message]:
    """Read rows of one conversation, in their order.

    Rows are read whole, the shortest first, until they have enough characters for a page. Of the others only the
    ``beginning`` of the text is read, and the number of ``chars``.

    Args:
        rows: the rows of a page.
        with_text: whether this reader may read what they say; otherwise nothing of it is read.
        first: the position of the row that is read whole in any case.
    """
    if not with_text:
        return list(without_text(rows))
    light = list(without_text(rows).annotate(chars=CHARS))
    left = _MOST_CHARS_READ
    whole = []
    for row in sorted(light, key=lambda row: (row.position != first, row.chars)):
        left -= row.chars
        if left < 0 and row.position != first:
            break
        whole.append(row.pk)
    found = {row.pk: row for row in rows.defer("native").filter(pk__in=whole)}
    cut = without_text(rows).filter(pk__in={row.pk for row in light} - set(whole))
    found |= {row.pk: row for row in cut.annotate(beginning=Left("text", LONGEST_SHOWN), chars=CHARS)}
    return [found[row.pk] for row in light if row.pk in found]
