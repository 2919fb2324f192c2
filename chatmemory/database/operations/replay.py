"""Replay the requests of a conversation, as they were, or as another window would have made them.

The history is read version by version: what was added, evicted and pinned, with positions, types, tokens and versions,
but without texts. Providers with a prompt cache charge little for the prefix that a request shares with the request
before it, so the figures show what a window costs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect, insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import heappop, heappush
from itertools import islice
from math import inf
from operator import attrgetter
from typing import Any, NamedTuple, Self, TypeAlias, cast

from django.db import router
from django.db.models import BooleanField, Case, Q, Value, When
from django.db.models.functions import Coalesce, StrIndex
from django.db.models.lookups import Exact, GreaterThan, LessThan

from chatmemory.capabilities import RecallFigures
from chatmemory.core.entries import Cause, Entry, EvictionReason
from chatmemory.core.eviction import Retained
from chatmemory.core.messages import ChatMessageType, CustomMessage, ToolExecutionResultMessage
from chatmemory.core.window import RULES, SETTINGS, Window, WindowKind, WindowRules, without_preset
from chatmemory.database.connections import retry
from chatmemory.database.reading import is_answer, requests_among, rows_of
from chatmemory.database.stored_windows import apply_window_settings, check_window_settings, window_of
from chatmemory.models import ORDER_STEP, STAND_INS, Branch, Conversation, Origin, WindowSettings
from chatmemory.models.branch import NOTHING, BranchTree
from chatmemory.models.message import OPEN, pins_until

_ROWS = 2000
_STATE = ("eviction_reason", "pins")
_PAYLOAD = Coalesce("payload", Value(""))
_CALLS_AT = StrIndex(_PAYLOAD, Value('"toolExecutionRequests":[{'))
_ATTRIBUTES_AT = StrIndex(_PAYLOAD, Value('"attributes":{'))

HAS_CALLS = (
    Q(type=ChatMessageType.AI.value)
    & Q(GreaterThan(_CALLS_AT, 0))
    & (Q(Exact(_ATTRIBUTES_AT, 0)) | Q(LessThan(_CALLS_AT, _ATTRIBUTES_AT)))
)
"""The condition for messages that call tools. The database searches the payload, so it need not be read.

Attributes come after the calls, and may have keys of any name.
"""

_HOLDS_SUMMARY = Q(payload__contains='"type":"compaction"')


class PastMessage(NamedTuple):
    """A row of the history without its text."""

    position: int
    type: ChatMessageType
    token_count: int
    origin: str
    memory_order: int
    covers_from: int | None
    covers_to: int | None
    added_in: int
    evicted_in: int | None
    has_calls: bool
    holds_summary: bool

    @property
    def is_answer(self) -> bool:
        return is_answer(self)


_SIZE = len(PastMessage._fields)


@dataclass(slots=True)
class Version:
    """One version of a memory: the differences from the version before."""

    added: list[PastMessage] = field(default_factory=list)
    """The added messages, by position."""

    gone: list[tuple[PastMessage, str]] = field(default_factory=list)
    """The evicted messages, each with its reason."""

    pinned: list[tuple[PastMessage, bool]] = field(default_factory=list)
    """The messages that were pinned (True) or unpinned."""

    has_answers: bool = False
    """Whether ``added`` contains an answer of the model."""

    has_results: bool = False
    """Whether ``added`` contains a tool result."""

    is_rewrite: bool = False
    """Whether the version is a rewrite."""

    goes_back_to: int | None = None
    """The last position of the branch to which the conversation went back; None if it did not."""


def versions_of(conversation: Conversation, branches: Sequence[Branch]) -> Iterator[Version]:
    """Yield the versions of a memory in order, up to the version of ``conversation``, which has these branches."""
    found: dict[int, Version] = {}
    numbers: list[int] = []

    def at(number: int) -> Version:
        if number not in found:
            found[number] = Version()
            heappush(numbers, number)
        return found[number]

    for branch in branches[1:]:
        version = at(branch.version)
        version.goes_back_to, version.is_rewrite = branch.follows, True
    for past, reason, pins in _rows(conversation):
        while numbers and numbers[0] < past.added_in:  # positions and versions increase together
            yield found.pop(heappop(numbers))
        version = at(past.added_in)
        version.added.append(past)
        version.has_answers |= past.is_answer
        version.has_results |= past.type == ChatMessageType.TOOL_EXECUTION_RESULT
        # A copy at the end may be a question that was asked again.
        is_moved = past.origin == Origin.COPY and past.memory_order != past.position * ORDER_STEP
        version.is_rewrite |= past.origin == Origin.REWRITE or is_moved
        if past.evicted_in is not None and past.evicted_in <= conversation.version:
            version = at(past.evicted_in)
            version.gone.append((past, reason))
            version.is_rewrite |= reason == EvictionReason.REWRITTEN
        for pin in pins_until(pins, conversation.version).split():
            for number, holds in zip(pin.split(OPEN), (True, False), strict=False):
                if number:
                    at(int(number)).pinned.append((past, holds))
    while numbers:
        yield found.pop(heappop(numbers))


def _rows(conversation: Conversation) -> Iterator[tuple[PastMessage, str, str]]:
    """Yield the messages of a conversation by position, each with its reason and pins."""
    rows = rows_of(conversation).filter(added_in__lte=conversation.version).order_by("position")
    columns = rows.annotate(has_calls=_whether(HAS_CALLS), holds_summary=_whether(_HOLDS_SUMMARY)).values_list(
        *PastMessage._fields, *_STATE
    )
    after = -1
    while page := retry(rows.db, partial(list[Any], columns.filter(position__gt=after)[:_ROWS])):
        for row in page:
            yield PastMessage(row[0], ChatMessageType(row[1]), *row[2:_SIZE]), *row[_SIZE:]
        after = page[-1][0]


def _whether(condition: Q) -> Case:
    return Case(When(condition, then=True), default=False, output_field=BooleanField())


REPLAYED = tuple(name for name in SETTINGS if name == "window" or name in RULES)
"""The settings that a replay can vary."""

FIGURES = {
    "requests": "Requests to the model: one for each answer that was said.",
    "input_tokens": "The tokens of all requests: those of their messages, as stored.",
    "cacheable_tokens": "The tokens of the input with which the request before began, too.",
    "full_price_tokens": "The other tokens of the input.",
    "hit_share": "The part of the input that a provider's prompt cache may have had, from 0 to 1.",
    "prefix_breaks": "Requests that do not begin with the whole request before.",
    "evictions": "Messages that had no room, or gave way to a placeholder.",
    "mean_fill": "The part of the limit that a request took, on average.",
    "repairs": "Requests whose first message after the system message is not the user's, or with a tool result without "
    "its call.",
    "missing": "Messages that were deleted, so that nothing is known of them.",
}
"""The meaning of each figure of a ``Replay``, by name, in the order of display."""


@dataclass(frozen=True, kw_only=True)
class RequestFigures:
    """Figures of requests; ``FIGURES`` describes each."""

    requests: int = 0
    input_tokens: int = 0
    cacheable_tokens: int = 0
    prefix_breaks: int = 0
    evictions: int = 0
    repairs: int = 0
    missing: int = 0

    @property
    def hit_share(self) -> float:
        return self.cacheable_tokens / self.input_tokens if self.input_tokens else 0.0

    @property
    def full_price_tokens(self) -> int:
        return self.input_tokens - self.cacheable_tokens

    @property
    def break_share(self) -> float:
        """The part of the requests that do not extend the request before, from 0 to 1."""
        return self.prefix_breaks / self.requests if self.requests else 0.0


@dataclass(frozen=True, kw_only=True)
class Replay(WindowRules, RequestFigures):
    """The figures of the requests of a conversation with one window."""

    window: str
    """``"messages"`` or ``"tokens"``."""

    mean_fill: float
    """See ``FIGURES``. It may exceed 1."""

    recall: RecallFigures | None = None
    """What searches would have found; None if this was not asked for."""


def check_variant(settings: WindowSettings) -> None:
    """Raise an error if a history cannot be replayed with these settings.

    Raises:
        TypeError: a setting is unknown; or is ``model``, because a replay uses stored token counts; or ``compact_at``
            or ``compact_keep``, because a replay uses the existing summaries.
        ValueError: a setting is invalid.
    """
    if "model" in settings:
        raise TypeError(
            "a replay takes no model, because it uses stored token counts; use chatmemory_recount to recount them"
        )
    for name in ("compact_at", "compact_keep"):
        if name in settings:
            raise TypeError(f"a replay takes no {name}: it repeats the existing summaries, and makes no others")
    check_window_settings(settings)


Recalling: TypeAlias = Callable[[Conversation, Sequence[WindowSettings | None]], list[RecallFigures]]
"""Returns what searches would have found in a replay, for each variant."""


def replay(
    conversation: Conversation, variants: Sequence[WindowSettings | None], recall: Recalling | None = None
) -> list[Replay]:
    """Return the figures of each variant, in one pass over the history.

    Args:
        conversation: the conversation, which is read again.
        variants: the settings of the window from the start; missing settings are those of the row. None means what
            really happened.
        recall: finds what the windows had lost; by default nothing is searched.

    Raises:
        Conversation.DoesNotExist: the conversation has been erased.
        TypeError: a setting is unknown or is ``model``.
        ValueError: a setting is invalid.
    """
    row, branches, walks = _walks(conversation, variants)
    for version in versions_of(row, branches):
        for walk in walks:
            walk.go_to(version)
    found = [walk.figures(missing=row.purged_count) for walk in walks]
    if recall is None:
        return found
    return [replace(figures, recall=one) for figures, one in zip(found, recall(row, variants), strict=True)]


@dataclass(frozen=True)
class PastMemory:
    """What a memory contained before a message."""

    said: frozenset[int]
    """The positions of the messages whose text it contained, as they were said or as a copy."""

    summaries: tuple[tuple[int, int], ...]
    """The first and the last position that each of its summaries covers."""

    tokens: int

    def summarises(self, position: int) -> bool:
        """Return whether a summary covers a message that the memory did not contain."""
        return position not in self.said and any(first <= position <= last for first, last in self.summaries)


def memories_before(
    conversation: Conversation, variants: Sequence[WindowSettings | None], positions: Collection[int]
) -> Iterator[tuple[int, list[PastMemory]]]:
    """Yield some positions in order, each with the memory before its message for each variant.

    As in the request before an answer, this is the memory before the change that added the message, and what this
    change added before the message and kept. A position after all messages gets the last memory.

    Args:
        conversation: as for ``replay``.
        variants: as for ``replay``.
        positions: the positions.

    Raises:
        Conversation.DoesNotExist, TypeError, ValueError: as for ``replay``.
    """
    row, branches, walks = _walks(conversation, variants)
    waiting = sorted(set(positions), reverse=True)
    for version in versions_of(row, branches):
        here: list[int] = []
        while waiting and version.added and waiting[-1] <= version.added[-1].position:
            here.append(waiting.pop())
        before = [walk.entries() if here else [] for walk in walks]
        for walk in walks:
            walk.go_to(version)
        for position in here:
            pairs = zip(walks, before, strict=True)
            yield position, [_memory([*kept, *walk.joined(version, position)]) for walk, kept in pairs]
    for position in reversed(waiting):
        yield position, [_memory(walk.entries()) for walk in walks]


def _memory(entries: Iterable[PastEntry]) -> PastMemory:
    said: set[int] = set()
    summaries: list[tuple[int, int]] = []
    tokens = 0
    for entry in entries:
        past = entry.past
        tokens += past.token_count
        if entry.is_summary and past.covers_from is not None and past.covers_to is not None:
            summaries.append((past.covers_from, past.covers_to))
        elif past.origin in (Origin.COPY, Origin.RESTORED) and past.covers_from is not None:
            said.add(past.covers_from)
        elif past.origin == Origin.SAID and not entry.is_placeholder:
            said.add(past.position)
    return PastMemory(frozenset(said), tuple(summaries), tokens)


def _walks(
    conversation: Conversation, variants: Sequence[WindowSettings | None]
) -> tuple[Conversation, Sequence[Branch], list[Walk]]:
    """Return the fresh row of a conversation, its branches, and a walk for each variant."""
    for settings in variants:
        check_variant(settings or {})
    # Never a replica, which may lack the latest messages.
    database = router.db_for_write(Conversation, instance=conversation)
    row = retry(database, lambda: Conversation.objects.using(database).get(pk=conversation.pk))
    branches = retry(database, lambda: BranchTree.read(row)).branches
    ends = {branch.follows for branch in branches}
    return row, branches, [_walk(row, None if each is None else _varied(each), ends) for each in variants]


def _varied(settings: WindowSettings) -> WindowSettings:
    """Return the settings, including those of a preset, that a replay can vary."""
    whole = without_preset(settings)
    return cast(WindowSettings, {name: value for name, value in whole.items() if name in settings or name in REPLAYED})


def _walk(conversation: Conversation, settings: WindowSettings | None, ends: Collection[int]) -> Walk:
    if settings is None:
        return RecordedWalk(window_of(conversation))
    variant = copy(conversation)
    apply_window_settings(variant, settings)
    return SimulatedWalk(window_of(variant), ends)


_UNREAD = CustomMessage({})


@dataclass(eq=False)
class PastEntry(Entry):
    """A past message in a memory. Its ``message`` is a dummy, because it was not read."""

    past: PastMessage = field(kw_only=True)

    is_stray: bool = field(default=False, kw_only=True)
    """Whether it is a tool result that did not follow its call."""

    @property
    def type(self) -> ChatMessageType:
        return self.past.type

    @property
    def has_calls(self) -> bool:
        return self.past.has_calls

    @property
    def holds_summary(self) -> bool:
        return self.past.holds_summary

    def says_the_same(self, other: Entry) -> bool:
        return False  # an equal system message got no row

    def placeholder(self, text: str, window: Window) -> Self:
        tokens = window.cost(ToolExecutionResultMessage(None, None, text))
        return type(self)(
            _UNREAD,
            tokens,
            is_placeholder=True,
            replaces=self,
            past=self.past._replace(token_count=tokens, has_calls=False, holds_summary=False),
            is_stray=self.is_stray,
        )


def entry_of(past: PastMessage, window: Window) -> PastEntry:
    return PastEntry(
        _UNREAD,
        past.token_count if window.kind is WindowKind.TOKENS else 1,
        is_placeholder=past.origin == Origin.CLEARED,
        is_summary=past.origin == Origin.SUMMARY,
        past=past,
    )


_EVICTED = EvictionReason.of(Cause.ROOM, Cause.PLACEHOLDER)
_ANOTHER_SYSTEM_MESSAGE = -1
_memory_order = attrgetter("past.memory_order")


class Walk(ABC):
    """A memory that is replayed version by version, with the figures of its requests."""

    def __init__(self, window: Window) -> None:
        self._counts: Counter[str] = Counter()
        self._fill = 0
        self._window = window
        self._by_position: dict[int, PastEntry] = {}
        self._tokens = self._strays = 0
        # APIs take the system message separately, before all others.
        self._system_messages: list[PastEntry] = []
        # The number of entries at the start that are unchanged since the request before; infinite if nothing has
        # changed.
        self._intact: float = inf
        self._size_before = self._tokens_before = 0

    def go_to(self, version: Version) -> None:
        """Apply ``version`` to the memory, and count the requests of the answers in it."""
        if not version.has_answers:
            self._change(version)
            return
        size, tokens, strays = self._size(), self._tokens, self._strays
        is_prefix = not self._size_before or self._intact >= self._size_before
        cacheable = self._tokens_before if is_prefix else self._intact_tokens()
        begins = next((entry for entry in self._entries() if entry.type is not ChatMessageType.SYSTEM), None)
        self._intact = inf
        self._change(version)
        for joined in requests_among(version.added, self._kept):
            for entry in joined:
                size, tokens, strays = size + 1, tokens + entry.past.token_count, strays + entry.is_stray
                begins = entry if begins is None and entry.type is not ChatMessageType.SYSTEM else begins
            needs_repair = bool(strays) or (begins is not None and begins.type is not ChatMessageType.USER)
            self._counts.update(
                requests=1,
                input_tokens=tokens,
                cacheable_tokens=cacheable,
                prefix_breaks=int(not is_prefix),
                repairs=int(needs_repair),
            )
            self._fill += self._window.overhead + tokens if self._window.kind is WindowKind.TOKENS else size
            self._size_before, self._tokens_before = size, tokens
            cacheable, is_prefix = tokens, True  # for another answer of the same version

    def entries(self) -> list[PastEntry]:
        """Return the memory, in any order."""
        return list(self._by_position.values())

    def joined(self, version: Version, end: int) -> list[PastEntry]:
        """Return what ``version``, the last one, added before a position and kept."""
        found = (self._kept(past) for past in version.added if past.position < end)
        return [entry for entry in found if entry is not None]

    def figures(self, missing: int) -> Replay:
        """Return the figures; ``missing`` is the number of deleted messages."""
        window, requests = self._window, self._counts["requests"]
        counts: dict[str, Any] = self._counts
        return Replay(
            window=window.kind.value,
            **{name: getattr(window, name) for name in RULES},
            **counts,
            mean_fill=self._fill / (requests * window.limit) if requests else 0.0,
            missing=missing,
        )

    def _kept(self, past: PastMessage) -> PastEntry | None:
        """Return the entry of a message that was just added; None if it is not in the memory, or was replaced by a
        placeholder.
        """
        entry = self._by_position.get(past.position)
        return None if entry is None or entry.is_placeholder else entry

    @abstractmethod
    def _size(self) -> int:
        """Return the number of entries."""

    @abstractmethod
    def _at(self, index: int) -> PastEntry | None:
        """Return the entry at ``index``, or None."""

    @abstractmethod
    def _apply(self, version: Version) -> None:
        """Apply ``version`` to the memory, and call the hooks for each added or evicted entry."""

    def _change(self, version: Version) -> None:
        self._apply(version)
        if version.is_rewrite:
            self._mark_strays(0)
        elif version.has_results:
            self._mark_strays(max(0, self._size() - len(version.added)))

    def _entries(self) -> Iterator[PastEntry]:
        index = 0
        while (entry := self._at(index)) is not None:
            yield entry
            index += 1

    def _touch(self, index: float) -> None:
        """Record a change of the entry at ``index``; infinite means no entry."""
        self._intact = min(self._intact, index)

    def _came(self, entry: PastEntry) -> None:
        self._tokens += entry.past.token_count
        self._strays += entry.is_stray
        if entry.type is ChatMessageType.SYSTEM:
            self._touch(_ANOTHER_SYSTEM_MESSAGE)
            self._system_messages.append(entry)

    def _left(self, entry: PastEntry) -> None:
        self._tokens -= entry.past.token_count
        self._strays -= entry.is_stray
        if entry.type is ChatMessageType.SYSTEM:
            self._touch(_ANOTHER_SYSTEM_MESSAGE)
            self._system_messages.remove(entry)

    def _intact_tokens(self) -> int:
        """Return the tokens of the common prefix of the request before and the current memory."""
        if self._intact == _ANOTHER_SYSTEM_MESSAGE:
            return 0
        entries = list(islice(self._entries(), int(self._intact)))
        apart = [entry for entry in self._system_messages if entry not in entries]
        return sum(entry.past.token_count for entry in entries + apart)

    def _mark_strays(self, start: int) -> None:
        """Mark the tool results from the index ``start`` on that do not follow their calls."""
        before = self._at(start - 1) if start else None
        for index in range(start, self._size()):
            entry = self._at(index)
            assert entry is not None
            if entry.is_result:
                follows = before is not None and (before.has_calls or (before.is_result and not before.is_stray))
                self._strays += (not follows) - entry.is_stray
                entry.is_stray = not follows
            before = entry


class RecordedWalk(Walk):
    """The memory as it was."""

    def __init__(self, window: Window) -> None:
        super().__init__(window)
        self._memory: list[PastEntry] = []

    def _size(self) -> int:
        return len(self._memory)

    def _at(self, index: int) -> PastEntry | None:
        return self._memory[index] if index < len(self._memory) else None

    def _apply(self, version: Version) -> None:
        if version.goes_back_to is None:
            self._apply_rows(version)
            return
        before, intact = [_text_of(entry) for entry in self._memory], self._intact
        systems = [_text_of(entry) for entry in self._system_messages]
        self._apply_rows(version)
        self._intact = intact  # a restored message reads like the one that had left
        after = [_text_of(entry) for entry in self._memory]
        if systems != [_text_of(entry) for entry in self._system_messages]:
            self._touch(_ANOTHER_SYSTEM_MESSAGE)
        elif before != after[: len(before)]:
            pairs = enumerate(zip(before, after, strict=False))
            self._touch(next((index for index, (one, other) in pairs if one != other), min(len(before), len(after))))

    def _apply_rows(self, version: Version) -> None:
        for past in version.added:
            entry = self._by_position[past.position] = entry_of(past, self._window)
            if past.covers_from in self._by_position and entry.is_placeholder:
                entry.is_stray = self._by_position[past.covers_from].is_stray
            index = bisect(self._memory, past.memory_order, key=_memory_order)
            if index < len(self._memory):
                self._touch(index)
            self._memory.insert(index, entry)
            self._came(entry)
        for past, reason in version.gone:
            entry = self._by_position.pop(past.position)
            index = self._memory.index(entry)
            del self._memory[index]
            self._touch(index)
            self._left(entry)
            self._counts["evictions"] += reason in _EVICTED


def _text_of(entry: PastEntry) -> tuple[str, int | None]:
    """Return a key that is equal for a message and its restored copies."""
    past = entry.past
    if past.origin == Origin.RESTORED:
        return Origin.SAID, past.covers_from
    return past.origin, past.covers_from if past.origin in STAND_INS else past.position


class SimulatedWalk(Walk):
    """The memory as another window would have bounded it.

    The simulation applies what users and programs did to the memory: additions, rewrites, summaries, pins and removals.
    It does not apply what the original window did.
    """

    def __init__(self, window: Window, ends: Collection[int]) -> None:
        """Args:
        window: the window.
        ends: the positions to which the conversation goes back.
        """
        super().__init__(window)
        self._retained = self._new([])
        self._memories: dict[int, list[PastEntry]] = {end: [] for end in ends}
        """The memory when each of ``ends`` was the last position of the current branch."""
        self._end = NOTHING
        # The position of the tool result that each placeholder of the record replaces.
        self._originals: dict[int, int] = {}

    def _size(self) -> int:
        return len(self._retained)

    def _at(self, index: int) -> PastEntry | None:
        return self._retained.at(index)

    def _apply(self, version: Version) -> None:
        given = [past for past in version.added if past.origin != Origin.CLEARED]
        placeholders = [past for past in version.added if past.origin == Origin.CLEARED]
        for past in placeholders:
            assert past.covers_from is not None
            self._originals[past.position] = past.covers_from
        for past, holds in version.pinned:
            if entry := self._entry_at(past.position):
                entry.pinned = holds
        if any(not holds for _, holds in version.pinned):
            self._retained.evict()
        summary = next((past for past in given if past.origin == Origin.SUMMARY), None)
        if version.goes_back_to is not None:
            self._go_back(version.goes_back_to, given)
        elif summary is not None and not version.is_rewrite:
            gone = {past.position for past, reason in version.gone if reason == EvictionReason.SUMMARIZED}
            self._summarise(summary, gone)
        elif version.is_rewrite:
            left_out = {past.position for past, reason in version.gone if reason == EvictionReason.REWRITTEN}
            self._rewrite(given, left_out, {past.position for past, holds in version.pinned if holds})
        elif given:
            for past in given:
                entry = self._by_position[past.position] = entry_of(past, self._window)
                self._retained.add(entry)
        elif any(reason == EvictionReason.CLEARED for _, reason in version.gone):
            self._replace([])
        elif placeholders:
            self._clear_tool_results(placeholders)
        self._settle()
        self._remember(version)

    def _remember(self, version: Version) -> None:
        """Remember the memory at the positions to which the conversation goes back."""
        places = [past.position for past in version.added]
        self._end = places[-1] if places else self._end if version.goes_back_to is None else version.goes_back_to
        for end in self._memories.keys() & {self._end, *places}:
            self._memories[end] = [copy(entry) for entry in self._retained.entries() if entry.past.position <= end]

    def _go_back(self, end: int, given: list[PastMessage]) -> None:
        """Make the memory what it was when ``end`` was the last position.

        Args:
            end: the position.
            given: the messages that the record restored.
        """
        restored = {past.covers_from: past for past in given if past.origin == Origin.RESTORED}
        present = {entry.past.position: entry for entry in self._retained.entries()}
        entries = []
        for past in self._memories[end]:
            entry = present.get(past.past.position)
            if entry is None or entry.is_placeholder != past.is_placeholder:
                entry = copy(past)
            if (again := restored.get(entry.past.position)) is not None:
                self._originals[again.position] = entry.past.position
                entry.past = entry.past._replace(evicted_in=again.evicted_in)
            entries.append(entry)
        self._replace(entries)
        self._retained.evict()

    def _rewrite(self, given: list[PastMessage], left_out: set[int], pinned: set[int]) -> None:
        gone = {self._original(position) for position in left_out}
        entries = [entry for entry in self._retained.entries() if entry.past.position not in gone]
        new = [entry_of(past, self._window) for past in given]
        for entry in new:
            entry.pinned = entry.past.position in pinned  # it replaces a pinned message
        self._replace(sorted(entries + new, key=_memory_order))
        self._retained.evict()

    def _summarise(self, summary: PastMessage, gone: set[int]) -> None:
        """Replace what a summary covers, and what is still in the memory, by the summary.

        Args:
            summary: the summary.
            gone: the positions of the messages that it replaced in the record.
        """
        leaves = {self._original(position) for position in gone}
        rest = [
            entry
            for entry in self._retained.entries()
            if not (entry.past.position in leaves or _stood_for(entry, summary) or entry.is_summary)
        ]
        insort(rest, entry_of(summary, self._window), key=_memory_order)
        self._replace(rest)
        self._retained.evict()

    def _clear_tool_results(self, placeholders: list[PastMessage]) -> None:
        entries = self._retained.entries()
        for past in placeholders:
            entry = self._entry_at(past.position)
            if entry is not None and not entry.is_placeholder:
                new = entry_of(past, self._window)
                new.past, new.is_stray = past._replace(position=entry.past.position), entry.is_stray
                entries[entries.index(entry)] = new
                self._counts["evictions"] += 1
        self._replace(entries)

    def _replace(self, entries: list[PastEntry]) -> None:
        """Make ``entries`` the memory."""
        before = self._retained.entries()
        pairs = enumerate(zip(before, entries, strict=False))
        differs = next((index for index, (one, other) in pairs if one is not other), min(len(before), len(entries)))
        if differs < len(before):
            self._touch(differs)
        here, there = set(before[differs:]), set(entries[differs:])
        for entry in here - there:
            del self._by_position[entry.past.position]
            self._left(entry)
        for entry in there - here:
            self._by_position[entry.past.position] = entry
            self._came(entry)
        self._retained = self._new(entries)

    def _settle(self) -> None:
        """Record what was added and evicted, so that the next version starts from the current memory."""
        retained = self._retained
        for entry in retained.added:
            self._came(entry)
        for entry in retained.placeholders:
            self._came(entry)
        for entry, reason in retained.evicted:
            self._by_position.pop(entry.past.position)
            self._left(entry)
            self._counts["evictions"] += reason in _EVICTED
        for entry in retained.placeholders:
            self._by_position[entry.past.position] = entry
            entry.replaces = None
        self._touch(retained.intact)
        retained.intact = inf
        retained.added.clear()
        retained.placeholders.clear()
        retained.evicted.clear()

    def _new(self, entries: list[PastEntry]) -> Retained[PastEntry]:
        total = self._window.overhead + sum(entry.cost for entry in entries)
        return Retained(entries, total=total, window=self._window)

    def _entry_at(self, position: int) -> PastEntry | None:
        return self._by_position.get(self._original(position))

    def _original(self, position: int) -> int:
        return self._originals.get(position, position)


def _stood_for(entry: PastEntry, summary: PastMessage) -> bool:
    """Return whether a summary covers a message that the record had evicted before."""
    assert summary.covers_to is not None
    is_gone = entry.past.evicted_in is not None and entry.past.evicted_in < summary.added_in
    return is_gone and entry.past.position <= summary.covers_to and entry.type is not ChatMessageType.SYSTEM
