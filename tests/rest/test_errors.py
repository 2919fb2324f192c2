"""Errors: each a problem that names the place and says what to do."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from io import BytesIO
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client
from rest_framework.settings import api_settings
from rest_framework.test import APIRequestFactory, force_authenticate

from chatmemory import UserMessage
from chatmemory.models import Conversation, Message
from chatmemory.rest.problems import problem_response
from chatmemory.rest.views.memory import MessageViewSet
from tests.support.api import USER, patch, post, send, url, user_message
from tests.support.factories import ConversationFactory


def problem(answer: Any) -> Any:
    """The problem details of an answer that must have them."""
    data = answer.json()
    assert answer["Content-Type"] == "application/problem+json"
    assert {"type", "title", "status", "detail"} <= set(data)
    assert data["status"] == answer.status_code
    assert data["detail"]
    return data


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("nonsense", "not JSON"),
        ("", "type: expected one of"),
        (b"\xff\xfe", "not UTF-8"),
        ("[" * 5000 + "]" * 5000, "levels deep"),
        ('{"a":' * 600 + "1" + "}" * 600, "levels deep"),
        ("[1]", 'expected an object, got a list; several messages are sent as {"messages": [...]}'),
        ("null", "expected an object, got null"),
        ("{}", "type: expected one of"),
        ({"messages": []}, "messages: expected at least one message"),
        ({"messages": None}, "messages: expected a list"),
        ({"messages": "x"}, "messages: expected a list"),
        ({"messages": [USER], "more": 1}, "more: unknown field"),
        ({"messages": [USER, {"type": "USER", "contents": [{"type": "TEXT", "text": 5}]}]}, "messages[1].contents[0].text: expected a string"),  # noqa: E501
        ({"type": "AI", "text": "a\x00b"}, "text: has U+0000 at index 1"),
        ('{"type": "AI", "text": "\\ud800"}', "surrogate"),
        ('{"type": "AI", "attributes": {"deep": [{"n": "\\u0000"}]}}', "attributes.deep[0].n: has U+0000"),
        ({"type": "AI", "text": "x" * 400_001}, "at most 400000"),
        ({"messages": [USER, {"type": "AI", "thinking": "x" * 400_001}]}, "messages[1]: has"),
        ('{"type": "CUSTOM", "attributes": {"n": ' + "9" * 2000 + "}}", "a number of 2000"),
        ('{"type": "CUSTOM", "attributes": {"n": NaN}}', "NaN"),
        ('{"type": "AI", "\\ud800": 1}', "unknown field"),
        ('{"\\ud800": 1}', "type"),
        ({"role": "user", "content": "x"}, "type: expected one of"),
        ({"role": "user", "content": "x"}, "This looks like OpenAI's format"),
        ({"messages": [USER, {"role": "user", "content": "x"}]}, "takes it with ?format=openai"),
    ],
)  # fmt: skip
def test_bad_messages_are_refused_with_the_place(api: Client, user: Any, body: Any, says: str) -> None:
    answer = post(api, url(ConversationFactory(owner=user), "messages/"), body)
    assert answer.status_code == 400
    assert says in problem(answer)["detail"]
    assert not Message.objects.exists()


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "nobody", "content": "x"}]}, "messages[0].role"),
        ({"role": "user", "content": 5}, "content"),
        ({"role": "user", "content": "x", "extra": 1}, "extra"),
        (USER, "role"),
    ],
)
def test_bad_openai_messages_are_refused_with_the_place(api: Client, user: Any, body: Any, place: str) -> None:
    answer = post(api, url(ConversationFactory(owner=user), "messages/?format=openai"), body)
    assert answer.status_code == 400
    assert [error["place"] for error in problem(answer)["errors"]] == [place]
    assert ("leave out ?format=openai" in answer.json()["detail"]) is (body == USER)


def test_what_a_format_ignores_may_have_what_no_database_holds(api: Client, user: Any) -> None:
    message = {"id": "m", "role": "user", "parts": [{"type": "text", "text": "Hello"}], "metadata": {"note": "\x00"}}
    path = url(ConversationFactory(owner=user), "messages/?format=ai-sdk")
    assert post(api, path, message).status_code == 201
    assert post(api, path, {"messages": [message]}).status_code == 201


@pytest.mark.parametrize("part", ["memory/preview/", "memory/replay/", "memory/clear-tool-results/", "compaction/"])
@pytest.mark.parametrize("body", ["null", "[]", "5"])
def test_a_body_that_is_no_object_is_refused(api: Client, user: Any, part: str, body: str) -> None:
    answer = post(api, url(ConversationFactory(owner=user), part), body)
    assert answer.status_code == 400
    assert problem(answer)["detail"] == "expected an object"


def test_metadata_nested_too_deep_are_refused_with_the_path(api: Client) -> None:
    answer = post(api, "/api/conversations/", '{"metadata": {"deep": ' + "[" * 31 + "]" * 31 + "}}")
    assert answer.status_code == 400
    assert problem(answer)["detail"] == f"metadata: metadata.deep{'[0]' * 30}: nested more than 30 levels deep"


BAD_CONVERSATIONS = [
    ({"window": "hours"}, "window"),
    ({"window": 1}, "window"),
    ({"window": None}, "window"),
    ({"limit": 0}, "limit"),
    ({"limit": 10**20}, "limit"),
    ({"limit": "5"}, "limit"),
    ({"limit": 5.0}, "limit"),
    ({"limit": True}, "limit"),
    ({"limit": 2**31}, "limit"),
    ({"model": " "}, "model"),
    ({"model": "x" * 256}, "model"),
    ({"always_keep_system_message_first": "true"}, "always_keep_system_message_first"),
    ({"metadata": []}, "metadata"),
    ({"metadata": {"a": "x" * 20_000}}, "metadata"),
    ({"metadata": None}, "metadata"),
    ({"metadata": {"a": "\x00"}}, "metadata.a"),
    ('{"metadata": {"a": "\\ud800"}}', "metadata.a"),
    ('{"metadata": ' + '{"a":' * 31 + "1" + "}" * 31 + "}", "metadata"),
    ({"memory_id": "x" * 256}, "memory_id"),
    ({"memory_id": ""}, "memory_id"),
    ({"memory_id": "\x00"}, "memory_id"),
    ({"title": 5}, "title"),
    ({"title": "x" * 256}, "title"),
    ('{"title": "\\ud800"}', "title"),
    ('{"window": "\\ud800"}', "window"),
    ({"owner": 1}, "owner"),
    ([], ""),
    ("5", ""),
]


@pytest.mark.parametrize(("body", "place"), BAD_CONVERSATIONS)
def test_bad_conversations_are_refused_with_the_field(api: Client, user: Any, body: Any, place: str) -> None:
    conversation = ConversationFactory(owner=user)
    before = Conversation.objects.values().get()
    for answer in (post(api, "/api/conversations/", body), patch(api, url(conversation), body)):
        assert answer.status_code == 400
        assert [error["place"] for error in problem(answer)["errors"]] == [place]
    assert Conversation.objects.values().get() == before


def test_every_wrong_field_is_named(api: Client) -> None:
    answer = post(api, "/api/conversations/", {"window": "hours", "limit": 0})
    assert {error["place"] for error in problem(answer)["errors"]} == {"window", "limit"}


@pytest.mark.parametrize("cursor", ["x", "", "cD1hYmM=", "cD0lMDA=", "cD0yMDI2LTk5LTk5", "bz05OTk5OTk5OTk5", "\x00"])
def test_bad_cursors(api: Client, user: Any, cursor: str) -> None:
    conversation = ConversationFactory(owner=user)
    for path in ("/api/conversations/", url(conversation, "messages/")):
        answer = api.get(path, {"cursor": cursor})
        if answer.status_code != 200:
            assert [error["place"] for error in problem(answer)["errors"]] == ["cursor"]
            assert answer.status_code == 400


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("stat=retained", "stat"),
        ("state=lost", "state"),
        ("state=", None),
        ("type=NOBODY", "type"),
        ("type=AI,NOBODY", "type"),
        ("reason=boredom", "reason"),
        ("ordering=text", "ordering"),
        ("ordering=position,text", "ordering"),
        ("page_size=0", "page_size"),
        ("page_size=-1", "page_size"),
        ("page_size=x", "page_size"),
        ("page_size=99999999999999999999", None),
        ("position_min=x", "position_min"),
        ("position_min=-1", "position_min"),
        ("position_max=99999999999999999999", "position_max"),
        ("created_after=yesterday", "created_after"),
        ("created_after=0001-01-01T00:00:00%2B14:00", "created_after"),
        ("created_before=9999-12-31T23:59:59-14:00", "created_before"),
        ("search=%00", "search"),
        (f"search={'x' * 256}", "search"),
        ("format=xml", "format"),
        ("state=retained&state=evicted", "state"),
    ],
)
def test_bad_parameters_are_named(api: Client, user: Any, query: str, place: str | None) -> None:
    answer = api.get(url(ConversationFactory(owner=user), f"messages/?{query}"))
    if place is None:
        assert answer.status_code == 200
    else:
        assert answer.status_code == 400
        assert [error["place"] for error in problem(answer)["errors"]] == [place]


def test_what_is_not_there_or_not_allowed_is_a_problem_too(api: Client, client: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user)
    base = url(conversation)
    for status, answer in [
        (404, api.get("/api/conversations/x/")),
        (404, api.get("/api/conversations/01890a5d-ac96-774b-bcce-b302099a8057/")),
        (404, api.get(base + "messages/7/")),
        (405, api.put(base)),
        (405, api.options(base)),
        (406, api.get(base, headers={"Accept": "image/png"})),
        (415, api.post(base + "messages/", "<x/>", content_type="application/xml")),
        (415, api.post(base + "messages/", {"a": 1})),
        (403, client.get(base)),
    ]:
        assert answer.status_code == status
        problem(answer)
    assert api.put(base)["Allow"] == "GET, HEAD, PATCH, DELETE"


@pytest.mark.slow
def test_a_person_with_a_browser_gets_a_page(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user, memory_id="x")
    conversation.memory.add(UserMessage("<b>Hello</b>"))
    paths = ["/api/conversations/", *(url(conversation, part) for part in ("", "messages/", "messages/0/", "memory/"))]
    for path in [*paths, url(conversation, "messages/?format=openai"), url(conversation, "memory/?at=0"), "/api/x/"]:
        answer = api.get(path, headers={"Accept": "text/html"})
        assert answer.status_code == (404 if path == "/api/x/" else 200), path
        assert answer["Content-Type"].startswith("text/html")
        assert b"<b>Hello" not in answer.content
    assert api.get(url(conversation, "messages/9/"), headers={"Accept": "text/html"}).status_code == 404


def test_the_projects_own_views_keep_their_errors() -> None:
    assert api_settings.EXCEPTION_HANDLER.__module__ == "rest_framework.views"


def test_limits_are_settings(api: Client, user: Any, settings: Any) -> None:
    settings.CHATMEMORY = {
        "USERS": "all",
        "MAX_MESSAGE_CHARS": 10,
        "MAX_BATCH": 2,
        "MAX_MEMORY_MESSAGES": 3,
        "MAX_BODY_BYTES": 300,
        "MAX_METADATA_CHARS": 10,
        "PAGE_SIZE": 2,
        "MAX_PAGE_SIZE": 3,
    }
    conversation = ConversationFactory(owner=user)
    messages, memory = url(conversation, "messages/"), url(conversation, "memory/")
    short = {"type": "AI", "text": "x"}
    for status, method, path, body, says in [
        (400, "POST", messages, user_message("x" * 11), "at most 10"),
        (413, "POST", messages, {"messages": [short] * 3}, "at most 2"),
        (413, "PUT", memory, {"messages": [short] * 4}, "at most 3"),
        (413, "PUT", "/api/stores/x/", [short] * 4, "at most 3"),
        (413, "POST", url(conversation, "memory/preview/"), {"messages": [short] * 3}, "at most 2"),
        (413, "POST", messages, " " * 301, "more than 300 bytes"),
        (400, "POST", "/api/conversations/", {"metadata": {"a": "xxxx"}}, "at most 10 are stored"),
    ]:
        answer = send(api, method, path, body)
        assert (answer.status_code, says in problem(answer)["detail"]) == (status, True), body
    assert not Message.objects.exists()
    assert send(api, "PUT", "/api/stores/x/", [short] * 3).status_code == 204
    conversation.memory.add(*(UserMessage(str(number)) for number in range(5)))
    for query, count in ("", 2), ("?page_size=3", 3), ("?page_size=200", 3):
        assert len(api.get(messages + query).json()["results"]) == count


def test_a_body_of_too_many_values_is_refused(api: Client, user: Any) -> None:
    body = '{"type": "CUSTOM", "attributes": {"a": [' + "[]," * 200_000 + "0]}}"
    answer = post(api, url(ConversationFactory(owner=user), "messages/"), body)
    assert (answer.status_code, "values" in problem(answer)["detail"]) == (413, True)


@pytest.mark.parametrize("scope", ["reads", "writes", "previews"])
def test_each_kind_of_call_has_its_rate(api: Client, user: Any, settings: Any, scope: str) -> None:
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": scope}}
    settings.CHATMEMORY = {"USERS": "all", "THROTTLE_RATES": {scope: "2/day"}}
    conversation = ConversationFactory(owner=user)
    calls = {
        "reads": lambda: api.get(url(conversation, "memory/")),
        "writes": lambda: post(api, url(conversation, "messages/"), USER),
        "previews": lambda: post(api, url(conversation, "memory/preview/"), {}),
    }
    for name, call in calls.items():
        statuses = [call().status_code for _ in range(3)]
        assert (statuses[-1] == 429) == (name == scope), statuses
    replayed = post(api, url(conversation, "memory/replay/"), {})
    assert replayed.status_code == (429 if scope == "previews" else 200)
    refused = calls[scope]()
    assert "available in" in problem(refused)["detail"]
    assert int(refused["Retry-After"]) > 0


def test_nothing_is_kept_by_caches_on_the_way(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user)
    for path in ("/api/conversations/", url(conversation), url(conversation, "memory/"), "/api/stores/x/"):
        assert "private" in api.get(path)["Cache-Control"]


def test_a_forged_request_of_another_site_is_refused(user: Any) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(user)
    answer = client.post("/api/conversations/", json.dumps({}), content_type="application/json")
    assert (answer.status_code, "CSRF" in problem(answer)["detail"]) == (403, True)
    assert not Conversation.objects.exists()


LONG = "x" * 1_000_000
QUOTING = [
    ("POST", "/api/conversations/", {"window": LONG}),
    ("POST", "/api/conversations/", {"window": "<" * 1_000_000}),
    ("POST", "/api/conversations/", {LONG: 1}),
    ("POST", "/api/conversations/", {"metadata": {LONG: "\x00"}}),
    ("POST", "/api/conversations/", {"memory_id": LONG}),
    ("PATCH", "", {"window": LONG}),
    ("PATCH", "", {"memory_id": LONG}),
    ("POST", "messages/", {"type": LONG}),
    ("POST", "messages/", {"type": "AI", LONG: 1}),
    ("POST", "messages/", {"messages": [USER], LONG: 1}),
    ("POST", "messages/", {"type": "AI", "attributes": {LONG: {LONG: "\x00"}}}),
    ("POST", "messages/", {"type": "USER", "contents": [{"type": LONG}]}),
    ("POST", "messages/", {"type": "USER", "contents": [{"type": "IMAGE", "image": {"url": LONG + " "}}]}),
    (
        "POST",
        "messages/",
        {"type": "USER", "contents": [{"type": "IMAGE", "detailLevel": LONG, "image": {"url": "a"}}]},
    ),
    ("POST", "messages/?format=openai", {"role": LONG}),
    ("POST", "messages/?format=openai", {"role": "user", "content": [{"type": LONG}]}),
    ("POST", "messages/?format=openai", {"role": "assistant", "content": None, "tool_calls": [{"type": LONG}]}),
    ("PUT", "memory/", {"messages": [{"type": LONG}]}),
    ("PUT", "memory/", {LONG: 1, "messages": []}),
    ("POST", "memory/preview/", {"window": LONG}),
    ("POST", "memory/preview/", {"messages": [{"type": LONG}]}),
    ("PUT", "/api/stores/x/", [{"type": LONG}]),
    ("POST", "messages/", '"' + LONG + '"'),
    ("POST", "messages/", LONG),
    ("POST", "messages/", '{"type": "AI", "text": "' + LONG),
    ("GET", "/api/conversations/?window=" + LONG, {}),
    ("GET", "/api/conversations/?ordering=" + LONG, {}),
    ("GET", "/api/conversations/?cursor=" + LONG, {}),
    ("GET", "/api/conversations/?page_size=" + LONG, {}),
    ("GET", "/api/conversations/?created_after=" + LONG, {}),
    ("GET", "/api/conversations/?" + LONG + "=1", {}),
    ("GET", "/api/conversations/?format=" + LONG, {}),
    ("GET", "/api/conversations/?owner=" + LONG, {}),
    ("GET", "messages/?type=" + LONG, {}),
    ("GET", "messages/?type=" + "x," * 500_000, {}),
    ("GET", "memory/?at=" + LONG, {}),
    ("GET", f"/api/stores/{LONG}/", {}),
    ("GET", f"/api/conversations/{LONG}/", {}),
    ("GET", f"messages/{LONG}/", {}),
]


@pytest.mark.parametrize(("method", "path", "body"), QUOTING, ids=range(len(QUOTING)))
def test_no_error_repeats_much_of_what_was_sent(api: Client, user: Any, method: str, path: str, body: Any) -> None:
    conversation = ConversationFactory(owner=user, memory_id="x")
    address = path if path.startswith("/") else url(conversation, path)
    answer = send(api, method, address, body)
    assert 400 <= answer.status_code < 500
    assert len(answer.content) < 4000
    if method != "GET":  # REST framework's page for a browser repeats the address, which servers bound
        page = send(api, method, address, body, accept="text/html").content.decode()
        assert LONG[:2000] not in page
        assert "&lt;" * 2000 not in page


def test_a_long_value_is_quoted_by_its_ends_with_what_is_expected(api: Client) -> None:
    answer = post(api, "/api/conversations/", {"window": f"begin{LONG}end"})
    [error] = problem(answer)["errors"]
    assert error["detail"].startswith('"begin')
    assert error["detail"].endswith('end" is not a valid choice.')


@pytest.fixture
def rename() -> Iterator[Any]:
    """Renames a table or a column, as if a migration had not been applied, and undoes it in the end."""
    undo = []

    def run(statement: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(statement)

    def rename(table: str, old: str, new: str) -> None:
        """By the name of its table alone, where ``old`` is empty."""
        run(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}" if old else f"ALTER TABLE {table} RENAME TO {new}")
        back = f"ALTER TABLE {table} RENAME COLUMN {new} TO {old}" if old else f"ALTER TABLE {new} RENAME TO {table}"
        undo.append(back)

    yield rename
    for statement in undo:
        run(statement)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("table", "column"),
    [("chatmemory_message", ""), ("chatmemory_conversation", "title"), ("chatmemory_message", "native")],
)
def test_a_missing_migration_is_no_database_that_is_away(
    api: Client, user: Any, rename: Any, table: str, column: str
) -> None:
    conversation = ConversationFactory(owner=user)
    conversation.memory.add(UserMessage("tea"))
    rename(table, column, "renamed")
    answers = [api.get(url(conversation, "memory/"), headers={"accept": accept}) for accept in ("*/*", "text/html")]
    answers.append(post(api, url(conversation, "messages/"), USER))
    if column != "native":  # pages of the history leave it out
        answers += [api.get(url(conversation, "messages/")), api.get("/api/conversations/?search=tea")]
    for answer in answers:
        said = problem(answer)
        assert (said["status"], said["type"]) == (500, "urn:chatmemory:problem:not-migrated")
        assert "python manage.py migrate" in said["detail"]
        assert "Retry-After" not in answer.headers


@pytest.mark.parametrize(("trouble", "helps"), [("read only", False), ("interrupted", True), ("no function", False)])
def test_a_retry_is_offered_only_where_it_may_help(trouble: str, helps: bool) -> None:
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE t (c)")
        statement = "SELECT f()" if trouble == "no function" else "INSERT INTO t VALUES (1)"
        if trouble == "read only":
            database.execute("PRAGMA query_only = ON")
        if trouble == "interrupted":
            database.set_progress_handler(lambda: 1, 1)
        with pytest.raises(sqlite3.OperationalError) as caught:
            database.execute(statement)
    error = OperationalError(*caught.value.args)
    error.__cause__ = caught.value
    answer = problem_response(error, {})
    assert (answer is not None and answer.status_code == 503) is helps


@pytest.mark.skipif(connection.vendor != "postgresql", reason="Citus is an extension of PostgreSQL")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("at_commit", [True, False])
def test_a_node_that_is_away_makes_no_defect(api: Client, user: Any, at_commit: bool) -> None:
    """Citus raises what it has no code for, at a commit, too; here a trigger does."""
    conversation = ConversationFactory(owner=user)
    when = "DEFERRABLE INITIALLY DEFERRED" if at_commit else ""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION lose_a_node() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE 'failure on connection marked as essential' USING ERRCODE = 'XX000'; END $$"
        )
        cursor.execute(
            "CREATE CONSTRAINT TRIGGER lose_a_node AFTER INSERT ON chatmemory_message "
            f"{when} FOR EACH ROW EXECUTE FUNCTION lose_a_node()"
        )
    try:
        answer = post(api, url(conversation, "messages/"), USER)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION lose_a_node CASCADE")
    assert problem(answer)["type"] == "urn:chatmemory:problem:database-unavailable"
    assert (answer.status_code, "Retry-After" in answer.headers) == (503, True)


def test_the_body_of_a_client_that_has_gone_is_no_defect(user: Any) -> None:
    """Under ASGI Django closes it, perhaps before the view reads it."""
    conversation = ConversationFactory(owner=user)
    request = APIRequestFactory().post("/", b"{}", content_type="application/json")
    force_authenticate(request, user)
    request._stream = BytesIO(b"{}")
    request._stream.close()
    answer = MessageViewSet.as_view({"post": "create"})(request, conversation_id=str(conversation.pk))
    assert answer.status_code == 400
    assert conversation.messages.count() == 0
