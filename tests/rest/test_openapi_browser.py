"""The page that describes the API, in a real browser and under a strict content security policy."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from chatmemory.models import Conversation
from tests.support.browser import Pages, browser_thread, chromium, expect, new_page  # noqa: F401

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_a_call_is_tried_on_the_page(live_server: Any, api: Client, new_page: Pages) -> None:  # noqa: F811
    page = new_page(base_url=live_server.url)
    page.context.add_cookies([{"name": "sessionid", "value": api.cookies["sessionid"].value, "url": live_server.url}])
    answer = page.goto("/api/docs/")
    assert "script-src 'self';" in answer.headers["content-security-policy"]
    operation = page.locator("#operations-conversations-createConversation")
    operation.locator("button.opblock-summary-control").click()
    operation.get_by_role("button", name="Try it out").click()
    operation.get_by_role("button", name="Execute").click()
    expect(operation.locator(".live-responses-table .response-col_status").last).to_contain_text("201")
    assert Conversation.objects.count() == 1
    assert new_page.problems == []
