"""What stands side by side is as high, and what stands one below the other begins at one edge, in a real browser."""

# ruff: noqa: F811

from __future__ import annotations

from typing import Any

import pytest

from chatmemory import AiMessage, UserMessage
from chatmemory.models import Conversation
from tests.admin.test_browser import PHONE, WIDE, signed_in  # noqa: F401
from tests.support.browser import browser_thread, chromium, expect, new_page  # noqa: F401

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

# Of an element's first words: beside them its box may have room of its own.
WORDS = """element => {
    const words = document.createRange();
    words.selectNodeContents(document.createTreeWalker(element, NodeFilter.SHOW_TEXT).nextNode());
    const box = words.getBoundingClientRect();
    return {left: box.left, right: box.right, lines: words.getClientRects().length};
}"""


@pytest.fixture
def conversation() -> Conversation:
    """A conversation whose title is too long for the breadcrumbs of a phone, and whose window is full."""
    made = Conversation.objects.create(title="Wrong cassette, slipping hub, new address", window="messages", limit=12)
    for number in range(30):
        made.memory.add(UserMessage(f"Where is order {number}?"), AiMessage("It left the warehouse on Monday."))
    return made


def opened(signed_in: Any, conversation: Conversation, viewport: Any, page_name: str = "change/") -> Any:
    page = signed_in(viewport=viewport)
    page.goto(f"/admin/chatmemory/conversation/{conversation.pk}/{page_name}")
    return page


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_what_is_shown_is_chosen_by_buttons_of_one_height(
    signed_in: Any, conversation: Conversation, viewport: Any
) -> None:
    page = opened(signed_in, conversation, viewport)
    switch = page.locator(".chatmemory-switch ul").bounding_box()
    toggle = page.locator(".chatmemory-head .chatmemory-toggle").bounding_box()
    chosen = page.locator(".chatmemory-switch a[aria-current]").bounding_box()
    assert switch["height"] == pytest.approx(toggle["height"], abs=0.5)
    assert chosen["height"] == pytest.approx(switch["height"] - 2, abs=0.5)  # all but the border is coloured


def test_on_a_phone_the_name_of_a_section_is_not_broken(signed_in: Any, conversation: Conversation) -> None:
    page = opened(signed_in, conversation, PHONE)
    heading = page.locator("#chatmemory-now")
    assert heading.evaluate(WORDS)["lines"] == 1
    count = heading.locator(".chatmemory-count").bounding_box()
    assert count["x"] + count["width"] == pytest.approx(heading.bounding_box()["width"] + 15 - 8, abs=1)


def test_a_message_begins_below_its_position(signed_in: Any, conversation: Conversation) -> None:
    for viewport in (WIDE, PHONE):
        message = opened(signed_in, conversation, viewport).locator("#memory .chatmemory-message").first
        position = message.locator(".chatmemory-position").evaluate(WORDS)
        assert message.locator(".chatmemory-text").evaluate(WORDS)["left"] == pytest.approx(position["left"], abs=0.5)


def test_beside_the_memory_the_facts_of_an_answer_follow_its_role(signed_in: Any, conversation: Conversation) -> None:
    page = opened(signed_in, conversation, WIDE, "memory/?answer=41")
    answer = page.locator(".chatmemory-wrote .chatmemory-message")
    role, facts = answer.locator(".chatmemory-role").evaluate(WORDS), answer.locator(".chatmemory-meta").evaluate(WORDS)
    assert role["right"] < facts["left"] < role["right"] + 16


def test_on_a_phone_the_breadcrumbs_show_where_a_title_begins(signed_in: Any, conversation: Conversation) -> None:
    """A crumb that is a block is left out whole as soon as it is too long."""
    page = opened(signed_in, conversation, PHONE)
    crumbs = page.locator(".breadcrumbs li").all()
    assert [crumb.evaluate("crumb => getComputedStyle(crumb).display") for crumb in crumbs] == ["inline"] * len(crumbs)


def test_the_day_of_the_first_message_stands_on_one_line(signed_in: Any, conversation: Conversation) -> None:
    page = opened(signed_in, conversation, WIDE)
    for fact in page.locator(".chatmemory-facts dd").all():
        assert fact.evaluate(WORDS)["lines"] == 1, fact.inner_text()


def test_fields_and_lists_beside_each_other_are_as_high(signed_in: Any, conversation: Conversation) -> None:
    page = opened(signed_in, conversation, WIDE, "window/")
    fields = page.locator(".chatmemory-fields :is(select, input[type=number])").all()
    heights = [field.bounding_box()["height"] for field in fields if field.is_visible()]
    assert len(heights) >= 5
    assert heights == pytest.approx([heights[0]] * len(heights), abs=0.5)


def test_the_chart_and_its_legend_draw_the_beginning_of_the_memory_alike(
    signed_in: Any, conversation: Conversation
) -> None:
    page = opened(signed_in, conversation, WIDE)
    assert (
        page.locator(".chatmemory-strip-edge").first.evaluate("line => getComputedStyle(line).strokeDasharray")
        != "none"
    )
    key = page.locator(".chatmemory-key-edge")
    drawn = key.evaluate("key => getComputedStyle(key, '::before').backgroundImage")
    assert drawn.startswith("repeating-linear-gradient")  # a border so short has no dashes


def test_on_a_phone_a_position_in_the_list_of_messages_is_not_broken(
    signed_in: Any, conversation: Conversation
) -> None:
    conversation.messages.filter(position=59).update(position=19999)
    page = signed_in(viewport=PHONE)
    page.goto("/admin/chatmemory/message/")
    places = page.locator(".field-place .chatmemory-position")
    expect(places.filter(has_text="19999")).to_have_count(1)
    assert places.filter(has_text="19999").evaluate(WORDS)["lines"] == 1
