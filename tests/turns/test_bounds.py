"""Turns at the bound of a memory: one that would make it too large is refused, and leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from django.db import connection, connections
from django.test import Client
from django.test.utils import CaptureQueriesContext

from chatmemory import AiMessage, MessageWindowChatMemory, UserMessage
from chatmemory.assistant import Assistant, ConversationBusyError
from chatmemory.assistant.assistant import running_turn
from chatmemory.core.exceptions import MemoryTooLargeError
from chatmemory.database.reading import MemoryBound
from chatmemory.models import Conversation
from chatmemory.stores import DjangoChatMemoryStore
from chatmemory.verification import verify
from tests.database.test_async import run
from tests.support.assistant_models import calling
from tests.support.assistants import assistant as project_assistant
from tests.support.factories import ConversationFactory
from tests.support.turns import ask, said

pytestmark = pytest.mark.django_db(transaction=True)

MOST = MemoryBound(messages=10, chars=100)


@pytest.fixture(autouse=True)
def _books_are_right() -> Iterator[None]:
    yield
    assert list(verify()) == []


@pytest.fixture
def nearly_full(conversation: Conversation) -> Conversation:
    """A conversation of 60 characters, of which the tests allow 100."""
    conversation.memory.add(UserMessage("x" * 60))
    return conversation


def speak(messages: Any, tools: Any) -> AiMessage:
    return AiMessage("!")


def begin_and_run(
    conversation: Conversation, text: str, before: Callable[[Any], None] | None = None, **options: Any
) -> AiMessage:
    *_, answer = Assistant(speak, system_message=before).begin(conversation, text, most=MOST, **options).events()
    assert isinstance(answer, AiMessage)
    return answer


def abegin_and_run(conversation: Conversation, text: str, before: object = None, **options: Any) -> AiMessage:
    async def whole() -> Any:
        while True:
            try:
                turn = await Assistant(speak).abegin(conversation, text, most=MOST, wait_timeout=0, **options)
                break
            except ConversationBusyError:
                await asyncio.sleep(0)
        return [event async for event in turn.aevents()][-1]

    answer: AiMessage = run(whole())
    return answer


both_ways = pytest.mark.parametrize("take", [begin_and_run, abegin_and_run], ids=["sync", "async"])
with_and_without_key = pytest.mark.parametrize("key", [None, "k"], ids=["without a key", "with a key"])


def at_once(take: Callable[[str], Any]) -> list[Any]:
    """What two threads return, or the exceptions that they raise."""

    def outcome(text: str) -> Any:
        try:
            return take(text)
        except MemoryTooLargeError as error:
            return error
        finally:
            connections.close_all()

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(outcome, ["a" * 38, "b" * 38]))


_both_have_come = Barrier(2)


def meeting(request: Any) -> Assistant:
    """The assistant of two requests, which begin their turns at the same moment."""
    _both_have_come.wait(timeout=60)
    return project_assistant(request)


def test_of_two_requests_one_is_refused(user: Any, nearly_full: Conversation, settings: Any) -> None:
    settings.CHATMEMORY = {**settings.CHATMEMORY, "MAX_MEMORY_CHARS": 100, "ASSISTANT": f"{__name__}.meeting"}

    def take(text: str) -> Any:
        client = Client()
        client.force_login(user)
        answer = ask(client, nearly_full, text)
        while answer.status_code == 409:  # the other turn took its time
            _both_have_come.reset()
            settings.CHATMEMORY = {**settings.CHATMEMORY, "ASSISTANT": "tests.support.assistants.assistant"}
            answer = ask(client, nearly_full, text)
        return answer

    taken, refused = sorted(at_once(take), key=lambda answer: answer.status_code)
    text = taken.json()["added"][0]["text"]
    spoken = f"You said: {text}"
    assert (taken.status_code, refused.status_code) == (200, 413)
    chars = 60 + len(text) + len(spoken)
    assert refused.json()["code"] == "memory_too_large"
    assert refused.json()["params"] == {"count": 3, "chars": chars, "most_messages": 5000, "most_chars": 100}
    assert said(nearly_full) == ["x" * 60, text, spoken]


@both_ways
def test_of_two_turns_one_is_refused(nearly_full: Conversation, take: Any) -> None:
    rows = Conversation.objects.filter(pk=nearly_full.pk)
    both_have_come = Barrier(2)  # tasks that share a thread cannot wait for each other

    def meet(conversation: Conversation) -> None:
        both_have_come.wait(60)

    outcomes = at_once(lambda text: take(rows.get(), text, before=meet))
    [refused] = [one for one in outcomes if isinstance(one, MemoryTooLargeError)]
    [answer] = [one for one in outcomes if isinstance(one, AiMessage)]
    assert (refused.params["count"], refused.params["chars"]) == (4, 60 + 38 + 1 + 38)
    assert answer == AiMessage("!")
    texts = said(nearly_full)
    assert [len(text) for text in texts] == [60, 38, 1]
    assert running_turn(nearly_full) is None
    take(rows.get(), "y")
    assert said(nearly_full) == [*texts, "y", "!"]


@both_ways
@with_and_without_key
def test_one_that_is_refused_leaves_nothing(nearly_full: Conversation, take: Any, key: str | None) -> None:
    before = Conversation.objects.values("version", "next_position", "turn_until").get(pk=nearly_full.pk)
    for _ in range(2):
        with pytest.raises(MemoryTooLargeError):
            take(nearly_full, "y" * 41, idempotency_key=key)
        assert Conversation.objects.values(*before).get(pk=nearly_full.pk) == before
        assert said(nearly_full) == ["x" * 60]
    nearly_full.memory.clear()
    take(nearly_full, "y" * 41, idempotency_key=key)
    assert said(nearly_full) == ["x" * 60, "y" * 41, "!"]


@with_and_without_key
def test_nor_does_it_leave_what_comes_before_its_message(nearly_full: Conversation, key: str | None) -> None:
    nearly_full.memory.set([UserMessage("x" * 40), calling(("tea", "{}"))])  # whose turn was killed
    version = nearly_full.version
    assistant = Assistant(speak, system_message="Be brief.")
    with pytest.raises(MemoryTooLargeError):
        assistant.begin(nearly_full, "y" * 50, most=MOST, idempotency_key=key)
    assert (nearly_full.version, Conversation.objects.get(pk=nearly_full.pk).version) == (version, version)
    most = MemoryBound(messages=10, chars=1000)
    turn = assistant.begin(nearly_full, "y" * 50, most=most, idempotency_key=key)
    added = [row.type for change in turn.changes for row in change.added]
    assert added == ["TOOL_EXECUTION_RESULT", "SYSTEM", "USER"]
    assert len(turn.changes) == (1 if key is None else 2)
    assert list(turn.events())[-1] == AiMessage("!")


@with_and_without_key
def test_one_that_just_fits_is_taken(nearly_full: Conversation, key: str | None) -> None:
    assistant = Assistant(speak)
    for most in MemoryBound(messages=1, chars=100), MemoryBound(messages=2, chars=99):
        with pytest.raises(MemoryTooLargeError):
            assistant.begin(nearly_full, "y" * 40, most=most, idempotency_key=key)
    assistant.begin(nearly_full, "y" * 40, most=MemoryBound(messages=2, chars=100), idempotency_key=key).release()
    assert said(nearly_full) == ["x" * 60, "y" * 40]


def test_one_that_comes_again_is_answered_as_before(nearly_full: Conversation) -> None:
    for most in (MOST, MemoryBound(1, 10)):
        turn = Assistant(speak).begin(nearly_full, "y" * 39, most=most, idempotency_key="k")
        assert (turn.answer or list(turn.events())[-1]) == AiMessage("!")
    assert said(nearly_full) == ["x" * 60, "y" * 39, "!"]


def test_what_the_window_evicts_does_not_count(conversation: Conversation) -> None:
    conversation.memory.set_window(limit=1)
    conversation.memory.add(UserMessage("x" * 90))
    turn = Assistant(speak).begin(conversation, "y" * 90, most=MOST)
    turn.release()
    assert [row.text for row in conversation.messages.retained()] == ["y" * 90]


def test_a_turn_without_a_message_is_not_bounded(conversation: Conversation) -> None:
    conversation.memory.add(UserMessage("x" * 101))
    turn = Assistant(speak, system_message="Be brief.").begin(conversation, most=MOST)
    assert list(turn.events())[-1] == AiMessage("!")


def test_memories_of_other_kinds(user: Any) -> None:
    stored = MessageWindowChatMemory(id="tea", max_messages=3, store=DjangoChatMemoryStore(owner=user))
    with pytest.raises(MemoryTooLargeError):
        Assistant(speak, memory=stored).begin("tea", "y" * 101, most=MOST)
    assert stored.messages() == []
    memory = MessageWindowChatMemory(max_messages=3)
    assistant = Assistant(speak, memory=memory)
    with pytest.raises(ValueError, match="most needs a memory in Django's database"):
        assistant.begin("default", "Hi", most=MOST)
    with pytest.raises(ValueError, match="also needs a memory in Django's database"):
        assistant.begin("default", "Hi", also=lambda change: None)
    assert assistant.chat("default", "Hi") == AiMessage("!")


@with_and_without_key
def test_the_bound_costs_one_statement(key: str | None) -> None:
    counts = []
    for most in (MOST, None, MOST):  # the first time there is more to ask
        conversation = ConversationFactory.create()
        assistant = Assistant(speak, system_message="Be brief.")
        with CaptureQueriesContext(connection) as statements:
            assistant.begin(conversation, "y", most=most, idempotency_key=key).release()
        counts.append(len(statements))
    assert counts[2] == counts[1] + 1
