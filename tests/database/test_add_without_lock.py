"""An addition that locks nothing, beside one under the lock: the same rows, fewer statements."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatmemory import AiMessage, ChatMessage, MessageWindowChatMemory, SystemMessage, UserMessage
from chatmemory.models import Conversation
from chatmemory.stores import DjangoChatMemoryStore
from tests.database.test_conversations import check_invariants
from tests.support import budget
from tests.support.factories import ConversationFactory, UserFactory
from tests.support.kept_names import NAMES_ARE_KEPT
from tests.support.strategies import messages, tool_groups

pytestmark = pytest.mark.django_db(transaction=True)

batches = st.lists(st.lists(messages(), max_size=3) | tool_groups(), max_size=8)
marks = {
    "low_water": st.sampled_from([100, 70, 30]),
    "whole_turns": st.booleans(),
    "keep_tool_results": st.sampled_from([None, 0, 1]),
    "always_keep_system_message_first": st.booleans(),
}
windows = st.fixed_dictionaries(
    {"window": st.just("messages"), "limit": st.integers(1, 8), **marks}
) | st.fixed_dictionaries({"window": st.just("tokens"), "limit": st.integers(1, 400), **marks})


def state(conversation: Conversation) -> Any:
    """All that is stored, moments and keys aside."""
    check_invariants(conversation)
    own = ("id", "conversation_id", "created_at", "evicted_at")
    names = [f.attname for f in conversation.messages.model._meta.concrete_fields if f.attname not in own]
    assert not conversation.messages.evicted().filter(evicted_at__isnull=True).exists()
    return list(conversation.messages.order_by("position").values(*names)), conversation.version


@pytest.mark.slow
@settings(max_examples=budget.examples(60), suppress_health_check=list(HealthCheck))
@given(window=windows, batches=batches)
def test_with_and_without_a_lock_the_same(window: dict[str, Any], batches: list[list[ChatMessage]]) -> None:
    free, locked = ConversationFactory(owner=None, **window), ConversationFactory(owner=None, **window)
    for batch in batches:
        free.memory.add(*batch)
        with transaction.atomic():
            locked.memory.add(*batch)
        assert free.memory.messages() == locked.memory.messages()
    assert state(free) == state(locked)


class _Undone(Exception):
    pass


ways = st.sampled_from(["free", "free", "in a transaction", "undone", "by a copy"])


@pytest.mark.slow
@settings(max_examples=budget.examples(60), suppress_health_check=list(HealthCheck))
@given(
    window=windows, acts=st.lists(st.tuples(st.integers(0, 1), ways, batches.map(lambda said: said[:2])), max_size=8)
)
def test_objects_add_in_turn_whatever_they_were_told_before(
    window: dict[str, Any], acts: list[tuple[int, str, list[list[ChatMessage]]]]
) -> None:
    """Two objects of one conversation, either of which is out of date; and what one of them did may be undone."""
    first, reference = ConversationFactory(owner=None, **window), ConversationFactory(owner=None, **window)
    objects = [first, Conversation.objects.get(pk=first.pk)]
    for which, way, said in acts:
        conversation = copy.copy(objects[which]) if way == "by a copy" else objects[which]
        with suppress(_Undone), transaction.atomic() if way in ("in a transaction", "undone") else nullcontext():
            for batch in said:
                conversation.memory.add(*batch)
            if way == "undone":
                raise _Undone
        for batch in said if way != "undone" else []:
            with transaction.atomic():
                reference.memory.add(*batch)
        assert objects[which].memory.messages() == reference.memory.messages()
    assert state(first) == state(reference)


@pytest.mark.parametrize("owner", ["somebody", "nobody"])
def test_what_is_said_by_memory_id_is_said_in_its_conversation(owner: str) -> None:
    user = UserFactory() if owner == "somebody" else None
    memory = MessageWindowChatMemory(id="42", max_messages=2, store=DjangoChatMemoryStore(user))
    for number in range(5):
        memory.add(UserMessage(str(number)))
    conversation = Conversation.objects.get(memory_id="42", owner=user)
    assert memory.messages() == conversation.memory.messages() == [UserMessage("3"), UserMessage("4")]
    assert state(conversation)[1] == 5


# Beside those that begin and end a transaction, which PostgreSQL does not need for one statement.
IS_ONE_STATEMENT = connection.vendor == "postgresql" and not NAMES_ARE_KEPT
ADD = 2 if IS_ONE_STATEMENT else 3


def statements(captured: CaptureQueriesContext) -> list[str]:
    ours = [query["sql"] for query in captured.captured_queries]
    return [sql for sql in ours if not sql.startswith(("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE"))]


@pytest.mark.parametrize(("said", "way"), [(1, "nothing leaves"), (5, "something leaves")])
@pytest.mark.parametrize("locked", [False, True])
def test_statements_of_an_addition(said: int, way: str, locked: bool) -> None:
    conversation = ConversationFactory(window="messages", limit=3)
    for number in range(said):
        conversation.memory.add(UserMessage(str(number)))
    with CaptureQueriesContext(connection) as captured, transaction.atomic() if locked else nullcontext():
        conversation.memory.add(AiMessage("answer"))
    under_lock = 3 if way == "nothing leaves" else 4
    assert len(statements(captured)) == (under_lock if locked else ADD), statements(captured)
    with CaptureQueriesContext(connection) as captured:
        assert len(conversation.memory.messages()) == min(said + 1, 3)
    assert len(statements(captured)) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "more"), [(20, 1), (200, 2)])
def test_statements_of_an_addition_that_evicts_down_to_a_mark(limit: int, more: int) -> None:
    """More than fit one statement are marked by one of their own."""
    free, locked = (ConversationFactory(owner=None, window="messages", limit=limit, low_water=70) for _ in range(2))
    for conversation in free, locked:
        conversation.memory.add(*(UserMessage(str(number)) for number in range(limit)))
    with CaptureQueriesContext(connection) as captured:
        free.memory.add(AiMessage("answer"))
    at_once = IS_ONE_STATEMENT and limit == 20
    assert len(statements(captured)) == (3 if at_once else 3 + more), statements(captured)
    with transaction.atomic():
        locked.memory.add(AiMessage("answer"))
    assert free.retained_count == limit * 70 // 100
    assert {row.eviction_reason for row in free.messages.evicted()} == {"window"}
    assert state(free) == state(locked)


def test_a_system_message_that_was_replaced_elsewhere_is_said_again() -> None:
    conversation = ConversationFactory(window="messages", limit=3)
    conversation.memory.add(SystemMessage("one"))
    Conversation.objects.get(pk=conversation.pk).memory.add(SystemMessage("two"))
    conversation.memory.add(SystemMessage("one"))
    assert conversation.memory.messages() == [SystemMessage("one")]


def somebody_else(act: Callable[[], object], *, after: int = 1) -> AbstractContextManager[None]:
    """Has ``act`` done once, after so many statements."""
    todo = [act, *[None] * (after - 1)]

    def wrapper(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        result = execute(sql, params, many, context)
        if todo and (now := todo.pop()):
            now()
        return result

    return connection.execute_wrapper(wrapper)


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 2])
@pytest.mark.parametrize("limit", [20, 200])
def test_who_is_not_fastest_evicts_down_to_the_mark_all_the_same(after: int, limit: int) -> None:
    """Somebody changes the conversation before, or after, the rows are read that are to leave."""
    conversation = ConversationFactory(window="messages", limit=limit, low_water=50)
    conversation.memory.add(*(UserMessage(str(number)) for number in range(limit)))
    other = Conversation.objects.get(pk=conversation.pk).memory
    with somebody_else(lambda: other.add(UserMessage("faster")), after=after):
        conversation.memory.add(UserMessage("slower"))
    rest = [UserMessage(str(number)) for number in range(limit // 2 + 1, limit)]
    assert conversation.memory.messages() == [*rest, UserMessage("faster"), UserMessage("slower")]
    check_invariants(conversation)


def test_who_is_not_fastest_adds_all_the_same() -> None:
    """Somebody changes the conversation between the read and the write of an addition."""
    conversation = ConversationFactory(window="messages", limit=3)
    conversation.memory.add(UserMessage("first"))
    other = Conversation.objects.get(pk=conversation.pk).memory
    between = SystemMessage("in between"), AiMessage("too")
    with somebody_else(lambda: other.add(*between)):
        conversation.memory.add(UserMessage("second"))
    assert conversation.memory.messages() == [*between, UserMessage("second")]
    assert [row.text for row in conversation.messages.history()] == ["first", "in between", "too", "second"]
    assert state(conversation)[1] == 3


def test_a_window_changed_in_between_applies() -> None:
    conversation = ConversationFactory(window="messages", limit=3)
    conversation.memory.add(UserMessage("first"))
    other = Conversation.objects.get(pk=conversation.pk)
    with somebody_else(lambda: other.memory.set_window(limit=1)):  # evicts nothing, so the version stays
        conversation.memory.add(UserMessage("second"))
    assert conversation.memory.messages() == [UserMessage("second")]
    assert conversation.limit == 1


def test_another_case_of_the_model_is_another_model() -> None:
    """OpenAI's tokenizer of "GPT-4" is not known, so that one counts by another encoding than "gpt-4"."""
    conversation = ConversationFactory(window="tokens", limit=10_000, model="gpt-4")
    conversation.memory.add(UserMessage("Как дела? 今日はいい天気ですね"))
    counted = conversation.retained_tokens
    other = Conversation.objects.get(pk=conversation.pk)
    with somebody_else(lambda: other.memory.set_window(model="GPT-4")):
        conversation.memory.add(UserMessage("second"))
    assert other.retained_tokens != counted
    check_invariants(conversation)
