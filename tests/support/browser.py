"""A real browser for tests: import the fixture ``new_page``, and mark the test ``browser``.

Playwright's synchronous calls keep an event loop running in their thread, and there Django refuses to touch a database.
So all of them run in one thread of their own, and what a test holds are stand-ins that pass its calls on.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import axe_playwright_python
import pytest
from playwright.sync_api import expect as playwright_expect
from playwright.sync_api import sync_playwright

__all__ = [
    "Pages",
    "axe_violations",
    "browser_thread",
    "chromium",
    "expect",
    "new_page",
    "no_double_click",
    "time_stands_still",
    "wait_until",
]

_AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"
_SECONDS = 60  # for what takes less than one: other tests may run beside these


class Remote:
    """Something of Playwright's, each use of which happens in the browser's thread."""

    def __init__(self, thread: ThreadPoolExecutor, target: Any) -> None:
        self._thread = thread
        self._target = target

    def __getattr__(self, name: str) -> Any:
        value = self._run(getattr, self._target, name)
        return value if isinstance(value, Remote) or not callable(value) else self._method(value)

    def __enter__(self) -> Any:
        return self._run(self._target.__enter__)

    def __exit__(self, *error: object) -> Any:
        return self._run(self._target.__exit__, *error)

    def _method(self, method: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: self._run(method, *args, **kwargs)

    def _run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        plain = [_plain(arg) for arg in args]
        named = {name: _plain(arg) for name, arg in kwargs.items()}
        return self._stand_in(self._thread.submit(function, *plain, **named).result())

    def _stand_in(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._stand_in(each) for each in value]
        return Remote(self._thread, value) if type(value).__module__.startswith("playwright.") else value


def _plain(value: Any) -> Any:
    return value._target if isinstance(value, Remote) else value


def expect(of: Remote) -> Any:
    """Playwright's ``expect`` of a stand-in."""
    return of._run(playwright_expect, of)


class Pages:
    """Opens pages; ``problems`` is what their consoles complained of."""

    def __init__(self, chromium: Remote) -> None:
        self._chromium = chromium
        self._contexts: list[Remote] = []
        self.problems: list[str] = []

    def __call__(self, **options: Any) -> Any:
        """A page in a context of its own.

        Args:
            options: of Playwright's ``new_context``.
        """
        context = self._chromium.new_context(**options)
        self._contexts.append(context)
        context.set_default_timeout(_SECONDS * 1000)
        page = context.new_page()
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        return page

    def close(self) -> None:
        for context in self._contexts:
            context.close()

    def _note(self, message: Any) -> None:
        url = message.location.get("url", "")
        # Newer browsers ask for an icon that no page names.
        if message.type in ("error", "warning") and not url.endswith("/favicon.ico"):
            self.problems.append(f"{message.text} ({url})")


@contextmanager
def time_stands_still(page: Any) -> Iterator[None]:
    """What is shown on a page for some seconds stays as long as the context lasts, however slow the machine is."""
    page.clock.install()
    page.clock.pause_at(page.evaluate("Date.now() + 1000"))
    yield
    page.clock.resume()


# Only what was found is made into objects and sent: what passed is most of it.
_RUN_AXE = """async options => {
    for (const each of document.getAnimations()) if (each instanceof CSSTransition) each.finish();
    const { violations } = await axe.run(document, options);
    return violations.flatMap(({ id, help, nodes }) =>
        nodes.map(({ html, failureSummary }) => `${id}: ${help}: ${html} ${failureSummary}`));
}"""
_ALL_OF_AXE = {"resultTypes": ["violations"], "preload": {"assets": ["media"]}}  # its rules need no style sheets
# Nothing else that axe looks at depends on the colours.
_COLOURS = {**_ALL_OF_AXE, "runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}


def axe_violations(page: Any, **options: Any) -> list[str]:
    """What axe-core finds on a page, in light and in dark colours; its context has to have ``bypass_csp=True``.

    The page is in light colours before and after that.
    """
    if page.evaluate("!window.axe"):
        page.add_script_tag(path=str(_AXE))
    found = page.evaluate(_RUN_AXE, {**_ALL_OF_AXE, **options})
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(_RUN_AXE, _COLOURS)
    page.emulate_media(color_scheme="light")
    return [*found, *(f"dark: {violation}" for violation in dark)]


def wait_until(page: Any, holds: str, arg: Any = None) -> None:
    """Wait until a function of JavaScript is true. It is asked in each frame.

    Playwright's own ``wait_for_function`` evaluates a text again and again, which a strict policy of the page refuses
    unless the first answer is true.
    """
    page.evaluate(
        f"""arg => new Promise((done, fail) => {{
            const holds = {holds}, until = performance.now() + {_SECONDS * 1000};
            const look = () => {{
                if (holds(arg)) done();
                else if (performance.now() > until) fail(new Error("it never held"));
                else requestAnimationFrame(look);
            }};
            look();
        }})""",
        arg,
    )


def no_double_click(page: Any) -> None:
    """Wait until a click is no part of a double click any more, by the page's clock."""
    wait_until(page, "now => performance.now() - now > 500", page.evaluate("performance.now()"))


@pytest.fixture(scope="session")
def browser_thread() -> Iterator[ThreadPoolExecutor]:
    """The one thread that talks to Playwright."""
    with ThreadPoolExecutor(1, "browser") as thread:
        yield thread


@pytest.fixture(scope="session")
def chromium(browser_thread: ThreadPoolExecutor) -> Iterator[Remote]:
    """The browser."""
    path = shutil.which("chromium")
    if path is None:
        pytest.fail("chromium is missing: apt-get install chromium")
    manager = browser_thread.submit(sync_playwright).result()
    playwright = Remote(browser_thread, manager).__enter__()
    playwright_expect.set_options(timeout=_SECONDS * 1000)
    browser = playwright.chromium.launch(
        executable_path=path,
        args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
        timeout=_SECONDS * 1000,
    )
    yield browser
    browser.close()
    playwright.stop()


@pytest.fixture
def new_page(chromium: Remote) -> Iterator[Pages]:
    """Opens pages, and closes them after the test."""
    pages = Pages(chromium)
    yield pages
    pages.close()
