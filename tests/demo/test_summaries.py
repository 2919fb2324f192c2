"""The demo's summaries: made without a model, honest about it, and smaller than what they cover."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.http import HttpRequest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory import AiMessage, ChatMessage, ToolExecutionResultMessage, UserMessage
from chatmemory.models import Conversation
from demo_project.chat.assistant import assistant
from demo_project.chat.bot import answer
from demo_project.chat.summarizer import quotes, summarize
from tests.support.factories import ConversationFactory

LONG = "and tea is what we talk about " * 20


def talk(*said: str) -> list[ChatMessage]:
    return [message for text in said for message in (UserMessage(text), AiMessage(LONG))]


def test_it_says_that_no_model_made_it_and_repeats_first_words() -> None:
    made = summarize([*talk("My name is Ann", LONG), ToolExecutionResultMessage("1", "tea", "a leaf")], None)
    first, counts, *said = made.splitlines()
    assert first == "Made by a small program, not by a model: the beginnings of what the user said."
    assert counts == "Of the user: 2. Answers: 2. Results of tools: 1."
    assert said == ["“My name is Ann”", "“and tea is what we talk about and tea is what we talk about and tea …”"]


def test_a_text_without_spaces_is_cut_as_well() -> None:
    assert quotes(summarize(talk("春" * 1000), None)) == ["春" * 70 + " …"]


def test_the_summary_before_is_taken_in() -> None:
    made = summarize(talk("And my cat is Tom"), summarize(talk("My name is Ann"), None))
    assert "Of the user: 2. Answers: 2. Results of tools: 0." in made
    assert quotes(made) == ["My name is Ann", "And my cat is Tom"]


def test_a_summary_of_another_program_counts_for_nothing() -> None:
    assert "Of the user: 1. Answers: 1." in summarize(talk("Hello"), "Somebody's own words.")


@pytest.mark.slow
@given(st.lists(st.text(max_size=300), max_size=30), st.booleans())
def test_it_is_never_long(said: list[str], twice: bool) -> None:
    messages = [UserMessage(text) for text in said if text.strip()]
    made = summarize(messages, summarize(messages, None) if twice else None)
    assert len(made) <= 140 + max(0, sum(map(len, said)) * 2 // 3)
    assert len(quotes(made)) <= 15


def test_the_bot_knows_what_a_summary_repeats() -> None:
    memory = [
        UserMessage(f"<summary>\n{summarize(talk('My name is Ann', LONG), None)}\n</summary>"),
        UserMessage("What is my name?"),
    ]
    assert answer(memory).text == "You said:\n“My name is Ann”"


@pytest.mark.django_db(transaction=True)
class TestAfterAnAnswer:
    @pytest.fixture
    def conversation(self, settings: Any) -> Conversation:
        settings.CHATMEMORY = {**settings.CHATMEMORY, "SUMMARIZER": "demo_project.chat.summarizer.summarize"}
        made: Conversation = ConversationFactory(limit=1000, compact_at=60)
        made.memory.add(*talk("My name is Ann", LONG, LONG))
        return made

    @pytest.fixture
    def take_turn(self) -> Callable[[Conversation], AiMessage]:
        """Says something, and waits for the answer and for what comes after it."""

        def take(conversation: Conversation) -> AiMessage:
            demo = assistant(HttpRequest())
            answer = demo.chat(conversation, "Hello")
            assert demo.wait_for_summaries(timeout=60)
            return answer

        return take

    def test_a_summary_is_made_if_it_is_due(
        self, conversation: Conversation, take_turn: Callable[[Conversation], AiMessage]
    ) -> None:
        take_turn(conversation)
        [summary] = conversation.messages.filter(origin="summary")
        assert summary.is_retained
        assert set(conversation.messages.evicted().values_list("eviction_reason", flat=True)) == {"summarized"}
        conversation.memory.add(UserMessage("What is my name?"))
        assert answer(conversation.memory.messages()).text == "You said:\n“My name is Ann”"

    def test_none_is_made_where_none_is_due(
        self, conversation: Conversation, take_turn: Callable[[Conversation], AiMessage]
    ) -> None:
        conversation.memory.set_window(compact_at=None)
        take_turn(conversation)
        assert not conversation.messages.filter(origin="summary").exists()

    def test_a_failure_takes_nothing_from_the_answer(
        self, conversation: Conversation, settings: Any, take_turn: Callable[[Conversation], AiMessage]
    ) -> None:
        settings.CHATMEMORY = {
            **settings.CHATMEMORY,
            "SUMMARIZER": "demo_project.chat.tools.look_up_order",  # takes no messages
        }
        assert take_turn(conversation).text
        conversation.refresh_from_db()
        assert conversation.compaction.failures == 1  # type: ignore[attr-defined]
