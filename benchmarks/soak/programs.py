"""The programs of servers: their paths, users and ports."""

from __future__ import annotations

import os
import random
import shutil
import socket

__all__ = ["as_user", "free_port", "program"]

_PACKAGES = {
    "mariadbd": "mariadb-server",
    "mariadb-install-db": "mariadb-server",
    "pgbouncer": "pgbouncer",
    "setpriv": "util-linux",
    "ss": "iproute2",
}


def free_port() -> int:
    """Return a port that nobody listens on, below those that the kernel gives to outgoing connections.

    So it is still free when a server that was killed comes back.
    """
    while True:
        port = random.randrange(12_000, 30_000)
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def program(name: str) -> str:
    """Return the path of a program.

    Raises:
        RuntimeError: it is missing.
    """
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if found is None:
        raise RuntimeError(f"{name} is missing: on Debian, apt-get install {_PACKAGES.get(name, name)}")
    return found


def as_user(name: str) -> list[str]:
    """Return the prefix that runs a command as the user ``name``, if this is root: servers refuse to run as root."""
    setpriv = [program("setpriv")]
    return [*setpriv, "--reuid", name, "--regid", name, "--init-groups"] if os.geteuid() == 0 else setpriv
