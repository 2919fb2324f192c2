"""Projects whose staff reach the conversations of some owners only."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.core.exceptions import ImproperlyConfigured
from django.test import Client

from chatmemory.conf import setting
from chatmemory.models import Conversation, IdempotencyKey
from chatmemory.rest.urls import ROUTES
from tests.rest.test_isolation import everything
from tests.rest.test_staff import CALLS, OF_ONE_OWNER, call, signed_in
from tests.support.api import USER, post, put, url
from tests.support.factories import ConversationFactory, UserFactory
from tests.support.planted import EVICTED, RETAINED, member, planted, said_in

pytestmark = pytest.mark.django_db


class TestTenants:
    """A project that lets staff reach some conversations only."""

    @pytest.fixture(params=["acme", "repeated"], autouse=True)
    def rule(self, settings: Any, request: Any) -> None:
        settings.CHATMEMORY = {**settings.CHATMEMORY, "STAFF_CONVERSATIONS": f"tests.support.tenants.{request.param}"}

    @pytest.fixture
    def client(self) -> Client:
        return signed_in(member(is_superuser=True))

    @pytest.mark.slow
    def test_what_is_not_theirs_is_as_if_it_were_not_there(self, client: Client) -> None:
        theirs, another = planted(), ConversationFactory(owner=UserFactory(username="acme-1"))
        unknown = Conversation(memory_id="unknown")
        before = everything()
        for (name, method), query in product(CALLS, (f"owner={theirs.owner_id}", "owner=*")):
            if query == "owner=*" and (name, method) in OF_ONE_OWNER:
                continue
            case = (name, method, query)
            answer, entries = call(client, name, method, theirs, query)
            assert said_in(answer) == set(), case
            if name == "conversation-list" and method == "GET":
                expected = [] if query != "owner=*" else [str(another.pk)] * _is_said(another)
                assert [each["id"] for each in answer.json()["results"]] == expected
                continue
            if name == "search":  # one entry, as for a list
                assert answer.json() == {"results": [], "next": None}
                continue
            nothing, _entries = call(client, name, method, unknown, query)
            if (name, method) not in {("conversation-list", "POST"), ("store", "PUT")}:
                assert answer.status_code == nothing.status_code, case
                assert answer.content == nothing.content, case
            else:
                assert answer.status_code == 404, case
            assert entries == [], case
            assert everything() == before, case

    @pytest.mark.slow
    def test_what_is_theirs_is_reached_once(self, client: Client) -> None:
        theirs = planted(owner=UserFactory(username="acme-1"))
        listed = client.get("/api/conversations/?owner=*").json()["results"]
        assert [each["id"] for each in listed] == [str(theirs.pk)]
        for name, method in CALLS:
            if (name, method) != ("conversation-list", "POST"):
                answer, _entries = call(client, name, method, theirs, f"owner={theirs.owner_id}")
                assert (answer.status_code < 300, said_in(answer)) == (True, CALLS[name, method][2])

    def test_ones_own_are_not_asked_about(self) -> None:
        user = UserFactory()
        mine = planted(owner=user)
        assert said_in(signed_in(user).get(url(mine, "messages/"))) == EVICTED | RETAINED


def _is_said(conversation: Conversation) -> bool:
    """The rule by messages reaches no conversation without any."""
    return setting("STAFF_CONVERSATIONS").endswith("acme")


class TestCreatingForTenants:
    @pytest.fixture(autouse=True)
    def rule(self, settings: Any) -> None:
        settings.CHATMEMORY = {**settings.CHATMEMORY, "STAFF_CONVERSATIONS": "tests.support.tenants.acme"}

    def test_only_for_owners_whose_conversations_they_reach(self) -> None:
        client = signed_in(member())
        ours, stranger = UserFactory(username="acme-1"), UserFactory()
        assert post(client, f"/api/conversations/?owner={ours.pk}", {}).status_code == 201
        assert put(client, f"/api/stores/x/?owner={ours.pk}", [USER]).status_code == 204
        assert post(client, f"/api/conversations/?owner={stranger.pk}", {}, idempotency_key="k").status_code == 404
        assert put(client, f"/api/stores/x/?owner={stranger.pk}", [USER]).status_code == 404
        assert set(Conversation.objects.values_list("owner", flat=True)) == {ours.pk}
        assert not IdempotencyKey.objects.exists()
        assert LogEntry.objects.count() == 2

    def test_no_refusal_and_no_repetition_tells_of_others(self) -> None:
        stranger = UserFactory()
        body = {"memory_id": "taken"}
        made = post(signed_in(stranger), "/api/conversations/", body, idempotency_key="k")
        assert made.status_code == 201
        client = signed_in(member())
        for sent, key in ((body, {}), (body, {"idempotency_key": "k"}), ({}, {"idempotency_key": "k"})):
            answer = post(client, f"/api/conversations/?owner={stranger.pk}", sent, **key)
            assert (answer.status_code, made.json()["id"] in answer.content.decode()) == (404, False)

    @pytest.mark.parametrize("header", [{"if_match": '"7"'}, {"if_none_match": "*"}])
    def test_no_precondition_tells_of_others(self, header: dict[str, str]) -> None:
        theirs = planted()
        path = f"/api/stores/{theirs.memory_id}/?owner={theirs.owner_id}"
        answer = put(signed_in(member()), path, [USER], **header)
        assert (answer.status_code, "version" in answer.json()) == (404, False)


def test_every_call_that_creates_conversations_was_looked_at() -> None:
    """Each goes through ``create_conversation``, and is called above or below; so is ``PUT stores/``."""
    assert {each.id for *_route, each in ROUTES if "add" in each.permission} == {
        "createConversation",
        "forkConversation",
    }


def test_no_copy_is_made_that_its_maker_does_not_reach(settings: Any) -> None:
    settings.CHATMEMORY = {**settings.CHATMEMORY, "STAFF_CONVERSATIONS": "tests.support.tenants.originals"}
    theirs, client = planted(), signed_in(member())
    path, body = url(theirs, f"fork/?owner={theirs.owner_id}"), {"at": 4}
    for key in ({}, {"idempotency_key": "k"}):
        answer = post(client, path, body, **key)
        assert (answer.status_code, said_in(answer)) == (404, set())
    assert (Conversation.objects.count(), IdempotencyKey.objects.count(), LogEntry.objects.count()) == (1, 0, 0)
    own = post(signed_in(theirs.owner), url(theirs, "fork/"), body, idempotency_key="k")
    assert own.status_code == 201
    assert post(client, path, body, idempotency_key="k").status_code == 404  # and not the owner's copy


@pytest.mark.parametrize("name", ["listed", "sliced"])
def test_a_rule_that_returns_no_queryset_says_so(settings: Any, name: str) -> None:
    settings.CHATMEMORY = {**settings.CHATMEMORY, "STAFF_CONVERSATIONS": f"tests.support.tenants.{name}"}
    planted(owner=UserFactory(username="acme-1"))
    client = signed_in(member())
    for path in ("/api/conversations/?owner=*", "/admin/chatmemory/conversation/"):
        with pytest.raises(ImproperlyConfigured, match=rf"tests\.support\.tenants\.{name}' must return an? .*queryset"):
            client.get(path)
