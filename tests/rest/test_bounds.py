"""What one request may cost: pages end, windows are bounded, and a memory that is too large is refused."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chatmemory import AiMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.database import operations
from chatmemory.database.change import Target
from chatmemory.models import Conversation, Message
from tests.support.api import LISTED, USER, patch, positions, post, put, url, user_message
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db

TOO_LARGE = "urn:chatmemory:problem:memory-too-large"


@pytest.fixture
def bounds(settings):
    """Sets some of the settings."""

    def put_in_place(**given):
        settings.CHATMEMORY = getattr(settings, "CHATMEMORY", {}) | given

    return put_in_place


def said(user, *lengths, **window):
    """A conversation of messages of these lengths, added by the site itself."""
    made = ConversationFactory(owner=user, **window)
    for length in lengths:
        made.memory.add(UserMessage("x" * length))
    return made


def pages(api, address):
    """The positions of each page, from the first to the last."""
    found = []
    while address:
        answer = api.get(address)
        assert answer.status_code == 200
        found.append(positions(answer))
        address = answer.json()["next"]
    return found


class TestPages:
    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ("?page_size=200", [[0, 1], [2], [3, 4], [5]]),
            ("?page_size=200&ordering=-position", [[5, 4], [3], [2], [1, 0]]),
            ("?page_size=1", [[0], [1], [2], [3], [4], [5]]),
            ("?page_size=200&position_min=1&position_max=4", [[1], [2], [3, 4]]),
        ],
    )
    def test_a_page_ends_by_characters(self, api, user, bounds, query, expected):
        bounds(MAX_PAGE_CHARS=100)
        conversation = said(user, 50, 50, 300, 60, 40, 10)
        assert pages(api, url(conversation, "messages/") + query) == expected

    def test_one_goes_back_over_the_same_messages(self, api, user, bounds):
        bounds(MAX_PAGE_CHARS=100)
        conversation = said(user, 50, 50, 300, 60, 40, 10)
        answer = api.get(url(conversation, "messages/?page_size=200"))
        while answer.json()["next"]:
            answer = api.get(answer.json()["next"])
        found = [positions(answer)]
        while answer.json()["previous"]:
            answer = api.get(answer.json()["previous"])
            found.insert(0, positions(answer))
        assert [position for page in found for position in page] == [0, 1, 2, 3, 4, 5]
        assert all(len(page) <= 2 for page in found)

    def test_what_is_kept_beside_the_text_counts(self, api, user, bounds):
        bounds(MAX_PAGE_CHARS=1000)
        conversation = ConversationFactory(owner=user)
        conversation.memory.add(*[AiMessage("Hm", thinking="x" * 600) for _ in range(3)])
        assert pages(api, url(conversation, "messages/")) == [[0], [1], [2]]

    def test_items_are_whole(self, api, user, bounds):
        bounds(MAX_PAGE_CHARS=100)
        (item, *_others) = api.get(url(said(user, 300), "messages/")).json()["results"]
        assert item.keys() == LISTED
        assert item["text"] == "x" * 300


@pytest.mark.parametrize("window", ["tokens", "messages"])
class TestLimits:
    def test_above_the_bound_are_refused_for_a_new_window(self, api, user, window):
        conversation = said(user)
        for send, path in (
            (post, "/api/conversations/"),
            (patch, url(conversation)),
            (post, url(conversation, "memory/preview/")),
        ):
            assert send(api, path, {"window": window, "limit": 2_000_000}).status_code in {200, 201}
            refused = send(api, path, {"window": window, "limit": 2_000_001})
            assert refused.status_code == 400
            assert refused.json()["errors"] == [
                {
                    "place": "limit",
                    "code": "max_value",
                    "detail": "expected at most 2000000",
                    "params": {"most": 2_000_000},
                }
            ]

    def test_the_sites_own_limit_stays(self, api, user, window):
        conversation = said(user, window=window, limit=2**31 - 1)
        for change in ({"title": "Tea", "model": "gpt-4"}, {"window": window}, {"limit": 2**31 - 1}):
            assert patch(api, url(conversation), change).status_code == 200


class TestMemories:
    def test_an_addition_that_makes_it_too_large_is_refused(self, api, user, bounds):
        bounds(MAX_MEMORY_CHARS=100)
        conversation = said(user, 60)
        refused = post(api, url(conversation, "messages/"), user_message("x" * 41))
        assert refused.status_code == 413
        assert refused.json()["type"] == TOO_LARGE
        assert Message.objects.count() == 1
        assert post(api, url(conversation, "messages/"), user_message("x" * 40)).status_code == 201

    def test_what_the_window_evicts_does_not_count(self, api, user, bounds):
        bounds(MAX_MEMORY_CHARS=100)
        conversation = said(user, 60, 40, window="messages", limit=2)
        assert post(api, url(conversation, "messages/"), user_message("x" * 60)).status_code == 201
        assert post(api, url(conversation, "messages/"), user_message("x" * 41)).status_code == 413
        batch = {"messages": [user_message("x" * 90), user_message("x" * 50), user_message("x" * 50)]}
        assert post(api, url(conversation, "messages/"), batch).status_code == 201

    def test_what_a_token_window_evicts_does_not_count(self, api, user, bounds):
        bounds(MAX_MEMORY_CHARS=100)
        conversation = said(user, window="tokens", limit=20)
        for _ in range(5):
            assert post(api, url(conversation, "messages/"), user_message("one two three four")).status_code == 201

    def test_what_a_low_water_mark_evicts_does_not_count(self, api, user, bounds):
        bounds(MAX_MEMORY_CHARS=165)
        conversation = said(user, 40, 40, 40, 40, window="messages", limit=4, low_water=50)
        assert post(api, url(conversation, "messages/"), user_message("x" * 50)).status_code == 201

    def test_what_is_pinned_counts(self, api, user, bounds):
        bounds(MAX_MEMORY_CHARS=100)
        conversation = said(user, 60, 10, 10, 10, window="messages", limit=4)
        conversation.memory.pin(0)
        listed = api.get(url(conversation, "memory/")).json()["messages"]
        new = user_message("y" * 45)
        refused = [
            post(api, url(conversation, "messages/"), new),
            put(api, url(conversation, "memory/"), {"messages": [*listed, new]}),
        ]
        assert [(each.status_code, each.json()["type"]) for each in refused] == [(413, TOO_LARGE)] * 2
        conversation.memory.unpin(0)
        assert put(api, url(conversation, "memory/"), {"messages": [*listed, new]}).status_code == 200

    @pytest.mark.parametrize(("keep", "status"), [(0, 413), (None, 201)])
    def test_what_stays_because_results_gave_way_counts(self, api, user, bounds, keep, status):
        conversation = ConversationFactory(owner=user, keep_tool_results=keep)
        conversation.memory.add(
            UserMessage("u0"),
            AiMessage("a1", thinking="x" * 600),
            AiMessage(None, [ToolExecutionRequest("1", "look_up", "{}")]),
            ToolExecutionResultMessage("1", "look_up", "word " * 400),
            UserMessage("u4"),
        )
        conversation.memory.set_window(limit=conversation.retained_tokens + 3)
        bounds(MAX_MEMORY_CHARS=3000)
        new = {"type": "AI", "text": "word " * 60, "thinking": "x" * 2300}
        assert post(api, url(conversation, "messages/"), new).status_code == status

    @pytest.mark.parametrize("room", [0, 30])
    def test_placeholders_with_more_characters_count(self, api, user, bounds, room):
        conversation = ConversationFactory(owner=user, keep_tool_results=0)
        conversation.memory.add(
            UserMessage("u0"),
            AiMessage(None, [ToolExecutionRequest("1", "look_up", "{}")]),
            ToolExecutionResultMessage("1", "look_up", "\U0001f9ec" * 8),
            UserMessage("u3"),
        )
        conversation.memory.set_window(limit=conversation.retained_tokens + 3)
        chars = sum(len(row.text) + len(row.payload or "") for row in conversation.messages.all())
        bounds(MAX_MEMORY_CHARS=chars + 2 + room)
        answer = post(api, url(conversation, "messages/"), user_message("u4"))
        assert answer.status_code == (201 if room else 413)
        assert api.get(url(conversation, "memory/")).status_code == 200

    def test_the_number_of_messages_is_bounded(self, api, user, bounds):
        bounds(MAX_MEMORY_MESSAGES=2)
        conversation = said(user, 1, 1)
        refused = post(api, url(conversation, "messages/"), USER)
        assert (refused.status_code, refused.json()["type"]) == (413, TOO_LARGE)

    def test_one_that_is_written_as_a_whole_is_bounded(self, api, user, bounds):
        bounds(MAX_MEMORY_CHARS=100)
        conversation = said(user, 60)
        for address, body in (
            (url(conversation, "memory/"), {"messages": [user_message("x" * 101)]}),
            ("/api/stores/tea/", [user_message("x" * 60), user_message("y" * 41)]),
        ):
            refused = put(api, address, body)
            assert (refused.status_code, refused.json()["type"]) == (413, TOO_LARGE)
        assert put(api, url(conversation, "memory/"), {"messages": [user_message("y" * 100)]}).status_code == 200
        assert put(api, "/api/stores/tea/", [user_message("y" * 100)]).status_code == 204

    def test_one_that_the_site_made_too_large_is_not_read(self, api, user, bounds):
        conversation = said(user, 60, 60, window="messages", limit=10)
        bounds(MAX_MEMORY_CHARS=100)
        store = f"/api/stores/{conversation.memory_id}/"
        for refused in (
            api.get(url(conversation, "memory/")),
            api.get(store),
            put(api, url(conversation, "memory/"), {"messages": [USER]}),
            put(api, store, [USER]),
            post(api, url(conversation, "messages/"), USER),
            post(api, url(conversation, "memory/preview/"), {"limit": 1}),
            patch(api, url(conversation), {"limit": 1}),
        ):
            assert (refused.status_code, refused.json()["type"]) == (413, TOO_LARGE)
        assert api.get(url(conversation, "memory/?at=1")).status_code == 200
        assert patch(api, url(conversation), {"title": "Tea"}).status_code == 200
        assert len(api.get(url(conversation, "messages/")).json()["results"]) == 2

    def test_it_can_be_cleared_without_reading_it(self, api, user, bounds):
        conversation = said(user, 60, 60)
        bounds(MAX_MEMORY_CHARS=100)
        with CaptureQueriesContext(connection) as statements:
            assert api.delete(url(conversation, "memory/")).status_code == 204
        assert not any(reads_texts(statement["sql"]) for statement in statements)
        assert api.get(url(conversation, "memory/")).json()["messages"] == []
        assert [row["reason"] for row in api.get(url(conversation, "messages/")).json()["results"]] == ["cleared"] * 2


def reads_texts(statement):
    columns = statement.partition(" FROM ")[0]
    return statement.startswith("SELECT") and (".`text`" in columns or '."text"' in columns) and "LENGTH" not in columns


def locks(statement):
    return statement.startswith("UPDATE") or "FOR NO KEY UPDATE" in statement or "FOR UPDATE" in statement


class TestAnotherModel:
    def test_tokens_are_counted_before_anybody_has_to_wait(self, api, user):
        conversation = said(user, 30, 20, 10)
        with CaptureQueriesContext(connection) as statements:
            assert patch(api, url(conversation), {"model": "gpt-4"}).status_code == 200
        asked = [statement["sql"] for statement in statements]
        first_lock = next(index for index, sql in enumerate(asked) if locks(sql))
        assert any(reads_texts(sql) for sql in asked[:first_lock])
        assert not any(reads_texts(sql) for sql in asked[first_lock:])
        assert Conversation.objects.get().retained_tokens == sum(Message.objects.values_list("token_count", flat=True))

    def test_what_comes_meanwhile_is_counted_under_the_lock(self, user):
        conversation = said(user, 30, 20)
        # Its object is not known, so nothing can be counted before.
        operations.set_window(Target.named(user, conversation.memory_id, None), model="gpt-4")
        under_lock = list(Message.objects.values_list("token_count", flat=True))
        other = said(user, 30, 20)
        other.memory.set_window(model="gpt-4")
        assert under_lock == list(other.messages.values_list("token_count", flat=True))


class TestSearches:
    @pytest.mark.parametrize("part", ["", "messages/"])
    def test_a_long_one_is_refused(self, api, user, part):
        address = url(said(user, 5), part) if part else "/api/conversations/"
        assert api.get(address, {"search": "x" * 100}).status_code == 200
        refused = api.get(address, {"search": "x" * 101})
        assert refused.status_code == 400
        assert refused.json()["errors"][0]["place"] == "search"

    def test_they_have_a_rate_of_their_own(self, api, user, bounds, settings):
        backend = "django.core.cache.backends.locmem.LocMemCache"
        settings.CACHES = {"default": {"BACKEND": backend, "LOCATION": "searches"}}
        bounds(THROTTLE_RATES={"searches": "1/day"})
        address = url(said(user, 5), "messages/")
        assert api.get(address, {"search": "x"}).status_code == 200
        assert api.get("/api/conversations/", {"search": "x"}).status_code == 429
        assert api.get(address).status_code == 200


class TestBodies:
    @pytest.mark.slow
    @pytest.mark.parametrize("value", ['{"":0}', "[]", "0", '"a"'])
    def test_too_many_values_are_refused(self, api, user, value):
        refused = post(api, url(said(user), "messages/"), f'{{"messages": [{",".join([value] * 450_000)}]}}')
        assert (refused.status_code, "values" in refused.json()["detail"]) == (413, True)

    @pytest.mark.slow
    @pytest.mark.parametrize("text", ["," * 390_000, "[{" * 190_000, '"' * 190_000, "\\" * 190_000])
    def test_what_is_in_a_string_is_no_value(self, api, user, text):
        added = post(api, url(said(user), "messages/"), {"messages": [user_message(text)] * 2})
        assert added.status_code == 201
        assert Message.objects.first().text == text

    @pytest.mark.slow
    def test_a_string_that_does_not_end_is_read_once(self, api, user):
        body = '"' + ',\\"' * 1_900_000
        assert post(api, url(said(user), "messages/"), body).status_code == 400
