"""Turns of clients that hang up, ask twice at once and again, while workers are killed; in small."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection

from tests.support.cutting import wait_until_alone
from tests.support.factories import ConversationFactory
from tests.support.server import HttpClient, start_server, workers_of
from tests.support.signalled import Signals
from tests.support.turn_clients import TurnClients, check_turns
from tests.support.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

CLIENTS, TURNS = 6, 18


@pytest.mark.slow
@pytest.mark.usefixtures("sdks")
@pytest.mark.parametrize("server", ["gunicorn", "uvicorn"])
def test_history_is_what_was_said(server: str, tmp_path: Path) -> None:
    user = get_user_model().objects.create_user("ann", password="password of ann")
    keys = [str(ConversationFactory.create(owner=user, window="messages", limit=8).pk) for _ in range(4)]
    environment = {
        "DJANGO_SETTINGS_MODULE": "tests.settings.turns",
        "CHATMEMORY_TEST_NAME": str(connection.settings_dict["NAME"]),
        "CHATMEMORY_TEST_SIGNALS": str(tmp_path),
        "CHATMEMORY_TEST_TURN_TIMEOUT": "10",
    }
    signals = Signals(tmp_path)
    options = () if server == "uvicorn" else ("--threads=6",)
    with (
        start_server(tmp_path / "log", environment, asgi=server == "uvicorn", options=options) as (port, process),
        ThreadPoolExecutor(1) as pool,
    ):
        clients = TurnClients(HttpClient(port, "ann", "password of ann"), keys, signals, seed=server)
        running = pool.submit(clients.run, CLIENTS, TURNS)
        wait_until(lambda: len(signals.calls()) >= TURNS // 3 or running.done(), "nothing is asked")
        for worker in workers_of(process)[:2]:
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        running.result()
        assert process.poll() is None, (tmp_path / "log").read_text()
    wait_until_alone()
    check_turns(clients.said, signals)
    assert sum(map(len, clients.said.values())) == TURNS
    call_command("chatmemory_verify")  # exits with 1 if something is wrong
    # A slow machine may answer that the database is busy, but nothing is a defect.
    assert "Internal Server Error" not in (tmp_path / "log").read_text(), (tmp_path / "log").read_text()
