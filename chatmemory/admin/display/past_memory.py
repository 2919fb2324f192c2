"""A past memory as a page shows it: its messages, the answer made from it, and what it had no longer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import islice
from typing import Any

from django.db.models import Max, Min
from django.db.models.functions import MD5
from django.http import QueryDict
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from chatmemory.admin.display.memory_map import Gauge, MemoryMap
from chatmemory.admin.display.memory_view import with_brief_front
from chatmemory.admin.display.message import UNREADABLE, lay_out, shown
from chatmemory.admin.display.passages import are_too_long, position_ranges, read_bounded, without_text
from chatmemory.admin.display.timeline import MOST_SHOWN, TimelineEntry, last_position, memory_entries
from chatmemory.core.arguments import whole_number
from chatmemory.core.json_text import dumps
from chatmemory.database.reading import (
    ANSWERS,
    fresh_rows,
    fresh_rows_of_request,
    is_answer,
    lost_with_answer,
    prefix_version_at,
    request_before,
)
from chatmemory.formats import UnsupportedContentError
from chatmemory.formats.registry import message_formats
from chatmemory.models import MAX_LIMIT, Conversation, Message, MessageQuerySet, Origin
from chatmemory.models.branch import NOTHING, BranchTree

_NO_VERSION = _("Version: there is no version {asked}. The versions are 0 to {last}.")
_AGAINST_NO_VERSION = _("Compare with version: there is no version {asked}. The versions are 0 to {last}.")
_NO_MESSAGE = _("After message #: there is no message {asked}. The messages are 0 to {last}.")
_NO_ANSWER = _("Before answer #: there is no message {asked}. The messages are 0 to {last}.")
_NOTHING_SAID = _("No messages were said yet.")
_NOT_THE_MODELS = _("Before answer #: message {asked} is not an answer of the model. It is of the type: {type}.")

_LONGEST_ECHO = 20


@dataclass(frozen=True, kw_only=True)
class AskedMemory:
    """A memory of the past: that of a version, or the one that an answer was made from."""

    conversation: Conversation

    version: int
    """The version; before an answer, the last version that the answer's request knew."""

    answer: Message | None = None
    """The answer whose request is asked for, without its text; None if a version is."""

    after: int | None = None
    """The position of the last message that had been added."""

    problem: Any = None
    """The mistake in the address, for which the memory now is shown instead; None if there is none."""

    instead: int | None = None
    """The position of a message that is no answer, after which the memory can be shown."""

    @classmethod
    def of(cls, conversation: Conversation, query: QueryDict) -> AskedMemory:
        """Return what ``?answer=``, ``?message=`` (positions) or ``?version=`` ask for; by default the memory now."""
        if answer := query.get("answer", ""):
            return cls._before_answer(conversation, answer)
        if message := query.get("message", ""):
            row = _row_at(conversation, message)
            if row is None:
                return cls._now(conversation, _no_message(conversation, _NO_MESSAGE, message))
            return cls.at(conversation, row.added_in)
        version, problem = asked_version(conversation, query.get("version", ""), _NO_VERSION)
        return cls._now(conversation, problem) if version is None else cls.at(conversation, version)

    @classmethod
    def _before_answer(cls, conversation: Conversation, asked: str) -> AskedMemory:
        row = _row_at(conversation, asked)
        if row is None:
            return cls._now(conversation, _no_message(conversation, _NO_ANSWER, asked))
        if not is_answer(row):
            problem = format_lazy(_NOT_THE_MODELS, asked=row.position, type=row.get_type_display())
            return cls._now(conversation, problem, instead=row.position)
        return cls(conversation=conversation, version=row.added_in - 1, answer=row, after=row.position - 1)

    @classmethod
    def _now(cls, conversation: Conversation, problem: Any, instead: int | None = None) -> AskedMemory:
        return replace(cls.at(conversation, conversation.version), problem=problem, instead=instead)

    @classmethod
    def at(cls, conversation: Conversation, version: int) -> AskedMemory:
        """Return the memory at a version that there is."""
        return cls(conversation=conversation, version=version, after=last_position(conversation, version))

    @property
    def is_now(self) -> bool:
        """Whether it is the memory as it is now."""
        return self.answer is None and self.version == self.conversation.version

    @property
    def query(self) -> tuple[str, int]:
        """The name and the value of the parameter that asks for it."""
        return ("version", self.version) if self.answer is None else ("answer", self.answer.position)

    def end(self, branches: BranchTree) -> int:
        """Return the last position on its branch that had been added before, or ``NOTHING``."""
        if self.answer is not None:
            return branches.before(self.answer.position)
        after = NOTHING if self.after is None else self.after
        latest = [branch for branch in branches.branches if branch.version <= self.version][-1]
        return after if after >= latest.start else latest.follows

    @property
    def file_name(self) -> str:
        """The name of its file, without a format."""
        name = f"version-{self.version}" if self.answer is None else f"before-message-{self.answer.position}"
        return f"conversation-{self.conversation.pk}-{name}"

    def rows(self) -> MessageQuerySet:
        """Return its rows, in memory order."""
        if self.answer is not None:
            return request_before(self.answer)
        messages: MessageQuerySet = self.conversation.messages.all()
        return messages.retained() if self.is_now else messages.in_memory_at(self.version)


def asked_version(conversation: Conversation, asked: str, no_such: Any = _AGAINST_NO_VERSION) -> tuple[int | None, Any]:
    """Return the version that ``asked`` writes, by default the last, or None and what is wrong with it."""
    if not asked:
        return conversation.version, None
    version = whole_number(asked, most=conversation.version)
    return version, format_lazy(no_such, asked=_echo(asked), last=conversation.version) if version is None else None


def _row_at(conversation: Conversation, asked: str) -> Message | None:
    position = whole_number(asked, most=MAX_LIMIT)
    return None if position is None else without_text(conversation.messages.filter(position=position)).first()


def _no_message(conversation: Conversation, no_such: Any, asked: str) -> Any:
    if not conversation.next_position:
        return _NOTHING_SAID
    return format_lazy(no_such, asked=_echo(asked), last=conversation.next_position - 1)


def _echo(asked: str) -> str:
    return asked if len(asked) <= _LONGEST_ECHO else f"{asked[:_LONGEST_ECHO]}…"


@dataclass(frozen=True, kw_only=True)
class PastRows:
    """The rows of a memory, in memory order."""

    asked: AskedMemory

    rows: list[Message]
    """All of them; without text, if the user may not read it or if it is too long."""

    over: int = 0
    """The number of retained messages that the model does not get, because a limit became smaller."""

    is_long: bool = False
    """Whether the texts are too long to be read, except for those that are shown."""

    @classmethod
    def read(cls, asked: AskedMemory, *, with_text: bool) -> PastRows:
        """Read the rows of the memory that is asked for."""
        found = asked.rows()
        is_long = with_text and are_too_long(found)
        rows = list(found.defer("native") if with_text and not is_long else without_text(found))
        if is_long or not (asked.is_now and Gauge.of(asked.conversation).is_over):
            return cls(asked=asked, rows=rows, is_long=is_long)
        try:
            fit = {row.pk for row in asked.conversation.memory.fitted().retained}
        except UNREADABLE:
            return cls(asked=asked, rows=rows)  # it cannot be written in any format, and the page says why
        got = [row for row in rows if row.pk in fit]
        return cls(asked=asked, rows=got, over=len(rows) - len(got))

    @property
    def positions(self) -> list[int]:
        """The positions of the rows."""
        return [row.position for row in self.rows]

    def last(self, most: int) -> list[Message]:
        """Return the last rows; of a memory that is too long, read them again, with the beginnings of their texts."""
        last = self.rows[-most:]
        if not self.is_long:
            return last
        messages = self.asked.conversation.messages
        rows = messages.filter(pk__in=[row.pk for row in last]).order_by("memory_order")
        return read_bounded(rows, with_text=True)

    def fresh(self) -> list[int]:
        """Return the indexes of the rows before which nothing had changed since they were added."""
        asked = self.asked
        if asked.answer is not None:
            return fresh_rows_of_request(asked.conversation, asked.answer, self.rows)
        if self.over:
            return fresh_rows(self.rows, asked.version)
        return fresh_rows(self.rows, prefix_version_at(asked.conversation, asked.version, last=asked.after))


# Longer JSON is offered as a file: nobody copies it out of a box.
_MOST_JSON_CHARS = 100_000


def json_texts(rows: list[Message], fresh: list[int], refused: dict[str, str]) -> list[dict[str, str]]:
    """Return the JSON of each format, empty if it is too long to show, and why the format cannot express the memory.

    Args:
        rows: the memory.
        fresh: the indexes of the messages before which nothing has changed.
        refused: the formats known to be unable to express it, and why.
    """
    # A format adds about a hundred characters to each message.
    is_long = sum(100 + len(row.text) + len(row.payload or "") for row in rows) > _MOST_JSON_CHARS
    messages = [] if is_long else [row.message for row in rows]
    found = []
    for key, format in message_formats().items():
        text, problem = "", refused.get(key, "")
        if not (is_long or problem):
            try:
                text = lay_out(dumps(format.write_memory(messages, fresh)))
            except UnsupportedContentError as error:
                problem = str(error)
        found.append({"key": key, "name": format.title, "text": text, "problem": problem})
    return found


# Of each kind; all of them are links, so a page of them is long enough.
_MOST_DIFFERENCES = 50


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The changes that make one memory of another. No message is in two of the lists."""

    left: list[int]
    """The messages that only the first memory has, in its order."""

    came: list[int]
    """The messages that only the second memory has, in its order."""

    moved: list[int]
    """The messages that both have in another order, in the order of the second memory."""


def difference(before: Sequence[int], after: Sequence[int]) -> Difference:
    """Return what changes the memory ``before`` into ``after``. Neither has a message twice."""
    blocks = SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    stays = {key for block in blocks for key in before[block.a : block.a + block.size]}
    earlier, later = set(before), set(after)
    return Difference(
        left=[key for key in before if key not in later],
        came=[key for key in after if key not in earlier],
        moved=[key for key in after if key in earlier - stays],
    )


def shown_difference(
    conversation: Conversation, before: Sequence[int], after: Sequence[int], *, with_text: bool
) -> dict[str, Any]:
    """Return what a page says of the messages that differ between two memories: of many the last ones.

    Args:
        conversation: whose memories they are.
        before: the positions of the earlier one, in memory order.
        after: the positions of the later one, in memory order.
        with_text: whether this reader may read what the messages say.
    """
    again = _said_again(conversation, before, after)
    found = difference(before, [again.get(position, position) for position in after])
    wanted = {*found.left[-_MOST_DIFFERENCES:], *found.came[-_MOST_DIFFERENCES:], *found.moved[-_MOST_DIFFERENCES:]}
    rows = conversation.messages.filter(position__in=wanted).order_by("position")
    messages = {row.position: shown(row, with_text=with_text) for row in read_bounded(rows, with_text=with_text)}

    def changed(positions: list[int]) -> dict[str, Any]:
        last = [messages[position] for position in positions[-_MOST_DIFFERENCES:] if position in messages]
        return {"messages": last, "count": len(positions), "left_out": len(positions) - len(last)}

    return {
        "left": changed(found.left),
        "came": changed(found.came),
        "moved": changed(found.moved),
        "staying": len(after) - len(found.came),
        "is_empty": not (found.left or found.came or found.moved),
    }


def _said_again(conversation: Conversation, before: Sequence[int], after: Sequence[int]) -> dict[int, int]:
    """Return the messages that a rewrite put elsewhere, or that were restored: the earlier position by the later one.

    A row keeps its place in the memory, so a rewrite that moves a message adds a row that says the same. The database
    compares what they say: nothing of it is read. A restored copy names the message that it restored.
    """
    rows = conversation.messages.annotate(said=MD5("text"), stored=MD5("payload")).order_by("position")
    keys = ("type", "said", "stored", "origin", "covers_from", "position")
    copies = (Origin.REWRITE, Origin.COPY, Origin.RESTORED)
    put = list(rows.filter(position__in=set(after) - set(before), origin__in=copies).values_list(*keys))
    if not put:
        return {}
    gone = list(rows.filter(position__in=set(before) - set(after)).values_list(*keys))
    said = {tuple(key): position for *key, _origin, _place, position in gone}
    places = {place if origin == Origin.RESTORED else position: position for *_, origin, place, position in gone}
    found = {tuple(key): position for *key, origin, _place, position in put if origin != Origin.RESTORED}
    again = {position: said[key] for key, position in found.items() if key in said}
    restored = {position: place for *_, origin, place, position in put if origin == Origin.RESTORED}
    return again | {position: places[place] for position, place in restored.items() if place in places}


def newest_missing(past: Iterable[int], positions: Collection[int], most: int) -> list[int]:
    """Return the first of ``past`` that are not among ``positions``, not more than ``most``, ascending."""
    there = set(positions)
    return sorted(islice((position for position in past if position not in there), most))


_MOST_GONE = 20  # of which some may have been said by nobody
_MOST_NAMED = 5

# Positions in which the next answer is looked for.
_NEAR = 1000


def answers_around(conversation: Conversation, asked: AskedMemory) -> dict[str, int | None]:
    """Return the positions of the answers before and after what is asked for; None where none is near."""
    at = asked.answer.position if asked.answer is not None else asked.after
    at = -1 if at is None else at
    answers = conversation.messages.filter(ANSWERS).values_list("position", flat=True)
    before, include = answers.filter(position__gte=at - _NEAR), asked.answer is None
    earlier = before.filter(position__lte=at) if include else before.filter(position__lt=at)
    later = answers.filter(position__gt=at, position__lte=at + _NEAR)
    return {"previous": earlier.order_by("-position").first(), "next": later.order_by("position").first()}


def shown_memory(past: PastRows, *, with_text: bool) -> dict[str, Any]:
    """Return what the page says of the memory."""
    asked, rows = past.asked, past.rows
    branches = BranchTree.read(asked.conversation)
    path = branches.path(asked.end(branches))
    before = [position for branch, last in path for position in range(last, branch.start - 1, -1)]
    if branches.went_back:
        restored = asked.conversation.messages.filter(origin=Origin.RESTORED).order_by()
        copies = set(restored.values_list("position", flat=True))
        before = [position for position in before if position not in copies]
    had = {*past.positions, *(row.place for row in rows)}
    positions = newest_missing(before, had, _MOST_GONE)
    gone = asked.conversation.messages.filter(position__in=positions).order_by("position")
    missing = read_bounded(gone, with_text=with_text)
    memory = MemoryMap.of((row.position, row.type, row.token_count) for row in rows)
    entries = memory_entries(past.last(MOST_SHOWN), memory, with_text=with_text, version=asked.version)
    tokens = sum(row.token_count for row in rows)
    return {
        "entries": with_brief_front(entries, memory),
        "answer": _answer_entry(asked, tokens, branches, with_text=with_text),
        "left_out": max(0, len(rows) - MOST_SHOWN),
        "count": len(rows),
        "positions": position_ranges(row.position for row in rows),
        "memory_tokens": tokens,
        "gauge": Gauge.of(asked.conversation),
        "over": past.over,
        "lacks_evicted": bool(before or asked.version) and not asked.is_now and asked.conversation.purged_count > 0,
        "gone": position_ranges({*before} - had - {row.position for row in missing if row.synthetic}),
        "has_branches": branches.went_back,
        "last_gone": [shown(row, with_text=with_text) for row in missing if not row.synthetic][-_MOST_NAMED:],
        "unsure": _came_and_left(asked),
    }


def _answer_entry(asked: AskedMemory, before: int, branches: BranchTree, *, with_text: bool) -> TimelineEntry | None:
    """Return the entry of the answer, as it was when it was written; None if a version is asked for.

    Args:
        asked: what is asked for.
        before: the tokens of the request.
        branches: the branches of the conversation.
        with_text: whether this reader may read what the answer says.
    """
    if asked.answer is None:
        return None
    rows: MessageQuerySet = asked.conversation.messages.filter(pk=asked.answer.pk)
    read = read_bounded(rows, with_text=with_text)
    alone = MemoryMap(edge=None, totals={asked.answer.position: before + asked.answer.token_count})
    is_elsewhere = not branches.leads_to(asked.answer.position, branches.end)
    entries = memory_entries(read, alone, with_text=with_text, version=asked.answer.added_in)
    return next((replace(entry, is_elsewhere=is_elsewhere) for entry in entries), None)


def _came_and_left(asked: AskedMemory) -> tuple[int, int] | None:
    """Return the first and the last position of what came and left in the answer's own change; None if nothing did."""
    if asked.answer is None:
        return None
    lost = lost_with_answer(asked.answer).order_by().aggregate(first=Min("position"), last=Max("position"))
    return None if lost["first"] is None else (lost["first"], lost["last"])
