"""The rows of a page in the admin, read whole only as far as the page can show them."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import QuerySet, Sum
from django.db.models.functions import Left
from django.utils.translation import gettext

from chatmemory.admin.display.message import LONGEST_SHOWN
from chatmemory.conf import setting
from chatmemory.database.reading import CHARS
from chatmemory.models import Message

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
