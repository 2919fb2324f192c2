"""The page "Window" in a real browser."""

# ruff: noqa: F811

from __future__ import annotations

from typing import Any

import pytest

from chatmemory import AiMessage, SystemMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.models import Conversation
from tests.admin.test_browser import PHONE, WIDE, signed_in  # noqa: F401
from tests.support.browser import Pages, axe_violations, browser_thread, chromium, expect, new_page  # noqa: F401
from tests.support.factories import ConversationFactory

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

THREE = (
    "?1-window=messages&1-limit=5&2-window=tokens&2-limit=200&2-keep_tool_results=0"
    "&3-window=messages&3-limit=50&3-low_water=70&3-whole_turns=yes&3-compact_at=90&show=2"
)


@pytest.fixture
def agent() -> Conversation:
    """Turns with calls of tools, of which a window of thirty messages has the last."""
    made: Conversation = ConversationFactory(title="Agent " + "x" * 180, window="messages", limit=30)
    made.memory.add(SystemMessage("Be kind."))
    for number in range(12):
        made.memory.add(UserMessage(f"question {number} " + "w" * 300))
        made.memory.add(AiMessage(None, [ToolExecutionRequest(f"call_{number}", "look_up", '{"what": "tea"}')]))
        made.memory.add(ToolExecutionResultMessage(f"call_{number}", "look_up", "so much " * 40))
        made.memory.add(AiMessage(f"answer {number}"))
    made.refresh_from_db()
    return made


def address(made: Conversation, query: str = "") -> str:
    return f"/admin/chatmemory/conversation/{made.pk}/window/{query}"


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_is_accessible_and_no_wider_than_the_screen(
    signed_in: Any, agent: Conversation, viewport: Any, new_page: Pages
) -> None:
    page = signed_in(viewport=viewport, bypass_csp=True)
    found = {}
    for query in ("", THREE, "?1-window=messages&1-limit=0&1-low_water=0", "?1-window=messages&1-limit=30"):
        page.goto(address(agent, query))
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"], query
        violations = axe_violations(
            page,
            runOnly=["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"],
            rules={"label-title-only": {"enabled": False}},  # the admin's own field to search breaks it
        )
        if violations:
            found[query] = sorted({violation[:300] for violation in violations})
    assert found == {}
    assert new_page.problems == []


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_from_right_to_left(signed_in: Any, agent: Conversation, viewport: Any, settings: Any) -> None:
    settings.LANGUAGE_CODE = "ar"
    page = signed_in(viewport=viewport)
    for query in ("", THREE):
        page.goto(address(agent, query))
        assert page.evaluate("document.documentElement.dir") == "rtl"
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]


def test_a_suggestion_fills_the_form_and_is_applied_without_a_script(signed_in: Any, agent: Conversation) -> None:
    page = signed_in(viewport=WIDE, java_script_enabled=False)
    page.goto(address(agent))
    expect(page.locator(".chatmemory-window")).to_have_count(4)
    page.get_by_role("link", name="Half", exact=True).click()
    expect(page.get_by_label("Limit").first).to_have_value("15")
    expect(page.locator(".chatmemory-window")).to_have_count(2)
    page.get_by_role("button", name="Apply this window").click()
    expect(page.locator(".messagelist")).to_contain_text("The window was changed to at most 15 messages.")
    agent.refresh_from_db()
    assert agent.limit == 15


def test_another_window_is_compared(signed_in: Any, agent: Conversation) -> None:
    page = signed_in(viewport=WIDE)
    page.goto(address(agent, "?1-window=messages&1-limit=5"))
    page.get_by_text("Compare with window 2").click()
    page.locator("#id_2-limit").fill("9")
    page.get_by_role("button", name="Try", exact=True).click()
    expect(page.locator(".chatmemory-window")).to_have_count(3)
    page.locator(".chatmemory-window").nth(2).get_by_role("link").click()
    expect(page.locator("#chatmemory-outcome")).to_be_in_viewport()
    expect(page.locator("#chatmemory-outcome h2")).to_contain_text("Outcome of Window 2")


def test_cards_say_the_same_at_the_same_height(signed_in: Any, agent: Conversation) -> None:
    """However long the names of windows are, so that figures can be compared."""
    page = signed_in(viewport=WIDE)
    page.goto(address(agent, THREE))
    heights = page.evaluate(
        "[...document.querySelectorAll('.chatmemory-window-evicts')].map(row => row.getBoundingClientRect().top)"
    )
    assert len(heights) == 4
    assert len(set(heights)) == 1


def test_two_windows_stand_beside_each_other_on_a_phone(signed_in: Any, agent: Conversation) -> None:
    page = signed_in(viewport=PHONE)
    page.goto(address(agent))
    now, half = (page.locator(".chatmemory-window").nth(place).bounding_box() for place in (0, 1))
    assert now["y"] == half["y"]
    assert now["x"] + now["width"] < half["x"]
