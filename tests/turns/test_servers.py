"""Turns behind real servers: nothing waits in a buffer, and whoever goes away, or asks another process, is heeded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from chatmemory.models import Conversation
from chatmemory.verification import verify
from tests.support.factories import ConversationFactory
from tests.support.server import Answer, HttpClient, run_server
from tests.support.signalled import Signals
from tests.support.turn_streams import COMMENT, open_stream
from tests.support.turns import texts_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sdks")]

SETTINGS = "tests.settings.turns"
EARLY = 5


@dataclass(frozen=True)
class Kind:
    """A kind of server."""

    asgi: bool
    options: tuple[str, ...]
    ports: int
    """Two are two servers, so that a process that is asked is surely another one."""


KINDS = {
    # A worker serves one request at a time, so another request is another process.
    "gunicorn sync": Kind(asgi=False, options=("--workers=3",), ports=1),
    "gunicorn gthread": Kind(asgi=False, options=("--workers=1", "--threads=8"), ports=2),
    "uvicorn": Kind(asgi=True, options=("--workers", "1"), ports=2),
}


@dataclass(frozen=True)
class Site:
    """A site that runs: two doors to different processes, and the signals to its model."""

    door: HttpClient
    other: HttpClient
    signals: Signals
    conversation: Conversation

    @property
    def turns(self) -> str:
        return f"/api/conversations/{self.conversation.pk}/turns/"

    def history(self) -> list[str]:
        return [row.text for row in self.conversation.messages.history()]

    def is_free(self) -> bool:
        return Conversation.objects.get(pk=self.conversation.pk).turn_until is None


@pytest.fixture(scope="module", params=list(KINDS))
def ports(
    request: Any, django_db_setup: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[list[int], Path]]:
    kind, folder = KINDS[request.param], tmp_path_factory.mktemp("server")
    environment = {"CHATMEMORY_TEST_SIGNALS": str(folder)}
    logs = [folder / f"log-{number}" for number in range(kind.ports)]
    with ExitStack() as stack:
        servers = [
            run_server(log, SETTINGS, asgi=kind.asgi, options=kind.options, environment=environment) for log in logs
        ]
        yield [stack.enter_context(server) for server in servers], folder
    errors = "".join(log.read_text() for log in logs)
    assert errors == "", errors


@pytest.fixture
def site(ports: tuple[list[int], Path], transactional_db: None) -> Iterator[Site]:
    numbers, folder = ports
    user = get_user_model().objects.create_user("ann", password="password of ann")
    conversation = ConversationFactory.create(owner=user, window="messages", limit=20)
    door, other = (HttpClient(numbers[index], "ann", "password of ann") for index in (0, -1))
    site = Site(door, other, Signals(folder), conversation)
    yield site
    wait_until(site.is_free, "a turn was left")
    assert list(verify()) == []


def test_a_piece_comes_before_the_model_has_the_next(site: Site) -> None:
    with open_stream(site.door, site.turns, "wait first", Accept_Encoding="gzip") as stream:
        assert (stream.status, stream.headers["X-Vercel-AI-UI-Message-Stream"]) == (200, "v1")
        assert stream.piece() == "One "
        site.signals.give("first")  # it was waited for: the model had said no more until now
        assert texts_of(stream) == "two."
    assert site.history() == ["wait first", "One two."]


def test_a_comment_comes_while_the_model_is_silent(site: Site) -> None:
    with open_stream(site.door, site.turns, "hush silent") as stream:
        for _ in range(2):
            stream.until(lambda part: part == COMMENT)
        site.signals.give("silent")
        assert texts_of(stream) == "At last."


def test_who_goes_away_leaves_the_turn_to_finish(site: Site) -> None:
    clock = ConversationFactory.create(owner=site.conversation.owner)
    with open_stream(site.door, f"/api/conversations/{clock.pk}/turns/", "hush clock") as other:
        with open_stream(site.door, site.turns, "wait left") as stream:
            assert stream.piece() == "One "
        for _ in range(4):  # by then comments went to nobody, and the server has noticed
            other.until(lambda part: part == COMMENT)
        site.signals.give("clock")
        assert texts_of(other) == "At last."
    site.signals.give("left")
    wait_until(site.is_free, "the turn did not end")
    assert site.history() == ["wait left", "One two."]


def test_who_goes_away_before_the_response_begins_leaves_no_turn_held(site: Site) -> None:
    for number in range(EARLY):
        body = {"message": f"early {number}"}
        site.door.send_and_hang_up(site.turns, body, Accept="text/event-stream")
        # Whoever asks next is served: a server may drop a request whose client has gone before its view began.
        wait_until(lambda: site.other.request("GET", site.turns).status == 200 and site.is_free(), "a turn is held")
    site.door.wait_until_idle()  # a busy machine may not even have accepted the last one
    answers: list[Answer] = []

    def is_served() -> bool:
        answers.append(site.other.request("POST", site.turns, {"message": "Next"}))
        return answers[-1].status == 200

    wait_until(is_served, "a turn is held")
    assert answers[-1].json()["answer"]["text"] == "Re: Next"

    def are_all_answered() -> bool:
        texts = site.history()
        return set(texts) >= {f"Re: {text}" for text in texts if not text.startswith("Re: ")}

    wait_until(are_all_answered, "a turn ended without an answer")


def test_who_goes_away_interrupts_the_turn_if_they_asked_for_that(site: Site) -> None:
    with open_stream(site.door, f"{site.turns}?on_disconnect=interrupt", "wait interrupted") as stream:
        assert stream.piece() == "One "
    wait_until(site.is_free, "the turn goes on")
    assert not site.signals.has("interrupted")
    site.signals.give("interrupted")
    wait_until(lambda: site.signals.has("interrupted.over"), "the model goes on")
    assert site.other.request("POST", site.turns, {"message": "Next"}).json()["answer"]["text"] == "Re: Next"
    assert site.history() == ["wait interrupted", "One ", "Next", "Re: Next"]


def test_a_late_goodbye_does_not_interrupt_the_turn_of_somebody_else(site: Site) -> None:
    with ExitStack() as leaving:
        first = leaving.enter_context(open_stream(site.door, f"{site.turns}?on_disconnect=interrupt", "hush goodbye"))
        assert first.next()["type"] == "start"
        assert site.other.request("DELETE", site.turns).status == 204
        with open_stream(site.other, site.turns, "wait newcomer") as second:
            assert second.piece() == "One "
            leaving.close()
            for _ in range(4):  # by then the first one's server has written to nobody, and noticed
                second.until(lambda part: part == COMMENT)
            site.signals.give("newcomer")
            assert [part["type"] for part in second][-1] == "finish"
    site.signals.give("goodbye")
    wait_until(lambda: site.signals.has("goodbye.over"), "the model goes on")
    assert site.history() == ["hush goodbye", "wait newcomer", "One two."]


def test_a_busy_conversation_says_so_while_the_turn_goes_on(site: Site) -> None:
    with open_stream(site.door, site.turns, "wait busy") as stream:
        assert stream.piece() == "One "
        for accept in ("application/json", "text/event-stream"):
            refused = site.other.request("POST", site.turns, {"message": "Me too"}, Accept=accept)
            assert (refused.status, int(refused.headers["Retry-After"])) == (409, 1)
            assert refused.json()["type"] == "urn:chatmemory:problem:turn-under-way"
        site.signals.give("busy")
        assert texts_of(stream) == "two."
    assert site.history() == ["wait busy", "One two."]


def test_another_process_stops_a_turn(site: Site) -> None:
    with open_stream(site.door, site.turns, "talk stopped") as stream:
        assert stream.piece() == "word "
        assert site.other.request("DELETE", site.turns).status == 204
        stored = site.history()
        parts = list(stream)
        assert parts[-1]["type"] == "abort"
        assert not site.signals.has("stopped")  # the model would go on still
    wait_until(lambda: site.signals.has("stopped.over"), "the model goes on")
    # The process that runs it stored what the reader had, before the other one said that it was stopped.
    said = "word " + "".join(part["delta"] for part in parts if part["type"] == "text-delta")
    assert site.history() == stored == ["talk stopped", said]
    assert parts[-4]["messageMetadata"]["stopped"] is True


def test_another_process_follows_a_turn(site: Site) -> None:
    assert site.other.request("GET", f"{site.turns}stream/").status == 204
    with open_stream(site.door, site.turns, "wait followed") as stream:
        start = stream.next()
        assert stream.piece() == "One "
        with open_stream(site.other, f"{site.turns}stream/", method="GET") as follower:
            assert (follower.status, follower.next()) == (200, start)
            site.signals.give("followed")
            parts = list(follower)
        assert texts_of(stream) == "two."
    assert (texts_of(parts), parts[-1]["type"]) == ("One two.", "finish")
    assert [part["type"] for part in parts].count("data-memory") == 1


def test_a_retry_after_the_connection_broke_gets_the_answer_that_came_meanwhile(site: Site) -> None:
    with open_stream(site.door, site.turns, "wait again", Idempotency_Key="again") as stream:
        assert stream.piece() == "One "
    site.signals.give("again")
    wait_until(site.is_free, "the turn did not end")
    with open_stream(site.other, site.turns, "wait again", Idempotency_Key="again") as stream:
        assert texts_of(stream) == "One two."
    assert site.signals.calls().count("wait again") == 1
    assert site.history() == ["wait again", "One two."]
