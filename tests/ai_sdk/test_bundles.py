"""The scripts of pages are what their modules say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.write_javascript import BUNDLES, bundle_text

pytestmark = pytest.mark.npm


@pytest.mark.parametrize("made", BUNDLES, ids=lambda made: made.name)
def test_a_script_is_made_of_its_modules(made: Path) -> None:
    assert made.read_text("utf-8") == bundle_text(BUNDLES[made]), "run python -m tests.tools.write_javascript"
