"""The API as it runs: behind gunicorn, in several processes, over connections that break."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse

from chatmemory import (
    AiMessage,
    ChatMessage,
    MessageWindowChatMemory,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.conf import setting
from chatmemory.core.serialization import message_to_data
from chatmemory.models import Conversation
from chatmemory.urls import urlpatterns
from tests.database.test_conversations import check_invariants
from tests.support.server import Answer, HttpClient, run_server

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sdks")]

CONVERSATIONS = "/api/conversations/"


@pytest.fixture(scope="module")
def server(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    """The port of a server, and what it printed."""
    log = tmp_path_factory.mktemp("server") / "log"
    with run_server(log) as port:
        yield port, log


@pytest.fixture
def http(server: tuple[int, Path], transactional_db: None) -> Iterator[HttpClient]:
    """A client of the server, that signs in as a user who may do nothing special."""
    port, log = server
    get_user_model().objects.create_user("ann", password="password of ann")
    printed = log.stat().st_size
    client = HttpClient(port, "ann", "password of ann")
    yield client
    client.wait_until_idle()  # before the rows go that a client who hung up has asked for
    errors = log.read_bytes()[printed:].decode()
    assert errors == "", errors


def create(http: HttpClient, **fields: Any) -> str:
    """The path of a new conversation."""
    created = http.request("POST", CONVERSATIONS, fields)
    assert created.status == 201, created.body
    return f"{CONVERSATIONS}{created.json()['id']}/"


def all_pages(http: HttpClient, path: str, follow: str = "next") -> list[Any]:
    results: list[Any] = []
    while path:
        page = http.request("GET", path).json()
        results = page["results"] + results if follow == "previous" else results + page["results"]
        path = page[follow]
    return results


def last_page(http: HttpClient, path: str) -> str:
    while following := http.request("GET", path).json()["next"]:
        path = following
    return path


def at_once(count: int, call: Any) -> list[Any]:
    """What ``call(0)``, ``call(1)`` … give, each in a thread of its own, all started together."""
    ready = Barrier(count)

    def run(number: int) -> Any:
        ready.wait(timeout=60)
        return call(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


class Chat:
    """A client on a bad network: it repeats what got no answer, and what did; the key of each request stays the same.

    Everything that goes wrong is drawn from ``random``.
    """

    def __init__(self, http: HttpClient, base: str, limit: int, seed: int) -> None:
        self.http = http
        self.base = base
        self.random = random.Random(seed)
        self.reference = MessageWindowChatMemory(max_messages=limit)
        self.said: list[ChatMessage] = []
        self.done: list[tuple[str, dict[str, Any], Answer]] = []
        self.version = 0
        self.seen: tuple[str, int] | None = None
        self.faults: set[str] = set()

    def draw(self, fault: str, probability: float) -> bool:
        if self.random.random() < probability:
            self.faults.add(fault)
            return True
        return False

    def deliver(self, key: str, body: dict[str, Any], if_match: str | None = None) -> Answer:
        return self.http.request("POST", f"{self.base}messages/", body, Idempotency_Key=key, If_Match=if_match)

    def say(self, *messages: ChatMessage) -> None:
        key = f"{len(self.done)} {self.random.getrandbits(64):x}"
        bodies = [message_to_data(message) for message in messages]
        body = bodies[0] if len(bodies) == 1 and self.random.random() < 0.8 else {"messages": bodies}
        if_match = None
        if self.draw("stale version", 0.2) and self.version:
            refused = self.deliver(key, body, f'"{self.version - 1}"')
            assert (refused.status, refused.json()["version"]) == (412, self.version)
            self.read()
            if_match = f'"{self.version}"'
        elif self.draw("current version", 0.2):
            if_match = f'"{self.version}"'
        if self.draw("dropped in the middle of the body", 0.06):
            self.hang_up(key, body, if_match, share=self.random.random() * 0.9)
        while self.draw("dropped before the answer", 0.2):
            self.hang_up(key, body, if_match)
        if self.draw("several at once", 0.4):
            answers = at_once(3, lambda _: self.deliver(key, body, if_match))
        else:
            answers = [self.deliver(key, body, if_match)]
        answer = answers[0]
        assert answer.status == 201, answer.body
        assert [(each.status, each.body) for each in answers] == [(201, answer.body)] * len(answers)
        self.reference.add(*messages)
        self.said += messages
        data = answer.json()
        assert [item["message"] for item in data["added"]] == bodies
        assert data["version"] == self.version + 1
        self.version = data["version"]
        self.done.append((key, body, answer))

    def hang_up(self, key: str, body: dict[str, Any], if_match: str | None, share: float = 1) -> None:
        self.http.send_and_hang_up(f"{self.base}messages/", body, share=share, Idempotency_Key=key, If_Match=if_match)

    def read(self) -> None:
        tag, version = self.seen or (None, -1)
        answer = self.http.request("GET", f"{self.base}memory/", If_None_Match=tag)
        if version == self.version:
            assert (answer.status, answer.body, answer.headers["ETag"]) == (304, b"", tag)
            self.faults.add("read what is known")
            return
        assert answer.status == 200
        memory = answer.json()
        assert memory["messages"] == [message_to_data(message) for message in self.reference.messages()]
        assert memory["version"] == self.version
        self.seen = answer.headers["ETag"], self.version

    def repeat(self, number: int) -> None:
        """Deliver once more what was answered long ago."""
        key, body, first = self.done[number]
        again = self.deliver(key, body, '"0"' if number % 2 else None)
        assert (again.status, again.body) == (201, first.body)


def turn_of(number: int, random: random.Random) -> list[list[ChatMessage]]:
    """What is said in one turn, by requests: a question, perhaps calls of tools, an answer."""
    question, answer = UserMessage(f"question {number} {'?' * random.randrange(50)}"), AiMessage(f"answer {number}")
    kind = random.choice(["plain", "plain", "batch", "tools", "tools in one batch"])
    calls = [ToolExecutionRequest(f"{number}.{call}", "look_up", "{}") for call in range(random.randrange(1, 4))]
    asking = AiMessage(tool_execution_requests=calls)
    results = [ToolExecutionResultMessage(call.id, "look_up", f"found {call.id} — ja, 你好 🙂") for call in calls]
    match kind:
        case "plain":
            return [[question], [answer]]
        case "batch":
            return [[question, answer]]
        case "tools":
            return [[question], [asking], *([result] for result in results), [answer]]
        case _:
            return [[question], [asking, *results], [answer]]


@pytest.mark.slow
def test_a_chat_of_60_turns_over_a_bad_network_is_exactly_what_was_said(http: HttpClient) -> None:
    limit = 15
    base = create(http, memory_id="chat", window="messages", limit=limit)
    chat = Chat(http, base, limit, seed=20250704)
    chat.say(SystemMessage("You are brief."))
    late: Future[None] | None = None
    with ThreadPoolExecutor(1) as background:
        for number in range(60):
            if number == 36:
                chat.say(SystemMessage("You are very brief."))
            for messages in turn_of(number, chat.random):
                if chat.draw("repeated much later, while others arrive", 0.25):
                    late = background.submit(chat.repeat, chat.random.randrange(len(chat.done)))
                chat.say(*messages)
                if late is not None:
                    late.result(timeout=60)
                    late = None
                if chat.draw("read", 0.4):
                    chat.read()
    at_once(4, lambda thread: [chat.repeat(number) for number in range(thread * 13, len(chat.done), 53)])
    assert len(chat.faults) == 8
    assert len([message for message in chat.said if isinstance(message, UserMessage)]) == 60

    said = [message_to_data(message) for message in chat.said]
    history = all_pages(http, f"{base}messages/?page_size=37")
    assert [item["message"] for item in history] == said
    assert [item["position"] for item in history] == list(range(len(said)))
    newest_first = all_pages(http, f"{base}messages/?page_size=200&ordering=-position")
    assert newest_first == history[::-1]
    assert all_pages(http, last_page(http, f"{base}messages/?page_size=100"), "previous") == history

    retained = [message_to_data(message) for message in chat.reference.messages()]
    memory = http.request("GET", f"{base}memory/").json()
    assert memory["messages"] == retained
    assert len(retained) <= limit
    assert [item["message"] for item in history if item["state"] == "retained"] == retained
    tokens = sum(item["token_count"] for item in history if item["state"] == "retained")
    assert memory["tokens"] == tokens
    conversation = http.request("GET", base).json()
    counters = {name: conversation[name] for name in ("message_count", "retained_count", "retained_tokens", "version")}
    assert counters == {
        "message_count": len(said),
        "retained_count": len(retained),
        "retained_tokens": tokens,
        "version": len(chat.done),
    }
    check_invariants(Conversation.objects.get())


def test_the_same_creation_from_several_clients_at_once_makes_one_conversation(http: HttpClient) -> None:
    for number in range(8):
        fields = {"title": f"Conversation {number}", "metadata": {"b": [1, {"a": None}], "a": "ä"}}
        http.send_and_hang_up(CONVERSATIONS, fields, Idempotency_Key=f"key {number}")
        answers = at_once(4, lambda _: http.request("POST", CONVERSATIONS, fields, Idempotency_Key=f"key {number}"))  # noqa: B023
        assert [answer.status for answer in answers] == [201] * 4
        assert [answer.json() for answer in answers] == [answers[0].json()] * 4
        assert len({answer.headers["Location"] for answer in answers}) == 1
    assert Conversation.objects.count() == 8


def test_the_same_memory_id_from_several_clients_at_once_makes_one_conversation(http: HttpClient) -> None:
    for number in range(8):
        answers = at_once(4, lambda _: http.request("POST", CONVERSATIONS, {"memory_id": f"{number}"}))  # noqa: B023
        assert sorted(answer.status for answer in answers) == [201, 409, 409, 409]
        [made] = [answer for answer in answers if answer.status == 201]
        assert {answer.json().get("conversation") for answer in answers} == {None, made.headers["Location"]}
    assert Conversation.objects.count() == 8


def test_clients_that_add_to_one_conversation_at_once_lose_nothing(http: HttpClient) -> None:
    base = create(http, window="messages", limit=5)
    writers, each = 5, 12

    def write(writer: int) -> list[int]:
        positions = []
        for number in range(each):
            body = message_to_data(UserMessage(f"{writer} {number}"))
            added = http.request("POST", f"{base}messages/", body)
            assert added.status == 201, added.body
            positions += [item["position"] for item in added.json()["added"]]
        return positions

    positions = at_once(writers, write)
    assert sorted(chain.from_iterable(positions)) == list(range(writers * each))
    history = all_pages(http, f"{base}messages/")
    texts = {item["position"]: item["text"] for item in history}
    for writer, own in enumerate(positions):
        assert [texts[position] for position in own] == [f"{writer} {number}" for number in range(each)]
        assert own == sorted(own)
    check_invariants(Conversation.objects.get())


@pytest.mark.parametrize("path", ["stores/{memory_id}/", "conversations/{id}/memory/"])
def test_of_writers_that_saw_the_same_version_one_wins(http: HttpClient, path: str) -> None:
    if path.startswith("stores"):
        path = f"/api/{path.format(memory_id='shared')}"  # it does not exist: they also race to make it
    else:
        path = f"{create(http, memory_id='shared')}memory/"
    for version in range(6):

        def write(writer: int, version: int = version) -> Answer:
            messages = [message_to_data(UserMessage(f"{version} by {writer}"))]
            body = messages if "/stores/" in path else {"messages": messages}
            return http.request("PUT", path, body, If_Match=f'"{version}"')

        answers = at_once(4, write)
        [winner] = [writer for writer, answer in enumerate(answers) if answer.status in {200, 204}]
        losers = answers[:winner] + answers[winner + 1 :]
        assert [(answer.status, answer.json()["version"]) for answer in losers] == [(412, version + 1)] * 3
        left = http.request("GET", path)
        assert left.headers["ETag"].startswith(f'"{version + 1}.')
        assert f"{version} by {winner}" in left.body.decode()
    check_invariants(Conversation.objects.get())


def test_adds_under_one_version_are_told_who_came_first(http: HttpClient) -> None:
    base = create(http)

    def write(writer: int) -> Answer:
        body = message_to_data(UserMessage(f"by {writer}"))
        return http.request("POST", f"{base}messages/", body, If_Match='"0"', Idempotency_Key=f"key {writer}")

    assert sorted(answer.status for answer in at_once(4, write)) == [201, 412, 412, 412]
    check_invariants(Conversation.objects.get())


def test_a_body_that_is_too_large_is_refused_and_the_server_goes_on(http: HttpClient) -> None:
    base = create(http)
    body = b'{"type": "AI", "text": "' + b"x" * setting("MAX_BODY_BYTES")
    for _ in range(5):
        refused = http.request("POST", f"{base}messages/", body)
        assert (refused.status, refused.headers["Content-Type"]) == (413, "application/problem+json")
        assert refused.json()["status"] == 413
    assert http.request("GET", f"{base}memory/").json()["messages"] == []
    assert http.request("POST", f"{base}messages/", message_to_data(UserMessage("small"))).status == 201


def test_a_body_in_chunks_is_not_taken_for_an_empty_one(http: HttpClient) -> None:
    pieces = iter([b'{"title": ', b'"In parts"}'])
    refused = http.request("POST", "/api/conversations/", pieces, chunked=True, Transfer_Encoding="chunked")
    assert (refused.status, "Content-Length" in refused.json()["detail"]) == (411, True)
    assert not Conversation.objects.exists()
    assert http.request("POST", "/api/conversations/", {"title": "At once"}).json()["title"] == "At once"


@pytest.fixture(scope="module")
def away(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    """The port of a server whose database does not answer, and what it printed."""
    log = tmp_path_factory.mktemp("away") / "log"
    with run_server(log, "tests.settings.away", options=("--workers=1",)) as port:
        yield port, log


@pytest.mark.slow
@pytest.mark.parametrize("accept", ["*/*", "text/html"])
def test_a_database_that_is_away_is_temporary_on_every_route(away: tuple[int, Path], accept: str) -> None:
    """Made from the URL conf, so that a new route cannot be forgotten. The server's views are in ATOMIC_REQUESTS."""
    key = "01890a5d-ac96-774b-bcce-b302099a8057"
    port, log = away
    wrong = []
    http = HttpClient(port, "ann", "password")
    for pattern in urlpatterns:
        arguments = {name: 0 if name == "position" else key for name in pattern.pattern.converters}
        path = reverse(f"chatmemory:{pattern.name}", kwargs=arguments)
        for method in ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"):
            for session in (None, "sessionid=abcdefghijklmnopqrstuvwxyz012345"):
                answer = http.request(
                    method, path, None if method in {"GET", "HEAD"} else {}, Accept=accept, Cookie=session,
                    **({"Authorization": None} if session else {}),
                )  # fmt: skip
                right = answer.status == 503 and int(answer.headers.get("Retry-After", 0)) > 0
                if accept == "*/*":
                    right = right and answer.headers["Content-Type"] == "application/problem+json"
                    right = right and (method == "HEAD" or answer.json()["status"] == 503)
                if accept == "text/html" and answer.status == 406:  # the schema is no page
                    right = True
                if not right:
                    wrong.append((method, path, session, answer.status, answer.body[:200]))
    assert wrong == [], log.read_text()[-5000:]
