"""The demo's chat in a real browser, served as a newcomer serves it: import the fixture ``open_chat``, and its own."""

# ruff: noqa: F811 - fixtures that are imported

from __future__ import annotations

import signal
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.demo.test_command import Demo
from tests.support.browser import Pages, chromium, expect, new_page  # noqa: F401

__all__ = [
    *["MODELS", "PHONE", "WIDE", "answered", "bubbles", "cards", "cookies", "demo", "history_of", "open_chat", "ready"],
    *["say", "served", "sign_in", "site", "slide"],
]

WIDE = {"width": 1440, "height": 900}
PHONE = {"width": 360, "height": 740}
MODELS = ("CHATMEMORY_DEMO_MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL")


@contextmanager
def served(demo: Demo) -> Iterator[str]:
    """The address of the demo while it runs."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    with (demo.database.parent / "log").open("w") as log, demo.start("--port", str(port), out=log.fileno()) as process:
        try:
            deadline = time.monotonic() + 300
            while True:
                try:
                    urllib.request.urlopen(f"{address}/sign-in/", timeout=10).close()
                    break
                except OSError:
                    assert process.poll() is None, process.stderr and process.stderr.read()
                    assert time.monotonic() < deadline
            # Nobody else reads what the server says of each request, and a full pipe would stop it.
            threading.Thread(target=lambda: process.stderr and process.stderr.read(), daemon=True).start()
            yield address
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(120)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    demo = Demo(tmp_path_factory.mktemp("demo"))
    for name in MODELS:
        demo.environment.pop(name, None)
    return demo


@pytest.fixture(scope="module")
def site(demo: Demo) -> Iterator[str]:
    with served(demo) as address:
        yield address


@pytest.fixture(scope="module")
def cookies(demo: Demo, site: str, chromium: Any) -> Any:
    """What a browser keeps that has signed in."""
    pages = Pages(chromium)
    page = pages()
    sign_in(page, demo, site)
    state = page.context.storage_state()
    pages.close()
    return state


@pytest.fixture
def open_chat(site: str, cookies: Any, new_page: Pages) -> Callable[..., Any]:
    """Opens a new chat, as a user who is signed in."""

    def open_(at: str = site, **options: Any) -> Any:
        page = new_page(**{"storage_state": cookies, "viewport": WIDE, **options})
        page.goto(at)
        ready(page)
        here = page.url
        opener = page.get_by_role("button", name="Conversations", exact=True)
        if opener.is_visible():
            opener.click()
        page.get_by_role("button", name="New chat").click()
        page.wait_for_url(lambda url: url != here)
        ready(page)
        return page

    return open_


def sign_in(page: Any, demo: Demo, site: str) -> None:
    page.goto(site)
    page.get_by_label("Password").fill(demo.password())
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{site}/chat/**")
    ready(page)


def ready(page: Any) -> None:
    page.locator("body[data-ready]").wait_for()


def say(page: Any, text: str) -> None:
    """Say something, and wait for the answer."""
    before = bubbles(page).count()
    page.get_by_label("Message", exact=True).fill(text)
    page.get_by_label("Message", exact=True).press("Enter")
    answered(page, before + 2)


def answered(page: Any, count: int) -> None:
    expect(bubbles(page)).to_have_count(count)
    page.get_by_role("button", name="Send").wait_for()


def bubbles(page: Any) -> Any:
    return page.locator("[data-part='history'] .chatmemory-bubble")


def cards(page: Any) -> Any:
    return page.locator("[data-part='retained'] .chatmemory-card")


def slide(page: Any, limit: int, *, release: bool = True) -> None:
    """Move the slider as a pointer does, which lets go at the end."""
    slider = page.get_by_label("At most")
    slider.evaluate(
        "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input')); }", str(limit)
    )
    if release:
        slider.evaluate("slider => slider.dispatchEvent(new Event('change'))")


def history_of(page: Any) -> list[dict[str, Any]]:
    """What the API says was said."""
    address = page.url.replace("/chat/", "/api/conversations/") + "messages/?page_size=200"
    results: list[dict[str, Any]] = page.request.get(address).json()["results"]
    return results
