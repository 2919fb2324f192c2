"""What a reader may not see has no influence on anything that they get: each call of the API, as everybody.

One hidden text is changed, and each byte and each header of each response must be equal. The calls are those of
tests/rest/test_staff.py, where a new call fails until it is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from itertools import product
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chatmemory import AiMessage, UserMessage
from chatmemory.contrib.feedback.models import Feedback
from chatmemory.contrib.search import indexing
from chatmemory.formats.registry import message_formats
from chatmemory.models import Conversation
from chatmemory.rest.filters import ConversationFilter, MessageFilter
from chatmemory.rest.urls import ROUTES as DECLARED
from chatmemory.retention import purge_evicted
from tests.rest.test_staff import CALLS, ELSEWHERE, ROUTES, signed_in
from tests.rest.test_users import FOR_USERS
from tests.support.api import send
from tests.support.assistants import Speaker, choose
from tests.support.factories import ConversationFactory, UserFactory
from tests.support.influence import (
    LONG,
    QUERIES,
    Answer,
    Site,
    answer_to,
    build,
    equal_answers,
    other_internals,
    other_words,
    say_otherwise,
    undone,
)
from tests.support.planted import PERMISSIONS, SUMMARIZE, member
from tests.support.turns import STREAM, ui_message

pytestmark = pytest.mark.django_db

_FILTERS: dict[str, list[dict[str, Any]]] = {
    "conversation-list": [
        *({"search": text} for text in ("4711", "kettle", "tea", "oor")),
        *({name: value} for name, value in (
            ("memory_id", "mine"), ("window", "tokens"), ("title", "Tea"), ("has_evicted", "true"),
            ("metadata_key", "topic"), ("created_after", "2026-01-01T00:00Z"), ("created_before", "2026-01-01T00:00Z"),
            ("updated_after", "2026-01-01T00:00Z"), ("updated_before", "2026-01-01T00:00Z"),
        )),
        {"ordering": "created_at", "page_size": 1},
    ],
    "message-list": [
        *({"search": text} for text in ("4711", "kettle", "ettl", "%")),
        *({"search": text, "origin": "said,summary,copy,cleared"} for text in ("4711", "kettle")),
        *({name: value} for name, value in (
            ("state", "evicted"), ("type", "SYSTEM,TOOL_EXECUTION_RESULT"), ("reason", "window"), ("origin", "summary"),
            ("pinned", "true"), ("uncovered", "true"), ("branch", "current"), ("position_min", 9), ("position_max", 9),
            ("created_after", "2026-01-01T00:00Z"), ("created_before", "2026-01-01T00:00Z"),
            ("evicted_after", "2026-01-01T00:00Z"), ("evicted_before", "2026-01-01T00:00Z"),
        )),
        {"ordering": "-position"},
        {"ordering": "-position", "page_size": 3},
        *({"format": name, "page_size": 9} for name in ("openai", "ai-sdk")),
    ],
    "memory": [
        *({"format": name} for name in message_formats()),
        {"at": 3},
        {"at_message": 20, "format": "anthropic"},
    ],
    "search": [
        *({"q": q, "order": order} for q, order in product(QUERIES, ("newest", "relevance"))),
        {"q": "tea 4711", "order": "relevance", "type": "AI,SYSTEM", "state": "evicted"},
        {"q": "tea", "order": "relevance", "page_size": 1},
        {"q": "tea", "page_size": 1, "since": "2026-01-01T00:00Z", "prefix": "false"},
        {"q": "tea", "type": "SYSTEM", "until": "2100-01-01T00:00Z"},
    ],
    "turns": [{"before": 20}],
    "usage": [{"group": group} for group in ("model", "operation", "owner")],
}  # fmt: skip
_FILTERS["conversation-search"] = _FILTERS["search"]
_BODIES: dict[tuple[str, str], list[Any]] = {
    ("memory-replay", "POST"): [{"variants": [{"window": "messages", "limit": limit} for limit in (2, 3, 5)]}],
    ("memory-preview", "POST"): [{"window": "messages", "limit": 2}, {"keep_tool_results": 0}],
    ("conversation-fork", "POST"): [{"at": 4}],
    # Nothing is restored: the tokens of restored messages are counted anew, and are no hidden text.
    ("conversation-rewind", "POST"): [{"before": 49}],
    ("turns", "POST"): [{"message": "Is there a kettle, or 4711?"}, {"messages": [ui_message("kettle")]}],
}  # fmt: skip
"""Where the body of the other tests asks for too little."""

_MOST_PAGES = 2


def discreet(messages: Any) -> Iterator[Any]:
    """Say nothing of what the model reads: what it says of it is its own choice, and docs say so."""
    yield "It "
    yield AiMessage("It is.")


@pytest.fixture(autouse=True)
def _site(settings: Any) -> Iterator[None]:
    choose(Speaker(discreet))
    settings.CHATMEMORY = {
        **settings.CHATMEMORY,
        "ASSISTANT": "tests.support.assistants.recalling",
        "USERS": "turns",
        "MAX_PAGE_CHARS": 1500,
        "PAGE_SIZE": 25,
    }
    yield
    choose(None)


@pytest.fixture
def site() -> Site:
    return build()


def requests(conversations: list[Conversation], owners: list[str]) -> Iterator[tuple[str, str, Any]]:
    """Yield each call, about each conversation: the method, the address and the body."""
    for (name, method), owner in product([*CALLS, *ELSEWHERE], owners):
        converters = ROUTES[name].pattern.converters
        several = conversations if {"conversation_id", "memory_id"} & {*converters} else conversations[:1]
        for conversation in several:
            values = {
                "conversation_id": conversation.pk, "memory_id": conversation.memory_id, "message_id": 4, "position": 4,
            }  # fmt: skip
            for position in (1, 3, 4) if "position" in converters else (4,):
                kwargs = {key: {**values, "position": position}[key] for key in converters}
                path = reverse(f"chatmemory:{name}", kwargs=kwargs)
                bodies = _BODIES.get((name, method)) or [
                    body for body in (FOR_USERS.get((name, method)), CALLS[name, method][1]) if body is not None
                ]
                for query in [{}, *(_FILTERS.get(name, ()) if method == "GET" else ())]:
                    address = f"{path}?{urlencode({**query, **({'owner': owner} if owner else {})})}"
                    for body in bodies or [{}]:
                        yield method, address, body
    yield "GET", reverse("chatmemory:root"), {}


def answers(client: Client, conversations: list[Conversation], owners: list[str]) -> Iterator[Answer]:
    """Yield what each call got, with further pages; and after a turn, what tells of it."""
    for method, address, body in requests(conversations, owners):
        if method == "GET":
            response = client.get(address)
            yield answer_to(address, response)
            if tag := response.get("ETag"):
                yield answer_to(f"{address} again", client.get(address, headers={"If-None-Match": tag}))
            for number in range(_MOST_PAGES):
                following = next_page(response)
                if following is None:
                    break
                response = client.get(following)
                yield answer_to(f"{address}, page {number + 2}", response)
            continue
        for accept in ("application/json", STREAM) if "/turns/" in address and method == "POST" else ("*/*",):
            with undone():
                yield answer_to(f"{method} {address} {body}", send(client, method, address, body, accept=accept))
                if "/turns/" in address:
                    for part in ("turns/", "memory/", "usage/", "messages/?ordering=-position"):
                        after = address.replace("turns/?", part + ("&" if "?" in part else "?"))
                        yield answer_to(f"{after} after {method} {body}", client.get(after))


def next_page(response: Any) -> str | None:
    if response.status_code != 200 or not response["Content-Type"].startswith("application/json"):
        return None
    said = response.json()
    return said.get("next") if isinstance(said, dict) else None


def test_each_filter_is_asked_for() -> None:
    asked = {name: {key for query in queries for key in query} for name, queries in _FILTERS.items()}
    assert {*ConversationFilter.base_filters} <= asked["conversation-list"]
    assert {*MessageFilter.base_filters} <= asked["message-list"]
    for path, method, view, declared in DECLARED:
        [name] = [name for name, pattern in ROUTES.items() if pattern.callback is view]
        if method == "get" and name in {"search", "conversation-search", "turns", "memory"}:
            assert {*declared.parameters} - {"cursor"} <= asked[name], path


@pytest.mark.slow
def test_owners_get_nothing_of_what_they_do_not_see(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    get = partial(answers, signed_in(site.owner), [site.mine], [""])
    before = equal_answers(get, partial(say_otherwise, site.mine, other_internals), monkeypatch=monkeypatch)
    assert sum(answer.status < 300 for answer in before) > 100


def everything_else(site: Site) -> None:
    """Let conversations that a reader does not reach be others, in all that they are."""
    say_otherwise(site.mine, other_words)
    for made in (site.mine, site.theirs):
        made.refresh_from_db()
        made.memory.add(UserMessage("A kettle, 4711 times."), AiMessage("Tea."))
        made.memory.set_window(limit=90)
        Conversation.objects.filter(pk=made.pk).update(title="kettle 4711", metadata={"kettle": 4711}, turn=4)
        Feedback.objects.filter(conversation=made).update(comment="kettle", value="up")
        made.record_usage({"model": "kettle", "input_tokens": 4711})


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["other", "anonymous", "limited staff"])
def test_others_get_nothing(site: Site, monkeypatch: pytest.MonkeyPatch, settings: Any, reader: str) -> None:
    client, owners = Client(), ["", str(site.owner.pk), "*"]
    if reader != "anonymous":
        user = member(username="bert") if reader == "limited staff" else UserFactory(username="bert")
        settings.CHATMEMORY = {**settings.CHATMEMORY, "STAFF_CONVERSATIONS": "tests.support.tenants.berts"}
        client.force_login(user)
        own = ConversationFactory(owner=user, memory_id="own", pk=UUID(int=4))
        own.memory.add(UserMessage("Is there green tea, or a kettle?"), AiMessage("Tea."))
    get = partial(answers, client, [site.mine], owners)
    before = equal_answers(get, partial(everything_else, site), monkeypatch=monkeypatch)
    assert all(answer.status >= 400 for answer in before if str(site.mine.pk) in answer.asked)


@pytest.mark.slow
def test_staff_without_the_permission_get_no_text(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    client = signed_in(member({*PERMISSIONS, SUMMARIZE} - {"read_message_text"}))

    def change() -> None:
        for made in (site.mine, site.theirs):
            say_otherwise(made, other_words)
            Conversation.objects.filter(pk=made.pk).update(metadata={"kettle": 4711})
            Feedback.objects.filter(conversation=made).update(comment="kettle")

    get = partial(answers, client, [site.mine], [str(site.owner.pk)])
    before = equal_answers(get, change, monkeypatch=monkeypatch)
    assert sum(answer.status < 300 for answer in before) > 20


@pytest.mark.slow
def test_what_was_erased_has_no_influence(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def said_and_erased(text: str) -> None:
        memory = site.erased.memory
        memory.add(*[UserMessage(text), AiMessage(text)] * 10)
        memory.add(*[UserMessage("Is there green tea in a cup?")] * 3)
        indexing.index_all(site.erased)
        memory.set_window(window="messages", limit=3)
        evicted = site.erased.messages.filter(text=text, evicted_in__isnull=False)
        assert evicted.count() > 10
        list(purge_evicted(timezone.now() + timedelta(days=1), Conversation.objects.filter(pk=site.erased.pk)))
        assert not evicted.exists()

    get = partial(answers, signed_in(site.owner), [site.erased], [""])
    worlds = [partial(said_and_erased, text) for text in ("Kettle.", LONG)]
    before = equal_answers(get, *worlds, monkeypatch=monkeypatch)
    assert sum(answer.status < 300 for answer in before) > 50
