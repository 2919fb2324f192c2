"""Answers that are stopped: what was read is what is stored, whenever that is, and the conversation goes on from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db.models import F
from django.utils import timezone
from hypothesis import example, given
from hypothesis import strategies as st

from chatmemory import (
    AiMessage,
    ChatMessage,
    MessageWindowChatMemory,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.assistant import Added, Assistant, ConversationBusyError, Thinking, TurnLostError, WindowTooSmallError
from chatmemory.assistant import turn as turn_module
from chatmemory.assistant.assistant import is_stopping, running_turn
from chatmemory.contrib.langchain.messages import from_chat_message as to_langchain
from chatmemory.contrib.llama_index.messages import from_chat_message as to_llama_index
from chatmemory.formats.agents_items import items_of
from chatmemory.formats.ai_sdk import from_ai_sdk, to_ai_sdk
from chatmemory.formats.anthropic import to_anthropic
from chatmemory.formats.gemini import to_gemini
from chatmemory.formats.openai import to_openai
from chatmemory.formats.pydantic_ai import to_pydantic_ai
from chatmemory.formats.responses import to_responses
from chatmemory.models import Conversation
from chatmemory.personal_data import erase_user
from chatmemory.stores import DjangoChatMemoryStore
from chatmemory.verification import verify
from tests.database.test_async import run
from tests.support.assistant_models import ScriptedModel, calling
from tests.support.assistants import Speaker
from tests.support.factories import ConversationFactory
from tests.support.provider_rules import (
    assert_anthropic_accepts,
    assert_gemini_accepts,
    assert_openai_accepts,
    assert_responses_accept,
)
from tests.support.window_cases import examples

pytestmark = pytest.mark.django_db(transaction=True)

WRITERS: dict[Any, Callable[[Any], None]] = {
    to_openai: assert_openai_accepts,
    to_responses: assert_responses_accept,
    to_anthropic: assert_anthropic_accepts,
    to_gemini: assert_gemini_accepts,
}


def stopped(text: str) -> AiMessage:
    return AiMessage(text, attributes={"stopped": True})


@pytest.fixture
def conversation() -> Conversation:
    made: Conversation = ConversationFactory(owner=None, window="messages", limit=20)
    return made


@dataclass
class Storyteller:
    """Calls a tool in some rounds, says the pieces, and gives an answer that has something for its provider."""

    rounds: int
    pieces: Sequence[Any]
    asked: list[list[ChatMessage]] = field(default_factory=list)

    def __call__(self, messages: Sequence[ChatMessage]) -> Iterator[Any]:
        self.asked.append(list(messages))
        if len(self.asked) <= self.rounds:
            yield Thinking("Look")
            yield "Let me "
            yield "look."
            call = ToolExecutionRequest(f"id{len(self.asked)}", "look", "{}")
            yield AiMessage("Let me look.", [call], thinking="Look")
            return
        yield from self.pieces
        text = joined(self.pieces)
        kept = {"anthropic": {"content": [{"type": "text", "text": text}]}, "thinking_signature": "c2ln"}
        yield AiMessage(text, thinking="Hm", attributes=kept)


class AsyncSpeaker(Speaker):
    async def astream(self, messages: Any, tools: Any) -> Any:
        for piece in self.stream(messages, tools):
            yield piece


def look() -> str:
    return "seen"


def summarise(messages: Sequence[ChatMessage], previous: str | None) -> str:
    return "They talked."


@dataclass
class Reader:
    """Reads a stream, and stops it after so many events."""

    stop: Callable[[], object]
    stop_after: int
    unstored: str = ""
    """What was read and not stored before the stop."""

    is_stopped: bool = False
    added: list[AiMessage] = field(default_factory=list)
    """The answers that the stream said were stored."""

    def take(self, number: int, event: Any) -> bool:
        """Note an event, and return whether to stop now."""
        if isinstance(event, str):
            assert not self.is_stopped, "nothing is given out after the stop"
            self.unstored += event
        elif isinstance(event, Added):
            answers = [message for message in event.messages if isinstance(message, AiMessage)]
            self.added += answers
            if answers and not self.is_stopped:
                self.unstored = ""
        self.is_stopped |= number == self.stop_after
        return number == self.stop_after

    def read(self, events: Iterator[Any]) -> bool:
        """Return whether the turn was lost."""
        try:
            for number, event in enumerate(events):
                if self.take(number, event):
                    self.stop()
        except TurnLostError as error:
            return error.interrupted
        return False

    async def aread(self, events: Any) -> bool:
        number = 0
        try:
            async with aclosing(events):
                async for event in events:
                    if self.take(number, event):
                        await sync_to_async(self.stop)()
                    number += 1
        except TurnLostError as error:
            return error.interrupted
        return False


def joined(deltas: Sequence[Any]) -> str:
    """Return the text of deltas, without the half of a character."""
    text = "".join(delta for delta in deltas if isinstance(delta, str))
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")


deltas = st.sampled_from(
    [("Once ",), ("upon ",), ("a **time", "**"), ("\ud83c", "\udf89"), ("\n\n", " "), (Thinking("Hm"),)]
)
pieces = st.lists(deltas, max_size=6).map(lambda some: [delta for each in some for delta in each]).filter(joined)
HALF = ["Hi ", "\ud83c", "\udf89"]


@pytest.mark.slow
@given(
    pieces=pieces,
    rounds=st.integers(0, 2),
    stop_after=st.integers(0, 20),
    window=st.sampled_from([("messages", 6), ("messages", 50), ("tokens", 90), ("tokens", 2000)]),
    is_async=st.booleans(),
    is_local=st.booleans(),
    summarises=st.booleans(),
    by_turn=st.booleans(),
)
@example(HALF, 0, 2, ("messages", 50), False, False, False, False)
@example(["Once ", "upon "], 1, 7, ("messages", 6), True, False, True, True)
@examples(15)
def test_what_was_read_is_what_is_stored(
    pieces: list[Any],
    rounds: int,
    stop_after: int,
    window: tuple[str, int],
    is_async: bool,
    is_local: bool,
    summarises: bool,
    by_turn: bool,
) -> None:
    conversation: Any = ConversationFactory(
        owner=None, window=window[0], limit=window[1], compact_at=50 if summarises else None
    )
    memory: Any = MessageWindowChatMemory(max_messages=window[1]) if is_local else conversation.memory
    memory.add(SystemMessage("Tell stories."), *(message for n in range(3) for message in turn_before(n)))
    model = Storyteller(rounds, pieces)
    assistant = Assistant(
        AsyncSpeaker(model), memory=memory, tools=[look], summarizer=summarise if summarises else None
    )
    options = {} if is_local else {"idempotency_key": "k"}
    begun = assistant.begin(memory.id, "A story", **options) if by_turn else None
    reader = Reader(begun.interrupt if begun else lambda: assistant.interrupt(memory.id), stop_after)
    try:
        if is_async:
            is_lost = run(
                reader.aread(begun.aevents() if begun else assistant.astream(memory.id, "A story", **options))
            )
        else:
            is_lost = reader.read(begun.events() if begun else assistant.stream(memory.id, "A story", **options))
    except WindowTooSmallError:
        return
    said = history(conversation, memory, is_local)
    text = joined([reader.unstored])
    assert sum(isinstance(one, AiMessage) and one.is_stopped for one in said) == bool(is_lost and text.strip())
    if is_lost and text.strip():
        assert said[-1] == reader.added[-1] == stopped(text)
        if not is_local:
            assert assistant.chat(memory.id, "A story", **options) == stopped(text)
    assert assistant.wait_for_summaries(60)
    for write, accepts in WRITERS.items():
        accepts(write(memory.messages()))
    assert from_ai_sdk(to_ai_sdk(said)) == said
    next_model = ScriptedModel("Well.")
    assert Assistant(next_model, memory=memory).chat(memory.id, "And then?") == AiMessage("Well.")
    if is_lost and text.strip() and window[1] >= 50 and not summarises:
        assert next_model.asked[0][-2:] == [stopped(text), UserMessage("And then?")]
    assert list(verify(Conversation.objects.filter(pk=conversation.pk))) == []


def turn_before(number: int) -> list[ChatMessage]:
    return [UserMessage(f"Question {number}"), AiMessage(f"Answer {number}")]


def history(conversation: Conversation, memory: Any, is_local: bool) -> list[ChatMessage]:
    return memory.messages() if is_local else [row.message for row in conversation.messages.history()]


def test_discarding_is_a_setting(conversation: Conversation) -> None:
    model = Storyteller(0, ["Once ", "upon ", "a time"])
    assistant = Assistant(Speaker(model), stopped_answers="discard", wait_timeout=0.01)
    events = assistant.stream(conversation, "A story", idempotency_key="k")
    next(events)
    assert next(events) == "Once "
    assistant.interrupt(conversation)
    answer = assistant.chat(conversation, "A story", idempotency_key="k")
    assert (answer.text, answer.is_stopped) == ("Once upon a time", False)
    with pytest.raises(TurnLostError):
        list(events)
    assert conversation.messages.history().count() == 2


@pytest.mark.parametrize("value", ["Keep", None, True])
def test_the_setting_is_checked(value: Any) -> None:
    with pytest.raises(ValueError, match='stopped_answers must be "keep" or "discard"'):
        Assistant(ScriptedModel(), stopped_answers=value)


def test_an_answer_that_nobody_streams_is_not_kept(conversation: Conversation) -> None:
    def stop(messages: Any, tools: Any) -> AiMessage:
        assistant.interrupt(conversation)
        return AiMessage("Late")

    assistant = Assistant(stop)
    with pytest.raises(TurnLostError):
        assistant.chat(conversation, "Hi")
    assert [row.type for row in conversation.messages.history()] == ["USER"]


def test_calls_that_did_not_run_are_left_out(conversation: Conversation) -> None:
    def speak(messages: Any) -> Iterator[Any]:
        yield "Let me "
        assistant.interrupt(conversation)
        yield calling(("look", "{}"), text="Let me look.")

    assistant = Assistant(Speaker(speak), tools=[look])
    with pytest.raises(TurnLostError):
        list(assistant.stream(conversation, "Hi"))
    assert [row.message for row in conversation.messages.history()] == [UserMessage("Hi"), stopped("Let me ")]


def test_what_was_stopped_and_erased_is_not_made_again() -> None:
    store = DjangoChatMemoryStore()
    assistant = Assistant(
        Speaker(Storyteller(0, ["Once "])),
        memory=lambda id: MessageWindowChatMemory(id=id, max_messages=10, store=store),
    )

    def stop_and_erase() -> None:
        assistant.interrupt("story")
        assert [message.text for message in store.get_messages("story")] == ["Hi", "Once "]
        store.delete_messages("story")
        Conversation.objects.all().delete()

    Reader(stop_and_erase, stop_after=1).read(assistant.stream("story", "Hi"))
    assert not Conversation.objects.exists()


def test_tools_that_have_run_stay_and_the_text_follows(conversation: Conversation) -> None:
    assistant = Assistant(Speaker(Storyteller(1, ["Once ", "upon "])), tools=[look])
    reader = Reader(lambda: assistant.interrupt(conversation), stop_after=6)
    assert reader.read(assistant.stream(conversation, "Hi"))
    *_, call, result, answer = [row.message for row in conversation.messages.history()]
    assert isinstance(call, AiMessage)
    assert (call.text, call.is_stopped) == ("Let me look.", False)
    assert isinstance(result, ToolExecutionResultMessage)
    assert answer == stopped("Once ")


@pytest.fixture
def _looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn looks at each delta whether another process has interrupted it, and not once in a second."""
    monkeypatch.setattr(turn_module, "_LONGEST_DEAFNESS", 0.0)


def interrupt_elsewhere(conversation: Conversation, seconds: float = 3) -> None:
    """What another process writes that interrupts the turn."""
    until = timezone.now() + timedelta(seconds=seconds)
    Conversation.objects.filter(pk=conversation.pk).update(turn=F("turn") + 1, turn_until=until)


@pytest.mark.usefixtures("_looks_at_once")
class TestOtherProcesses:
    @pytest.mark.parametrize("seconds", [3, -1])
    def test_a_turn_that_another_one_stops_keeps_its_answer(self, conversation: Conversation, seconds: float) -> None:
        assistant = Assistant(Speaker(Storyteller(0, ["Once ", "upon ", "a time"])))
        reader = Reader(lambda: interrupt_elsewhere(conversation, seconds), stop_after=2)
        assert reader.read(assistant.stream(conversation, "Hi", idempotency_key="k"))
        assert reader.added == [stopped("Once upon ")]
        assert running_turn(conversation) is None
        assert assistant.chat(conversation, "Hi", idempotency_key="k") == stopped("Once upon ")

    def test_the_next_turn_waits_for_it_but_not_for_long(self, conversation: Conversation) -> None:
        # Another process runs a turn, and is killed.
        Conversation.objects.update(turn=8, turn_until=timezone.now() + timedelta(minutes=1))
        assistant = Assistant(ScriptedModel("Hello"), wait_timeout=0.01)
        assistant.interrupt(conversation)
        assert is_stopping(conversation)
        assert running_turn(conversation) == 8
        assistant.interrupt(conversation)
        with pytest.raises(ConversationBusyError):
            assistant.chat(conversation, "Hi")
        Conversation.objects.update(turn_until=F("turn_until") - timedelta(seconds=5))
        assert not is_stopping(conversation)
        assert assistant.chat(conversation, "Hi") == AiMessage("Hello")

    def test_nothing_is_stored_behind_another_turn(self, conversation: Conversation) -> None:
        def take_over() -> None:
            interrupt_elsewhere(conversation, seconds=-1)
            Assistant(ScriptedModel("Hello")).chat(conversation, "Well?")

        reader = Reader(take_over, stop_after=2)
        assistant = Assistant(Speaker(Storyteller(0, ["Once ", "upon ", "a time"])))
        assert reader.read(assistant.stream(conversation, "Hi"))
        assert [row.text for row in conversation.messages.history()] == ["Hi", "Well?", "Hello"]

    def test_nothing_is_stored_of_a_turn_that_took_too_long(self, conversation: Conversation) -> None:
        events = Assistant(Speaker(Storyteller(0, ["Once ", "upon "])), turn_timeout=1e-6).stream(conversation, "Hi")
        next(events)
        assert next(events) == "Once "
        Assistant(ScriptedModel("Hello")).chat(conversation, "Well?")
        with pytest.raises(TurnLostError):
            list(events)
        assert [row.text for row in conversation.messages.history()] == ["Hi", "Well?", "Hello"]

    def test_nothing_is_stored_in_what_was_anonymised(self, user: Any) -> None:
        conversation: Conversation = ConversationFactory(owner=user, window="messages", limit=20)
        reader = Reader(lambda: erase_user(user, how="anonymise"), stop_after=2)
        assistant = Assistant(Speaker(Storyteller(0, ["Once ", "upon ", "a time"])))
        reader.read(assistant.stream(conversation, "Hi"))
        assert "Once" not in "".join(row.text for row in conversation.messages.history())


def test_formats_say_the_text_and_nothing_of_the_stop() -> None:
    said = [UserMessage("Hi"), stopped("Once upon"), UserMessage("Go on")]
    plain = [UserMessage("Hi"), AiMessage("Once upon"), UserMessage("Go on")]
    for write, accepts in WRITERS.items():
        assert write(said) == write(plain)
        accepts(write(said))
    _question, response, _next = to_pydantic_ai(said, "openai", thinking="all", file_urls=False)
    assert [part.content for part in response.parts] == ["Once upon"]
    assert to_langchain(said[1]).content == "Once upon"
    assert to_llama_index(said[1]).content == "Once upon"
    assert items_of(said[1]) == items_of(plain[1])
    answer = to_ai_sdk(said)[1]
    assert (answer["metadata"]["stopped"], answer["parts"][-1]["text"]) == (True, "Once upon")
    assert from_ai_sdk(to_ai_sdk(said)) == said
