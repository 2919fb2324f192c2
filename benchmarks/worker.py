"""A process that measures: its standard input names the function, its standard output has the answer, in JSON."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import redirect_stdout
from importlib import import_module
from typing import Any

import django

__all__ = ["in_worker", "main"]


def in_worker(engine: str, call: str, /, **arguments: Any) -> Any:
    """Return the answer of a function in a process of its own, whose default database is on ``engine``."""
    answer = subprocess.run(
        [sys.executable, "-m", "benchmarks.worker"],
        input=json.dumps({"call": call, "with": arguments}),
        env=os.environ | {"CHATMEMORY_BENCHMARK_ENGINE": engine},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(answer.stdout)


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
