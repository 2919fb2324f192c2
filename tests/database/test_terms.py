"""The terms of a change: what its caller demands, the bound of the memory, and what is done in its transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier
from typing import Any

import pytest
from django.db import connection, connections

from chatmemory import AiMessage, ChatMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.core.exceptions import MemoryTooLargeError
from chatmemory.database.change import Change
from chatmemory.database.reading import MemoryBound
from chatmemory.models import Conversation, Message
from tests.database.test_conversations import check_invariants
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db(transaction=True)

MOST = MemoryBound(messages=10, chars=100)


@contextmanager
def at_first_size(act: Callable[[], object]) -> Iterator[None]:
    """Do ``act`` when this thread has read a memory and is about to ask for its size, the first time."""
    left = [act]

    def execute(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if left and sql.startswith("SELECT COUNT(*), SUM("):
            left.pop()()
        return execute(sql, params, many, context)

    with connection.execute_wrapper(execute):
        yield


def in_thread(work: Callable[[], object]) -> None:
    def run() -> None:
        try:
            work()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(run).result(timeout=60)


def own(conversation: Conversation) -> Conversation:
    return Conversation.objects.get(pk=conversation.pk)


def texts(conversation: Conversation) -> list[str]:
    return [row.text for row in own(conversation).messages.retained()]


class TestTheBound:
    def test_of_two_writers_at_it_one_is_refused(self) -> None:
        conversation = ConversationFactory()
        conversation.memory.add(UserMessage("x" * 60))
        both_have_read = Barrier(2)

        def write(text: str) -> str:
            try:
                with at_first_size(lambda: both_have_read.wait(timeout=60)):
                    own(conversation).memory.add(UserMessage(text), most=MOST)
                return "added"
            except MemoryTooLargeError as error:
                return str(error)
            finally:
                connections.close_all()

        with ThreadPoolExecutor(2) as pool:
            refused, added = sorted(pool.map(write, ["a" * 40, "b" * 40]))
        assert added == "added"
        assert refused.startswith("The memory has, or would have, 3 messages and 140 characters; at most 10 messages")
        assert [len(text) for text in texts(conversation)] == [60, 40]
        check_invariants(own(conversation))

    def test_a_size_of_a_later_moment_refuses_nothing(self) -> None:
        """Another writer's message, which this one evicts, was not there when it was planned what leaves."""
        conversation = ConversationFactory(window="messages", limit=1)
        conversation.memory.add(UserMessage("x" * 60))
        other = own(conversation)
        with at_first_size(lambda: in_thread(lambda: other.memory.add(UserMessage("y" * 90)))):
            conversation.memory.add(UserMessage("z" * 90), most=MOST)
        assert texts(conversation) == ["z" * 90]
        check_invariants(own(conversation))

    @pytest.mark.parametrize("key", [None, "k"], ids=["without a lock", "under the lock"])
    def test_what_is_kept_beside_the_text_counts(self, key: str | None) -> None:
        conversation = ConversationFactory()
        for thinking in ("x" * 101, "x" * 60):
            with pytest.raises(MemoryTooLargeError):
                conversation.memory.add(
                    AiMessage("Hm", thinking=thinking), UserMessage("y" * 60), idempotency_key=key, most=MOST
                )
        assert own(conversation).version == 0

    def test_a_memory_that_is_too_large_already_is_refused(self) -> None:
        conversation = ConversationFactory(window="messages", limit=1)
        conversation.memory.add(UserMessage("x" * 101))
        with pytest.raises(MemoryTooLargeError):
            conversation.memory.add(UserMessage("y"), most=MOST)
        with pytest.raises(MemoryTooLargeError):
            conversation.memory.set([UserMessage("y")], most=MOST)
        conversation.memory.add(UserMessage("y"))
        assert texts(conversation) == ["y"]

    def test_what_was_added_before_is_told_again(self) -> None:
        conversation = ConversationFactory()
        first = conversation.memory.add(UserMessage("x" * 80), idempotency_key="k", most=MOST)
        again = conversation.memory.add(UserMessage("x" * 80), idempotency_key="k", most=MemoryBound(0, 0))
        assert [row.pk for row in again.added] == [row.pk for row in first.added]
        assert Message.objects.count() == 1

    def test_a_rewrite_counts_what_stays_and_comes(self) -> None:
        conversation = ConversationFactory(window="messages", limit=2)
        conversation.memory.add(UserMessage("x" * 60), UserMessage("y" * 40))
        with pytest.raises(MemoryTooLargeError):
            conversation.memory.set([UserMessage("y" * 40), UserMessage("z" * 61)], most=MOST)
        assert texts(conversation) == ["x" * 60, "y" * 40]
        # What the window evicts of the new ones, too.
        conversation.memory.set([UserMessage("w" * 90), UserMessage("y" * 40), UserMessage("z" * 60)], most=MOST)
        assert texts(conversation) == ["y" * 40, "z" * 60]


CALL = AiMessage(None, [ToolExecutionRequest("1", "look_up", "{}")])
SAID: list[ChatMessage] = [
    UserMessage("word " * 100),
    CALL,
    ToolExecutionResultMessage("1", "look_up", "word " * 400),
    AiMessage("word " * 100),
    UserMessage("u"),
]
CHANGES: dict[str, Callable[[Any, Any], object]] = {
    "add": lambda memory, terms: memory.add(UserMessage("v"), **terms),
    "add_all": lambda memory, terms: memory.add_all([UserMessage("v")], **terms),
    "set": lambda memory, terms: memory.set([UserMessage("v")], **terms),
    "clear": lambda memory, terms: memory.clear(**terms),
    "erase": lambda memory, terms: memory.erase(**terms),
    "clear_tool_results": lambda memory, terms: memory.clear_tool_results(0, **terms),
    "pin": lambda memory, terms: memory.pin(4, **terms),
    "unpin": lambda memory, terms: memory.unpin(0, **terms),
    "set_window": lambda memory, terms: memory.set_window(limit=500, **terms),
    "apply_text": lambda memory, terms: memory.apply_text(3, "Brief.", **terms),
}


class Refused(Exception):
    pass


def refuse(_: object) -> None:
    raise Refused


@pytest.fixture
def conversation() -> Conversation:
    made: Conversation = ConversationFactory(window="tokens", limit=2000)
    made.memory.add(*SAID)
    made.memory.pin(0)
    return made


def state(conversation: Conversation) -> Any:
    rows = Conversation.objects.filter(pk=conversation.pk).values()
    return list(rows), list(conversation.messages.order_by("position").values())


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_also_done_is_done_with_the_change_or_neither_is(conversation: Conversation, name: str) -> None:
    change, before = CHANGES[name], state(conversation)

    def note(_: Change) -> None:
        Conversation.objects.create(title="noted")
        raise Refused

    with pytest.raises(Refused):
        change(conversation.memory, {"also": note})
    assert state(conversation) == before
    assert conversation.version == own(conversation).version
    assert not Conversation.objects.filter(title="noted").exists()
    made: list[Change] = []
    change(conversation.memory, {"also": made.append})
    assert len(made) == 1
    assert state(own(conversation) if name != "erase" else conversation) != before


@pytest.mark.parametrize("name", CHANGES)
def test_what_the_precondition_refuses_is_not_done(conversation: Conversation, name: str) -> None:
    before = state(conversation)
    with pytest.raises(Refused):
        CHANGES[name](conversation.memory, {"precondition": refuse})
    assert state(conversation) == before


def test_the_conversation_is_locked_while_something_else_is_done(conversation: Conversation) -> None:
    before = state(conversation)
    with pytest.raises(Refused):
        conversation.memory.under_lock(refuse)
    conversation.memory.under_lock(lambda change: Conversation.objects.create(title=str(change.conversation.version)))
    assert Conversation.objects.filter(title=str(conversation.version)).exists()
    assert state(conversation) == before


@pytest.mark.parametrize("version", [None, 1, 0])
def test_the_size_counts_messages_and_all_their_characters(conversation: Conversation, version: int | None) -> None:
    rows = list(conversation.messages.in_memory_at(conversation.version if version is None else version))
    chars = sum(len(row.text) + len(row.payload or "") for row in rows)
    assert conversation.memory.size(version) == (len(rows), chars)


def test_clearing_is_tried_without_a_change(conversation: Conversation) -> None:
    before = state(conversation)
    tokens, freed = conversation.memory.try_clearing(0)
    assert state(conversation) == before
    change = conversation.memory.clear_tool_results(0)
    assert tokens == {row.position: row.token_count for row in change.evicted}
    assert freed == sum(tokens.values()) - sum(row.token_count for row in change.added) > 0
