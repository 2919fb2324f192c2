"""What receivers hear, and when."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction
from django.dispatch import Signal

from chatmemory import AiMessage, UserMessage, signals
from chatmemory.models import Conversation, Message
from chatmemory.signals import memory_cleared, memory_rewritten, messages_added, messages_evicted
from chatmemory.stores import DjangoChatMemoryStore
from tests.database.test_conversations import check_invariants
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def heard() -> Iterator[list[Any]]:
    """Signal names with the positions and reasons of their messages, in the order received."""
    received: list[Any] = []
    receivers = []
    for name, signal in vars(signals).items():
        if not isinstance(signal, Signal):
            continue

        def receive(sender: Any, signal: Any, conversation: Any, _name: str = name, **kwargs: Any) -> None:
            assert sender is Conversation
            rows = kwargs.get("messages", [])
            received.append((_name, [(row.position, row.eviction_reason) for row in rows]))

        signal.connect(receive)
        receivers.append((signal, receive))
    yield received
    for signal, receiver in receivers:
        signal.disconnect(receiver)


def test_adding_and_evicting(heard: list[Any]) -> None:
    conversation = ConversationFactory(window="messages", limit=1)
    conversation.memory.add(UserMessage("a"), UserMessage("b"))
    gone = (0, "window")
    assert heard == [("messages_evicted", [gone]), ("messages_added", [gone, (1, "")])]


def test_clearing_and_rewriting(heard: list[Any]) -> None:
    conversation = ConversationFactory()
    conversation.memory.add(UserMessage("a"))
    heard.clear()
    conversation.memory.set([UserMessage("b")])
    conversation.memory.clear()
    conversation.memory.clear()
    assert heard == [
        ("messages_evicted", [(0, "rewritten")]),
        ("memory_rewritten", [(1, "")]),
        ("messages_evicted", [(1, "cleared")]),
        ("memory_cleared", []),
    ]


def test_nothing_is_heard_before_the_commit_or_after_a_rollback(heard: list[Any]) -> None:
    conversation = ConversationFactory()
    with transaction.atomic():
        conversation.memory.add(UserMessage("a"))
        assert heard == []
    assert [name for name, _ in heard] == ["messages_added"]
    heard.clear()
    with transaction.atomic():
        conversation.memory.add(UserMessage("b"))
        transaction.set_rollback(True)
    assert heard == []


def test_a_failing_receiver_does_not_reach_the_caller(heard: list[Any]) -> None:
    def fail(**kwargs: Any) -> None:
        raise RuntimeError("receiver")

    for signal in (messages_added, messages_evicted, memory_cleared, memory_rewritten):
        signal.connect(fail)
    try:
        DjangoChatMemoryStore().update_messages("x", [UserMessage("a")])
        Conversation.objects.get().memory.clear()
    finally:
        for signal in (messages_added, messages_evicted, memory_cleared, memory_rewritten):
            signal.disconnect(fail)
    assert [name for name, _ in heard] == ["messages_added", "messages_evicted", "memory_cleared"]


@pytest.mark.parametrize("by", ["the conversation it is given", "the caller's object"])
@pytest.mark.parametrize("locked", [False, True])
def test_a_receiver_may_add(by: str, locked: bool) -> None:
    conversation = ConversationFactory(window="messages", limit=1)
    conversation.memory.add(UserMessage("before"))

    def answer(
        conversation: Conversation, messages: list[Message], _own: Conversation = conversation, **_: Any
    ) -> None:
        if messages[0].text == "question":
            (conversation if by == "the conversation it is given" else _own).memory.add(AiMessage("answer"))

    messages_added.connect(answer)
    try:
        change = conversation.memory.add(UserMessage("question"), idempotency_key="1" if locked else None)
    finally:
        messages_added.disconnect(answer)
    assert (change.memory.version, change.memory.messages) == (2, 1)
    assert [(row.position, row.evicted_in) for row in change.evicted] == [(0, 2)]
    assert [row.evicted_in for row in conversation.messages.order_by("position")] == [2, 3, None]
    if by == "the caller's object":
        assert conversation.version == 3
    assert conversation.memory.messages() == [AiMessage("answer")]
    check_invariants(conversation)
