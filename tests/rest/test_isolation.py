"""Everybody reaches their own. Made from the URL conf, so that a new route cannot be forgotten."""

from __future__ import annotations

from typing import Any

import django
import pytest
from django.core.exceptions import FieldError
from django.db import connection, models
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from chatmemory import AiMessage, UserMessage
from chatmemory.models import Conversation, ConversationQuerySet, IdempotencyKey, Message, MessageQuerySet
from chatmemory.urls import urlpatterns
from tests.support.api import USER, post, send, url
from tests.support.factories import ConversationFactory, UserFactory
from tests.support.kept_names import LOCATING

ROUTES = [pattern for pattern in urlpatterns if pattern.name not in {"root", "schema", "docs"}]
PUBLIC_BODIES = [USER, {"messages": [USER]}, [USER], {"title": "x"}, {"window": "messages", "limit": 1}, {}]
READ_BODIES = {"post", "put", "patch"}


def path_of(pattern: Any, conversation: Conversation) -> str:
    values = {"conversation_id": conversation.pk, "position": 0, "message_id": 0, "memory_id": conversation.memory_id}
    return reverse(f"chatmemory:{pattern.name}", kwargs={name: values[name] for name in pattern.pattern.converters})


def requests_of(pattern: Any, methods: tuple[str, ...]) -> list[tuple[str, Any]]:
    """Each method, and each body for those that read one. What a route does not have is refused whatever is sent."""
    reading = READ_BODIES & set(getattr(pattern.callback, "actions", ()))
    return [(method, body) for method in methods for body in (PUBLIC_BODIES if method.lower() in reading else [USER])]


def everything() -> list[Any]:
    return [list(model._default_manager.order_by("pk").values()) for model in (Conversation, Message, IdempotencyKey)]


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ROUTES, ids=lambda pattern: pattern.name)
def test_everything_is_the_owners_alone(api: Client, user: Any, pattern: Any) -> None:
    stranger = UserFactory()
    theirs = ConversationFactory(owner=stranger, title="Secret", memory_id="Secret ID", metadata={"secret": 1})
    theirs.memory.add(UserMessage("secret"))
    theirs.memory.add(UserMessage("secret too"), idempotency_key="key")
    nobodys = ConversationFactory(owner=None, title="Secret", memory_id="Secret ID")
    before = everything()
    for conversation in (theirs, nobodys):
        path = path_of(pattern, conversation)
        for query in ("", "?owner=*", f"?owner={stranger.pk}", "?format=openai"):
            for method, body in requests_of(pattern, ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")):
                answer = send(api, method, path + query, body, idempotency_key="key")
                assert "ecret" not in answer.content.decode().replace("Secret ID", ""), (method, path, query)
                if "conversation_id" in pattern.pattern.converters or "owner" in query:
                    assert answer.status_code in {404, 405}, (method, path, query)
                else:
                    assert answer.status_code < 500
    Conversation.objects.filter(owner=user).delete()
    assert everything() == before


@pytest.mark.parametrize(
    "query", ["search=secret", "title=Secret", "metadata_key=secret", "memory_id=Secret ID", "has_evicted=true"]
)
def test_no_filter_finds_what_is_anothers(api: Client, query: str) -> None:
    for owner in (UserFactory(), None):
        theirs = ConversationFactory(
            owner=owner, title="Secret", memory_id="Secret ID", metadata={"secret": 1}, window="messages", limit=1
        )
        theirs.memory.add(UserMessage("secret"), UserMessage("more"))
    assert api.get(f"/api/conversations/?{query}").json()["results"] == []


@pytest.mark.slow
@pytest.mark.parametrize("pattern", urlpatterns, ids=lambda pattern: pattern.name)
def test_nothing_without_signing_in(client: Client, db: None, settings: Any, pattern: Any) -> None:
    nobodys = ConversationFactory(owner=None, title="Secret")
    nobodys.memory.add(UserMessage("secret"))
    path = path_of(pattern, nobodys)
    methods = ("GET", "POST", "PUT", "PATCH", "DELETE")
    for method in methods:
        assert send(client, method, path, {}).status_code == 403
    settings.CHATMEMORY = {"USERS": "all", "PERMISSION_CLASSES": ["rest_framework.permissions.AllowAny"]}
    before = everything()
    for method, body in requests_of(pattern, methods):
        answer = send(client, method, path, body)
        assert answer.status_code in {200, 403, 404, 405}, (method, path)
        assert "ecret" not in answer.content.decode()
    assert everything() == before


class OnlyTitledOpen:
    """A project's own rule about single conversations."""

    def has_permission(self, request: Any, view: Any) -> bool:
        return True

    def has_object_permission(self, request: Any, view: Any, conversation: Conversation) -> bool:
        return conversation.title == "Open"


@pytest.mark.parametrize("pattern", [each for each in ROUTES if each.pattern.converters], ids=lambda each: each.name)
def test_the_projects_permission_is_asked_about_each_conversation(
    api: Client, user: Any, settings: Any, pattern: Any
) -> None:
    settings.CHATMEMORY = {"USERS": "all", "PERMISSION_CLASSES": ["tests.rest.test_isolation.OnlyTitledOpen"]}
    closed = ConversationFactory(owner=user, title="Closed")
    closed.memory.add(UserMessage("u"))
    before = everything()
    for method, body in requests_of(pattern, ("GET", "POST", "PUT", "PATCH", "DELETE")):
        assert send(api, method, path_of(pattern, closed), body).status_code in {400, 403, 405}
    assert everything() == before
    Conversation.objects.update(title="Open")
    statuses = {send(api, "GET", path_of(pattern, closed), {}).status_code}
    assert statuses <= {200, 204, 405}


@pytest.mark.slow
def test_query_counts_do_not_grow(api: Client, user: Any, django_assert_num_queries: Any) -> None:
    conversation = ConversationFactory(owner=user, window="messages", limit=40, memory_id="x")
    for count in (3, 60):
        conversation.memory.add(*(AiMessage(f"m{number}") for number in range(count)))
        for number in range(count):
            conversation.record_usage({"model": f"m{number}", "input_tokens": 1}, position=number)
        ConversationFactory.create_batch(count // 3, owner=user)
        for queries, path in [  # session and user, then lengths where there are texts, then rows
            (3, "/api/conversations/"),
            # the conversations that are searched, their index, and what it lacks
            (6, "/api/conversations/?search=m1&has_evicted=true"),
            (6, "/api/search/?q=m1"),
            (3, url(conversation)),
            # and, if there are messages, the feedback to them, their usage and their siblings
            (8, url(conversation, "messages/")),
            (5 + 3 * (count > 40), url(conversation, "messages/?state=evicted&ordering=-position")),
            (7, url(conversation, "messages/1/")),
            (4, url(conversation, "feedback/")),
            (5, url(conversation, "usage/")),  # with their total
            (3, "/api/usage/?group=model"),
            (5, url(conversation, "memory/")),
            (5, url(conversation, "memory/?at=1")),
            (6, url(conversation, "memory/?at_message=1")),
            (5 + LOCATING, "/api/stores/x/"),
        ]:
            with django_assert_num_queries(queries):
                assert api.get(path).status_code == 200
        tag = api.get(url(conversation, "memory/"))["ETag"]
        with django_assert_num_queries(3):
            assert api.get(url(conversation, "memory/"), headers={"If-None-Match": tag}).status_code == 304
        with django_assert_num_queries(6):
            assert post(api, url(conversation, "memory/preview/"), {"limit": 2}).status_code == 200


@pytest.mark.slow
def test_what_a_write_costs_does_not_grow_either(api: Client, user: Any) -> None:
    counts = []
    for size in (10, 500):
        conversation = ConversationFactory(owner=user, window="messages", limit=5, memory_id=f"x{size}")
        conversation.memory.add(*(UserMessage(f"m{number}") for number in range(size)))
        answers = [
            (201, "POST", url(conversation, "messages/"), {"messages": [USER, USER]}),
            (200, "PUT", url(conversation, "memory/"), {"messages": [USER]}),
            (204, "PUT", f"/api/stores/x{size}/", [USER, USER]),
            (200, "PATCH", url(conversation), {"title": "x", "limit": 1}),
            (204, "DELETE", url(conversation, "memory/"), {}),
        ]
        for status, method, path, body in answers:
            with CaptureQueriesContext(connection) as captured:
                assert send(api, method, path, body, idempotency_key="k").status_code == status
            counts.append((size, method, len(captured)))
    assert [each[1:] for each in counts[:5]] == [each[1:] for each in counts[5:]]


@pytest.mark.skipif(django.VERSION < (6, 1), reason="Django 6.1 has fetch modes")
def test_no_answer_fetches_a_field_or_relation_later(api: Client, user: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for queryset in (ConversationQuerySet, MessageQuerySet):
        init = queryset.__init__

        def forbidding(self: Any, *args: Any, _init: Any = init, **kwargs: Any) -> None:
            _init(self, *args, **kwargs)
            self._fetch_mode = models.FETCH_RAISE

        monkeypatch.setattr(queryset, "__init__", forbidding)
    conversation = ConversationFactory(owner=user, window="messages", limit=2, memory_id="x")
    with pytest.raises(FieldError):
        _ = Conversation.objects.only("pk").get().title
    for _ in range(3):
        assert post(api, url(conversation, "messages/"), USER, idempotency_key="k").status_code == 201
    for pattern in ROUTES:
        for method, body in requests_of(pattern, ("GET", "PUT", "PATCH", "POST", "DELETE")):
            if (method, pattern.name) != ("DELETE", "conversation-detail"):
                assert send(api, method, path_of(pattern, conversation), body).status_code < 500
