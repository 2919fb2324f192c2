"""The async twins under uvicorn, with clients that come at once and some that hang up."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from chatmemory.models import Conversation
from chatmemory.verification import verify
from tests.support.cutting import wait_until_alone
from tests.support.factories import ConversationFactory
from tests.support.server import HttpClient, run_server
from tests.support.talk_check import check_talk

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sdks")]

CLIENTS = 8
EACH = 5


@pytest.fixture
def http_client(transactional_db: None, tmp_path: Path) -> Iterator[HttpClient]:
    log = tmp_path / "server.log"
    with run_server(log, "tests.settings.asgi", asgi=True) as port:
        yield HttpClient(port, "nobody", "")
        wait_until_alone()
    assert "Traceback" not in log.read_text(), log.read_text()
    assert list(verify()) == []


def say(http_client: HttpClient, conversation: Conversation, way: str, text: str) -> str | None:
    """One turn, by ``chat`` or ``stream``; the answer, if there is one."""
    answer = http_client.request("POST", f"/{conversation.pk}/{way}/", {"text": text, "key": text})
    if way == "chat":
        return answer.json().get("text") if answer.status == 200 else None
    events = [json.loads(line) for line in answer.body.splitlines()]
    if not events or "done" not in events[-1]:
        return None
    return "".join(event["piece"] for event in events[:-1]).rstrip()


def hang_up_in_the_middle(http_client: HttpClient, conversation: Conversation, text: str) -> None:
    """Begin to read a stream, and go."""
    body = json.dumps({"text": text, "key": text}).encode()
    head = f"POST /{conversation.pk}/stream/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", http_client.port), timeout=60) as connection:
        connection.sendall(head.encode() + body)
        connection.recv(1)


def test_what_many_add_at_once_is_there_once(http_client: HttpClient) -> None:
    conversations = [ConversationFactory(owner=None, window="messages", limit=6) for _ in range(3)]

    def work(client: int) -> list[tuple[int, int, list[str]]]:
        acknowledged = []
        for number in range(EACH):
            where = (client + number) % 3
            path = f"/{conversations[where].pk}"
            said = [f"{client} {number} {part}" for part in range(1 + number % 3)]
            body = {"said": said, "key": said[0] if number % 2 else None}
            if number == 3:  # whether it came is not known, so it is sent again
                http_client.send_and_hang_up(f"{path}/add/", body)
            positions = http_client.request("POST", f"{path}/add/", body).json()["positions"]
            assert positions == list(range(positions[0], positions[0] + len(said)))
            acknowledged.append((where, positions[0], said))
            assert len(http_client.request("GET", f"{path}/memory/").json()["texts"]) <= 6
        return acknowledged

    with ThreadPoolExecutor(CLIENTS) as pool:
        acknowledged = [one for client in pool.map(work, range(CLIENTS)) for one in client]
    wait_until_alone()
    expected: list[dict[int, str]] = [{}, {}, {}]
    for where, first, said in acknowledged:
        expected[where] |= {first + index: text for index, text in enumerate(said)}
    for conversation, texts in zip(conversations, expected, strict=True):
        rows = conversation.messages.history()
        assert {row.position: row.text for row in rows} == texts


def test_turns_of_clients_some_of_which_hang_up(http_client: HttpClient) -> None:
    conversations = [ConversationFactory(owner=None, window="messages", limit=30) for _ in range(3)]

    def work(client: int) -> list[tuple[int, str, str]]:
        answered = []
        for number in range(EACH):
            where, text = (client + number) % 3, f"{client}-{number}"
            conversation = conversations[where]
            if number % 3 == 1:
                hang_up_in_the_middle(http_client, conversation, text)
            elif number % 3 == 2:
                http_client.send_and_hang_up(f"/{conversation.pk}/chat/", {"text": text, "key": text})
            answer = say(http_client, conversation, ["chat", "stream"][(client + number) % 2], text)
            assert answer is not None
            answered.append((where, text, answer))
        return answered

    with ThreadPoolExecutor(CLIENTS) as pool:
        answered: list[Any] = [one for client in pool.map(work, range(CLIENTS)) for one in client]
    wait_until_alone()
    assert len(answered) == CLIENTS * EACH
    for index, conversation in enumerate(conversations):
        answers = {text: answer for where, text, answer in answered if where == index}
        check_talk(conversation.messages.all(), set(answers), answers)
    until = time.monotonic() + 60
    while Conversation.objects.exclude(turn_until=None).exists():
        assert time.monotonic() < until, "who went away did not give the turn back"
        time.sleep(0.05)
