"""The search field of the chat, in a real browser and under a strict content security policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chatmemory import AiMessage, SystemMessage, UserMessage
from chatmemory.models import Conversation
from tests.chat.test_panel_browser import PHONE, WIDE, conversation, open_page, part  # noqa: F401
from tests.support.browser import Pages, axe_violations, browser_thread, chromium, expect, new_page  # noqa: F401

# ruff: noqa: F811 (fixtures of another module)

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def talk(conversation: Conversation) -> Conversation:
    """A long conversation: its first page has no penicillin."""
    conversation.memory.add(SystemMessage("You are a nurse."), UserMessage("Hello 🙂🙂: no penicillin for me!"))
    for number in range(60):
        conversation.memory.add(UserMessage(f"Question {number}"), AiMessage(f"Answer {number}. " * 8))
    conversation.memory.add(UserMessage("Is <b>penicillin</b> in it?"), AiMessage("**No.**"))
    return conversation


def open_search(page: Any) -> Any:
    page.get_by_role("button", name="Search this conversation").click()
    field = page.get_by_role("combobox", name="Search this conversation")
    expect(field).to_be_focused()
    return field


def options(page: Any) -> Any:
    return page.get_by_role("option")


def is_in_view(page: Any, text: str) -> bool:
    return bool(
        page.locator(f"[data-part='history'] :text('{text}')").last.evaluate(
            """(found) => {
                const scroller = document.querySelector("[data-part='scroller']").getBoundingClientRect();
                const { top, bottom } = found.getBoundingClientRect();
                return top >= scroller.top - 1 && bottom <= scroller.bottom + 1;
            }"""
        )
    )


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_a_message_far_up_is_found_and_shown(
    open_page: Callable[..., Any], talk: Conversation, new_page: Pages, viewport: dict[str, int]
) -> None:
    motion = "reduce" if viewport is PHONE else "no-preference"
    page = open_page(f"/plain/{talk.pk}/", viewport=viewport, reduced_motion=motion, bypass_csp=True)
    field = open_search(page)
    field.press_sequentially("penic")
    expect(options(page)).to_have_count(2)
    assert options(page).locator("mark").all_text_contents() == ["penicillin", "penicillin"]
    expect(options(page).first).to_contain_text("Is <b>penicillin</b> in it?")
    expect(options(page).last).to_contain_text("Forgotten")
    expect(part(page, "status")).to_contain_text("2 messages found")
    assert axe_violations(page) == []
    field.press("ArrowDown")
    expect(options(page).first).to_have_attribute("aria-selected", "true")
    field.press("ArrowUp")
    expect(options(page).last).to_have_attribute("aria-selected", "true")
    assert field.get_attribute("aria-activedescendant") == options(page).last.get_attribute("id")
    assert page.locator("[data-position='1']").count() == 0
    field.press("Enter")
    found = page.locator("[data-position='1']")
    expect(found).to_be_focused()
    expect(found).to_have_class("chatmemory-said is-gone is-found")
    expect(options(page)).to_have_count(0)
    expect(found).to_have_class("chatmemory-said is-gone")
    assert is_in_view(page, "no penicillin for me")
    assert page.evaluate("scrollY") == 0
    field.fill("penicillin")
    options(page).first.click()
    expect(page.locator("[data-position='122']")).to_be_focused()
    assert is_in_view(page, "in it?")
    width = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert width[0] <= width[1]
    assert new_page.problems == []


def test_the_keyboard_opens_and_closes_it(open_page: Callable[..., Any], talk: Conversation, new_page: Pages) -> None:
    page = open_page(f"/plain/{talk.pk}/")
    button = page.get_by_role("button", name="Search this conversation")
    button.focus()
    button.press("Enter")
    field = page.get_by_role("combobox")
    expect(field).to_be_focused()
    assert button.get_attribute("aria-expanded") == "true"
    field.fill("zebra")
    expect(page.locator(".chatmemory-search-none")).to_have_text("No message has these words.")
    field.fill("")
    expect(page.locator(".chatmemory-search-none")).to_be_hidden()
    field.press("Escape")
    expect(button).to_be_focused()
    expect(field).to_be_hidden()
    assert button.get_attribute("aria-expanded") == "false"
    assert new_page.problems == []


def test_only_the_last_search_is_shown(open_page: Callable[..., Any], talk: Conversation) -> None:
    page = open_page(f"/plain/{talk.pk}/")
    page.route("**/search/?q=question*", lambda route: None)  # it has no answer yet
    field = open_search(page)
    with page.expect_request("**/search/?q=question*"):
        field.fill("question")
    with page.expect_event("requestfailed", lambda request: "q=question" in request.url):
        field.fill("nurse")
    expect(options(page)).to_have_count(1)
    options(page).click()
    expect(page.locator("[data-position='0'] details")).to_have_attribute("open", "")


def test_more_results_come_as_one_moves_down(open_page: Callable[..., Any], talk: Conversation) -> None:
    page = open_page(f"/plain/{talk.pk}/")
    field = open_search(page)
    field.fill("question")
    expect(options(page)).to_have_count(20)
    expect(part(page, "status")).to_contain_text("More than 20 messages found")
    field.press("ArrowUp")
    expect(options(page)).to_have_count(40)


def test_what_fails_is_told(open_page: Callable[..., Any], talk: Conversation) -> None:
    page = open_page(f"/plain/{talk.pk}/")
    page.route("**/search/**", lambda route: route.fulfill(status=500, body=""))
    open_search(page).fill("question")
    expect(part(page, "problem")).to_contain_text("500")


def test_a_message_that_is_too_far_up_is_not_looked_for(
    open_page: Callable[..., Any], talk: Conversation, conversation: Conversation
) -> None:
    page = open_page(f"/plain/{talk.pk}/")

    def far(route: Any) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**(found := answer.json()), "results": [
            {**hit, "position": -6000} for hit in found["results"]
        ]})  # fmt: skip

    page.route("**/search/**", far)
    field = open_search(page)
    field.fill("nurse")
    expect(options(page)).to_have_count(1)
    field.press("Enter")
    expect(part(page, "notice")).to_contain_text("too far up")
