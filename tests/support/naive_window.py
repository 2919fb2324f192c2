"""A second model of the windows, from their rules alone: plain lists, and everything is looked up anew at each step.

It imports nothing of what it judges. It is slow and says the rules in the order in which they are written down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from chatmemory import AiMessage, ChatMessage, SystemMessage, ToolExecutionResultMessage, UserMessage

__all__ = ["PLACEHOLDER", "Item", "NaiveWindow", "Settings", "Step", "placeholder_of", "turns_of", "units_of"]

PLACEHOLDER = "[Old tool result cleared]"


@dataclass(eq=False)
class Item:
    """A message in a memory. Two items are never equal, even if their messages are."""

    message: ChatMessage

    pinned: bool = False

    original: Item | None = None
    """The tool result that gave way, if this is a placeholder."""


Gone = tuple[Item, str]
"""An item that left, and the reason."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a window."""

    limit: int

    tokens: Callable[[ChatMessage], int]
    """The tokens of a message."""

    window: str = "messages"

    request_tokens: int = 0
    """The tokens of a request without messages."""

    low_water: int = 100

    whole_turns: bool = False

    keep_tool_results: int | None = None

    reserve: int = 0

    compact_keep_calls: int | None = None

    always_keep_system_message_first: bool = False

    @property
    def room(self) -> int:
        """The part of the limit that is not kept free."""
        return self.limit - min(self.reserve, self.limit // 2) if self.window == "tokens" else self.limit

    def cost(self, message: ChatMessage) -> int:
        return self.tokens(message) if self.window == "tokens" else 1

    @property
    def overhead(self) -> int:
        return self.request_tokens if self.window == "tokens" else 0


@dataclass(kw_only=True)
class Step:
    """What one change did."""

    memory: list[ChatMessage]
    """What the model gets after it."""

    stored: list[ChatMessage]
    """What is stored after it."""

    left: list[tuple[ChatMessage, str]]
    """The messages that left, each with the reason; those too that came by the same change."""

    came: list[ChatMessage]
    """The messages that were added, and the placeholders that are stored."""

    total: int
    """The cost of what is stored."""

    version: int


@dataclass
class NaiveWindow:
    """A memory and its window."""

    settings: Settings

    items: list[Item] = field(default_factory=list)

    version: int = 0

    _left: list[Gone] = field(default_factory=list)
    _came: list[Item] = field(default_factory=list)

    # The verbs.

    def add(self, *messages: ChatMessage) -> Step:
        """Add messages, one after the other, in one change. If none of them is added, nothing is evicted either."""

        def act() -> None:
            before = list(self.items)
            added = [self._add(message) for message in messages]
            if not any(added):
                self.items, self._left, self._came = before, [], []

        return self._change(act)

    def set(self, messages: Iterable[ChatMessage]) -> Step:
        """Make ``messages`` the memory. What stays in order stays itself, with its pin."""
        given = list(messages)

        def act() -> None:
            stay = _longest_common(self.items, given)
            self._left += [(item, "rewritten") for item in self.items if item not in stay.values()]
            self.items = [stay.get(place) or Item(message) for place, message in enumerate(given)]
            self._came += [item for place, item in enumerate(self.items) if place not in stay]
            self._evict()

        return self._change(act)

    def clear(self) -> Step:
        """Let everything leave, whatever is pinned."""

        def act() -> None:
            for item in list(self.items):
                self._leave(item, "cleared")

        return self._change(act)

    def pin(self, index: int) -> Step:
        """Pin the stored message at ``index``.

        Raises:
            ValueError: the pinned messages and what they take along would be more than half of the limit.
        """
        item = self.items[index]
        was, item.pinned = item.pinned, True
        if not was and self._too_much_is_pinned():
            item.pinned = False
            raise ValueError("more than half of the limit would be pinned")
        return self._change(lambda: None, even_so=not was)

    def unpin(self, index: int) -> Step:
        """Let the window evict the stored message at ``index`` again, and evict what no longer fits."""
        was, self.items[index].pinned = self.items[index].pinned, False
        return self._change(self._evict if was else lambda: None, even_so=was)

    def clear_tool_results(
        self, keep: int = 3, exclude_tools: Iterable[str] = (), placeholder: str = PLACEHOLDER
    ) -> Step:
        """Clear old tool results at once, whatever the limit. Tokens say what is smaller, in each window."""
        excluded = list(exclude_tools)
        return self._change(lambda: self._clear_results(keep, self.settings.tokens, excluded, placeholder))

    def set_window(self, **changed: Any) -> Step:
        """Change settings, and evict what no longer fits.

        Raises:
            ValueError: the pinned messages and what they take along would be more than half of the limit.
        """
        before, cost = self.settings, self.pinned_cost()
        self.settings = replace(self.settings, **changed)
        is_more = self.pinned_cost() / self.settings.room > cost / before.room
        if self._too_much_is_pinned() and is_more:
            self.settings = before
            raise ValueError("more than half of the limit would be pinned")
        return self._change(self._evict)

    def evict(self) -> Step:
        """Evict what does not fit."""
        return self._change(self._evict)

    def messages(self) -> list[ChatMessage]:
        """Return what the model gets: what is stored, after eviction on a copy."""
        copy = NaiveWindow(self.settings, list(self.items))
        copy._evict()
        return [item.message for item in copy.items]

    # What holds at a moment.

    def total(self) -> int:
        """Return the cost of what is stored."""
        return self.settings.overhead + sum(self.settings.cost(item.message) for item in self.items)

    def pinned_cost(self) -> int:
        """Return the cost of what the pins keep: pinned units and, with whole turns, the question of their turn."""
        kept = [item for unit in units_of(self.items) if is_pinned(unit) for item in unit]
        if self.settings.whole_turns:
            kept += [turn[0] for turn in turns_of(self.items) if _question_stays(turn) and turn[0] not in kept]
        return sum(self.settings.cost(item.message) for item in kept)

    def _too_much_is_pinned(self) -> bool:
        return 2 * self.pinned_cost() > self.settings.room

    def over_the_limit(self) -> bool:
        return self.total() > self.settings.room

    def over_the_mark(self) -> bool:
        return self.total() * 100 > self.settings.room * self.settings.low_water

    # Eviction.

    def _evict(self) -> None:
        if not self.over_the_limit():
            return
        if self.settings.keep_tool_results is not None:
            self._clear_results(self.settings.keep_tool_results, self.settings.cost, [], PLACEHOLDER)
        if self.settings.whole_turns:
            while self.over_the_mark() and (leaving := self._oldest_turn()):
                self._leave_all(leaving)
            while self.over_the_mark() and (leaving := self._oldest_exchange_under_way()):
                self._leave_all(leaving)
        while self.over_the_limit() if self.settings.whole_turns else self.over_the_mark():
            leaving = self._oldest_unit()
            if not leaving:
                break
            if not self.over_the_limit() and (self.items[-1] in leaving or leaving in self._last_resort()):
                break
            self._leave_all(leaving)

    def _clear_results(
        self, keep: int, size: Callable[[ChatMessage], int], excluded_tools: list[str], text: str
    ) -> None:
        results = [item for item in self.items if is_result(item)]
        last = results[len(results) - min(keep, len(results)) :]
        under_way = turns_of(self.items)[-1] if self.items else []
        pinned = [item for unit in units_of(self.items) if is_pinned(unit) for item in unit]
        for index, item in enumerate(self.items):
            if not isinstance(item.message, ToolExecutionResultMessage) or item.original is not None:
                continue
            if item in under_way or item in last or item in pinned or item.message.tool_name in excluded_tools:
                continue
            smaller = placeholder_of(item.message, text)
            if size(item.message) > size(smaller):
                self.items[index] = Item(smaller, original=item)
                self._left.append((item, "tool_cleared"))
                self._came.append(self.items[index])

    def _oldest_turn(self) -> list[Item]:
        """Return what may leave of the oldest turn of which something may, but never of the turn under way."""
        system = next((item for item in self.items if is_system(item)), None)
        for turn in turns_of(self.items)[:-1]:
            leaving = [item for unit in units_of(turn) if not is_pinned(unit) for item in unit if item is not system]
            if _question_stays(turn):
                leaving = [item for item in leaving if item is not turn[0]]
            if leaving:
                return leaving
        return []

    def _oldest_exchange_under_way(self) -> list[Item]:
        """Return the oldest call of the turn under way, with its results, that is not pinned, and not the last call."""
        if not self.items:
            return []
        exchanges = [unit for unit in units_of(turns_of(self.items)[-1]) if is_call(unit[0])]
        return next((unit for unit in exchanges[:-1] if not is_pinned(unit)), [])

    def _oldest_unit(self) -> list[Item]:
        """Return the unit that LangChain4j would evict next, or what leaves so that the last question stays."""
        units = self._evictable()
        if self.settings.compact_keep_calls is None:
            return units[0] if units else []
        older = [unit for unit in units if self.items[-1] not in unit]
        return next(iter([*older, *self._last_resort(), *units]), [])

    def _evictable(self) -> list[list[Item]]:
        """Return the units that may leave, but not the last question if that is the last to leave."""
        units = [unit for unit in units_of(self.items) if not is_pinned(unit)]
        if self.settings.whole_turns:
            questions = [turn[0] for turn in turns_of(self.items) if _question_stays(turn)]
            units = [unit for unit in units if unit[0] not in questions]
        if self.settings.compact_keep_calls is not None:
            units = [unit for unit in units if unit[0] is not self._last_question()]
        return units[1:] if units and is_system(units[0][0]) else units

    def _last_resort(self) -> list[list[Item]]:
        """Return what leaves only if all is too much that is left beside the newest message."""
        question = self._last_question()
        if self.settings.compact_keep_calls is None or question is None or question.pinned:
            return []
        return [] if self.settings.whole_turns and _question_stays(turns_of(self.items)[-1]) else [[question]]

    def _last_question(self) -> Item | None:
        return next((item for item in reversed(self.items) if self._begins_turn(item)), None)

    def _begins_turn(self, item: Item) -> bool:
        return isinstance(item.message, UserMessage)

    def _leave_all(self, leaving: list[Item]) -> None:
        orphans = [item for unit in units_of(self.items) for item in unit[1:]]
        for item in leaving:
            self._leave(item, "orphan" if item in orphans else "window")

    def _leave(self, item: Item, reason: str) -> None:
        self.items.remove(item)
        self._left.append((item, reason))

    # Changes.

    def _add(self, message: ChatMessage) -> bool:
        """Add a message, unless it is the system message that is there already."""
        self._evict()
        if isinstance(message, SystemMessage):
            present = next((item for item in self.items if is_system(item)), None)
            if present is not None:
                if present.message == message:
                    return False
                self._leave(present, "replaced")
        to_front = isinstance(message, SystemMessage) and self.settings.always_keep_system_message_first
        self.items.insert(0 if to_front else len(self.items), Item(message))
        self._came.append(self.items[0 if to_front else -1])
        self._evict()
        return True

    def _change(self, act: Callable[[], object], *, even_so: bool = False) -> Step:
        """Do one change; it makes a version if anything came or left, or ``even_so``."""
        self._left, self._came = [], []
        act()
        # A placeholder that left by the change that made it was never stored: its original left for that reason.
        short_lived = {item: reason for item, reason in self._left if item.original and item in self._came}
        instead = {placeholder.original: reason for placeholder, reason in short_lived.items()}
        left = [(item, instead.get(item, reason)) for item, reason in self._left if item not in short_lived]
        came = [item for item in self._came if item not in short_lived]
        self.version += bool(left or came or even_so)
        return Step(
            memory=self.messages(),
            stored=[item.message for item in self.items],
            left=[(item.message, reason) for item, reason in left],
            came=[item.message for item in came],
            total=self.total(),
            version=self.version,
        )


def units_of(items: Iterable[Item]) -> list[list[Item]]:
    """Return the units: a call with the results that directly follow it, or any other message alone."""
    units: list[list[Item]] = []
    for item in items:
        if units and is_result(item) and is_call(units[-1][0]):
            units[-1].append(item)
        else:
            units.append([item])
    return units


def turns_of(items: Iterable[Item]) -> list[list[Item]]:
    """Return the turns: each begins with a user message, but for the first if something stands before that."""
    turns: list[list[Item]] = []
    for item in items:
        if not turns or isinstance(item.message, UserMessage):
            turns.append([item])
        else:
            turns[-1].append(item)
    return turns


def placeholder_of(result: ToolExecutionResultMessage, text: str = PLACEHOLDER) -> ToolExecutionResultMessage:
    """Return what takes the place of a tool result."""
    return ToolExecutionResultMessage(result.id, result.tool_name, text, is_error=result.is_error)


def is_system(item: Item) -> bool:
    return isinstance(item.message, SystemMessage)


def is_call(item: Item) -> bool:
    return isinstance(item.message, AiMessage) and bool(item.message.tool_execution_requests)


def is_result(item: Item) -> bool:
    return isinstance(item.message, ToolExecutionResultMessage)


def is_pinned(unit: list[Item]) -> bool:
    return any(item.pinned for item in unit)


def _question_stays(turn: list[Item]) -> bool:
    return isinstance(turn[0].message, UserMessage) and any(is_pinned(unit) for unit in units_of(turn))


def _longest_common(items: list[Item], given: list[ChatMessage]) -> dict[int, Item]:
    """Return the items of a longest common subsequence, by their places in ``given``."""
    best: list[list[dict[int, Item]]] = [[{} for _ in range(len(given) + 1)] for _ in range(len(items) + 1)]
    for row, item in reversed(list(enumerate(items))):
        for place, message in reversed(list(enumerate(given))):
            if item.message == message:
                best[row][place] = {place: item} | best[row + 1][place + 1]
            else:
                best[row][place] = max(best[row + 1][place], best[row][place + 1], key=len)
    return best[0][0]
