"""The port that the demo listens on."""

from __future__ import annotations

import argparse
import errno
import os
import socket

from django.core.management.base import CommandError

__all__ = ["HOST", "port_number", "require_free_port"]

HOST = "127.0.0.1"


def port_number(text: str) -> int:
    """Return the value of ``--port``."""
    if text.isascii() and text.isdigit() and 0 < int(text) < 2**16:
        return int(text)
    raise argparse.ArgumentTypeError(f"expected a number from 1 to 65535, got {text!r}")


def require_free_port(port: int) -> None:
    """Raise ``CommandError`` if no server can listen on ``port`` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        if os.name == "posix":
            # As the server does: a connection that was just closed keeps no port busy. On Windows the option would
            # take the port of a program that runs.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                reason = "is busy, perhaps with a demo that runs already. Stop that, or choose another port:"
            else:
                reason = f"cannot be used ({error.strerror}). Choose another port:"
            other = port + 1 if 1024 <= port < 2**16 - 1 else 8001
            raise CommandError(f"Port {port} {reason} python manage.py demo --port {other}") from error
