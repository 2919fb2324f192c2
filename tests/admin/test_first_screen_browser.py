"""The first screen of a conversation answers what the model knows, what it forgot last, why and when, and what it had
when it wrote its last answer, in a real browser."""

# ruff: noqa: F811

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone
from django.utils.formats import time_format

from chatmemory import (
    AiMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.models import Conversation
from tests.admin.test_browser import signed_in  # noqa: F401
from tests.support.browser import axe_violations, browser_thread, chromium, expect, new_page  # noqa: F401
from tests.support.factories import ConversationFactory

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

WIDE = {"width": 1372, "height": 882}
PHONE = {"width": 390, "height": 844}

_LONG = "Order B-20931 left the warehouse on Monday, and it should be with you in two days at the latest. " * 9

# Whole on the screen, and not behind a fold, a scroll bar or another element.
SEEN = """element => {
    const box = element.getBoundingClientRect();
    const top = document.elementFromPoint((box.left + box.right) / 2, (box.top + box.bottom) / 2);
    const isWhole = box.width > 0 && box.top >= 0 && box.bottom <= innerHeight;
    return isWhole && (element.contains(top) || top.contains(element));
}"""


def talk(*texts: str) -> list[UserMessage | AiMessage]:
    """Turns of the user and the model."""
    return [kind(text) for text in texts for kind in (UserMessage, AiMessage)]


def short() -> Conversation:
    made: Conversation = ConversationFactory(title="Short", window="messages", limit=6)
    for message in (SystemMessage("Be kind."), *talk("m0", "m1", "m2", "m3")):
        made.memory.add(message)
    return made


def long() -> Conversation:
    made: Conversation = ConversationFactory(title="Long", window="messages", limit=40)
    made.memory.add(SystemMessage(_LONG))
    for message in talk(*(f"{_LONG}\n\n{_LONG}\nmessage {number}" for number in range(60))):
        made.memory.add(message)
    return made


def summarised() -> Conversation:
    made: Conversation = ConversationFactory(title="Summarised " + "and so on " * 8, window="messages", limit=12)
    made.memory.add(SystemMessage(_LONG), *talk(*(f"{_LONG} {number}" for number in range(14))))
    made.memory.pin(made.messages.retained().last().position)
    made.memory.compact(lambda messages, previous: _LONG * 4)
    return made


def with_tools() -> Conversation:
    made: Conversation = ConversationFactory(title="Tools", window="messages", limit=30)
    for number in range(4):
        made.memory.add(
            UserMessage("Look it up."),
            AiMessage(None, [ToolExecutionRequest(f"{number}", "look_up", '{"what": "tea"}')]),
            ToolExecutionResultMessage(f"{number}", "look_up", _LONG * 3),
            AiMessage(f"It is a leaf. {_LONG}"),
        )
    made.memory.clear_tool_results(keep=1)
    return made


@pytest.fixture
def opened(signed_in: Any) -> Any:
    def open_page(conversation: Conversation, query: str = "change/", **options: Any) -> Any:
        page = signed_in(**options)
        page.goto(f"/admin/chatmemory/conversation/{conversation.pk}/{query}")
        return page

    return open_page


@pytest.mark.parametrize("made", [short, long, summarised, with_tools])
def test_it_answers_all_five_questions(opened: Any, made: Any) -> None:
    conversation = made()
    page = opened(conversation, viewport=WIDE)
    rows = page.locator("#memory .chatmemory-messages > li").all()
    seen = [row.evaluate(SEEN) for row in rows[:3]]
    assert seen == [True, True, True], [row.bounding_box() for row in rows[:3]]
    forgotten = page.locator(".chatmemory-evicted-last .chatmemory-group > summary").first
    last = conversation.messages.evicted().order_by("-evicted_in", "-memory_order")[0]
    words, why = forgotten.locator(".chatmemory-group-last"), forgotten.locator(".chatmemory-group-why")
    assert words.evaluate(SEEN)
    assert why.evaluate(SEEN)
    assert words.inner_text().startswith(f"{last.position} ")
    assert last.text[:30] in words.inner_text()
    moment = timezone.localtime(last.evicted_at)
    assert time_format(moment.time()) in why.locator("time").inner_text()
    answer = conversation.messages.filter(type="AI", origin="said").exclude(text="").last()
    link = page.locator("#chatmemory-last-answer + div").get_by_role("link", name="What the model had")
    assert link.evaluate(SEEN)
    with page.expect_navigation():
        link.click()
    assert page.url.endswith(f"?answer={answer.position}")


def test_on_a_phone_the_link_comes_before_what_the_model_has_no_longer(opened: Any) -> None:
    page = opened(long(), viewport=PHONE)
    link = page.locator("#chatmemory-last-answer + div").get_by_role("link", name="What the model had")
    forgotten = page.locator(".chatmemory-evicted-last .chatmemory-group > summary").first
    assert link.evaluate(SEEN)
    assert forgotten.evaluate(SEEN)
    assert link.bounding_box()["y"] < page.locator("#chatmemory-evicted-last").bounding_box()["y"]
    assert page.locator("#chatmemory-now").evaluate(SEEN)
    page.goto(link.get_attribute("href"))
    had, had_not = (page.locator(f"#chatmemory-{name}").bounding_box()["y"] for name in ("memory", "gone"))
    assert had < had_not
    assert had < PHONE["height"] / 2
    page.get_by_role("link", name="What it had no longer").click()
    expect(page.locator("#chatmemory-gone")).to_be_in_viewport()


def test_buttons_are_one_row_of_one_height(opened: Any) -> None:
    page = opened(summarised(), viewport=WIDE)
    found = (".chatmemory-switch ul", ".chatmemory-toggle", ".chatmemory-buttons a", ".chatmemory-tools > summary")
    buttons = page.locator(".chatmemory-head").locator(", ".join(found))
    boxes = [button.bounding_box() for button in buttons.all()]
    assert len(boxes) == 5
    assert [box["y"] for box in boxes] == pytest.approx([boxes[0]["y"]] * 5, abs=0.5)
    assert [box["height"] for box in boxes] == pytest.approx([boxes[0]["height"]] * 5, abs=0.5)


def test_a_long_message_shows_more_when_it_has_the_focus(opened: Any) -> None:
    page = opened(long(), viewport=WIDE)
    text = page.locator("#memory .chatmemory-message-clipped .chatmemory-text").first
    before = text.bounding_box()["height"]
    text.click()
    assert text.bounding_box()["height"] > 2 * before


@pytest.mark.own_script
def test_what_the_bars_mean_is_said_on_demand(opened: Any) -> None:
    page = opened(short(), viewport=WIDE, bypass_csp=True)
    key = page.locator(".chatmemory-key-retained")
    expect(key).to_be_hidden()
    page.locator(".chatmemory-legend > summary").click()
    expect(key).to_be_visible()
    assert axe_violations(page, runOnly=["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]) == []
    page.keyboard.press("Escape")
    expect(key).to_be_hidden()
    assert page.locator(".chatmemory-strip .chatmemory-scale").inner_text().split()[-1] == "0"
