"""Async code outside of requests: no task waits for what another one waits for, and no connection is left behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
from asgiref.sync import ThreadSensitiveContext, async_to_sync, sync_to_async
from django.db import connection, connections, transaction
from django.test import TestCase
from django.utils import timezone

from chatmemory import (
    AiMessage,
    MessageWindowChatMemory,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.assistant import Assistant, Tool
from chatmemory.contrib.openai_agents import DjangoSession
from chatmemory.models import Conversation, Message
from chatmemory.retention import apurge_evicted
from chatmemory.signals import messages_added
from tests.database.test_async import run
from tests.support.assistant_models import ScriptedModel, calling
from tests.support.cutting import others, wait_until_ended
from tests.support.factories import ConversationFactory
from tests.support.waiting import waits_for_a_lock

pytestmark = pytest.mark.django_db(transaction=True)

has_row_locks = pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite has no locks of rows")


@contextmanager
def locked(conversation: Conversation) -> Iterator[Callable[[], None]]:
    """Another process that keeps the row of a conversation, until the function is called."""
    has_it, end = threading.Event(), threading.Event()

    def keep() -> None:
        try:
            with transaction.atomic():
                Conversation.objects.select_for_update().get(pk=conversation.pk)
                has_it.set()
                end.wait(60)
        finally:
            connection.close()

    thread = threading.Thread(target=keep)
    thread.start()
    assert has_it.wait(60)
    try:
        yield end.set
    finally:
        end.set()
        thread.join()


def somebody_waits() -> bool:
    try:
        return waits_for_a_lock()
    finally:
        connection.close()


@has_row_locks
class TestRowLock:
    def test_one_session_that_waits_keeps_no_other_from_going_on(self) -> None:
        conversation = ConversationFactory(owner=None, memory_id="1")

        async def use() -> None:
            with locked(conversation) as unlock:
                waiting = asyncio.create_task(DjangoSession("1").add_items([{"role": "user", "content": "Hi"}]))
                other = DjangoSession("2")
                async with asyncio.timeout(50):
                    for _ in range(20):
                        await other.add_items([{"role": "user", "content": "Hi"}])
                    assert len(await other.get_items()) == 20
                    assert await Conversation.objects.acount() == 2
                assert not waiting.done()
                unlock()
                await waiting

        run(use())
        assert conversation.messages.count() == 1

    def test_a_purge_that_waits_keeps_nobody_from_going_on(self) -> None:
        conversation = ConversationFactory(owner=None, window="messages", limit=1)
        conversation.memory.add(UserMessage("Hi"), AiMessage("Hello"))

        async def purge() -> None:
            assert [step.messages async for step in apurge_evicted(timezone.now())] == [1]

        async def use() -> None:
            with locked(conversation) as unlock:
                waiting = asyncio.create_task(purge())
                while not (await asyncio.to_thread(somebody_waits)):
                    await asyncio.sleep(0.2)  # MariaDB tells nothing new more often
                async with asyncio.timeout(50):
                    assert await Conversation.objects.acount() == 1
                assert not waiting.done()
                unlock()
                await waiting

        run(use())

    def test_a_cancelled_change_ends_before_its_task(self) -> None:
        """What is said after it comes after it."""
        conversation = ConversationFactory(owner=None)
        memory = conversation.memory

        async def use() -> None:
            with locked(conversation) as unlock:
                first = asyncio.create_task(memory.aadd(UserMessage("first")))
                while not (await asyncio.to_thread(somebody_waits)):
                    await asyncio.sleep(0.2)  # MariaDB tells nothing new more often
                first.cancel()
                unlock()
                with pytest.raises(asyncio.CancelledError):
                    await first
            await memory.aadd(UserMessage("second"))

        run(use())
        assert memory.messages() == [UserMessage("first"), UserMessage("second")]


@has_row_locks
def test_connections_are_few_and_are_given_back() -> None:
    conversations = [ConversationFactory(owner=None) for _ in range(40)]
    most = 0

    def model(messages: Any, tools: Any) -> AiMessage:
        Message.objects.count()
        return AiMessage("Hello") if len(messages) > 1 else calling(("look", "{}"))

    def look() -> int:
        return Message.objects.count()

    def note(**_: Any) -> None:
        nonlocal most
        most = max(most, len(others()))

    assistant = Assistant(model, memory=lambda key: Conversation.objects.get(pk=key).memory, tools=[look])

    async def use() -> None:
        await asyncio.gather(
            *(one.memory.aadd(UserMessage("Hi")) for one in conversations),
            *(assistant.achat(one.pk, "Hi") for one in conversations),
        )
        await sync_to_async(connections.close_all)()  # of the thread that all ORM code of the process shares
        # The server ends a connection some time after its client has.
        await asyncio.to_thread(in_own_connection, lambda: wait_until_ended(set(others()) - before))

    def in_own_connection(work: Callable[[], Any]) -> Any:
        try:
            return work()
        finally:
            connection.close()

    connection.close()
    before = set(in_own_connection(others))
    messages_added.connect(note)
    try:
        asyncio.run(use())
    finally:
        messages_added.disconnect(note)
    assert 1 < most < 60


class TestCallersThread:
    """Where a transaction may be open in a thread, async code stays in that thread."""

    def test_a_thread_that_waits_for_async_code(self) -> None:
        memory = ConversationFactory(owner=None).memory
        assistant = Assistant(ScriptedModel(calling(("look", "{}")), "Hello"), memory=memory_in_process, tools=[look])
        with transaction.atomic():
            async_to_sync(memory.aadd)(UserMessage("Hi"))
            assert async_to_sync(assistant.achat)(1, "Hi") == AiMessage("Hello")
            assert looked == [1]
            transaction.set_rollback(True)
        assert memory.messages() == []

    def test_that_of_a_request(self) -> None:
        threads = []

        def note(**_: Any) -> None:
            threads.append(threading.current_thread())

        async def view() -> None:
            async with ThreadSensitiveContext():
                conversation = await Conversation.objects.acreate()
                await conversation.memory.aadd(UserMessage("Hi"))
                threads.append(await sync_to_async(threading.current_thread)())
                await sync_to_async(connections.close_all)()

        messages_added.connect(note)
        try:
            asyncio.run(view())
        finally:
            messages_added.disconnect(note)
        assert len(threads) == 2
        assert threads[0] is threads[1]

    def test_that_of_a_tool(self) -> None:
        memory = ConversationFactory(owner=None).memory

        def act() -> str:
            with transaction.atomic():
                async_to_sync(memory.aadd)(UserMessage("Hi"))
                said = len(memory.messages())
                transaction.set_rollback(True)
            return f"{said}"

        result = run(Tool(act).arun(ToolExecutionRequest("1", "act", "{}")))
        assert result.text == "1"
        assert memory.messages() == []

    def test_that_of_a_tool_with_a_limit(self) -> None:
        """Although async code without a caller's thread ran before, which has another one."""
        memory = ConversationFactory(owner=None).memory
        tool = Tool(Message.objects.count, name="look", timeout=60)

        async def turn() -> str | None:
            await memory.aadd(UserMessage("Hello"))
            return (await tool.arun(ToolExecutionRequest("1", "look", "{}"))).text

        run(memory.aadd(UserMessage("Hi")))
        with transaction.atomic():
            assert async_to_sync(turn)() == "2"
            transaction.set_rollback(True)
        assert memory.messages() == [UserMessage("Hi")]

    def test_that_of_a_request_is_not_waited_for_by_a_tool_with_a_limit(self) -> None:
        has_limit_ended = threading.Event()

        def wait() -> bool:
            return has_limit_ended.wait(100)

        model = ScriptedModel(calling(("wait", "{}"), ("end", "{}")), "Hello")
        tools = [Tool(wait), Tool(has_limit_ended.set, name="end", timeout=60)]
        memory = ConversationFactory(owner=None).memory

        async def view() -> None:
            async with ThreadSensitiveContext():
                await Assistant(model, memory=lambda _: memory, tools=tools).achat(1, "Hi")
                await sync_to_async(connections.close_all)()

        asyncio.run(view())
        results = [message.text for message in model.asked[-1] if isinstance(message, ToolExecutionResultMessage)]
        assert results == ["true", "Success"]

    def test_a_transaction_that_async_code_began_by_itself(self) -> None:
        """Django does not offer it, but projects do it."""
        memory = ConversationFactory(owner=None).memory

        async def use() -> None:
            async with rolled_back():
                await memory.aadd(UserMessage("Hi"))
                await DjangoSession("2").add_items([{"role": "user", "content": "Hi"}])
                assert await Message.objects.acount() == 2

        run(use())
        assert Message.objects.count() == 0

    def test_a_transaction_that_async_code_began_by_itself_while_a_request_runs_a_tool(self) -> None:
        """The thread of that request is another one, which has no transaction."""
        memory = ConversationFactory(owner=None).memory
        tool = Tool(Message.objects.count, name="look", timeout=60)

        async def view() -> None:
            async with ThreadSensitiveContext():
                await tool.arun(ToolExecutionRequest("1", "look", "{}"))
                await sync_to_async(connections.close_all)()

        async def use() -> None:
            async with rolled_back():
                await asyncio.create_task(view())
                await memory.aadd(UserMessage("Hi"))

        run(use())
        assert Message.objects.count() == 0


@asynccontextmanager
async def rolled_back() -> AsyncIterator[None]:
    """A transaction in the thread that all ORM code of the process shares."""
    block = transaction.atomic()
    await sync_to_async(block.__enter__)()
    try:
        yield
    finally:
        await sync_to_async(transaction.set_rollback)(True)
        await sync_to_async(block.__exit__)(None, None, None)


looked: list[int] = []


def look() -> int:
    looked.append(Message.objects.count())
    return looked[-1]


def memory_in_process(key: Any) -> MessageWindowChatMemory:
    return MessageWindowChatMemory(id=key, max_messages=10)


class TestInDjangosTestCase(TestCase):
    """Its tests run in a transaction, the async ones too."""

    async def test_changes_are_seen(self) -> None:
        conversation = await Conversation.objects.acreate()
        await conversation.memory.aadd(UserMessage("Hi"))
        await DjangoSession("2").add_items([{"role": "user", "content": "Hi"}])
        assert await Message.objects.acount() == 2
        assert await sync_to_async(lambda: connection.in_atomic_block)()
