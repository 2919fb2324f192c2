"""The settings of a project whose database does not answer."""

import os
import socket
import tempfile
from pathlib import Path

from tests.settings.base import *  # noqa: F403
from tests.settings.server import DATABASES

# The child of a process that holds this port without listening: nobody else can take it.
_refusing = socket.socket()
_refusing.bind(("127.0.0.1", 0))

DATABASES["default"] |= (
    {"NAME": Path(tempfile.gettempdir()) / f"no-such-directory-{os.getpid()}" / "chatmemory.sqlite3"}
    if DATABASES["default"]["ENGINE"].endswith("sqlite3")
    else {"HOST": "127.0.0.1", "PORT": str(_refusing.getsockname()[1])}
)
DATABASES["default"]["ATOMIC_REQUESTS"] = True
