"""The store does what Pydantic AI's own store in memory does, and the memory of each conversation is its history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from copy import deepcopy
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from pydantic_ai.conversation import Conversation, ConversationTypeAdapter
from pydantic_ai.conversation_store import ConversationStore, InMemoryConversationStore
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.tools import DeferredToolRequests
from pydantic_ai.usage import RunUsage

from chatmemory import SystemMessage
from chatmemory.contrib.pydantic_ai import DjangoConversationStore
from chatmemory.contrib.pydantic_ai.history import plain_messages, said_of
from chatmemory.contrib.pydantic_ai.models import Entry, Record
from chatmemory.core.json_text import with_replacements
from chatmemory.core.serialization import message_to_data
from chatmemory.models import Conversation as Row
from chatmemory.verification import verify

pytestmark = pytest.mark.django_db

IDS = ("a", "b", "c")
SCOPES = (None, None, "one", "two")
Pair = tuple[Any, Any]


class Course:
    """Several writers use both stores in the same way, as chance says."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.stores: tuple[ConversationStore, ConversationStore] = (
            InMemoryConversationStore(),
            DjangoConversationStore(window="messages", limit=100_000),
        )
        self.held: list[Pair] = []
        """Copies of conversations that writers have loaded, some of them outdated."""
        self.entries: list[Pair] = []
        """The IDs of entries, in both stores."""
        self.number = 0
        self.outcomes: Counter[str] = Counter()

    def both(self, act: Callable[[ConversationStore, int], Awaitable[Any]]) -> Pair:
        """Act on both stores, and return what both returned; the errors must be the same."""
        results, errors = [], []

        async def run(store: ConversationStore, side: int) -> Any:
            return await act(store, side)

        for side, store in enumerate(self.stores):
            try:
                results.append(async_to_sync(run)(store, side))
                errors.append("")
            except (UserError, KeyError) as error:
                text = "" if isinstance(error, KeyError) else str(error)
                results.append(None)
                errors.append(f"{type(error).__name__} {self._named(text)}")
        assert errors[0] == errors[1]
        self.outcomes[errors[0].split(" ")[0]] += 1
        return results[0], results[1]

    def _named(self, text: str) -> str:
        for number, pair in enumerate(self.entries):
            for entry_id in pair:
                text = text.replace(entry_id, f"entry {number}")
        return text

    def name(self, entry_id: str | None) -> str | None:
        return None if entry_id is None else self._named(entry_id)

    def new_messages(self) -> list[ModelMessage]:
        def text() -> str:
            self.number += 1
            return self.random.choice([f"{self.number}", "again"])

        call = f"call {self.number}"
        kinds: list[list[ModelMessage]] = [
            [ModelRequest([UserPromptPart(text())]), ModelResponse([TextPart(text())])],
            [ModelRequest([SystemPromptPart(text()), UserPromptPart(text())], instructions="Be kind\x00.")],
            [
                ModelResponse([ToolCallPart("find", {"who": text()}, call)]),
                ModelRequest([ToolReturnPart("find", {"who": [text(), "\x00"]}, call), UserPromptPart(text())]),
            ],
            [],
        ]
        return self.random.choice(kinds)

    def step(self) -> None:
        acts = [self.create, self.load, self.save, self.save, self.save, self.save, self.branch, self.fork, self.delete]
        self.random.choice([*acts, self.read])()
        del self.held[:-6]
        self.compare()

    def create(self) -> None:
        conversation = Conversation(conversation_id=self.random.choice(IDS), messages=self.new_messages())
        self.held.append((conversation, deepcopy(conversation)))

    def load(self) -> None:
        conversation_id, scope = self.random.choice(IDS), self.random.choice(SCOPES)
        limit = self.random.choice([None, None, 0, 1, 3, -1])
        self._hold(self.both(lambda store, _: store.load(conversation_id, limit=limit, scope=scope)))

    def _hold(self, loaded: Pair) -> None:
        theirs, ours = loaded
        assert theirs is None or replace(theirs, revision="") == replace(ours, revision="")
        assert (theirs is None) == (ours is None)
        if theirs is not None:
            self.held.append((theirs, ours))

    def save(self) -> None:
        if not self.held:
            return
        number = self.random.randrange(len(self.held))
        pair, scope, new = self.held[number], self.random.choice(SCOPES), self.new_messages()
        chance = self.random.random()
        requests = DeferredToolRequests(approvals=[ToolCallPart("pay", {"x": "\x00"}, "p")])
        if chance < 0.2:  # as a client sends it
            pair = tuple(ConversationTypeAdapter.validate_json(ConversationTypeAdapter.dump_json(one)) for one in pair)
            self.held[number] = pair
        place = self.random.randrange(len(pair[0].messages) + 1)
        for conversation in pair:
            if 0.2 < chance < 0.4:
                conversation.messages[place:] = []
            elif 0.4 < chance < 0.5:
                conversation.messages[place : place + 1] = new
            conversation.messages += deepcopy(new)
            conversation.usage += RunUsage(requests=1, input_tokens=7, details={"x": place})
            conversation.deferred_tool_requests = requests if chance > 0.7 else None
        saved = self.both(lambda store, side: store.save(pair[side], scope=scope))
        if saved[0] is not None:
            self.entries += [(one.id, other.id) for one, other in zip(*saved, strict=True)]

    def _point(self) -> list[dict[str, Any]]:
        """What ``branch`` and ``fork`` go on from, in both stores."""
        if self.entries and self.random.random() < 0.6:
            pair = self.random.choice(self.entries)
            return [{"from_entry": entry_id} for entry_id in pair]
        return [{"at": at} for at in [self.random.choice([None, 0, 1, 2, 4, 9])] * 2]

    def branch(self) -> None:
        point, scope = self._point(), self.random.choice(SCOPES)
        if not self.held:
            return
        if self.random.random() < 0.8:  # otherwise the copy may be outdated
            self.load()
        pair = self.held[-1]

        def act(store: ConversationStore, side: int) -> Awaitable[Any]:
            conversation = pair[side]
            return store.branch(
                conversation.conversation_id, expected_revision=conversation.revision, scope=scope, **point[side]
            )

        self._hold(self.both(act))

    def fork(self) -> None:
        source, target, point = self.random.choice(IDS), self.random.choice(IDS), self._point()
        scope, source_scope = self.random.choice(SCOPES), self.random.choice(SCOPES)

        def act(store: ConversationStore, side: int) -> Awaitable[Any]:
            return store.fork(source, new_conversation_id=target, scope=scope, source_scope=source_scope, **point[side])

        self._hold(self.both(act))

    def delete(self) -> None:
        conversation_id, scope = self.random.choice(IDS), self.random.choice(SCOPES)
        if self.random.random() < 0.5:
            self.both(lambda store, _: store.delete(conversation_id, scope=scope))

    def read(self) -> None:
        scope, limit = self.random.choice(SCOPES), self.random.choice([None, 0, 1, 2, -1])
        listed = self.both(lambda store, _: store.list_conversations(scope=scope, limit=limit))
        assert self._plain(listed[0]) == self._plain(listed[1])
        if self.entries:
            pair = self.random.choice(self.entries)
            one, other = self.both(lambda store, side: store.read_entry(pair[side]))
            assert (one is None) == (other is None)
            assert one is None or (one.message, one.kind) == (other.message, other.kind)
            assert one is None or self.name(one.parent_id) == self.name(other.parent_id)

    def _plain(self, records: Any) -> Any:
        """Records without what differs between stores: times and revisions."""
        return records and [
            replace(
                record,
                head_id=self.name(record.head_id),
                forked_at=self.name(record.forked_at),
                branches=list(map(self.name, record.branches)),
                revision="",
                updated_at=None,
            )
            for record in records
        ]

    def compare(self) -> None:
        listed = self.both(lambda store, _: store.list_conversations())
        assert self._plain(listed[0]) == self._plain(listed[1])
        for conversation_id in IDS:
            ours = self.both(lambda store, _: store.load_entries(conversation_id))[1]  # noqa: B023
            row = Row.objects.named(None, conversation_id).first()
            if row is not None:
                self.compare_memory(row, [] if ours is None else [entry.message for entry in ours])

    def compare_memory(self, row: Row, history: list[ModelMessage]) -> None:
        plain = plain_messages(history)[1]
        said = [message for one, form in zip(history, plain, strict=True) for message, _ in said_of(one, 0, form)]
        systems = [message for message in said if isinstance(message, SystemMessage)]
        memory = row.memory.messages()
        assert [message for message in memory if isinstance(message, SystemMessage)] == systems[-1:]
        assert [message_to_data(message) for message in memory if not isinstance(message, SystemMessage)] == [
            with_replacements(message_to_data(message)) for message in said if not isinstance(message, SystemMessage)
        ]
        forms = [form for one in row.messages.history() if (form := one.native_of("pydantic_ai")) is not None]
        assert len({str((form["entry"], form.get("parts"))) for form in forms}) == len(forms)  # each once


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_both_stores_return_and_raise_the_same(seed: int) -> None:
    course = Course(seed)
    for _ in range(40):
        course.step()
    assert list(verify()) == []
    assert course.outcomes.keys() >= {"", "ConversationConflict", "UserError"}
    assert Record.objects.count() == len(async_to_sync(course.stores[1].list_conversations)())
    for conversation_id in IDS:
        async_to_sync(course.stores[1].delete)(conversation_id)
    assert not Entry.objects.exists()
