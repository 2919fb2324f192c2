"""The limit of a window for which none is given: it fits the window's kind, whoever makes or changes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.forms import modelform_factory

from chatmemory import UserMessage
from chatmemory.contrib.langchain import DjangoChatMessageHistory
from chatmemory.models import Conversation
from tests.support.api import patch, post, url
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db


def set_later() -> Conversation:
    conversation = Conversation()
    conversation.window = "messages"
    conversation.save()
    return conversation


def in_bulk() -> Conversation:
    conversation = Conversation()
    conversation.window = "messages"
    return Conversation.objects.bulk_create(conversation for conversation in [conversation])[0]


def by_a_form() -> Conversation:
    form = modelform_factory(Conversation, fields=["title", "window"])({"title": "T", "window": "messages"})
    return form.save()


def by_an_adapter() -> Conversation:
    DjangoChatMessageHistory("support", owner=None, window="messages").add_user_message("Hi")
    return Conversation.objects.get()


MAKERS: list[Callable[[], Conversation]] = [
    lambda: Conversation.objects.create(window="messages"),
    lambda: Conversation.objects.get_or_create(memory_id="a", defaults={"window": "messages"})[0],
    set_later,
    in_bulk,
    by_a_form,
    by_an_adapter,
]


@pytest.mark.parametrize("make", MAKERS)
def test_a_window_of_messages_is_not_bounded_by_the_number_of_tokens(make: Callable[[], Conversation]) -> None:
    made = make()
    stored = Conversation.objects.get(pk=made.pk)
    assert (stored.window, stored.limit) == ("messages", 20)
    assert type(made.limit) is int


@pytest.mark.parametrize(
    ("given", "limits"),
    [
        ({}, {"messages": 20, "tokens": 4000}),
        ({"WINDOW": {"window": "messages"}}, {"messages": 20, "tokens": 4000}),
        ({"WINDOW": {"limit": 500}}, {"messages": 20, "tokens": 500}),
        ({"WINDOW": {"window": "messages", "limit": 7}}, {"messages": 7, "tokens": 4000}),
    ],
)
def test_the_setting_is_of_the_default_window(settings: Any, given: Any, limits: dict[str, int]) -> None:
    settings.CHATMEMORY = given
    usual = given.get("WINDOW", {}).get("window", "tokens")
    plain = Conversation.objects.create()
    assert (plain.window, plain.limit) == (usual, limits[usual])
    assert {kind: Conversation.objects.create(window=kind).limit for kind in limits} == limits
    for kind in limits:
        other = next(name for name in limits if name != kind)
        changed = Conversation.objects.create(window=other, limit=3)
        assert changed.memory.try_window(window=kind).limit == limits[kind]
        assert changed.memory.set_window(window=kind).memory.limit == limits[kind]


def test_a_limit_that_is_given_stays_whatever_it_is() -> None:
    later = Conversation(limit=4000)
    later.window = "messages"
    later.save()
    assert Conversation.objects.get().limit == 4000
    assert later.memory.set_window(window="messages").memory.limit == 4000
    assert later.memory.set_window(window="tokens", limit=20).memory.limit == 20
    assert later.memory.set_window(model="gpt-4").memory.limit == 20


def test_over_rest(api: Any, user: Any) -> None:
    made = post(api, "/api/conversations/", {"window": "messages"}).json()
    assert (made["window"], made["limit"]) == ("messages", 20)
    conversation = ConversationFactory(owner=user, window="messages", limit=20)
    conversation.memory.add(*(UserMessage(f"Message {number}") for number in range(20)))
    assert post(api, url(conversation, "memory/preview/"), {"window": "tokens"}).json()["limit"] == 4000
    changed = patch(api, url(conversation), {"window": "tokens"}).json()
    assert (changed["limit"], changed["evicted"]) == (4000, [])


def test_the_admin_asks_for_a_limit(admin_client: Any) -> None:
    conversation = ConversationFactory(window="messages", limit=2)
    shown = admin_client.get(f"/admin/chatmemory/conversation/{conversation.pk}/window/", {"1-window": "tokens"})
    assert shown.context["forms"][0].errors == {"limit": ["This field is required."]}
