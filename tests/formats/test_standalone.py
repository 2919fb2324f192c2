"""The formats need neither Django nor anybody's SDK."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.paths import ROOT


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ai_sdk", "ai_sdk.stream", "anthropic", "gemini", "openai", "responses"])
def test_imports_neither_django_nor_an_sdk(name: str) -> None:
    code = f"""
import sys
import chatmemory.formats.{name}
sdks = {{"openai", "anthropic", "google", "pydantic"}}
foreign = {{name.partition(".")[0] for name in sys.modules}} & ({{"django", "rest_framework"}} | sdks)
assert not foreign, foreign
"""
    environment = {key: value for key, value in os.environ.items() if key != "DJANGO_SETTINGS_MODULE"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
