"""Idempotency-Key: nothing twice."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from chatmemory import UserMessage
from chatmemory.models import Conversation
from tests.support.api import USER, ai, patch, post, url, user_message
from tests.support.factories import ConversationFactory, UserFactory


def test_the_same_key_and_body_gives_the_first_answer_again(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user, window="messages", limit=2)
    conversation.memory.add(UserMessage("before"))
    path, body = url(conversation, "messages/"), {"messages": [ai("a"), user_message("b")]}
    first = post(api, path, body, idempotency_key="k")
    post(api, path, {"messages": [ai("c"), ai("d")]})
    patch(api, url(conversation), {"window": "tokens", "limit": 99, "model": "gpt-4"})
    again = post(api, path, body, idempotency_key="k")
    assert (again.status_code, again.json()) == (201, first.json())
    assert [item["text"] for item in api.get(path).json()["results"]] == ["before", "a", "b", "c", "d"]


def test_the_same_messages_written_otherwise_are_the_same_request(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user)
    path = url(conversation, "messages/")
    first = post(api, path, USER, idempotency_key="k").json()
    assert post(api, path, {"messages": [USER]}, idempotency_key="k").json() == first
    openai = {"role": "user", "content": "Hello"}
    assert post(api, path + "?format=openai", openai, idempotency_key="k").json()["added"][0]["message"] == openai
    assert conversation.messages.count() == 1


def test_the_same_key_with_another_body_is_refused(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user)
    path = url(conversation, "messages/")
    post(api, path, USER, idempotency_key="k")
    answer = post(api, path, ai("other"), idempotency_key="k")
    assert answer.status_code == 422
    assert answer.json()["type"] == "urn:chatmemory:problem:idempotency-key-reused"
    assert "'k'" in answer.json()["detail"]
    assert conversation.messages.count() == 1


def test_a_refused_request_does_not_use_up_its_key(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user)
    path = url(conversation, "messages/")
    assert post(api, path, {"type": "AI", "text": 5}, idempotency_key="k").status_code == 400
    assert post(api, path, USER, idempotency_key="k", if_match='"7"').status_code == 412
    assert post(api, path, USER, idempotency_key="k").status_code == 201


def test_a_repeated_request_may_carry_the_version_that_it_moved(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user)
    path = url(conversation, "messages/")
    first = post(api, path, USER, idempotency_key="k", if_match='"0"')
    assert first.status_code == 201
    assert post(api, path, USER, idempotency_key="k", if_match='"0"').json() == first.json()
    assert post(api, path, USER, idempotency_key="l", if_match='"0"').status_code == 412


@pytest.mark.parametrize("body", [{}, {"memory_id": "x", "title": "T", "metadata": {"b": 1, "a": [2]}}])
def test_a_conversation_is_made_once(api: Client, body: Any) -> None:
    first = post(api, "/api/conversations/", body, idempotency_key="k")
    patch(api, first["Location"], {"title": "Changed", "limit": 5})
    again = post(api, "/api/conversations/", dict(reversed(body.items())), idempotency_key="k")
    assert (again.status_code, again.json(), again["Location"]) == (201, first.json(), first["Location"])
    assert Conversation.objects.count() == 1
    assert post(api, "/api/conversations/", {"title": "Other"}, idempotency_key="k").status_code == 422


def test_keys_are_of_one_user_and_of_one_conversation(api: Client, user: Any) -> None:
    other = Client()
    other.force_login(UserFactory())
    made = {post(client, "/api/conversations/", {}, idempotency_key="k").json()["id"] for client in (api, other)}
    assert len(made) == 2
    for conversation in ConversationFactory.create_batch(2, owner=user):
        assert (
            post(api, url(conversation, "messages/"), ai(str(conversation.pk)), idempotency_key="k").status_code == 201
        )


@pytest.mark.parametrize("key", ["", "x" * 256, "a\tb"])
def test_bad_keys(api: Client, user: Any, key: str) -> None:
    conversation = ConversationFactory(owner=user)
    for path in ("/api/conversations/", url(conversation, "messages/")):
        answer = post(api, path, USER if "messages" in path else {}, idempotency_key=key)
        assert (answer.status_code, answer.json()["errors"][0]["place"]) == (400, "Idempotency-Key")
    assert Conversation.objects.count() == 1
    assert not conversation.messages.exists()
