"""A Galera cluster of one's own: MariaDB servers that each accept writes, on one machine."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from MySQLdb import OperationalError

from benchmarks.soak.mariadb import MariaDbServer
from benchmarks.soak.programs import free_port, program

__all__ = ["GaleraNode", "new_cluster"]

_PROVIDERS = (
    "/usr/lib/galera/libgalera_smm.so",
    "/usr/lib64/galera-4/libgalera_smm.so",
    "/usr/lib/libgalera_smm.so",
)


class GaleraNode(MariaDbServer):
    """A node of the cluster. Started again after it was killed, it gets from the others what it missed."""

    def __init__(self, folder: Path, name: str, port: int, group: Sequence[int], options: Sequence[str] = ()) -> None:
        """
        Args:
            folder: for data and logs of all nodes.
            name: of this one.
            port: on which it talks to the others.
            group: such ports of all nodes. The first one's node makes the cluster and the database.
            options: more of them for ``mariadbd``.
        """
        self._makes_cluster = port == group[0]
        provider = {
            "gmcast.listen_addr": f"tcp://127.0.0.1:{port}",
            "ist.recv_addr": f"127.0.0.1:{free_port()}",
            "base_port": port,
        }
        needed = (
            *("--binlog-format=ROW", "--default-storage-engine=InnoDB", "--innodb-autoinc-lock-mode=2"),
            *("--wsrep-on=ON", f"--wsrep-provider={_provider()}", "--wsrep-cluster-name=soak"),
            f"--wsrep-cluster-address=gcomm://{','.join(f'127.0.0.1:{other}' for other in group)}",
            *(f"--wsrep-node-name={name}", "--wsrep-node-address=127.0.0.1", "--wsrep-sst-method=rsync"),
            f"--wsrep-sst-receive-address=127.0.0.1:{free_port()}",
            f"--wsrep-provider-options={'; '.join(f'{key}={value}' for key, value in provider.items())}",
        )
        super().__init__(folder, name, (*needed, *options))

    def freeze(self) -> None:
        """Suspend the process, so that it answers nobody."""
        self.send(signal.SIGSTOP)

    def thaw(self) -> None:
        """Resume the process after ``freeze``."""
        self.send(signal.SIGCONT)

    def status(self, name: str) -> str:
        """Return a status variable of the node."""
        return str(dict(self.query(f"SHOW GLOBAL STATUS LIKE '{name}'"))[name])

    def rejoin(self, *, knows_its_position: bool) -> None:
        """Start again after ``kill``.

        Args:
            knows_its_position: whether it looks up first which transaction was its last one, as the systemd unit of
                MariaDB lets it do. Then the others send the later ones, otherwise all their data.
        """
        self.start(*([f"--wsrep-start-position={self._position()}"] if knows_its_position else []))

    def _position(self) -> str:
        found = re.findall(r"Recovered position: (\S+)", self.run("--wsrep-recover"))
        if not found:
            raise RuntimeError(f"{self.name} does not know its position")
        return str(found[-1])

    def _first_start(self) -> None:
        if self._makes_cluster:
            self.start("--wsrep-new-cluster")
            self._make_database()
        else:
            self.start()

    def _is_ready(self) -> bool:
        try:
            return self.status("wsrep_ready") == "ON" and self.status("wsrep_local_state_comment") == "Synced"
        except OperationalError:
            return False


@contextmanager
def new_cluster(folder: Path, size: int = 3, options: Sequence[str] = ()) -> Iterator[list[GaleraNode]]:
    """Run a cluster with all its nodes synced, and remove it afterwards."""
    for name in ("rsync", "ss"):  # by which a node gets all data from another one
        program(name)
    group = [free_port() for _ in range(size)]
    nodes = [GaleraNode(folder, f"node{number}", port, group, options) for number, port in enumerate(group, start=1)]
    with ExitStack() as running:
        for node in nodes:
            running.enter_context(node)
        yield nodes


def _provider() -> str:
    for path in _PROVIDERS:
        if Path(path).exists():
            return path
    raise RuntimeError("libgalera_smm.so is missing: on Debian, apt-get install galera-4")
