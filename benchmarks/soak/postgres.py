"""A PostgreSQL server of one's own: alone, or as the streaming replica of another."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.soak.programs import as_user, free_port

__all__ = ["DATABASE", "PostgresServer"]

DATABASE = "chatmemory"
"""The database that each server has."""

_USER = "postgres"
_PATIENCE = 60.0


class PostgresServer:
    """A context manager that makes the data, starts the server, and at the end leaves no process of it.

    It flushes to the disk as PostgreSQL does by default, and trusts whoever comes from this machine.
    """

    def __init__(
        self,
        folder: Path,
        name: str = "postgres",
        *,
        settings: dict[str, str] | None = None,
        replica_of: PostgresServer | None = None,
    ) -> None:
        """
        Args:
            folder: gets the data and the log; nothing else must have the ``name`` there.
            name: of both, and what a primary knows its replica by.
            settings: PostgreSQL's, beside its defaults.
            replica_of: a running server, of which this one becomes a replica that can be read.
        """
        self.name = name
        self.log = folder / f"{name}.log"
        self.port = free_port()
        self._data = folder / name
        self._settings = settings or {}
        self._primary = replica_of
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._install()
        try:
            self.start()
            if self._primary is None:
                self.query(f"CREATE DATABASE {DATABASE}", database="postgres")
            else:
                self._primary.wait_for(f"SELECT count(*) = 1 FROM pg_stat_replication WHERE {self._known_as()}")
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()

    def database(self, **more: Any) -> dict[str, Any]:
        """Return Django's settings of the database that was made at the first start."""
        settings = {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": "127.0.0.1",
            "PORT": str(self.port),
            "USER": _USER,
            "NAME": DATABASE,
        }
        return settings | more

    def start(self) -> None:
        """Start, and wait until it answers."""
        # No socket in the file system: its path would have to be short.
        settings = {"port": str(self.port), "listen_addresses": "127.0.0.1", "unix_socket_directories": ""}
        options = [f"--{name}={value}" for name, value in (settings | self._settings).items()]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*as_user(_USER), "--pdeathsig", "KILL", _binary("postgres"), "-D", str(self._data), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._data,
            )
        self.wait_for("SELECT true", database="postgres")

    def stop(self) -> None:
        """End it in good order, if it runs: connections are cut, and all is written."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Kill all its processes, if it runs: nothing is written any more."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGSTOP)  # so that it makes no more processes
        children = _children(self._process.pid)
        for child in children:
            with suppress(ProcessLookupError):  # it ended by itself
                os.kill(child, signal.SIGKILL)
        self._end(signal.SIGKILL)
        _wait(f"processes of {self.name} are left", lambda: all(_state(child)[0] in "ZX" for child in children))

    def promote(self) -> None:
        """Make this replica a primary, which waits for no replica of its own."""
        self.query("SELECT pg_promote(wait => true)")
        self.set("synchronous_standby_names", "")

    def become_replica_of(self, primary: PostgresServer) -> None:
        """Delete the data, and start again as a replica, on the same port."""
        self.kill()
        shutil.rmtree(self._data)
        self._primary = primary
        self.__enter__()

    def wait_until_replayed(self) -> None:
        """Wait until this replica shows what its primary has committed by now."""
        assert self._primary is not None
        [(place,)] = self._primary.query("SELECT pg_current_wal_lsn()")
        self.wait_for(f"SELECT pg_last_wal_replay_lsn() >= '{place}'")

    def synchronise(self, replica: PostgresServer) -> None:
        """Acknowledge commits from now on only when ``replica`` has them on its disk, too."""
        self.set("synchronous_standby_names", f'"{replica.name}"')
        self.wait_for(f"SELECT sync_state = 'sync' FROM pg_stat_replication WHERE {replica._known_as()}")

    def processor_seconds(self) -> float:
        """Return the processor time that its processes have taken so far, without those that have ended."""
        assert self._process is not None
        return sum(_processor_seconds(pid) for pid in _children(self._process.pid))

    def set(self, setting: str, value: str) -> None:
        """Change a setting of the running server, for good."""
        self.query(f"ALTER SYSTEM SET {setting} = '{value}'")
        self.query("SELECT pg_reload_conf()")
        self.wait_for(f"SELECT current_setting('{setting}') = '{value}'")

    def query(self, statement: str, database: str = DATABASE) -> list[tuple[Any, ...]]:
        """Return the rows that the server gives to a statement, on a connection of its own."""
        import psycopg

        address = f"host=127.0.0.1 port={self.port} user={_USER} dbname={database} connect_timeout=5"
        with psycopg.connect(address, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def wait_for(self, condition: str, database: str = DATABASE) -> None:
        """Wait until a query gives one row that is true."""
        import psycopg

        def holds() -> bool:
            if self._process is None or self._process.poll() is not None:
                raise RuntimeError(f"{self.name} does not run:\n{self._end_of_log()}")
            try:
                return self.query(condition, database) == [(True,)]
            except psycopg.OperationalError:  # it starts, or recovers
                return False

        _wait(f"on {self.name} this does not come true: {condition}", holds)

    def _known_as(self) -> str:
        return f"application_name = '{self.name}'"

    def _install(self) -> None:
        command = [_binary("initdb"), f"--username={_USER}", "--auth=trust", "--encoding=UTF8", "--no-locale"]
        self._data.mkdir(mode=0o700)
        if os.geteuid() == 0:
            shutil.chown(self._data, _USER, _USER)
            for parent in self._data.parents:
                if not parent.stat().st_mode & 0o001:
                    raise RuntimeError(f"PostgreSQL runs as {_USER}, who may not enter {parent}")
        if self._primary is not None:
            address = f"host=127.0.0.1 port={self._primary.port} user={_USER} application_name={self.name}"
            command = [_binary("pg_basebackup"), f"--dbname={address}", "--checkpoint=fast", "--write-recovery-conf"]
        made = subprocess.run(
            [*as_user(_USER), *command, f"--pgdata={self._data}"], capture_output=True, cwd=self._data, check=False
        )
        with self.log.open("ab") as log:
            log.write(made.stdout + made.stderr)
        if made.returncode:
            raise RuntimeError(f"{self.name} cannot be made:\n{self._end_of_log()}")

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with process:
            process.send_signal(how)
            try:
                process.wait(timeout=_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()

    def _end_of_log(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])


def _binary(name: str) -> str:
    """Return the path of the newest program. Debian has one folder per version, which is not on the PATH.

    Raises:
        RuntimeError: there is none.
    """
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: float(folder.parent.name))
    found = shutil.which(name, path=os.pathsep.join([*map(str, reversed(folders)), os.environ.get("PATH", "")]))
    if found is None:
        raise RuntimeError(f"{name} is missing: on Debian, apt-get install postgresql")
    return found


def _children(parent: int) -> list[int]:
    pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return [pid for pid in pids if _state(pid)[1:2] == [str(parent)]]


def _state(pid: int) -> list[str]:
    """Return state, parent and more of a process, as Linux reports them; the state X if there is no process."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["X"]


def _processor_seconds(pid: int) -> float:
    try:
        return int((Path("/proc") / str(pid) / "schedstat").read_text().split()[0]) / 1e9
    except OSError:  # it has ended
        return 0


def _wait(failure: str, holds: Callable[[], bool]) -> None:
    until = time.monotonic() + _PATIENCE
    while not holds():
        if time.monotonic() > until:
            raise TimeoutError(failure)
        time.sleep(0.05)
