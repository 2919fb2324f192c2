"""The page "What the model had" in a real browser."""

# ruff: noqa: F811 (fixtures of other modules)

from __future__ import annotations

from typing import Any

import pytest

from chatmemory.models import Conversation
from tests.admin.test_browser import PHONE, WIDE, conversation, signed_in  # noqa: F401
from tests.support.browser import Pages, axe_violations, browser_thread, chromium, expect, new_page  # noqa: F401

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def addresses(conversation: Conversation) -> list[str]:
    base = f"/admin/chatmemory/conversation/{conversation.pk}/memory/"
    answer = conversation.messages.get(type="AI").position
    return [f"{base}?answer={answer}&against=0", f"{base}?answer=1&against=x", f"{base}?version=0", base]


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_every_state_is_accessible_and_as_wide_as_the_screen(
    signed_in: Any, conversation: Conversation, new_page: Pages, viewport: Any
) -> None:
    page = signed_in(viewport=viewport, bypass_csp=True)
    found = {}
    for address in addresses(conversation):
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"], address
        violations = axe_violations(
            page,
            runOnly=["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"],
            rules={"label-title-only": {"enabled": False}},  # the admin's own field to search breaks it
        )
        if violations:
            found[address] = sorted({violation[:300] for violation in violations})
    assert not found, found
    assert new_page.problems == []


def test_the_answer_stands_beside_what_it_was_made_from_and_below_it_on_a_phone(
    signed_in: Any, conversation: Conversation
) -> None:
    for viewport, is_beside in (WIDE, True), (PHONE, False):
        page = signed_in(viewport=viewport)
        page.goto(addresses(conversation)[0])
        had = page.locator("[aria-labelledby=chatmemory-memory]").bounding_box()
        wrote = page.locator("[aria-labelledby=chatmemory-wrote]").bounding_box()
        assert (wrote["x"] > had["x"] + had["width"]) is is_beside
        assert (wrote["y"] >= had["y"] + had["height"]) is not is_beside
        if is_beside:
            assert wrote["y"] < viewport["height"]


def test_what_was_gone_leads_to_the_history(signed_in: Any, conversation: Conversation) -> None:
    page = signed_in(viewport=WIDE)
    page.goto(addresses(conversation)[0])
    page.locator(".chatmemory-gaps a").first.click()
    expect(page.locator(page.evaluate("location.hash"))).to_be_visible()


def test_the_first_screen_leads_to_what_has_changed_since(signed_in: Any, conversation: Conversation) -> None:
    for viewport in WIDE, PHONE:
        page = signed_in(viewport=viewport)
        page.goto(addresses(conversation)[0].partition("&")[0])
        link = page.get_by_role("link", name="What has changed since")
        expect(link).to_be_in_viewport()
        link.click()
        expect(page.locator("#difference h2")).to_be_in_viewport()
