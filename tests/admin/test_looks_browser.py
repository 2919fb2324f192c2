"""The admin's pages look and behave like the admin's own, whichever Django draws them, in a real browser."""

# ruff: noqa: F811

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone

from chatmemory import AiMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.models import Conversation
from tests.admin.test_browser import PHONE, WIDE, addresses, conversation, signed_in  # noqa: F401
from tests.support.browser import browser_thread, chromium, expect, new_page  # noqa: F401

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

STYLES = "(element, names) => names.map(name => getComputedStyle(element)[name])"
# Some versions write the sign between the crumbs, others have it drawn.
WORDS = """bar => (bar.tagName === "OL" ? [...bar.children].map(crumb => crumb.innerText) : bar.innerText.split("›"))
    .map(word => word.trim())"""
BAR = [
    "display",
    "backgroundColor",
    "color",
    "fontSize",
    "lineHeight",
    "borderTopStyle",
    *(f"{box}{side}" for box in ("padding", "margin") for side in ("Top", "Right", "Bottom", "Left")),
]
LINK = ["color", "fontSize", "fontWeight", "fontFamily"]
BUTTON = ["backgroundColor", "color", "borderTopLeftRadius", "borderTopStyle", "fontFamily", "textDecorationLine"]


def style(element: Any, names: list[str]) -> list[str]:
    found: list[str] = element.evaluate(STYLES, names)
    return found


def own(conversation: Conversation, page: str) -> str:
    return f"/admin/chatmemory/conversation/{conversation.pk}/{page}"


def crumbs(page: Any) -> dict[str, Any]:
    """How the breadcrumbs of a page look."""
    bar = page.locator(".breadcrumbs")
    return {
        "element": bar.evaluate("bar => bar.tagName"),
        "inside": bar.evaluate("bar => bar.parentElement.outerHTML.split('>')[0]"),
        "bar": style(bar, BAR),
        "links": style(bar.locator("a").first, LINK),
        "height": bar.bounding_box()["height"],
    }


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_breadcrumbs_are_those_of_the_stock_admin(signed_in: Any, viewport: Any) -> None:
    group = Group.objects.create(name="G")
    conversation = Conversation.objects.create(title="C")
    conversation.memory.add(UserMessage("x"))
    page = signed_in(viewport=viewport)

    def look(address: str) -> tuple[dict[str, Any], list[str]]:
        page.goto(address)
        return crumbs(page), page.locator(".breadcrumbs").evaluate(WORDS)

    def is_like(address: str, stock: str, *words: str) -> None:
        expected, _ = look(stock)
        found, said = look(address)
        if viewport is PHONE:  # more words, more lines
            del found["height"], expected["height"]
        assert (address, found) == (address, expected)
        assert said == ["Home", "Chat memory", *words]

    history = f"/admin/auth/group/{group.pk}/history/"
    is_like("/admin/chatmemory/", "/admin/auth/")
    is_like("/admin/chatmemory/conversation/", "/admin/auth/group/", "Conversations")
    is_like(own(conversation, "change/"), f"/admin/auth/group/{group.pk}/change/", "Conversations", "C")
    is_like(own(conversation, "history/"), history, "Conversations", "C", "Admin log")
    is_like(own(conversation, "clear/"), history, "Conversations", "C", "Clear memory")
    is_like(own(conversation, "compact/"), history, "Conversations", "C", "Summarise older turns")
    is_like(
        own(conversation, "delete/"),
        f"/admin/auth/group/{group.pk}/delete/",
        "Conversations",
        "C",
        "Erase conversation",
    )


def choose(page: Any, list_address: str, action: str) -> None:
    page.goto(list_address)
    page.locator("#result_list .action-select").first.check()
    page.locator("select[name=action]").select_option(action)
    with page.expect_navigation():
        page.locator(".actions button[type=submit]").click()


def test_the_page_before_many_are_erased_is_like_the_stock_admins(signed_in: Any) -> None:
    Group.objects.create(name="G")
    Conversation.objects.create(title="C")
    page = signed_in(viewport=WIDE)
    choose(page, "/admin/auth/group/", "delete_selected")
    expected = crumbs(page)
    choose(page, "/admin/chatmemory/conversation/", "delete_selected")
    assert crumbs(page) == expected
    assert page.locator(".breadcrumbs").inner_text().strip().endswith("Erase conversations")
    page.get_by_role("button", name="Yes, erase them").click()
    expect(page.locator(".messagelist")).to_contain_text("1 conversation was erased")


def test_buttons_are_those_of_the_stock_admin(signed_in: Any) -> None:
    group = Group.objects.create(name="G")
    conversation = Conversation.objects.create(title="C")
    conversation.memory.add(UserMessage("x"))
    page = signed_in(viewport=WIDE)
    page.goto(f"/admin/auth/group/{group.pk}/delete/")
    deletes = style(page.locator("#content form input[type=submit]"), BUTTON)
    back = style(page.locator("#content a.cancel-link"), ["textDecorationLine", "cursor"])
    page.goto("/admin/auth/group/add/")
    plain = style(page.locator("input[name=_continue]"), BUTTON)
    for address in ("clear/", "delete/"):
        page.goto(own(conversation, address))
        assert style(page.locator("#content button.chatmemory-yes"), BUTTON) == deletes, address
        cancel = page.locator("#content a.cancel-link")
        assert style(cancel, ["textDecorationLine", "cursor"]) == back, address
        # They stand side by side.
        beside = page.locator("#content button.chatmemory-yes").bounding_box()
        assert cancel.bounding_box()["height"] == pytest.approx(beside["height"], abs=2), address
    page.goto(own(conversation, "clear-tool-results/?keep=0"))
    assert style(page.locator("#content button.button").first, BUTTON) == plain


def test_what_looks_like_a_button_is_not_underlined(signed_in: Any, conversation: Conversation) -> None:
    page = signed_in(viewport=WIDE)
    for address in addresses(conversation):
        page.goto(address)
        underlined = page.locator("#content").evaluate(
            """(content, buttons) => [...content.querySelectorAll(buttons)]
                .filter(link => getComputedStyle(link).textDecorationLine !== "none").map(link => link.outerHTML)""",
            "a.button, :is(.chatmemory-buttons, .chatmemory-tools, .chatmemory-presets) a, "
            ".chatmemory-periods a[aria-current]",
        )
        assert underlined == [], address


def test_an_error_has_the_stock_admins_room(signed_in: Any, conversation: Conversation, settings: Any) -> None:
    settings.CHATMEMORY = {key: value for key, value in settings.CHATMEMORY.items() if key != "SUMMARIZER"}
    room = ["paddingTop", "paddingBottom", "paddingLeft", "paddingRight", "borderTopStyle", "color"]
    page = signed_in(viewport=WIDE)
    page.goto("/admin/auth/group/add/")
    with page.expect_navigation():
        page.locator("input[name=_save]").click()
    expected = style(page.locator("p.errornote"), room)
    page.goto(own(conversation, "compact/"))
    assert style(page.locator(".errornote").first, room) == expected


def test_one_link_leads_to_the_log(signed_in: Any, conversation: Conversation) -> None:
    """Some versions of Django draw one of their own, and call it "History"."""
    page = signed_in(viewport=WIDE)
    page.goto(own(conversation, "change/"))
    assert page.locator("a[href$='/history/']").count() == 1
    page.get_by_text("Actions", exact=True).click()
    page.get_by_role("link", name="Admin log").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Admin log")
    expect(page.locator("#change-history")).to_contain_text("Read what its messages say")


def test_each_field_has_its_label_and_no_id_stands_twice(signed_in: Any, conversation: Conversation) -> None:
    page = signed_in(viewport=WIDE)
    # With a result to clear the page has its form twice: once more to confirm.
    call = AiMessage(None, [ToolExecutionRequest("9", "look_up", "{}")])
    result = ToolExecutionResultMessage("9", "look_up", "A result that is longer than a placeholder. " * 20)
    conversation.memory.add(UserMessage("x"), call, result, AiMessage("y"))
    for address in addresses(conversation):
        page.goto(address)
        ids = page.evaluate("[...document.querySelectorAll('[id]')].map(element => element.id)")
        assert sorted(ids) == sorted(set(ids)), address
        nameless = page.evaluate(
            """[...document.querySelectorAll("#content :is(input:not([type=hidden], [type=submit]), select, textarea)")]
                .filter(field => !field.labels.length && !field.ariaLabel).map(field => field.outerHTML)"""
        )
        assert nameless == [], address


class TestMenus:
    @pytest.fixture
    def page(self, signed_in: Any, conversation: Conversation) -> Any:
        page = signed_in(viewport=WIDE)
        page.goto(own(conversation, "change/"))
        return page

    @pytest.fixture
    def menu(self, page: Any) -> Any:
        """A link in the menu, which is open."""
        page.get_by_text("Actions", exact=True).click()
        link = page.get_by_role("link", name="Clear memory")
        expect(link).to_be_visible()
        return link

    @pytest.mark.own_script
    def test_escape_closes_them_and_the_focus_is_where_they_opened(self, page: Any, menu: Any) -> None:
        menu.focus()
        page.keyboard.press("Escape")
        expect(menu).to_be_hidden()
        assert page.evaluate("document.activeElement.innerText") == "Actions"

    @pytest.mark.own_script
    def test_a_click_elsewhere_closes_them(self, page: Any, menu: Any) -> None:
        page.locator("#content h1").click()
        expect(menu).to_be_hidden()

    @pytest.mark.own_script
    def test_a_click_inside_does_not(self, page: Any, menu: Any) -> None:
        page.locator(".chatmemory-tools > div").click(position={"x": 2, "y": 2})
        expect(menu).to_be_visible()

    @pytest.mark.own_script
    def test_they_close_when_the_focus_leaves_them(self, page: Any, menu: Any) -> None:
        page.locator(".chatmemory-tools a").last.focus()
        page.keyboard.press("Tab")
        expect(menu).to_be_hidden()

    def test_where_there_is_room_the_pages_stand_beside_them(self, page: Any) -> None:
        page.get_by_text("Actions", exact=True).click()
        expect(page.get_by_role("link", name="Window", exact=True)).to_have_count(1)
        page.get_by_role("link", name="Window", exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Window")

    # At 360 pixels the menu has a row of its own, at 390 it stands at the end of one.
    @pytest.mark.parametrize("width", [360, 390, 600])
    def test_on_a_phone_all_is_one_menu(self, page: Any, width: int) -> None:
        page.set_viewport_size({"width": width, "height": PHONE["height"]})
        erase = page.get_by_role("link", name="Erase")
        expect(erase).to_be_hidden()
        expect(page.get_by_role("link", name="Window", exact=True)).to_have_count(0)
        page.get_by_text("Actions", exact=True).click()
        expect(erase).to_be_visible()
        expect(page.get_by_role("link", name="Window", exact=True)).to_have_count(1)
        page.get_by_text("Export", exact=True).click()
        export = page.get_by_role("link", name="Export JSON lines")
        expect(export).to_be_in_viewport(ratio=1)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        export.focus()
        page.keyboard.press("Escape")
        expect(export).to_be_hidden()
        expect(erase).to_be_visible()
        page.keyboard.press("Escape")
        expect(erase).to_be_hidden()


class TestDashboard:
    @pytest.fixture
    def page(self, signed_in: Any) -> Any:
        conversation = Conversation.objects.create(title="C")
        conversation.memory.add(*(UserMessage("hello") for _ in range(4)))
        conversation.messages.filter(position=0).update(created_at=timezone.now() - timedelta(days=2))
        page = signed_in(viewport=WIDE)
        page.goto("/admin/chatmemory/")
        return page

    @pytest.fixture
    def value(self, page: Any) -> Any:
        """What the chart of tokens says of one day."""
        return page.locator(".chatmemory-chart [data-chatmemory-value]").last

    @pytest.mark.own_script
    def test_a_bar_tells_its_number_when_it_is_pointed_at(self, page: Any, value: Any) -> None:
        expect(value).to_have_text("peak 15")
        page.locator(".chatmemory-chart").last.locator(".chatmemory-column").nth(-2).hover()
        expect(value).to_contain_text(": 0 tokens")
        page.locator("#content h1").hover()
        expect(value).to_have_text("peak 15")

    @pytest.mark.own_script
    def test_bars_are_one_stop_of_the_keyboard_and_arrows_move_in_them(self, page: Any, value: Any) -> None:
        page.locator(".chatmemory-periods a").last.focus()
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        expect(value).to_contain_text(": 15 tokens")
        page.keyboard.press("ArrowLeft")
        expect(value).to_contain_text(": 5 tokens")
        page.keyboard.press("ArrowLeft")
        expect(value).to_contain_text(": 5 tokens")
        page.keyboard.press("End")
        expect(value).to_contain_text(": 15 tokens")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.innerText") == "As a table"
        expect(value).to_have_text("peak 15")

    @pytest.mark.own_script
    def test_a_chart_does_not_tell_the_number_of_another(self, page: Any, value: Any) -> None:
        page.locator(".chatmemory-chart").first.locator("a.chatmemory-column").last.focus()
        page.locator(".chatmemory-chart").last.locator(".chatmemory-column").nth(-2).hover()
        expect(value).to_contain_text(": 0 tokens")
        page.locator("#content h1").hover()
        expect(value).to_have_text("peak 15")

    @pytest.mark.own_script
    def test_a_bar_leads_to_its_messages(self, page: Any, value: Any) -> None:
        page.locator("a.chatmemory-column").last.focus()
        page.keyboard.press("ArrowLeft")
        with page.expect_navigation():
            page.keyboard.press("Enter")
        assert page.locator("#result_list tbody tr").count() == 1

    def test_it_has_the_whole_width(self, page: Any) -> None:
        assert page.locator(".chatmemory-dashboard").bounding_box()["width"] > 0.9 * WIDE["width"]
