"""A message as the parts that a page shows one below the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from django.utils.translation import gettext, ngettext

from chatmemory.admin.display.gauge import grouped
from chatmemory.admin.display.message_parts import MediaPlaceholder, Part, Passage, ToolCall, parts_of, short
from chatmemory.core.messages import ChatMessageType, ToolExecutionResultMessage, UserMessage
from chatmemory.core.summaries import summary_text
from chatmemory.models import Message, Origin

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

__all__ = ["LONGEST_SHOWN", "UNREADABLE", "ShownMessage", "most_chars", "shown", "unreadable"]

UNREADABLE = (TypeError, ValueError)
"""Exceptions raised by reading a row that was written outside this app."""

_LONGEST_EXCERPT = 160
_MOST_CALLS = 10

_ROLE_CLASSES = {ChatMessageType.TOOL_EXECUTION_RESULT.value: "tool"}

LONGEST_SHOWN = 20_000
"""The most characters that a page with several messages shows of one."""

_MOST_CHARS_OF_A_PAGE = 1_000_000
_FEWEST_CHARS = 1000
_MOST_PARTS = 100


@dataclass(frozen=True, kw_only=True)
class ShownMessage:
    """A row, and what it says."""

    row: Message
    role: StrOrPromise

    parts: list[Part]

    name: str = ""
    """The name of the user or of the tool, if it has one."""

    call_id: str = ""
    """The ID of the tool call that this answers."""

    is_error: bool = False
    """Whether the tool failed."""

    problem: str = ""
    """The reason why the row cannot be read; empty if it can."""

    is_hidden: bool = False
    """Whether this reader may not read its text."""

    is_cut: bool = False
    """Whether only a part of it is shown."""

    left_out: int = 0
    """Number of characters that are not shown."""

    @property
    def role_class(self) -> str:
        """The class of an element that has the colour of who speaks, as ``roles.css`` names it."""
        kind = self.row.type
        return f"chatmemory-role-{_ROLE_CLASSES.get(kind, kind.lower())}"

    @cached_property
    def size(self) -> str:
        """Its tokens in words, which a folded row says twice."""
        tokens = self.row.token_count
        return ngettext("%(tokens)s token", "%(tokens)s tokens", tokens) % {"tokens": grouped(tokens)}

    @cached_property
    def calls(self) -> list[str]:
        """The tool calls that it asks for, each in one line; the first few of many, and "…"."""
        lines = [part.line for part in self.parts if isinstance(part, ToolCall)]
        return lines if len(lines) <= _MOST_CALLS else [*lines[:_MOST_CALLS], "…"]

    @cached_property
    def beginning(self) -> str:
        """The beginning of its text; without a text, its media."""
        if self.is_hidden:
            return ""
        text = said_by(self.row).lstrip()
        if text and self.row.origin == Origin.SUMMARY:
            text = summary_text(UserMessage(text))
        if text:
            start = " ".join(text[:_LONGEST_EXCERPT].split())
            return f"{start}…" if len(text) > _LONGEST_EXCERPT else start
        return ", ".join(str(part.kind) for part in self.parts if isinstance(part, MediaPlaceholder))

    @property
    def excerpt(self) -> str:
        """The beginning of its text; without a text, its tool calls or media."""
        if self.calls and not self.beginning:
            return gettext("Calls %(tools)s") % {"tools": ", ".join(self.calls)}
        return self.beginning


def most_chars(messages: int) -> int:
    """Return the number of characters to show of each message on a page of ``messages`` messages."""
    return max(_FEWEST_CHARS, min(LONGEST_SHOWN, _MOST_CHARS_OF_A_PAGE // max(1, messages)))


def shown(row: Message, *, with_text: bool = True, most: int | None = LONGEST_SHOWN) -> ShownMessage:
    """Return a row as it is shown. One that cannot be read has its ``problem`` instead of an exception.

    Args:
        row: read without its text if that must not be shown.
        with_text: whether this reader may read what it says.
        most: characters to show; None for all of them.
    """
    role = row.get_type_display()
    if not with_text:
        return ShownMessage(row=row, role=role, parts=[], is_hidden=True)
    if "text" not in row.__dict__:  # it is too long to be read on this page
        beginning = said_by(row) if most is None else said_by(row)[:most]
        parts: list[Part] = [Passage(text=beginning)] if beginning else []
        left_out = row.chars - len(beginning)  # type: ignore[attr-defined]
        return ShownMessage(row=row, role=role, parts=parts, is_cut=True, left_out=left_out)
    try:
        message = row.message
    except UNREADABLE as error:
        return _cut(ShownMessage(row=row, role=role, parts=[Passage(text=row.text)], problem=short(str(error))), most)
    whole = ShownMessage(row=row, role=role, parts=list(parts_of(message)))
    match message:
        case UserMessage():
            whole = replace(whole, name=short(message.name))
        case ToolExecutionResultMessage():
            whole = replace(
                whole,
                name=short(message.tool_name),
                call_id=short(message.id),
                is_error=bool(message.is_error),
            )
    return _cut(whole, most)


def said_by(row: Message) -> str:
    """Return the text of a row, or as much of it as was read."""
    return row.text if "text" in row.__dict__ else getattr(row, "beginning", "")


def _cut(message: ShownMessage, most: int | None) -> ShownMessage:
    total = sum(part.chars for part in message.parts)
    if most is None or (total <= most and len(message.parts) <= _MOST_PARTS):
        return message
    parts, left = [], most
    for part in islice(message.parts, _MOST_PARTS):
        # What a long answer calls is said in any case.
        if left > 0 or isinstance(part, ToolCall):
            parts.append(part.within(left))
            left -= parts[-1].chars
    return replace(message, parts=parts, is_cut=True, left_out=total - (most - left))


def unreadable(rows: Iterable[Message]) -> list[int]:
    """Return the positions of the rows that cannot be read."""
    found = []
    for row in rows:
        try:
            row.message  # noqa: B018
        except UNREADABLE:
            found.append(row.position)
    return found
