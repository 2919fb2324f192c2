"""The calls of one answer: in async code they run together, and what fails leaves what it always left."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from chatmemory import AiMessage, MessageWindowChatMemory, ToolExecutionResultMessage, UserMessage
from chatmemory.assistant import Assistant, ToolContext
from chatmemory.models import Conversation
from tests.database.test_async import run
from tests.support.assistant_models import ScriptedModel, calling
from tests.support.factories import ConversationFactory

INTERRUPTED = "The call was interrupted. Whether it had an effect is not known."


def in_process(model: ScriptedModel, *tools: Callable[..., Any], **options: Any) -> Assistant:
    return Assistant(model, memory=MessageWindowChatMemory(max_messages=20), tools=tools, **options)


def results(model: ScriptedModel) -> list[str | None]:
    """The results that the model was given last, in order."""
    return [message.text for message in model.asked[-1] if isinstance(message, ToolExecutionResultMessage)]


async def achat(assistant: Assistant, given: Any = "default") -> None:
    async with asyncio.timeout(60):
        await assistant.achat(given, "Hi")


async def astream(assistant: Assistant, given: Any = "default") -> None:
    async with asyncio.timeout(60):
        async for _ in assistant.astream(given, "Hi"):
            pass


def async_pair() -> tuple[list[str], Callable[..., Any], Callable[..., Any]]:
    """Two tools of which the first ends only after the second, and the order in which they end."""
    ended: list[str] = []
    is_second_done = asyncio.Event()

    async def first() -> str:
        await is_second_done.wait()
        ended.append("first")
        return "1"

    async def second() -> str:
        ended.append("second")
        is_second_done.set()
        return "2"

    return ended, first, second


@pytest.mark.parametrize("talk", [achat, astream])
def test_async_ones_run_at_the_same_time_and_their_results_have_the_order_of_the_calls(talk: Any) -> None:
    model = ScriptedModel(calling(("first", "{}"), ("second", "{}")), "Done")
    ended, first, second = async_pair()
    asyncio.run(talk(in_process(model, first, second)))
    assert (ended, results(model)) == (["second", "first"], ["1", "2"])


def test_sync_ones_run_in_threads_beside_async_ones() -> None:
    both = threading.Barrier(2)
    model = ScriptedModel(calling(("wait", "{}"), ("first", "{}"), ("wait", "{}"), ("second", "{}")), "Done")
    _, first, second = async_pair()

    def wait() -> str:
        both.wait(60)
        return "together"

    asyncio.run(achat(in_process(model, first, second, wait)))
    assert results(model) == ["together", "1", "together", "2"]


def test_in_sync_code_they_run_one_after_the_other() -> None:
    running: list[str] = []
    model = ScriptedModel(calling(("look", '{"name": "a"}'), ("alook", '{"name": "b"}')), "Done")

    def look(name: str) -> str:
        running.append(f"+{name}")
        running.append(f"-{name}")
        return name

    async def alook(name: str) -> str:
        return look(name)

    in_process(model, look, alook).chat("default", "Hi")
    assert (running, results(model)) == (["+a", "-a", "+b", "-b"], ["a", "b"])


def test_the_thread_of_a_caller_runs_sync_ones_one_after_the_other() -> None:
    """A transaction of the caller's belongs to that thread."""
    threads: list[threading.Thread] = []
    model = ScriptedModel(calling(("note", "{}"), ("first", "{}"), ("note", "{}"), ("second", "{}")), "Done")
    _, first, second = async_pair()

    def note() -> None:
        threads.append(threading.current_thread())

    async_to_sync(achat)(in_process(model, note, first, second))
    assert results(model) == ["Success", "1", "Success", "2"]
    assert threads == [threading.current_thread()] * 2


class TestFailures:
    def test_one_that_fails_does_not_keep_the_results_of_the_others(self) -> None:
        model = ScriptedModel(calling(("fail", "{}"), ("first", "{}"), ("second", "{}")), "Done")
        _, first, second = async_pair()

        async def fail() -> None:
            raise OSError("s3cret")

        asyncio.run(achat(in_process(model, fail, first, second)))
        assert results(model) == ["The tool failed: OSError", "1", "2"]

    @pytest.mark.django_db(transaction=True)
    def test_one_that_ends_the_turn_cancels_the_others_and_no_result_is_stored(self) -> None:
        conversation: Conversation = ConversationFactory(owner=None)
        cleaned: list[str] = []
        is_waiting = asyncio.Event()

        async def fail() -> None:
            await is_waiting.wait()
            raise OSError("away")

        async def wait() -> None:
            try:
                is_waiting.set()
                await asyncio.Event().wait()
            finally:
                cleaned.append("wait")

        async def quick() -> str:
            return "quick"

        def give_up(error: Exception) -> str:
            raise error

        model = ScriptedModel(calling(("quick", "{}"), ("wait", "{}"), ("fail", "{}")), "Done")
        assistant = Assistant(model, tools=[fail, wait, quick], on_tool_error=give_up)
        with pytest.raises(OSError, match="away"):
            run(achat(assistant, conversation))
        assert cleaned == ["wait"]
        assert [row.type for row in conversation.messages.history()] == ["USER", "AI"]
        assistant.chat(conversation)  # the turn is released
        assert results(model) == [INTERRUPTED] * 3

    @pytest.mark.django_db(transaction=True)
    def test_a_cancelled_task_cancels_all_and_no_result_is_stored(self) -> None:
        conversation: Conversation = ConversationFactory(owner=None)
        cleaned: list[str] = []
        left = 2

        async def wait(name: str) -> None:
            nonlocal left
            left -= 1
            if not left:
                turn.cancel()
            try:
                await asyncio.Event().wait()
            finally:
                cleaned.append(name)

        model = ScriptedModel(calling(("wait", '{"name": "a"}'), ("wait", '{"name": "b"}')), "Done")
        assistant = Assistant(model, tools=[wait])

        async def talk() -> None:
            nonlocal turn
            turn = asyncio.ensure_future(assistant.achat(conversation, "Hi"))
            with pytest.raises(asyncio.CancelledError):
                await turn

        turn: asyncio.Future[AiMessage]
        run(talk())
        assert sorted(cleaned) == ["a", "b"]
        assert [row.type for row in conversation.messages.history()] == ["USER", "AI"]
        assistant.chat(conversation)  # the turn is released
        assert results(model) == [INTERRUPTED] * 2


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_async", [True, False])
def test_each_has_a_context_of_its_own(is_async: bool) -> None:
    conversation: Conversation = ConversationFactory(owner=None)
    contexts: list[ToolContext] = []

    def note(context: ToolContext) -> None:
        contexts.append(context)

    async def anote(context: ToolContext) -> None:
        contexts.append(context)

    model = ScriptedModel(calling(("note", "{}"), ("anote", "{}"), ("note", "{}")), "Done")
    assistant = Assistant(model, tools=[note, anote])
    if is_async:
        run(assistant.achat(conversation, "Hi", context=7))
    else:
        assistant.chat(conversation, "Hi", context=7)
    assert [(one.conversation, one.data) for one in contexts] == [(conversation, 7)] * 3
    assert len(set(map(id, contexts))) == 3


@pytest.mark.django_db(transaction=True)
def test_all_their_results_are_one_change() -> None:
    conversation: Conversation = ConversationFactory(owner=None)
    model = ScriptedModel(calling(("first", "{}"), ("second", "{}")), "Done")

    async def talk() -> list[Any]:
        _, first, second = async_pair()
        return [
            event async for event in Assistant(model, tools=[first, second]).astream(conversation, UserMessage("Hi"))
        ]

    added = [event for event in run(talk()) if not isinstance(event, str)]
    assert [[type(message).__name__ for message in one.messages] for one in added] == [
        ["UserMessage"],
        ["AiMessage"],
        ["ToolExecutionResultMessage"] * 2,
        ["AiMessage"],
    ]
