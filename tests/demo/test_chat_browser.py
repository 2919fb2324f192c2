"""The demo's chat in a real browser: what one does with it."""

# ruff: noqa: F811 - fixtures that are imported

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.demo.test_command import Demo
from tests.support.browser import (  # noqa: F401
    Pages,
    axe_violations,
    browser_thread,
    chromium,
    expect,
    new_page,
    time_stands_still,
)
from tests.support.demo_browser import (  # noqa: F401
    PHONE,
    WIDE,
    answered,
    bubbles,
    cards,
    cookies,
    demo,
    history_of,
    open_chat,
    ready,
    say,
    sign_in,
    site,
    slide,
)

pytestmark = pytest.mark.browser

# Radio buttons are drawn by the text beside them.
SEES_THE_FOCUS = """() => {
    const active = document.activeElement;
    const shown = active.matches("[type=radio]") ? active.nextElementSibling : active;
    return active === document.body || getComputedStyle(shown).outlineStyle !== "none";
}"""


A_FRAME = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def test_a_newcomer_sees_the_model_forget(demo: Demo, site: str, new_page: Pages) -> None:
    page = new_page(viewport=WIDE)
    sign_in(page, demo, site)
    page.get_by_text("Watch a model forget").wait_for()
    expect(cards(page)).to_have_count(1)
    suggestions = page.get_by_role("group", name="Suggestions")

    suggestions.get_by_text("My name is Ann").click()
    answered(page, 2)
    expect(bubbles(page).nth(1)).to_contain_text("Noted")
    expect(suggestions.get_by_text("My name is Ann")).to_be_hidden()
    expect(page.locator("[data-part='gauge-amount']")).to_have_text("3 of 8 messages")
    expect(page.locator("[data-part='gauge-share']")).to_have_text("37 percent full")
    expect(page.locator("[data-part='gauge-bar'] rect")).to_have_count(3)

    suggestions.get_by_text("Look up orders 1002 and 1003").click()
    answered(page, 4)
    expect(bubbles(page).last).to_contain_text("Order 1002: two mugs, being packed, leave tomorrow. Order 1003")
    expect(page.locator("[data-part='retained'] .chatmemory-call")).to_have_text(
        ["calls look_up_order(1002)", "calls look_up_order(1003)"]
    )
    expect(page.locator("[data-part='gauge-amount']")).to_have_text("8 of 8 messages")

    leaving = page.locator("[data-part='retained'] .is-leaving", has_text="My name is Ann")
    with time_stands_still(page):
        suggestions.get_by_text("Where is order 1001?").click()
        expect(leaving.locator(".chatmemory-why")).to_have_text("Forgotten: no room left")
    leaving.wait_for(state="detached")
    answered(page, 6)
    expect(page.locator("[data-part='history'] .is-gone", has_text="My name is Ann")).to_contain_text("Forgotten")
    expect(page.locator("[data-part='forgotten']")).to_contain_text("older messages forgotten")

    suggestions.get_by_text("What is my name?").click()
    answered(page, 8)
    expect(bubbles(page).last).to_contain_text("If you told me, I have forgotten it")
    expect(page.locator("chatmemory-conversations [aria-current] bdi")).to_have_text("My name is Ann")
    page.reload()
    ready(page)
    expect(bubbles(page)).to_have_count(8)
    expect(page.locator("[data-part='history'] .is-gone", has_text="My name is Ann")).to_be_visible()
    assert new_page.problems == []


def test_the_window_is_changed_live(open_chat: Callable[..., Any], new_page: Pages) -> None:
    page = open_chat()
    say(page, "My name is Ann")
    say(page, "Remember the number 7")
    expect(cards(page)).to_have_count(5)

    slide(page, 4, release=False)
    expect(page.locator("[data-part='preview']")).to_have_text("Would forget 1 message")
    expect(page.locator(".would-leave")).to_contain_text("My name is Ann")
    expect(page.locator("[data-part='limit-shown']")).to_have_text("4 messages")
    assert all(item["state"] == "retained" for item in history_of(page))

    with time_stands_still(page):
        slide(page, 4)
        expect(page.locator(".is-leaving")).to_contain_text("My name is Ann")
    expect(page.locator("[data-part='gauge-amount']")).to_have_text("4 of 4 messages")
    expect(cards(page)).to_have_count(4)
    expect(page.locator("[data-part='history'] .is-gone")).to_contain_text("My name is Ann")

    page.get_by_role("radio", name="Tokens").check()
    expect(page.locator("[data-part='gauge-amount']")).to_contain_text("tokens")
    expect(cards(page)).to_have_count(4)
    used, limit = (int(each) for each in page.locator("[data-part='tab-count']").text_content().split("/"))
    assert used <= limit < used + 40

    slide(page, 80)
    expect(page.locator("[data-part='gauge-amount']")).to_contain_text("of 80 tokens")
    expect(page.locator("chatmemory-chat [data-part='status']")).to_contain_text("forgotten")
    page.get_by_role("radio", name="Messages").check()
    expect(page.locator("[data-part='gauge-amount']")).to_contain_text("messages")
    assert new_page.problems == []


def test_history_scrolls_back_through_its_pages(site: str, cookies: Any, new_page: Pages) -> None:
    page = new_page(storage_state=cookies, viewport=WIDE)
    found = page.request.get(f"{site}/api/conversations/?memory_id=support-4711").json()["results"][0]
    page.goto(f"{site}/chat/{found['id']}/")
    ready(page)
    entries = page.locator("[data-part='history'] > li")
    expect(entries).to_have_count(30)
    scroller = page.get_by_role("group", name="Messages", exact=True)
    assert scroller.evaluate("box => Math.abs(box.scrollHeight - box.scrollTop - box.clientHeight) < 2")

    position = entries.first.get_attribute("data-position")
    watched = page.locator(f"[data-part='history'] > li[data-position='{position}']")  # wherever it is by then
    scroller.evaluate("box => box.scrollTo(0, 150)")
    before = watched.bounding_box()["y"]
    expect(page.locator(f"[data-part='history'] > li:nth-child(31)[data-position='{position}']")).to_have_count(1)
    assert abs(page.locator(f"[data-position='{position}']").first.bounding_box()["y"] - before) < 3

    older = page.locator("chatmemory-chat [data-part='older']")
    while (shown := entries.count()) and older.is_visible():
        page.evaluate(A_FRAME)  # it is out of sight now, so that it comes into sight again
        scroller.evaluate("box => box.scrollTo(0, 0)")
        expect(entries).not_to_have_count(shown)
    positions = entries.evaluate_all("entries => entries.map(entry => Number(entry.dataset.position))")
    assert positions == list(range(found["message_count"]))
    assert new_page.problems == []


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_axe_finds_nothing(
    open_chat: Callable[..., Any],
    site: str,
    new_page: Pages,
    viewport: dict[str, int],
) -> None:
    look = {"viewport": viewport, "bypass_csp": True}
    entrance = new_page(**look)
    entrance.goto(site)
    assert axe_violations(entrance) == []

    page = open_chat(reduced_motion="reduce", **look)
    assert axe_violations(page) == []
    for text in ["My name is Ann", "Look up orders 1001 and 77", "Where is order 1001?", "שלום"]:
        say(page, text)
    page.route("**/turns/", lambda route: route.fulfill(status=500))
    page.get_by_label("Message", exact=True).fill("What is my name?")
    page.get_by_role("button", name="Send").click()
    page.get_by_role("alert").wait_for()
    expect(page.locator(".is-leaving")).to_have_count(0)
    assert axe_violations(page) == []
    if viewport is PHONE:
        page.get_by_role("tab", name="Memory").click()
    slide(page, 5, release=False)
    page.locator(".would-leave").first.wait_for()
    assert axe_violations(page) == []
    with time_stands_still(page):
        slide(page, 5)
        page.locator(".is-leaving").first.wait_for()
    assert axe_violations(page) == []


def test_a_strict_policy_is_never_violated(demo: Demo, site: str, new_page: Pages) -> None:
    page = new_page(viewport=WIDE)
    sign_in(page, demo, site)
    policy = page.request.get(page.url).headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for text in ["My name is Ann", "Look up orders 1002 and 1003", "Where is order 1001?"]:
        say(page, text)
    slide(page, 5)
    expect(page.locator("[data-part='gauge-amount']")).to_contain_text("of 5 messages")
    page.get_by_role("button", name="Sign out").click()  # of a session of its own
    page.get_by_role("heading", name="Sign in").wait_for()
    assert new_page.problems == []
    with page.expect_console_message():
        page.evaluate(
            "document.body.insertAdjacentElement('beforeend', document.createElement('style')).textContent = 'b{}'"
        )
    assert "Content Security Policy" in new_page.problems[0], "the policy is what the browser heeds"


def test_keyboard_only(demo: Demo, site: str, new_page: Pages) -> None:
    page = new_page(viewport=WIDE)
    page.goto(site)
    expect(page.get_by_label("Password")).to_be_focused()
    page.keyboard.type(demo.password())
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
    tab_to("[data-part='new']")
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: url != here)
    ready(page)
    expect(page.locator("[data-part='message']")).to_be_focused()
    page.keyboard.type("My name is Ann")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("Remember the number 7")
    page.keyboard.press("Enter")
    answered(page, 2)
    expect(page.locator("[data-part='message']")).to_be_focused()
    tab_to("[name=window]")
    page.keyboard.press("ArrowRight")
    expect(page.locator("[data-part='gauge-amount']")).to_contain_text("tokens")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("[data-part='gauge-amount']")).to_have_text("3 of 8 messages")
    tab_to("[data-part='limit']")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("[data-part='gauge-amount']")).to_have_text("3 of 7 messages")
    tab_to("[data-part='memory-scroller']")
    tab_to(".skip")
    page.keyboard.press("Enter")
    expect(page.locator("[data-part='message']")).to_be_focused()
    page.keyboard.press("Shift+Tab")
    expect(page.locator("[data-part='suggestions'] button:visible").last).to_be_focused()
    page.keyboard.press("Enter")
    answered(page, 4)
    expect(bubbles(page).last).to_contain_text("“My name is Ann")
    assert new_page.problems == []


def test_a_phone_has_two_tabs(open_chat: Callable[..., Any], new_page: Pages) -> None:
    page = open_chat(viewport=PHONE, has_touch=True)

    def fits() -> None:
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
        for control in page.locator(
            "button:visible, select:visible, textarea:visible, input[type=range]:visible"
        ).all():
            if control.evaluate("element => !element.closest('.chatmemory-suggestions')"):
                box = control.bounding_box()
                assert box["x"] >= 0, control
                assert box["x"] + box["width"] <= PHONE["width"], control

    for text in ["My name is Ann", "Look up orders 1002 and 1003", "w" * 300]:
        say(page, text)
    fits()
    expect(page.locator("[data-part='memory-panel']")).to_be_hidden()
    expect(page.get_by_role("tab", name="Memory")).to_contain_text("/8")
    page.get_by_role("tab", name="Memory").tap()
    expect(page.locator("[data-part='chat-panel']")).to_be_hidden()
    fits()
    page.get_by_role("tab", name="Memory").press("ArrowLeft")
    expect(page.get_by_role("tab", name="Chat")).to_be_focused()
    expect(page.locator("[data-part='chat-panel']")).to_be_visible()
    page.set_viewport_size(WIDE)
    expect(page.locator("[data-part='memory-panel']")).to_be_visible()
    expect(page.get_by_role("tab")).to_have_count(0)
    assert new_page.problems == []


def test_what_is_said_stays_text(open_chat: Callable[..., Any], new_page: Pages) -> None:
    page = open_chat()
    hostile = "My name is <img src=x onerror=alert(1)><script>alert(2)</script>"
    say(page, hostile)
    say(page, "What is my name?")
    expect(bubbles(page).last).to_contain_text("“My name is <img src=x onerror=alert(1)>")
    say(page, "שמי דוד")
    assert bubbles(page).nth(4).evaluate("bubble => getComputedStyle(bubble).direction") == "rtl"
    assert page.locator("main img, select img, [data-part='panels'] script").count() == 0
    page.reload()
    ready(page)
    expect(page.locator("chatmemory-conversations [aria-current] bdi")).to_contain_text("<img src=x")
    assert new_page.problems == []


def test_little_motion_for_those_who_want_little(open_chat: Callable[..., Any]) -> None:
    page = open_chat(reduced_motion="reduce")
    say(page, "My name is Ann")
    say(page, "Remember the number 7")
    leaving = page.locator(".is-leaving")
    with time_stands_still(page):
        slide(page, 4)
        expect(leaving).to_contain_text("Forgotten: no room left")
        assert leaving.evaluate("entry => getComputedStyle(entry).transitionDuration") == "0s"
        assert page.evaluate("document.getAnimations().length") == 0
    expect(leaving).to_have_count(0)
