"""Repeated requests, in any order and whatever failed: each gets the answer to its own question, and that once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from chatmemory import AiMessage, ChatMessage, UserMessage
from chatmemory.assistant import Assistant
from chatmemory.models import Conversation
from chatmemory.verification import verify
from tests.support import budget
from tests.support.assistant_models import calling
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db(transaction=True)


class Away(Exception):
    """An error of the model."""


class Repeater:
    """Answers the last question that it sees; first it calls a tool, if it is told to, and it may fail at any call."""

    def __init__(self) -> None:
        self.outcomes: list[str] = []
        self.answered: Counter[str] = Counter()

    def __call__(self, messages: Sequence[ChatMessage], tools: Any) -> AiMessage:
        question = next(message.single_text() for message in reversed(messages) if isinstance(message, UserMessage))
        outcome = self.outcomes.pop(0) if self.outcomes else "answer"
        if outcome == "fail":
            raise Away
        if outcome == "call":
            return calling(("look", "{}"))
        self.answered[question] += 1
        return AiMessage(f"To {question}")


def look() -> str:
    return "seen"


requests = st.tuples(
    st.sampled_from(["a", "b", "c", None]),
    st.sampled_from([["answer"], ["fail"], ["call", "fail"], ["call", "answer"]]),
)

A, B = ("a", ["answer"]), ("b", ["answer"])
A_FAILS, B_FAILS = ("a", ["fail"]), ("b", ["call", "fail"])


@pytest.mark.slow
@given(st.lists(requests, max_size=8))
@example([A_FAILS, B_FAILS, A, B])
@example([A_FAILS, B_FAILS, B, A])
@example([A_FAILS, B_FAILS, A_FAILS, B_FAILS, A, B])
@example([A_FAILS, (None, ["fail"]), A])
@settings(max_examples=budget.examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_question_gets_its_own_answer_once(order: list[tuple[str | None, list[str]]]) -> None:
    conversation: Conversation = ConversationFactory(owner=None, window="messages", limit=1000)
    model = Repeater()
    assistant = Assistant(model, tools=[look])
    said = set()
    for number, (key, outcomes) in enumerate([*order, A, B]):
        question = f"question {key or number}"
        said.add(question)
        model.outcomes = list(outcomes)
        try:
            answer = assistant.chat(conversation, question, idempotency_key=key)
        except Away:
            continue
        assert answer.text == f"To {question}"
    history = [row.message for row in conversation.messages.history()]
    asked = Counter(message.single_text() for message in history if isinstance(message, UserMessage))
    assert asked == dict.fromkeys(said, 1)
    assert max(model.answered.values()) == 1
    assert list(verify()) == []
