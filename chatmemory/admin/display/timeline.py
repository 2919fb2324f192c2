"""Everything said, a page at a time; each row has what the rest of the conversation says of it, as what evicted it.

What is read from the database is bounded by the page and the window, never by the length of the history.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from django.db.models import Max, Min, Q
from django.http import QueryDict
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext

from chatmemory.admin.display.memory_map import MemoryMap, grouped, local_time, short_day
from chatmemory.admin.display.message import ShownMessage, most_chars, shown
from chatmemory.admin.display.passages import read_bounded
from chatmemory.admin.display.summary_cards import (
    SummaryCard,
    is_uncovered,
    standing_for,
    summary_cards,
    uses_summaries,
)
from chatmemory.core.arguments import whole_number
from chatmemory.core.entries import Cause, EvictionReason
from chatmemory.core.messages import ChatMessageType
from chatmemory.core.window import WindowKind
from chatmemory.database.operations.compaction_plan import uncovered
from chatmemory.database.reading import is_answer
from chatmemory.models import MAX_LIMIT, Branch, Conversation, Message, MessageQuerySet, Origin
from chatmemory.models.branch import BranchTree

# Reasons of messages that made room for another message, or were evicted together with one that did.
_PUSHED_OUT = EvictionReason.of(Cause.ROOM, Cause.PLACEHOLDER, Cause.SUCCESSOR)

# Messages before and behind those that left, among which are those that pushed them out.
_BEFORE = 100
_BEHIND = 500


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """The messages added in one version: one, or several in a batch. Placeholders are not among them."""

    first: int
    """Position of the first message."""

    last: int
    """Position of the last message."""

    @property
    def place(self) -> str:
        """The end of the address at which the first message is found in the history."""
        return f"?position={self.first}#message-{self.first}"


def came_when(conversation: Conversation, rows: list[Message]) -> dict[int, Arrival]:
    """Return the messages added in each version in which a row left to make room, or for a summary."""
    reasons = {*_PUSHED_OUT, *EvictionReason.of(Cause.SUMMARY)}
    versions = {row.evicted_in for row in rows if row.eviction_reason in reasons and row.evicted_in}
    if not versions:
        return {}
    left = [row.position for row in rows if row.evicted_in in versions]
    # Mostly these are near. What stayed long, as system messages do, was pushed out later, and a batch may be large.
    start, end = min(left) - _BEFORE, max(left) + _BEHIND
    near = _came_in(conversation, versions, Q(position__range=(start, end)))
    whole = {version: came for version, came in near.items() if start < came.first and came.last < end}
    return whole | _came_in(conversation, versions - whole.keys(), Q())


def _came_in(conversation: Conversation, versions: Collection[int], where: Q) -> dict[int, Arrival]:
    if not versions:
        return {}
    came = conversation.messages.filter(where, added_in__in=versions).exclude(origin=Origin.CLEARED).order_by()
    found = came.values_list("added_in").annotate(Min("position"), Max("position"))
    return {version: Arrival(first=first, last=last) for version, first, last in found}


def arrivals(rows: list[Message], came: dict[int, Arrival]) -> dict[int, Arrival]:
    """Return, by position of an evicted row, the messages added in the version in which it left."""
    left_in = {row.position: row.evicted_in for row in rows if row.eviction_reason in _PUSHED_OUT and row.evicted_in}
    return {
        position: came[version]
        for position, version in left_in.items()
        # A message that was added alone and evicted at once was pushed out by no other.
        if version in came and came[version].last > position
    }


def placeholders(conversation: Conversation, rows: list[Message]) -> dict[int, int]:
    """Return, by position of a cleared tool result, the position of the placeholder that took its place."""
    cleared = {row.position: row.evicted_in for row in rows if row.eviction_reason == EvictionReason.TOOL_CLEARED.value}
    if not cleared:
        return {}
    found = conversation.messages.filter(
        origin=Origin.CLEARED, covers_from__in=cleared, added_in__in=set(cleared.values())
    )
    return dict(found.values_list("covers_from", "position"))


def lost_rows(conversation: Conversation, memory: MemoryMap) -> MessageQuerySet:
    """Return the rows of the messages that have left the memory, by position.

    If a message was restored, it is lost only if its last copy has left, too. Then it is there once, as this copy.
    """
    rows: MessageQuerySet = conversation.messages.filter(evicted_in__gte=1).order_by("position")
    if not memory.went_back:
        return rows
    is_restored = Q(origin=Origin.RESTORED, covers_from__isnull=False)
    restored = conversation.messages.filter(is_restored).order_by()
    copied = restored.values("covers_from")
    latest = copied.annotate(latest=Max("position")).values("latest")
    return rows.filter(Q(is_restored, position__in=latest) | (~Q(origin=Origin.RESTORED) & ~Q(position__in=copied)))


def count_lost(conversation: Conversation, memory: MemoryMap) -> int:
    """Return the number of messages that have left the memory, with those that were not kept."""
    if not memory.went_back:
        return conversation.evicted_count
    return lost_rows(conversation, memory).count() + conversation.purged_count


def changes_back(conversation: Conversation, versions: Collection[int]) -> dict[int, Branch]:
    """Return the changes in which a conversation went back, with who did, by version."""
    if not versions:
        return {}
    rows = Branch.objects.using(conversation._state.db).filter(conversation=conversation, version__in=versions)
    return {branch.version: branch for branch in rows.select_related("user")}


def last_position(conversation: Conversation, version: int) -> int | None:
    """Return the position of the last message added up to ``version``; None if there is none."""
    if version == conversation.version:
        return conversation.next_position - 1 if conversation.next_position else None
    said = conversation.messages.filter(added_in__lte=version).order_by("-position")
    found: int | None = said.values_list("position", flat=True).first()
    return found


def exceeds_window(conversation: Conversation, row: Message) -> bool:
    """Return whether a message never fitted its window: it left in the version in which it came, and it is too large.

    No row says how large the window was then. So that the answer cannot be wrong about the window that the page shows,
    it is about today's limit, and only about messages that the window evicted at once.
    """
    return (
        row.eviction_reason == EvictionReason.WINDOW.value
        and row.evicted_in == row.added_in
        and conversation.window == WindowKind.TOKENS.value
        and row.token_count > conversation.limit
    )


def larger_than_window(tokens: int, limit: int) -> str:
    """Return that a message has more tokens than its whole window."""
    words = gettext("larger than the whole window (%(tokens)s of %(limit)s)")
    return words % {"tokens": grouped(tokens), "limit": grouped(limit)}


def pushed_out(by: Arrival) -> str:
    """Return which messages pushed one out."""
    if by.first == by.last:
        return gettext("pushed out by message %(position)s") % {"position": by.first}
    return gettext("pushed out by messages %(first)s to %(last)s") % {"first": by.first, "last": by.last}


def restored_as(position: int) -> str:
    """Return which message is the copy of one that the conversation went back to."""
    return gettext("restored as message %(position)s") % {"position": position}


def summarized_by(position: int, *, count: int = 1) -> str:
    """Return the position of the summary that covers these messages."""
    words = ngettext(
        "a summary covers it: message %(position)s",
        "a summary covers them: message %(position)s",
        count,
    )
    return words % {"position": position}


@dataclass(frozen=True, kw_only=True)
class TimelineEntry:
    """One message on the timeline."""

    message: ShownMessage

    running_total: int | None = None
    """Tokens of the memory up to and with this message; None if it is not in the memory."""

    place: int | None = None
    """Its place in the memory, counted from 1, if the memory is in another order than the timeline."""

    pushed_out_by: Arrival | None = None
    """The messages whose adding evicted this one. Which of several evicted it is not recorded."""

    exceeds: int | None = None
    """The limit of the window if the message never fitted it; else None."""

    placeholder: int | None = None
    """The position of the placeholder that took its place, if it is a cleared tool result."""

    card: SummaryCard | None = None
    """The messages that it covers, if it is a summary; else None."""

    summary: int | None = None
    """The position of the summary that covers it."""

    restored_as: int | None = None
    """The position of its copy in the memory, if it has left but was restored."""

    went_back: Branch | None = None
    """The change in which the conversation went back to before it, if it left for that reason."""

    begins_branch: Branch | None = None
    """The change in which the conversation went back, if the messages from here on were said after it."""

    is_elsewhere: bool = False
    """Whether it is on another branch than the current one."""

    is_uncovered: bool = False
    """Whether it was evicted for lack of room and is in no summary, although this conversation has summaries."""

    is_pinned: bool = False
    """Whether it is pinned, or was at the version that is shown."""

    begins_memory: bool = False
    """Whether the memory begins here: the following messages are retained, except those evicted from the middle."""

    would_go: bool = False
    """Whether a window that is only tried would evict it."""

    is_evicted: bool = False
    """Whether it has left the memory."""

    is_brief: bool = False
    """Whether only a line of it is shown at first, although it is in the memory."""

    is_clipped: bool = False
    """Whether its texts are shown in low boxes until they are read."""

    @property
    def is_gone(self) -> bool:
        """Whether it is not in the memory, or would not be."""
        return self.is_evicted or self.would_go

    @property
    def is_folded(self) -> bool:
        """Whether only a line of it is shown at first."""
        return self.is_gone or self.is_brief

    @property
    def is_answer(self) -> bool:
        """Whether it is the result of a tool, which belongs to the call before it."""
        return self.message.row.type == ChatMessageType.TOOL_EXECUTION_RESULT.value

    @property
    def is_models_answer(self) -> bool:
        """Whether the model wrote it, from a memory that can be looked at."""
        return is_answer(self.message.row)

    @property
    def reason(self) -> str:
        """Why it left, or would go. Empty if there was no room and it is known for which messages it made room."""
        row = self.message.row
        if self.exceeds is not None:
            return larger_than_window(row.token_count, self.exceeds)
        is_full = row.eviction_reason == EvictionReason.WINDOW.value
        return "" if is_full and (self.would_go or self.pushed_out_by) else row.get_eviction_reason_display()

    @cached_property
    def pushed_out(self) -> str:
        """Which messages pushed it out, in words that its line and its details say; empty if that is not the reason."""
        return pushed_out(self.pushed_out_by) if self.pushed_out_by and self.exceeds is None else ""

    @property
    def left(self) -> SafeString:
        """The version and the moment in which it left. A page has many, and a template takes longer to write them."""
        row = self.message.row
        if row.evicted_in is None or row.evicted_at is None:
            return SafeString("")
        moment = local_time(row.evicted_at)
        return format_html(
            '<span>{}</span> <time datetime="{}">{}</time>{}',
            gettext("in version %(version)s") % {"version": grouped(row.evicted_in)},
            moment.isoformat(),
            date_format(moment, "DATETIME_FORMAT"),
            format_html(" <bdi>{}</bdi>", self.who_went_back) if self.who_went_back else "",
        )

    @property
    def who_went_back(self) -> str:
        """The user who went back to before the message, as text; empty if nobody is known."""
        user = self.went_back and self.went_back.user
        return gettext("by %(user)s") % {"user": user} if user else ""

    @cached_property
    def why(self) -> str:
        """Why it left and on which day, or would go, in a few words. A template asks for it twice."""
        row = self.message.row
        if self.restored_as is not None:
            return restored_as(self.restored_as)
        if self.would_go:
            said = gettext("would be evicted: %(reason)s") if self.reason else gettext("would be evicted")
            return said % {"reason": self.reason}
        if row.eviction_reason == EvictionReason.SUMMARIZED.value and self.summary is not None:
            reason = summarized_by(self.summary)
        else:
            reason = self.reason or self.pushed_out
        if row.evicted_at is None:
            return reason
        return gettext("%(reason)s, %(day)s") % {"reason": reason, "day": short_day(row.evicted_at)}


def history_entries(
    conversation: Conversation, rows: list[Message], memory: MemoryMap, *, with_text: bool, whole: int | None = None
) -> list[TimelineEntry]:
    """Return the entries of some rows of the history, in the order of the rows.

    Args:
        conversation: whose rows they are.
        rows: what to show.
        memory: the memory as it is now.
        with_text: whether this reader may read what they say.
        whole: the position of the message that is not cut; by default none.
    """
    branches = memory.branches or BranchTree.read(conversation)
    came = came_when(conversation, rows)
    pushing = arrivals(rows, came)
    in_place = placeholders(conversation, rows)
    firsts = {version: found.first for version, found in came.items()}
    summaries = standing_for(conversation, rows, firsts, branches)
    cards = summary_cards(conversation, rows, branches, with_text=with_text)
    rewound = {row.evicted_in for row in rows if row.eviction_reason == EvictionReason.REWOUND.value and row.evicted_in}
    changes = changes_back(conversation, rewound)
    elsewhere = {row.position for row in rows if not (row.is_retained or branches.leads_to(row.position, branches.end))}
    uses = uses_summaries(conversation)
    most = most_chars(len(rows))
    return [
        TimelineEntry(
            message=shown(row, with_text=with_text, most=None if row.position == whole else most),
            running_total=memory.totals.get(row.position),
            place=memory.places.get(row.position),
            pushed_out_by=pushing.get(row.position),
            exceeds=conversation.limit if exceeds_window(conversation, row) else None,
            placeholder=in_place.get(row.position),
            card=cards.get(row.position),
            summary=summaries.get(row.position),
            restored_as=None if row.is_retained else memory.restored.get(row.place),
            went_back=changes.get(row.evicted_in or 0) if row.eviction_reason == EvictionReason.REWOUND.value else None,
            is_elsewhere=row.position in elsewhere,
            is_uncovered=uses and row.position not in elsewhere and is_uncovered(conversation, row),
            is_pinned=row.is_pinned,
            begins_memory=row.position == memory.edge,
            is_evicted=not memory.holds(row),
        )
        for row in rows
    ]


def memory_entries(
    rows: list[Message], memory: MemoryMap, *, with_text: bool, edge: int | None = None, version: int | None = None
) -> list[TimelineEntry]:
    """Return the entries of a memory, in memory order.

    Args:
        rows: what to show of it.
        memory: what is not in it would go.
        with_text: whether this reader may read what they say.
        edge: the position of the message to mark as the first that stays.
        version: the version at which messages were pinned; by default now.
    """
    most = most_chars(len(rows))
    return [
        TimelineEntry(
            message=shown(row, with_text=with_text, most=most),
            running_total=memory.totals.get(row.position),
            is_pinned=row.is_pinned if version is None else row.was_pinned_at(version),
            begins_memory=row.position == edge,
            would_go=row.position not in memory.totals,
        )
        for row in rows
    ]


PER_PAGE = 50
"""The number of messages on a page."""


def page_around(conversation: Conversation, position: int) -> tuple[int, int]:
    """Return the first and the last position of the page that holds ``position``, or the position nearest to it.

    The last is -1 if nothing was said.
    """
    total = conversation.next_position
    position = max(0, min(position, total - 1))
    start = total - PER_PAGE * -(-(total - position) // PER_PAGE)
    return max(0, start), min(start + PER_PAGE, total) - 1


# Messages of a memory, which is shown without pages.
MOST_SHOWN = 500


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """One page of everything said."""

    entries: list[TimelineEntry]

    start: int
    """Position at which the page starts; its message may have been deleted."""

    last: int
    """The last position that is on the page."""

    total: int
    """Number of positions."""

    edge: int | None
    """Position at which the memory begins; None if it is empty."""

    has_evicted: bool
    """Whether there are evicted messages that were kept."""

    has_uncovered: bool
    """Whether some of them are in no summary, though summaries are made of this conversation."""

    @classmethod
    def read(cls, conversation: Conversation, query: QueryDict, memory: MemoryMap, *, with_text: bool) -> Timeline:
        """Read the page that holds ``?position=``; by default the last one.

        With ``&whole=`` the message at that position is not cut.
        """
        total = conversation.next_position
        asked = whole_number(query.get("position", ""), most=MAX_LIMIT)
        first, last = page_around(conversation, total - 1 if asked is None else asked)
        whole = whole_number(query.get("whole", ""))
        page = conversation.messages.filter(position__gte=first, position__lte=last).order_by("position")
        rows = read_bounded(page, with_text=with_text, first=whole)
        uses = uses_summaries(conversation)
        entries = history_entries(conversation, rows, memory, with_text=with_text, whole=whole)
        return cls(
            entries=_with_branches(conversation, entries, memory),
            start=first,
            last=last,
            total=total,
            edge=memory.edge,
            has_evicted=conversation.evicted_count > 0 and lost_rows(conversation, memory).exists(),
            has_uncovered=uses and uncovered(conversation).exists(),
        )

    @property
    def previous(self) -> int | None:
        """A position on the page before; None if there is none."""
        return self.start - 1 if self.start else None

    @property
    def next(self) -> int | None:
        """A position on the page after; None if there is none."""
        return self.last + 1 if self.last + 1 < self.total else None

    @property
    def is_long(self) -> bool:
        """Whether there is more than this page."""
        return self.previous is not None or self.next is not None


def _with_branches(conversation: Conversation, entries: list[TimelineEntry], memory: MemoryMap) -> list[TimelineEntry]:
    """Return the entries of a page of the history, with the changes in which the conversation went back.

    A restored copy is one line, because the history has the message that it says again.
    """
    if memory.branches is None or not memory.went_back:
        return entries
    begun = dict(_beginnings(memory.branches, [entry.message.row.position for entry in entries]))
    changes = changes_back(conversation, set(begun.values()))
    return [
        replace(
            entry,
            begins_branch=changes.get(begun.get(entry.message.row.position, 0)),
            is_brief=entry.message.row.origin == Origin.RESTORED and not entry.is_gone,
        )
        for entry in entries
    ]


def _beginnings(branches: BranchTree, positions: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the position of the first message of each branch on a page, and the version in which the branch began."""
    before = branches.branch_of(positions[0] - 1) if positions and positions[0] else None
    for position in positions:
        branch = branches.branch_of(position)
        if branch is not before and branch.version:
            yield position, branch.version
        before = branch


def place_to_go(conversation: Conversation, where: str) -> int:
    """Return the position that ``?go=`` asks for: a number, "first-evicted", or "first-uncovered"."""
    position = whole_number(where, most=MAX_LIMIT)
    if position is None:
        if where == "first-uncovered":
            left = uncovered(conversation)
        else:
            left = lost_rows(conversation, MemoryMap.now(conversation))
        position = left.values_list("position", flat=True).first()
    return max(0, min(position or 0, conversation.next_position - 1))
