"""Arithmetic on all documents of a search at once.

A number for each document is stored in *planes*: plane 0 contains bit 0 of each number, plane 1 contains bit 1, and so
on. A plane is an integer with one bit for each document, so an operation on a plane is an operation on all documents,
and a search in a million messages takes some hundred of them. All results are exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Planes = list[int]


def add(left: Sequence[int], right: Sequence[int]) -> Planes:
    """Return the sums of the numbers of the documents."""
    if len(left) < len(right):
        left, right = right, left
    total: Planes = []
    carry = 0
    for index, a in enumerate(left):
        if index < len(right):
            b = right[index]
            either = a ^ b
            total.append(either ^ carry)
            carry = (a & b) | (carry & either)
        elif carry:
            total.append(a ^ carry)
            carry &= a
        else:
            total.extend(left[index:])
            break
    if carry:
        total.append(carry)
    return total


def constant(number: int, documents: int) -> Planes:
    """Return planes in which some documents have a number, and the others 0.

    Args:
        number: the number, at least 0.
        documents: the documents, as a bitmap.
    """
    return [documents if number >> bit & 1 else 0 for bit in range(number.bit_length())]


def multiply(left: Sequence[int], right: Sequence[int]) -> Planes:
    """Return the products of the numbers of the documents."""
    total: Planes = []
    for bit, factor in enumerate(right):
        if factor:
            total = add(total, [0] * bit + [plane & factor for plane in left])
    return total


def times(number: int, planes: Sequence[int]) -> Planes:
    """Return the numbers of the documents, multiplied by a number of at least 1."""
    total: Planes = []
    for bit in range(number.bit_length()):
        if number >> bit & 1:
            total = add(total, [0] * bit + list(planes))
    return total


def earlier(planes: Sequence[int]) -> Planes:
    """Return for each document the number of the document before it."""
    return [plane << 1 for plane in planes]


def later(planes: Sequence[int]) -> Planes:
    """Return for each document the number of the document after it."""
    return [plane >> 1 for plane in planes]


def restrict(planes: Sequence[int], documents: int) -> Planes:
    """Return the numbers of some documents, and 0 for the others."""
    return [plane & documents for plane in planes]


def join(left: Sequence[int], right: Sequence[int]) -> Planes:
    """Return the numbers of documents of which none has two."""
    if len(left) < len(right):
        left, right = right, left
    return [plane | right[bit] if bit < len(right) else plane for bit, plane in enumerate(left)]


def split(planes: Sequence[int], documents: int) -> Planes:
    """Return the documents with the number 0, with the number 1, and so on."""
    found = [documents]
    for plane in reversed(planes):
        found = [part for both in found for part in (both & ~plane, both & plane)]
    return found


def compare(planes: Sequence[int], number: int, documents: int) -> tuple[int, int]:
    """Return the documents whose numbers are less than ``number``, and those whose numbers are equal."""
    less, equal = 0, documents
    for bit in reversed(range(max(len(planes), number.bit_length()))):
        plane = planes[bit] if bit < len(planes) else 0
        if number >> bit & 1:
            less |= equal & ~plane
            equal &= plane
        else:
            equal &= ~plane
    return less, equal


def nonzero(planes: Iterable[int]) -> int:
    """Return the documents whose numbers are not 0."""
    found = 0
    for plane in planes:
        found |= plane
    return found


def greatest(planes: Sequence[int], most: int) -> int:
    """Return the documents with the greatest numbers, at most ``most``. Equal numbers: the last documents.

    Documents with the number 0 are not returned.
    """
    chosen, open_ = 0, nonzero(planes)
    room = most
    for plane in reversed(planes):
        larger = open_ & plane
        count = larger.bit_count()
        if count > room:
            open_ = larger
        else:
            chosen |= larger
            open_ ^= larger
            room -= count
    return chosen | last(open_, room)


def last(documents: int, most: int) -> int:
    """Return the last documents of a bitmap, at most ``most``."""
    low, high = 0, documents.bit_length()
    while low < high:  # the least number of bits to drop so that at most ``most`` are left
        middle = (low + high) // 2
        if (documents >> middle).bit_count() > most:
            low = middle + 1
        else:
            high = middle
    return documents >> low << low


def number_at(planes: Sequence[int], document: int) -> int:
    """Return the number of one document."""
    return sum((plane >> document & 1) << bit for bit, plane in enumerate(planes))
