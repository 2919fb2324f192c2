"""Pydantic AI's agents with a store in the database."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import ImproperlyConfigured
from django.db import connection, connections
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict, ConversationEntry, ConversationRecord
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import DeferredToolRequests

from chatmemory import AiMessage, ToolExecutionResultMessage, UserMessage
from chatmemory.contrib.pydantic_ai import DjangoConversationStore, DjangoMessageHistory
from chatmemory.contrib.pydantic_ai.models import Entry
from chatmemory.models import Conversation as Row
from chatmemory.signals import memory_repaired
from tests.contrib.conversation_store.writer import write
from tests.support.factories import UserFactory

pytestmark = pytest.mark.django_db(transaction=True)


def in_loop(test: Callable[[Any], Awaitable[None]]) -> Callable[[Any], None]:
    return wraps(test)(lambda self: async_to_sync(test)(self))


def user(text: str) -> ModelRequest:
    return ModelRequest([UserPromptPart(text)])


def said(text: str) -> ModelResponse:
    return ModelResponse([TextPart(text)])


def run(act: Callable[[], Awaitable[Any]]) -> Any:
    async def call() -> Any:
        return await act()

    return async_to_sync(call)()


def saved(store: DjangoConversationStore, conversation_id: str, *messages: ModelMessage) -> list[ConversationEntry]:
    """Add messages to a stored conversation; the first ones create it."""

    async def save() -> list[ConversationEntry]:
        known = await store.load(conversation_id)
        conversation = known or Conversation(conversation_id=conversation_id)
        conversation.messages += messages
        return await store.save(conversation)

    return async_to_sync(save)()


def texts(conversation_id: str, owner: Any = None) -> list[str]:
    return [message.text for message in Row.objects.named(owner, conversation_id).get().messages.retained()]


def pay(amount: int) -> str:
    return f"Paid {amount}. " + "Thank you. " * 50


def paying(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """A model that pays, and then says that it has."""
    if isinstance(messages[-1], ModelRequest) and isinstance(messages[-1].parts[-1], UserPromptPart):
        return ModelResponse([ToolCallPart("pay", {"amount": 3}, "call")])
    return said("Done.")


class TestAgent:
    @in_loop
    async def test_a_conversation_goes_on_with_its_usage(self) -> None:
        store, agent = DjangoConversationStore(title="Support"), Agent(TestModel(custom_output_text="Hello."))
        first = await agent.run("Hi", conversation=Conversation(conversation_id="c"))
        assert len(await store.save(first)) == 2
        loaded = await store.load("c")
        assert loaded == first.conversation
        second = await agent.run("And now?", conversation=loaded)
        await store.save(second)
        loaded = await store.load("c")
        assert loaded is not None
        assert loaded.messages == second.all_messages()
        assert (loaded.usage.requests, loaded.usage) == (2, second.conversation.usage)
        row = await Row.objects.aget()
        assert (row.title, row.memory_id, row.message_count) == ("Support", "c", 4)
        assert await row.memory.amessages() == [
            UserMessage("Hi"),
            AiMessage("Hello."),
            UserMessage("And now?"),
            AiMessage("Hello."),
        ]
        assert await DjangoMessageHistory("c").amessages() == loaded.messages

    @in_loop
    async def test_a_run_that_waits_for_an_approval_goes_on_elsewhere(self) -> None:
        agent = Agent(FunctionModel(paying), output_type=[str, DeferredToolRequests])
        agent.tool_plain(requires_approval=True)(pay)
        store = DjangoConversationStore()
        await store.save(await agent.run("Pay 3", conversation=Conversation(conversation_id="c")))

        loaded = await DjangoConversationStore().load("c")
        assert loaded is not None
        requests = loaded.deferred_tool_requests
        assert requests is not None
        assert [call.tool_call_id for call in requests.approvals] == ["call"]
        results = requests.build_results(approve_all=True)
        result = await agent.run(conversation=loaded, deferred_tool_results=results)
        assert result.output == "Done."
        await store.save(result)

        loaded = await store.load("c")
        assert loaded is not None
        assert loaded.deferred_tool_requests is None
        assert loaded.usage.tool_calls == 1
        memory = await (await Row.objects.aget()).memory.amessages()
        assert [type(message) for message in memory] == [UserMessage, AiMessage, ToolExecutionResultMessage, AiMessage]
        assert memory[2] == ToolExecutionResultMessage("call", "pay", pay(3))

    @in_loop
    async def test_of_two_turns_at_once_one_is_refused_and_repeated(self) -> None:
        store, agent = DjangoConversationStore(), Agent(TestModel())
        await store.save(await agent.run("Hi", conversation=Conversation(conversation_id="c")))
        one, other = await store.load("c"), await store.load("c")
        await store.save(await agent.run("one", conversation=one))
        late = await agent.run("other", conversation=other)
        with pytest.raises(ConversationConflict):
            await store.save(late)
        assert await Entry.objects.acount() == 4
        assert (await Row.objects.aget()).message_count == 4
        await store.save(await agent.run("other", conversation=await store.load("c")))
        loaded = await store.load("c")
        assert loaded is not None
        assert len(loaded.messages) == 6


class TestMirror:
    def test_a_branch_evicts_what_it_leaves_and_brings_it_back(self) -> None:
        store = DjangoConversationStore()
        entries = saved(store, "c", user("Hi"), said("Hello"), user("Tea?"), said("Yes"))
        loaded = run(lambda: store.load("c"))
        branch = run(lambda: store.branch("c", at=2, expected_revision=loaded.revision))
        branch.messages += [user("Coffee?"), said("No")]
        run(lambda: store.save(branch))
        assert texts("c") == ["Hi", "Hello", "Coffee?", "No"]
        row = Row.objects.get()
        assert {(one.text, one.eviction_reason) for one in row.messages.evicted()} == {
            ("Tea?", "rewritten"),
            ("Yes", "rewritten"),
        }
        run(lambda: store.branch("c", from_entry=entries[-1].id, expected_revision=branch.revision))
        assert texts("c") == ["Hi", "Hello", "Tea?", "Yes"]
        assert [one.text for one in row.messages.history()] == ["Hi", "Hello", "Tea?", "Yes", "Coffee?", "No"]

    def test_messages_of_other_programs_stay_where_they_are(self) -> None:
        store = DjangoConversationStore()
        saved(store, "c", user("1"), said("2"))
        Row.objects.get().memory.add(UserMessage("other"))
        saved(store, "c", user("3"), said("4"))
        loaded = run(lambda: store.load("c"))
        assert len(loaded.messages) == 4
        run(lambda: store.branch("c", at=3, expected_revision=loaded.revision))
        assert texts("c") == ["1", "2", "other", "3"]
        run(lambda: store.delete("c"))
        assert texts("c") == ["other"]
        assert not Entry.objects.exists()

    def test_the_window_bounds_the_memory_and_not_what_the_agent_gets(self) -> None:
        store = DjangoConversationStore(window="messages", limit=3)
        for number in range(4):
            saved(store, "c", user(f"q{number}"), said(f"a{number}"))
        assert len(run(lambda: store.load("c")).messages) == 8
        assert texts("c") == ["a2", "q3", "a3"]
        loaded = run(lambda: store.load("c"))
        run(lambda: store.branch("c", at=6, expected_revision=loaded.revision))
        assert texts("c") == ["a2"]
        assert len(run(lambda: store.load("c", limit=4)).messages) == 4

    def test_a_placeholder_leaves_with_the_tool_result_that_it_replaces(self) -> None:
        store, agent = DjangoConversationStore(), Agent(FunctionModel(paying))
        agent.tool_plain(pay)
        # run_sync() would leave an open event loop behind.
        conversation = run(lambda: agent.run("Pay", conversation=Conversation(conversation_id="c"))).conversation
        conversation.messages.append(user("Thanks"))
        run(lambda: store.save(conversation))
        row = Row.objects.get()
        row.memory.clear_tool_results(0, placeholder="[gone]")
        assert "[gone]" in texts("c")
        run(lambda: store.branch("c", at=1, expected_revision=conversation.revision))
        assert texts("c") == ["Pay"]

    def test_without_a_history_branches_return_as_new_messages(self, settings: Any) -> None:
        settings.CHATMEMORY = {"KEEP_HISTORY": False}
        store = DjangoConversationStore()
        entries = saved(store, "c", user("1"), said("2"), user("3"))
        loaded = run(lambda: store.load("c"))
        branch = run(lambda: store.branch("c", at=1, expected_revision=loaded.revision))
        assert texts("c") == ["1"]
        run(lambda: store.branch("c", from_entry=entries[-1].id, expected_revision=branch.revision))
        assert texts("c") == ["1", "2", "3"]

    def test_a_fork_is_a_conversation_of_its_own(self) -> None:
        store = DjangoConversationStore()
        saved(store, "c", user("1"), said("2"), user("3"))
        fork = run(lambda: store.fork("c", at=2, new_conversation_id="f"))
        source, copy = Row.objects.get(memory_id="c"), Row.objects.get(memory_id="f")
        assert copy.forked_from == source.pk
        source.delete()
        fork.messages.append(user("4"))
        run(lambda: store.save(fork))
        assert texts("f") == ["1", "2", "4"]
        assert [message.parts[0].content for message in run(lambda: store.load("f")).messages] == ["1", "2", "4"]

    def test_characters_that_no_database_stores_are_replaced_and_reported(self) -> None:
        repairs: list[Any] = []

        def hear(repairs: Any, heard: list[Any] = repairs, **signal: Any) -> None:
            heard += [repair.position for repair in repairs]

        memory_repaired.connect(hear, weak=False)
        try:
            store = DjangoConversationStore()
            saved(store, "c", user("plain"), user("a\x00b"))
            loaded = run(lambda: store.load("c"))
            assert loaded.messages[1].parts[0].content == "a\x00b"  # the entry is JSON, which escapes it
            saved(store, "c", said("a\ud800b"))
            assert run(lambda: store.load("c")).messages[2].parts[0].content == "a\ufffdb"
        finally:
            memory_repaired.disconnect(hear)
        assert texts("c") == ["plain", "a\ufffdb", "a\ufffdb"]
        assert repairs == [1, 0]


class TestOwners:
    def test_have_their_own_conversations_and_entries(self) -> None:
        ann, bob = DjangoConversationStore(UserFactory()), DjangoConversationStore(UserFactory())
        [entry] = saved(ann, "c", user("Ann's"))
        assert run(lambda: bob.load("c")) is None
        assert run(lambda: bob.list_conversations()) == []
        with pytest.raises(KeyError):
            run(lambda: bob.read_entry(entry.id))
        # Not even under the ID of an entry that is known.
        record = ConversationRecord(conversation_id="stolen", head_id=entry.id)
        with pytest.raises(ConversationConflict):
            run(lambda: bob.write_record(record, expected_revision=None))
        saved(bob, "c", user("Bob's"))
        assert Row.objects.filter(memory_id="c").count() == 2
        assert not Row.objects.filter(memory_id="stolen").exists()

    def test_the_app_must_be_installed(self, settings: Any) -> None:
        settings.INSTALLED_APPS = [name for name in settings.INSTALLED_APPS if not name.endswith("pydantic_ai")]
        with pytest.raises(ImproperlyConfigured, match=r'add "chatmemory\.contrib\.pydantic_ai"'):
            DjangoConversationStore()

    @pytest.mark.parametrize(
        ("conversation_id", "scope", "problem"),
        [("", None, "memory_id"), ("a" * 256, None, "memory_id"), ("c", "s" * 256, "record scope has 256 characters")],
    )
    def test_what_no_column_stores_is_refused(self, conversation_id: str, scope: str | None, problem: str) -> None:
        conversation = Conversation(conversation_id=conversation_id, messages=[user("Hi")])
        with pytest.raises(ValueError, match=problem):
            run(lambda: DjangoConversationStore().save(conversation, scope=scope))
        assert not Row.objects.exists()


class TestWritersAtOnce:
    """A late save is refused whole, so after all were repeated, each message is there once."""

    @pytest.mark.slow
    def test_in_threads(self) -> None:
        def work(name: int) -> None:
            try:
                write("c", f"thread {name}", 4)
            finally:
                connections.close_all()

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        self.check("c", {f"thread {name} {number}" for name in range(4) for number in range(4)})

    @pytest.mark.slow
    def test_in_processes(self) -> None:
        environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": "tests.settings.base",
            "CHATMEMORY_TEST_NAME": str(connection.settings_dict["NAME"]),
        }
        command = [sys.executable, "-m", "tests.contrib.conversation_store.writer", "c"]
        running = [subprocess.Popen([*command, str(name)], env=environment) for name in range(2)]
        assert [process.wait(120) for process in running] == [0] * 2
        self.check("c", {f"process {name} {number}" for name in range(2) for number in range(4)})

    def check(self, conversation_id: str, expected: set[str]) -> None:
        store = DjangoConversationStore()
        loaded = run(lambda: store.load(conversation_id))
        found = [message.parts[0].content for message in loaded.messages]
        assert (len(found), set(found)) == (len(expected), expected)
        assert loaded.usage.requests == len(expected)
        assert texts(conversation_id) == found
        assert Entry.objects.count() == len(expected)

    @pytest.mark.slow
    def test_a_fork_of_what_is_deleted_meanwhile_is_whole_or_refused(self) -> None:
        store = DjangoConversationStore()

        def fork(number: int) -> int:
            try:
                return len(run(lambda: store.fork("c", new_conversation_id=f"f{number}")).messages)
            except UserError:  # the deletion was faster
                return 0
            finally:
                connections.close_all()

        def delete() -> None:
            try:
                run(lambda: store.delete("c"))
            finally:
                connections.close_all()

        for number in range(5):
            saved(store, "c", *(user(f"{place}") for place in range(20)))
            with ThreadPoolExecutor(2) as pool:
                forking, deleting = pool.submit(fork, number), pool.submit(delete)
                length, _ = forking.result(), deleting.result()
            forked = run(lambda: store.load(f"f{number}"))  # noqa: B023
            assert length == (0 if forked is None else 20)
            assert run(lambda: store.load("c")) is None
