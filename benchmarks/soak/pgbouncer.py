"""A pgbouncer in transaction mode, in front of a server."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.soak.postgres import PostgresServer
from benchmarks.soak.programs import as_user, free_port, program

__all__ = ["PgBouncer"]

_USER = "postgres"  # it refuses to run as root
_PATIENCE = 30.0


class PgBouncer:
    """A context manager that starts pgbouncer, and ends it."""

    def __init__(self, folder: Path, server: PostgresServer, pool: int) -> None:
        """
        Args:
            folder: the folder for its settings and its log.
            server: the running server.
            pool: the number of connections to the server that all clients share.
        """
        self._settings = folder / "pgbouncer.ini"
        self._log = folder / "pgbouncer.log"
        self._port = free_port()
        self._server = server
        self._pool = pool
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        settings = self._server.database()
        address = " ".join(
            f"{name}={settings[setting]}"
            for name, setting in {"host": "HOST", "port": "PORT", "dbname": "NAME", "user": "USER"}.items()
        )
        self._settings.write_text(
            f"[databases]\n{settings['NAME']} = {address}\n"
            "[pgbouncer]\nlisten_addr = 127.0.0.1\nunix_socket_dir =\nauth_type = any\n"
            f"listen_port = {self._port}\npool_mode = transaction\ndefault_pool_size = {self._pool}\n"
            "max_client_conn = 200\n"
        )
        self._log.touch()
        if os.geteuid() == 0:
            for file in (self._settings, self._log):
                shutil.chown(file, _USER, _USER)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*as_user(_USER), "--pdeathsig", "KILL", program("pgbouncer"), str(self._settings)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            self._wait()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process is not None:
            with self._process:
                self._process.kill()
            self._process = None

    def database(self) -> dict[str, Any]:
        """Return Django's settings for the server's database, by way of this pgbouncer."""
        return self._server.database(PORT=str(self._port))

    def _wait(self) -> None:
        import psycopg

        settings = self.database()
        address = f"host=127.0.0.1 port={self._port} user={settings['USER']} dbname={settings['NAME']}"
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                psycopg.connect(address).close()
                return
            except psycopg.OperationalError as error:
                if self._process is None or self._process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"pgbouncer does not start: {self._log.read_text()[-1_000:]}") from error
            time.sleep(0.1)
