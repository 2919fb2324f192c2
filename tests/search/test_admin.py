"""The searches of the admin's lists, and what a conversation's page says about its index."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from chatmemory import UserMessage
from chatmemory.contrib.search import corpus, indexing
from chatmemory.contrib.search.models import Progress
from chatmemory.models import Conversation
from tests.admin.test_lists import CONVERSATIONS, MESSAGES, found, plain, said
from tests.support.factories import ConversationFactory, UserFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def conversation() -> Conversation:
    made: Conversation = ConversationFactory(owner=UserFactory(username="marta"), title="Health", limit=100)
    made.memory.add(UserMessage("I am allergic to penicillin."), UserMessage("The Café opens at nine."))
    made.memory.add(*(UserMessage(f"Hello {number}") for number in range(30)))
    return made


class TestSearch:
    @pytest.mark.parametrize("is_indexed", [True, False])
    @pytest.mark.parametrize(
        ("term", "texts"),
        [
            ("penicillin", ["I am allergic to penicillin."]),
            ("peni", ["I am allergic to penicillin."]),
            ("enicillin", []),
            ("penicillin café", []),
            ("allergic penicillin", ["I am allergic to penicillin."]),
            ('"allergic to"', ["I am allergic to penicillin."]),
            ('"to allergic"', []),
            ("cafe", ["The Café opens at nine."]),
            ("marta peni", ["I am allergic to penicillin."]),
            ("ot nine.", []),
        ],
    )
    def test_of_messages(
        self, admin_client: Client, conversation: Conversation, term: str, texts: list[str], is_indexed: bool
    ) -> None:
        if is_indexed:
            indexing.index_all(conversation)
        ConversationFactory().memory.add(UserMessage("Something else"))
        assert [plain(shown) for shown in said(admin_client, term)] == texts

    @pytest.mark.parametrize(
        ("term", "counted", "texts"),
        [
            ("penicillin", "1 message matches", ["I am allergic to penicillin."]),
            ("penicillin café", "2 messages match", ["The Café opens at nine.", "I am allergic to penicillin."]),
            ("cafe", "1 message matches", ["The Café opens at nine."]),
            ("heal peni", "1 message matches", ["I am allergic to penicillin."]),
            ("hello", "30 messages match", ["Hello 29", "Hello 28"]),
        ],
    )
    def test_of_conversations_shows_what_it_found(
        self, admin_client: Client, conversation: Conversation, term: str, counted: str, texts: list[str]
    ) -> None:
        ConversationFactory().memory.add(UserMessage("Something else"))
        [cell] = found(admin_client, term)
        shown = plain(cell)
        assert shown.startswith(counted)
        places = [shown.index(text) for text in texts]
        assert places == sorted(places)

    @pytest.mark.parametrize("term", ["enicillin", "penicillin nobody", "café marta nobody"])
    def test_of_conversations_finds_nothing_else(
        self, admin_client: Client, conversation: Conversation, term: str
    ) -> None:
        assert found(admin_client, term) == []

    @pytest.mark.slow
    def test_with_too_many_conversations_texts_are_read(
        self, admin_client: Client, conversation: Conversation, monkeypatch: Any
    ) -> None:
        monkeypatch.setattr(corpus, "MOST_CONVERSATIONS", 0)
        assert len(said(admin_client, "nicillin")) == len(found(admin_client, "nicillin")) == 1

    def test_a_search_costs_the_same_statements_however_many_match(
        self, admin_client: Client, conversation: Conversation, django_assert_max_num_queries: Any
    ) -> None:
        with django_assert_max_num_queries(30):
            admin_client.get(MESSAGES, {"q": "hello"})
        with django_assert_max_num_queries(30):
            admin_client.get(CONVERSATIONS, {"q": "hello"})


class TestProgress:
    """What the page of a conversation says about its index."""

    def page(self, client: Client, conversation: Conversation) -> str:
        address = reverse("admin:chatmemory_conversation_change", args=[conversation.pk])
        return plain(client.get(address).content.decode())

    @pytest.mark.slow
    def test_is_shown_while_messages_are_missing(self, admin_client: Client, conversation: Conversation) -> None:
        conversation.memory.add(*(UserMessage(f"Bye {number}") for number in range(32)))
        assert "Search index: 0 of 64 messages" in self.page(admin_client, conversation)
        indexing.index_all(conversation)
        assert Progress.objects.get().indexed_to == 64
        assert "Search index" not in self.page(admin_client, conversation)
        conversation.memory.add(UserMessage("One more"))
        conversation.refresh_from_db()
        assert "Search index" not in self.page(admin_client, conversation)

    def test_is_not_shown_without_a_history(
        self, admin_client: Client, conversation: Conversation, settings: Any
    ) -> None:
        settings.CHATMEMORY = {**settings.CHATMEMORY, "KEEP_HISTORY": False}
        assert "Search index" not in self.page(admin_client, conversation)
