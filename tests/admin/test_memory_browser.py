"""The page of a conversation in a real browser: the memory first, what left it a key away."""

from __future__ import annotations

from typing import Any

import pytest

from chatmemory import SystemMessage, UserMessage
from chatmemory.models import Conversation
from tests.admin.test_browser import PHONE, WIDE, signed_in  # noqa: F401
from tests.support.browser import axe_violations, browser_thread, chromium, expect, new_page  # noqa: F401
from tests.support.factories import ConversationFactory

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]


@pytest.fixture
def made() -> Conversation:
    """A system message, a pin and eight more, after which one message and then eleven left."""
    made: Conversation = ConversationFactory(title="Tea", window="messages", limit=10)
    made.memory.add(SystemMessage("Be kind."))
    for number in range(21):
        made.memory.add(UserMessage(f"question {number}"))
        if number == 6:
            made.memory.pin(5)
    return made


def address(conversation: Conversation, query: str = "") -> str:
    return f"/admin/chatmemory/conversation/{conversation.pk}/change/{query}"


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_every_state_is_accessible(signed_in: Any, made: Conversation, viewport: Any) -> None:  # noqa: F811
    page = signed_in(viewport=viewport, bypass_csp=True)
    fresh, cleared = ConversationFactory(title="Fresh"), ConversationFactory(title="Cleared")
    cleared.memory.add(UserMessage("gone"))
    cleared.memory.clear()
    found = {}
    for conversation in (made, fresh, cleared):
        page.goto(address(conversation))
        for summary in page.locator(".chatmemory-group > summary").all():
            summary.click()
        violations = axe_violations(page, runOnly=_RULES)
        if violations:
            found[conversation.title] = sorted({violation[:300] for violation in violations})
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    assert found == {}


def test_on_a_phone_the_first_screen_has_a_message(signed_in: Any, made: Conversation) -> None:  # noqa: F811
    page = signed_in(viewport={"width": 390, "height": 844})
    page.goto(address(made))
    expect(page.locator("#message-0")).to_be_in_viewport()


def test_what_left_last_opens_by_a_key(signed_in: Any, made: Conversation) -> None:  # noqa: F811
    page = signed_in(viewport=WIDE)
    page.goto(address(made))
    rows = page.locator(".chatmemory-group").first.locator(".chatmemory-messages")
    expect(rows).to_be_hidden()
    group = page.locator(".chatmemory-group > summary").first
    expect(group).to_contain_text("1 message, pushed out by message 21")
    group.focus()
    assert group.evaluate("summary => getComputedStyle(summary).outlineStyle") != "none"
    page.keyboard.press("Enter")
    expect(rows).to_be_visible()
    expect(rows).to_contain_text("question 12")


def test_a_link_to_what_left_leads_to_it(signed_in: Any, made: Conversation) -> None:  # noqa: F811
    page = signed_in(viewport=WIDE)
    page.goto(address(made, "#message-12"))
    expect(page.locator("#message-12")).to_be_visible()


def test_the_switch_leads_there_and_back(signed_in: Any, made: Conversation) -> None:  # noqa: F811
    page = signed_in(viewport=WIDE)
    page.goto(address(made))
    page.get_by_role("link", name="Everything said", exact=True).click()
    expect(page.locator("#timeline h2")).to_contain_text("10 retained, 12 evicted")
    page.get_by_role("link", name="Memory", exact=True).click()
    expect(page.locator("#memory h2")).to_contain_text("10 messages")


def test_who_pins_in_the_memory_stays_there_at_the_message(signed_in: Any, made: Conversation) -> None:  # noqa: F811
    page = signed_in(viewport=WIDE)
    page.goto(address(made))
    for name, message in (("Pin", "question 16"), ("Unpin", "question 16")):
        page.locator("#memory .chatmemory-message").filter(has_text=message).get_by_role("button", name=name).click()
        expect(page.get_by_text(f"{name}ned message 17.")).to_be_visible()
        assert page.url.endswith(address(made, "#message-17"))
        expect(page.locator("#memory #message-17")).to_be_in_viewport()
