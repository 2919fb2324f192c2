"""Pictures of the admin's pages, light and dark, wide and narrow: ``python -m tests.tools.screenshots FOLDER ADDRESS``.

ADDRESS is where ``python manage.py demo`` serves, by default http://127.0.0.1:8000.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
_WIDTHS = [1400, 360]


def _pages(page: Page, site: str) -> dict[str, str]:
    """Addresses by the names of their pictures."""
    page.goto(f"{site}/admin/login/?next=/admin/chatmemory/conversation/")
    page.fill("#id_username", "demo")
    page.fill("#id_password", "demo")
    with page.expect_navigation():
        page.click("input[type=submit]")
    page.wait_for_selector("#result_list")
    found = page.locator("#result_list tbody th a").evaluate_all("links => links.map(link => link.href)")
    base = found[-1].partition("change/")[0]  # the longest of the demo's conversations
    return {
        "dashboard": f"{site}/admin/chatmemory/",
        "conversations": f"{site}/admin/chatmemory/conversation/",
        "conversation": f"{base}change/",
        "what-the-model-saw": f"{base}memory/",
        "what-if": f"{base}what-if/?window=messages&limit=8",
        "compare-windows": f"{base}replay/",
        "change-window": f"{base}window/?window=messages&limit=8",
        "clear-tool-results": f"{base}clear-tool-results/?keep=0",
        "clear": f"{base}clear/",
        "erase": f"{base}delete/",
        "messages": f"{site}/admin/chatmemory/message/",
        "chat": f"{site}/",
    }


def main(folder: Path, site: str) -> None:
    """Take them all."""
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=_ARGUMENTS)
        for scheme in ("light", "dark"):
            for width in _WIDTHS:
                page = browser.new_page(viewport={"width": width, "height": 1000}, color_scheme=scheme)
                for name, address in _pages(page, site).items():
                    page.goto(address, wait_until="networkidle")
                    page.screenshot(path=folder / f"{name}-{scheme}-{width}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "http://127.0.0.1:8000")
