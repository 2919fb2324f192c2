"""The store on the ORM against the one in memory: whatever is done, the same comes out."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatmemory import (
    AiMessage,
    ChatMessage,
    InMemoryChatMemoryStore,
    MessageWindowChatMemory,
    OpenAiTokenCountEstimator,
    SystemMessage,
    TokenWindowChatMemory,
    UserMessage,
    messages_to_json,
)
from chatmemory.models import Conversation, Message
from chatmemory.stores import DjangoChatMemoryStore
from tests.database.test_conversations import check_invariants
from tests.support import budget
from tests.support.strategies import messages, tool_groups

pytestmark = pytest.mark.django_db

examples = settings(max_examples=budget.examples(40), suppress_health_check=list(HealthCheck))
batches = st.lists(st.lists(messages(), max_size=3) | tool_groups(), max_size=8)


@st.composite
def windows(draw: st.DrawFn) -> Any:
    """A function that makes a memory of one drawn window over a store."""
    first = draw(st.booleans())
    if draw(st.booleans()):
        limit = draw(st.integers(1, 8))
        return lambda store: MessageWindowChatMemory(
            max_messages=limit, store=store, always_keep_system_message_first=first
        )
    limit = draw(st.integers(1, 400))
    return lambda store: TokenWindowChatMemory(
        max_tokens=limit,
        token_count_estimator=OpenAiTokenCountEstimator("gpt-4o"),
        store=store,
        always_keep_system_message_first=first,
    )


@pytest.mark.slow
@examples
@given(window=windows(), batches=batches, sets=st.lists(st.lists(messages(), max_size=5), max_size=2))
def test_in_memory_and_on_the_orm_the_same(
    window: Any, batches: list[list[ChatMessage]], sets: list[list[ChatMessage]]
) -> None:
    with transaction.atomic():
        memories = [window(InMemoryChatMemoryStore()), window(DjangoChatMemoryStore())]
        for step, batch in enumerate(batches):
            for memory in memories:
                memory.add(*batch)
            if step < len(sets):
                kept = memories[0].messages()[-2:]
                for memory in memories:
                    memory.set([*sets[step], *kept])
            in_memory, on_the_orm = (memory.messages() for memory in memories)
            assert in_memory == on_the_orm
            assert messages_to_json(in_memory) == messages_to_json(on_the_orm)
        for conversation in Conversation.objects.all():
            check_invariants(conversation)
            assert conversation.memory.messages() == memories[1].messages()
        transaction.set_rollback(True)


class ElsewhereStore:
    """The store of a memory that runs elsewhere: it is sent whole lists."""

    def __init__(self) -> None:
        store = DjangoChatMemoryStore()
        self.get_messages, self.delete_messages = store.get_messages, store.delete_messages
        self.update_messages = store.update_messages


@pytest.mark.slow
@examples
@given(
    limit=st.integers(1, 5),
    system=st.booleans(),
    said=st.lists(st.sampled_from([UserMessage("ok"), AiMessage("ok"), UserMessage("no")]), max_size=16),
)
def test_what_a_memory_elsewhere_adds_to_a_full_window_was_said(
    limit: int, system: bool, said: list[ChatMessage]
) -> None:
    with transaction.atomic():
        memory = MessageWindowChatMemory(max_messages=limit + system, store=ElsewhereStore())
        expected: list[ChatMessage] = []
        for message in [SystemMessage("Be kind.")] * system + said:
            before = memory.messages()
            memory.add(message)
            if memory.messages() != before:  # a window of nothing but equal messages cannot be told apart
                expected.append(message)
        assert [row.message for row in Message.objects.history()] == expected
        assert not Message.objects.filter(origin="rewrite").exists()
        assert [row.message for row in Message.objects.retained()] == memory.messages()
        transaction.set_rollback(True)


@pytest.mark.slow
@examples
@given(window=windows(), batches=batches)
def test_one_batch_or_one_by_one_the_same(window: Any, batches: list[list[ChatMessage]]) -> None:
    said = [message for batch in batches for message in batch]
    outcomes = []
    for together in (True, False):
        with transaction.atomic():
            memory = window(DjangoChatMemoryStore())
            for part in [said] if together else [[message] for message in said]:
                memory.add(*part)
            rows = [
                list(conversation.messages.order_by("position").values_list("text", "eviction_reason", "memory_order"))
                for conversation in Conversation.objects.all()
            ]
            outcomes.append((memory.messages(), rows))
            transaction.set_rollback(True)
    assert outcomes[0] == outcomes[1]
