"""The limit of time for a call of a tool."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from chatmemory import MessageWindowChatMemory, ToolExecutionRequest, ToolExecutionResultMessage
from chatmemory.assistant import Assistant, Tool
from chatmemory.models import Conversation
from tests.database.test_async import run
from tests.support.assistant_models import ScriptedModel, calling
from tests.support.factories import ConversationFactory

SHORT = 0.05  # seconds, only for what never ends by itself
LONG = 60.0  # for what ends at once: the machine may be busy


class Never:
    """What is awaited for ever."""

    def __await__(self) -> Generator[Any, None, Any]:
        return asyncio.Event().wait().__await__()


def gave_up() -> str:
    return f"The call did not end within {SHORT:g} seconds, and was given up. Whether it had an effect is not known."


def chat(assistant: Assistant, given: Any = "default") -> None:
    assistant.chat(given, "Hi")


def achat(assistant: Assistant, given: Any = "default") -> None:
    run(assistant.achat(given, "Hi"))


def achat_of_a_caller(assistant: Assistant, given: Any = "default") -> None:
    """As in an async view of Django's: there is one thread for all that is sync."""
    async_to_sync(assistant.achat)(given, "Hi")


ways = pytest.mark.parametrize("way", [chat, achat, achat_of_a_caller])


@pytest.fixture
def forever() -> Iterator[threading.Event]:
    """What sync tools wait for; set at the end of the test, so that their threads end."""
    event = threading.Event()
    yield event
    event.set()


def use(way: Any, *tools: Tool | Callable[..., Any], given: Any = "default", **options: Any) -> list[str | None]:
    """The results of a call of each tool."""
    names = [tool.specification.name if isinstance(tool, Tool) else tool.__name__ for tool in tools]
    model = ScriptedModel(calling(*((name, "{}") for name in names)), "Done")
    memory = MessageWindowChatMemory(max_messages=99) if given == "default" else None
    way(Assistant(model, memory=memory, tools=dict.fromkeys(tools), **options), given)
    return [message.text for message in model.asked[-1] if isinstance(message, ToolExecutionResultMessage)]


@ways
def test_the_model_reads_that_a_sync_tool_took_too_long(way: Any, forever: threading.Event) -> None:
    def wait() -> None:
        forever.wait(60)

    def quick() -> str:
        return "quick"

    assert use(way, wait, Tool(quick, timeout=LONG), wait, tool_timeout=SHORT) == [gave_up(), "quick", gave_up()]
    assert not forever.is_set()


@ways
def test_an_async_tool_is_cancelled(way: Any) -> None:
    cleaned: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append("wait")

    async def quick() -> str:
        return "quick"

    assert use(way, wait, Tool(quick, timeout=LONG), tool_timeout=SHORT) == [gave_up(), "quick"]
    assert cleaned == ["wait"]


@ways
def test_a_tool_may_have_a_limit_of_its_own(way: Any, forever: threading.Event) -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    own = Tool(wait, timeout=SHORT)
    endless = Tool(lambda: "late", name="endless", timeout=math.inf)
    assert use(way, own, endless, tool_timeout=LONG) == [gave_up(), "late"]
    assert use(way, own) == [gave_up()]


@ways
def test_a_value_to_await_is_awaited_within_the_limit(way: Any) -> None:
    assert use(way, Tool(Never, name="hidden"), tool_timeout=SHORT) == [gave_up()]


@ways
def test_the_time_outs_of_a_tool_are_errors_of_its_own(way: Any) -> None:
    def fail() -> None:
        raise TimeoutError("s3cret")

    async def afail() -> None:
        raise TimeoutError("s3cret")

    assert use(way, fail, afail, tool_timeout=LONG) == ["The tool failed: TimeoutError"] * 2


@ways
def test_it_is_no_error_that_a_project_words(way: Any, forever: threading.Event) -> None:
    def wait() -> None:
        forever.wait(60)

    told: list[Exception] = []
    assert use(way, wait, tool_timeout=SHORT, on_tool_error=lambda error: str(told.append(error))) == [gave_up()]
    assert told == []


@ways
@pytest.mark.django_db(transaction=True)
def test_a_turn_in_the_database_goes_on(way: Any, forever: threading.Event) -> None:
    conversation: Conversation = ConversationFactory(owner=None)

    def wait() -> None:
        forever.wait(60)

    counting = Tool(Conversation.objects.count, name="count", timeout=LONG)
    assert use(way, counting, wait, counting, given=conversation, tool_timeout=SHORT) == ["1", gave_up(), "1"]
    results = ["TOOL_EXECUTION_RESULT"] * 3
    assert [row.type for row in conversation.messages.history()] == ["USER", "AI", *results, "AI"]


@pytest.mark.django_db
def test_a_sync_tool_stays_in_the_transaction_of_a_test_case() -> None:
    """It would not see what the test has stored, so there it has all the time that it wants."""
    conversation: Conversation = ConversationFactory(owner=None)
    threads: list[threading.Thread] = []

    def count() -> int:
        threads.append(threading.current_thread())
        return Conversation.objects.filter(pk=conversation.pk).count()

    assert use(chat, count, given=conversation, tool_timeout=LONG) == ["1"]
    assert threads == [threading.current_thread()]


@pytest.mark.slow
@pytest.mark.parametrize("way", [chat, achat])
def test_a_call_that_found_no_free_thread_does_not_run_later(way: Any, forever: threading.Event) -> None:
    begun = threading.Semaphore(0)
    ran: list[str] = []

    def wait() -> None:
        begun.release()
        forever.wait(60)

    async def fill() -> None:
        """Leave each thread with a call that goes on."""
        calls = [asyncio.ensure_future(Tool(wait).arun(ToolExecutionRequest("1", "wait", "{}"))) for _ in range(32)]
        for _ in calls:
            assert await asyncio.to_thread(begun.acquire, timeout=60)
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)

    run(fill())
    assert use(way, Tool(lambda: ran.append("late"), name="act"), tool_timeout=SHORT) == [gave_up()]
    forever.set()
    # As many as there are threads: each of those that waited has ended when all of these meet.
    together = threading.Barrier(32)
    assert set(use(achat, *(Tool(lambda: together.wait(60) * 0, name=f"meet{index}") for index in range(32)))) == {"0"}
    assert ran == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"tool_timeout": 0}, "tool_timeout must be greater than zero, but is: 0"),
        ({"tool_timeout": -1}, "tool_timeout must be greater than zero, but is: -1"),
        ({"tool_timeout": math.nan}, "tool_timeout must be greater than zero, but is: nan"),
        (
            {"tool_timeout": 120},
            "the time limit of tool look must be less than turn_timeout, which is 120 seconds, but is: 120; lower it, "
            "or raise turn_timeout",
        ),
    ],
)
def test_limits_that_are_none(options: dict[str, Any], problem: str) -> None:
    def look() -> None: ...

    with pytest.raises(ValueError, match=f"^{problem}$"):
        Assistant(ScriptedModel(), tools=[look], **options)


def test_limits_of_tools_that_are_none() -> None:
    with pytest.raises(ValueError, match=r"^timeout must be greater than zero, but is: 0$"):
        Tool(lambda: None, name="look", timeout=0)
    with pytest.raises(ValueError, match="the time limit of tool look must be less than turn_timeout"):
        Assistant(ScriptedModel(), tools=[Tool(lambda: None, name="look", timeout=500)])
    Assistant(ScriptedModel(), tools=[Tool(lambda: None, name="look", timeout=500)], turn_timeout=600)
