"""The thumbs at the answers of a chat, in a real browser and under a strict content security policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chatmemory import AiMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.contrib.feedback.models import Feedback
from chatmemory.models import Conversation
from tests.chat.test_panel_browser import (  # noqa: F401
    PHONE,
    WIDE,
    answered,
    conversation,
    open_page,
    part,
    say,
)
from tests.support.browser import Pages, axe_violations, browser_thread, chromium, expect, new_page  # noqa: F401

# ruff: noqa: F811 (fixtures of another module)

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def talk(conversation: Conversation) -> Conversation:
    call = ToolExecutionRequest("1", "look_up", "{}")
    conversation.memory.add(
        UserMessage("What is a cat?"),
        AiMessage(None, [call]),
        ToolExecutionResultMessage("1", "look_up", "cat"),
        AiMessage("An animal."),
    )
    return conversation


def thumb(page: Any, name: str) -> Any:
    return page.get_by_role("button", name=name).last


def given() -> list[tuple[int, str, str]]:
    return list(Feedback.objects.order_by("position").values_list("position", "value", "comment"))


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_an_answer_is_rated_and_the_page_still_says_so_later(
    open_page: Callable[..., Any], talk: Conversation, new_page: Pages, viewport: dict[str, int]
) -> None:
    page = open_page(f"/plain/{talk.pk}/", viewport=viewport, bypass_csp=True, reduced_motion="reduce")
    good, bad = thumb(page, "Good answer"), thumb(page, "Bad answer")
    expect(page.get_by_role("button", name="Good answer")).to_have_count(1)  # not at what only calls a tool
    good.click()
    expect(good).to_have_attribute("aria-pressed", "true")
    expect(part(page, "status")).to_have_text("Your feedback was saved.")
    assert given() == [(3, "up", "")]
    bad.click()
    field = page.get_by_label("What was wrong? (optional)")
    field.fill("<b>Which</b> animal?")
    assert axe_violations(page) == []
    width = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert width[0] <= width[1]
    with page.expect_response(lambda response: response.request.method == "PUT"):
        page.locator(".chatmemory-feedback-form").get_by_role("button", name="Send").click()
    expect(field).to_be_hidden()
    assert given() == [(3, "down", "<b>Which</b> animal?")]
    page.reload()
    expect(bad).to_have_attribute("aria-pressed", "true")
    expect(good).to_have_attribute("aria-pressed", "false")
    assert axe_violations(page) == []
    page.get_by_role("button", name="Comment").click()
    expect(field).to_have_value("<b>Which</b> animal?")
    field.press("Escape")
    expect(page.get_by_role("button", name="Comment")).to_be_focused()
    with page.expect_response(lambda response: response.request.method == "DELETE"):
        bad.click()
    expect(bad).to_have_attribute("aria-pressed", "false")
    assert given() == []
    assert new_page.problems == []


def test_it_stays_where_an_answer_is_evicted_and_a_new_one_can_be_rated(
    open_page: Callable[..., Any], talk: Conversation
) -> None:
    page = open_page(f"/plain/{talk.pk}/")
    with page.expect_response(lambda response: response.request.method == "PUT"):
        thumb(page, "Good answer").click()
    for text in ("One", "Two"):
        say(page, text)
        page.get_by_text(f"You said: {text}").last.wait_for()
        page.get_by_role("button", name="Send").wait_for()
    old = page.locator("[data-position='3']")
    expect(old).to_contain_text("Forgotten")
    expect(old.get_by_role("button", name="Good answer")).to_have_attribute("aria-pressed", "true")
    with page.expect_response(lambda response: response.request.method == "PUT"):
        thumb(page, "Bad answer").click()
    assert [(position, value) for position, value, _ in given()] == [(3, "up"), (7, "down")]


def test_the_last_press_holds_however_slow_the_first_is(open_page: Callable[..., Any], talk: Conversation) -> None:
    page = open_page(f"/plain/{talk.pk}/")
    page.evaluate("""() => {
        const send = window.fetch;
        window.fetch = async (...request) => {
            window.fetch = send;
            await new Promise((resolve) => (window.release = resolve));
            return send(...request);
        };
    }""")
    thumb(page, "Good answer").click()
    thumb(page, "Bad answer").click()
    with page.expect_response(lambda response: "down" in (response.request.post_data or "")):
        page.evaluate("release()")
    assert given() == [(3, "down", "")]


def test_what_was_not_saved_is_not_shown_as_saved(open_page: Callable[..., Any], talk: Conversation) -> None:
    page = open_page(f"/plain/{talk.pk}/")
    page.route("**/feedback/", lambda route: route.abort())
    thumb(page, "Good answer").click()
    part(page, "problem").get_by_role("button", name="Try again").wait_for()
    expect(thumb(page, "Good answer")).to_have_attribute("aria-pressed", "false")
    page.unroute("**/feedback/")
    with page.expect_response(lambda response: response.request.method == "PUT"):
        page.get_by_role("button", name="Try again").click()
    expect(thumb(page, "Good answer")).to_have_attribute("aria-pressed", "true")
    assert given() == [(3, "up", "")]
