"""A process that never searches does not import the search."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import sys

import django

django.setup()
print(*sorted(name for name in sys.modules if name.startswith("chatmemory.contrib.search.")))
"""


@pytest.mark.slow
def test_what_a_process_imports_when_it_starts() -> None:
    command = [sys.executable, "-c", _PROGRAM]
    environment = {"DJANGO_SETTINGS_MODULE": "tests.settings.base", "PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    names = {name.removeprefix("chatmemory.contrib.search.") for name in done.stdout.split()}
    assert names == {"admin", "apps", "capability", "models"}
