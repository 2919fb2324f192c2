"""The admin's lists in a real browser: what was found has most of the room, and nothing widens the page."""

from __future__ import annotations

from typing import Any

import pytest

from chatmemory import AiMessage, UserMessage
from chatmemory.models import Conversation
from tests.admin.test_browser import PHONE, WIDE, signed_in  # noqa: F401
from tests.support.browser import axe_violations, browser_thread, chromium, expect, new_page  # noqa: F401
from tests.support.factories import ConversationFactory, UserFactory

# ruff: noqa: F811 (fixtures of another module)

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LISTS = [f"/admin/chatmemory/{model}/{query}" for model in ("conversation", "message") for query in ("", "?q=tea")]


@pytest.fixture
def long_names() -> list[Conversation]:
    """Conversations with names and texts that have nowhere to break, and with ordinary ones."""
    made = [
        ConversationFactory(title="x" * 180, memory_id="y" * 255, owner=UserFactory(username="z" * 150)),
        ConversationFactory(title="A title of many words " * 8, memory_id="ordinary"),
        ConversationFactory(title="", owner=None),
    ]
    for conversation in made:
        conversation.memory.add(UserMessage("tea" * 300), AiMessage("Some tea, and what else there is. " * 20))
    return made


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("address", LISTS)
def test_nothing_widens_the_page(signed_in: Any, long_names: Any, address: str, viewport: Any) -> None:
    page = signed_in(viewport=viewport)
    page.goto(address)
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    # A table scrolls in a box of its own; at this width it need not.
    box, table = (page.locator(each).bounding_box()["width"] for each in (".results", "#result_list"))
    assert viewport is PHONE or table <= box + 1


@pytest.mark.parametrize(("address", "text"), [(LISTS[1], "found"), (LISTS[2], "said"), (LISTS[3], "said")])
@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_the_text_is_the_widest_column(signed_in: Any, long_names: Any, address: str, text: str, viewport: Any) -> None:
    page = signed_in(viewport=viewport)
    page.goto(address)
    widths = (
        page.locator("#result_list tbody tr")
        .first.locator("th, td")
        .evaluate_all(
            "cells => Object.fromEntries(cells.map(cell => [cell.className.split(' ')[0], cell.offsetWidth]))"
        )
    )
    assert max(widths, key=widths.get) == f"field-{text}", widths


def test_what_was_found_is_accessible(signed_in: Any, long_names: Any) -> None:
    page = signed_in(viewport=WIDE, bypass_csp=True)
    for address in LISTS:
        page.goto(address)
        rules = {"label-title-only": {"enabled": False}}  # the admin's own field to search breaks it
        assert axe_violations(page, runOnly=["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"], rules=rules) == []


def test_what_was_found_leads_to_its_message(signed_in: Any, long_names: Any) -> None:
    page = signed_in(viewport=WIDE)
    page.goto(LISTS[1])
    link = page.locator(".chatmemory-found a").first
    link.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/change/?position=1#message-1")
    expect(page.locator("#message-1")).to_be_visible()
