"""A worker of Gunicorn, and what each request costs it."""

from __future__ import annotations

import http.client
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.places import Place
from benchmarks.server import running_server
from benchmarks.worst_requests.requests import Asked

__all__ = ["Cost", "Worker", "running_worker"]

_PATIENCE = 900  # seconds; answers that take minutes are what this looks for
_BLOATED = 30  # MB above an idle worker: one that keeps more is replaced before the next request
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one request took."""

    asked: Asked
    status: int
    cpu: float
    """Seconds of the worker, not of the database's server."""

    memory: float
    """The most megabytes that the worker had, less those of an idle one."""

    answer_bytes: int


class Worker:
    """The one worker of a server."""

    def __init__(self, master: int, port: int, cookie: str, warm_up: Sequence[Asked]) -> None:
        self._master = master
        self._warm_up = warm_up
        self._port = port
        self._cookie = cookie
        self._pid = 0
        self._idle = 0.0

    def measure(self, asked: Asked) -> tuple[Cost, bytes]:
        """Send a request, and return its cost and the answer."""
        if not self._pid or _megabytes(self._pid, "VmRSS") > self._idle + _BLOATED:
            self._renew()
        Path(f"/proc/{self._pid}/clear_refs").write_text("5")  # resets the peak, VmHWM
        before = _seconds(self._pid)
        status, answer = self._send(asked)
        cost = Cost(
            asked=asked,
            status=status,
            cpu=_seconds(self._pid) - before,
            memory=_megabytes(self._pid, "VmHWM") - self._idle,
            answer_bytes=len(answer),
        )
        return cost, answer

    def _renew(self) -> None:
        old = self._pid
        if old:
            os.kill(old, signal.SIGTERM)
        while True:
            children = Path(f"/proc/{self._master}/task/{self._master}/children").read_text().split()
            new = [int(pid) for pid in children if int(pid) != old]
            if new:
                break
            time.sleep(0.05)
        self._pid = new[0]
        for asked in self._warm_up:
            self._send(asked)
        self._idle = _megabytes(self._pid, "VmRSS")

    def _send(self, asked: Asked) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_PATIENCE)
        headers = {"Cookie": self._cookie, "Content-Type": asked.content_type}
        try:
            connection.request(asked.method, asked.path, asked.body or None, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


def _seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _megabytes(pid: int, name: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"the worker {pid} has no {name}; this needs Linux")


@contextmanager
def running_worker(place: Place, cookie: str, warm_up: Sequence[Asked]) -> Iterator[Worker]:
    """Run Gunicorn with one worker while the context lasts.

    Args:
        place: the database.
        cookie: the session of the user who asks.
        warm_up: small requests that each new worker gets first.
    """
    options = ("--workers=1", "--timeout=0", "--log-level=critical", "--limit-request-line=0")
    with running_server(place, *options) as server:
        yield Worker(server.pid, server.port, cookie, warm_up)
