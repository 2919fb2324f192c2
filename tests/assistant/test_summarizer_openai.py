"""Summaries by a model behind the ``openai`` package: whatever it answers, no message is lost."""

# ruff: noqa: F811 - fixtures that are imported

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import openai
import pytest

from chatmemory.assistant import Assistant, ChatModelSummarizer, ModelError
from chatmemory.assistant.openai import OpenAiChatModel
from chatmemory.compaction import UnusableSummaryError
from chatmemory.models import Compaction, Conversation
from chatmemory.signals import compaction_failed
from chatmemory.verification import verify
from tests.support.due_conversations import SUMMARY, due_conversation, texts
from tests.support.openai_server import ModelServer, completion, model_server  # noqa: F401
from tests.support.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

IN_MEMORY = f"<summary>\n{SUMMARY}\n</summary>"
CALL = {"id": "a", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}


@pytest.fixture
def client(model_server: ModelServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(max_retries=0, timeout=60) as client:
        yield client


@pytest.fixture
def failures() -> Iterator[list[dict[str, Any]]]:
    seen: list[dict[str, Any]] = []

    def note(sender: Any, **kwargs: Any) -> None:
        seen.append(kwargs)

    compaction_failed.connect(note)
    yield seen
    compaction_failed.disconnect(note)


def said(**message: Any) -> Callable[[ModelServer], None]:
    return lambda server: server.say(200, "application/json", completion(**message))


@pytest.mark.parametrize(
    ("answer", "error", "problem"),
    [
        (said(finish_reason="length", content="They count"), UnusableSummaryError, "the model's limit was reached"),
        (said(finish_reason="content_filter", content="They"), UnusableSummaryError, "a content filter stopped it"),
        (said(finish_reason="content_filter", content=None), ModelError, "a content filter stopped it"),
        (said(finish_reason="length", content=None, reasoning="Trains …"), ModelError, "the model's limit was reached"),
        (said(content=None, refusal="I cannot help with that."), UnusableSummaryError, "refused"),
        (said(content=None, reasoning_content="They count trains."), ModelError, "empty answer"),
        (said(content="<think>They count trains.</think>"), UnusableSummaryError, "only thinking"),
        (said(content=""), ModelError, "empty answer"),
        (said(content=" \n"), UnusableSummaryError, "wrote no summary"),
        (said(finish_reason="tool_calls", content=None, tool_calls=[CALL]), UnusableSummaryError, "called a tool"),
        (said(content="train " * 2000), UnusableSummaryError, "must be smaller than what it covers"),
        (lambda server: server.fail(429, "Too many requests"), openai.RateLimitError, "Too many requests"),
        (lambda server: server.fail(500, "Out of order"), openai.InternalServerError, "Out of order"),
        (lambda server: server.fail(400, "context_length_exceeded"), openai.BadRequestError, "context_length"),
        (lambda server: server.say(200, "text/html", "<title>Hi</title>"), ModelError, "OPENAI_BASE_URL"),
        (lambda server: server.say(200, "application/json", '{"choices": ['), ModelError, "broken JSON"),
    ],
)
def test_what_is_no_summary_changes_nothing(
    client: openai.OpenAI,
    model_server: ModelServer,
    failures: list[dict[str, Any]],
    answer: Callable[[ModelServer], None],
    error: type[Exception],
    problem: str,
) -> None:
    conversation = due_conversation()
    summarizer = ChatModelSummarizer(OpenAiChatModel("tiny", client=client))
    before = _state(conversation)
    answer(model_server)
    with pytest.raises(error, match=problem) as raised:
        conversation.memory.compact(summarizer)
    _assert_failed(conversation, before, failures, raised.value)
    said(content=SUMMARY)(model_server)
    assert conversation.memory.compact(summarizer) is not None
    _assert_summarised(conversation)


def test_a_model_that_does_not_answer_in_time(model_server: ModelServer, failures: list[dict[str, Any]]) -> None:
    over = threading.Event()
    conversation = due_conversation()
    before = _state(conversation)
    model_server.hang(over)
    with openai.OpenAI(max_retries=0, timeout=0.2) as client:
        summarizer = ChatModelSummarizer(OpenAiChatModel("tiny", client=client))
        with pytest.raises(openai.APITimeoutError) as raised:
            conversation.memory.compact(summarizer)
        # Or the server would have no answer to the first request left, and hang at the next one.
        wait_until(lambda: model_server.requests, "the request does not come")
        over.set()
        _assert_failed(conversation, before, failures, raised.value)
    with openai.OpenAI(max_retries=0) as client:
        said(content=SUMMARY)(model_server)
        conversation.memory.compact(ChatModelSummarizer(OpenAiChatModel("tiny", client=client)))
    _assert_summarised(conversation)


def test_an_assistant_answers_whatever_the_summarizer_does(
    client: openai.OpenAI, model_server: ModelServer, failures: list[dict[str, Any]]
) -> None:
    conversation = due_conversation()
    model = OpenAiChatModel("tiny", client=client, temperature=0)
    assistant = Assistant(model, memory=lambda _: conversation.memory, summarizer=ChatModelSummarizer(model))
    said(content="Seven.")(model_server)
    model_server.fail(500, "Out of order")
    assert assistant.chat(1, "How many?").text == "Seven."
    assert assistant.wait_for_summaries(60)
    assert texts(conversation)[-2:] == ["How many?", "Seven."]
    assert [type(one["error"]) for one in failures] == [openai.InternalServerError]
    Compaction.objects.update(retry_at=None)
    said(content="Eight.")(model_server)
    said(content=SUMMARY)(model_server)
    assert assistant.chat(1, "And now?").text == "Eight."
    assert assistant.wait_for_summaries(60)
    assert (texts(conversation)[0], texts(conversation)[-1]) == (IN_MEMORY, "Eight.")


def test_the_request(client: openai.OpenAI, model_server: ModelServer) -> None:
    conversation = due_conversation()
    said(content=SUMMARY)(model_server)
    model = OpenAiChatModel("tiny", client=client, max_completion_tokens=2000)
    conversation.memory.compact(ChatModelSummarizer(model, max_tokens=300))
    [request] = model_server.requests
    assert [message["role"] for message in request["messages"]] == ["system", "user"]
    assert "at most 300 tokens" in request["messages"][0]["content"]
    assert "Question 0: train" in request["messages"][1]["content"]
    assert request["max_completion_tokens"] == 2000
    assert not request.keys() & {"tools", "tool_choice", "stream"}


def _state(conversation: Conversation) -> Any:
    row = Conversation.objects.values("version", "next_position", "retained_tokens", "compacted_to")
    return row.get(pk=conversation.pk), texts(conversation)


def _assert_failed(
    conversation: Conversation, before: Any, failures: list[dict[str, Any]], error: BaseException
) -> None:
    assert _state(conversation) == before
    assert list(verify()) == []
    [failure] = failures
    assert failure["conversation"].pk == conversation.pk
    assert failure["error"] is error
    assert failure["plan"].covers_from == 0
    noted = Compaction.objects.get(conversation=conversation)
    assert (noted.failures, noted.leased_until) == (1, None)
    assert noted.error.startswith(f"{type(error).__name__}: ")
    assert noted.retry_at is not None


def _assert_summarised(conversation: Conversation) -> None:
    assert texts(conversation)[0] == IN_MEMORY
    assert Compaction.objects.get(conversation=conversation).failures == 0
    assert list(verify()) == []
