"""A site on gunicorn or uvicorn, in processes of its own, and a client that talks plain HTTP with it."""

from __future__ import annotations

import base64
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from django.db import connection

from tests.support.waiting import wait_until

__all__ = ["Answer", "HttpClient", "run_server", "start_server", "uvicorn", "workers_of"]

_WORKERS = 3
_PATIENCE = 60  # seconds, for what takes milliseconds


@dataclass(frozen=True)
class Answer:
    """What the server said."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class HttpClient:
    """Signs in with every request. Each is on a connection of its own, so any number of threads may use one client."""

    port: int
    username: str
    password: str

    def headers(self, more: Mapping[str, str | None]) -> dict[str, str]:
        credentials = base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
        given = {"Authorization": f"Basic {credentials}", "Content-Type": "application/json", **more}
        return {name: value for name, value in given.items() if value is not None}

    def request(
        self, method: str, path: str, body: Any = None, *, chunked: bool = False, **headers: str | None
    ) -> Answer:
        """Send a request and wait for its answer. ``If_Match="…"`` is the header ``If-Match``."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_PATIENCE)
        try:
            with suppress(BrokenPipeError, ConnectionResetError):  # it may answer before it has read everything
                connection.request(
                    method,
                    path,
                    body=_encoded(body),
                    headers=self.headers({name.replace("_", "-"): value for name, value in headers.items()}),
                    encode_chunked=chunked,
                )
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()

    def send_and_hang_up(self, path: str, body: Any, *, share: float = 1, **headers: str | None) -> None:
        """POST ``body``, or the first ``share`` of its bytes, and drop the connection before the answer comes."""
        data = _encoded(body)
        given = self.headers({name.replace("_", "-"): value for name, value in headers.items()})
        lines = [
            f"POST {path} HTTP/1.1",
            "Host: 127.0.0.1",
            f"Content-Length: {len(data)}",
            *(f"{name}: {value}" for name, value in given.items()),
        ]
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        with socket.create_connection(("127.0.0.1", self.port), timeout=_PATIENCE) as connection:
            connection.sendall(head + data[: int(len(data) * share)])

    def wait_until_idle(self) -> None:
        """Wait until the server has closed all connections, those of clients that have hung up included."""
        wait_until(lambda: not _connections_to(self.port), "the server leaves a connection open")


def _connections_to(port: int) -> list[str]:
    """The connections that a server on this machine has not closed, accepted or not."""
    states = {"01": "established", "03": "being established", "08": "left by the client"}
    sockets = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [states[state] for _, local, _, state, *_ in sockets if local.endswith(f":{port:04X}") and state in states]


def _encoded(body: Any) -> Any:
    if body is None or isinstance(body, (bytes, Iterator)):
        return b"" if body is None else body
    return json.dumps(body).encode()


def _gunicorn(listener: int) -> list[str]:
    return [
        # Imported once and forked: to import the site takes a worker longer than what most tests ask of it.
        *[sys.executable, "-m", "gunicorn", "--preload", "tests.support.whole_site:application"],
        f"--workers={_WORKERS}",
        f"--bind=fd://{listener}",
        # A worker that is slow on a busy machine is not killed, which it would log as an error.
        f"--timeout={_PATIENCE}",
        f"--graceful-timeout={_PATIENCE // 2}",
        "--no-control-socket",
        "--log-level=warning",
    ]


def uvicorn(listener: int) -> list[str]:
    """The command that serves with several workers what comes to a socket."""
    return [
        *[sys.executable, "-m", "uvicorn", "--factory", "django.core.asgi:get_asgi_application"],
        *["--fd", str(listener), "--workers", str(_WORKERS), "--lifespan", "off", "--log-level", "warning"],
        *["--timeout-graceful-shutdown", str(_PATIENCE // 2)],
    ]


@contextmanager
def run_server(
    log: Path,
    settings: str = "tests.settings.server",
    *,
    asgi: bool = False,
    options: Sequence[str] = (),
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[int]:
    """Gunicorn on the test database, as long as the context lasts; gives its port.

    Args:
        log: the file for what it prints.
        settings: the module.
        asgi: uvicorn instead.
        options: more of the command line; what comes last counts.
        environment: more variables.
    """
    given = {
        "DJANGO_SETTINGS_MODULE": settings,
        "CHATMEMORY_TEST_NAME": str(connection.settings_dict["NAME"]),
        **environment,
    }
    with start_server(log, given, asgi=asgi, options=options) as (port, process):
        yield port
        assert process.poll() is None, log.read_text()


@contextmanager
def start_server(
    log: Path, environment: Mapping[str, str], *, asgi: bool, options: Sequence[str] = ()
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Gunicorn or uvicorn, as long as the context lasts; gives its port and its first process."""
    # The server inherits a socket that listens already: the port is free for sure, and whoever connects before the
    # workers are up waits in the queue.
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener, log.open("wb") as output:
        # Connections inherit it. A server that is given a listener does not see that it is TCP.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        port = listener.getsockname()[1]
        command = uvicorn(listener.fileno()) if asgi else _gunicorn(listener.fileno())
        process = subprocess.Popen(
            [*command, *options],
            env={**os.environ, **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=[listener.fileno()],
            start_new_session=True,
        )
    try:
        yield port, process
    finally:
        process.terminate()
        try:
            process.wait(timeout=_PATIENCE)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=_PATIENCE)


def workers_of(server: subprocess.Popen[bytes]) -> list[int]:
    """The processes that a server's first one has for requests."""
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    found = []
    for child in children:
        with suppress(FileNotFoundError, ProcessLookupError):  # it ended just now
            if b"resource_tracker" not in Path(f"/proc/{child}/cmdline").read_bytes():  # multiprocessing's own
                found.append(int(child))
    return found
