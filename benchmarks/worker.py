"""A process that measures: its standard input names the function, its standard output has the answer, in JSON."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import redirect_stdout
from importlib import import_module
from typing import Any

import django

__all__ = ["main"]


def main() -> None:
    """Call the function that the input names, ``{"call": "module.function", "with": {…}}``."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # as an exception, so that databases are dropped
    asked: dict[str, Any] = json.load(sys.stdin)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.settings")
    with redirect_stdout(sys.stderr):  # whatever a package prints is no part of the answer
        django.setup()
        module, function = asked["call"].rsplit(".", 1)
        answer = getattr(import_module(module), function)(**asked["with"])
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
