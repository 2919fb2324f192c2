"""The list of conversations beside a chat, in a real browser: wide, as a drawer of a phone, and by the keyboard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from chatmemory import AiMessage, UserMessage
from chatmemory.models import Conversation
from tests.support.browser import Pages, axe_violations, browser_thread, chromium, expect, new_page  # noqa: F401
from tests.support.factories import ConversationFactory

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

WIDE = {"width": 1200, "height": 800}
PHONE = {"width": 360, "height": 740}


@pytest.fixture
def conversation(user: Any) -> Conversation:
    """The oldest of sixty."""
    made: list[Conversation] = [ConversationFactory(owner=user, title=f"Talk {number:02}") for number in range(60)]
    return made[0]


@pytest.fixture
def open_page(live_server: Any, settings: Any, api: Client, new_page: Pages) -> Callable[..., Any]:  # noqa: F811
    """Opens the page of a conversation, as a user who is signed in."""
    settings.ROOT_URLCONF = "tests.support.chat_pages"

    def open_(conversation: Conversation, **options: Any) -> Any:
        page = new_page(base_url=live_server.url, reduced_motion="reduce", **options)
        session = {"name": "sessionid", "value": api.cookies["sessionid"].value, "url": live_server.url}
        page.context.add_cookies([session])
        page.goto(f"/side/{conversation.pk}/")
        page.locator("chatmemory-conversations[data-ready]").wait_for()
        page.locator("chatmemory-chat[data-ready]").wait_for()
        return page

    return open_


def titles(page: Any) -> Any:
    return page.locator("chatmemory-conversations li [data-part='title']")


def box_of(page: Any) -> Any:
    return page.get_by_label("Message", exact=True)


def say(page: Any, text: str) -> None:
    box_of(page).fill(text)
    box_of(page).press("Enter")
    expect(page.locator("[data-part='history'] [data-type='ai']").last).to_contain_text(text)


def test_wide_the_list_stands_beside_the_chat(
    open_page: Callable[..., Any],
    conversation: Conversation,
    new_page: Pages,  # noqa: F811
) -> None:
    page = open_page(conversation, viewport=WIDE, bypass_csp=True)
    one, other = page.locator("chatmemory-conversations").bounding_box(), page.locator("chatmemory-chat").bounding_box()
    assert one["x"] + one["width"] < other["x"]
    assert (one["y"], one["height"]) == (other["y"], other["height"])
    expect(page.get_by_role("button", name="Conversations", exact=True)).to_be_hidden()
    expect(page.get_by_role("tab")).to_have_count(0)
    expect(page.get_by_role("link", name="Talk 31")).not_to_be_in_viewport()
    page.get_by_role("button", name="Show older conversations").click()
    expect(titles(page)).to_have_count(60)
    assert page.evaluate("document.documentElement.scrollHeight") <= page.evaluate("innerHeight") + other["y"]
    assert axe_violations(page) == []
    assert new_page.problems == []


def test_what_is_said_moves_its_conversation_to_the_top(
    open_page: Callable[..., Any],
    conversation: Conversation,
) -> None:
    page = open_page(conversation, viewport=WIDE)
    expect(titles(page).last).to_have_text("Talk 00")
    say(page, "Hello")
    expect(titles(page).first).to_have_text("Talk 00")
    expect(titles(page)).to_have_count(31)
    expect(box_of(page)).to_be_focused()


def test_on_a_phone_the_list_is_a_drawer(
    open_page: Callable[..., Any],
    conversation: Conversation,
    new_page: Pages,  # noqa: F811
) -> None:
    page = open_page(conversation, viewport=PHONE, bypass_csp=True)
    opener = page.get_by_role("button", name="Conversations", exact=True)
    drawer = page.get_by_role("navigation", name="Conversations")
    expect(drawer).to_be_hidden()
    assert axe_violations(page) == []
    opener.press("Enter")
    expect(page.get_by_role("button", name="Close")).to_be_focused()
    assert axe_violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    field = page.get_by_role("searchbox")
    field.fill("Talk 4")
    expect(titles(page)).to_have_count(10)
    field.press("Escape")
    expect(titles(page)).to_have_count(31)
    expect(drawer).to_be_visible()
    page.get_by_role("button", name="Erase Talk 59").click()
    page.get_by_role("dialog").press("Escape")
    expect(drawer).to_be_visible()
    page.keyboard.press("Escape")
    expect(drawer).to_be_hidden()
    expect(opener).to_be_focused()

    # What has the focus is never behind it.
    opener.press("Enter")
    page.get_by_role("button", name="Show older conversations").focus()
    page.keyboard.press("Tab")
    expect(drawer).to_be_hidden()
    opener.click()
    page.set_viewport_size(WIDE)
    expect(opener).to_be_hidden()
    expect(drawer).to_be_visible()
    page.set_viewport_size(PHONE)
    expect(drawer).to_be_hidden()
    opener.click()
    page.get_by_role("link", name="Talk 58").click()
    page.wait_for_url("**/chat/**")
    assert new_page.problems == []


def test_arrow_up_brings_back_what_was_said_last(open_page: Callable[..., Any], user: Any) -> None:
    conversation = ConversationFactory(owner=user)
    conversation.memory.add(UserMessage("First"), AiMessage("Yes"), UserMessage("Two\nlines"), AiMessage("No"))
    page = open_page(conversation, viewport=WIDE)
    box = box_of(page)
    box.press("ArrowUp")
    expect(box).to_have_value("Two\nlines")
    expect(page.locator("chatmemory-chat [data-part='status']")).to_have_text("Two\nlines")  # for some seconds
    box.press("ArrowUp")  # a line up, as in any box
    box.press("ArrowDown")
    expect(box).to_have_value("Two\nlines")
    box.press("End")
    box.press("ArrowDown")
    expect(box).to_have_value("")
    box.press("ArrowUp")
    box.press("Escape")
    expect(box).to_have_value("")

    box.press("ArrowUp")
    box.press_sequentially("!")
    box.press("Escape")
    box.press("ArrowDown")
    expect(box).to_have_value("Two\nlines!")
    box.press("Enter")
    expect(page.locator("[data-part='history'] [data-type='user']")).to_have_count(3)
    box.press_sequentially("draft")
    box.press("ArrowUp")
    expect(box).to_have_value("draft")


def test_keys_of_an_input_method_are_its_own(open_page: Callable[..., Any], user: Any) -> None:
    conversation = ConversationFactory(owner=user)
    conversation.memory.add(UserMessage("First"), AiMessage("Yes"))
    page = open_page(conversation, viewport=WIDE)
    press = """(box, [key, composing]) => box.dispatchEvent(
        new KeyboardEvent("keydown", { key, isComposing: composing, bubbles: true, cancelable: true }))"""
    assert box_of(page).evaluate(press, ["ArrowUp", True])
    expect(box_of(page)).to_have_value("")
    assert not box_of(page).evaluate(press, ["ArrowUp", False])
    expect(box_of(page)).to_have_value("First")
