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

# Keeps what the list tells the page. `stay` has the page go where it is to go.
LISTEN = """stay => {
    window.told = [];
    document.addEventListener("chatmemory:conversation", event => {
        window.told.push([event.detail.action, event.detail.id, event.detail.address, event.detail.title]);
        if (stay && event.detail.action !== "creating") event.preventDefault();
    });
}"""

# A server that is slow to answer a search for "on", until go() is called.
SLOW_SEARCH = """() => {
    const send = window.fetch;
    const waiting = new Promise(go => { window.go = go; });
    window.fetch = async (...given) => {
        if (!String(given[0]).endsWith("search=on")) return send(...given);
        document.body.dataset.waits = "";
        await waiting;
        const answer = send(...given);
        const read = answer.then(response => response.clone().text()).catch(() => {});
        const went = () => { document.body.dataset.went = ""; };
        read.then(() => requestAnimationFrame(() => requestAnimationFrame(went)));
        return answer;
    };
}"""


@pytest.fixture
def open_list(live_server: Any, settings: Any, api: Client, new_page: Pages) -> Callable[..., Any]:  # noqa: F811
    """Opens a page with the list, as a user who is signed in."""
    settings.ROOT_URLCONF = "tests.support.chat_pages"

    def open_(path: str = "/list/", now: str | None = None, **options: Any) -> Any:
        page = new_page(base_url=live_server.url, **options)
        if now is not None:
            page.clock.install(time=now)
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


def search(page: Any, text: str) -> Any:
    field = page.get_by_role("searchbox", name="Search conversations")
    field.fill(text)
    return field


def test_a_search_finds_titles_and_what_was_said(open_list: Callable[..., Any], user: Any, new_page: Pages) -> None:  # noqa: F811
    one, _two, three = made(user, "Tea", "Coffee <b>black</b>", "Third")
    three.memory.add(UserMessage("A pot of tea, please"))
    page = open_list(f"/chat/{one.pk}/")
    field = search(page, "tea ")
    expect(titles(page)).to_have_text(["Third", "Tea"])
    expect(page.get_by_role("status")).to_have_text("2 conversations found")  # for some seconds
    field.press("ArrowDown")
    expect(page.get_by_role("link", name="Third")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("link", name="Tea")).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(field).to_be_focused()

    search(page, "<b>")
    expect(titles(page)).to_have_text(["Coffee <b>black</b>"])
    search(page, "nothing like it")
    expect(page.locator("[data-part='nothing']")).to_have_text("Nothing found.")
    expect(titles(page)).to_have_count(0)
    expect(page.get_by_text("There are no conversations yet")).to_be_hidden()
    field.press("Escape")
    expect(field).to_have_value("")
    expect(titles(page)).to_have_count(3)
    expect(page.locator("[data-part='nothing']")).to_be_hidden()
    assert new_page.problems == []


def test_a_search_that_is_late_is_not_shown(open_list: Callable[..., Any], user: Any) -> None:
    made(user, "one", "only")
    page = open_list()
    page.evaluate(SLOW_SEARCH)
    search(page, "on")
    page.locator("body[data-waits]").wait_for()
    search(page, "only")
    expect(titles(page)).to_have_text(["only"])
    page.evaluate("go()")
    page.locator("body[data-went]").wait_for()
    expect(titles(page)).to_have_text(["only"])
    expect(page.get_by_role("alert")).to_be_hidden()


def test_a_search_has_pages_too(open_list: Callable[..., Any], user: Any) -> None:
    made(user, *[f"Number {number:02}" for number in range(35)], "Other")
    page = open_list()
    search(page, "number")
    expect(titles(page).first).to_have_text("Number 34")
    expect(titles(page)).to_have_count(30)
    page.get_by_role("button", name="Show older conversations").click()
    expect(titles(page)).to_have_count(35)
    # What has been shown stays when the page is looked at again.
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.locator("li", has_text="Number 00").hover()
    expect(titles(page)).to_have_count(35)
    expect(row(page, "Other")).to_have_count(0)


def test_a_search_that_fails_leaves_the_list(open_list: Callable[..., Any], user: Any) -> None:
    made(user, "One")
    page = open_list()
    page.route("**/api/**", lambda route: route.abort(), times=1)
    field = search(page, "One")
    expect(page.get_by_role("alert")).to_have_text("The site does not answer.")
    expect(titles(page)).to_have_text(["One"])
    field.press("Enter")
    expect(page.get_by_role("alert")).to_be_hidden()


def test_without_conversations_there_is_nothing_to_search(open_list: Callable[..., Any]) -> None:
    expect(open_list().get_by_role("searchbox")).to_be_hidden()


def test_days_are_those_of_the_browser(open_list: Callable[..., Any], user: Any) -> None:
    moments = {
        "Just now": "2026-03-01T15:20:00Z",
        "Before midnight": "2026-03-01T14:59:59Z",
        "A week ago": "2026-02-22T15:00:00Z",
        "A week and a second ago": "2026-02-22T14:59:59Z",
        "Last month": "2026-02-01T00:00:00Z",
        "Last year": "2025-12-31T14:00:00Z",
    }
    for title, moment in moments.items():
        [conversation] = made(user, title)
        Conversation.objects.filter(pk=conversation.pk).update(updated_at=moment)
    page = open_list(now="2026-03-01T15:30:00Z", timezone_id="Asia/Tokyo")  # there, half past midnight
    days = ["Today", "Yesterday", "Previous 7 days", "February", "December 2025"]
    expect(page.get_by_role("heading", level=3)).to_have_text(days)
    expect(titles(page)).to_have_text([*moments])
    expect(page.get_by_role("list", name="February").get_by_role("listitem")).to_have_count(2)
    expect(page.locator("time").first).to_have_text("12:20 AM")
    row(page, "Just now").hover()
    page.get_by_role("button", name="Rename Just now").focus()
    page.clock.fast_forward("23:40:00")
    expect(page.get_by_role("heading", level=3).first).to_have_text("Yesterday")
    expect(page.get_by_role("list", name="Previous 7 days").get_by_role("listitem")).to_have_count(1)
    expect(page.get_by_role("button", name="Rename Just now")).to_be_focused()


def test_a_group_leaves_with_its_last_conversation(open_list: Callable[..., Any], user: Any) -> None:
    old, _new = made(user, "Old", "New")
    Conversation.objects.filter(pk=old.pk).update(updated_at="2025-01-31T00:00:00Z")
    page = open_list()
    expect(page.get_by_role("heading", level=3)).to_have_text(["Today", re.compile("January")])
    row(page, "Old").hover()
    erase(page, "Old")
    expect(page.get_by_role("heading", level=3)).to_have_text(["Today"])
    expect(page.get_by_role("link", name="New")).to_be_focused()


def test_a_key_starts_a_new_chat(open_list: Callable[..., Any], user: Any) -> None:
    made(user, "One")
    page = open_list()
    expect(page.get_by_role("button", name="New chat")).to_have_attribute("title", "New chat (Ctrl+Shift+O)")
    search(page, "One").press("Control+Shift+O")
    page.wait_for_url("**/chat/**")
    assert Conversation.objects.filter(owner=user).count() == 2


def test_a_page_may_make_the_conversation_itself(open_list: Callable[..., Any], user: Any) -> None:
    page = open_list()
    page.evaluate("document.addEventListener('chatmemory:conversation', event => event.preventDefault())")
    page.get_by_role("button", name="New chat").click()
    [own] = made(user, "Its own")
    page.evaluate("id => { document.querySelector('chatmemory-conversations').current = id; }", str(own.pk))
    expect(titles(page)).to_have_text(["Its own"])


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
