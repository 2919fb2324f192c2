"""The rows of calls in conversations that go back, are forked, purged and erased, and of turns that are repeated."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from chatmemory import AiMessage, UserMessage
from chatmemory.assistant import Answered, Assistant
from chatmemory.assistant import Usage as Tokens
from chatmemory.models import Conversation
from chatmemory.retention import purge_evicted
from tests.support.api import post, url
from tests.support.assistants import Speaker, choose
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db(transaction=True)


class Numbered(Assistant):
    """An assistant whose calls use 1, 2, 3 … tokens, and whose answers say so."""

    def __init__(self) -> None:
        self.calls = 0
        super().__init__(self.answer)

    def answer(self, messages: Any, tools: Any) -> Answered:
        self.calls += 1
        return Answered(AiMessage(f"{self.calls}"), Tokens(input_tokens=self.calls))


@pytest.fixture
def conversation(user: Any) -> Conversation:
    made: Conversation = ConversationFactory(owner=user, window="messages", limit=100)
    return made


@pytest.fixture
def assistant() -> Numbered:
    return Numbered()


def used(conversation: Conversation) -> list[int | None]:
    return list(conversation.usage.order_by("created_at").values_list("input_tokens", flat=True))


def check_messages(api: Client, conversation: Conversation) -> None:
    """Each answer says which call made it, and tells what this call used; no other message has usage."""
    found = api.get(url(conversation, "messages/?page_size=200")).json()["results"]
    assert found
    for each in found:
        told = None if each["usage"] is None else each["usage"]["input_tokens"]
        assert told == (int(each["text"]) if each["type"] == "AI" else None)
        assert api.get(url(conversation, f"messages/{each['position']}/")).json()["usage"] == each["usage"]


@pytest.mark.slow
def test_each_version_of_an_answer_has_its_own_row(
    api: Client, conversation: Conversation, assistant: Numbered
) -> None:
    assistant.chat(conversation, "One")
    assistant.chat(conversation, "Two")
    conversation.regenerate(assistant=assistant)
    conversation.edit(0, UserMessage("Another one"))
    conversation.regenerate(assistant=assistant)
    conversation.switch(3)
    conversation.rewind(before=2)
    assistant.chat(conversation, "Three")
    assert used(conversation) == [1, 2, 3, 4, 5]
    positions = conversation.messages.history().filter(type="AI").values_list("position", flat=True)
    assert set(conversation.usage.values_list("position", flat=True)) == {*positions}
    check_messages(api, conversation)
    assert api.get(url(conversation, "usage/")).json()["total"]["input_tokens"] == 15


def test_a_fork_copies_no_rows(api: Client, conversation: Conversation, assistant: Numbered) -> None:
    assistant.chat(conversation, "One")
    fork = conversation.fork(at=1)
    assert (used(conversation), used(fork)) == ([1], [])
    answer = api.get(url(fork, "messages/1/")).json()
    assert (answer["text"], answer["usage"]) == ("1", None)
    assistant.chat(fork, "Two")
    assert (used(conversation), used(fork)) == ([1], [2])
    assert api.get("/api/usage/").json()["total"]["input_tokens"] == 3


def test_purged_branches_and_erased_conversations_keep_their_rows(
    api: Client, conversation: Conversation, assistant: Numbered
) -> None:
    for text in ("One", "Two"):
        assistant.chat(conversation, text)
    conversation.regenerate(assistant=assistant)
    conversation.memory.clear()
    list(purge_evicted(timezone.now() + timedelta(days=1)))
    assert not conversation.messages.exists()
    assert used(conversation) == [1, 2, 3]
    assert api.get(url(conversation, "usage/")).json()["total"]["calls"] == 3
    assert api.delete(url(conversation)).status_code == 204
    assert api.get("/api/usage/?group=operation").json()["total"]["input_tokens"] == 6


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_at_random(api: Client, conversation: Conversation, assistant: Numbered, seed: int) -> None:
    """Whatever the conversation goes back to, the rows are those of the calls, and each answer has its own."""
    rng = random.Random(seed)
    assistant.chat(conversation, "Start")
    for number in range(25):
        said = conversation.messages.history()
        questions = list(said.filter(type="USER").values_list("position", flat=True))
        match rng.randrange(5):
            case 0 | 1:
                assistant.chat(conversation, f"Question {number}", idempotency_key=rng.choice([None, f"k{number}"]))
            case 2:
                conversation.regenerate(rng.choice([None, *questions]), assistant=assistant)
            case 3:
                conversation.edit(rng.choice(questions), UserMessage(f"Edited {number}"))
                assistant.chat(conversation)
            case 4:
                conversation.switch(rng.choice(list(said.values_list("position", flat=True))))
    assert used(conversation) == list(range(1, assistant.calls + 1))
    check_messages(api, conversation)


class TestRepeats:
    """A turn that is repeated with its key is one call."""

    @pytest.mark.parametrize(
        "body",
        [{"message": "Two"}, {"message": "Two", "edit": 0}, {"regenerate": None}],
        ids=["message", "edit", "regenerate"],
    )
    def test_over_rest(self, api: Client, conversation: Conversation, body: dict[str, Any]) -> None:
        calls = iter(range(1, 100))
        choose(Speaker(lambda messages: [Answered(AiMessage("Yes."), Tokens(input_tokens=next(calls)))]))
        try:
            post(api, url(conversation, "turns/"), {"message": "One"}, accept="application/json")
            for accept in ("application/json", "application/json", "text/event-stream"):
                answer = post(api, url(conversation, "turns/"), body, accept=accept, idempotency_key="k")
                assert answer.status_code == 200
                assert b"".join(answer) if answer.streaming else answer.content
        finally:
            choose(None)
        assert used(conversation) == [1, 2]
        assert next(calls) == 3

    def test_another_key_is_another_call(self, conversation: Conversation, assistant: Numbered) -> None:
        for key in ("a", "b", "a"):
            assistant.chat(conversation, f"Question {key}", idempotency_key=key)
        assert used(conversation) == [1, 2]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes are forks")
def test_killed_turns(tmp_path: Path) -> None:
    """A turn is killed before each of its statements, and repeated: at most the row of the killed call is missing."""
    log = tmp_path / "calls.log"
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "tests.settings.base",
        "CHATMEMORY_TEST_NAME": str(connection.settings_dict["NAME"]),
    }
    command = [sys.executable, "-m", "tests.support.killed_turns", str(log)]
    subprocess.run(command, env=environment, check=True, timeout=300)
    calls = Counter(log.read_text().splitlines())
    # As if the time of the killed turns were over.
    Conversation.objects.update(turn_until=timezone.now() - timedelta(seconds=1))
    *killed, ended = Conversation.objects.order_by("created_at", "pk")
    assert (calls[ended.memory_id], ended.usage.count(), ended.message_count) == (1, 1, 2)
    between = 0
    for conversation in killed:
        was_stored = conversation.messages.filter(type="AI").exists()
        between += was_stored and not conversation.usage.exists()
        before, again = conversation.usage.count(), Numbered()
        for _ in range(2):
            again.chat(conversation, "Hi", idempotency_key="k")
        assert again.calls == (not was_stored)
        assert [row.type for row in conversation.messages.history()] == ["USER", "AI"]
        assert conversation.usage.count() == before + again.calls
        missing = calls[conversation.memory_id] + again.calls - conversation.usage.count()
        # A call whose answer was not stored, or one that was killed between its answer and its row.
        assert missing in ((0, 1) if calls[conversation.memory_id] else (0,))
    assert between  # a moment between them was among the statements
