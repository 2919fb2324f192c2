"""The hooks of capabilities, in a project that has one more."""

from __future__ import annotations

import subprocess
import sys

from tests.support.paths import ROOT


def test_a_capability_fills_each_hook() -> None:
    command = ["-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "--ds", "tests.settings.capability"]
    run = subprocess.run(
        [sys.executable, *command, "tests/capability/checks.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
