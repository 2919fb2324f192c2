"""Staff and the conversations of others: every route with every method and every set of permissions.

The same words are asked of the admin's pages in tests/admin/test_staff.py, so that the two cannot differ.
"""

from __future__ import annotations

from itertools import chain, combinations, product
from typing import Any
from uuid import UUID

import pytest
from django.contrib.admin.models import LogEntry
from django.db import transaction
from django.test import Client

from chatmemory.models import Compaction, Conversation, Message
from chatmemory.rest.filters import ConversationFilter, MessageFilter
from chatmemory.rest.views.conversations import ConversationViewSet
from chatmemory.rest.views.memory import MessageViewSet
from chatmemory.urls import urlpatterns
from tests.rest.test_isolation import everything, path_of
from tests.support.api import USER, patch, post, send, url
from tests.support.factories import ConversationFactory, UserFactory
from tests.support.planted import (
    EVICTED,
    HIDDEN,
    METADATA,
    NOBODY_SAID,
    PERMISSIONS,
    RETAINED,
    SUMMARIZE,
    TITLE,
    member,
    planted,
    said_in,
    subsets,
)

pytestmark = pytest.mark.django_db

ROUTES = {pattern.name: pattern for pattern in urlpatterns if pattern.name not in {"root", "schema", "docs"}}

VIEW = {"view_conversation"}
READ = VIEW | {"read_message_text"}
WRITE = {"change_conversation", "read_message_text", "write_message_text"}

# What a window of one message evicts, beside the system message, and the conversation itself.
CUT = RETAINED - {"plantedSystem"} | METADATA | {TITLE}

# What a search for "planted" shows: titles, and what was said as text.
FOUND = {TITLE, "plantedEvicted", "plantedSystem", "plantedResult", "plantedRetained"}

ANSWERED = {"plantedArgument", "plantedThinking", "plantedResult"}
ANSWER = {"id": "answer-1", "role": "assistant", "parts": [{"type": "text", "text": "Nothing else"}]}

# What each call needs, a body for it, and what its answer says to those who may read everything. The message that the
# address names is the one that was evicted; only a retained one can be pinned, and only an answer can be rated.
CALLS: dict[tuple[str, str], tuple[set[str], Any, set[str]]] = {
    ("conversation-list", "GET"): (VIEW, None, {TITLE, *METADATA}),
    ("conversation-list", "POST"): ({"add_conversation"}, {"memory_id": "new"}, set()),
    ("conversation-detail", "GET"): (VIEW, None, {TITLE, *METADATA}),
    ("conversation-detail", "PATCH"): ({"change_conversation"}, {"limit": 1}, CUT),
    ("conversation-detail", "DELETE"): ({"delete_conversation"}, None, set()),
    ("message-list", "GET"): (READ, None, EVICTED | RETAINED),
    ("message-list", "POST"): (WRITE, USER, ANSWERED),
    ("message-detail", "GET"): (READ, None, EVICTED),
    ("feedback", "GET"): (VIEW, None, set()),
    ("message-feedback", "PUT"): (READ, {"value": "up"}, set()),
    ("message-feedback", "DELETE"): (READ, None, set()),
    ("usage", "GET"): (VIEW, None, set()),
    ("conversation-usage", "GET"): (VIEW, None, set()),
    ("memory", "GET"): (READ, None, RETAINED),
    ("memory", "PUT"): (WRITE, {"messages": [USER]}, RETAINED),
    ("memory", "DELETE"): ({"change_conversation"}, None, set()),
    ("memory-preview", "POST"): (READ, {"limit": 1}, RETAINED),
    ("message-pin", "POST"): ({"change_conversation"}, None, {"plantedRetained"}),
    ("message-unpin", "POST"): ({"change_conversation"}, None, {"plantedRetained"}),
    ("memory-clear-tool-results", "POST"): (WRITE, {"keep": 0, "placeholder": "."}, {"plantedResult"}),
    ("memory-replay", "POST"): (VIEW, {"variants": [{"limit": 2}]}, set()),
    ("compaction", "GET"): (VIEW, None, set()),
    ("compaction", "POST"): (WRITE, {"through": 3, "text": "."}, RETAINED - {"plantedSystem", "plantedRetained"}),
    ("conversation-rewind", "POST"): ({"change_conversation"}, {"before": 4}, EVICTED | {"plantedRetained"}),
    ("conversation-edit", "POST"): (WRITE, {"position": 4, "message": USER}, EVICTED),
    ("conversation-switch", "POST"): ({"change_conversation"}, {"position": 1}, set()),
    ("conversation-fork", "POST"): (READ | {"add_conversation"}, {"at": 4}, {TITLE, *METADATA}),
    ("tree", "GET"): (READ, None, EVICTED | RETAINED - {"plantedSystem"}),
    ("tree-message", "PUT"): (WRITE, {"parentId": "1", "message": ANSWER}, ANSWERED),
    ("tree-message", "DELETE"): ({"change_conversation"}, None, set()),
    ("turns", "GET"): (READ, None, EVICTED | RETAINED - {"plantedSystem"}),
    ("turns", "DELETE"): ({"change_conversation"}, None, set()),
    ("turn-stream", "GET"): (READ, None, set()),
    ("search", "GET"): (READ, None, FOUND),
    ("conversation-search", "GET"): (READ, None, FOUND),
    ("store", "GET"): (READ, None, RETAINED),
    ("store", "PUT"): (WRITE, [USER], set()),
    ("store", "DELETE"): ({"change_conversation"}, None, set()),
}  # fmt: skip

# A turn is no part of a transaction, which each call here is undone by: see tests/turns/test_access.py.
ELSEWHERE = {("turns", "POST")}

# These name one owner; the store that they make or find is one owner's.
OF_ONE_OWNER = {("conversation-list", "POST"), ("store", "GET"), ("store", "PUT"), ("store", "DELETE")}


def address(name: str, conversation: Conversation, query: str) -> str:
    path = path_of(ROUTES[name], conversation)
    query += "&q=planted" * name.endswith("search")
    position = {"message-pin": 4, "message-unpin": 4, "message-feedback": 2, "tree-message": "answer-1"}.get(name, 1)
    return f"{path.replace('/0/', f'/{position}/')}?{query}"


def granted(permissions: Any) -> set[str]:
    """Who may change may see, as in the admin."""
    return {*permissions, *(VIEW if "change_conversation" in permissions else ())}


def signed_in(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def call(client: Client, name: str, method: str, conversation: Conversation, query: str, **headers: str) -> Any:
    """Make a call and undo what it did."""
    with transaction.atomic():
        answer = send(client, method, address(name, conversation, query), CALLS[name, method][1] or {}, **headers)
        entries = list(LogEntry.objects.values_list("user_id", "object_id", "action_flag"))
        transaction.set_rollback(True)
    return answer, entries


def test_every_route_and_method_is_named_here() -> None:
    found = {
        (name, method.upper())
        for name, pattern in ROUTES.items()
        for method in pattern.callback.actions  # type: ignore[attr-defined]
        if method != "head"
    }
    assert found == set(CALLS) | ELSEWHERE


@pytest.mark.slow
def test_a_summary_is_made_for_those_who_may_have_one_made_and_read_it(settings: Any) -> None:
    settings.CHATMEMORY = {"USERS": "all", "SUMMARIZER": "tests.rest.test_compaction.brief"}
    theirs = planted()
    names = ("view_conversation", "change_conversation", "read_message_text", "write_message_text", SUMMARIZE)
    for permissions in chain.from_iterable(combinations(names, size) for size in range(len(names) + 1)):
        answer = post(signed_in(member(permissions)), url(theirs, "compaction/?owner=*"), {"keep": 100})
        may = {"read_message_text", SUMMARIZE} <= {*permissions}
        may &= not {"view_conversation", "change_conversation"}.isdisjoint(permissions)
        assert answer.status_code == (200 if may else 404), permissions


@pytest.mark.slow
@pytest.mark.parametrize("permissions", list(subsets()), ids=lambda permissions: "+".join(permissions) or "none")
def test_words_are_for_those_who_may_read_and_acts_for_those_who_may_act(permissions: tuple[str, ...]) -> None:
    """One member of staff makes all calls, because signing in takes longer than a call."""
    theirs, user = planted(), member(permissions)
    client = signed_in(user)
    reads = "read_message_text" in permissions
    before = everything()
    for (name, method), (needed, _body, says) in CALLS.items():
        for query in (f"owner={theirs.owner_id}", "owner=*"):
            if query == "owner=*" and not is_telling(permissions, needed):
                continue
            case = (name, method, query)
            answer, entries = call(client, name, method, theirs, query)
            if not needed <= granted(permissions):
                assert (answer.status_code, said_in(answer), entries) == (404, set(), []), case
                continue
            if query == "owner=*" and (name, method) in OF_ONE_OWNER:
                assert (answer.status_code, said_in(answer)) == (400, set()), case
                continue
            assert answer.status_code in {200, 201, 204}, (case, answer.content)
            assert said_in(answer) == (says if reads else says - HIDDEN), case
            is_change = method != "GET" and name not in {"memory-preview", "memory-replay"}
            assert bool(entries) == (is_change or (reads and bool(says & HIDDEN))), case
            assert all(entry[0] == user.pk for entry in entries), case
    assert everything() == before


def is_telling(permissions: tuple[str, ...], needed: set[str]) -> bool:
    """Return whether everybody's conversations are asked for with this set, too.

    It has at most one permission, lacks at most one, or is what the call needs, with or without reading. The other sets
    are asked of one owner's conversations only, for the rule is the same.
    """
    few = len(permissions) <= 1 or len(permissions) >= len(PERMISSIONS) - 1
    return few or set(permissions) - {"read_message_text"} == needed - {"read_message_text"}


def test_rows_of_others_say_whose_they_are() -> None:
    theirs, nobodys, user = planted(), ConversationFactory(owner=None), member(PERMISSIONS)
    mine = ConversationFactory(owner=user)
    client = signed_in(user)
    owners = {made.pk: made.owner_id for made in (theirs, nobodys, mine)}
    listed = client.get("/api/conversations/?owner=*").json()["results"]
    assert {UUID(row["id"]): row["owner"] for row in listed} == owners
    named = f"?owner={theirs.owner_id}"
    assert client.get(url(theirs, named)).json()["owner"] == theirs.owner_id
    assert patch(client, url(theirs, named), {"title": "T"}).json()["owner"] == theirs.owner_id
    assert post(client, f"/api/conversations/{named}", {}).json()["owner"] == theirs.owner_id
    for address in ("/api/conversations/", f"/api/conversations/?owner={user.pk}"):
        [row] = client.get(address).json()["results"]
        assert "owner" not in row
    assert patch(client, url(mine), {"owner": None}).json()["errors"][0]["place"] == "owner"


@pytest.mark.slow
def test_permissions_are_nothing_without_being_staff() -> None:
    theirs = planted()
    client = signed_in(member(is_staff=False))
    for (name, method), query in product(CALLS, (f"owner={theirs.owner_id}", "owner=*")):
        answer, entries = call(client, name, method, theirs, query)
        assert (answer.status_code, said_in(answer), entries) == (404, set(), []), (name, method, query)


@pytest.mark.slow
def test_ones_own_are_as_they_are_without_any_permission() -> None:
    user = UserFactory()
    mine = planted(owner=user)
    client = signed_in(user)
    for (name, method), query in product(CALLS, ("", f"owner={user.pk}")):
        answer, entries = call(client, name, method, mine, query)
        assert answer.status_code in {200, 201, 204}, (name, method, query)
        assert said_in(answer) == CALLS[name, method][2], (name, method, query)
        assert entries == [], (name, method, query)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["conversation-list", "conversation-detail", "message-list", "message-detail", "memory"]
)
def test_pages_for_a_browser_say_no_more(name: str) -> None:
    theirs = planted()
    query = f"owner={theirs.owner_id}"
    for codename in (*PERMISSIONS, None):
        client = signed_in(member(each for each in PERMISSIONS if each != codename))
        answer, _entries = call(client, name, "GET", theirs, query, accept="text/html")
        assert answer["Content-Type"].startswith("text/html")
        if codename == "read_message_text":
            assert not said_in(answer) & HIDDEN
        else:
            assert said_in(answer) >= CALLS[name, "GET"][2]


HARMLESS = {
    "memory_id", "window", "title", "has_evicted", "created_after", "created_before", "updated_after", "updated_before",
}  # fmt: skip
ORACLES = {"search": ("plantedEvicted", "plantedRetained"), "metadata_key": ("plantedKey",)}


class TestWithoutReading:
    """Those who see conversations and change them, but may not read what messages say."""

    @pytest.fixture
    def theirs(self) -> Conversation:
        return planted()

    @pytest.fixture
    def blind(self) -> Client:
        return signed_in(member(set(PERMISSIONS) - {"read_message_text"}))

    def test_every_filter_and_order_was_looked_at(self) -> None:
        assert set(ConversationFilter.base_filters) == HARMLESS | set(ORACLES)
        assert ConversationViewSet.ordering_fields == ["updated_at", "created_at"]
        # The history as such is for those who may read.
        assert MessageViewSet.list.call.permission == ("view", "read_text")
        assert MessageViewSet.retrieve.call.permission == ("view", "read_text")
        assert "search" in MessageFilter.base_filters

    @pytest.mark.parametrize("name", ORACLES)
    def test_a_word_that_was_said_is_answered_like_one_that_nobody_said(
        self, blind: Client, theirs: Conversation, name: str
    ) -> None:
        for word in ORACLES[name]:
            for owner in (theirs.owner_id, "*"):
                for path in ("/api/conversations/", url(theirs, "messages/")):
                    answers = [blind.get(path, {"owner": owner, name: each}) for each in (word, NOBODY_SAID)]
                    assert answers[0].status_code == answers[1].status_code >= 400
                    assert answers[0].json() == answers[1].json()

    @pytest.mark.parametrize("name", sorted(HARMLESS))
    def test_no_other_filter_finds_a_word(self, blind: Client, theirs: Conversation, name: str) -> None:
        for word in HIDDEN:
            answers = [blind.get("/api/conversations/", {"owner": "*", name: each}) for each in (word, NOBODY_SAID)]
            assert answers[0].content.replace(word.encode(), b"") == answers[1].content.replace(
                NOBODY_SAID.encode(), b""
            )

    def test_those_who_may_read_search(self, theirs: Conversation) -> None:
        reads = signed_in(member())
        for name, words in ORACLES.items():
            for word in words:
                found = reads.get("/api/conversations/", {"owner": "*", name: word}).json()["results"]
                assert [each["id"] for each in found] == [str(theirs.pk)]
        assert reads.get("/api/conversations/", {"owner": "*", "search": NOBODY_SAID}).json()["results"] == []

    @pytest.mark.slow
    def test_a_summary_and_what_failed_are_told_without_words(self, blind: Client, theirs: Conversation) -> None:
        post(signed_in(theirs.owner), url(theirs, "compaction/"), {"through": 3, "text": "plantedBrief"})
        Compaction.objects.create(conversation=theirs, failures=1, error="ValueError: plantedError")
        owner = signed_in(theirs.owner).get(url(theirs, "compaction/")).json()
        staff = signed_in(member()).get(url(theirs, "compaction/?owner=*")).json()
        assert LogEntry.objects.count() == 1
        unread = blind.get(url(theirs, "compaction/?owner=*")).json()
        assert LogEntry.objects.count() == 1
        found = [(said["last_summary"]["text"], said["failures"]["error"]) for said in (owner, staff, unread)]
        assert found == [
            ("plantedBrief", "ValueError"), ("plantedBrief", "ValueError: plantedError"), ("", "ValueError"),
        ]  # fmt: skip

    def test_no_tag_tells_metadata(self, blind: Client, theirs: Conversation) -> None:
        query = f"?owner={theirs.owner_id}"
        before = blind.get(url(theirs, query))
        Conversation.objects.update(metadata={"another": 1})
        assert blind.get(url(theirs, query))["ETag"] == before["ETag"]
        reads = signed_in(member())
        assert reads.get(url(theirs, query))["ETag"] != before["ETag"]
        refused = patch(blind, url(theirs, query), {"title": "x"}, if_match='"99"').json()
        assert refused["etag"] == before["ETag"]
        assert patch(blind, url(theirs, query), {"title": "x"}, if_match=refused["etag"]).status_code == 200

    def test_no_first_words_stand_in_for_a_title(self, blind: Client, theirs: Conversation) -> None:
        Conversation.objects.update(title="")
        query = f"?owner={theirs.owner_id}"
        assert signed_in(member()).get(url(theirs, query)).json()["display_title"].startswith("planted")
        [listed] = blind.get(f"/api/conversations/{query}").json()["results"]
        assert (listed["display_title"], blind.get(url(theirs, query)).json()["display_title"]) == ("", "")

    def test_metadata_are_not_written_blindly(self, blind: Client, theirs: Conversation) -> None:
        query = f"?owner={theirs.owner_id}"
        assert patch(blind, url(theirs, query), {"metadata": {}}).status_code == 404
        assert post(blind, f"/api/conversations/{query}", {"metadata": {}}).status_code == 404
        theirs.refresh_from_db()
        assert theirs.metadata == {"plantedKey": "plantedValue"}
        assert Conversation.objects.count() == 1

    def test_no_repetition_of_a_request_echoes_what_it_said(self, blind: Client, theirs: Conversation) -> None:
        key = "the owner's"
        said = {"type": "USER", "contents": [{"type": "TEXT", "text": "plantedRepeated"}]}
        assert post(signed_in(theirs.owner), url(theirs, "messages/"), said, idempotency_key=key).status_code == 201
        query = f"?owner={theirs.owner_id}"
        answer = post(blind, url(theirs, f"messages/{query}"), said, idempotency_key=key)
        assert (answer.status_code, "plantedRepeated" in answer.content.decode()) == (404, False)
        again = post(signed_in(member()), url(theirs, f"messages/{query}"), said, idempotency_key=key)
        assert (again.status_code, "plantedRepeated" in again.content.decode()) == (201, True)

    @pytest.mark.parametrize("payload", ['{"contents": [{"type": "plantedBroken"}]}', '{"plantedBroken'])
    def test_no_error_quotes_a_stored_message(self, blind: Client, theirs: Conversation, payload: str) -> None:
        Message.objects.filter(conversation=theirs, position=4).update(payload=payload)
        blind.raise_request_exception = False
        for body in ({"limit": 1}, {"model": "gpt-4"}, {"window": "tokens", "limit": 1}):
            answer = patch(blind, url(theirs, f"?owner={theirs.owner_id}"), body)
            assert "plantedBroken" not in answer.content.decode()

    def test_what_a_new_window_evicts_is_listed_without_words(self, blind: Client, theirs: Conversation) -> None:
        query = f"?owner={theirs.owner_id}"
        answer = patch(blind, url(theirs, query), {"limit": 1}).json()
        assert [(item["position"], item["text"], item["message"]) for item in answer["evicted"]] == [
            (2, "", None), (3, "", None), (4, "", None),
        ]  # fmt: skip
        assert answer["metadata"] == {}
        assert all(item["token_count"] and item["reason"] for item in answer["evicted"])
