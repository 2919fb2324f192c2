"""Which calls have a row: of an assistant, of frameworks and of other code; each of them once."""

from __future__ import annotations

import asyncio
import io
import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any

import agent_framework as framework
import pytest
from asgiref.sync import async_to_sync
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

from chatmemory import AiMessage, ChatMessage, MessageWindowChatMemory, UserMessage
from chatmemory.assistant import (
    Answered,
    Assistant,
    CallRefusedError,
    ChatModel,
    ChatModelSummarizer,
    ModelError,
    TurnLostError,
)
from chatmemory.assistant import Usage as Tokens
from chatmemory.contrib.agent_framework import DjangoHistoryProvider
from chatmemory.contrib.langchain import DjangoChatMessageHistory
from chatmemory.contrib.langgraph.saver import DjangoSaver
from chatmemory.contrib.pydantic_ai import DjangoMessageHistory
from chatmemory.contrib.usage.models import Usage
from chatmemory.contrib.usage.sums import total
from chatmemory.models import Conversation
from chatmemory.personal_data import erase_user
from chatmemory.signals import model_calling
from tests.formats.test_usage import AGENTS, CHAT, CLAUDE, GENERATED, LANGCHAIN, PYDANTIC, RESPONSE
from tests.support.agent_framework_client import ScriptedClient
from tests.support.factories import ConversationFactory
from tests.support.turns import ask, chunks_of, stream

pytestmark = pytest.mark.django_db(transaction=True)

USED = Tokens(input_tokens=1000, output_tokens=100, cache_read_tokens=400, cache_write_tokens=0)


@pytest.fixture
def conversation(user: Any) -> Conversation:
    made: Conversation = ConversationFactory(owner=user, limit=1000)
    return made


class Model(ChatModel):
    """A model that answers with one of its answers after the other, in deltas, and raises what is an exception."""

    name = "gpt-5"
    provider = "openai"

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def chat(self, messages: Sequence[ChatMessage], tools: Sequence[Any]) -> Any:
        answer = self.answers.pop(0) if self.answers else Answered(AiMessage("Yes."), USED)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def stream(self, messages: Sequence[ChatMessage], tools: Sequence[Any]) -> Iterator[Any]:
        yield ""
        yield "Y"
        yield from ("es", ".", self.chat(messages, tools))


def told(**filters: Any) -> list[tuple[Any, ...]]:
    found = Usage.objects.filter(**filters).order_by("created_at")
    return list(found.values_list("operation", "status", "position", "input_tokens"))


class TestAnAssistant:
    def test_a_row(self, conversation: Conversation) -> None:
        list(Assistant(Model()).stream(conversation, "Hi"))
        row = conversation.usage.get()
        assert (row.model, row.provider, row.operation, row.status, row.position) == (
            "gpt-5",
            "openai",
            "chat",
            "ok",
            1,
        )
        assert (row.owner, row.day) == (conversation.owner, timezone.localdate())
        # 600 x 1.25 + 400 x 0.125 + 100 x 10 dollars per million
        assert (row.cost, row.currency) == (Decimal("0.0018"), "USD")
        assert 0 <= row.first_delta_seconds <= row.seconds < 60

    def test_an_answer_that_is_not_streamed_has_no_first_delta(self, conversation: Conversation) -> None:
        Assistant(Model()).chat(conversation, "Hi")
        assert conversation.usage.get().first_delta_seconds is None

    def test_titles_and_summaries(self, conversation: Conversation) -> None:
        conversation.memory.set_window(compact_at=1)
        Conversation.objects.filter(pk=conversation.pk).update(title="", limit=20)
        conversation.refresh_from_db()
        texts = [UserMessage("What is a cat? " * 40), AiMessage("A cat is an animal. " * 40)]
        conversation.memory.set(texts)
        writer = Model(*[Answered(AiMessage("Cats."), USED)] * 5)
        assistant = Assistant(Model(), title=True, summarizer=ChatModelSummarizer(writer))
        assistant.chat(conversation, "And a dog?")
        assert assistant.wait_for_summaries(60)
        assert {row[:3] for row in told(conversation=conversation)} == {
            ("chat", "ok", 3),
            ("title", "ok", None),
            ("summary", "ok", None),
        }

    @pytest.mark.parametrize("way", ["chat", "stream"])
    def test_a_failure(self, conversation: Conversation, way: str) -> None:
        failure = ModelError("No.", usage=Tokens(input_tokens=7))
        with pytest.raises(ModelError):
            list(getattr(Assistant(Model(failure)), way)(conversation, "Hi"))
        assert told() == [("chat", "failed", None, 7)]

    def test_an_answer_that_was_not_stored(self, conversation: Conversation) -> None:
        with pytest.raises(ModelError):
            Assistant(Model(Answered(AiMessage(""), USED))).chat(conversation, "Hi")
        assert told() == [("chat", "ok", None, 1000)]

    def test_a_reader_that_leaves(self, conversation: Conversation) -> None:
        with closing(Assistant(Model()).stream(conversation, "Hi")) as events:
            assert "Y" in events
        assert told() == [("chat", "interrupted", None, None)]

    def test_a_stopped_answer_has_its_position(self, conversation: Conversation) -> None:
        assistant = Assistant(Model())
        events = assistant.stream(conversation, "Hi")
        assert "Y" in events
        assistant.interrupt(conversation)
        with pytest.raises(TurnLostError):
            list(events)
        assert told() == [("chat", "interrupted", 1, None)]

    def test_a_cancelled_task(self, conversation: Conversation) -> None:
        class Slow(Model):
            async def achat(self, messages: Any, tools: Any) -> Any:
                asking.set()
                await asyncio.Event().wait()

        asking = asyncio.Event()

        async def cancel() -> None:
            turn = asyncio.ensure_future(Assistant(Slow()).achat(conversation, "Hi"))
            await asking.wait()
            turn.cancel()
            with pytest.raises(asyncio.CancelledError):
                await turn

        async_to_sync(cancel)()
        assert told() == [("chat", "interrupted", None, None)]

    def test_a_call_in_which_its_user_was_erased_is_nobodys(self, conversation: Conversation, user: Any) -> None:
        for how in ("anonymise", "erase"):
            with closing(Assistant(Model()).stream(ConversationFactory(owner=user), "Hi")) as events:
                assert "Y" in events
                erase_user(user, how=how)
        assert list(Usage.objects.values_list("status", "owner")) == [("interrupted", None)] * 2

    def test_a_call_that_ends_after_its_text_was_erased_has_no_id(self, user: Any) -> None:
        for how in ("anonymise", "erase"):
            model = Model(Answered(AiMessage("Yes."), replace(USED, response_id="r")))
            with closing(Assistant(model).stream(ConversationFactory(owner=user), "Hi")) as events:
                next(event for event in events if event == "Y")
                erase_user(user, how=how)
                with pytest.raises((TurnLostError, Conversation.DoesNotExist)):
                    list(events)
        rows = Usage.objects.values_list("input_tokens", "owner", "response_id")
        assert list(rows) == [(1000, None, "")] * 2

    def test_a_memory_elsewhere_has_none(self) -> None:
        Assistant(Model(), memory=MessageWindowChatMemory(max_messages=3)).chat("default", "Hi")
        assert told() == []

    def test_a_row_does_not_wait_for_the_lock_of_its_conversation(self, conversation: Conversation) -> None:
        with CaptureQueriesContext(connection) as statements:
            conversation.record_usage({"model": "m", "input_tokens": 5})
        written = [each["sql"] for each in statements if not each["sql"].startswith(("BEGIN", "COMMIT", "SAVE"))]
        assert len(written) == 1
        assert written[0].startswith(("INSERT", "EXPLAIN"))


class TestFromElsewhere:
    @pytest.mark.parametrize("response", [CHAT, RESPONSE, CLAUDE, GENERATED, PYDANTIC, LANGCHAIN])
    def test_a_response(self, conversation: Conversation, response: Any) -> None:
        row = conversation.record_usage(response, operation="tool")
        assert (row.operation, row.input_tokens, row.output_tokens) == ("tool", 1200, 340)
        assert row.model
        assert list(conversation.usage.all()) == [row]
        assert conversation.record_usage(response, operation="tool") == row
        assert conversation.usage.count() == 1

    def test_what_the_response_does_not_tell(self, conversation: Conversation) -> None:
        with pytest.raises(ValueError, match="the response does not tell its model; pass model="):
            conversation.record_usage(AGENTS)
        row = conversation.record_usage(AGENTS, model="gpt-5", provider="azure", tier="batch")
        assert (row.model, row.provider, row.tier) == ("gpt-5", "azure", "batch")

    def test_async(self, conversation: Conversation) -> None:
        row = async_to_sync(conversation.arecord_usage)({"model": "m", "input_tokens": 5}, operation="title")
        assert told() == [("title", "ok", None, 5)]
        assert conversation.usage.get() == row

    def test_calls_without_an_id_are_different_calls(self, conversation: Conversation) -> None:
        for _ in range(2):
            conversation.record_usage({"model": "m", "input_tokens": 5})
        assert conversation.usage.count() == 2

    def test_an_id_that_a_server_gives_again_is_another_call(self, conversation: Conversation) -> None:
        for tokens in (5, 6, 5):
            conversation.record_usage({"model": "m", "input_tokens": tokens, "response_id": "chatcmpl-123"})
        assert conversation.usage.count() == 2

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            ({"operation": "dream"}, "operation must be one of chat, summary, title, tool, got 'dream'"),
            ({"status": "fine"}, "status must be one of ok, failed, interrupted, got 'fine'"),
            ({"position": 0}, "position must be one of this conversation, got 0"),
        ],
    )
    def test_errors(self, conversation: Conversation, arguments: dict[str, Any], problem: str) -> None:
        with pytest.raises(ValueError, match=problem):
            conversation.record_usage({"model": "m", "input_tokens": 5}, **arguments)
        assert told() == []

    def test_texts_that_no_database_holds(self, conversation: Conversation) -> None:
        row = conversation.record_usage({"model": "m\x00" * 200, "provider": "p\ud800" * 99, "input_tokens": 5})
        row.refresh_from_db()
        assert (len(row.model), len(row.provider)) == (255, 100)


class TestFrameworks:
    """Adapters record by themselves what their framework tells."""

    def test_langchain(self, user: Any) -> None:
        history = DjangoChatMessageHistory("s", owner=user)
        history.add_messages([HumanMessage("Hi"), LANGCHAIN, HumanMessage("And?"), AIMessage("No figures")])
        assert told() == [("chat", "ok", 1, 1200)]
        assert Usage.objects.get().response_id == "chatcmpl-7"

    def test_pydantic_ai(self, user: Any) -> None:
        history = DjangoMessageHistory("s", owner=user)
        result = async_to_sync(Agent(TestModel()).run)("Hi")  # run_sync() would leave an open event loop behind
        history.add(result.new_messages())
        [(operation, status, position, tokens)] = told()
        assert (operation, status, position) == ("chat", "ok", 1)
        assert tokens == result.response.usage.input_tokens
        assert Usage.objects.get().model == "test"

    def test_langgraph(self, user: Any) -> None:
        builder = StateGraph(MessagesState)
        builder.add_node("model", lambda state: {"messages": [LANGCHAIN]})
        builder.add_edge(START, "model")
        graph = builder.compile(checkpointer=DjangoSaver())
        graph.invoke({"messages": [HumanMessage("Hi")]}, {"configurable": {"thread_id": "s"}})
        assert [row[3] for row in told()] == [1200]

    @pytest.mark.parametrize("streamed", [False, True])
    @pytest.mark.parametrize(
        ("each", "expected"), [(False, [(3, 20)]), (True, [(1, 10), (3, 10)])], ids=["a run", "each call"]
    )
    def test_agent_framework(
        self, user: Any, streamed: bool, each: bool, expected: list[tuple[int | None, int]]
    ) -> None:
        def look_up() -> str:
            """Look it up."""
            return "rain"

        asked = framework.Content.from_function_call("1", "look_up", arguments="{}")
        answers = [framework.Message("assistant", [asked]), framework.Message("assistant", ["Rain."])]
        client = ScriptedClient(*answers, usage={"input_token_count": 10, "cache_read_input_token_count": 4})
        agent = framework.Agent(
            client,
            tools=[look_up],
            context_providers=[DjangoHistoryProvider(user, window="messages", limit=50)],
            require_per_service_call_history_persistence=each,
        )

        async def ask() -> None:
            session = agent.create_session(session_id="s")
            if streamed:
                async for _ in agent.run("Hi", session=session, stream=True):
                    pass
            else:
                await agent.run("Hi", session=session)

        async_to_sync(ask)()
        assert [(row[2], row[3]) for row in told(operation="chat", status="ok")] == expected
        assert {(row.model, row.owner, row.seconds) for row in Usage.objects.all()} == {("gpt-5", user, None)}
        assert total(Usage.objects.all()).cached_share == 0.4

    def test_agent_framework_tells_nothing_of_what_is_not_stored(self, user: Any) -> None:
        client = ScriptedClient(framework.Message("assistant", ["Yes."]), usage={"input_token_count": 10})
        agent = framework.Agent(client, context_providers=[DjangoHistoryProvider(user, store_outputs=False)])
        history = [
            framework.Message("user", ["Hi"]),
            framework.Message("assistant", ["Hello"]),
            framework.Message("user", ["Well?"]),
        ]

        async def ask() -> None:
            await agent.run(history, session=agent.create_session(session_id="s"))

        async_to_sync(ask)()
        assert Conversation.objects.get().message_count == 3
        assert told() == []


class TestLimits:
    """A project's budget: a receiver that refuses a call."""

    @pytest.fixture(autouse=True)
    def budget(self) -> Iterator[None]:
        def refuse(conversation: Conversation, **call: Any) -> None:
            this_month = Usage.objects.filter(owner=conversation.owner_id, day__gte=timezone.localdate().replace(day=1))
            if total(this_month).costs.get("USD", 0) >= Decimal("0.003"):
                raise CallRefusedError("Your budget of this month is used up, 100%.")

        model_calling.connect(refuse)
        yield
        model_calling.disconnect(refuse)

    def test_a_budget_of_each_user_and_month(self, conversation: Conversation) -> None:
        assistant = Assistant(Model())
        for _ in range(2):
            assistant.chat(conversation, "Hi")
        for way in (assistant.chat, async_to_sync(assistant.achat)):
            with pytest.raises(CallRefusedError, match="Your budget of this month is used up"):
                way(conversation, "And?")
        assert len(told()) == 2
        assert conversation.messages.last().text == "And?"
        assistant.chat(ConversationFactory(), "Hi")  # another user
        Usage.objects.update(day=timezone.localdate().replace(day=1) - timezone.timedelta(days=1))
        assistant.chat(conversation)  # the next month

    def test_the_user_reads_why(self, api: Client, conversation: Conversation) -> None:
        conversation.record_usage({"model": "gpt-5", "input_tokens": 10_000, "output_tokens": 0})
        answer = ask(api, conversation, "Hello")
        assert (answer.status_code, answer.json()["code"]) == (403, "call_refused")
        assert answer.json()["detail"] == "Your budget of this month is used up, 100%."
        error = chunks_of(stream(api, conversation, "Hello"))[-1]
        assert error == {"type": "error", "errorText": "Your budget of this month is used up, 100%."}

    def test_another_error_of_a_receiver_ends_the_turn(self, conversation: Conversation) -> None:
        def fail(**call: Any) -> None:
            raise LookupError("no budget")

        model_calling.connect(fail)
        try:
            with pytest.raises(LookupError):
                Assistant(Model()).chat(conversation, "Hi")
        finally:
            model_calling.disconnect(fail)
        assert Assistant(Model()).chat(conversation).text == "Yes."  # the turn was released


class TestVerify:
    def verify(self, *arguments: str) -> str:
        out = io.StringIO()
        with suppress(SystemExit, CommandError):  # something was found
            call_command("chatmemory_verify", *arguments, stdout=out, stderr=out)
        return out.getvalue()

    def test_nothing_is_wrong(self, conversation: Conversation) -> None:
        Assistant(Model()).chat(conversation, "Hi")
        assert "usage" not in self.verify()

    def test_costs(self, conversation: Conversation) -> None:
        row = conversation.record_usage({"model": "gpt-5", "input_tokens": 1_000_000, "output_tokens": 0})
        Usage.objects.update(cost=None, currency="")
        assert f"cost of usage {row.pk}: expected 1.25 USD, found none" in self.verify()
        Usage.objects.update(cost=2, currency="USD")
        assert "expected 1.25 USD, found 2 USD" in self.verify("--repair")
        row.refresh_from_db()
        assert (row.cost, row.currency) == (Decimal("1.25"), "USD")
        assert "usage" not in self.verify()

    def test_a_cost_whose_price_is_not_known_any_more_stays(self, conversation: Conversation) -> None:
        conversation.record_usage({"model": "gone", "input_tokens": 1_000_000})
        Usage.objects.update(cost=2, currency="USD")
        assert "usage" not in self.verify("--repair")


class TestAtRandom:
    """No call is counted twice, and none that ended is missing, whatever happens to the turns."""

    @pytest.mark.slow
    @pytest.mark.parametrize("seed", range(3))
    def test_turns(self, conversation: Conversation, seed: int) -> None:
        rng = random.Random(seed)
        calls: list[int] = []

        class Counted(Model):
            def chat(self, messages: Any, tools: Any) -> Any:
                calls.append(len(calls) + 1)
                usage = Tokens(input_tokens=calls[-1], output_tokens=1, response_id=f"r{calls[-1]}")
                if rng.random() < 0.2:
                    raise ModelError("No.", usage=usage)
                return Answered(AiMessage("Yes."), usage)

        assistant = Assistant(Counted())
        keys: list[str] = []
        for number in range(40):
            key = rng.choice([*keys[-3:], f"k{number}", None])
            text = f"Question {key or number}"
            keys += [key] if key else []
            try:
                if rng.random() < 0.5:
                    assistant.chat(conversation, text, idempotency_key=key)
                elif rng.random() < 0.5:
                    list(assistant.stream(conversation, text, idempotency_key=key))
                else:
                    with closing(assistant.stream(conversation, text, idempotency_key=key)) as events:
                        next(events, None)
            except (ModelError, TurnLostError):
                pass
        stored = list(conversation.usage.exclude(status="interrupted").values_list("input_tokens", flat=True))
        assert sorted(stored) == calls
        answers = conversation.messages.filter(type="AI").values_list("position", flat=True)
        positions = conversation.usage.exclude(position=None).values_list("position", flat=True)
        assert sorted(positions) == sorted(answers)

    def test_the_same_response_from_many_threads(self, conversation: Conversation) -> None:
        barrier = threading.Barrier(4)

        def record() -> None:
            try:
                barrier.wait(60)
                for number in range(5):
                    conversation.record_usage({"model": "m", "input_tokens": 5, "response_id": f"r{number}"})
            finally:
                connection.close()

        threads = [threading.Thread(target=record) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert conversation.usage.count() == 5
