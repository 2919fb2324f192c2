"""The times of turns and of bare views, interleaved."""

from __future__ import annotations

import http.client
import json
import os
import random
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from django.contrib.auth import get_user_model

from benchmarks.places import Place, new_place
from benchmarks.streams.model import running_model
from chatmemory.models import Conversation

__all__ = ["measure_streams"]

_WARM_UP = 5
_PATIENCE = 60  # seconds, for what takes milliseconds
_SERVERS: dict[str, tuple[str, ...]] = {
    "WSGI": ("--workers=1", "--threads=4", "--keep-alive=60"),
    "ASGI": ("--workers", "1", "--timeout-keep-alive", "60"),
}


class _Client:
    """A client on one connection that stays open."""

    def __init__(self, port: int, path: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE)
        self._path = path
        self._headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}

    def turn(self, pieces: int) -> tuple[float, float]:
        """Take a turn, and return the seconds until its first piece and until its end."""
        body = json.dumps({"message": f"Say so many words: {pieces}"})
        start = perf_counter()
        self._connection.request("POST", self._path, body, self._headers)
        answer = self._connection.getresponse()
        if answer.status != 200:
            raise RuntimeError(f"{self._path} was answered with {answer.status}: {answer.read(500)!r}")
        first, found, last = 0.0, 0, b""
        for line in answer:
            if b'"text-delta"' in line:
                found += 1
                first = first or perf_counter() - start
            last = line if line.strip() else last
        if found != pieces or last != b"data: [DONE]\n":
            raise RuntimeError(f"{self._path} gave {found} pieces, and at last {last!r}")
        return first, perf_counter() - start


def measure_streams(engine: str, *, measurements: int, rounds: int, pieces: int) -> list[dict[str, Any]]:
    """Measure turns on one engine, each measurement in a new conversation, with WSGI and ASGI servers side by side.

    Args:
        engine: ``sqlite`` or ``postgres``.
        measurements: how often all is measured.
        rounds: in each, turns with one piece, and turns with further ones, of each view.
        pieces: the further ones.

    Returns:
        for each measurement and server: ``turn_ms`` and ``bare_turn_ms``, of one piece; ``first_ms`` and
        ``bare_first_ms``, until the first piece; ``piece_us`` and ``bare_piece_us``, of a further piece; ``cpu_ms`` and
        ``bare_cpu_ms``, what a turn with one piece takes of the server's processor, the database's aside.
    """
    rows: list[dict[str, Any]] = []
    with new_place(engine) as place, _servers(place) as servers:
        get_user_model()._default_manager.create_superuser("ann")
        for number in range(measurements):
            clients = {}
            for server, (port, _) in servers.items():
                owner = get_user_model()._default_manager.get()
                conversation = Conversation.objects.create(owner=owner, window="messages", limit=20)
                clients[server, "ours"] = _Client(port, f"/api/conversations/{conversation.pk}/turns/")
                clients[server, "bare"] = _Client(port, f"/bare/{server.lower()}/")
            taken = _take_turns(clients, [1, 1 + pieces], rounds, seed=number)
            for server, (_, process) in servers.items():
                figures = _figures(taken, server, pieces)
                for view, prefix in (("ours", ""), ("bare", "bare_")):
                    figures[f"{prefix}cpu_ms"] = _cpu(clients[server, view], process, rounds)
                rows.append({"engine": engine, "server": server, **figures})
    return rows


def _take_turns(
    clients: dict[tuple[str, str], _Client], lengths: list[int], rounds: int, seed: int
) -> dict[Any, list[Any]]:
    taken: dict[Any, list[Any]] = {}
    order = random.Random(seed)
    cells = [(server, view, pieces) for server, view in clients for pieces in lengths]
    for number in range(_WARM_UP + rounds):
        order.shuffle(cells)
        for server, view, pieces in cells:
            times = clients[server, view].turn(pieces)
            if number >= _WARM_UP:
                taken.setdefault((server, view, pieces), []).append(times)
    return taken


def _cpu(client: _Client, process: int, turns: int) -> float:
    """Return the milliseconds that a process works for a turn: they depend little on what else the machine does."""
    before = _worked(process)
    for _ in range(turns):
        client.turn(1)
    return 1_000 * (_worked(process) - before) / turns


def _worked(process: int) -> float:
    """Return the seconds that a process has worked, in all its threads and children, ended ones too."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(_worked(int(child)) for child in children)


def _figures(taken: dict[Any, list[Any]], server: str, more: int) -> dict[str, float]:
    figures: dict[str, float] = {}
    for view, prefix in (("ours", ""), ("bare", "bare_")):
        few, many = ([*zip(*taken[server, view, pieces], strict=True)] for pieces in (1, 1 + more))
        figures[f"{prefix}first_ms"] = 1_000 * median(few[0])
        figures[f"{prefix}turn_ms"] = 1_000 * median(few[1])
        figures[f"{prefix}piece_us"] = 1_000_000 * (median(many[1]) - median(few[1])) / more
    return figures


@contextmanager
def _servers(place: Place) -> Iterator[dict[str, tuple[int, int]]]:
    """Run the servers, and give the port and the first process of each."""
    from tests.support.server import start_server

    with ExitStack() as stack:
        environment = {
            "DJANGO_SETTINGS_MODULE": "benchmarks.streams.settings",
            "CHATMEMORY_BENCHMARK_DATABASE": place.database,
            "CHATMEMORY_BENCHMARK_ENGINE": place.engine,
            "OPENAI_BASE_URL": stack.enter_context(running_model()),
            "OPENAI_API_KEY": "none",
        }
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = {}
        for server, options in _SERVERS.items():
            log = folder / server
            port, process = stack.enter_context(start_server(log, environment, asgi=server == "ASGI", options=options))
            servers[server] = port, process.pid
        yield servers
