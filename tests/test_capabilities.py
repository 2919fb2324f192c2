"""The hooks of capabilities, in a project that has one more."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.pages import blocks_of
from tests.support.paths import ROOT


@pytest.mark.slow
def test_a_capability_fills_each_hook() -> None:
    command = ["-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "--ds", "tests.settings.capability"]
    run = subprocess.run(
        [sys.executable, *command, "tests/capability/checks.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_page_shows_it_as_it_is() -> None:
    page = ROOT / "docs" / "development.md"
    shown = [block.text for block in blocks_of(page, "python") if "tests.capability" in block.text]
    folder = "".join(path.read_text() for path in sorted((ROOT / "tests" / "capability").glob("*.py")))
    assert len(shown) == 2
    for block in shown:
        assert block[block.index("class ") :] in folder
