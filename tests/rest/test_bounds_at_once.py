"""Requests at the bound of a memory, at once or again: one gets the 413, and nothing is stored twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from django.db import connections
from django.test import Client

from chatmemory import UserMessage
from chatmemory.models import Conversation
from tests.database.test_conversations import check_invariants
from tests.database.test_terms import at_first_size
from tests.support.api import post, url, user_message
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def conversation(user: Any, settings: Any) -> Conversation:
    settings.CHATMEMORY = {**getattr(settings, "CHATMEMORY", {}), "MAX_MEMORY_CHARS": 100}
    made: Conversation = ConversationFactory(owner=user)
    made.memory.add(UserMessage("x" * 60))
    return made


def test_of_two_requests_one_is_refused(user: Any, conversation: Conversation) -> None:
    both_have_read = Barrier(2)

    def write(text: str) -> tuple[int, Any]:
        try:
            client = Client()
            client.force_login(user)
            with at_first_size(lambda: both_have_read.wait(timeout=60)):
                answer = post(client, url(conversation, "messages/"), user_message(text))
            return answer.status_code, answer.json()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(2) as pool:
        (added, _), (refused, problem) = sorted(pool.map(write, ["a" * 40, "b" * 40]), key=lambda answer: answer[0])
    assert (added, refused, problem["code"]) == (201, 413, "memory_too_large")
    assert problem["detail"] == (
        "The memory has, or would have, 3 messages and 140 characters; at most 5000 messages and 100 characters are "
        "allowed. Clear the memory, or create the conversation with a smaller window."
    )
    assert problem["params"] == {"count": 3, "chars": 140, "most_messages": 5000, "most_chars": 100}
    assert [len(row.text) for row in conversation.messages.all()] == [60, 40]
    check_invariants(Conversation.objects.get(pk=conversation.pk))


def test_a_request_that_comes_again_is_answered_as_before(
    api: Client, conversation: Conversation, settings: Any
) -> None:
    def send() -> Any:
        return post(api, url(conversation, "messages/"), user_message("y" * 40), idempotency_key="k")

    first = send()
    assert first.status_code == 201
    for most in (100, 10):
        settings.CHATMEMORY = {**settings.CHATMEMORY, "MAX_MEMORY_CHARS": most}
        again = send()
        assert (again.status_code, again.json()) == (201, first.json())
    assert conversation.messages.count() == 2
