"""The pages of usage in a real browser: accessible, and as wide as the screen."""

# ruff: noqa: F811

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone

from chatmemory import AiMessage, UserMessage
from chatmemory.contrib.usage.models import Usage
from chatmemory.models import Conversation
from tests.admin.test_browser import PHONE, WIDE, signed_in  # noqa: F401
from tests.support.browser import Pages, axe_violations, browser_thread, chromium, expect, new_page  # noqa: F401
from tests.support.factories import ConversationFactory, UserFactory

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

PAGE = "/admin/chatmemory_usage/usage/"


@pytest.fixture
def conversation() -> Conversation:
    """A conversation with calls on several days, of models with long names, in two currencies."""
    made: Conversation = ConversationFactory(owner=UserFactory(username="o" * 150), title="Pets")
    made.memory.add(UserMessage("What is a cat? " * 30), AiMessage("An animal."))
    for days, model in enumerate(["gpt-5", "m" * 255, "our-own-model-of-2026", ""] * 3):
        Usage.objects.create(
            conversation=made,
            owner=made.owner,
            position=1,
            model=model,
            input_tokens=1_234_567 * days,
            estimated_tokens=1_300_000 * days,
            cache_read_tokens=1_000_000 * days,
            output_tokens=10,
            cost=Decimal("12.5") if days % 3 else None,
            currency=["", "USD", "EUR"][days % 3],
            created_at=timezone.now() - timedelta(days=days * 2),
        )
    return made


def addresses(conversation: Conversation) -> list[str]:
    groups = [f"{PAGE}?period=12-months&group={group}" for group in ("day", "owner", "model", "operation")]
    own = [f"/admin/chatmemory/conversation/{conversation.pk}/{name}/" for name in ("usage", "window", "change")]
    return [PAGE, f"{PAGE}?since=2026-02-01&until=2026-01-01&group=model", *groups, *own]


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_is_accessible_and_not_wider_than_the_screen(
    signed_in: Any, conversation: Conversation, viewport: Any, new_page: Pages
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
    assert found == {}
    assert new_page.problems == []


def test_a_bar_tells_its_number_and_leads_to_its_models(signed_in: Any, conversation: Conversation) -> None:
    page = signed_in(viewport=WIDE)
    page.goto(PAGE)
    chart = page.locator(".chatmemory-chart").first
    expect(chart.locator("[data-chatmemory-value]")).to_have_text("peak 13,580,247")
    bar = chart.locator("a.chatmemory-column").last
    bar.focus()
    expect(chart.locator("[data-chatmemory-value]")).to_contain_text("10 tokens")
    bar.press("Enter")
    expect(page.locator(".chatmemory-usage-table").last.locator("tbody th")).to_have_text(["gpt-5"])


def test_a_form_chooses_the_days_without_a_script(signed_in: Any, conversation: Conversation) -> None:
    page = signed_in(viewport=WIDE, java_script_enabled=False)
    page.goto(f"{PAGE}?group=model")
    today = timezone.localdate().isoformat()
    page.get_by_label("From").fill(today)
    page.get_by_role("button", name="Show").click()
    expect(page.locator(".chatmemory-usage-table").last.locator("tbody th")).to_have_text(["gpt-5"])
    with page.expect_download() as download:
        page.get_by_role("link", name="Download as CSV").click()
    assert download.value.suggested_filename == f"usage-by-model-{today}-{today}.csv"
