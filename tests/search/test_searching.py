"""A search finds what a naive scan of all messages finds, in the same order, whatever happened to the messages."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from chatmemory import AiMessage, ChatMessage, UserMessage
from chatmemory.contrib.search import indexing
from chatmemory.contrib.search.checking import wrong_documents
from chatmemory.contrib.search.models import Page, Progress, Segment
from chatmemory.contrib.search.searching import Hit, search
from chatmemory.models import Conversation, Message
from chatmemory.personal_data import erase_user
from chatmemory.retention import purge_evicted
from tests.search.oracle import Document
from tests.search.oracle import search as naive_search
from tests.support.factories import ConversationFactory, UserFactory

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 1, tzinfo=UTC)

# Few words, so that queries find something; several scripts, and names of several tokens.
WORDS = (
    "apple apples applied pear Birne café cafe naïve user_id v2.3.1 2024-05-01 3.14 C++ a-b kim@example.org "
    "北京 北京大学 大学 猫 東京タワー 한국어 한국 ภาษาไทย שלום привет Ελλάδα 👍🏽 the the the of to and"
).split()
texts = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)
queries = st.lists(
    st.one_of(
        st.sampled_from(WORDS),
        st.sampled_from(WORDS).map(lambda word: f"-{word}"),
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(lambda words: f'"{" ".join(words)}"'),
        st.sampled_from(["app", "ap", "京", "大", "caf", "unknown", '"', "-"]),
    ),
    min_size=1,
    max_size=5,
).map(" ".join)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 3), st.lists(texts, min_size=1, max_size=20)),
        st.tuples(st.just("index"), st.integers(0, 3)),
        st.tuples(st.just("purge"), st.integers(0, 3), st.integers(0, 30)),
        st.tuples(st.just("clear"), st.integers(0, 3)),
        st.tuples(st.just("set"), st.integers(0, 3), st.lists(texts, max_size=3)),
        st.tuples(st.just("delete"), st.integers(0, 3)),
        st.tuples(st.just("give"), st.integers(0, 3)),
        st.tuples(st.just("anonymise")),
    ),
    max_size=14,
)


class World:
    """Four conversations of two users, and what happens to them."""

    def __init__(self) -> None:
        self.users = [UserFactory(), UserFactory()]
        self.conversations = [ConversationFactory(owner=self.users[n // 2], limit=40 * (n + 1)) for n in range(4)]

    def happen(self, what: str, *details: Any) -> None:
        if what == "anonymise":
            erase_user(self.users[1], how="anonymise")
            return
        number, *more = details
        conversation = Conversation.objects.filter(pk=self.conversations[number].pk).first()
        if conversation is None:
            return
        match what:
            case "add":
                conversation.memory.add(*self.said(more[0]))
            case "set":
                conversation.memory.set(self.said(more[0]))
            case "index":
                for _ in indexing.index(conversation):
                    pass
            case "purge":
                old = Message.objects.filter(conversation=conversation, evicted_in__isnull=False)
                keys = old.order_by("position").values_list("pk", flat=True)[: more[0]]
                Message.objects.filter(pk__in=list(keys)).update(evicted_at=NOW)
                for _ in purge_evicted(NOW + timedelta(days=1), Conversation.objects.filter(pk=conversation.pk)):
                    pass
            case "clear":
                conversation.memory.clear()
            case "delete":
                conversation.delete()
            case "give":
                conversation.owner = self.users[conversation.owner == self.users[0]]
                conversation.save()

    def said(self, texts: list[str]) -> list[ChatMessage]:
        return [UserMessage(text) if number % 2 else AiMessage(text) for number, text in enumerate(texts, 1)]


def documents(chosen: Any) -> list[Document]:
    return [
        Document(row.conversation_id, row.position, row.text, row.created_at)
        for row in Message.objects.filter(origin="said", conversation__in=chosen)
    ]


def of(hits: list[Hit]) -> list[tuple[Any, int]]:
    return [(hit.conversation.pk, hit.position) for hit in hits]


def find_all(chosen: Any, text: str, size: int, **options: Any) -> list[Hit]:
    """Return the hits of all pages."""
    found: list[Hit] = []
    after = ""
    while page := search(chosen, text, limit=size, after=after, **options):
        assert len(page) <= size
        found += page
        after = page[-1].cursor
    return found


@settings(max_examples=250, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps, st.lists(st.tuples(queries, st.booleans(), st.integers(1, 7)), min_size=1, max_size=4))
def test_it_finds_what_a_naive_scan_finds(steps: list[Any], asked: list[tuple[str, bool, int]]) -> None:
    world = World()
    for step in steps:
        world.happen(*step)
    scopes = [Conversation.objects.filter(owner=user) for user in world.users]
    scopes += [Conversation.objects.filter(pk=conversation.pk) for conversation in world.conversations]
    for scope in scopes:
        there = documents(scope)
        retained = set(
            Message.objects.filter(origin="said", evicted_in__isnull=True).values_list("conversation", "position")
        )
        copied = Message.objects.filter(origin="copy", evicted_in__isnull=True)
        retained |= set(copied.values_list("conversation", "covers_from"))

        def is_evicted(document: Document, retained: Any = retained) -> bool:
            return (document.conversation, document.position) not in retained

        filters: list[tuple[dict[str, Any], Callable[[Document], bool]]] = [
            ({}, lambda document: True),
            ({"evicted": True}, is_evicted),
            ({"evicted": False}, lambda document: not is_evicted(document)),
            ({"since": there[len(there) // 2].created_at if there else NOW}, lambda document: True),
        ]
        middle = filters[3][0]["since"]
        filters[3] = (filters[3][0], lambda document: document.created_at >= middle)
        filters.append(({"until": middle}, lambda document: document.created_at < middle))
        for text, prefix, size in asked:
            for options, is_chosen in filters:
                for order in ("newest", "relevance"):
                    expected = naive_search(there, text, order=order, prefix=prefix, is_chosen=is_chosen)
                    hits = find_all(scope, text, size, order=order, prefix=prefix, **options)
                    places = [(found.conversation, found.position) for found in expected]
                    assert of(hits) == places, (text, prefix, size, options, order, [one.text for one in there])
    for conversation in Conversation.objects.filter(pk__in=[one.pk for one in world.conversations]):
        findings = wrong_documents(Conversation.objects.filter(pk=conversation.pk), repair=False)
        assert all("positions fewer" in finding.found for finding in findings)


def test_repairs(client: Any) -> None:
    world = World()
    world.happen("add", 0, ["apple"] * 70)
    conversation = world.conversations[0]
    Progress.objects.all().delete()
    Segment.objects.all().delete()
    Page.objects.all().delete()
    [finding] = wrong_documents(Conversation.objects.all(), repair=False)
    assert "64 positions fewer" in str(finding)
    assert [finding.repaired for finding in wrong_documents(Conversation.objects.all(), repair=True)] == [True]
    assert not list(wrong_documents(Conversation.objects.all(), repair=False))
    Page.objects.filter(conversation=conversation).update(data=Page.objects.first().data[:0] or b"")
