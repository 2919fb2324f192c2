"""The demo's chat in a real browser, served as a newcomer serves it: ``python manage.py demo``."""

from __future__ import annotations

import json
import signal
import socket
import sqlite3
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from tests.browser import Pages, axe_violations, browser_thread, chromium, expect, new_page  # noqa: F401
from tests.openai_server import ModelServer, calls, says
from tests.test_demo import Demo

pytestmark = pytest.mark.browser

WIDE = {"width": 1440, "height": 900}
PHONE = {"width": 360, "height": 740}
# Radio buttons are drawn by the text beside them.
SEES_THE_FOCUS = """() => {
    const active = document.activeElement;
    const shown = active.matches("[type=radio]") ? active.nextElementSibling : active;
    return active === document.body || getComputedStyle(shown).outlineStyle !== "none";
}"""
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
            deadline = time.monotonic() + 60
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
            process.wait(30)


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
def cookies(site: str, chromium: Any) -> Any:  # noqa: F811
    """What a browser keeps that has signed in."""
    context = chromium.new_context()
    sign_in(context.new_page(), site)
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def open_chat(site: str, cookies: Any, new_page: Pages) -> Callable[..., Any]:  # noqa: F811
    """Opens a new chat, as a user who is signed in."""

    def open_(at: str = site, **options: Any) -> Any:
        page = new_page(**{"storage_state": cookies, "viewport": WIDE, **options})
        page.goto(at)
        ready(page)
        here = page.url
        page.get_by_role("button", name="New chat").click()
        page.wait_for_url(lambda url: url != here)
        ready(page)
        return page

    return open_


def sign_in(page: Any, site: str) -> None:
    page.goto(site)
    page.get_by_label("Password").fill("demo")
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
    return page.locator("#history .bubble")


def cards(page: Any) -> Any:
    return page.locator("#retained .card")


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


def test_a_newcomer_sees_the_model_forget(site: str, new_page: Pages) -> None:  # noqa: F811
    page = new_page(viewport=WIDE)
    sign_in(page, site)
    page.get_by_text("Watch a model forget").wait_for()
    expect(cards(page)).to_have_count(1)
    suggestions = page.get_by_role("group", name="Suggestions").get_by_role("button")

    suggestions.nth(0).click()
    answered(page, 2)
    expect(bubbles(page).nth(1)).to_contain_text("Noted")
    expect(page.locator("#gauge-amount")).to_have_text("3 of 8 messages")
    expect(page.locator("#gauge-share")).to_have_text("37 percent full")
    expect(page.locator("#gauge-bar rect")).to_have_count(3)

    suggestions.nth(1).click()
    answered(page, 4)
    expect(bubbles(page).last).to_contain_text("3*4 = 12. Order 1002")
    expect(page.locator("#retained .call")).to_have_text(["calls calculator(3*4)", "calls look_up_order(1002)"])
    expect(page.locator("#gauge-amount")).to_have_text("8 of 8 messages")

    suggestions.nth(2).click()
    leaving = page.locator("#retained .leaves", has_text="My name is Ann")
    expect(leaving.locator(".why")).to_have_text("Forgotten: no room left")
    leaving.wait_for(state="detached")
    answered(page, 6)
    expect(page.locator("#history .is-gone", has_text="My name is Ann")).to_contain_text("Forgotten")
    expect(page.locator("#forgotten")).to_contain_text("older messages forgotten")

    suggestions.nth(3).click()
    answered(page, 8)
    expect(bubbles(page).last).to_contain_text("or no longer: no message in my memory says it")
    expect(page.locator("#conversation option").first).to_have_text("My name is Ann")
    page.reload()
    ready(page)
    expect(bubbles(page)).to_have_count(8)
    expect(page.locator("#history .is-gone", has_text="My name is Ann")).to_be_visible()
    assert new_page.problems == []


def test_the_window_is_changed_live(open_chat: Callable[..., Any], new_page: Pages) -> None:  # noqa: F811
    page = open_chat()
    say(page, "My name is Ann")
    say(page, "Remember the number 7")
    expect(cards(page)).to_have_count(5)

    slide(page, 4, release=False)
    expect(page.locator("#preview")).to_have_text("Would forget 1 message")
    expect(page.locator(".would-leave")).to_contain_text("My name is Ann")
    expect(page.locator("#limit-shown")).to_have_text("4 messages")
    assert all(item["state"] == "retained" for item in history_of(page))

    slide(page, 4)
    expect(page.locator(".leaves")).to_contain_text("My name is Ann")
    expect(page.locator("#gauge-amount")).to_have_text("4 of 4 messages")
    expect(cards(page)).to_have_count(4)
    expect(page.locator("#history .is-gone")).to_contain_text("My name is Ann")

    page.get_by_role("radio", name="Tokens").check()
    expect(page.locator("#gauge-amount")).to_contain_text("tokens")
    expect(cards(page)).to_have_count(4)
    used, limit = (int(each) for each in page.locator("#tab-count").text_content().split("/"))
    assert used <= limit < used + 40

    slide(page, 80)
    expect(page.locator("#gauge-amount")).to_contain_text("of 80 tokens")
    expect(page.locator("#status")).to_contain_text("forgotten")
    page.get_by_role("radio", name="Messages").check()
    expect(page.locator("#gauge-amount")).to_contain_text("messages")
    assert new_page.problems == []


def test_history_scrolls_back_through_its_pages(site: str, cookies: Any, new_page: Pages) -> None:  # noqa: F811
    page = new_page(storage_state=cookies, viewport=WIDE)
    found = page.request.get(f"{site}/api/conversations/?memory_id=support-4711").json()["results"][0]
    page.goto(f"{site}/chat/{found['id']}/")
    ready(page)
    entries = page.locator("#history > li")
    expect(entries).to_have_count(30)
    scroller = page.get_by_role("group", name="Messages", exact=True)
    assert scroller.evaluate("box => Math.abs(box.scrollHeight - box.scrollTop - box.clientHeight) < 2")

    watched = entries.first
    position = watched.get_attribute("data-position")
    scroller.evaluate("box => box.scrollTo(0, 150)")
    before = watched.bounding_box()["y"]
    expect(page.locator(f"#history > li:nth-child(31)[data-position='{position}']")).to_have_count(1)
    assert abs(page.locator(f"[data-position='{position}']").first.bounding_box()["y"] - before) < 3

    while page.locator("#older").is_visible():
        scroller.evaluate("box => box.scrollTo(0, 0)")
        page.wait_for_timeout(50)
    positions = entries.evaluate_all("entries => entries.map(entry => Number(entry.dataset.position))")
    assert positions == list(range(found["message_count"]))
    assert new_page.problems == []


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(
    open_chat: Callable[..., Any],
    site: str,
    new_page: Pages,  # noqa: F811
    scheme: str,
    viewport: dict[str, int],
) -> None:
    look = {"color_scheme": scheme, "viewport": viewport, "bypass_csp": True}
    entrance = new_page(**look)
    entrance.goto(site)
    assert axe_violations(entrance) == []

    page = open_chat(reduced_motion="reduce", **look)
    assert axe_violations(page) == []
    for text in ["My name is Ann", "Calculate 3*4 and look up order 77", "Where is order 1001?", "שלום"]:
        say(page, text)
    page.route("**/reply/", lambda route: route.abort())
    page.get_by_label("Message", exact=True).fill("What is my name?")
    page.get_by_role("button", name="Send").click()
    page.get_by_role("alert").wait_for()
    expect(page.locator(".leaves")).to_have_count(0)
    assert axe_violations(page) == []
    if viewport is PHONE:
        page.get_by_role("tab", name="Memory").click()
    slide(page, 5, release=False)
    page.locator(".would-leave").first.wait_for()
    assert axe_violations(page) == []
    slide(page, 5)
    page.locator(".leaves").first.wait_for()
    assert axe_violations(page) == []


def test_a_strict_policy_is_never_violated(site: str, new_page: Pages) -> None:  # noqa: F811
    page = new_page(viewport=WIDE)
    sign_in(page, site)
    policy = page.request.get(page.url).headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for text in ["My name is Ann", "Calculate 3*4 and look up order 1002", "Where is order 1001?"]:
        say(page, text)
    slide(page, 5)
    expect(page.locator("#gauge-amount")).to_contain_text("of 5 messages")
    page.get_by_role("button", name="Sign out").click()  # of a session of its own
    page.get_by_role("heading", name="Sign in").wait_for()
    assert new_page.problems == []
    page.evaluate(
        "document.body.insertAdjacentElement('beforeend', document.createElement('style')).textContent = 'b{}'"
    )
    page.wait_for_timeout(100)
    assert "Content Security Policy" in new_page.problems[0], "the policy is what the browser heeds"


def test_keyboard_only(site: str, new_page: Pages) -> None:  # noqa: F811
    page = new_page(viewport=WIDE)
    page.goto(site)
    page.keyboard.type("demo")  # the password has the focus
    page.keyboard.press("Enter")
    page.wait_for_url(f"{site}/chat/**")
    ready(page)

    def tab_to(selector: str) -> None:
        for _ in range(25):
            page.keyboard.press("Tab")
            assert page.evaluate(SEES_THE_FOCUS), page.evaluate("document.activeElement.outerHTML")
            if page.locator(f"{selector}:focus").count():
                return
        raise AssertionError(f"Tab never gets to {selector}")

    here = page.url
    tab_to("#new")
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: url != here)
    ready(page)
    expect(page.locator("#message")).to_be_focused()
    page.keyboard.type("My name is Ann")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("Remember the number 7")
    page.keyboard.press("Enter")
    answered(page, 2)
    expect(page.locator("#message")).to_be_focused()
    tab_to("[name=window]")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#gauge-amount")).to_contain_text("tokens")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#gauge-amount")).to_have_text("3 of 4 messages")
    tab_to("#limit")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(page.locator("#gauge-amount")).to_have_text("3 of 7 messages")
    tab_to("#memory-scroller")
    tab_to(".skip")
    page.keyboard.press("Enter")
    expect(page.locator("#message")).to_be_focused()
    page.keyboard.press("Shift+Tab")
    expect(page.locator("#suggestions button").last).to_be_focused()
    page.keyboard.press("Enter")
    answered(page, 4)
    expect(bubbles(page).last).to_contain_text("Your name is Ann.")
    assert new_page.problems == []


def test_a_phone_has_two_tabs(open_chat: Callable[..., Any], new_page: Pages) -> None:  # noqa: F811
    page = open_chat(viewport=PHONE, has_touch=True)

    def fits() -> None:
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
        for control in page.locator(
            "button:visible, select:visible, textarea:visible, input[type=range]:visible"
        ).all():
            if control.evaluate("element => !element.closest('#suggestions')"):
                box = control.bounding_box()
                assert box["x"] >= 0, control
                assert box["x"] + box["width"] <= PHONE["width"], control

    for text in ["My name is Ann", "Calculate 3*4 and look up order 1002", "w" * 300]:
        say(page, text)
    fits()
    expect(page.locator("#memory-panel")).to_be_hidden()
    expect(page.get_by_role("tab", name="Memory")).to_contain_text("/8")
    page.get_by_role("tab", name="Memory").tap()
    expect(page.locator("#chat-panel")).to_be_hidden()
    fits()
    page.get_by_role("tab", name="Memory").press("ArrowLeft")
    expect(page.get_by_role("tab", name="Chat")).to_be_focused()
    expect(page.locator("#chat-panel")).to_be_visible()
    page.set_viewport_size(WIDE)
    expect(page.locator("#memory-panel")).to_be_visible()
    expect(page.get_by_role("tab")).to_have_count(0)
    assert new_page.problems == []


def test_what_is_said_stays_text(open_chat: Callable[..., Any], new_page: Pages) -> None:  # noqa: F811
    page = open_chat()
    hostile = "My name is <img src=x onerror=alert(1)><script>alert(2)</script>"
    say(page, hostile)
    say(page, "What is my name?")
    expect(bubbles(page).last).to_contain_text("Your name is <img src=x onerror=alert(1)>")
    say(page, "שמי דוד")
    assert bubbles(page).nth(4).evaluate("bubble => getComputedStyle(bubble).direction") == "rtl"
    assert page.locator("main img, main script, select img").count() == 0
    page.reload()
    ready(page)
    expect(page.locator("#conversation option").first).to_contain_text("<img src=x")
    assert new_page.problems == []


def test_little_motion_for_those_who_want_little(open_chat: Callable[..., Any]) -> None:
    page = open_chat(reduced_motion="reduce")
    say(page, "My name is Ann")
    say(page, "Remember the number 7")
    slide(page, 4)
    leaving = page.locator(".leaves")
    expect(leaving).to_contain_text("Forgotten: no room left")
    assert leaving.evaluate("entry => getComputedStyle(entry).transitionDuration") == "0s"
    assert page.evaluate("document.getAnimations().length") == 0
    expect(leaving).to_have_count(0)


def test_what_could_not_be_said_is_said_once_when_tried_again(open_chat: Callable[..., Any]) -> None:
    page = open_chat()
    keys: list[str] = []

    def lose_the_answer(route: Any) -> None:
        keys.append(route.request.headers["idempotency-key"])
        if len(keys) == 1:
            route.fetch()  # the server has it, and nobody knows
            route.abort()
        else:
            route.continue_()

    page.route("**/messages/", lose_the_answer)
    page.get_by_label("Message", exact=True).fill("My name is Ann")
    page.keyboard.press("Enter") if page.locator("#message:focus").count() else page.locator("#send").click()
    expect(page.get_by_role("alert")).to_contain_text("The demo does not answer")
    expect(page.get_by_label("Message", exact=True)).to_have_value("My name is Ann")
    page.get_by_role("button", name="Try again").click()
    answered(page, 2)
    assert len(keys) == 2
    assert len(set(keys)) == 1
    assert [item["type"] for item in history_of(page)] == ["SYSTEM", "USER", "AI"]


def test_who_is_signed_out_is_told_so(open_chat: Callable[..., Any]) -> None:
    page = open_chat()
    page.context.clear_cookies()
    page.get_by_label("Message", exact=True).fill("Hello")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("alert")).to_contain_text("You are signed out.")
    expect(page.get_by_role("link", name="Sign in again")).to_be_visible()
    expect(page.get_by_label("Message", exact=True)).to_have_value("Hello")


def test_a_conversation_that_is_not_there(site: str, cookies: Any, new_page: Pages) -> None:  # noqa: F811
    page = new_page(storage_state=cookies)
    page.goto(f"{site}/chat/01a1fca1-2ec4-707f-8871-493a30708057/")
    expect(page.get_by_role("alert")).to_contain_text("There is no such conversation")
    page.get_by_role("button", name="New chat").click()
    ready(page)


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    server = ModelServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def site_of_model(
    demo: Demo, cookies: Any, server: ModelServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    other = Demo(tmp_path_factory.mktemp("model"))
    with closing(sqlite3.connect(demo.database)) as source, closing(sqlite3.connect(other.database)) as target:
        source.backup(target)
    values = ("tiny", "secret", server.url)
    other.environment |= dict(zip(MODELS, values, strict=True))
    with served(other) as address:
        yield address


class TestModelServer:
    """The same page, and a model behind OpenAI's protocol."""

    @pytest.fixture
    def page(self, open_chat: Callable[..., Any], site_of_model: str) -> Any:
        return open_chat(site_of_model)

    def test_it_streams(self, page: Any, server: ModelServer, new_page: Pages) -> None:  # noqa: F811
        go_on = threading.Event()
        server.stream(says("Hello, ", "Ann", "!"), wait_for=go_on)
        page.get_by_label("Message", exact=True).fill("I am Ann")
        page.get_by_label("Message", exact=True).press("Enter")
        expect(page.locator("#answering")).to_have_text("Hello, Ann!")
        expect(bubbles(page)).to_have_count(1)
        go_on.set()
        answered(page, 2)
        expect(page.locator("#status")).to_have_text("Model: Hello, Ann!")
        expect(page.get_by_text("Model: tiny at 127.0.0.1")).to_be_visible()
        assert new_page.problems == []

    def test_it_calls_tools(self, page: Any, server: ModelServer) -> None:
        server.stream(calls(("a", "calculator", '{"expression": "3*4"}'), ("b", "look_up_order", '{"number": "1001"}')))
        server.stream(says("12, and on its way."))
        say(page, "3*4, and where is order 1001?")
        expect(page.locator("#history .tool")).to_have_text(
            ["calculator 3*4 = 12", "look_up_order Order 1001: a blue teapot, on its way, arrives on Friday."]
        )

    def test_a_failure_is_shown_and_trying_again_duplicates_nothing(self, page: Any, server: ModelServer) -> None:
        server.stream(calls(("a", "calculator", '{"expression": "3*4"}')))
        server.fail(500, "out of memory")
        server.break_off(says("Twel", finish=None))
        server.stream(says("Twelve."))
        page.get_by_label("Message", exact=True).fill("What is 3*4?")
        page.get_by_role("button", name="Send").click()
        alert = page.get_by_role("alert")
        expect(alert).to_contain_text("failed (500). It said: out of memory")
        expect(bubbles(page)).to_have_count(1)
        page.get_by_role("button", name="Try again").click()
        expect(alert).to_contain_text("broke off in the middle")

        page.reload()
        ready(page)
        expect(alert).to_contain_text("no answer yet")
        page.get_by_role("button", name="Get the answer").click()
        answered(page, 2)
        expect(bubbles(page).last).to_contain_text("Twelve.")
        assert [item["type"] for item in history_of(page)] == ["SYSTEM", "USER", "AI", "TOOL_EXECUTION_RESULT", "AI"]
        assert json.dumps(history_of(page)).count("Twel") == 2, "text and message of one"

    def test_an_answer_can_be_stopped(self, page: Any, server: ModelServer) -> None:
        go_on = threading.Event()
        server.stream(says("Once ", "upon ", "a time"), wait_for=go_on)
        server.stream(says("Short."))
        page.get_by_label("Message", exact=True).fill("Tell me a story")
        page.get_by_label("Message", exact=True).press("Enter")
        expect(page.locator("#answering")).to_contain_text("Once")
        page.get_by_role("button", name="Stop").click()
        expect(page.get_by_role("alert")).to_contain_text("Stopped")
        page.get_by_role("button", name="Ask again").click()
        answered(page, 2)
        expect(bubbles(page).last).to_contain_text("Short.")
        go_on.set()
