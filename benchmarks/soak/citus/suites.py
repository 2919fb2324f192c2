"""The tests of what is stored, on the nodes of Citus."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.soak.citus.cluster import new_cluster
from benchmarks.soak.crew import is_quick, tell

__all__ = ["run"]

_SUITES = {
    "LangChain4j's vectors": ["tests/core/test_conformance.py"],
    "operations, many writers among them": ["tests/database"],
    "REST": ["tests/rest"],
    "assistants, and their turns over HTTP": ["tests/assistant", "tests/turns"],
    "the admin": ["tests/admin"],
    "adapters, LangGraph among them, and names": ["tests/contrib"],
    "maintenance and transfer": ["tests/maintenance", "tests/transfer"],
    "branches, feedback, search and usage": ["tests/branches", "tests/feedback", "tests/search", "tests/usage"],
}
_QUICK = ["maintenance and transfer"]


def run(folder: Path, minutes: float) -> dict[str, Any]:
    """Run each suite once, however long it takes, and count the tests.

    Raises:
        AssertionError: one of them failed.
    """
    with new_cluster(folder) as nodes:
        coordinator, *workers = nodes
        environment = os.environ | {
            "CI": "true",
            "CHATMEMORY_TEST_DATABASE": "postgres",
            "CHATMEMORY_TEST_CITUS": "1",
            "CHATMEMORY_TEST_CITUS_WORKERS": ",".join(str(worker.port) for worker in workers),
            "PGHOST": "127.0.0.1",
            "PGPORT": str(coordinator.port),
            "PGUSER": "postgres",
            "PGDATABASE": "postgres",
        }
        return {
            f"tests of {name}": _run(paths, environment)
            for name, paths in _SUITES.items()
            if not is_quick() or name in _QUICK
        }


def _run(paths: list[str], environment: dict[str, str]) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *paths]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    last = (done.stdout.strip().splitlines() or [done.stderr])[-1]
    tell(f"{' '.join(paths)}: {last}")
    assert done.returncode == 0, done.stdout[-5_000:]
    counts = {name: number for number, name in re.findall(r"(\d+) (passed|skipped)", last)}
    return f"{counts['passed']} passed, {counts.get('skipped', 0)} skipped"
