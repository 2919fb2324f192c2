"""Two clients of one conversation, in any interleaving, beside one memory in memory."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from chatmemory import ChatMessage, InMemoryChatMemoryStore, MessageWindowChatMemory
from chatmemory.models import Conversation
from chatmemory.stores import DjangoChatMemoryStore
from tests.database.test_conversations import check_invariants
from tests.support import budget
from tests.support.factories import ConversationFactory
from tests.support.strategies import messages, tool_groups

pytestmark = pytest.mark.django_db(transaction=True)

clients = st.sampled_from(["instance", "stale instance", "store"])
batches = st.lists(messages(), min_size=1, max_size=3) | tool_groups()


class TwoClients(RuleBasedStateMachine):
    """What one did, the other knows, however old its objects are."""

    @initialize(limit=st.integers(1, 6))
    def begin(self, limit: int) -> None:
        self.limit = limit
        self.conversation = ConversationFactory(owner=None, window="messages", limit=limit)
        self.stale = Conversation.objects.get(pk=self.conversation.pk)
        self.expected = MessageWindowChatMemory(id="expected", max_messages=limit, store=InMemoryChatMemoryStore())

    def memory(self, client: str) -> Any:
        if client == "store":
            store = DjangoChatMemoryStore()
            return MessageWindowChatMemory(id=self.conversation.memory_id, max_messages=self.limit, store=store)
        return (self.conversation if client == "instance" else self.stale).memory

    @rule(client=clients, batch=batches)
    def add(self, client: str, batch: list[ChatMessage]) -> None:
        self.memory(client).add(*batch)
        self.expected.add(*batch)

    @rule(client=clients, given=st.lists(messages(), max_size=4), kept=st.integers(0, 3))
    def rewrite(self, client: str, given: list[ChatMessage], kept: int) -> None:
        given = [*given, *self.expected.messages()[-kept:]] if kept else given
        self.memory(client).set(given)
        self.expected.set(given)

    @rule(client=clients)
    def clear(self, client: str) -> None:
        self.memory(client).clear()
        self.expected.clear()

    @rule(limit=st.integers(1, 6), stale=st.booleans())
    def change_window(self, limit: int, stale: bool) -> None:
        (self.stale if stale else self.conversation).memory.set_window(limit=limit)
        self.limit = limit
        kept = MessageWindowChatMemory(id="expected", max_messages=limit, store=InMemoryChatMemoryStore())
        kept.set(self.expected.messages())
        self.expected = kept

    @rule(batch=batches, key=st.sampled_from("abc"), stale=st.booleans())
    def add_once(self, batch: list[ChatMessage], key: str, stale: bool) -> None:
        """A request that comes twice, from one client and from the other."""
        key = f"{key} {self.conversation.idempotency_keys.count()}"
        first = (self.stale if stale else self.conversation).memory.add(*batch, idempotency_key=key)
        second = (self.conversation if stale else self.stale).memory.add(*batch, idempotency_key=key)
        self.expected.add(*batch)
        assert [row.position for row in first.added] == [row.position for row in second.added]

    @invariant()
    def all_see_the_same(self) -> None:
        if hasattr(self, "conversation"):
            for client in ("instance", "stale instance", "store"):
                assert self.memory(client).messages() == self.expected.messages()
            self.conversation.refresh_from_db()
            assert self.conversation.memory.at(self.conversation.version) == self.expected.messages()

    def teardown(self) -> None:
        if hasattr(self, "conversation"):
            check_invariants(self.conversation)


@pytest.mark.slow
def test_any_interleaving_of_two_clients() -> None:
    run_state_machine_as_test(
        TwoClients,
        settings=settings(
            max_examples=budget.examples(36),
            stateful_step_count=budget.steps(20),
            suppress_health_check=list(HealthCheck),
        ),
    )
