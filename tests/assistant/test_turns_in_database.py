"""Turns of conversations in the database: one at a time, in whatever process, and none that blocks for ever."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import types
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from chatmemory import (
    AiMessage,
    ChatMessage,
    IdempotencyConflictError,
    MessageWindowChatMemory,
    SystemMessage,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.assistant import (
    Added,
    AnswerDeletedError,
    Assistant,
    ConversationBusyError,
    TurnLostError,
    WindowTooSmallError,
)
from chatmemory.models import Conversation, Message, Origin
from chatmemory.retention import purge_evicted
from chatmemory.stores import DjangoChatMemoryStore
from chatmemory.verification import verify
from tests.database.test_async import run
from tests.support.assistant_models import ScriptedModel, calling
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db(transaction=True)

TURNS = 8


@pytest.fixture
def conversation() -> Conversation:
    conversation: Conversation = ConversationFactory(owner=None)
    return conversation


@pytest.fixture(autouse=True)
def _books_are_right() -> Iterator[None]:
    yield
    assert list(verify()) == []


def of(conversation: Conversation, model: Any, **options: Any) -> Assistant:
    return Assistant(model, memory=lambda _: conversation.memory, **options)


def history(conversation: Conversation) -> list[ChatMessage]:
    return [row.message for row in conversation.messages.history()]


def end_of_turn(conversation: Conversation) -> Any:
    return Conversation.objects.values_list("turn_until", flat=True).get(pk=conversation.pk)


def expire(conversation: Conversation) -> None:
    """As if the turn's time were over."""
    Conversation.objects.filter(pk=conversation.pk).update(turn_until=timezone.now() - timedelta(seconds=1))


class TestTurn:
    def test_it_is_given_back_however_it_ends(self, conversation: Conversation) -> None:
        assistant = of(conversation, ScriptedModel("Hello", OSError("away"), "Well"))
        assistant.chat(1, "Hi")
        assert end_of_turn(conversation) is None
        with pytest.raises(OSError, match="away"):
            assistant.chat(1, "Again")
        assert end_of_turn(conversation) is None
        before = timezone.now()
        events = assistant.stream(1)
        next(events)
        assert end_of_turn(conversation) > before + timedelta(seconds=100)
        events.close()
        assert end_of_turn(conversation) is None
        assert conversation.messages.count() == 3

    def test_no_transaction_is_open_while_the_model_thinks(self, conversation: Conversation) -> None:
        def model(messages: Any, tools: Any) -> AiMessage:
            assert not connection.in_atomic_block
            Conversation.objects.get(pk=conversation.pk).memory.add(SystemMessage("Others may write."))
            return AiMessage("Hello")

        of(conversation, model).chat(1, "Hi")
        assert history(conversation) == [UserMessage("Hi"), SystemMessage("Others may write."), AiMessage("Hello")]

    def test_within_a_transaction_it_refuses(self, conversation: Conversation) -> None:
        problem = r"assistant .* of conversation .* within a transaction.*ATOMIC_REQUESTS.*non_atomic_requests.*durable"
        with transaction.atomic(), pytest.raises(RuntimeError, match=problem):
            of(conversation, ScriptedModel()).chat(1, "Hi")
        assert history(conversation) == []

    def test_what_was_added_has_its_account(self, conversation: Conversation) -> None:
        conversation.memory.set_window(window="messages", limit=3)
        call = calling(("gone", "{}"))
        events = [event for event in of(conversation, ScriptedModel(call, "Hm")).stream(1, "Hi") if event != ""]
        added = [event for event in events if isinstance(event, Added)]
        assert [[row.message for row in event.change.added] for event in added if event.change] == [
            list(event.messages) for event in added
        ]
        assert [len(event.change.evicted) for event in added if event.change] == [0, 0, 0, 1]

    def test_what_it_answers_does_not_leave_the_memory_while_tools_run(self, conversation: Conversation) -> None:
        conversation.memory.set_window(window="messages", limit=10)
        calls = [calling(("tool", "{}")) for _ in range(9)]
        model = ScriptedModel(*calls, "Done")
        assistant = of(conversation, model, tools=[tool], system_message="Be brief.")
        with pytest.raises(WindowTooSmallError, match="the message that it answers left the memory while tools ran"):
            assistant.chat(1, "How many?")
        assert len(model.asked) == 5
        assert all(UserMessage("How many?") in asked for asked in model.asked)
        assert history(conversation)[-1].type == "TOOL_EXECUTION_RESULT"
        for _ in range(2):  # nor does it go on as if all were well
            with pytest.raises(WindowTooSmallError):
                assistant.chat(1)
        assert len(model.asked) == 5

    @pytest.mark.parametrize("low_water", [100, 60])
    def test_in_whole_turns_old_calls_leave_before_the_question(
        self, conversation: Conversation, low_water: int
    ) -> None:
        conversation.memory.set_window(window="messages", limit=10, whole_turns=True, low_water=low_water)
        calls = [calling(("tool", "{}")) for _ in range(9)]
        model = ScriptedModel("Hello", *calls, "Done")
        assistant = of(conversation, model, tools=[tool], system_message="Be brief.")
        assistant.chat(1, "Hi")
        assert assistant.chat(1, "How many?") == AiMessage("Done")
        assert len(model.asked) == 11
        for asked in model.asked[1:]:
            assert UserMessage("How many?") in asked
            assert asked[0] == SystemMessage("Be brief.")
            assert isinstance(asked[-1], ToolExecutionResultMessage | UserMessage)
        assert UserMessage("Hi") not in model.asked[-1]
        assert {row.eviction_reason for row in conversation.messages.evicted()} == {"window", "orphan"}

    def test_old_results_give_way_but_none_of_the_turn_under_way(self, conversation: Conversation) -> None:
        conversation.memory.set_window(limit=240, whole_turns=True, keep_tool_results=0)
        call = calling(("long_tool", "{}"))
        model = ScriptedModel(call, "One", call, call, "Two")
        assistant = of(conversation, model, tools=[long_tool])
        assistant.chat(1, "First?")
        assert assistant.chat(1, "Second?") == AiMessage("Two")
        results = [one.text for one in model.asked[-1] if isinstance(one, ToolExecutionResultMessage)]
        assert results == ["[Old tool result cleared]", long_tool(), long_tool()]
        assert UserMessage("First?") in model.asked[-1]

    def test_a_call_that_does_not_fit_with_its_results_is_an_error_in_whole_turns_too(
        self, conversation: Conversation
    ) -> None:
        conversation.memory.set_window(limit=60, whole_turns=True)
        with pytest.raises(WindowTooSmallError):
            of(conversation, ScriptedModel(calling(("long_tool", "{}"))), tools=[long_tool]).chat(1, "Well?")

    def test_what_goes_on_sees_what_it_answers(self, conversation: Conversation) -> None:
        conversation.memory.set_window(window="messages", limit=10)
        call = calling(("tool", "{}"))
        assistant = of(conversation, ScriptedModel(call, OSError("away"), call, "Done"), tools=[tool])
        with pytest.raises(OSError, match="away"):
            assistant.chat(1, "How many?")
        assert assistant.chat(1) == AiMessage("Done")

    def test_a_message_that_the_database_gives_back_in_other_types(self, conversation: Conversation) -> None:
        message = UserMessage("Hi", attributes={"at": float("inf")})
        assert of(conversation, ScriptedModel("Hello")).chat(1, message) == AiMessage("Hello")
        assert history(conversation)[0] != message

    def test_a_message_larger_than_the_window(self, conversation: Conversation) -> None:
        conversation.memory.set_window(limit=20)
        with pytest.raises(WindowTooSmallError, match="for the last message"):
            of(conversation, ScriptedModel()).chat(1, "word " * 50)
        assert of(conversation, ScriptedModel("Hello")).chat(1, "Hi") == AiMessage("Hello")

    def test_a_conversation_that_is_erased_meanwhile(self, conversation: Conversation) -> None:
        def model(messages: Any, tools: Any) -> AiMessage:
            Conversation.objects.get(pk=conversation.pk).delete()
            return AiMessage("Hello")

        with pytest.raises(Conversation.DoesNotExist):
            of(conversation, model).chat(1, "Hi")
        with pytest.raises(Conversation.DoesNotExist):
            of(conversation, model).chat(1, "Hi")

    def test_saving_the_row_takes_no_turn_away(self, conversation: Conversation) -> None:
        before = Conversation.objects.get(pk=conversation.pk)
        events = of(conversation, ScriptedModel("Hello")).stream(1, "Hi")
        next(events)
        before.title = "New"
        before.save()
        assert end_of_turn(conversation) is not None
        list(events)
        assert history(conversation)[-1] == AiMessage("Hello")


class TestStores:
    def test_memories_of_a_store_are_made_and_share_turns(self, user: Any) -> None:
        def provider(memory_id: str) -> MessageWindowChatMemory:
            return MessageWindowChatMemory(id=memory_id, max_messages=3, store=DjangoChatMemoryStore(owner=user))

        model = ScriptedModel("Hello", "Ann")
        one = Assistant(model, memory=provider)
        other = Assistant(ScriptedModel(), memory=provider, wait_timeout=0.01)
        events = one.stream("a", "I am Ann")
        next(events)
        with pytest.raises(ConversationBusyError, match="'a'"):
            other.chat("a", "Hi")
        list(events)
        one.chat("a", "Who am I?")
        conversation = Conversation.objects.get(memory_id="a", owner=user)
        assert [message.type for message in history(conversation)] == ["USER", "AI", "USER", "AI"]
        assert (conversation.window, conversation.limit, conversation.retained_count) == ("messages", 3, 3)
        assert len(model.asked[1]) == 3

    def test_an_answer_does_not_bring_back_what_was_erased(self, user: Any) -> None:
        def model(messages: Any, tools: Any) -> AiMessage:
            Conversation.objects.all().delete()
            return AiMessage("Hello")

        store = DjangoChatMemoryStore(owner=user)
        assistant = Assistant(model, memory=MessageWindowChatMemory(max_messages=3, store=store))
        with pytest.raises(TurnLostError):
            assistant.chat("default", "Hi")
        assert not Message.objects.exists()


class TestTakingOver:
    def test_a_turn_that_gave_no_sign_of_life(self, conversation: Conversation) -> None:
        slow = of(conversation, ScriptedModel("Too late"), turn_timeout=60).stream(1, "Hi")
        assert isinstance(next(slow), Added)
        assert next(slow) == "Too"
        with pytest.raises(ConversationBusyError):
            of(conversation, ScriptedModel(), wait_timeout=0.01).chat(1, "Well?")
        expire(conversation)
        fast = of(conversation, ScriptedModel("Hello")).stream(1, "Well?")
        next(fast)
        with pytest.raises(TurnLostError, match="for 60 seconds: turn_timeout must be longer"):
            list(slow)
        list(fast)
        assert history(conversation) == [UserMessage("Hi"), UserMessage("Well?"), AiMessage("Hello")]

    def test_tools_of_a_turn_that_was_taken_over_do_not_run(self, conversation: Conversation) -> None:
        ran = []

        def model(messages: Any, tools: Any) -> AiMessage:
            return calling(("note", "{}"))

        def note() -> None:
            ran.append(1)

        assistant = of(conversation, model, tools=[note])
        events = assistant.stream(1, "Hi")
        while not (isinstance(event := next(events), Added) and event.messages[0].type == "AI"):
            pass
        expire(conversation)
        of(conversation, ScriptedModel("Hello")).chat(1, "Well?")
        with pytest.raises(TurnLostError):
            list(events)
        assert ran == []
        *_, interrupted, asked, answer = history(conversation)
        assert isinstance(interrupted, ToolExecutionResultMessage)
        assert interrupted.is_error
        assert (asked, answer) == (UserMessage("Well?"), AiMessage("Hello"))

    def test_a_turn_that_is_interrupted(self, conversation: Conversation) -> None:
        assistant = of(conversation, ScriptedModel("Late", "Hello"), wait_timeout=0.01)
        assistant.interrupt(1)
        events = assistant.stream(1, "Hi")
        next(events)
        of(conversation, ScriptedModel()).interrupt(1)
        assert end_of_turn(conversation) is None
        with pytest.raises(TurnLostError, match="was interrupted"):
            list(events)
        assert assistant.chat(1) == AiMessage("Hello")
        assert history(conversation) == [UserMessage("Hi"), AiMessage("Hello")]

    def test_nobody_takes_over_who_does_not_want_to(self, conversation: Conversation) -> None:
        events = of(conversation, ScriptedModel("Late")).stream(1, "Hi")
        next(events)
        expire(conversation)
        list(events)
        assert history(conversation)[-1] == AiMessage("Late")

    def test_an_answer_that_comes_in_pieces_keeps_its_turn(self, conversation: Conversation) -> None:
        events = of(conversation, ScriptedModel("a b c"), turn_timeout=1e-6).stream(1, "Hi")
        next(events)
        expire(conversation)
        before = end_of_turn(conversation)
        next(events)
        assert end_of_turn(conversation) > before
        list(events)


async def cancelled_at(assistant: Assistant, moment: int) -> bool:
    """Begin a turn, cancel it when it waits for the ``moment``-th time; whether it waited so often."""

    @types.coroutine
    def step_by_step() -> Generator[Any, None, None]:
        turn = assistant.achat(1, "Hi").__await__()
        with suppress(StopIteration):
            for number in count():
                waits_for = next(turn)
                yield turn.throw(asyncio.CancelledError()) if number == moment else waits_for

    try:
        await step_by_step()
    except asyncio.CancelledError:
        return True
    return False


class TestIdempotency:
    def test_a_message_that_comes_again_has_the_answer_it_had(self, conversation: Conversation) -> None:
        model = ScriptedModel("Hello", "Well")
        assistant = of(conversation, model, system_message="Be brief.")
        assert assistant.chat(1, "Hi", idempotency_key="1") == AiMessage("Hello")
        assert assistant.chat(1, "And?", idempotency_key="2") == AiMessage("Well")
        assert assistant.chat(1, "Hi", idempotency_key="1") == AiMessage("Hello")
        assert [event for event in assistant.stream(1, "Hi", idempotency_key="1") if isinstance(event, str)] == [
            "Hello"
        ]
        assert len(model.asked) == 2
        assert len(history(conversation)) == 5
        with pytest.raises(IdempotencyConflictError):
            assistant.chat(1, "Other", idempotency_key="1")

    def test_it_goes_on_where_there_was_none(self, conversation: Conversation) -> None:
        assistant = of(conversation, ScriptedModel(OSError("away"), calling(("gone", "{}")), OSError("away"), "Hello"))
        for _ in range(2):
            with pytest.raises(OSError, match="away"):
                assistant.chat(1, "Hi", idempotency_key="1")
        assert assistant.chat(1, "Hi", idempotency_key="1") == AiMessage("Hello")
        assert [message.type for message in history(conversation)] == ["USER", "AI", "TOOL_EXECUTION_RESULT", "AI"]

    def test_it_does_not_go_on_where_the_message_left_the_memory(self, conversation: Conversation) -> None:
        call = calling(("tool", "{}"))
        model = ScriptedModel(call, OSError("away"))
        assistant = of(conversation, model, tools=[tool])
        with pytest.raises(OSError, match="away"):
            assistant.chat(1, "Hi", idempotency_key="1")
        conversation.memory.set_window(window="messages", limit=2)
        assert UserMessage("Hi") not in conversation.memory.messages()
        with pytest.raises(WindowTooSmallError):
            assistant.chat(1, "Hi", idempotency_key="1")
        assert len(model.asked) == 2

    def test_a_question_that_failed_never_gets_the_answer_to_another(self, conversation: Conversation) -> None:
        """It is asked again, once for all repetitions."""
        model = ScriptedModel(OSError("away"), "4", OSError("away"), "Paris")
        assistant = of(conversation, model)
        with pytest.raises(OSError, match="away"):
            assistant.chat(1, "Capital of France?", idempotency_key="1")
        assert assistant.chat(1, "2 + 2?", idempotency_key="2") == AiMessage("4")
        with pytest.raises(OSError, match="away"):
            assistant.chat(1, "Capital of France?", idempotency_key="1")
        for _ in range(2):
            assert assistant.chat(1, "Capital of France?", idempotency_key="1") == AiMessage("Paris")
            assert assistant.chat(1, "2 + 2?", idempotency_key="2") == AiMessage("4")
        assert [row.text for row in conversation.messages.history()] == ["Capital of France?", "2 + 2?", "4", "Paris"]
        assert model.asked[-1][-1] == UserMessage("Capital of France?")
        [copy] = conversation.messages.exclude(origin=Origin.SAID)
        assert (copy.text, copy.origin, copy.synthetic) == ("Capital of France?", Origin.COPY, True)
        assert (copy.covers_from, copy.covers_to) == (0, 0)

    def test_a_question_that_is_asked_a_third_time_stands_for_the_one_that_was_said(
        self, conversation: Conversation
    ) -> None:
        model = ScriptedModel(OSError("away"), "4", OSError("away"), "9", "Paris")
        assistant = of(conversation, model)
        france = "Capital of France?"
        for key, question in (("1", france), ("2", "2 + 2?"), ("1", france), ("3", "3 * 3?")):
            with suppress(OSError):
                assistant.chat(1, question, idempotency_key=key)
        assert assistant.chat(1, france, idempotency_key="1") == AiMessage("Paris")
        copies = conversation.messages.exclude(origin=Origin.SAID)
        first, second = copies.values_list("position", "covers_from", "covers_to")
        assert first[1:] == (0, 0)
        assert second[1:] == (first[0], first[0])

    def test_an_answer_behind_which_another_spoke_is_that_of_its_own_turn(self, conversation: Conversation) -> None:
        def model(messages: Any, tools: Any) -> AiMessage:
            conversation.memory.add(UserMessage("Hurry!"))
            return AiMessage("Paris")

        assistant = of(conversation, model)
        for _ in range(2):
            assert assistant.chat(1, "Capital of France?", idempotency_key="1") == AiMessage("Paris")
        assert conversation.messages.count() == 3

    def test_an_answer_of_a_turn_that_went_on_is_its_answer(self, conversation: Conversation) -> None:
        assistant = of(conversation, ScriptedModel(OSError("away"), "Paris"))
        with pytest.raises(OSError, match="away"):
            assistant.chat(1, "Capital of France?", idempotency_key="1")
        assert assistant.chat(1) == AiMessage("Paris")
        assert assistant.chat(1, "Capital of France?", idempotency_key="1") == AiMessage("Paris")

    @pytest.mark.parametrize("keeps_history", [True, False])
    def test_a_message_that_never_fitted_is_no_other_one(
        self, conversation: Conversation, settings: Any, keeps_history: bool
    ) -> None:
        settings.CHATMEMORY = {"KEEP_HISTORY": keeps_history}
        conversation.memory.set_window(window="tokens", limit=30)
        model = ScriptedModel()
        for system_message in ("Be brief.", "Be kind."):
            assistant = of(conversation, model, system_message=system_message)
            with pytest.raises(WindowTooSmallError):
                assistant.chat(1, "Well, " * 100, idempotency_key="1")
        assert model.asked == []

    def test_an_answer_that_was_deleted_is_not_made_again(self, conversation: Conversation, settings: Any) -> None:
        """Not even if the same words are in the memory, said once more."""
        settings.CHATMEMORY = {"KEEP_HISTORY": False}
        conversation.memory.set_window(window="messages", limit=2)
        assistant = of(conversation, ScriptedModel("Hello", "Hello again", "Hello, hello"))
        assistant.chat(1, "Hi", idempotency_key="1")
        assistant.chat(1, "Hi")
        before = history(conversation)
        for _ in range(2):
            with pytest.raises(AnswerDeletedError, match=r"key '1' .* was not asked again. To add .* use a new key"):
                assistant.chat(1, "Hi", idempotency_key="1")
        assert history(conversation) == before == [UserMessage("Hi"), AiMessage("Hello again")]
        assert assistant.chat(1, "Hi", idempotency_key="2") == AiMessage("Hello, hello")

    def test_an_answer_that_was_purged(self, conversation: Conversation) -> None:
        conversation.memory.set_window(window="messages", limit=2)
        assistant = of(conversation, ScriptedModel("Hello", "Hello again"))
        assistant.chat(1, "Hi", idempotency_key="1")
        assistant.chat(1, "Hi", idempotency_key="2")
        list(purge_evicted(timezone.now()))
        with pytest.raises(AnswerDeletedError):
            assistant.chat(1, "Hi", idempotency_key="1")
        assert assistant.chat(1, "Hi", idempotency_key="2") == AiMessage("Hello again")

    def test_an_answer_that_is_there_while_its_question_was_deleted(
        self, conversation: Conversation, settings: Any
    ) -> None:
        settings.CHATMEMORY = {"KEEP_HISTORY": False}
        conversation.memory.set_window(window="messages", limit=2)
        assistant = of(conversation, ScriptedModel("Hello"))
        assistant.chat(1, "Hi", idempotency_key="1")
        conversation.memory.add(SystemMessage("Be brief."))
        assert UserMessage("Hi") not in history(conversation)
        assert assistant.chat(1, "Hi", idempotency_key="1") == AiMessage("Hello")

    def test_a_question_that_was_deleted_before_it_was_answered(
        self, conversation: Conversation, settings: Any
    ) -> None:
        settings.CHATMEMORY = {"KEEP_HISTORY": False}
        conversation.memory.set_window(window="messages", limit=2)
        model = ScriptedModel(calling(("tool", "{}")), "Done")
        assistant = of(conversation, model, tools=[tool])
        for _ in range(2):
            with pytest.raises(WindowTooSmallError):
                assistant.chat(1, "Hi", idempotency_key="1")
            assert UserMessage("Hi") not in history(conversation)
        assert len(model.asked) == 1

    def test_a_message_that_was_forgotten_before_its_answer(self, conversation: Conversation) -> None:
        model = ScriptedModel(OSError("away"))
        assistant = of(conversation, model)
        with pytest.raises(OSError, match="away"):
            assistant.chat(1, "Hi", idempotency_key="1")
        conversation.memory.clear()
        with pytest.raises(WindowTooSmallError):
            assistant.chat(1, "Hi", idempotency_key="1")


def tool() -> str:
    """Does something."""
    return "done"


def long_tool() -> str:
    """Says much."""
    return ("word " * 60).strip()


class TestAsync:
    @pytest.mark.slow
    def test_a_turn_that_is_cancelled_anywhere_leaves_nothing_half_done(self) -> None:
        """Once at every place where it waits for something."""

        async def tool() -> str:
            await asyncio.sleep(0)
            return "done"

        moments = 0
        for moment in count():
            conversation = ConversationFactory(owner=None)
            call = calling(("tool", "{}"))
            was_cancelled = run(cancelled_at(of(conversation, ScriptedModel(call, "Hello"), tools=[tool]), moment))
            assert end_of_turn(conversation) is None
            answer = of(conversation, ScriptedModel("Here I am"), tools=[tool]).chat(1, "Still there?")
            assert answer == AiMessage("Here I am")
            said = [message.type for message in history(conversation)[:-2]]
            assert said == ["USER", "AI", "TOOL_EXECUTION_RESULT", "AI"][: len(said)]
            assert said != ["USER", "AI"], "the call has a result, if only that it was interrupted"
            if not was_cancelled:
                break
            moments += 1
        assert moments > 5

    @pytest.mark.slow
    def test_tasks_in_many_conversations(self) -> None:
        conversations = [ConversationFactory(owner=None) for _ in range(4)]

        async def model(messages: Any, tools: Any) -> AiMessage:
            await asyncio.sleep(0)
            return AiMessage(f"Re: {messages[-1].single_text()}")

        assistant = Assistant(model, memory=lambda number: conversations[number].memory)

        async def use() -> None:
            await asyncio.gather(*(assistant.achat(number % 4, f"{number}") for number in range(20)))

        run(use())
        for conversation in conversations:
            said = history(conversation)
            assert len(said) == 10
            for question, answer in zip(said[::2], said[1::2], strict=True):
                assert answer == AiMessage(f"Re: {question.single_text()}")  # type: ignore[attr-defined]

    def test_django_tools_and_providers_may_be_sync(self, conversation: Conversation) -> None:
        def how_many() -> int:
            return Message.objects.count()

        assistant = Assistant(
            ScriptedModel(calling(("how_many", "{}")), "2"),
            memory=lambda pk: Conversation.objects.get(pk=pk).memory,
            system_message=lambda pk: Conversation.objects.get(pk=pk).title,
            tools=[how_many],
        )
        run(assistant.achat(conversation.pk, "How many?"))
        assert history(conversation)[3] == ToolExecutionResultMessage("call_0", "how_many", "3")


Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(conversation: Conversation, tmp_path: Path) -> Iterator[Start]:
    """Starts a process that takes turns; at the end of the test none is left."""
    processes = []

    def start(name: str, count: int, **kwargs: Any) -> subprocess.Popen[bytes]:
        environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": "tests.settings.base",
            "CHATMEMORY_TEST_NAME": str(connection.settings_dict["NAME"]),
        }
        arguments = [str(conversation.pk), name, str(count), str(tmp_path / f"{name}.log")]
        command = [sys.executable, "-m", "tests.support.assistant_speaker", *arguments]
        processes.append(subprocess.Popen(command, env=environment, **kwargs))
        return processes[-1]

    yield start
    for process in processes:
        with process:
            process.kill()


class TestProcesses:
    @pytest.mark.slow
    def test_they_take_turns(self, conversation: Conversation, start: Start, tmp_path: Path) -> None:
        processes = [start(f"p{number}", TURNS) for number in range(3)]
        assert [process.wait(timeout=300) for process in processes] == [0, 0, 0]
        said = [message.single_text() for message in history(conversation)[::2]]  # type: ignore[attr-defined]
        assert sorted(said) == sorted(f"p{number} {turn}" for number in range(3) for turn in range(TURNS))
        assert history(conversation)[1::2] == [AiMessage(f"Re: {text}") for text in said]

    def test_a_killed_one_blocks_no_longer_than_its_time(
        self, conversation: Conversation, start: Start, caplog: pytest.LogCaptureFixture
    ) -> None:
        killed = start("killed", 0, stdout=subprocess.PIPE)
        assert killed.stdout is not None
        assert killed.stdout.readline() == b"thinking\n"
        killed.kill()
        with caplog.at_level(logging.WARNING):
            answer = of(conversation, ScriptedModel("Hello"), wait_timeout=60).chat(1, "Hi")
        assert answer == AiMessage("Hello")
        assert history(conversation) == [UserMessage("killed 0"), UserMessage("Hi"), AiMessage("Hello")]
        assert Conversation.objects.get().turn == 4
