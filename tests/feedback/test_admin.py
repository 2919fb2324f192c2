"""Feedback in the admin: below its answer, and as a filter of the list."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from chatmemory import AiMessage, UserMessage
from chatmemory.contrib.feedback.giving import give_feedback
from chatmemory.models import Conversation
from chatmemory.personal_data import erase_user
from tests.support.factories import ConversationFactory, UserFactory
from tests.support.planted import member

pytestmark = pytest.mark.django_db


@pytest.fixture
def conversation() -> Conversation:
    made: Conversation = ConversationFactory(owner=UserFactory(username="ann"), title="Rated", limit=1000)
    made.memory.add(UserMessage("What is a cat?"), AiMessage("An animal."), UserMessage("?"), AiMessage("A whip."))
    give_feedback(made, 3, made.owner, "down", "<b>Nonsense</b>")
    return made


def signed_in(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def pages(conversation: Conversation) -> list[str]:
    """The addresses of the pages on which the last answer is."""
    name = "admin:chatmemory_conversation_{}"
    change, memory = (reverse(name.format(each), args=[conversation.pk]) for each in ("change", "memory"))
    return [change, f"{change}?view=history", f"{memory}?answer=3", memory]


@pytest.mark.slow
def test_it_is_below_its_answer(admin_client: Client, conversation: Conversation) -> None:
    for address in pages(conversation):
        page = admin_client.get(address).content.decode()
        before, after = page.split("A whip.</")[-2:]
        assert "Bad answer" not in before, address
        assert "<strong>Bad answer</strong> · <bdi>ann</bdi>" in after, address
        assert '<q dir="auto">&lt;b&gt;Nonsense&lt;/b&gt;</q>' in after, address


@pytest.mark.slow
def test_comments_are_for_those_who_may_read(conversation: Conversation) -> None:
    blind = signed_in(member(["view_conversation"]))
    for address in pages(conversation):
        page = blind.get(address).content.decode()
        assert "Nonsense" not in page
        assert page.count("<strong>Bad answer</strong>") == 1
        assert page.count("You have no permission to read the comment.") == 1


@pytest.mark.slow
def test_a_user_who_was_anonymised_is_not_named(admin_client: Client, conversation: Conversation) -> None:
    erase_user(conversation.owner, how="anonymise")
    page = admin_client.get(pages(conversation)[0]).content.decode()
    assert "<strong>Bad answer</strong> · <bdi>unknown user</bdi>" in page
    assert "Nonsense" not in page


@pytest.mark.slow
def test_a_page_asks_once(admin_client: Client, conversation: Conversation) -> None:
    for address in pages(conversation):
        counts = []
        for position in (1, 3):
            give_feedback(conversation, position, UserFactory(), "up")
            with CaptureQueriesContext(connection) as queries:
                admin_client.get(address)
            counts.append(sum("chatmemory_feedback" in query["sql"] for query in queries))
        assert counts == [1, 1], address


@pytest.mark.slow
def test_the_list_is_filtered_by_it(admin_client: Client, conversation: Conversation) -> None:
    liked = ConversationFactory(title="Liked")
    liked.memory.add(AiMessage("A"))
    give_feedback(liked, 0, liked.owner, "up")
    give_feedback(liked, 0, UserFactory(), "up")
    ConversationFactory(title="Alone")
    address = reverse("admin:chatmemory_conversation_changelist")
    for value, found in (("up", ["Liked"]), ("down", ["Rated"]), ("all", ["Liked", "Rated", "Alone"])):
        page = admin_client.get(address, {"feedback": value}).content.decode()
        assert [title for title in ("Liked", "Rated", "Alone") if f"<bdi>{title}</bdi>" in page] == found
    assert "By feedback" in page
