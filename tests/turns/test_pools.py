"""Streams of servers whose connections come from a small pool: none is held while a stream waits for a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection

from chatmemory.models import Conversation
from chatmemory.verification import verify
from tests.support.factories import ConversationFactory
from tests.support.server import HttpClient, run_server
from tests.support.signalled import Signals
from tests.support.turn_streams import open_stream
from tests.support.turns import texts_of

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="Django has pools for PostgreSQL alone"),
]

STREAMS = 50
FOLLOWERS = 10
THREADS = STREAMS + FOLLOWERS + 4  # for all of them, and for other requests
KINDS = {False: ("--workers=1", f"--threads={THREADS}"), True: ("--workers", "1")}


@pytest.fixture(params=[1, 4], ids=lambda size: f"pool of {size}")
def pool(request: Any) -> int:
    return int(request.param)


@pytest.fixture(params=KINDS, ids=["WSGI", "ASGI"])
def client(request: Any, pool: int, tmp_path: Path, transactional_db: None) -> Iterator[HttpClient]:
    environment = {"CHATMEMORY_TEST_SIGNALS": str(tmp_path), "CHATMEMORY_TEST_POOL": str(pool)}
    get_user_model().objects.create_user("ann", password="password of ann")
    log, asgi = tmp_path / "log", request.param
    with run_server(log, "tests.settings.pool", asgi=asgi, options=KINDS[asgi], environment=environment) as port:
        yield HttpClient(port, "ann", "password of ann")
    assert log.read_text() == ""


def test_streams_and_their_followers_hold_no_connection(client: HttpClient, tmp_path: Path) -> None:
    ann = get_user_model().objects.get()
    paths = [f"/api/conversations/{one.pk}/turns/" for one in ConversationFactory.create_batch(STREAMS, owner=ann)]
    with ExitStack() as stack:
        streams = [stack.enter_context(open_stream(client, path, "wait go")) for path in paths]
        assert {stream.piece() for stream in streams} == {"One "}
        followers = [
            stack.enter_context(open_stream(client, f"{path}stream/", method="GET")) for path in paths[:FOLLOWERS]
        ]
        assert {follower.next()["type"] for follower in followers} == {"start"}
        assert client.request("GET", paths[0]).status == 200  # while all of them wait
        Signals(tmp_path).give("go")
        assert {texts_of(stream) for stream in streams} == {"two."}
        assert {texts_of(follower) for follower in followers} == {"One two."}
    assert not Conversation.objects.filter(turn_until__isnull=False).exists()
    assert list(verify()) == []
    for conversation in Conversation.objects.all():
        assert [row.text for row in conversation.messages.history()] == ["wait go", "One two."]


def test_who_stops_a_turn_holds_none_while_its_answer_is_being_stored(client: HttpClient, tmp_path: Path) -> None:
    ann = get_user_model().objects.get()
    paths = [f"/api/conversations/{one.pk}/turns/" for one in ConversationFactory.create_batch(8, owner=ann)]
    with ExitStack() as stack:
        streams = [stack.enter_context(open_stream(client, path, "talk stopped")) for path in paths]
        assert {stream.piece() for stream in streams} == {"word "}
        for path in paths:
            assert client.request("DELETE", path).status == 204
        assert {[part["type"] for part in stream][-1] for stream in streams} == {"abort"}
    assert not Conversation.objects.filter(turn_until__isnull=False).exists()
