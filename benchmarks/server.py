"""Gunicorn, which serves the project of the benchmarks on the database of a place."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.places import Place

__all__ = ["Server", "running_server"]

_PATIENCE = 30  # seconds, for what takes milliseconds


@dataclass(frozen=True)
class Server:
    """A server that runs on this machine."""

    pid: int
    port: int


@contextmanager
def running_server(place: Place, *options: str) -> Iterator[Server]:
    """Run Gunicorn while the context lasts.

    Args:
        place: the database.
        options: of Gunicorn's command line.
    """
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "benchmarks.settings",
        "CHATMEMORY_BENCHMARK_DATABASE": place.database,
        "CHATMEMORY_BENCHMARK_ENGINE": place.engine,
    }
    # The server inherits a socket that listens already, so whoever connects before it is up waits.
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        bind = f"--bind=fd://{listener.fileno()}"
        process = subprocess.Popen(
            [sys.executable, "-m", "gunicorn", "django.core.wsgi:get_wsgi_application()", bind, *options],
            env=environment,
            stdout=sys.stderr,
            pass_fds=[listener.fileno()],
        )
        try:
            yield Server(process.pid, listener.getsockname()[1])
        finally:
            process.terminate()
            process.wait(timeout=_PATIENCE)
