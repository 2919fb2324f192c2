"""The summaries that an assistant lets make: after its answers, and never in their way."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, closing
from typing import Any

import pytest
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext

from chatmemory import (
    AiMessage,
    ChatMessage,
    OpenAiTokenCountEstimator,
    TokenWindowChatMemory,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.assistant import Added, Assistant
from chatmemory.assistant.conversation_lease import warn_of_no_summaries
from chatmemory.formats.anthropic import to_anthropic
from chatmemory.formats.gemini import to_gemini
from chatmemory.formats.openai import to_openai
from chatmemory.formats.responses import to_responses
from chatmemory.formats.validity import Repair
from chatmemory.models import Compaction, Conversation
from chatmemory.signals import compaction_failed
from chatmemory.stores import DjangoChatMemoryStore
from chatmemory.verification import verify
from tests.database.test_async import run
from tests.support.assistant_models import ScriptedModel, calling
from tests.support.due_conversations import SUMMARY, BlockedSummarizer, due_conversation, texts
from tests.support.factories import ConversationFactory
from tests.support.paths import ROOT

pytestmark = pytest.mark.django_db(transaction=True)

IN_MEMORY = f"<summary>\n{SUMMARY}\n</summary>"


@pytest.fixture(autouse=True)
def _books_are_right() -> Iterator[None]:
    yield
    assert list(verify()) == []


@pytest.fixture
def summarizer() -> Iterator[BlockedSummarizer]:
    summarizer = BlockedSummarizer()
    yield summarizer
    summarizer.may_answer.set()


def of(conversation: Conversation, summarizer: Any, *answers: Any, **options: Any) -> Assistant:
    model = ScriptedModel(*answers or ["There are seven trains."])
    return Assistant(model, memory=lambda _: conversation.memory, summarizer=summarizer, **options)


def summarise(messages: Sequence[ChatMessage], previous: str | None) -> str:
    return SUMMARY


def chat(assistant: Assistant, look: Callable[[], None]) -> list[Any]:
    return [assistant.chat(1, "How many?").text]


def stream(assistant: Assistant, look: Callable[[], None]) -> list[Any]:
    events = []
    for event in assistant.stream(1, "How many?"):
        events.append(event)
        look()
    return events


def achat(assistant: Assistant, look: Callable[[], None]) -> list[Any]:
    async def talk() -> list[Any]:
        return [(await assistant.achat(1, "How many?")).text]

    return list(run(talk()))


def astream(assistant: Assistant, look: Callable[[], None]) -> list[Any]:
    async def talk() -> list[Any]:
        events = []
        async with aclosing(assistant.astream(1, "How many?")) as pieces:
            async for event in pieces:
                events.append(event)
                look()
        return events

    return list(run(talk()))


Way = Callable[[Assistant, Callable[[], None]], list[Any]]
ways = pytest.mark.parametrize("way", [chat, stream, achat, astream])


class TestAfterTheAnswer:
    @pytest.mark.slow
    @ways
    def test_the_answer_is_given_out_before_the_summarizer_is_asked(
        self, way: Way, summarizer: BlockedSummarizer
    ) -> None:
        conversation = due_conversation()
        assistant = of(conversation, summarizer)

        def look() -> None:
            assert assistant.wait_for_summaries(0)
            assert not summarizer.asked.is_set()

        events = way(assistant, look)
        # The turn is over, and the model of the summary is still at work.
        assert summarizer.asked.wait(60)
        assert not assistant.wait_for_summaries(0)
        assert "There are seven trains." in " ".join(one for one in events if isinstance(one, str))
        assert texts(conversation)[-1] == "There are seven trains."
        assert IN_MEMORY not in texts(conversation)
        summarizer.may_answer.set()
        assert assistant.wait_for_summaries(60)
        assert texts(conversation)[0] == IN_MEMORY
        assert texts(conversation)[-1] == "There are seven trains."
        assert SUMMARY not in str(events)

    def test_a_stream_may_be_left_after_its_last_event(self, summarizer: BlockedSummarizer) -> None:
        conversation = due_conversation()
        assistant = of(conversation, summarizer)
        with closing(assistant.stream(1, "How many?")) as events:
            for event in events:
                if isinstance(event, Added) and event.messages[-1].text == "There are seven trains.":
                    break
            assert assistant.wait_for_summaries(0)
        summarizer.may_answer.set()
        assert assistant.wait_for_summaries(60)
        assert texts(conversation)[0] == IN_MEMORY

    def test_an_async_stream_may_be_left_after_its_last_event(self, summarizer: BlockedSummarizer) -> None:
        conversation = due_conversation()
        assistant = of(conversation, summarizer)

        async def talk() -> bool:
            async with aclosing(assistant.astream(1, "How many?")) as events:
                async for event in events:
                    if isinstance(event, Added) and event.messages[-1].text == "There are seven trains.":
                        break
            summarizer.may_answer.set()
            return await assistant.await_for_summaries(60)

        assert run(talk())
        assert texts(conversation)[0] == IN_MEMORY

    def test_an_answer_that_was_stored_before_is_given_out_first(self, summarizer: BlockedSummarizer) -> None:
        conversation = due_conversation()
        of(conversation, None, "Seven.").chat(1, "How many?", idempotency_key="1")
        assistant = of(conversation, summarizer)
        for _ in assistant.stream(1, "How many?", idempotency_key="1"):
            assert assistant.wait_for_summaries(0)
        assert summarizer.asked.wait(60)
        summarizer.may_answer.set()
        assert assistant.wait_for_summaries(60)

    def test_the_next_turn_does_not_wait(self, summarizer: BlockedSummarizer) -> None:
        conversation = due_conversation()
        assistant = of(conversation, summarizer, "Seven.", "Eight.", "Nine.")
        assistant.chat(1, "How many?")
        assert summarizer.asked.wait(60)
        assistant.chat(1, "And now?")
        assistant.chat(1, "And then?")
        summarizer.may_answer.set()
        assert assistant.wait_for_summaries(60)
        assert texts(conversation)[0] == IN_MEMORY
        assert texts(conversation)[-6:] == ["How many?", "Seven.", "And now?", "Eight.", "And then?", "Nine."]
        assert len(summarizer.covered) == 1

    def test_a_turn_that_fails_is_no_reason_to_wait(self) -> None:
        conversation = due_conversation()
        assistant = of(conversation, summarise, ConnectionError("The model is away"))
        with pytest.raises(ConnectionError, match="The model is away"):
            assistant.chat(1, "How many?")
        assert assistant.wait_for_summaries(60)
        assert texts(conversation)[0] == IN_MEMORY
        assert texts(conversation)[-1] == "How many?"

    def test_tools_and_the_turn_under_way_stay(self) -> None:
        conversation = due_conversation()
        assistant = of(conversation, summarise, calling(("look", "{}")), "Seven.", tools=[look])
        assistant.chat(1, "How many?")
        assert assistant.wait_for_summaries(60)
        assert texts(conversation)[-4:] == ["How many?", "", "7 trains", "Seven."]

    def test_an_async_summarizer(self) -> None:
        async def summarise(messages: Sequence[ChatMessage], previous: str | None) -> str:
            await asyncio.sleep(0)
            return SUMMARY

        conversation = due_conversation()
        assistant = of(conversation, summarise)
        assistant.chat(1, "How many?")
        assert assistant.wait_for_summaries(60)
        assert texts(conversation)[0] == IN_MEMORY


def look() -> str:
    """Looks."""
    return "7 trains"


class Counting:
    """A summarizer that says how many messages the summaries so far cover."""

    def __init__(self) -> None:
        self.told: list[ChatMessage] = []

    def __call__(self, messages: Sequence[ChatMessage], previous: str | None) -> str:
        self.told += messages
        return f"{len(self.told)} messages"


class TestDuringALongTurn:
    """One question, and 40 calls of tools."""

    @pytest.fixture
    def conversation(self) -> Conversation:
        made: Conversation = ConversationFactory(limit=1000, compact_at=80, compact_keep=30, compact_keep_calls=2)
        return made

    def assistant(self, conversation: Conversation, summarizer: Any) -> tuple[Assistant, ScriptedModel]:
        """An assistant whose tool waits until the summaries that are due are made, so that the outcome is certain."""

        def look() -> str:
            assert waits_for.wait_for_summaries(60)
            return "train " * 60

        answers = [AiMessage(None, [ToolExecutionRequest(f"id{number}", "look", "{}")]) for number in range(40)]
        model = ScriptedModel(*answers, "Seven.", "Eight.")
        waits_for = Assistant(model, memory=lambda _: conversation.memory, tools=[look], summarizer=summarizer)
        return waits_for, model

    @pytest.mark.slow
    @pytest.mark.parametrize("is_async", [False, True])
    def test_summaries_are_made_while_it_goes_on(self, conversation: Conversation, is_async: bool) -> None:
        summarizer = Counting()
        assistant, model = self.assistant(conversation, summarizer)
        if is_async:
            assert run(assistant.achat(1, "How many?")).text == "Seven."
        else:
            assert assistant.chat(1, "How many?").text == "Seven."
        assert len(model.asked) == 41
        for number, messages in enumerate(model.asked):
            assert messages[0].text == "How many?"
            assert number < 15 or (messages[1].text or "").startswith("<summary>")
            for write in (to_openai, to_responses, to_anthropic, to_gemini):
                repairs: list[Repair] = []
                write(messages, repairs.append)
                assert not repairs
        assert len(summarizer.told) > 60
        assert [message.id for message in summarizer.told if isinstance(message, ToolExecutionResultMessage)] == [
            f"id{number}" for number in range(len(summarizer.told) // 2)
        ], "each call once, in order"
        assert assistant.wait_for_summaries(60)
        assert assistant.chat(1, "And now?").text == "Eight."
        assert assistant.wait_for_summaries(60)
        assert texts(conversation)[-2:] == ["And now?", "Eight."]

    @pytest.mark.slow
    def test_a_turn_that_goes_on_without_a_message(self, conversation: Conversation) -> None:
        conversation.memory.add(UserMessage("How many?"))
        assistant, model = self.assistant(conversation, Counting())
        assert assistant.chat(1).text == "Seven."
        assert {messages[0].text for messages in model.asked} == {"How many?"}

    @pytest.mark.slow
    def test_without_the_setting_they_wait_for_the_answer(self, conversation: Conversation) -> None:
        conversation.memory.set_window(compact_keep_calls=None, whole_turns=True)
        summarizer = Counting()
        assistant, _ = self.assistant(conversation, summarizer)
        assistant.chat(1, "How many?")
        assert assistant.wait_for_summaries(60)
        assert summarizer.told == []


class TestWhose:
    def test_that_of_the_setting(self, settings: Any) -> None:
        settings.CHATMEMORY = {"SUMMARIZER": f"{__name__}.summarise"}
        conversation = due_conversation()
        assistant = of(conversation, None)
        assistant.chat(1, "How many?")
        assert assistant.wait_for_summaries(60)
        assert texts(conversation)[0] == IN_MEMORY

    def test_an_assistant_may_have_another(self, settings: Any) -> None:
        settings.CHATMEMORY = {"SUMMARIZER": f"{__name__}.summarise"}
        conversation = due_conversation()
        assistant = of(conversation, lambda *_: "Its own.")
        assistant.chat(1, "How many?")
        assert assistant.wait_for_summaries(60)
        assert texts(conversation)[0] == "<summary>\nIts own.\n</summary>"

    def test_one_that_never_becomes_due_is_told_once(self, caplog: pytest.LogCaptureFixture) -> None:
        warn_of_no_summaries.cache_clear()
        for summarizer, count in (None, 0), (summarise, 1), (summarise, 1):
            conversation = due_conversation(1, compact_at=None)
            of(conversation, summarizer).chat(1, "How many?")
            assert len([record for record in caplog.records if "compact_at" in record.message]) == count
        assert caplog.records[-1].levelname == "WARNING"


class TestWhere:
    @pytest.mark.slow
    def test_a_window_memory_in_the_database(self, settings: Any) -> None:
        settings.CHATMEMORY = {"WINDOW": {"compact_at": 50}}
        memory = TokenWindowChatMemory(
            id="help",
            max_tokens=1000,
            token_count_estimator=OpenAiTokenCountEstimator("gpt-4o"),
            store=DjangoChatMemoryStore(),
        )
        model = ScriptedModel(*[f"Answer {number} {'train ' * 90}" for number in range(4)], "Seven.")
        assistant = Assistant(model, memory=memory, summarizer=summarise)
        for number in range(4):
            assistant.chat("help", f"Question {number} {'train ' * 90}")
            assert assistant.wait_for_summaries(60)
        assistant.chat("help", "How many?")
        assert (model.asked[-1][0].text, model.asked[-1][-1].text) == (IN_MEMORY, "How many?")

    @pytest.mark.slow
    def test_conversations_of_the_same_memory_id_are_others(self, summarizer: BlockedSummarizer) -> None:
        both = [due_conversation(memory_id="help") for _ in range(2)]
        model = ScriptedModel(*["Seven."] * 12)
        assistant = Assistant(model, memory=lambda index: both[index].memory, summarizer=summarizer)
        # Those that wait because all threads are busy, too.
        others = [due_conversation() for _ in range(4)]
        busy = Assistant(model, memory=lambda index: others[index].memory, summarizer=summarizer)
        for index in range(4):
            busy.chat(index, "How many?")
        for index in (0, 1, 0, 1):
            assistant.chat(index, "How many?")
        summarizer.may_answer.set()
        assert assistant.wait_for_summaries(60)
        assert busy.wait_for_summaries(60)
        assert [texts(one)[0] for one in (*both, *others)] == [IN_MEMORY] * 6
        assert len(summarizer.covered) == 6

    def test_a_memory_that_is_in_no_database(self, summarizer: BlockedSummarizer) -> None:
        memory = TokenWindowChatMemory(max_tokens=100, token_count_estimator=OpenAiTokenCountEstimator("gpt-4o"))
        assistant = Assistant(ScriptedModel("train " * 70, "Seven."), memory=memory, summarizer=summarizer)
        assistant.chat("default", "How many?")
        assistant.chat("default", "How many?")
        assert assistant.wait_for_summaries(0)
        assert not summarizer.asked.is_set()

    @pytest.mark.parametrize(
        "columns", [{"compact_at": None, "limit": 1000}, {"compact_at": 90}, {"compact_at": 100, "limit": 100_000}]
    )
    def test_nothing_is_done_where_nothing_is_due(self, columns: dict[str, Any], summarizer: BlockedSummarizer) -> None:
        conversation = due_conversation(**columns)
        assistant = of(conversation, summarizer)
        assistant.chat(1, "How many?")
        assert assistant.wait_for_summaries(0)
        assert not summarizer.asked.is_set()

    def test_a_turn_has_no_further_statements(self) -> None:
        statements = []
        for summarizer in (None, summarise):
            conversation = due_conversation()
            assistant = of(conversation, summarizer)
            with CaptureQueriesContext(connection) as queries:
                assistant.chat(1, "How many?")
            assert assistant.wait_for_summaries(60)
            statements.append(len(queries))
        assert statements[0] == statements[1]

    def test_what_the_window_evicted_is_summarised_below_compact_at(self) -> None:
        conversation = due_conversation(11, limit=2000, low_water=30, compact_at=95)
        assert conversation.retained_tokens < 1500
        assistant = of(conversation, summarise)
        assistant.chat(1, "How many?")
        assert assistant.wait_for_summaries(60)
        assert texts(conversation)[0] == IN_MEMORY

    def test_a_summarizer_must_be_a_function(self) -> None:
        with pytest.raises(TypeError, match="summarizer must be a function, but is: str"):
            of(due_conversation(0), "shop.chat.summarizer")


class TestFailures:
    def test_a_failure_is_noted_logged_and_repeated_after_a_pause(self, caplog: pytest.LogCaptureFixture) -> None:
        outcomes: list[Any] = [ConnectionError("The model is away"), SUMMARY]
        failures = []

        def summarise(messages: Sequence[ChatMessage], previous: str | None) -> str:
            outcome = outcomes.pop(0)
            if isinstance(outcome, Exception):
                raise outcome
            return str(outcome)

        def note(sender: Any, conversation: Conversation, error: Exception, **kwargs: Any) -> None:
            failures.append((conversation.pk, str(error)))

        conversation = due_conversation()
        assistant = of(conversation, summarise, "Seven.", "Eight.", "Nine.")
        before = texts(conversation)
        compaction_failed.connect(note)
        try:
            assistant.chat(1, "How many?")
            assert assistant.wait_for_summaries(60)
        finally:
            compaction_failed.disconnect(note)
        assert texts(conversation) == [*before, "How many?", "Seven."]
        assert failures == [(conversation.pk, "The model is away")]
        assert "No summary of conversation" in caplog.text
        assert "The model is away" in caplog.text
        assistant.chat(1, "And now?")
        assert assistant.wait_for_summaries(60)
        assert len(outcomes) == 1  # the pause is not over
        Compaction.objects.update(retry_at=None)
        assistant.chat(1, "And then?")
        assert assistant.wait_for_summaries(60)
        assert texts(conversation)[0] == IN_MEMORY
        assert Compaction.objects.get().failures == 0

    def test_a_conversation_that_is_erased_meanwhile_is_no_failure(
        self, summarizer: BlockedSummarizer, caplog: pytest.LogCaptureFixture
    ) -> None:
        conversation = due_conversation()
        assistant = of(conversation, summarizer)
        assistant.chat(1, "How many?")
        assert summarizer.asked.wait(60)
        Conversation.objects.get(pk=conversation.pk).delete()
        summarizer.may_answer.set()
        assert assistant.wait_for_summaries(60)
        assert not caplog.records

    @pytest.mark.slow
    def test_no_exception_ends_the_thread(self, caplog: pytest.LogCaptureFixture) -> None:
        class PanicError(BaseException):
            """What packages in other languages raise."""

        panics = [PanicError("out of order")]

        def summarise(messages: Sequence[ChatMessage], previous: str | None) -> str:
            if panics:
                raise panics.pop()
            return SUMMARY

        first, second = due_conversation(), due_conversation()
        assistant = of(first, summarise)
        assistant.chat(1, "How many?")
        assert assistant.wait_for_summaries(60)
        assert "out of order" in caplog.text
        assistant = of(second, summarise)
        assistant.chat(1, "How many?")
        assert assistant.wait_for_summaries(60)
        assert texts(second)[0] == IN_MEMORY

    def test_a_test_case_makes_no_summaries(self, summarizer: BlockedSummarizer) -> None:
        conversation = due_conversation()
        assistant = of(conversation, summarizer)
        with transaction.atomic():
            connection.atomic_blocks[-1]._from_testcase = True  # type: ignore[attr-defined]
            assistant.chat(1, "How many?")
            assert assistant.wait_for_summaries(0)
        assert not summarizer.asked.is_set()


class TestThreads:
    def test_their_connections_are_closed(self) -> None:
        used = []

        def summarise(messages: Sequence[ChatMessage], previous: str | None) -> str:
            Conversation.objects.count()
            used.append((threading.current_thread(), connections["default"]))
            return SUMMARY

        conversation = due_conversation()
        assistant = of(conversation, summarise)
        assistant.chat(1, "How many?")
        assert assistant.wait_for_summaries(60)
        [(thread, theirs)] = used
        assert thread is not threading.current_thread()
        assert theirs is not connection
        assert theirs.connection is None

    @pytest.mark.slow
    def test_few_work_at_once_and_none_is_left(self, summarizer: BlockedSummarizer) -> None:
        def workers() -> list[threading.Thread]:
            return [thread for thread in threading.enumerate() if thread.name == "chatmemory-summary"]

        for worker in workers():  # of a test before, whose work is done
            worker.join(60)
        conversations = [due_conversation() for _ in range(7)]
        model = ScriptedModel(*["Seven."] * 7)
        assistant = Assistant(model, memory=lambda index: conversations[index].memory, summarizer=summarizer)
        for index in range(7):
            assistant.chat(index, "How many?")
        begun = workers()
        assert len(begun) == 4
        summarizer.may_answer.set()
        assert assistant.wait_for_summaries(60)
        for worker in begun:
            worker.join(60)
            assert not worker.is_alive()
        assert [texts(one)[0] for one in conversations] == [IN_MEMORY] * 7

    @pytest.mark.slow
    def test_a_process_that_ends_does_not_wait(self) -> None:
        conversation = due_conversation()
        environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": "tests.settings.base",
            "CHATMEMORY_TEST_NAME": str(connection.settings_dict["NAME"]),
        }
        command = [sys.executable, "-m", "tests.support.assistant_that_ends", str(conversation.pk)]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=300, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"Seven.\n", b"")
        assert texts(conversation)[-1] == "Seven."
        # Its lease is over after a while, and another makes the summary.
        Compaction.objects.update(leased_until=None)
        assistant = of(conversation, summarise)
        assistant.chat(1, "How many?")
        assert assistant.wait_for_summaries(60)
        assert texts(conversation)[0] == IN_MEMORY
