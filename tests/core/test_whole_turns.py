"""The promise of windows of whole turns: as long as what must stay fits, models take what is sent without a repair."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from chatmemory import AiMessage, ChatMessage, SystemMessage, ToolExecutionResultMessage, UserMessage
from chatmemory.core.entries import Entry
from chatmemory.core.eviction import Retained
from chatmemory.core.window import Window
from chatmemory.formats.anthropic import to_anthropic
from chatmemory.formats.gemini import to_gemini
from chatmemory.formats.openai import to_openai
from chatmemory.formats.responses import to_responses
from chatmemory.formats.validity import Repair, RepairReason
from tests.support.naive_window import Item, is_call, is_pinned, turns_of, units_of
from tests.support.short_messages import short
from tests.support.window_cases import conversations, examples, window_of, windows

WRITERS = [to_openai, to_responses, to_anthropic, to_gemini]


@dataclass
class Talk:
    """A conversation that goes on, and its memory."""

    window: Window
    said: list[Item]
    costs: dict[Item, int]
    retained: Retained

    def say(self, item: Item) -> None:
        """Add a message, and pin it if it is still there."""
        entry = Entry(item.message, self.costs.setdefault(item, self.window.cost(item.message)))
        before = self.retained.entries()
        self.retained.add(entry)
        memory = self.retained.entries()
        entry.pinned = item.pinned and entry in memory
        self.said.append(item)
        self.check_memory(before, memory)

    def check_memory(self, before: list[Entry], memory: list[Entry]) -> None:
        """What holds always."""
        total = self.window.overhead + sum(self.window.cost(entry.message) for entry in memory)
        assert self.retained.total == total
        assert all(entry in memory for entry in protected(before)), "a pinned message left"
        assert total <= self.window.room or memory == protected(memory), "over the limit"
        known = {identity(item.message): place for place, item in enumerate(self.said)}
        places = [known[identity(entry.message)] for entry in memory]
        assert places == sorted(set(places)), "not in order"

    def must_stay(self) -> int:
        """The cost of the system message, of pins and what they take along, and of what must stay of the last turn."""
        turns = turns_of(self.said)
        kept = {item for item in self.said if isinstance(item.message, SystemMessage)}
        for turn in turns:
            pinned = [item for unit in units_of(turn) if is_pinned(unit) for item in unit]
            kept.update(pinned, turn[:1] if pinned else [])
        units = units_of(turns[-1])
        older_calls = [unit for unit in units if is_call(unit[0])][:-1]
        kept.update(item for unit in units if unit not in older_calls for item in unit)
        return self.window.overhead + sum(self.costs[item] for item in kept)

    def check_request(self) -> None:
        """What holds as long as what must stay fits."""
        messages = [entry.message for entry in self.retained.entries()]
        called: set[str | None] = set()
        for message in messages:
            called |= ids_called_by([message])
            assert not isinstance(message, ToolExecutionResultMessage) or message.id in called, "an orphan"
        interrupted = ids_called_by(item.message for item in self.said) - {
            item.message.id for item in self.said if isinstance(item.message, ToolExecutionResultMessage)
        }
        for write in WRITERS:
            repairs: list[Repair] = []
            write(messages, repairs.append)
            for repair in repairs:
                assert repair.reason is RepairReason.CALL_WITHOUT_RESULT, (write.__name__, repair)
                assert ids_called_by([messages[repair.position]]) & interrupted
        turn = turns_of(self.said)[-1]
        calls = [unit for unit in units_of(turn) if is_call(unit[0])]
        last = [turn[0], *(calls[-1] if calls else [])]
        assert all(item.message in messages for item in last), "the question or the last call left"


@pytest.mark.slow
@examples(200)
@given(window=windows(whole_turns=True), conversation=conversations(), wide=st.integers(1, 6))
def test_nothing_has_to_be_repaired(window: dict[str, Any], conversation: list[Item], wide: int) -> None:
    bound = window_of(window | {"limit": window["limit"] * wide})
    note(f"{bound}\n" + "\n".join(f"{short(item.message)} {'pinned' * item.pinned}" for item in conversation))
    talk = Talk(bound, [], {}, Retained([], total=bound.overhead, window=bound))
    has_fit = True
    for item in conversation:
        gone = len(talk.retained.evicted)
        talk.say(item)
        has_fit = has_fit and talk.must_stay() <= bound.room
        is_new = len(talk.retained.evicted) > gone or item is conversation[-1]
        if has_fit and is_new and any(isinstance(said.message, UserMessage) for said in talk.said):
            talk.check_request()


def protected(memory: list[Entry]) -> list[Entry]:
    """The system message, the units that a pin keeps, and their questions."""
    entries = {Item(entry.message, entry.pinned): entry for entry in memory}
    pinned = {item for unit in units_of(entries) if is_pinned(unit) for item in unit}
    turns = [turn for turn in turns_of(entries) if isinstance(turn[0].message, UserMessage)]
    pinned |= {turn[0] for turn in turns if pinned.intersection(turn)}
    return [entry for item, entry in entries.items() if item in pinned or isinstance(entry.message, SystemMessage)]


def ids_called_by(messages: Iterable[ChatMessage]) -> set[str | None]:
    """The IDs of the calls that messages make."""
    answers = (message for message in messages if isinstance(message, AiMessage))
    return {request.id for message in answers for request in message.tool_execution_requests}


def identity(message: ChatMessage) -> object:
    """What tells a message from all others; a tool result has it in common with its placeholder."""
    return message.id if isinstance(message, ToolExecutionResultMessage) else message
