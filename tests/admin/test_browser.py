"""The admin's pages in a real browser."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from chatmemory import (
    AiMessage,
    CustomMessage,
    ImageContent,
    SystemMessage,
    TextContent,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.models import Conversation
from tests.support.browser import Pages, axe_violations, browser_thread, chromium, expect, new_page  # noqa: F401
from tests.support.factories import ConversationFactory

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)> \u202egnp.exe " + "Z\u0351\u0343\u0342" * 200
WIDE = {"width": 1400, "height": 900}
PHONE = {"width": 360, "height": 740}


@pytest.fixture
def conversation(settings: Any) -> Conversation:
    """A hundred messages of every kind, of which a window of ten retains the last, behind a summary of the others."""
    settings.CHATMEMORY = {
        **getattr(settings, "CHATMEMORY", {}),
        "SUMMARIZER": "demo_project.chat.summarizer.summarize",
    }
    made = ConversationFactory(title="Tea " + "x" * 200, window="messages", limit=10)
    call = AiMessage(None, [ToolExecutionRequest("1", "look_up", '{"what": "tea", "deep": {"er": [1, 2]}}')])
    made.memory.add(SystemMessage("Be kind."), *(UserMessage(f"question {number}") for number in range(90)))
    made.memory.add(
        UserMessage([TextContent("look"), ImageContent("https://evil.example/pixel.png")]),
        call,
        ToolExecutionResultMessage("1", "look_up", "A leaf."),
        UserMessage(EVIL),
        UserMessage("a" * 400_000),
        CustomMessage({"card": EVIL}),
    )
    made.memory.compact(lambda messages, previous: "They spoke about tea.")
    made.refresh_from_db()
    return made


@pytest.fixture
def signed_in(live_server: Any, admin_user: Any, new_page: Pages) -> Any:  # noqa: F811
    """Opens pages that are signed in."""
    client = Client()
    client.force_login(admin_user)
    cookie = {"name": "sessionid", "value": client.cookies["sessionid"].value, "url": live_server.url}

    def open_page(**options: Any) -> Any:
        page = new_page(base_url=live_server.url, **options)
        page.context.add_cookies([cookie])
        return page

    return open_page


def addresses(conversation: Conversation) -> list[str]:
    base = f"/admin/chatmemory/conversation/{conversation.pk}"
    return [
        "/admin/chatmemory/",
        "/admin/chatmemory/conversation/",
        "/admin/chatmemory/message/",
        f"{base}/change/",
        f"{base}/change/?view=history",
        f"{base}/change/?position=0",
        f"{base}/memory/?version=1",
        f"{base}/window/?1-window=messages&1-limit=5",
        f"{base}/window/?1-window=messages&1-limit=0&1-low_water=0",
        f"{base}/window/",
        f"{base}/clear-tool-results/?keep=0",
        f"{base}/compact/?keep=0",
        f"{base}/clear/",
        f"{base}/delete/",
        f"{base}/history/",
        "/admin/chatmemory/?period=12-months",
    ]


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_every_page_is_accessible(signed_in: Any, conversation: Conversation, viewport: Any) -> None:
    page = signed_in(viewport=viewport, bypass_csp=True)
    found = {}
    for address in addresses(conversation):
        page.goto(address)
        violations = axe_violations(
            page,
            runOnly=["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"],
            rules={"label-title-only": {"enabled": False}},  # the admin's own field to search breaks it
        )
        if violations:
            found[address] = sorted({violation[:300] for violation in violations})
    assert found == {}


def test_a_strict_policy_is_kept_and_nothing_is_fetched(
    signed_in: Any,
    conversation: Conversation,
    new_page: Pages,  # noqa: F811
    live_server: Any,
) -> None:
    page = signed_in(viewport=WIDE)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: new_page.problems.append(dialog.message))
    for address in addresses(conversation):
        page.goto(address)
        folded = page.locator(":is(.chatmemory-group, .chatmemory-folded, .chatmemory-card) > summary")
        folded.evaluate_all("all => all.forEach((each) => each.click())")
    assert new_page.problems == []
    assert [url for url in asked if not url.startswith((live_server.url, "data:"))] == []


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_nothing_makes_a_page_wider_than_the_screen(signed_in: Any, conversation: Conversation, viewport: Any) -> None:
    page = signed_in(viewport=viewport)
    for address in addresses(conversation)[3:]:
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"], address


def test_a_link_to_a_folded_message_opens_it(signed_in: Any, conversation: Conversation) -> None:
    page = signed_in(viewport=WIDE)
    page.goto(f"/admin/chatmemory/conversation/{conversation.pk}/change/?position=7#message-7")
    expect(page.locator("#message-7")).to_be_visible()
    expect(page.locator("#message-8")).to_be_hidden()


def test_going_to_a_position_opens_it(signed_in: Any, conversation: Conversation) -> None:
    page = signed_in(viewport=WIDE)
    page.goto(f"/admin/chatmemory/conversation/{conversation.pk}/change/?view=history")
    page.get_by_label("Go to position").fill("17")
    page.get_by_role("button", name="Go", exact=True).click()
    expect(page.locator("#message-17")).to_be_visible()
    expect(page.locator("#message-17")).to_be_in_viewport()


def test_a_long_message_can_be_had_whole(signed_in: Any, conversation: Conversation) -> None:
    page = signed_in(viewport=WIDE)
    page.goto(f"/admin/chatmemory/conversation/{conversation.pk}/window/?1-window=messages&1-limit=3")
    page.get_by_role("link", name="Show the whole message").click()
    expect(page.locator("#message-95")).to_be_in_viewport()
    assert len(page.locator("#message-95 ~ .chatmemory-text").inner_text()) == 400_000


def test_with_the_keyboard_alone(signed_in: Any, conversation: Conversation) -> None:
    """From a conversation to a changed window: each step by keys, with the focus seen."""
    page = signed_in(viewport=WIDE)
    page.goto(f"/admin/chatmemory/conversation/{conversation.pk}/change/")

    def press_on(text: str) -> None:
        for _ in range(200):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.innerText || document.activeElement.value || ''").strip() == text:
                assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle !== 'none'"), text
                with page.expect_navigation():
                    page.keyboard.press("Enter")
                return
        raise AssertionError(f"no key leads to {text!r}")

    press_on("Window")
    page.locator("#id_1-limit").focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("4")
    press_on("Try")
    expect(page.locator("#chatmemory-outcome")).to_contain_text("4 would stay")
    press_on("Apply this window")
    expect(page.locator(".messagelist")).to_contain_text("1 message was evicted")
    assert conversation.messages.retained().count() == 4


def test_acting_on_a_conversation(signed_in: Any, conversation: Conversation) -> None:
    page = signed_in(viewport=WIDE)
    address = f"/admin/chatmemory/conversation/{conversation.pk}/change/"
    for name, suffix in (("Export JSON lines", ".jsonl"), ("Export for LangChain4j", "-langchain4j.json")):
        page.goto(address)
        page.get_by_text("Actions", exact=True).click()
        page.get_by_text("Export", exact=True).click()
        with page.expect_download() as download:
            page.get_by_role("link", name=name).click()
        assert download.value.suggested_filename.endswith(suffix)
    page.get_by_role("link", name="Clear memory").click()
    page.get_by_role("button", name="Yes, clear it").click()
    expect(page.locator(".messagelist")).to_contain_text("5 messages were evicted")
    expect(page.locator("#memory")).to_contain_text("The memory is empty")
    page.get_by_text("Actions", exact=True).click()
    expect(page.get_by_role("link", name="Clear memory")).to_have_count(0)  # there is nothing to clear
    page.get_by_role("link", name="Admin log").click()
    expect(page.locator("#change-history")).to_contain_text("The memory was cleared")
    page.goto(address)
    page.get_by_text("Actions", exact=True).click()
    page.get_by_role("link", name="Erase").click()
    page.get_by_role("button", name="Yes, erase it").click()
    expect(page.locator("#changelist")).to_be_visible()
    assert not Conversation.objects.exists()


def test_finding_messages(signed_in: Any, conversation: Conversation) -> None:
    page = signed_in(viewport=WIDE)
    page.goto("/admin/chatmemory/message/")
    page.fill("#searchbar", "question 42")
    page.keyboard.press("Enter")
    page.locator("#result_list tbody th a").click()
    expect(page.locator("#message-43")).to_be_visible()
    expect(page.locator("#message-43 + .chatmemory-text")).to_have_text("question 42")


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_from_right_to_left(signed_in: Any, conversation: Conversation, viewport: Any, settings: Any) -> None:
    settings.LANGUAGE_CODE = "ar"
    page = signed_in(viewport=viewport)
    for address in addresses(conversation):
        page.goto(address)
        assert page.evaluate("document.documentElement.dir") == "rtl"
        if "chatmemory/conversation/" in address and "change" in address:
            assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"], address
