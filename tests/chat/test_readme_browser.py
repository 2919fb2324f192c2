"""The projects that README.md and docs/chat.md build, in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.browser import (  # noqa: F401
    Pages,
    axe_violations,
    browser_thread,
    chromium,
    expect,
    new_page,
)
from tests.support.new_project import PASSWORD, running
from tests.support.page_walk import PageWalk, empty_project, readme_walk  # noqa: F401
from tests.support.paths import ROOT

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def project(readme_walk: PageWalk, tmp_path_factory: pytest.TempPathFactory) -> PageWalk:  # noqa: F811
    """The project of the README, with a superuser, boss, and a user who is no staff, ann."""
    walk = readme_walk.continued(tmp_path_factory.mktemp("readme") / "project")
    walk.shell(f"from django.contrib.auth.models import User\nUser.objects.create_user('ann', password={PASSWORD!r})")
    return walk


@pytest.fixture(scope="module")
def site(project: PageWalk) -> Iterator[str]:
    """Its address."""
    with running(project.project) as site:
        yield site


def log_in(page: Any, address: str, name: str) -> None:
    page.goto(address)
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()


@pytest.mark.parametrize("width", [390, 1200])
def test_a_user_who_is_no_staff_chats(site: str, new_page: Pages, width: int) -> None:  # noqa: F811
    page = new_page(viewport={"width": width, "height": 800}, reduced_motion="reduce")
    page.goto(f"{site}/chat/")
    assert axe_violations(page) == []
    log_in(page, f"{site}/chat/", "ann")
    page.locator("chatmemory-chat[data-ready]").wait_for()
    page.get_by_label("Message", exact=True).fill("Hello")
    page.get_by_role("button", name="Send").click()
    expect(page.locator("[data-part='history'] [data-type='ai']").last).to_contain_text("messages.")
    assert page.get_by_role("tab", name="Memory").is_visible() == (width == 390)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert axe_violations(page) == []


def test_the_superuser_sees_the_conversation(site: str, new_page: Pages) -> None:  # noqa: F811
    page = new_page()
    log_in(page, f"{site}/admin/", "boss")
    page.get_by_role("link", name="Conversations").first.click()
    expect(page.get_by_role("heading", name="Select conversation to view")).to_be_visible()


@pytest.fixture(scope="module")
def site_of_the_widget(project: PageWalk, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the project of the page about the widget."""
    walk = project.continued(tmp_path_factory.mktemp("widget") / "project")
    walk.perform(ROOT / "docs" / "chat.md")
    with running(walk.project) as site:
        yield site


@pytest.mark.parametrize("width", [390, 1200])
def test_the_page_of_the_widget_adds_a_list(site_of_the_widget: str, new_page: Pages, width: int) -> None:  # noqa: F811
    page = new_page(viewport={"width": width, "height": 800}, reduced_motion="reduce")
    log_in(page, f"{site_of_the_widget}/chat/", "ann")
    page.locator("chatmemory-chat[data-ready]").wait_for()
    first = page.url
    opener = page.get_by_role("button", name="Conversations", exact=True)
    assert opener.is_visible() == (width == 390)
    if width == 390:
        opener.click()
    page.get_by_role("button", name="New chat").click()
    page.wait_for_url(lambda url: url != first)
    page.locator("chatmemory-chat[data-ready]").wait_for()
    if width == 390:
        opener.click()
    conversations = page.locator("chatmemory-conversations").get_by_role("link")
    expect(conversations.nth(1)).to_be_visible()
    assert axe_violations(page) == []
    page.keyboard.press("Escape")
    list_box, chat_box = (page.locator(f"chatmemory-{name}").bounding_box() for name in ("conversations", "chat"))
    assert list_box["y"] < chat_box["y"] or list_box["x"] + list_box["width"] < chat_box["x"]
    page.get_by_label("Message", exact=True).fill("Hello")
    page.get_by_role("button", name="Send").click()
    expect(page.locator("[data-part='history'] [data-type='ai']").last).to_contain_text("messages.")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert axe_violations(page) == []
