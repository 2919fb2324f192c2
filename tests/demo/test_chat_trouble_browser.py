"""The demo's chat in a real browser: what may go wrong, and what does not."""

# ruff: noqa: F811 - fixtures that are imported

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.demo.test_command import Demo
from tests.support.browser import Pages, axe_violations, browser_thread, chromium, expect, new_page  # noqa: F401
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
    page.get_by_role("link", name="Admin").click()
    page.wait_for_url("**/admin/")
    page.go_back()
    ready(page)
    expect(bubbles(page)).to_have_count(2)
    expect(cards(page)).to_have_count(3)


def test_a_double_click_sends_and_stops_nothing(open_chat: Callable[..., Any]) -> None:
    page = open_chat()
    page.get_by_label("Message", exact=True).fill("My name is Ann")
    box = page.locator("#send").bounding_box()
    at = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.click(*at)
    page.wait_for_timeout(120)
    page.mouse.click(*at)
    answered(page, 2)
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.locator("#message")).to_be_focused()


def test_what_cannot_be_answered_can_be_said_again(open_chat: Callable[..., Any]) -> None:
    page = open_chat()
    page.get_by_role("radio", name="Tokens").check()
    expect(page.locator("#gauge-amount")).to_contain_text("tokens")
    slide(page, 100)
    expect(page.locator("#gauge-amount")).to_contain_text("of 100 tokens")
    long = ("word " * 700).strip()
    page.get_by_label("Message", exact=True).fill(long)
    page.get_by_role("button", name="Send").click()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("The window is too small")
    page.reload()
    ready(page)
    expect(alert).to_contain_text("forgotten before it was answered")
    alert.get_by_role("button", name="Say it again").click()
    expect(page.get_by_label("Message", exact=True)).to_have_value(long)
    expect(page.get_by_role("alert")).to_have_count(0)
    slide(page, 2000)
    expect(page.locator("#gauge-amount")).to_contain_text("of 2,000 tokens")
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
    expect(page.locator(".leaves")).to_have_count(0)
    page.wait_for_timeout(300)
    scrollers = [page.locator("#scroller"), page.locator("#memory-scroller")]
    for scroller in scrollers:
        assert scroller.evaluate("box => box.scrollHeight - box.scrollTop - box.clientHeight") < 2
    page.get_by_label("Message", exact=True).fill("help")
    page.get_by_role("button", name="Send").click()
    expect(page.locator("#answering")).to_contain_text("small")
    for scroller in scrollers:
        scroller.evaluate("box => box.scrollTo(0, 0)")
    answered(page, 10)
    expect(page.locator(".leaves")).to_have_count(0)
    page.wait_for_timeout(300)
    for scroller in scrollers:
        assert scroller.evaluate("box => box.scrollTop") == 0


def test_a_problem_is_seen_from_the_memory_tab(open_chat: Callable[..., Any]) -> None:
    page = open_chat(viewport=PHONE)
    page.get_by_role("tab", name="Memory").click()
    page.route("**/api/conversations/*/", lambda route: route.abort())
    slide(page, 6)
    expect(page.get_by_role("alert")).to_contain_text("The demo does not answer")


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
    card = page.locator("#retained .user .card")
    text = card.locator(".text")
    assert text.evaluate("text => text.clientHeight < text.scrollHeight")
    card.get_by_role("button", name="Show all").click()
    assert text.evaluate("text => text.clientHeight >= text.scrollHeight")
    card.get_by_role("button", name="Show less").click()
    assert text.evaluate("text => text.clientHeight < text.scrollHeight")
    say(page, "Short")
    expect(page.locator("#retained .user").last.get_by_role("button")).to_have_count(0)


def test_messages_leave_one_batch_after_the_other(open_chat: Callable[..., Any]) -> None:
    page = open_chat()
    say(page, "My name is Ann")
    say(page, "Remember the number 7")
    say(page, "Hello")
    slide(page, 6)
    expect(page.locator(".leaves")).to_contain_text("My name is Ann")
    slide(page, 4)
    expect(page.locator("#gauge-amount")).to_have_text("4 of 4 messages")
    expect(page.locator(".leaves")).to_have_count(1)
    expect(page.locator(".leaves")).to_have_count(2)
    expect(cards(page)).to_have_count(4)


def test_the_memory_tab_opens_at_its_newest(open_chat: Callable[..., Any]) -> None:
    page = open_chat(viewport=PHONE)
    for text in ["help", "My name is Ann", "help"]:
        say(page, text)
    page.get_by_role("tab", name="Memory").click()
    scroller = page.locator("#memory-scroller")
    expect(cards(page).last).to_be_in_viewport()
    assert scroller.evaluate("box => box.scrollHeight - box.scrollTop - box.clientHeight") < 2
    page.wait_for_timeout(500)
    page.get_by_role("tab", name="Chat").click()
    page.get_by_role("tab", name="Memory").click()
    assert page.locator(".entry").evaluate_all("all => all.flatMap(one => one.getAnimations()).length") == 0
