"""A process that measures: its standard input names the function, its standard output has the answer, in JSON."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from contextlib import redirect_stdout
from importlib import import_module
from typing import Any

import django

__all__ = ["WorkerError", "in_worker", "in_workers", "main", "wait_for_others"]


class WorkerError(RuntimeError):
    """A worker gave no answer; the text is its traceback, or how it ended."""


def in_worker(engine: str, call: str, /, **arguments: Any) -> Any:
    """Return the answer of a function in a process of its own, whose default database is on ``engine``.

    Raises:
        WorkerError: the function raised an exception, or the process was killed.
    """
    process = _start(call, arguments, {"CHATMEMORY_BENCHMARK_ENGINE": engine})
    return _answer(process, process.communicate()[0])


def in_workers(call: str, arguments: list[dict[str, Any]], variables: dict[str, str]) -> list[Any]:
    """Return the answers of a function in several processes, which begin side by side.

    Args:
        call: the dotted path of the function, which calls ``wait_for_others(starting)`` when it is ready.
        arguments: its arguments in each process, besides ``starting``.
        variables: variables of the environment, besides those of this process.

    Raises:
        WorkerError: as ``in_worker``, for the first process that failed.
    """
    # A clock would not do: how long a process takes to be ready depends on the machine. Each closes its own pipe when
    # it is, or when it fails, and waits for the end of the pipe that this process closes.
    begin, begun = os.pipe()
    waiting: list[int] = []
    processes: list[subprocess.Popen[str]] = []
    try:
        for own in arguments:
            is_ready, ready = os.pipe()
            waiting.append(is_ready)
            try:
                given = own | {"starting": [ready, begin]}
                processes.append(_start(call, given, variables, files=(ready, begin)))
            finally:
                os.close(ready)
        for is_ready in waiting:
            os.read(is_ready, 1)  # nothing is written: this is the end of the file
    finally:
        for file in (begin, begun, *waiting):
            os.close(file)
    ended = [(process, process.communicate()[0]) for process in processes]
    return [_answer(process, printed) for process, printed in ended]


def wait_for_others(starting: list[int]) -> None:
    """Wait until all processes of ``in_workers`` wait here."""
    ready, begin = starting
    os.close(ready)
    os.read(begin, 1)


def _start(
    call: str, arguments: dict[str, Any], variables: dict[str, str], *, files: tuple[int, ...] = ()
) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | variables,
        pass_fds=files,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps({"call": call, "with": arguments}))
    process.stdin.close()
    process.stdin = None  # communicate() would flush it
    return process


def _answer(process: subprocess.Popen[str], printed: str) -> Any:
    if not printed:
        raise WorkerError(f"the process ended with {process.returncode}, and without an answer")
    told = json.loads(printed)
    if "error" in told:
        raise WorkerError(told["error"])
    return told["answer"]


def main() -> None:
    """Call the function that the input names, ``{"call": "module.function", "with": {…}}``."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # as an exception, so that databases are dropped
    asked: dict[str, Any] = json.load(sys.stdin)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.settings")
    with redirect_stdout(sys.stderr):  # whatever a package prints is no part of the answer
        try:
            django.setup()
            module, function = asked["call"].rsplit(".", 1)
            told = {"answer": getattr(import_module(module), function)(**asked["with"])}
        except Exception:
            told = {"error": traceback.format_exc()}
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
