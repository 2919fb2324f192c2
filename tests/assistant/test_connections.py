"""Connections of turns: none is held while the model thinks, and one that dies meanwhile takes no answer with it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from asgiref.sync import ThreadSensitiveContext
from django.db import Error, OperationalError, connection

from chatmemory import AiMessage, ChatMessage, ToolExecutionResultMessage, UserMessage
from chatmemory.assistant import Added, Assistant, ChatModel, Tool
from chatmemory.database.connections import close_if_dead
from chatmemory.models import Conversation, Message
from chatmemory.signals import messages_added, model_called
from tests.database.test_async import run
from tests.support.assistant_models import ScriptedModel, calling
from tests.support.cutting import cut_all_others, own_process, wait_until_ended
from tests.support.factories import ConversationFactory
from tests.support.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

TURNS = 5

has_pools = pytest.mark.skipif(connection.vendor != "postgresql", reason="Django has pools for PostgreSQL alone")
has_connections = pytest.mark.skipif(connection.vendor == "sqlite", reason="a file has no connections to lose")

Connect = Callable[..., None]


@pytest.fixture
def connect(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connect]:
    """Sets what a project may set for its connections; those of the test are closed before and after."""

    def use(*, max_age: int | None = 0, pool: dict[str, Any] | None = None) -> None:
        connection.close()
        monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", max_age)
        if pool is not None:
            monkeypatch.setitem(connection.settings_dict["OPTIONS"], "pool", pool)

    yield use
    connection.close()
    if connection.vendor == "postgresql":
        connection.close_pool()


def in_thread(work: Callable[[], Any]) -> Any:
    """Its result in a thread that has a connection of its own, and leaves none."""

    def whole() -> Any:
        try:
            return work()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(whole).result()


def cut() -> None:
    """As the database's operator, or its restart, does: end all connections, and wait until they have ended."""
    wait_until_pool_is_full()
    in_thread(lambda: wait_until_ended(cut_all_others()))


def wait_until_pool_is_full() -> None:
    """Wait until the pool has made all its connections: one that is cut meanwhile would enter it dead, but later."""
    if (pool := getattr(connection, "pool", None)) is not None:
        held = int(connection.connection is not None)
        wait_until(lambda: pool.get_stats()["pool_available"] == pool.max_size - held, "the pool is not full")


def end_of_turn(conversation: Conversation) -> Any:
    return Conversation.objects.values_list("turn_until", flat=True).get(pk=conversation.pk)


def history(conversation: Conversation) -> list[ChatMessage]:
    return [row.message for row in conversation.messages.history()]


class Meeting(ChatModel):
    """Calls the tool ``meet``, then answers. It goes on when all turns are as far as this one."""

    def __init__(self) -> None:
        self._met = threading.Barrier(TURNS)

    async def ameet(self) -> None:
        await asyncio.to_thread(self.meet)

    def meet(self) -> None:
        self._met.wait(timeout=60)

    def chat(self, messages: Sequence[ChatMessage], tools: Any) -> AiMessage:
        self.meet()
        return AiMessage("Hello") if isinstance(messages[-1], ToolExecutionResultMessage) else calling(("meet", "{}"))

    def stream(self, messages: Sequence[ChatMessage], tools: Any) -> Iterator[str | AiMessage]:
        yield ""
        yield self.chat(messages, tools)

    async def achat(self, messages: Sequence[ChatMessage], tools: Any) -> AiMessage:
        return await asyncio.to_thread(self.chat, messages, tools)

    async def astream(self, messages: Sequence[ChatMessage], tools: Any) -> AsyncIterator[str | AiMessage]:
        yield ""
        yield await self.achat(messages, tools)


@has_pools
class TestPoolOfOne:
    """All turns but one would wait for a connection in vain, if one held it while the others need it."""

    @pytest.fixture(autouse=True)
    def _receiver(self) -> Iterator[None]:
        """Asks the database after each call of a model."""

        def count(**given: Any) -> None:
            Message.objects.count()

        model_called.connect(count)
        yield
        model_called.disconnect(count)

    @pytest.fixture
    def conversations(self, connect: Connect) -> list[Conversation]:
        conversations = [ConversationFactory(owner=None) for _ in range(TURNS)]
        connect(pool={"min_size": 1, "max_size": 1, "timeout": 60})
        return conversations

    @pytest.mark.parametrize("streams", [False, True])
    def test_serves_turns_of_many_threads(self, conversations: list[Conversation], streams: bool) -> None:
        model = Meeting()

        def meet() -> int:
            model.meet()
            return Message.objects.count()

        assistant = Assistant(model, memory=lambda number: conversations[number].memory, tools=[meet])

        def turn(number: int) -> None:
            if streams:
                list(assistant.stream(number, "Hi"))
            else:
                assistant.chat(number, "Hi")

        with ThreadPoolExecutor(TURNS) as threads:
            list(threads.map(turn, range(TURNS)))
        for conversation in conversations:
            assert history(conversation)[-1] == AiMessage("Hello")

    @pytest.mark.parametrize("streams", [False, True])
    def test_serves_turns_of_many_requests_under_asgi(self, conversations: list[Conversation], streams: bool) -> None:
        model = Meeting()

        async def meet() -> int:
            await model.ameet()
            return await Message.objects.acount()

        assistant = Assistant(model, memory=lambda number: conversations[number].memory, tools=[meet])

        async def turn(number: int) -> None:
            async with ThreadSensitiveContext():  # a thread for each, as Django's handler does
                if streams:
                    assert [event async for event in assistant.astream(number, "Hi")]
                else:
                    await assistant.achat(number, "Hi")

        async def turns() -> None:
            await asyncio.gather(*map(turn, range(TURNS)))

        run(turns())
        for conversation in conversations:
            assert history(conversation)[-1] == AiMessage("Hello")

    def test_is_free_while_a_reader_takes_their_time(self, conversations: list[Conversation]) -> None:
        """Between any two events another turn is taken."""
        slow = Assistant(
            ScriptedModel(calling(("look", "{}"), text="One moment"), "Hello Ann"),
            memory=lambda _: conversations[0].memory,
            tools=[Tool(Message.objects.count, name="look")],
            turn_timeout=1e-6,  # so that it is renewed at each piece
        )
        fast = Assistant(ScriptedModel(*"abcdefgh"), memory=lambda _: conversations[1].memory)
        answers = [in_thread(lambda: fast.chat(1, "Hi")).text for _ in slow.stream(1, "Hi")]
        assert answers == [*"abcdefgh"]

    def test_is_free_while_turns_wait_for_another_one(self, conversations: list[Conversation]) -> None:
        def model(messages: Any, tools: Any) -> AiMessage:
            return AiMessage(f"Re: {messages[-1].single_text()}")

        assistant = Assistant(model, memory=lambda _: conversations[0].memory)
        with ThreadPoolExecutor(TURNS) as threads:
            list(threads.map(lambda number: assistant.chat(1, f"{number}"), range(TURNS)))
        assert len(history(conversations[0])) == 2 * TURNS


# How a project connects; with a pool none of its connections is alive after a restart.
WAYS: dict[str, dict[str, Any]] = {"anew": {}, "persistent": {"max_age": None}}
if connection.vendor == "postgresql":
    WAYS["pool"] = {"pool": {"min_size": 3, "max_size": 3, "timeout": 60}}


@has_connections
@pytest.mark.parametrize("way", WAYS)
class TestLostConnection:
    @pytest.fixture
    def conversation(self, connect: Connect, way: str) -> Conversation:
        conversation: Conversation = ConversationFactory(owner=None)
        connect(**WAYS[way])
        return conversation

    def test_while_a_commit_is_answered_leaves_no_turn_held(
        self, conversation: Conversation, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The turn was taken, but the database's reply is lost."""
        commit, lost = connection._commit, []

        def lose_reply() -> None:
            commit()
            if not lost:
                lost.append(True)
                connection.connection.close()
                raise OperationalError("the connection is lost")

        monkeypatch.setattr(connection, "_commit", lose_reply)
        memory = conversation.memory
        assert Assistant(ScriptedModel("Hello"), memory=lambda _: memory).chat(1, "Hi") == AiMessage("Hello")
        assert lost
        assert history(conversation) == [UserMessage("Hi"), AiMessage("Hello")]
        assert end_of_turn(conversation) is None

    def test_in_the_model_and_in_a_tool_loses_no_answer(self, conversation: Conversation) -> None:
        def model(messages: Any, tools: Any) -> AiMessage:
            cut()
            return AiMessage("Hello") if len(messages) > 1 else calling(("restart", "{}"))

        assistant = Assistant(model, memory=lambda _: conversation.memory, tools=[Tool(cut, name="restart")])
        assert assistant.chat(1, "Hi", idempotency_key="1") == AiMessage("Hello")
        assert [message.type for message in history(conversation)] == ["USER", "AI", "TOOL_EXECUTION_RESULT", "AI"]
        assert end_of_turn(conversation) is None
        assert assistant.chat(1, "Hi", idempotency_key="1") == AiMessage("Hello")

    def test_in_async_code_loses_no_answer(self, conversation: Conversation) -> None:
        async def model(messages: Any, tools: Any) -> AiMessage:
            await asyncio.to_thread(cut)
            return AiMessage("Hello")

        assistant = Assistant(model, memory=lambda _: conversation.memory)
        assert run(assistant.achat(1, "Hi")) == AiMessage("Hello")
        assert history(conversation) == [UserMessage("Hi"), AiMessage("Hello")]
        assert end_of_turn(conversation) is None

    def test_while_pieces_are_read_loses_no_answer(self, conversation: Conversation) -> None:
        model = ScriptedModel(calling(("look", "{}"), text="One moment"), "Hello Ann")
        tools = [Tool(Message.objects.count, name="look")]
        assistant = Assistant(model, memory=lambda _: conversation.memory, tools=tools, turn_timeout=1e-6)
        for event in assistant.stream(1, "Hi"):
            if not (isinstance(event, Added) and event.messages == (AiMessage("Hello Ann"),)):  # which ends the turn
                cut()
        assert [message.type for message in history(conversation)] == ["USER", "AI", "TOOL_EXECUTION_RESULT", "AI"]
        assert end_of_turn(conversation) is None

    def test_before_its_reader_leaves(self, conversation: Conversation) -> None:
        events = Assistant(ScriptedModel("Hello Ann"), memory=lambda _: conversation.memory).stream(1, "Hi")
        assert [next(events), next(events)][1] == "Hello"
        cut()
        events.close()
        assert end_of_turn(conversation) is None

    def test_after_the_answer_was_added(self, conversation: Conversation, caplog: pytest.LogCaptureFixture) -> None:
        """The turn has ended with it, so nothing waits."""

        def lose(messages: list[Message], **_: Any) -> None:
            if messages[-1].type == AiMessage.type:
                connection.connection.close()

        memory = conversation.memory
        messages_added.connect(lose)
        try:
            answer = Assistant(ScriptedModel("Hello"), memory=lambda _: memory).chat(1, "Hi")
        finally:
            messages_added.disconnect(lose)
        assert answer == AiMessage("Hello")
        assert "could not be released" not in caplog.text
        close_if_dead(connection)
        assert end_of_turn(conversation) is None
        assert memory.messages() == [UserMessage("Hi"), AiMessage("Hello")]

    @pytest.mark.parametrize("act", ["messages", "add", "add with a key", "set", "chat", "chat with a provider"])
    def test_a_process_that_goes_on_has_another_one(self, conversation: Conversation, act: str) -> None:
        """Outside of requests, where nobody else closes the dead one."""
        memory = conversation.memory
        memory.add(UserMessage("Hi"))
        by_memory = Assistant(ScriptedModel(), memory=lambda _: memory)
        by_key = Assistant(ScriptedModel(), memory=lambda key: Conversation.objects.get(pk=key).memory)
        acts: dict[str, Callable[[], Any]] = {
            "messages": memory.messages,
            "add": lambda: memory.add(AiMessage("Hello")),
            "add with a key": lambda: memory.add(AiMessage("Hello"), idempotency_key="1"),
            "set": lambda: memory.set([UserMessage("Hi"), AiMessage("Hello")]),
            "chat": lambda: by_memory.chat(1),
            "chat with a provider": lambda: by_key.chat(conversation.pk),
        }
        if act.startswith("chat"):
            memory.add(AiMessage("Hello"))
        assert connection.connection is not None
        cut()
        with pytest.raises(Error):
            memory.messages()
        acts[act]()
        assert memory.messages() == [UserMessage("Hi"), AiMessage("Hello")][: 1 if act == "messages" else 2]


@has_connections
def test_a_connection_that_the_database_closes_when_idle_is_replaced(connect: Connect) -> None:
    conversation = ConversationFactory(owner=None)
    connect(max_age=None)
    kept = own_process()

    def model(messages: Any, tools: Any) -> AiMessage:
        idle = own_process()
        assert idle == kept
        # Not before the turn: on a busy machine it may take longer than a second until it is here.
        with connection.cursor() as cursor:
            cursor.execute(
                "SET SESSION wait_timeout = 1" if connection.vendor == "mysql" else "SET idle_session_timeout = '1s'"
            )
        in_thread(lambda: wait_until_ended([idle]))
        return AiMessage("Hello")

    assert Assistant(model, memory=lambda _: conversation.memory).chat(1, "Hi") == AiMessage("Hello")
    assert end_of_turn(conversation) is None


class TestConnectionsOfTheCaller:
    @pytest.mark.django_db
    def test_one_with_a_transaction_stays(self) -> None:
        """As in Django's TestCase."""
        conversation = ConversationFactory(owner=None)
        before = connection.connection
        tools = [Tool(Message.objects.count, name="look")]
        model = ScriptedModel(calling(("look", "{}"), text="One moment"), "Hello")
        list(Assistant(model, memory=lambda _: conversation.memory, tools=tools).stream(1, "Hi"))
        assert len(history(conversation)) == 4
        assert connection.connection is before

    @pytest.mark.slow
    @pytest.mark.skipif(connection.vendor != "sqlite", reason="elsewhere it is given back")
    def test_that_of_a_file_stays(self) -> None:
        """A statement of the caller's that is being read goes on."""
        for _ in range(300):
            ConversationFactory(owner=None)
        assistant = Assistant(
            lambda messages, tools: AiMessage("Hello"), memory=lambda key: Conversation.objects.get(pk=key).memory
        )
        answers = [assistant.chat(row.pk, "Hi") for row in Conversation.objects.iterator(chunk_size=100)]
        assert len(answers) == 300
