"""The signal ``model_called``: each call of a model, what it used, and how it ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing, closing
from typing import Any

import pytest

from chatmemory import AiMessage, ChatMessage, MessageWindowChatMemory
from chatmemory.assistant import Answered, Assistant, ChatModel, ModelError, ToolSpecification, TurnLostError, Usage
from chatmemory.models import Conversation
from chatmemory.signals import model_called
from chatmemory.stores import DjangoChatMemoryStore
from tests.database.test_async import run
from tests.support.assistant_models import ScriptedModel, calling
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db(transaction=True)

USED = Usage(input_tokens=9, output_tokens=4, cache_read_tokens=2, reasoning_tokens=1)


@pytest.fixture
def conversation() -> Conversation:
    conversation: Conversation = ConversationFactory(owner=None)
    return conversation


@pytest.fixture
def told() -> Iterator[list[dict[str, Any]]]:
    """What receivers are told; each asks the database, as one that stores usage does."""
    told: list[dict[str, Any]] = []

    def note(sender: Any, signal: Any, **given: Any) -> None:
        assert sender is Conversation
        told.append(given | {"rows": Conversation.objects.count()})

    model_called.connect(note)
    yield told
    model_called.disconnect(note)


class Talker(ChatModel):
    """Calls a tool, and then answers in two pieces."""

    name = "talker-1"

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def chat(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def stream(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> Iterator[Any]:
        yield from ("Gr", "een")
        yield self.chat(messages, tools)

    async def astream(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> AsyncIterator[Any]:
        for piece in self.stream(messages, tools):
            yield piece


def tea() -> str:
    return "green"


def chat(assistant: Assistant, given: Any) -> None:
    assistant.chat(given, "Hi")


def stream(assistant: Assistant, given: Any) -> None:
    list(assistant.stream(given, "Hi"))


def achat(assistant: Assistant, given: Any) -> None:
    run(assistant.achat(given, "Hi"))


def astream(assistant: Assistant, given: Any) -> None:
    async def talk() -> None:
        async for _ in assistant.astream(given, "Hi"):
            pass

    run(talk())


ways = pytest.mark.parametrize("way", [chat, stream, achat, astream])


@ways
def test_each_call(conversation: Conversation, told: list[dict[str, Any]], way: Any) -> None:
    way(Assistant(Talker(calling(("tea", "{}")), Answered(AiMessage("Green"), USED)), tools=[tea]), conversation)
    assert [one["usage"] for one in told] == [None, USED]
    for one in told:
        assert (one["conversation"], one["model"], one["error"], one["rows"]) == (conversation, "talker-1", None, 1)
        assert one["seconds"] > 0


@ways
def test_one_that_failed(conversation: Conversation, told: list[dict[str, Any]], way: Any) -> None:
    with pytest.raises(OSError, match="away"):
        way(Assistant(Talker(OSError("away"))), conversation)
    [one] = told
    assert (one["usage"], str(one["error"])) == (None, "away")


def test_one_that_the_caller_left(conversation: Conversation, told: list[dict[str, Any]]) -> None:
    with closing(Assistant(Talker()).stream(conversation, "Hi")) as events:
        assert "Gr" in (next(events), next(events))

    async def leave() -> None:
        async with aclosing(Assistant(Talker()).astream(conversation, "Hi")) as events:
            async for event in events:
                if event == "Gr":
                    return

    run(leave())
    assert [type(one["error"]) for one in told] == [GeneratorExit] * 2
    Assistant(Talker(AiMessage("Green"))).chat(conversation)  # the turn is released


def test_one_that_was_cancelled(conversation: Conversation, told: list[dict[str, Any]]) -> None:
    class Slow(Talker):
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

    run(cancel())
    [one] = told
    assert isinstance(one["error"], asyncio.CancelledError)


def test_one_whose_turn_was_lost(conversation: Conversation, told: list[dict[str, Any]]) -> None:
    assistant = Assistant(Talker(AiMessage("Green")), turn_timeout=1e-6)
    events = assistant.stream(conversation, "Hi")
    next(events)
    assistant.interrupt(conversation)
    with pytest.raises(TurnLostError):
        list(events)
    assert [type(one["error"]) for one in told] == [TurnLostError]


def test_one_that_broke_off(conversation: Conversation, told: list[dict[str, Any]]) -> None:
    class Broken(Talker):
        def stream(self, messages: Any, tools: Any) -> Iterator[Any]:
            yield "Gr"

    with pytest.raises(ModelError):
        stream(Assistant(Broken()), conversation)
    assert [type(one["error"]) for one in told] == [ModelError]


@ways
def test_a_receiver_that_fails_does_not_reach_the_turn(
    conversation: Conversation, caplog: pytest.LogCaptureFixture, way: Any
) -> None:
    def fail(**given: Any) -> None:
        raise ValueError("s3cret")

    model_called.connect(fail)
    try:
        way(Assistant(Talker(AiMessage("Green"))), conversation)
    finally:
        model_called.disconnect(fail)
    assert conversation.messages.count() == 2
    assert "s3cret" in caplog.text
    assert {record.levelno for record in caplog.records} >= {logging.ERROR}


@ways
def test_memories_of_other_kinds(told: list[dict[str, Any]], user: Any, way: Any) -> None:
    way(Assistant(lambda messages, tools: AiMessage("Hi"), memory=MessageWindowChatMemory(max_messages=3)), "default")
    stored = MessageWindowChatMemory(id="stored", max_messages=3, store=DjangoChatMemoryStore(owner=user))
    way(Assistant(ScriptedModel("Hi"), memory=stored), "stored")
    assert [one["conversation"] for one in told] == [None, Conversation.objects.get()]
    assert [one["model"] for one in told] == ["<lambda>", "ScriptedModel"]


def test_titles_are_calls_as_well(told: list[dict[str, Any]]) -> None:
    conversation = ConversationFactory(owner=None, title="")
    assistant = Assistant(Talker(AiMessage("Green"), Answered(AiMessage("Tea"), USED)), title=True)
    assistant.chat(conversation, "Hi")
    assert assistant.wait_for_summaries(60)
    assert [(one["conversation"], one["usage"]) for one in told] == [(conversation, None), (conversation, USED)]
