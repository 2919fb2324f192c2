"""Rows of messages in a real browser."""

from __future__ import annotations

from typing import Any

import pytest

from chatmemory import (
    AiMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.models import Conversation
from tests.admin.test_browser import PHONE, WIDE, signed_in  # noqa: F401
from tests.support.browser import Pages, axe_violations, browser_thread, chromium, expect, new_page  # noqa: F401
from tests.support.factories import ConversationFactory

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

MARKDOWN = "# Tea\n\nis **good**\n\n- green\n- black\n\n```python\nprint('tea')\n```\n\n|a|b|\n|-|-|\n|1|2|\n"
EVIL = '<img src=x onerror="alert(1)"> [x](javascript:alert(1)) ![y](https://evil.example/pixel.png)'


@pytest.fixture
def conversation() -> Conversation:
    """A question, a call and its failed result that left, before messages in Markdown that stay."""
    made: Conversation = ConversationFactory(window="messages", limit=4)
    call = AiMessage("Let me **look**.", [ToolExecutionRequest("c1", "search_web", '{"query": "**tea**", "page": 2}')])
    made.memory.add(UserMessage("Which tea?", name="theo"), call)
    made.memory.add(ToolExecutionResultMessage("c1", "search_web", "**nothing** found", is_error=True))
    made.memory.add(UserMessage(EVIL), AiMessage(MARKDOWN), UserMessage("thanks"))
    made.memory.add(ToolExecutionResultMessage("c2", "search_web", "**bold** result"))
    made.memory.set([SystemMessage("Be **kind**."), *made.memory.messages()[1:]])
    made.refresh_from_db()
    return made


def history(made: Conversation) -> str:
    return f"/admin/chatmemory/conversation/{made.pk}/change/?position=0"


def unfold(page: Any) -> None:
    page.evaluate("() => document.querySelectorAll('.chatmemory-folded').forEach((row) => { row.open = true; })")


class TestMarkdown:
    @pytest.mark.own_script
    def test_is_drawn_while_the_button_is_pressed(self, signed_in: Any, conversation: Conversation) -> None:  # noqa: F811
        page = signed_in(viewport=WIDE)
        page.goto(history(conversation))
        answer = page.locator("#message-4 ~ .chatmemory-text")
        expect(answer).to_have_text(MARKDOWN.strip(), use_inner_text=True)
        button = page.get_by_role("button", name="Markdown")
        expect(button).to_have_attribute("aria-pressed", "false")
        button.click()
        expect(button).to_have_attribute("aria-pressed", "true")
        expect(answer.locator("strong")).to_have_text("good")
        expect(answer.locator("li")).to_have_count(2)
        expect(answer.locator("pre code")).to_have_text("print('tea')")
        expect(page.locator("#message-2 ~ .chatmemory-text")).to_have_text("**nothing** found")
        expect(page.locator("#message-6 ~ .chatmemory-text")).to_have_text("**bold** result")
        button.click()
        expect(answer).to_have_text(MARKDOWN.strip(), use_inner_text=True)
        expect(answer.locator("strong")).to_have_count(0)

    @pytest.mark.own_script
    def test_is_remembered(self, signed_in: Any, conversation: Conversation) -> None:  # noqa: F811
        page = signed_in(viewport=WIDE)
        page.goto(history(conversation))
        page.get_by_role("button", name="Markdown").click()
        page.reload()
        expect(page.locator("#message-4 ~ .chatmemory-text strong")).to_have_count(1)
        page.get_by_role("button", name="Markdown").click()
        page.reload()
        expect(page.get_by_role("button", name="Markdown")).to_have_attribute("aria-pressed", "false")
        expect(page.locator("#message-4 ~ .chatmemory-text strong")).to_have_count(0)

    @pytest.mark.own_script
    def test_the_keyboard_presses_it(self, signed_in: Any, conversation: Conversation) -> None:  # noqa: F811
        page = signed_in(viewport=WIDE)
        page.goto(history(conversation))
        button = page.get_by_role("button", name="Markdown")
        button.focus()
        page.keyboard.press("Space")
        expect(button).to_have_attribute("aria-pressed", "true")

    @pytest.mark.own_script
    def test_arguments_stay_as_they_are(self, signed_in: Any, conversation: Conversation) -> None:  # noqa: F811
        page = signed_in(viewport=WIDE)
        page.goto(history(conversation) + "#message-1")
        page.get_by_role("button", name="Markdown").click()
        expect(page.locator("#message-1 ~ .chatmemory-text strong")).to_have_text("look")
        page.get_by_text("Arguments as JSON").click()
        expect(page.locator(".chatmemory-json")).to_contain_text('"query": "**tea**"')

    @pytest.mark.own_script
    def test_nothing_runs_and_nothing_is_fetched(
        self,
        signed_in: Any,  # noqa: F811
        conversation: Conversation,
        new_page: Pages,  # noqa: F811
        live_server: Any,
    ) -> None:
        page = signed_in(viewport=WIDE)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(history(conversation))
        unfold(page)
        page.get_by_role("button", name="Markdown").click()
        text = page.locator("#message-3 ~ .chatmemory-text")
        expect(text.get_by_role("link")).to_have_text(["y"])
        expect(text.locator("img")).to_have_count(0)
        assert new_page.problems == []
        assert [url for url in asked if not url.startswith((live_server.url, "data:"))] == []

    @pytest.mark.own_script
    def test_without_scripts_there_is_no_button(self, signed_in: Any, conversation: Conversation) -> None:  # noqa: F811
        page = signed_in(viewport=WIDE, java_script_enabled=False)
        page.goto(history(conversation))
        expect(page.locator("#message-4 ~ .chatmemory-text")).to_be_visible()
        expect(page.get_by_role("button", name="Markdown")).to_have_count(0)
        expect(page.locator(".chatmemory-look")).to_be_hidden()

    @pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
    def test_is_accessible_with_every_row_open(
        self,
        signed_in: Any,  # noqa: F811
        conversation: Conversation,
        viewport: Any,
    ) -> None:
        page = signed_in(viewport=viewport, bypass_csp=True)
        page.goto(history(conversation))
        page.get_by_role("button", name="Markdown").click()
        page.evaluate("() => document.querySelectorAll('ol details').forEach((each) => { each.open = true; })")
        assert axe_violations(page, runOnly=["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]


class TestFolded:
    def test_says_what_it_is(self, signed_in: Any, conversation: Conversation) -> None:  # noqa: F811
        page = signed_in(viewport=WIDE)
        page.goto(history(conversation))
        lines = page.locator(".chatmemory-folded > summary")
        expect(lines.nth(1)).to_contain_text('search_web(query="**tea**", page=2)')
        expect(lines.nth(2)).to_contain_text("search_web error")
        expect(lines.nth(1).locator(".chatmemory-why")).to_be_in_viewport()

    def test_open_it_says_everything_once(self, signed_in: Any, conversation: Conversation) -> None:  # noqa: F811
        page = signed_in(viewport=WIDE)
        page.goto(history(conversation))
        unfold(page)
        row = page.locator(".chatmemory-folded").first
        said = row.inner_text()
        assert [said.count(piece) for piece in ("Which tea?", "pushed out by", "tokens")] == [1, 1, 1]

    @pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
    def test_its_line_shows_the_beginning(self, signed_in: Any, conversation: Conversation, viewport: Any) -> None:  # noqa: F811
        page = signed_in(viewport=viewport)
        page.goto(history(conversation))
        for excerpt in page.locator(".chatmemory-excerpt").all():
            is_whole = excerpt.evaluate("excerpt => excerpt.scrollWidth <= excerpt.clientWidth")
            assert is_whole or excerpt.bounding_box()["width"] > 200

    def test_without_colours_it_can_still_be_told(self, signed_in: Any, conversation: Conversation) -> None:  # noqa: F811
        page = signed_in(viewport=WIDE)
        page.goto(history(conversation))
        unfold(page)

        def edge(position: int) -> Any:
            return page.evaluate(
                "position => getComputedStyle(document.getElementById(`message-${position}`).parentElement)"
                ".borderInlineStartStyle",
                position,
            )

        system = conversation.messages.get(type="SYSTEM").position
        assert [edge(position) for position in (0, 1, 4, system)] == ["dotted", "dotted", "solid", "double"]

    def test_from_right_to_left_an_english_text_is_cut_at_its_end(
        self,
        signed_in: Any,  # noqa: F811
        settings: Any,
    ) -> None:
        settings.LANGUAGE_CODE = "ar"
        made = ConversationFactory(window="messages", limit=1)
        made.memory.add(UserMessage("The beginning " + "and more " * 100), UserMessage("next"))
        page = signed_in(viewport=PHONE)
        page.goto(history(made))
        excerpt = page.locator(".chatmemory-excerpt")
        assert excerpt.evaluate("excerpt => getComputedStyle(excerpt).direction") == "ltr"
        assert excerpt.evaluate("excerpt => excerpt.scrollWidth > excerpt.clientWidth")
