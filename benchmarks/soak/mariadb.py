"""A MariaDB server of one's own: its data in a folder, on a free port of the loopback, removed afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.soak.programs import as_user, free_port, program

__all__ = ["MariaDbServer"]

_DATABASE = "chatmemory"
_USER = "mysql"


class MariaDbServer:
    """A context manager that makes the data, starts the server, and at the end leaves no process of it.

    The server ends with the thread that started it, too, however that ends.
    """

    def __init__(self, folder: Path, name: str = "mariadb", options: Sequence[str] = ()) -> None:
        """
        Args:
            folder: gets the data and the log; nothing else must have the ``name`` there.
            name: of both.
            options: more of them for ``mariadbd``.
        """
        self.name = name
        self.log = folder / f"{name}.log"
        self.port = free_port()
        self._data = folder / name
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._install()
        try:
            self._first_start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()

    def database(self, **more: Any) -> dict[str, Any]:
        """Return Django's settings of the database that was made at the first start."""
        settings = {
            "ENGINE": "django.db.backends.mysql",
            "HOST": "127.0.0.1",
            "PORT": self.port,
            "USER": "root",
            "PASSWORD": "",
            "NAME": _DATABASE,
            "OPTIONS": {"charset": "utf8mb4"},
        }
        return settings | more

    def start(self, *options: str) -> None:
        """Start, and wait until it answers.

        Args:
            options: for this time only.
        """
        self.begin(*options)
        self.wait()

    def begin(self, *options: str) -> None:
        """Start, and do not wait."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(options),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # with what it starts itself it can be killed
            )

    def run(self, *options: str) -> str:
        """Run the program with options that let it do one thing and end, and return its output."""
        done = subprocess.run(
            self._command(options), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True, text=True
        )
        return done.stdout

    def wait(self, seconds: float = 120) -> None:
        """Wait until it answers."""
        until = time.monotonic() + seconds
        while not self._is_ready():
            if self._process is None or self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{self.name} does not start:\n{self._end_of_log()}")
            time.sleep(0.1)

    def stop(self) -> None:
        """End it in good order, if it runs."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once, if it runs."""
        self._end(signal.SIGKILL)

    def send(self, number: signal.Signals) -> None:
        """Send its process a signal."""
        assert self._process is not None, f"{self.name} does not run"
        self._process.send_signal(number)

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows that the server gives to a statement, on a connection of its own."""
        import MySQLdb

        connection = MySQLdb.connect(host="127.0.0.1", port=self.port, user="root", connect_timeout=5)
        try:
            connection.autocommit(True)
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return list(cursor.fetchall())
        finally:
            connection.close()

    def _command(self, options: Sequence[str]) -> list[str]:
        return [
            *as_user(_USER),
            *("--pdeathsig", "KILL", program("mariadbd"), "--no-defaults", f"--datadir={self._data}"),
            *(f"--port={self.port}", "--bind-address=127.0.0.1", "--skip-name-resolve"),
            # Relative to the data, for the path of a socket must be short.
            *("--socket=mariadb.sock", "--pid-file=mariadb.pid", f"--tmpdir={self._data}"),
            *("--character-set-server=utf8mb4", "--innodb-buffer-pool-size=64M", "--max-connections=300"),
            *self._options,
            *options,
        ]

    def _first_start(self) -> None:
        self.start()
        self._make_database()

    def _make_database(self) -> None:
        self.query(f"CREATE DATABASE {_DATABASE}")

    def _is_ready(self) -> bool:
        from MySQLdb import OperationalError

        try:
            return self.query("SELECT 1") == [(1,)]
        except OperationalError:
            return False

    def _install(self) -> None:
        installer, server = program("mariadb-install-db"), program("mariadbd")
        self._data.mkdir()
        if os.geteuid() == 0:
            shutil.chown(self._data, _USER, _USER)
            for parent in self._data.parents:
                if not parent.stat().st_mode & 0o001:
                    raise RuntimeError(f"{server} runs as {_USER}, who may not enter {parent}")
        command = [installer, "--no-defaults", f"--datadir={self._data}", "--skip-test-db"]
        made = subprocess.run(
            [*as_user(_USER), *command, "--auth-root-authentication-method=normal"],
            env=os.environ | {"TMPDIR": str(self._data)},  # the caller's may be closed to the server's user
            capture_output=True,
            check=False,
        )
        self.log.write_bytes(made.stdout + made.stderr)
        if made.returncode:
            raise RuntimeError(f"{self.name} cannot be made:\n{self._end_of_log()}")

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with process:
            if process.poll() is None:
                process.send_signal(how)
                try:
                    process.wait(timeout=60)
                except subprocess.TimeoutExpired:
                    process.kill()
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return  # nothing that it started is left

    def _end_of_log(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])
