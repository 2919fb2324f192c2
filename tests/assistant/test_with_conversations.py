"""Assistants that are given conversations, and the assistant of a project."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone

from chatmemory import AiMessage, ChatMessage, MessageWindowChatMemory, SystemMessage, UserMessage
from chatmemory.assistant import (
    Added,
    Answered,
    Assistant,
    BegunTurn,
    ChatModel,
    ConversationBusyError,
    Thinking,
    ToolSpecification,
    Turn,
    TurnLostError,
    Usage,
)
from chatmemory.assistant.assistant import running_turn
from chatmemory.assistant.project import has_assistant, project_assistant
from chatmemory.models import Conversation
from tests.database.test_async import run
from tests.support.assistant_models import ScriptedModel, calling
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db(transaction=True)

USED = Usage(input_tokens=12, output_tokens=3)


@pytest.fixture
def conversation() -> Conversation:
    conversation: Conversation = ConversationFactory(owner=None)
    return conversation


class Thinker(ChatModel):
    """Thinks before it calls a tool, and again before it answers; says what each call used."""

    def __init__(self) -> None:
        self._answers = [
            Answered(calling(("tea", "{}")), USED),
            Answered(AiMessage("Green.", thinking="Hm."), Usage(output_tokens=5)),
        ]

    def chat(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> Answered:
        return self._answers.pop(0)

    def stream(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> Iterator[Any]:
        yield Thinking("")
        yield Thinking("Tea?")
        yield from super().stream(messages, tools)

    async def astream(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> AsyncIterator[Any]:
        for piece in self.stream(messages, tools):
            yield piece


def tea() -> str:
    return "green"


def twins(assistant: Assistant, *arguments: Any, is_async: bool, **options: Any) -> list[Any]:
    """The events of a stream, of one twin or the other."""
    if not is_async:
        return list(assistant.stream(*arguments, **options))

    async def collected() -> list[Any]:
        return [event async for event in assistant.astream(*arguments, **options)]

    collect: list[Any] = run(collected())
    return collect


class TestConversations:
    def test_all_methods_take_one(self, conversation: Conversation) -> None:
        model = ScriptedModel("One", "Two", "Three", "Four")
        assistant = Assistant(model, system_message=lambda given: f"You help with {given.memory_id}.")
        assert assistant.chat(conversation, "1") == AiMessage("One")
        assert run(assistant.achat(conversation, "2")) == AiMessage("Two")
        for is_async, said in ((False, "Three"), (True, "Four")):
            events = twins(assistant, conversation, said, is_async=is_async)
            assert [event for event in events if isinstance(event, str)] == [said]
        assistant.interrupt(conversation)
        run(assistant.ainterrupt(conversation))
        assert conversation.messages.history().count() == 9
        assert model.asked[0][0] == SystemMessage(f"You help with {conversation.memory_id}.")

    def test_it_has_its_own_memory_whatever_there_is_for_ids(self, conversation: Conversation) -> None:
        memory = MessageWindowChatMemory(max_messages=10)
        assistant = Assistant(ScriptedModel("Hello", "Hi"), memory=memory)
        assistant.chat(conversation, "Hi")
        assistant.chat("default", "Hello")
        assert conversation.memory.messages() == [UserMessage("Hi"), AiMessage("Hello")]
        assert memory.messages() == [UserMessage("Hello"), AiMessage("Hi")]

    @pytest.mark.parametrize("given", ["Hello", 7, None])
    def test_what_is_none_needs_a_memory_for_ids(self, given: Any) -> None:
        assistant = Assistant(ScriptedModel())
        for call in (assistant.chat, assistant.interrupt):
            with pytest.raises(TypeError, match=r"is no Conversation\. Give the conversation first, and the"):
                call(given)

    @pytest.mark.parametrize("is_async", [False, True])
    def test_a_turn_need_not_wait_for_another(self, conversation: Conversation, is_async: bool) -> None:
        assistant = Assistant(ScriptedModel("Hello"))
        events = assistant.stream(conversation, "Hi")
        next(events)
        with pytest.raises(ConversationBusyError, match="did not end within 0 seconds"):
            twins(assistant, conversation, "Hi", is_async=is_async, wait_timeout=0)
        with pytest.raises(ValueError, match="wait_timeout must not be negative"):
            twins(assistant, conversation, "Hi", is_async=is_async, wait_timeout=-1)
        list(events)
        assert conversation.messages.count() == 2

    def test_the_turn_that_runs_is_known(self, conversation: Conversation) -> None:
        assistant = Assistant(ScriptedModel("Hello", "Again", "Late"))
        assert running_turn(conversation) is None
        numbers = []
        for _ in range(2):
            events = assistant.stream(conversation, "Hi")
            next(events)
            numbers.append(running_turn(conversation))
            list(events)
            assert running_turn(conversation) is None
        assert None not in numbers
        assert numbers[0] != numbers[1]
        events = assistant.stream(conversation, "Hi")
        next(events)
        Conversation.objects.update(turn_until=timezone.now() - timedelta(seconds=1))
        assert running_turn(conversation) is None


class TestPieces:
    @pytest.mark.parametrize("is_async", [False, True])
    def test_a_stream_has_thinking_and_what_each_call_used(self, conversation: Conversation, is_async: bool) -> None:
        events = twins(Assistant(Thinker(), tools=[tea]), conversation, "Which tea?", is_async=is_async)
        kinds = [event if not isinstance(event, Added) else (event.messages[0].type, event.usage) for event in events]
        assert kinds == [
            ("USER", None),
            Thinking("Tea?"),
            ("AI", USED),
            ("TOOL_EXECUTION_RESULT", None),
            Thinking("Tea?"),
            Thinking("Hm."),
            "Green.",
            ("AI", Usage(output_tokens=5)),
        ]

    def test_an_answer_with_usage_is_an_answer(self, conversation: Conversation) -> None:
        assert Assistant(Thinker(), tools=[tea]).chat(conversation, "Which tea?").text == "Green."
        assistant = Assistant(lambda messages, tools: Answered(AiMessage("Hello")))
        assert run(assistant.achat(conversation, "Hi")) == AiMessage("Hello")


class TestLosing:
    def test_a_turn_knows_that_it_was_interrupted(self, conversation: Conversation) -> None:
        assistant = Assistant(ScriptedModel("Late", "Hello"))
        for of in (assistant, Assistant(ScriptedModel("Late"), memory=MessageWindowChatMemory(max_messages=4))):
            given = conversation if of is assistant else "default"
            events = of.stream(given, "Hi")
            next(events)
            of.interrupt(given)
            with pytest.raises(TurnLostError) as lost:
                list(events)
            assert lost.value.interrupted

    def test_one_that_may_have_been_taken_over_does_not(self, conversation: Conversation) -> None:
        # So short that its time is up when it is next looked at.
        events = Assistant(ScriptedModel("Late"), turn_timeout=1e-6).stream(conversation, "Hi")
        next(events)
        Assistant(ScriptedModel("Hello")).chat(conversation, "Well?")
        with pytest.raises(TurnLostError) as lost:
            list(events)
        assert not lost.value.interrupted

    def test_one_whose_conversation_is_gone_says_so(self, conversation: Conversation) -> None:
        def erase() -> None:
            Conversation.objects.all().delete()

        model = ScriptedModel(calling(("erase", "{}"), ("erase", "{}")))
        with pytest.raises(Conversation.DoesNotExist):
            Assistant(model, tools=[erase]).chat(conversation, "Hi")


TEA_SHOP = Assistant(ScriptedModel(), system_message="You work in a tea shop.")
OTHER = Assistant(ScriptedModel())


def by_host(request: Any) -> Any:
    return {"tea.example": TEA_SHOP, "other.example": OTHER}.get(request)


class TestProjects:
    def named(self, name: str | None) -> dict[str, Any]:
        return {**getattr(settings, "CHATMEMORY", {}), "ASSISTANT": name and f"{__name__}.{name}"}

    def test_none_is_named(self, settings: Any) -> None:
        settings.CHATMEMORY = self.named(None)
        assert not has_assistant()
        with pytest.raises(ImproperlyConfigured, match=r"Set CHATMEMORY\['ASSISTANT'\] to the dotted path"):
            project_assistant(None)

    def test_one_for_all_requests(self, settings: Any) -> None:
        settings.CHATMEMORY = self.named("TEA_SHOP")
        assert has_assistant()
        assert project_assistant(None) is TEA_SHOP

    def test_one_for_each_request(self, settings: Any) -> None:
        settings.CHATMEMORY = self.named("by_host")
        assert project_assistant("tea.example") is TEA_SHOP
        assert project_assistant("other.example") is OTHER
        with pytest.raises(ImproperlyConfigured, match="by_host', must return an Assistant, but returned: NoneType"):
            project_assistant("nobody.example")

    @pytest.mark.parametrize(
        ("name", "problem"),
        [("TEASHOP", "has no 'TEASHOP'; did you mean 'TEA_SHOP'"), ("USED", "is not the path of a function or an Ass")],
    )
    def test_what_cannot_be_one(self, settings: Any, name: str, problem: str) -> None:
        settings.CHATMEMORY = self.named(name)
        with pytest.raises(ImproperlyConfigured, match=problem):
            project_assistant(None)


class TestBegunTurn:
    def test_the_message_is_stored_before_the_model_is_asked(self, conversation: Conversation) -> None:
        model = ScriptedModel("Green.")
        turn = Assistant(model).begin(conversation, "Which tea?")
        assert [row.text for row in conversation.messages.history()] == ["Which tea?"]
        assert running_turn(conversation) is not None
        with pytest.raises(ConversationBusyError):
            Assistant(model).begin(conversation, "Coffee?", wait_timeout=0)
        assert list(turn.events())[-1] == AiMessage("Green.")
        assert running_turn(conversation) is None

    def test_one_that_is_released_leaves_its_message(self, conversation: Conversation) -> None:
        turn = Assistant(ScriptedModel("Green.")).begin(conversation, "Which tea?")
        turn.release()
        assert running_turn(conversation) is None
        assert [row.text for row in conversation.messages.history()] == ["Which tea?"]

    def test_in_async_code(self, conversation: Conversation) -> None:
        async def chat() -> list[Any]:
            turn = await Assistant(ScriptedModel("Green.")).abegin(conversation, "Which tea?")
            return [event async for event in turn.aevents()]

        assert run(chat())[-1] == AiMessage("Green.")

    def test_its_earlier_name_is_of_the_same_class(self, conversation: Conversation) -> None:
        turn = Assistant(ScriptedModel("Green.")).begin(conversation, "Which tea?")
        turn.release()
        assert type(turn) is Turn is BegunTurn
        assert running_turn(conversation) is None
