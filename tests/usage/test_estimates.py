"""The estimate of a request's tokens, before the call, beside what the server reported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from chatmemory import AiMessage, ChatMessage, OpenAiTokenCountEstimator
from chatmemory.assistant import Answered, Assistant, ModelError
from chatmemory.assistant import Usage as Tokens
from chatmemory.contrib.usage.models import Usage
from chatmemory.contrib.usage.sums import sums, total
from chatmemory.models import Conversation
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db(transaction=True)

ESTIMATOR = OpenAiTokenCountEstimator("gpt-4o")


class Model:
    """A model that counts its input as the window does, and then a quarter more."""

    def __init__(self) -> None:
        self.sent: list[int] = []

    def __call__(self, messages: Sequence[ChatMessage], tools: Sequence[Any]) -> Any:
        self.sent.append(ESTIMATOR.estimate_token_count_in_messages(messages))
        if "fail" in str(messages[-1]):
            raise ModelError("No.")
        return Answered(AiMessage("An animal."), Tokens(input_tokens=self.sent[-1] * 5 // 4))


@pytest.fixture(params=["tokens", "messages"])
def conversation(request: Any) -> Conversation:
    made: Conversation = ConversationFactory(window=request.param, limit=200, model="gpt-4o")
    return made


def achat(assistant: Assistant, conversation: Conversation, text: str) -> None:
    async_to_sync(assistant.achat)(conversation, text)


@pytest.mark.slow
@pytest.mark.parametrize("say", [Assistant.chat, achat])
def test_is_that_of_what_the_model_was_sent(conversation: Conversation, say: Callable[..., Any]) -> None:
    model = Model()
    assistant = Assistant(model, system_message="Be brief.")
    for number in range(20):
        say(assistant, conversation, f"What is number {number}? " + "word " * 10)
    found = list(conversation.usage.order_by("position").values_list("estimated_tokens", flat=True))
    assert found == model.sent
    assert max(found) > 150


def test_of_a_failed_call_is_known_and_compared_with_nothing(conversation: Conversation) -> None:
    model = Model()
    assistant = Assistant(model)
    assistant.chat(conversation, "What is a cat?")
    with pytest.raises(ModelError):
        assistant.chat(conversation, "Please fail.")
    assert [row.estimated_tokens for row in conversation.usage.order_by("created_at")] == model.sent
    found = total(conversation.usage.all())
    assert (found.estimated_tokens, found.compared_tokens) == (model.sent[0], model.sent[0] * 5 // 4)


def test_includes_tools(conversation: Conversation) -> None:
    def look(number: int) -> str:
        """Look something up in the large collection of texts that this shop has about its teas."""
        return "found"

    model = Model()
    assistant = Assistant(model, tools=[look])
    assistant.chat(conversation, "What is a cat?")
    assert conversation.usage.get().estimated_tokens > model.sent[0] + 20


def test_of_other_calls_is_null(conversation: Conversation) -> None:
    conversation.record_usage({"model": "m", "input_tokens": 5})
    assert conversation.usage.get().estimated_tokens is None
    assert total(conversation.usage.all()).estimate_error is None


def test_error_is_of_calls_that_have_both(conversation: Conversation) -> None:
    for model, estimated, reported in (
        *(("a", 110, 100), ("a", 330, 300), ("a", 1000, None), ("a", None, 1000)),
        *(("b", 90, 100), ("c", None, 5), ("d", 5, 0)),
    ):
        conversation.usage.create(model=model, estimated_tokens=estimated, input_tokens=reported)
    errors = {one.key: one.estimate_error for one in sums(Usage.objects.all(), "model")}
    assert errors == {"a": pytest.approx(0.1), "b": pytest.approx(-0.1), "c": None, "d": None}
    assert total(Usage.objects.all()).estimate_error == pytest.approx(535 / 500 - 1)
