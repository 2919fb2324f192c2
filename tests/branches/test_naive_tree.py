"""Random talks that go back, beside a naive tree: a list of parents, and a list of positions for each memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chatmemory import AiMessage, ChatMessage, UserMessage
from chatmemory.models import Conversation, Message
from chatmemory.retention import purge_evicted
from chatmemory.verification import verify
from tests.support import budget

pytestmark = pytest.mark.django_db

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)

steps = st.lists(
    st.tuples(
        st.sampled_from(["ask", "ask", "edit", "answer again", "rewind", "switch", "limit", "purge"]),
        st.integers(0, 50),
    ),
    min_size=2,
    max_size=15,
)


@dataclass
class NaiveTree:
    """What is known of a conversation with a window of messages."""

    limit: int
    memory: list[int] = field(default_factory=list)
    head: int | None = None
    parents: dict[int, int | None] = field(default_factory=dict)
    before: dict[int, list[int]] = field(default_factory=dict)
    """The memory before each message."""
    left: list[tuple[int | None, list[int]]] = field(default_factory=list)
    """Each place that was left, and its memory."""
    erased: set[int] = field(default_factory=set)

    def say(self, position: int) -> None:
        self.parents[position], self.before[position] = self.head, list(self.memory)
        self.head = position
        self.memory = [*self.memory, position][-self.limit :]

    def rewind(self, position: int) -> None:
        self.left.append((self.head, list(self.memory)))
        self._return(self.parents[position], self.before[position])

    def switch(self, position: int) -> None:
        if position not in self.path(self.head):
            head, memory = next(place for place in reversed(self.left) if position in self.path(place[0]))
            self.left.append((self.head, list(self.memory)))
            self._return(head, memory)

    def _return(self, head: int | None, memory: list[int]) -> None:
        self.head = head
        self.memory = [position for position in memory if position not in self.erased][-self.limit :]

    def path(self, head: int | None) -> list[int]:
        found = []
        while head is not None:
            found.append(head)
            head = self.parents[head]
        return found[::-1]


ASK, AGAIN = ("ask", 0), ("answer again", 0)


@pytest.mark.slow
@given(limit=st.integers(1, 8), script=steps)
# A memory that has a message whose first restored copy was evicted long before its second one.
@example(4, [ASK, AGAIN, ("switch", 0), ASK, ASK, ASK, ("answer again", 2), ("purge", 0), ASK, ("edit", 1)])
@settings(max_examples=budget.examples(45))
def test_memory_tree_history_and_past_versions(limit: int, script: list[tuple[str, int]]) -> None:
    with transaction.atomic():
        _talk(limit, script)
        transaction.set_rollback(True)


def _talk(limit: int, script: list[tuple[str, int]]) -> None:
    conversation, tree = Conversation.objects.create(window="messages", limit=limit), NaiveTree(limit)
    Conversation.objects.filter(pk=conversation.pk).update(created_at=LONG_AGO)
    said: dict[int, ChatMessage] = {}
    past: dict[int, list[int]] = {0: []}

    def note(row: Message) -> None:
        said[row.position] = row.message
        tree.say(row.position)
        past[row.added_in] = list(tree.memory)

    def say(message: ChatMessage) -> None:
        note(conversation.memory.add(message).added[0])

    def known(kind: str, which: int) -> int | None:
        places = [place for place, message in said.items() if message.type == kind and place not in tree.erased]
        return places[which % len(places)] if places else None

    for number, (what, which) in enumerate(script):
        question, answer = known("USER", which), known("AI", which)
        match what:
            case "edit" if question is not None:
                tree.rewind(question)
                change = conversation.edit(question, UserMessage(f"edit {number}"))
                past[change.memory.version - 1] = list(tree.memory)
                note(change.added[0])
                say(AiMessage(f"answer {number}"))
            case "answer again" if answer is not None:
                tree.rewind(answer)
                past[conversation.rewind(before=answer).memory.version] = list(tree.memory)
                say(AiMessage(f"again {number}"))
            case "rewind" if question is not None:
                tree.rewind(question)
                past[conversation.rewind(before=question).memory.version] = list(tree.memory)
            case "switch" if answer is not None:
                tree.switch(answer)
                past[conversation.switch(answer).memory.version] = list(tree.memory)
            case "limit":
                tree.limit = which % 8 + 1
                tree.memory = tree.memory[-tree.limit :]
                past[conversation.memory.set_window(limit=tree.limit).memory.version] = list(tree.memory)
            case "purge":
                conversation.messages.filter(evicted_in__lte=max(0, conversation.version - which % 4)).update(
                    evicted_at=LONG_AGO
                )
                list(purge_evicted(LONG_AGO + timedelta(days=1), Conversation.objects.filter(pk=conversation.pk)))
                tree.erased = said.keys() - {row.position for row in conversation.messages.history()}
                conversation.refresh_from_db()
            case _:
                say(UserMessage(f"question {number}"))
                say(AiMessage(f"answer {number}"))
        assert conversation.memory.messages() == [said[position] for position in tree.memory]

    assert [row.position for row in conversation.messages.history()] == [*(said.keys() - tree.erased)]
    assert conversation.message_count == len(said)
    if not tree.erased:
        found = conversation.tree()
        assert (found.parents, found.head) == (tree.parents, tree.head)
        for version, positions in past.items():
            assert conversation.memory.at(version) == [said[position] for position in positions], version
    assert list(verify()) == []
    for position in said.keys() - tree.erased:
        conversation.switch(position)
        tree.switch(position)
        assert conversation.memory.messages() == [said[position] for position in tree.memory]
