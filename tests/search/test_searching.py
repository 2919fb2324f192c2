"""A search finds what a naive scan of all messages finds, in the same order, whatever happened to the messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from chatmemory import AiMessage, ChatMessage, SystemMessage, ToolExecutionResultMessage, UserMessage
from chatmemory.contrib.search import indexing
from chatmemory.contrib.search.checking import wrong_documents
from chatmemory.contrib.search.searching import Hit, search
from chatmemory.models import Conversation, Message
from chatmemory.personal_data import erase_user
from chatmemory.retention import purge_evicted
from tests.search.oracle import Document
from tests.search.oracle import search as naive_search
from tests.support import budget
from tests.support.factories import ConversationFactory, UserFactory

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 1, tzinfo=UTC)

# Few words, so that queries find something; several scripts, and names of several tokens.
WORDS = [
    *("apple", "apples", "applied", "pear", "Birne", "café", "cafe", "naïve", "the", "of", "to", "and", "👍🏽"),
    *("user_id", "v2.3.1", "2024-05-01", "3.14", "C++", "a-b", "kim@example.org", "שלום", "привет", "Ελλάδα"),
    *("北京", "北京大学", "大学", "猫", "東京タワー", "한국어", "한국", "ภาษาไทย", "سلام", "नमस्ते", "chào", "güneş"),
]
TYPED = ["app", "ap", "京", "大", "caf", "unknown", '"', "-"]
words = st.sampled_from(WORDS)
texts = st.lists(words, max_size=9).map(" ".join)
phrases = st.lists(words, min_size=1, max_size=3).map(lambda some: f'"{" ".join(some)}"')
queries = st.lists(
    st.one_of(words, words.map(lambda word: f"-{word}"), phrases, st.sampled_from(TYPED)), min_size=1, max_size=5
).map(" ".join)

numbers = st.integers(0, 3)
events = st.one_of(
    st.tuples(st.just("add"), numbers, st.lists(texts, min_size=1, max_size=20)),
    st.tuples(st.just("index"), numbers),
    st.tuples(st.just("purge"), numbers, st.integers(0, 30)),
    st.tuples(st.just("clear"), numbers),
    st.tuples(st.just("set"), numbers, st.lists(texts, max_size=3)),
    st.tuples(st.just("delete"), numbers),
    st.tuples(st.just("give"), numbers),
    st.tuples(st.just("anonymise"), numbers),
)
searches = st.tuples(queries, st.booleans(), st.integers(1, 7))


class World:
    """Four conversations of two users, and what happens to them."""

    def __init__(self) -> None:
        self.users = [UserFactory(), UserFactory()]
        self.conversations = [ConversationFactory(owner=self.users[n // 2], limit=40 * (n + 1)) for n in range(4)]

    def happen(self, what: str, number: int, *more: Any) -> None:
        if what == "anonymise":
            erase_user(self.users[1], how="anonymise")
            return
        conversation = Conversation.objects.filter(pk=self.conversations[number].pk).first()
        if conversation is None:
            return
        match what:
            case "add":
                conversation.memory.add(*messages(more[0]))
            case "set":
                conversation.memory.set(messages(more[0]))
            case "index":
                indexing.index_all(conversation)
            case "purge":
                old = Message.objects.filter(conversation=conversation, evicted_in__isnull=False)
                keys = list(old.order_by("position").values_list("pk", flat=True)[: more[0]])
                Message.objects.filter(pk__in=keys).update(evicted_at=NOW)
                list(purge_evicted(NOW + timedelta(days=1), Conversation.objects.filter(pk=conversation.pk)))
            case "clear":
                conversation.memory.clear()
            case "delete":
                conversation.delete()
            case "give":
                conversation.owner = self.users[conversation.owner == self.users[0]]
                conversation.save()


def messages(texts: list[str]) -> list[ChatMessage]:
    return [UserMessage(text) if number % 2 else AiMessage(text) for number, text in enumerate(texts, 1)]


def documents(chosen: Any) -> list[Document]:
    return [
        Document(row.conversation_id, row.position, row.text, row.created_at)
        for row in Message.objects.filter(origin="said", conversation__in=chosen)
    ]


Filter = tuple[dict[str, Any], Callable[[Document], bool]]


def filters(there: list[Document]) -> list[Filter]:
    """Return arguments of a search, each with whether a document fits them."""
    rows = Message.objects.filter(evicted_in__isnull=True).values_list(
        "conversation", "position", "covers_from", "origin"
    )
    retained = {
        (key, position if origin == "said" else covered)
        for key, position, covered, origin in rows
        if origin in ("said", "copy")
    }
    types = {(row.conversation_id, row.position): row.type for row in Message.objects.all()}
    middle = there[len(there) // 2].created_at if there else NOW
    return [
        ({}, lambda document: True),
        ({"evicted": True}, lambda document: (document.conversation, document.position) not in retained),
        ({"evicted": False}, lambda document: (document.conversation, document.position) in retained),
        ({"since": middle}, lambda document: document.created_at >= middle),
        ({"until": middle}, lambda document: document.created_at < middle),
        ({"types": ["AI"]}, lambda document: types[document.conversation, document.position] == "AI"),
    ]


def places(hits: list[Hit]) -> list[tuple[Any, int]]:
    return [(hit.conversation.pk, hit.position) for hit in hits]


def find_all(chosen: Any, text: str, size: int, **options: Any) -> list[Hit]:
    """Return the hits of all pages."""
    found: list[Hit] = []
    page = search(chosen, text, limit=size, **options)
    while page.next:
        assert len(page) <= size
        found += page
        page = search(chosen, text, limit=size, after=page.next, **options)
    return found + page


@pytest.mark.slow
@settings(
    max_examples=budget.examples(24),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # each example asks some hundred searches
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(events, max_size=14), st.lists(searches, min_size=1, max_size=3))
def test_it_finds_what_a_naive_scan_finds(happened: list[Any], asked: list[tuple[str, bool, int]]) -> None:
    world = World()
    for event in happened:
        world.happen(*event)
    scopes = [Conversation.objects.filter(owner=user) for user in world.users]
    scopes += [Conversation.objects.filter(pk=conversation.pk) for conversation in world.conversations]
    for scope in scopes:
        there = documents(scope)
        for options, is_chosen in filters(there):
            for text, prefix, size in asked:
                for order in ("newest", "relevance"):
                    expected = naive_search(there, text, order=order, prefix=prefix, is_chosen=is_chosen)
                    hits = find_all(scope, text, size, order=order, prefix=prefix, **options)
                    expected_places = [(found.conversation, found.position) for found in expected]
                    assert places(hits) == expected_places, (text, prefix, options, order, happened)
        for finding in wrong_documents(scope, repair=False):
            assert "positions fewer" in finding.found  # nobody has indexed them yet
    mine = {conversation.pk for conversation in Conversation.objects.filter(owner=world.users[0])}
    for text, prefix, _ in asked:
        for order in ("newest", "relevance"):
            hits = search(Conversation.objects.filter(owner=world.users[0]), text, order=order, prefix=prefix)
            assert mine.issuperset(hit.conversation.pk for hit in hits)


class TestHits:
    def test_what_a_hit_says(self) -> None:
        conversation = ConversationFactory(window="messages", limit=2)
        conversation.memory.add(
            UserMessage("I am allergic to  penicillin."), AiMessage("Noted."), UserMessage("Thanks!")
        )
        [hit] = conversation.search("Penicillin")
        assert (hit.conversation, hit.position, hit.type) == (conversation, 0, "USER")
        assert (hit.text, hit.snippet) == ("I am allergic to  penicillin.", "I am allergic to penicillin.")
        assert [hit.snippet[start:end] for start, end in hit.marks] == ["penicillin"]
        assert (hit.is_retained, hit.eviction_reason, hit.score) == (False, "window", None)
        message = conversation.messages.get(position=0)
        assert (hit.evicted_at, hit.created_at) == (message.evicted_at, message.created_at)

    def test_an_answer_without_the_words_is_found_by_its_question(self) -> None:
        conversation = ConversationFactory()
        for question, answer in [
            ("What is for lunch?", "Soup."),
            ("Which drug is dangerous?", "That one."),
            ("?", "!"),
        ]:
            conversation.memory.add(UserMessage(question), AiMessage(answer))
        hits = conversation.search("dangerous drugs", order="relevance")
        assert [hit.text for hit in hits] == ["Which drug is dangerous?", "That one.", "Soup."]
        assert [bool(hit.score) for hit in hits] == [True] * 3

    def test_of_an_owner(self) -> None:
        user, other = UserFactory(), UserFactory()
        for owner in (user, other, user):
            ConversationFactory(owner=owner).memory.add(UserMessage("hello"))
        assert {hit.conversation.owner for hit in Conversation.objects.search("hello", owner=user)} == {user}
        assert len(Conversation.objects.search("hello")) == 3
        assert len(user.chatmemory_conversations.search("hello")) == 2
        assert len(Conversation.objects.filter(owner=other).search("hello")) == 1

    @pytest.mark.django_db(transaction=True)
    def test_async(self) -> None:
        conversation = ConversationFactory()
        conversation.memory.add(UserMessage("hello"))
        for searched in (conversation, Conversation.objects, Conversation.objects.all()):
            [hit] = asyncio.run(searched.asearch("hello"))
            assert (hit.conversation, hit.position) == (conversation, 0)

    @pytest.mark.parametrize(
        ("arguments", "error"),
        [
            ({"order": "best"}, r"order must be \"newest\" or \"relevance\", but is: 'best'"),
            ({"limit": 0}, "limit must be between 1 and 100, but is: 0"),
            ({"limit": 101}, "limit must be between 1 and 100, but is: 101"),
            ({"after": "1.2"}, "after must be the cursor of a hit"),
            ({"types": ["HUMAN"]}, "types must be among .*, but one is: 'HUMAN'"),
        ],
    )
    def test_bad_arguments(self, arguments: dict[str, Any], error: str) -> None:
        conversation = ConversationFactory()
        conversation.memory.add(UserMessage("hello"))
        with pytest.raises(ValueError, match=error):
            conversation.search("hello", **arguments)


@pytest.mark.django_db
@pytest.mark.parametrize("is_indexed", [True, False])
def test_what_is_not_readable_is_as_if_it_were_not_there(is_indexed: bool) -> None:
    """A message without text is no document, so an index with empty ones has only what is readable."""

    def ranked(hidden: str, readable: list[str]) -> list[tuple[int, int | None]]:
        made = ConversationFactory()
        result = ToolExecutionResultMessage("1", "look_up", hidden)
        said = [UserMessage("Is there tea?"), result, AiMessage("A kettle."), UserMessage("Sure?"), AiMessage("Tea.")]
        made.memory.add(SystemMessage(hidden or "."), *said * 3)
        if is_indexed:
            indexing.index_all(made)
        hits = search(
            Conversation.objects.filter(pk=made.pk), "tea kettle 4711", order="relevance", readable=readable, limit=50
        )
        return [(hit.position, hit.score) for hit in hits]

    readable = ["USER", "AI"]
    assert ranked("The kettle has the number 4711.", readable) == ranked("", readable) == ranked("", [])
    assert ranked("The kettle has the number 4711.", []) != ranked("", [])
