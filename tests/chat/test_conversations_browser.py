"""The list of one's own conversations, in a real browser and under a strict content security policy."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from chatmemory import UserMessage
from chatmemory.models import Conversation
from tests.support.browser import Pages, axe_violations, browser_thread, chromium, expect, new_page  # noqa: F401
from tests.support.factories import ConversationFactory

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

# Keeps what the list tells the page. `stay` has the page do all that is to be done.
LISTEN = """stay => {
    window.told = [];
    document.addEventListener("chatmemory:conversation", event => {
        window.told.push([event.detail.action, event.detail.id, event.detail.address, event.detail.title]);
        if (stay) event.preventDefault();
    });
}"""


@pytest.fixture
def open_list(live_server: Any, settings: Any, api: Client, new_page: Pages) -> Callable[..., Any]:  # noqa: F811
    """Opens a page with the list, as a user who is signed in."""
    settings.ROOT_URLCONF = "tests.support.chat_pages"

    def open_(path: str = "/list/", **options: Any) -> Any:
        page = new_page(base_url=live_server.url, **options)
        session = {"name": "sessionid", "value": api.cookies["sessionid"].value, "url": live_server.url}
        page.context.add_cookies([session])
        page.goto(path)
        ready(page)
        return page

    return open_


def ready(page: Any) -> None:
    page.locator("chatmemory-conversations[data-ready]").wait_for()


def titles(page: Any) -> Any:
    return page.locator("chatmemory-conversations li [data-part='title']")


def row(page: Any, title: str) -> Any:
    return page.locator("chatmemory-conversations li", has_text=title)


def made(user: Any, *titles: str, **settings: Any) -> list[Conversation]:
    return [ConversationFactory(owner=user, title=title, **settings) for title in titles]


def test_the_list_shows_ones_own(open_list: Callable[..., Any], user: Any, new_page: Pages) -> None:  # noqa: F811
    first, _second = made(user, "First", "<b>Second</b>")
    ConversationFactory(title="Somebody else's")
    ConversationFactory(owner=user, title="", memory_id="support-42")
    ConversationFactory(owner=user, title="", memory_id=str(uuid4()))
    page = open_list()
    expect(titles(page)).to_have_text(["Untitled", "support-42", "<b>Second</b>", "First"])
    expect(page.locator("[aria-current]")).to_have_count(0)
    page.get_by_role("navigation", name="Conversations").get_by_role("link", name="First").click()
    page.wait_for_url(f"**/chat/{first.pk}/")
    ready(page)
    expect(page.locator("li a[aria-current='page'] bdi")).to_have_text("First")
    assert new_page.problems == []


def test_a_page_of_its_own_leads_to_others_of_the_kind(open_list: Callable[..., Any], user: Any) -> None:
    first, second = made(user, "First", "Second")
    page = open_list(f"/talk/{first.pk}/")
    expect(page.locator("[aria-current]")).to_contain_text("First")
    assert row(page, "Second").locator("a").get_attribute("href").endswith(f"/talk/{second.pk}/")


def test_an_empty_list_says_so_and_a_first_one_is_made(
    open_list: Callable[..., Any],
    user: Any,
    new_page: Pages,  # noqa: F811
) -> None:
    page = open_list()
    expect(page.get_by_text("There are no conversations yet")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="New chat")).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**/chat/**")
    ready(page)
    made_one = Conversation.objects.get(owner=user)
    assert page.url.endswith(f"/chat/{made_one.pk}/")
    expect(page.locator("[aria-current]")).to_contain_text("Untitled")
    expect(page.get_by_text("There are no conversations yet")).to_be_hidden()
    assert new_page.problems == []


def test_an_impatient_user_makes_one_conversation(open_list: Callable[..., Any], user: Any, new_page: Pages) -> None:  # noqa: F811
    page = open_list()
    page.evaluate(LISTEN, True)
    page.evaluate("() => { const button = document.querySelector('[data-part=new]'); button.click(); button.click(); }")
    expect(titles(page)).to_have_count(1)
    assert [action for action, *_ in page.evaluate("told")] == ["creating", "created"]

    page.route("**/api/conversations/", lambda route: route.fetch() and route.abort(), times=1)
    page.get_by_role("button", name="New chat").click()
    expect(page.get_by_role("alert")).to_have_text("The site does not answer.")
    page.get_by_role("button", name="New chat").click()
    expect(titles(page)).to_have_count(2)
    assert [action for action, *_ in page.evaluate("told")][2:] == ["creating", "failed", "creating", "created"]
    assert Conversation.objects.filter(owner=user).count() == 2
    expect(page.get_by_role("alert")).to_be_hidden()


def test_a_conversation_is_renamed(open_list: Callable[..., Any], user: Any, new_page: Pages) -> None:  # noqa: F811
    [conversation] = made(user, "Old")
    page = open_list(f"/chat/{conversation.pk}/")
    page.evaluate(LISTEN, False)
    opener = page.get_by_role("button", name="Rename Old")
    opener.focus()
    opener.press("Enter")
    field = page.get_by_role("dialog", name="Rename conversation").get_by_label("Title")
    expect(field).to_be_focused()
    expect(field).to_have_value("Old")
    field.press("Escape")
    expect(opener).to_be_focused()

    opener.press("Enter")
    field.fill("New <i>one</i>")
    field.press("Enter")
    expect(page.get_by_role("status")).to_have_text("The conversation was renamed.")  # for some seconds
    expect(titles(page)).to_have_text(["New <i>one</i>"])
    expect(page.get_by_role("button", name="Rename New <i>one</i>")).to_be_focused()
    conversation.refresh_from_db()
    assert conversation.title == "New <i>one</i>"
    assert page.evaluate("told") == [["renamed", str(conversation.pk), page.url, "New <i>one</i>"]]
    assert new_page.problems == []


def test_erasing_says_what_is_lost(open_list: Callable[..., Any], user: Any, new_page: Pages) -> None:  # noqa: F811
    lost, kept = made(user, "Lost", "Kept")
    page = open_list()
    page.evaluate(LISTEN, False)
    lost.memory.add(UserMessage("one"), UserMessage("two"))
    row(page, "Lost").hover()
    page.get_by_role("button", name="Erase Lost").click()
    dialog = page.get_by_role("dialog", name="Erase conversation")
    expect(dialog).to_contain_text("Lost")
    expect(dialog).to_contain_text("with its history, for good. 2 messages will be lost.")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    dialog.get_by_role("button", name="Cancel").press("Enter")
    expect(dialog).to_be_hidden()
    assert Conversation.objects.filter(pk=lost.pk).exists()

    page.get_by_role("button", name="Erase Lost").click()
    dialog.get_by_role("button", name="Erase").click()
    expect(page.get_by_role("status")).to_have_text("The conversation was erased.")  # for some seconds
    expect(titles(page)).to_have_text(["Kept"])
    expect(page.get_by_role("link", name="Kept")).to_be_focused()
    assert [*Conversation.objects.filter(owner=user)] == [kept]
    assert [action for action, *_ in page.evaluate("told")] == ["erased"]
    assert new_page.problems == []


def test_erasing_what_the_page_shows_leads_to_another(open_list: Callable[..., Any], user: Any) -> None:
    first, second = made(user, "First", "Second")
    page = open_list(f"/chat/{second.pk}/")
    erase(page, "Second")
    page.wait_for_url(f"**/chat/{first.pk}/")
    ready(page)
    erase(page, "First")
    page.wait_for_url(lambda url: str(first.pk) not in url)
    ready(page)
    expect(titles(page)).to_have_text(["Untitled"])
    assert Conversation.objects.filter(owner=user).count() == 1


def erase(page: Any, title: str) -> None:
    page.get_by_role("button", name=f"Erase {title}").click()
    page.get_by_role("dialog").get_by_role("button", name="Erase").click()


def test_what_somebody_else_erased_leaves_the_list(open_list: Callable[..., Any], user: Any) -> None:
    made(user, "One", "Two")
    page = open_list()
    Conversation.objects.filter(title="One").delete()
    row(page, "One").hover()
    page.get_by_role("button", name="Rename One").click()
    expect(page.get_by_role("alert")).to_have_text("There is no such conversation any more.")
    expect(titles(page)).to_have_text(["Two"])

    row(page, "Two").hover()
    page.get_by_role("button", name="Erase Two").click()
    page.get_by_text("0 messages will be lost.").wait_for()
    Conversation.objects.filter(title="Two").delete()
    page.get_by_role("dialog").get_by_role("button", name="Erase").click()
    expect(page.get_by_text("There are no conversations yet")).to_be_visible()
    expect(page.get_by_role("button", name="New chat")).to_be_focused()


def test_a_page_can_do_it_all_without_leaving(open_list: Callable[..., Any], user: Any, new_page: Pages) -> None:  # noqa: F811
    first, second = made(user, "First", "Second")
    page = open_list(f"/chat/{first.pk}/")
    page.evaluate(LISTEN, True)
    here = page.url
    page.get_by_role("link", name="Second").click()
    page.evaluate("id => { document.querySelector('chatmemory-conversations').current = id; }", str(second.pk))
    expect(page.locator("[aria-current]")).to_contain_text("Second")
    erase(page, "Second")
    expect(titles(page)).to_have_text(["First"])
    page.evaluate(
        "([id, title]) => document.dispatchEvent(new CustomEvent('chatmemory:title', { detail: { id, title } }))",
        [str(first.pk), "Named by the model"],
    )
    expect(titles(page)).to_have_text(["Named by the model"])
    assert page.url == here
    opened, erased = page.evaluate("told")
    assert opened == ["open", str(second.pk), here.replace(str(first.pk), str(second.pk)), None]
    assert erased[:2] == ["erased", str(second.pk)]
    assert new_page.problems == []


def test_older_ones_are_shown_on_demand(open_list: Callable[..., Any], user: Any) -> None:
    made(user, *[f"Number {number:02}" for number in range(35)])
    oldest = Conversation.objects.get(title="Number 00")
    page = open_list(f"/chat/{oldest.pk}/")
    # The current one is there whatever its age, and no row is there twice.
    expect(titles(page)).to_have_count(31)
    expect(page.locator("[aria-current]")).to_contain_text("Number 00")
    page.get_by_role("button", name="Show older conversations").click()
    expect(titles(page)).to_have_count(35)
    expect(page.get_by_role("link", name="Number 04")).to_be_focused()
    expect(page.get_by_role("button", name="Show older conversations")).to_be_hidden()


def test_who_is_signed_out_is_told(open_list: Callable[..., Any], user: Any, settings: Any) -> None:
    made(user, "One")
    settings.LOGIN_URL = "/list/"
    page = open_list()
    page.context.clear_cookies()
    row(page, "One").hover()
    page.get_by_role("button", name="Erase One").click()
    expect(page.get_by_role("alert")).to_contain_text("You are signed out.")
    expect(page.get_by_role("link", name="Sign in again")).to_have_attribute(
        "href", re.compile(r"/list/\?next=%2Flist%2F$")
    )


def test_an_error_in_a_dialog_is_shown_there(open_list: Callable[..., Any], user: Any) -> None:
    made(user, "One")
    page = open_list()
    row(page, "One").hover()
    page.get_by_role("button", name="Rename One").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Title").fill("Two")
    page.route("**/api/**", lambda route: route.abort(), times=1)
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_have_text("The site does not answer.")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_be_hidden()
    expect(titles(page)).to_have_text(["Two"])


def test_axe_finds_nothing(open_list: Callable[..., Any], user: Any) -> None:
    made(user, "One", "x" * 255)
    look = {"viewport": {"width": 360, "height": 740}, "bypass_csp": True}
    page = open_list(f"/chat/{Conversation.objects.get(title='One').pk}/", **look)
    assert axe_violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    for name in ("Rename", "Erase"):
        page.get_by_role("button", name=f"{name} xxx").click()
        page.get_by_role("dialog").wait_for()
        assert axe_violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        page.keyboard.press("Escape")
