"""The strip in a real browser: what it tells to the pointer and to the keyboard, and where its bars lead."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from chatmemory import AiMessage, UserMessage
from chatmemory.models import Conversation
from tests.support.browser import Pages, axe_violations, browser_thread, chromium, expect, new_page  # noqa: F401
from tests.support.factories import ConversationFactory

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

WIDE = {"width": 1400, "height": 900}
PHONE = {"width": 390, "height": 844}
HINT = "Point at a bar, or move along with the arrow keys, to see what it is."


@pytest.fixture
def conversation() -> Conversation:
    """Four hundred messages, of which a window of ten retains the last."""
    made: Conversation = ConversationFactory(window="messages", limit=10)
    for number in range(0, 400, 20):
        turns = ((UserMessage(f"question {each}"), AiMessage(f"answer {each + 1}")) for each in range(0, 20, 2))
        made.memory.add(*(message for turn in turns for message in turn))
        made.refresh_from_db()
        assert made.next_position == number + 20
    return made


@pytest.fixture
def open_history(live_server: Any, admin_user: Any, new_page: Pages, conversation: Conversation) -> Any:  # noqa: F811
    """Opens the page of the history that has a position."""
    client = Client()
    client.force_login(admin_user)
    cookie = {"name": "sessionid", "value": client.cookies["sessionid"].value, "url": live_server.url}

    def open_page(position: int = 399, **options: Any) -> Any:
        page = new_page(base_url=live_server.url, **options)
        page.context.add_cookies([cookie])
        page.goto(f"/admin/chatmemory/conversation/{conversation.pk}/change/?position={position}")
        return page

    return open_page


def line(page: Any) -> Any:
    return page.locator(".chatmemory-strip-says")


def bar(page: Any, position: int) -> Any:
    return page.locator(f'.chatmemory-strip-box a[href$="#message-{position}"]')


def focused(page: Any) -> str:
    label: str = page.evaluate("document.activeElement.getAttribute('aria-label') || ''")
    return label


@pytest.mark.own_script
def test_the_line_says_what_is_pointed_at(open_history: Any) -> None:
    page = open_history(viewport=WIDE)
    expect(line(page)).to_have_text(HINT)
    bar(page, 399).hover()
    expect(line(page)).to_have_text("Message 399 · AI · 7 tokens · retained · answer 19")
    bar(page, 380).hover()
    expect(line(page)).to_have_text("Message 380 · User · 7 tokens · evicted · no room in the window · question 0")
    page.locator("h2").first.hover()
    expect(line(page)).to_have_text(HINT)
    assert page.locator(".chatmemory-strip title").count() == 0  # or the browser would say it twice


@pytest.mark.own_script
def test_the_arrow_keys_move_along_and_enter_follows(open_history: Any) -> None:
    page = open_history(viewport=WIDE)
    strip = page.locator(".chatmemory-bars")
    expect(strip.locator('a[tabindex="0"]')).to_have_count(1)
    strip.locator('a[tabindex="0"]').focus()
    assert focused(page).startswith("Message 399 ")
    for key, reached in (
        ("ArrowRight", 399),
        ("ArrowLeft", 398),
        ("ArrowLeft", 397),
        ("ArrowRight", 398),
        ("Home", 300),
        ("ArrowLeft", 300),
        ("ArrowRight", 301),
    ):
        page.keyboard.press(key)
        assert focused(page).startswith(f"Message {reached} "), key
    expect(line(page)).to_contain_text("Message 301 ")
    page.keyboard.press("Tab")  # the strip is one stop
    assert not focused(page).startswith("Message ")
    expect(line(page)).to_have_text(HINT)
    page.keyboard.press("Shift+Tab")
    assert focused(page).startswith("Message 301 ")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert page.url.endswith("?position=301#message-301")
    expect(page.locator("#message-301")).to_be_in_viewport()


@pytest.mark.own_script
def test_from_right_to_left_the_arrows_go_where_they_point(open_history: Any, settings: Any) -> None:
    settings.LANGUAGE_CODE = "ar"
    page = open_history(viewport=WIDE)
    box = {position: bar(page, position).bounding_box()["x"] for position in (398, 399)}
    assert box[399] < box[398]
    bar(page, 399).focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.getAttribute('href')").endswith("#message-398")


@pytest.mark.own_script
def test_a_bar_of_this_page_leads_there_without_another_page(open_history: Any) -> None:
    page = open_history(viewport=WIDE)
    page.evaluate("() => { window.isSame = true }")
    for _ in range(2):
        page.evaluate("scrollTo(0, 0)")
        bar(page, 360).click()
        expect(page.locator("#message-360")).to_be_in_viewport()
    assert page.evaluate("window.isSame")


@pytest.mark.own_script
def test_earlier_messages_are_in_the_list(open_history: Any) -> None:
    page = open_history(100, viewport=WIDE)
    figure = page.locator(".chatmemory-strip")
    expect(figure).to_contain_text("The last 100 of 400 messages")
    expect(figure.locator(".chatmemory-bar")).to_have_count(100)
    page.get_by_role("link", name="Everything said").click()
    expect(page.locator("#timeline")).to_contain_text("Messages 350–399 of 400")


def test_on_a_phone_the_strip_opens_at_the_page(open_history: Any) -> None:
    page = open_history(viewport=PHONE)
    expect(bar(page, 399)).to_be_in_viewport()
    expect(bar(page, 300)).not_to_be_in_viewport()
    assert bar(page, 399).bounding_box()["width"] >= 4
    page = open_history(310, viewport=PHONE)
    expect(bar(page, 399)).not_to_be_in_viewport()
    expect(page.locator('.chatmemory-strip-box a[tabindex="0"]')).to_be_in_viewport()
    page.locator('.chatmemory-strip-box a[tabindex="0"]').focus()
    page.keyboard.press("Home")
    expect(page.locator(".chatmemory-strip-box a").first).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


@pytest.mark.own_script
def test_without_a_script_each_bar_has_a_title_and_the_strip_scrolls(open_history: Any) -> None:
    page = open_history(viewport=PHONE, java_script_enabled=False)
    assert bar(page, 399).locator("title").text_content() == "Message 399 · AI · 7 tokens · retained"
    expect(line(page)).to_be_hidden()
    assert page.locator(".chatmemory-strip-box").get_attribute("tabindex") == "0"
    expect(bar(page, 399)).to_be_in_viewport()


def test_is_accessible_also_with_a_bar_in_focus(open_history: Any) -> None:
    page = open_history(viewport=WIDE, bypass_csp=True)
    bar(page, 399).focus()
    assert axe_violations(page, runOnly=["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]) == []
    ring = "getComputedStyle(document.activeElement.querySelector('.chatmemory-strip-hit')).strokeWidth"
    page.keyboard.press("ArrowLeft")
    assert page.evaluate(ring) == "2px"
