"""The calls of the REST API that search, and the filter ``search`` of the lists."""

from __future__ import annotations

import random
from datetime import datetime
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from chatmemory import AiMessage, SystemMessage, UserMessage
from chatmemory.contrib.search import corpus, indexing, lists, searching
from chatmemory.models import Conversation
from tests.rest.test_staff import signed_in
from tests.support.api import url
from tests.support.factories import ConversationFactory, UserFactory
from tests.support.planted import PERMISSIONS, member

pytestmark = pytest.mark.django_db

EVERYWHERE = "/api/search/"


@pytest.fixture
def conversation(user: Any) -> Conversation:
    made: Conversation = ConversationFactory(owner=user, title="Health", window="messages", limit=2)
    made.memory.add(SystemMessage("You are a nurse."), UserMessage("I am allergic to penicillin."))
    made.memory.add(AiMessage("Then no penicillin\nfor you 🙂: an allergy is serious."), UserMessage("Thank you!"))
    return made


def found(client: Client, query: str, address: str = EVERYWHERE, **more: Any) -> list[dict[str, Any]]:
    """Return the results of all pages."""
    results: list[dict[str, Any]] = []
    following: str | None = address
    parameters: dict[str, Any] | None = {"q": query, **more}
    while following:
        answer = client.get(following, parameters)
        assert answer.status_code == 200, answer.content
        results += answer.json()["results"]
        following, parameters = answer.json()["next"], None
    return results


def places(results: list[dict[str, Any]]) -> list[int]:
    return [each["position"] for each in results]


class TestSearch:
    @pytest.mark.parametrize("part", [None, "search/"])
    def test_a_hit_says_where_it_is_and_what_became_of_it(
        self, api: Client, conversation: Conversation, part: str | None
    ) -> None:
        address = EVERYWHERE if part is None else url(conversation, part)
        newest, older = found(api, "PENICILLIN", address)
        row = conversation.messages.get(position=1)
        moments = {name: datetime.fromisoformat(older.pop(name)) for name in ("evicted_at", "created_at")}
        assert moments == {"evicted_at": row.evicted_at, "created_at": row.created_at}
        assert older == {
            "conversation": str(conversation.pk),
            "title": "Health",
            "position": 1,
            "type": "USER",
            "snippet": "I am allergic to penicillin.",
            "marks": [[17, 27]],
            "score": None,
            "state": "evicted",
            "eviction_reason": "window",
        }
        assert newest["snippet"] == "Then no penicillin for you 🙂: an allergy is serious."
        assert newest["marks"] == [[8, 18]]

    def test_the_last_word_may_be_unfinished(self, api: Client, conversation: Conversation) -> None:
        assert places(found(api, "penicillin aller")) == [2, 1]
        assert places(found(api, "aller penicillin")) == []
        assert places(found(api, "penicillin aller", prefix="false")) == []
        assert places(found(api, "aller ")) == []

    @pytest.mark.parametrize(
        ("query", "parameters", "positions"),
        [
            ("penicillin", {"type": "USER"}, [1]),
            ("penicillin", {"type": "USER,AI"}, [2, 1]),
            ("you", {"state": "retained"}, [3, 0]),
            ("you", {"state": "evicted"}, [2]),
            ("you", {"since": "2001-01-01T00:00:00Z"}, [3, 2, 0]),
            ("you", {"until": "2001-01-01T00:00:00Z"}, []),
            ('"no penicillin"', {}, [2]),
            ("penicillin -serious", {}, [1]),
            ("", {}, []),
            ("!?", {}, []),
            ("-you", {}, []),
        ],
    )
    def test_what_is_asked_for(
        self, api: Client, conversation: Conversation, query: str, parameters: dict[str, str], positions: list[int]
    ) -> None:
        for address in (EVERYWHERE, url(conversation, "search/")):
            assert places(found(api, query, address, **parameters)) == positions

    def test_by_relevance_any_word_counts(self, api: Client, conversation: Conversation) -> None:
        hits = found(api, "serious allergies", order="relevance")
        assert hits[0]["position"] == 2
        assert {1, 2} <= set(places(hits))
        scores = [each["score"] for each in hits]
        assert scores == sorted(scores, reverse=True)
        assert scores[0] > 0

    @pytest.mark.slow
    @pytest.mark.parametrize("order", ["newest", "relevance"])
    @pytest.mark.parametrize("size", [1, 3, 50])
    def test_pages_have_every_hit_once(self, api: Client, user: Any, order: str, size: int) -> None:
        for number in range(3):
            made = ConversationFactory(owner=user)
            made.memory.add(*(UserMessage(f"A cat, {number} {each}") for each in range(7)))
        hits = found(api, "cat", order=order, page_size=size)
        assert len({(each["conversation"], each["position"]) for each in hits}) == len(hits) == 21
        whole = found(api, "cat", order=order)
        assert hits == whole

    @pytest.mark.parametrize("order", ["newest", "relevance"])
    @pytest.mark.parametrize("query", ['"common common"', '-"common words" common'])
    @pytest.mark.parametrize(("name", "most"), [("_MOST_CHECKED", 10), ("_MOST_CHECKED_CHARS", 200)])
    def test_a_page_reads_so_many_messages_for_a_phrase(
        self, api: Client, user: Any, monkeypatch: pytest.MonkeyPatch, order: str, query: str, name: str, most: int
    ) -> None:
        monkeypatch.setattr(searching, name, most)
        conversation = ConversationFactory(owner=user, window="messages", limit=100)
        texts = ["Common words are common."] * 40
        texts[3] = texts[30] = "The common, common cold."
        conversation.memory.add(*map(UserMessage, texts))
        address, parameters = url(conversation, "search/"), {"q": query, "order": order, "page_size": "50"}
        pages: list[list[int]] = []
        while address:
            answer = api.get(address, parameters).json()
            pages.append(places(answer["results"]))
            address, parameters = answer["next"], {}
        assert sorted(position for page in pages for position in page) == [3, 30]
        assert len(pages) > 3
        assert [] in pages

    def test_a_page_has_at_most_fifty(self, api: Client, user: Any) -> None:
        ConversationFactory(owner=user, limit=100).memory.add(*[UserMessage("A cat")] * 60)
        assert len(api.get(EVERYWHERE, {"q": "cat", "page_size": 1000}).json()["results"]) == 50
        assert len(api.get(EVERYWHERE, {"q": "cat"}).json()["results"]) == 20

    @pytest.mark.parametrize(
        ("query", "place", "code"),
        [
            (f"q={'x' * 1001}", "q", "max_length"),
            ("q=%00", "q", "invalid_characters"),
            ("q=a&q=b", "q", "repeated"),
            ("q=a&order=oldest", "order", "invalid_choice"),
            ("q=a&type=HUMAN", "type", "invalid_choice"),
            ("q=a&type=", "type", "invalid_choice"),
            ("q=a&state=gone", "state", "invalid_choice"),
            ("q=a&since=yesterday", "since", "invalid"),
            ("q=a&until=0001-01-01T00:00:00%2B14:00", "until", "overflow"),
            ("q=a&prefix=2", "prefix", "invalid"),
            ("q=a&page_size=0", "page_size", "invalid"),
            ("q=a&cursor=x", "cursor", "invalid"),
            (f"q=a&cursor=1.{'0' * 32}.-1", "cursor", "invalid"),
            ("q=a&search=a", "search", "unknown_field"),
        ],
    )
    def test_what_is_wrong_is_named(
        self, api: Client, conversation: Conversation, query: str, place: str, code: str
    ) -> None:
        for address in (EVERYWHERE, url(conversation, "search/")):
            answer = api.get(f"{address}?{query}")
            assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json")
            [error] = answer.json()["errors"]
            assert (error["place"], error["code"]) == (place, code)

    def test_too_many_conversations(self, api: Client, user: Any, monkeypatch: Any) -> None:
        monkeypatch.setattr(corpus, "MOST_CONVERSATIONS", 1)
        first, _second = ConversationFactory(owner=user), ConversationFactory(owner=user)
        assert api.get(EVERYWHERE, {"q": "a"}).status_code == 400
        assert api.get(url(first, "search/"), {"q": "a"}).status_code == 200

    def test_a_rate_for_searches(self, api: Client, conversation: Conversation, settings: Any) -> None:
        backend = "django.core.cache.backends.locmem.LocMemCache"
        settings.CACHES = {"default": {"BACKEND": backend, "LOCATION": "searches by the index"}}
        settings.CHATMEMORY = {**settings.CHATMEMORY, "THROTTLE_RATES": {"searches": "1/day"}}
        assert api.get(EVERYWHERE, {"q": "a"}).status_code == 200
        assert api.get(url(conversation, "search/"), {"q": "a"}).status_code == 429

    def test_head_has_no_body(self, api: Client, conversation: Conversation) -> None:
        assert (api.head(EVERYWHERE, {"q": "you"}).status_code, api.head(EVERYWHERE).content) == (200, b"")

    def test_an_unknown_conversation(self, api: Client, conversation: Conversation) -> None:
        theirs = ConversationFactory(owner=UserFactory())
        for address in (url(theirs, "search/"), "/api/conversations/x/search/"):
            assert api.get(address, {"q": "a"}).status_code == 404


class TestStaff:
    def test_what_they_searched_for_is_recorded(self, conversation: Conversation) -> None:
        user = member()
        client = signed_in(user)
        for method in (client.get, client.head):
            method(EVERYWHERE, {"q": "penicillin", "owner": "*"})
            method(url(conversation, "search/"), {"q": "penicillin", "owner": "*"})
        entries = LogEntry.objects.order_by("pk").values_list("object_id", "change_message")
        base = "api/conversations/{conversation_id}/search/"
        query = "?q=penicillin&owner=%2A"
        assert list(entries) == [
            entry
            for method in ("GET", "HEAD")
            for entry in (
                (None, f"REST: {method} api/search/{query}"),
                (str(conversation.pk), f"REST: {method} {base}{query}"),
            )
        ]

    def test_without_reading_they_find_nothing(self, conversation: Conversation) -> None:
        client = signed_in(member(set(PERMISSIONS) - {"read_message_text"}))
        for address in (EVERYWHERE, url(conversation, "search/")):
            answers = [client.get(address, {"q": word, "owner": "*"}) for word in ("penicillin", "nothing")]
            assert [answer.status_code for answer in answers] == [404, 404]
            assert answers[0].json() == answers[1].json()


WORDS = ["apple", "pear", "Birne", "北京大学", "東京タワー", "ภาษาไทย", "user_id", "café", "привет", "👍🏽", "the"]


@pytest.mark.slow
def test_two_owners_never_find_what_is_the_others() -> None:
    draw = random.Random(7)
    owners = [UserFactory(), UserFactory()]
    clients = [signed_in(owner) for owner in owners]
    mine: list[list[Conversation]] = [[], []]
    for number in range(8):
        made = ConversationFactory(owner=owners[number % 2], limit=5, title=draw.choice(WORDS))
        texts = [" ".join(draw.choices(WORDS, k=draw.randrange(1, 6))) for _ in range(draw.randrange(1, 60))]
        made.memory.add(*(UserMessage(f"{text} owner{number % 2}") for text in texts))
        if draw.random() < 0.7:
            indexing.index_all(made)
        mine[number % 2].append(made)
    hits = 0
    for _ in range(80):
        who = draw.randrange(2)
        own = {str(made.pk) for made in mine[who]}
        query = " ".join(
            draw.choices([*WORDS, "app", "-the", '"the pear"', "owner0", "owner1"], k=draw.randrange(1, 4))
        )
        parameters = {"q": query, "order": draw.choice(["newest", "relevance"]), "page_size": draw.randrange(1, 50)}
        theirs = draw.choice(mine[1 - who])
        if draw.random() < 0.3:
            parameters["cursor"] = f"{draw.randrange(10**16)}.{theirs.pk.hex}.{draw.randrange(60)}"
        found = clients[who].get(EVERYWHERE, parameters).json()["results"]
        assert {each["conversation"] for each in found} <= own, (query, parameters)
        assert not any(f"owner{1 - who}" in each["snippet"] for each in found)
        hits += len(found)
        listed = clients[who].get("/api/conversations/", {"search": query}).json()["results"]
        assert {each["id"] for each in listed} <= own
        assert clients[who].get(url(theirs, "search/"), parameters).status_code == 404
        assert clients[who].get(url(theirs, "messages/"), {"search": query}).status_code == 404
    assert hits > 250


class TestLists:
    """The filter ``search`` of the lists of conversations and of messages."""

    @pytest.mark.parametrize("is_indexed", [True, False])
    @pytest.mark.parametrize(
        ("query", "positions"),
        [
            ("penicillin", [1, 2]),
            ("PENI", [1, 2]),
            ("enicillin", []),
            ("allergic penicillin", [1]),
            ("penicillin aller", [1, 2]),
            ("aller penicillin", []),
            ('"no penicillin"', [2]),
            ('"penicillin no"', []),
            ("penicillin -serious", [1]),
            ("!", [3]),
            ("🙂", [2]),
            ("nobody", []),
        ],
    )
    def test_words_are_found_by_the_index(
        self, api: Client, conversation: Conversation, query: str, positions: list[int], is_indexed: bool
    ) -> None:
        if is_indexed:
            indexing.index_all(conversation)
        ConversationFactory(owner=conversation.owner, title="Other")
        page = api.get(url(conversation, "messages/"), {"search": query}).json()["results"]
        assert places(page) == positions
        listed = api.get("/api/conversations/", {"search": query}).json()["results"]
        assert [each["title"] for each in listed] == (["Health"] if positions else [])

    def test_a_title_is_found_as_well(self, api: Client, conversation: Conversation) -> None:
        ConversationFactory(owner=conversation.owner, title="Penicillium")
        listed = api.get("/api/conversations/", {"search": "penicill"}).json()["results"]
        assert [each["title"] for each in listed] == ["Penicillium", "Health"]

    @pytest.mark.parametrize("ordering", ["position", "-position"])
    @pytest.mark.parametrize(("query", "matching"), [("cat", 20), ('"a cat"', 10), ("cat odd", 10), ("cat -odd", 10)])
    def test_very_many_matches(
        self, api: Client, user: Any, monkeypatch: Any, ordering: str, query: str, matching: int
    ) -> None:
        monkeypatch.setattr(lists, "MOST_LISTED", 3)
        made = ConversationFactory(owner=user, limit=100)
        made.memory.add(*(UserMessage("cat, odd" if number % 2 else "a cat") for number in range(20)))
        pages = []
        following: str | None = url(made, "messages/")
        parameters: Any = {"search": query, "page_size": 4, "ordering": ordering}
        while following:
            answer = api.get(following, parameters).json()
            pages += places(answer["results"])
            following, parameters = answer["next"], None
        assert pages == sorted(set(pages), reverse=ordering != "position")
        assert len(pages) == matching
        others = ConversationFactory(owner=user, limit=100)
        others.memory.add(*[UserMessage("cat")] * 4)
        listed = api.get("/api/conversations/", {"search": query}).json()["results"]
        assert str(made.pk) in [each["id"] for each in listed]

    def test_what_was_not_said_is_found_by_its_text(self, api: Client, conversation: Conversation) -> None:
        conversation.memory.set([UserMessage("A summary of enicillin")])
        for origin, positions in (("rewrite", [4]), ("said,rewrite", [1, 2, 4]), ("said", [])):
            page = api.get(url(conversation, "messages/"), {"search": "enicillin", "origin": origin})
            assert places(page.json()["results"]) == positions

    def test_without_a_complete_index_texts_are_read(
        self, api: Client, conversation: Conversation, monkeypatch: Any
    ) -> None:
        monkeypatch.setattr(corpus, "MOST_UNINDEXED", 8)
        conversation.memory.add(*(UserMessage(f"More {number}") for number in range(12)))
        assert places(found(api, "penicillin")) == []
        for is_indexed, query in ((False, "enicillin"), (True, "penicillin")):
            if is_indexed:
                indexing.index_all(conversation)
            page = api.get(url(conversation, "messages/"), {"search": query}).json()["results"]
            assert places(page) == [1, 2]
            listed = api.get("/api/conversations/", {"search": query}).json()["results"]
            assert [each["title"] for each in listed] == ["Health"]

    def test_with_too_many_conversations_texts_are_read(self, api: Client, user: Any, monkeypatch: Any) -> None:
        monkeypatch.setattr(corpus, "MOST_CONVERSATIONS", 1)
        for title in ("first", "second"):
            ConversationFactory(owner=user, title=title).memory.add(UserMessage(f"{title}: penicillin"))
        listed = api.get("/api/conversations/", {"search": "nicillin"}).json()["results"]
        assert {each["title"] for each in listed} == {"first", "second"}
