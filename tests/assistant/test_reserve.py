"""Room for what a request has beside the memory: tools, and the answer."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from chatmemory import AiMessage, OpenAiTokenCountEstimator, TokenWindowChatMemory, UserMessage
from chatmemory.assistant import Added, Assistant
from chatmemory.core.json_text import dumps
from chatmemory.models import Conversation
from chatmemory.stores import DjangoChatMemoryStore
from chatmemory.verification import verify
from tests.database.test_async import run
from tests.support.assistant_models import ScriptedModel
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db(transaction=True)

COUNT = OpenAiTokenCountEstimator("gpt-4o").estimate_token_count_in_text


def search(query: str, kind: str = "any", most: int = 10) -> str:
    """Search all orders, invoices and letters of the customer, the newest first, and return what was found."""
    return ""


@pytest.fixture(autouse=True)
def _books_are_right() -> Iterator[None]:
    yield
    assert list(verify()) == []


def full(limit: int = 1000, **window: Any) -> Conversation:
    conversation: Conversation = ConversationFactory(owner=None, limit=limit, **window)
    for number in range(60):
        conversation.memory.add(UserMessage(f"Question {number} {'word ' * 20}"), AiMessage("Reply " + "word " * 10))
    return conversation


class TestWindow:
    @pytest.mark.slow
    def test_messages_leave_for_it(self) -> None:
        conversation = full()
        change = conversation.memory.set_window(reserve=300)
        assert {row.eviction_reason for row in change.evicted} == {"window"}
        assert 600 < conversation.retained_tokens <= 697
        conversation.memory.add(UserMessage("More " * 50))
        assert conversation.retained_tokens <= 697

    def test_at_most_half_of_the_limit(self) -> None:
        conversation = full()
        conversation.memory.set_window(reserve=100_000)
        assert 400 < conversation.retained_tokens <= 500

    @pytest.mark.slow
    def test_a_low_water_mark_is_of_the_rest(self) -> None:
        conversation = full(low_water=50, whole_turns=True)
        conversation.memory.set_window(reserve=400)
        sizes = []
        for number in range(40):
            conversation.memory.add(UserMessage(f"More {number}"), AiMessage("word " * 10))
            sizes.append(conversation.retained_tokens)
        assert 500 < max(sizes) <= 600
        assert 280 < min(sizes) <= 325

    def test_a_window_of_messages_has_none(self) -> None:
        conversation = full(window="messages", limit=20)
        assert conversation.memory.set_window(reserve=1000).evicted == []

    def test_a_memory_in_this_process_takes_it(self) -> None:
        estimator = OpenAiTokenCountEstimator("gpt-4o")
        memory = TokenWindowChatMemory(max_tokens=100, token_count_estimator=estimator, reserve=40)
        for number in range(20):
            memory.add(UserMessage(f"Number {number}"))
        assert 40 < estimator.estimate_token_count_in_messages(memory.messages()) <= 60

    def test_a_summary_is_due_by_the_rest(self) -> None:
        conversation = ConversationFactory(owner=None, limit=1000, compact_at=80)
        conversation.memory.add(UserMessage("word " * 400))
        assert not conversation.is_full
        conversation.memory.set_window(reserve=500)
        assert conversation.is_full
        from chatmemory.database.operations.compact import due_conversations

        assert list(due_conversations(Conversation.objects.all())) == [conversation]


class TestToFormat:
    TOOLS = ({"type": "function", "function": {"name": "search", "description": "Find " * 200}},)

    def test_it_leaves_room_for_tools(self) -> None:
        conversation = full()
        messages = conversation.memory.to_format("openai", tools=self.TOOLS)
        assert len(messages) < len(conversation.memory.to_format("openai"))
        assert conversation.memory.to_format("openai") == conversation.memory.to_format("openai", tools=[])
        sent = OpenAiTokenCountEstimator("gpt-4o").estimate_token_count_in_messages(
            conversation.memory.messages()[-len(messages) :]
        )
        assert sent + COUNT(dumps(self.TOOLS)) <= 1000
        assert conversation.messages.retained().count() > len(messages), "nothing was evicted"

    @pytest.mark.slow
    def test_descriptions_in_any_script_count_as_they_are_sent(self) -> None:
        tools = [{"name": "search", "description": "查找客户的所有订单。" * 30}]
        messages = full().memory.to_format("openai", tools=tools)
        assert messages == full(reserve=COUNT(dumps(tools))).memory.to_format("openai")

    @pytest.mark.slow
    def test_anthropic_adds_a_text_of_its_own(self) -> None:
        tools = [{"name": "search", "description": "Find."}]
        of_claude = full(model="claude-opus-5-5").memory.to_format("anthropic", tools=tools)
        reserve = COUNT(dumps(tools)) + 346
        assert of_claude == full(model="claude-opus-5-5", reserve=reserve).memory.to_format("anthropic")

    def test_a_reserve_that_is_large_enough_is_enough(self) -> None:
        conversation = full(reserve=400)
        assert conversation.memory.to_format("openai", tools=self.TOOLS) == conversation.memory.to_format("openai")

    def test_what_is_no_json_is_an_error(self) -> None:
        with pytest.raises(TypeError):
            full().memory.to_format("openai", tools=[search])


class TestAssistant:
    def test_it_keeps_room_for_its_tools(self) -> None:
        conversation = full()
        model = ScriptedModel("Yes.", "No.")
        assistant = Assistant(model, tools=[search])
        assistant.chat(conversation, "Well?")
        tools = COUNT(dumps([vars(tool) for tool in model.tools]))
        assert conversation.reserve == tools > 40
        sent = OpenAiTokenCountEstimator("gpt-4o").estimate_token_count_in_messages(model.asked[0])
        assert sent + tools <= 1000

        before = conversation.version
        assistant.chat(conversation, "And?")
        assert conversation.reserve == tools
        assert conversation.version == before + 2, "a question and an answer, and no other change"

    def test_it_says_what_left(self) -> None:
        conversation = full()
        first = next(iter(Assistant(ScriptedModel("Yes."), tools=[search]).stream(conversation, "Well?")))
        assert isinstance(first, Added)
        assert first.change is not None
        assert {row.eviction_reason for row in first.change.evicted} == {"window"}

    def test_room_for_the_answer(self) -> None:
        conversation = full()
        run(Assistant(ScriptedModel("Yes."), answer_tokens=250).achat(conversation, "Well?"))
        assert conversation.reserve == 250

    def test_a_larger_reserve_stays(self) -> None:
        conversation = full(reserve=400)
        Assistant(ScriptedModel("Yes."), tools=[search]).chat(conversation, "Well?")
        assert conversation.reserve == 400

    @pytest.mark.slow
    def test_less_than_half_is_left(self, caplog: pytest.LogCaptureFixture) -> None:
        conversation = full(limit=150)
        assistant = Assistant(ScriptedModel("Yes.", "No."), tools=[search], answer_tokens=100)
        with caplog.at_level(logging.WARNING, "chatmemory.assistant"):
            assistant.chat(conversation, "Well?")
            assistant.chat(conversation, "And?")
        [record] = caplog.records
        assert "more than half of the limit of conversation" in record.getMessage()

    def test_pins_do_not_end_a_turn(self, caplog: pytest.LogCaptureFixture) -> None:
        conversation = ConversationFactory(owner=None, limit=200)
        conversation.memory.add(UserMessage("word " * 90))
        conversation.memory.pin(0)
        Assistant(ScriptedModel("Yes."), tools=[search]).chat(conversation, "Well?")
        assert "There is no room for tools" in caplog.text
        assert conversation.reserve == 0

    def test_a_window_of_messages_and_a_memory_of_ones_own_stay_as_they_are(self) -> None:
        conversation = ConversationFactory(owner=None, window="messages", limit=10)
        Assistant(ScriptedModel("Yes."), tools=[search]).chat(conversation, "Well?")
        assert conversation.reserve == 0
        memory = TokenWindowChatMemory(
            max_tokens=500,
            token_count_estimator=OpenAiTokenCountEstimator("gpt-4o"),
            store=DjangoChatMemoryStore(),
            reserve=7,
        )
        Assistant(ScriptedModel("Yes."), memory=memory, tools=[search]).chat("default", "Well?")
        assert Conversation.objects.get(memory_id="default").reserve == 7

    @pytest.mark.parametrize(("wrong", "error"), [(-1, ValueError), (1.5, TypeError), (True, TypeError)])
    def test_what_is_no_number_of_tokens(self, wrong: Any, error: type[Exception]) -> None:
        with pytest.raises(error, match="answer_tokens"):
            Assistant(ScriptedModel(), answer_tokens=wrong)
