"""Take the pictures: ``python -m tests.tools.screenshots FOLDER [--only WORDS] [--whole]``.

The pages are served from a new SQLite file with the demo's conversations and some in every other state; nothing needs
to run. A picture is named PAGE-SCHEME-WIDTH.png. If a page is not there, or fails, the command says so at its end.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import django
from django.conf import settings
from playwright.sync_api import Browser, Page, sync_playwright

_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
_SIZES = ((1400, 900), (390, 844))
_NARROW = 600


def main() -> int:
    """Take the pictures of the pages that the command line asks for, and return the exit code."""
    parser = ArgumentParser(prog="python -m tests.tools.screenshots")
    parser.add_argument("folder", type=Path, help="where the pictures go")
    parser.add_argument("--only", nargs="*", default=[], help="only pages whose names have one of these words")
    parser.add_argument("--whole", action="store_true", help="the whole page instead of its first screen")
    parser.add_argument("--language", default="en-US", help="the browser's language")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        visits = _set_up(Path(folder) / "screenshots.sqlite3")
        with _served() as site, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=_ARGUMENTS)
            for scheme in ("light", "dark"):
                for width, height in _SIZES:
                    looks: dict[str, Any] = {
                        "color_scheme": scheme,
                        "viewport": {"width": width, "height": height},
                        "locale": asked.language,
                        # On a phone there is nothing to point with.
                        "has_touch": width < _NARROW,
                        "is_mobile": width < _NARROW,
                    }
                    for session, addresses in visits:
                        page = _page(browser, site, session, looks)
                        for name, address in addresses.items():
                            if asked.only and not any(word in name for word in asked.only):
                                continue
                            answer = page.goto(site + address, wait_until="networkidle")
                            if (
                                answer is None
                                or answer.status in (403, 404, 500)
                                or (session and "/login/" in page.url)
                            ):
                                failed.append(f"{name} {address}: {answer and answer.status} {page.url}")
                            page.screenshot(
                                path=asked.folder / f"{name}-{scheme}-{width}.png",
                                full_page=asked.whole,
                                animations="disabled",
                            )
                        page.context.close()
    for problem in dict.fromkeys(failed):
        sys.stderr.write(f"{problem}\n")
    return 1 if failed else 0


def _set_up(file: Path) -> list[tuple[str | None, dict[str, str]]]:
    """Make the site's data, and return who visits which pages: the key of a session, and addresses by name."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "demo_project.settings"
    settings.DATABASES["default"]["NAME"] = file
    django.setup()
    # Only now: they need the settings.
    from django.core.management import call_command

    from tests.tools.screenshots.pages import SIGNED_OUT, WITHOUT_WORDS, pages_of
    from tests.tools.screenshots.states import clerk, demo_user, make_states, session_of

    call_command("migrate", verbosity=0)
    pages = pages_of(make_states())
    return [
        (session_of(demo_user()), pages),
        (session_of(clerk()), {f"{name}-no-words": pages[name] for name in WITHOUT_WORDS}),
        (None, SIGNED_OUT),
    ]


@contextmanager
def _served() -> Iterator[str]:
    """Serve the project, and yield its address."""
    from django.contrib.staticfiles.handlers import StaticFilesHandler
    from django.test.testcases import LiveServerThread

    settings.ALLOWED_HOSTS = ["127.0.0.1"]
    thread = LiveServerThread("127.0.0.1", StaticFilesHandler)
    thread.daemon = True
    thread.start()
    thread.is_ready.wait()
    if thread.error:
        raise thread.error
    yield f"http://127.0.0.1:{thread.port}"
    thread.terminate()


def _page(browser: Browser, site: str, session: str | None, looks: dict[str, Any]) -> Page:
    context = browser.new_context(**looks)
    if session:
        context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": site}])
    return context.new_page()


if __name__ == "__main__":
    sys.exit(main())
