"""The demo's chat in a real browser: what may go wrong, and what does not."""

# ruff: noqa: F811 - fixtures that are imported

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.demo.test_command import Demo
from tests.support.browser import (  # noqa: F401
    Pages,
    browser_thread,
    chromium,
    expect,
    new_page,
    time_stands_still,
    wait_until,
)
from tests.support.demo_browser import (  # noqa: F401
    PHONE,
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

AT_THE_END = """name => {
    const box = document.querySelector(`[data-part="${name}"]`);
    return box.scrollHeight - box.scrollTop - box.clientHeight < 2;
}"""
# In one step, in one of the frames in which words come: an answer takes a second, and the test may be slower.
TO_THE_TOP_WHILE_ANSWERING = """() => {
    if (!document.querySelector("[data-part='answering']").textContent.includes("small")) return false;
    for (const name of ["scroller", "memory-scroller"]) document.querySelector(`[data-part="${name}"]`).scrollTo(0, 0);
    return true;
}"""
TWO_FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
SLOW_TO_START = """() => {
    const real = window.fetch;
    window.fetch = async (address, options) => {
        if (String(address).endsWith("/new/")) await new Promise((goOn) => Object.assign(window, { goOn }));
        return real(address, options);
    };
}"""
ANIMATIONS = "[...document.querySelectorAll('.chatmemory-entry')].flatMap(one => one.getAnimations()).length"


@pytest.mark.parametrize("arrives", [True, False])
def test_what_is_said_when_the_connection_breaks_is_said_once(open_chat: Callable[..., Any], arrives: bool) -> None:
    page = open_chat()
    keys: list[str] = []

    def lose_the_answer(route: Any) -> None:
        keys.append(route.request.headers["idempotency-key"])
        if len(keys) == 1 and arrives:
            route.fetch()  # the server has it, and nobody knows
        if len(keys) == 1:
            route.abort()
        else:
            route.continue_()

    page.route("**/turns/", lose_the_answer)
    page.get_by_label("Message", exact=True).fill("My name is Ann")
    page.get_by_label("Message", exact=True).press("Enter")
    answered(page, 2)
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.get_by_label("Message", exact=True)).to_have_value("")
    assert len(keys) == (1 if arrives else 2)
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


def test_a_conversation_that_is_not_there(site: str, cookies: Any, new_page: Pages) -> None:
    page = new_page(storage_state=cookies)
    response = page.goto(f"{site}/chat/01a1fca1-2ec4-707f-8871-493a30708057/")
    assert response.status == 404
    expect(page.get_by_role("heading", name="There is no such conversation")).to_be_visible()
    page.get_by_role("link", name="Go to your chats").click()
    ready(page)


def test_whoever_comes_back_sees_what_was_said(open_chat: Callable[..., Any]) -> None:
    page = open_chat()
    say(page, "My name is Ann")
    here = page.url
    page.get_by_role("link", name="Admin").click()
    page.wait_for_url("**/admin/chatmemory/conversation/*/change/")
    assert page.url.split("/")[-3] == here.split("/")[-2]
    page.go_back()
    ready(page)
    expect(bubbles(page)).to_have_count(2)
    expect(cards(page)).to_have_count(3)


def test_a_double_click_sends_and_stops_nothing(open_chat: Callable[..., Any]) -> None:
    page = open_chat()
    page.get_by_label("Message", exact=True).fill("My name is Ann")
    box = page.locator("[data-part='send']").bounding_box()
    page.mouse.dblclick(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    answered(page, 2)
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.locator("[data-part='message']")).to_be_focused()


def test_what_cannot_be_answered_can_be_said_again(open_chat: Callable[..., Any]) -> None:
    page = open_chat()
    page.get_by_role("radio", name="Tokens").check()
    expect(page.locator("[data-part='gauge-amount']")).to_contain_text("tokens")
    slide(page, 100)
    expect(page.locator("[data-part='gauge-amount']")).to_contain_text("of 100 tokens")
    long = ("word " * 700).strip()
    page.get_by_label("Message", exact=True).fill(long)
    page.get_by_role("button", name="Send").click()
    notice = page.locator("[data-part='turn-notice']")
    expect(notice).to_contain_text("The window is too small")
    page.reload()
    ready(page)
    expect(notice).to_contain_text("forgotten before it was answered")
    expect(page.get_by_role("alert")).to_have_count(0)
    notice.get_by_role("button", name="Say it again").click()
    expect(page.get_by_label("Message", exact=True)).to_have_value(long)
    expect(notice).to_be_hidden()
    slide(page, 2000)
    expect(page.locator("[data-part='gauge-amount']")).to_contain_text("of 2,000 tokens")
    page.get_by_role("button", name="Send").click()
    answered(page, 3)


def test_a_long_text_is_sent_whole(open_chat: Callable[..., Any]) -> None:
    page = open_chat()
    page.get_by_label("Message", exact=True).fill("w" * 20_000)
    page.get_by_role("button", name="Send").click()
    answered(page, 2)
    assert len(history_of(page)[1]["text"]) == 20_000


def test_who_reads_is_left_where_they_are(open_chat: Callable[..., Any]) -> None:
    page = open_chat(viewport={"width": 1400, "height": 500}, reduced_motion="reduce")
    for text in ["My name is Ann", "Remember the number 7", "What is my name?"]:
        say(page, text)
    say(page, "help")
    expect(page.locator(".is-leaving")).to_have_count(0)
    scrollers = [page.locator("[data-part='scroller']"), page.locator("[data-part='memory-scroller']")]
    for name in ["scroller", "memory-scroller"]:
        wait_until(page, AT_THE_END, name)
    page.get_by_label("Message", exact=True).fill("help")
    page.get_by_role("button", name="Send").click()
    wait_until(page, TO_THE_TOP_WHILE_ANSWERING)
    answered(page, 10)
    expect(page.locator(".is-leaving")).to_have_count(0)
    page.evaluate(TWO_FRAMES)
    for scroller in scrollers:
        assert scroller.evaluate("box => box.scrollTop") == 0


def test_a_problem_is_seen_from_the_memory_tab(open_chat: Callable[..., Any]) -> None:
    page = open_chat(viewport=PHONE)
    page.get_by_role("tab", name="Memory").click()
    page.route("**/api/conversations/*/", lambda route: route.abort())
    slide(page, 6)
    expect(page.get_by_role("alert")).to_contain_text("The site does not answer")


def test_signing_in_elsewhere_is_enough_and_keeps_the_draft(
    open_chat: Callable[..., Any], demo: Demo, site: str
) -> None:
    page = open_chat()
    page.context.clear_cookies()
    box = page.get_by_label("Message", exact=True)
    box.fill("My name is Ann")
    page.get_by_role("button", name="New chat").click()
    expect(page.get_by_role("link", name="Sign in again")).to_be_visible()
    other = page.context.new_page()
    sign_in(other, demo, site)
    page.get_by_role("button", name="Send").click()
    answered(page, 2)
    box.fill("Remember this")
    page.context.clear_cookies()
    page.get_by_role("button", name="Send").click()
    page.get_by_role("link", name="Sign in again").click()
    page.get_by_label("Password").fill(demo.password())
    page.get_by_role("button", name="Sign in").click()
    ready(page)
    expect(box).to_have_value("Remember this")


def test_another_tab_is_brought_up_to_date(open_chat: Callable[..., Any]) -> None:
    page = open_chat()
    other = page.context.new_page()
    other.goto(page.url)
    ready(other)
    say(page, "My name is Ann")
    expect(bubbles(other)).to_have_count(0)
    other.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(bubbles(other)).to_have_count(2)
    expect(other).to_have_title("My name is Ann · chatmemory")


def test_a_long_card_can_be_opened(open_chat: Callable[..., Any]) -> None:
    page = open_chat()
    say(page, "\n".join(f"Line {number}" for number in range(12)))
    card = page.locator("[data-part='retained'] [data-type='user'] .chatmemory-card")
    text = card.locator(".chatmemory-text")
    assert text.evaluate("text => text.clientHeight < text.scrollHeight")
    card.get_by_role("button", name="Show all").click()
    assert text.evaluate("text => text.clientHeight >= text.scrollHeight")
    card.get_by_role("button", name="Show less").click()
    assert text.evaluate("text => text.clientHeight < text.scrollHeight")
    say(page, "Short")
    expect(page.locator("[data-part='retained'] [data-type='user']").last.get_by_role("button")).to_have_count(0)


def test_messages_leave_one_batch_after_the_other(open_chat: Callable[..., Any]) -> None:
    page = open_chat()
    say(page, "My name is Ann")
    say(page, "Remember the number 7")
    say(page, "Hello")
    with time_stands_still(page):
        slide(page, 6)
        expect(page.locator(".is-leaving")).to_contain_text("My name is Ann")
        slide(page, 4)
        expect(page.locator("[data-part='gauge-amount']")).to_have_text("4 of 4 messages")
        expect(page.locator(".is-leaving")).to_have_count(1)
        page.clock.run_for(1700)
        expect(page.locator(".is-leaving")).to_have_count(2)
        page.clock.run_for(1700)
        expect(cards(page)).to_have_count(4)


def test_the_memory_tab_opens_at_its_newest(open_chat: Callable[..., Any]) -> None:
    page = open_chat(viewport=PHONE)
    for text in ["help", "My name is Ann", "help"]:
        say(page, text)
    page.get_by_role("tab", name="Memory").click()
    expect(cards(page).last).to_be_in_viewport()
    wait_until(page, AT_THE_END, "memory-scroller")
    wait_until(page, f"() => {ANIMATIONS} === 0")
    page.get_by_role("tab", name="Chat").click()
    page.get_by_role("tab", name="Memory").click()
    assert page.evaluate(ANIMATIONS) == 0


def test_what_is_written_after_new_chat_goes_to_the_new_chat(open_chat: Callable[..., Any]) -> None:
    page = open_chat()
    say(page, "My name is Ann")
    old = page.url
    box = page.get_by_label("Message", exact=True)
    box.fill("not finished")
    page.evaluate(SLOW_TO_START)
    page.get_by_role("button", name="New chat").click()
    expect(box).to_have_value("")
    box.fill("Remember the number 7")
    box.press("Enter")
    assert [item["type"] for item in history_of(page)] == ["SYSTEM", "USER", "AI"]
    page.evaluate("window.goOn()")
    page.wait_for_url(lambda url: url != old)
    answered(page, 2)
    expect(bubbles(page).first).to_have_text("Remember the number 7")
    page.goto(old)
    ready(page)
    expect(bubbles(page)).to_have_count(2)
    expect(box).to_have_value("not finished")


def test_a_new_chat_that_is_not_made_leaves_everything_as_it_was(open_chat: Callable[..., Any]) -> None:
    page = open_chat()
    box = page.get_by_label("Message", exact=True)
    box.fill("My name ")
    page.route("**/new/", lambda route: route.abort())
    page.get_by_role("button", name="New chat").click()
    expect(page.get_by_role("alert")).to_contain_text("The site does not answer")
    box.press_sequentially("is Ann")
    box.press("Enter")
    answered(page, 2)
    expect(bubbles(page).first).to_have_text("My name is Ann")


def test_a_text_without_a_space_freezes_nothing(open_chat: Callable[..., Any]) -> None:
    page = open_chat()
    page.get_by_label("Message", exact=True).fill("w" * 100_000)
    page.get_by_role("button", name="Send").click()
    answered(page, 2)
    assert len(bubbles(page).first.text_content()) == 20_000
    assert len(cards(page).nth(1).locator(".chatmemory-text").text_content()) < 3_000
    page.get_by_role("button", name="Show more (80,000 characters)").click()
    expect(bubbles(page)).to_have_count(3)
    expect(page.get_by_role("button", name="Show more (60,000 characters)")).to_be_visible()
    assert len(history_of(page)[1]["text"]) == 100_000


def test_marked_cards_are_in_sight(open_chat: Callable[..., Any]) -> None:
    page = open_chat(viewport={"width": 1400, "height": 600})
    for text in ["My name is Ann", "help", "help"]:
        say(page, text)
    expect(cards(page).nth(1)).not_to_be_in_viewport()
    slide(page, 4, release=False)
    expect(page.locator(".would-leave").first).to_be_in_viewport()
    slide(page, 8, release=False)
    expect(cards(page).last).to_be_in_viewport()


def test_a_tool_that_failed_is_told_from_others(open_chat: Callable[..., Any]) -> None:
    page = open_chat()
    say(page, "Look up orders 1001 and 77")
    tools = page.locator("[data-part='history'] .chatmemory-tool")
    expect(tools.nth(0)).to_have_text(re.compile("^look_up_order Order 1001: a blue teapot"))
    expect(tools.nth(1)).to_contain_text("look_up_order Failed There is no order 77")
    expect(page.locator(".chatmemory-card", has_text="Failed")).to_have_count(1)


def test_suggestions_follow_the_talk(open_chat: Callable[..., Any]) -> None:
    page = open_chat()
    suggestions = page.locator("[data-part='suggestions'] button:visible")
    expect(suggestions).to_have_count(4)
    say(page, "My name is Ann")
    expect(suggestions.filter(has_text="My name is Ann")).to_have_count(0)
    expect(suggestions).to_have_count(4)
    expect(suggestions.filter(has_text="What do you know")).to_have_count(0)
    slide(page, 4)
    say(page, "help")
    expect(suggestions.filter(has_text="What do you know")).to_have_count(1)


def test_one_legend_says_what_forgotten_means(open_chat: Callable[..., Any]) -> None:
    page = open_chat()
    legend = page.get_by_text("Forgotten = evicted")
    expect(legend).to_be_hidden()
    say(page, "My name is Ann")
    say(page, "help")
    slide(page, 4)
    expect(legend).to_have_count(1)
    expect(legend).to_be_visible()
