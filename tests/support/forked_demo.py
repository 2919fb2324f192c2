"""``python manage.py demo``, often: forked from a process that has imported everything, which takes most of the time.

A forked process has its own exit code, output and signals, as one that was started has. Only the start is not tested by
it; ``tests/demo/test_command.py`` starts other processes for that.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import signal
import sys
from pathlib import Path
from subprocess import PIPE, Popen
from types import TracebackType

from tests.support.paths import ROOT

__all__ = ["ForkedDemo"]

_PATIENCE = 300  # seconds, for what takes one


class ForkedDemo:
    """The process that forks, as long as the context lasts."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        """
        Args:
            folder: a place for what the runs print.
            environment: the variables, which name the settings.
        """
        self._folder = folder
        self._parent = Popen(
            [sys.executable, "-m", "tests.support.forked_demo"],
            cwd=ROOT,
            env=environment,
            stdin=PIPE,
            stdout=PIPE,
            text=True,
        )

    def __enter__(self) -> ForkedDemo:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._parent.communicate()
        assert self._parent.returncode == 0

    def run(self, arguments: list[str], settings: str, program: str | None = None) -> tuple[int, str, str]:
        """Run the demo.

        Args:
            arguments: those of ``manage.py demo``, or of ``program``.
            settings: lines that change ``DATABASES``.
            program: the source of what runs instead.

        Returns:
            the exit code, and what was printed on stdout and stderr.
        """
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        out, err = self._folder / "stdout", self._folder / "stderr"
        order = {"arguments": arguments, "settings": settings, "program": program, "out": str(out), "err": str(err)}
        self._parent.stdin.write(json.dumps(order) + "\n")
        self._parent.stdin.flush()
        code = self._parent.stdout.readline()
        assert code, "the process that forks has ended"
        return int(code), out.read_text(), err.read_text()


def _fork() -> None:
    """Run what each line of stdin orders, and print its exit code."""
    for line in sys.stdin:
        child = os.fork()
        if not child:
            _run(**json.loads(line))
            return
        _pid, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _run(arguments: list[str], settings: str, program: str | None, out: str, err: str) -> None:
    from django.conf import settings as given

    signal.alarm(_PATIENCE)
    # A shell that runs the tests in the background has SIGINT ignored, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, path in (1, out), (2, err):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    exec(settings, {"DATABASES": given.DATABASES})
    if program is None:
        sys.argv = ["manage.py", "demo", *arguments]
        runpy.run_path("manage.py", run_name="__main__")
    else:
        sys.argv = ["-c", *arguments]
        exec(program, {"__name__": "__main__"})


def _import_everything() -> None:
    import django

    django.setup()
    from django.urls import get_resolver

    from chatmemory.core.tokens import count_tokens

    get_resolver().url_patterns  # noqa: B018  # imports the views
    count_tokens("", "o200k_base")
    gc.freeze()  # a child that ends would look at all of it, and copy it


if __name__ == "__main__":
    _import_everything()
    _fork()
