"""What a release makes of the README."""

from __future__ import annotations

import re

from tests.support.paths import ROOT
from tests.tools.release import absolute_links

ADDRESS = "https://example.com/chatmemory"


def test_the_packages_page_has_absolute_links_and_pictures() -> None:
    readme = absolute_links((ROOT / "README.md").read_text("utf-8"), ADDRESS, "v1.2.3")
    targets = re.findall(r"\]\(([^)\s]+)\)", readme)
    assert f"{ADDRESS}/raw/v1.2.3/docs/admin.png" in targets
    assert f"{ADDRESS}/blob/v1.2.3/docs/memory.md" in targets
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []
