"""What stands at the messages of a chat, and how one gets back to its end, in a real browser."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from chatmemory import AiMessage, SystemMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.models import Conversation, Message
from tests.chat.test_panel_browser import (  # noqa: F401
    PHONE,
    WIDE,
    answered,
    conversation,
    open_page,
    part,
    say,
    speak,
)
from tests.support.browser import (  # noqa: F401
    Pages,
    axe_violations,
    browser_thread,
    chromium,
    expect,
    new_page,
    time_stands_still,
)

# ruff: noqa: F811 (fixtures of another module)

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

CLIPBOARD = ["clipboard-read", "clipboard-write"]

ANSWER = r"""# Tea

- [x] **Order** it
- [ ] Brew
  1. heat
  2. pour \(a_1\)

> wait<br>

| Tea | Price |
| - | - |
| Sencha | 7 |

```python
print(1)
```
"""

PLAIN = r"""Tea

- [x] Order it
- [ ] Brew
  1. heat
  2. pour \(a_1\)

wait<br>

Tea	Price
Sencha	7

print(1)"""

HOSTILE = (
    '{"big": 12345678901234567890, "again": 1, "again": 2, "none": {},'
    ' "list": [1, "\\u8336<img src=x onerror=alert(1)>"], "turned": "\\u202eevil"}'
)

OPENED = """{
  "big": 12345678901234567890,
  "again": 1,
  "again": 2,
  "none": {},
  "list": [
    1,
    "茶<img src=x onerror=alert(1)>"
  ],
  "turned": "\\u202eevil"
}"""


def entry(page: Any, position: int) -> Any:
    return page.locator(f"[data-part='history'] > [data-position='{position}']")


def clipboard(page: Any) -> str:
    text: str = page.evaluate("navigator.clipboard.readText()")
    return text


@pytest.mark.parametrize("way", ["clipboard", "selection"])
def test_an_answer_is_copied_as_text_and_as_markdown(
    open_page: Callable[..., Any], conversation: Conversation, new_page: Pages, way: str
) -> None:
    plain = "  Nothing.\nElse. "
    conversation.memory.add(UserMessage("Tea?"), AiMessage(ANSWER), UserMessage("And?"), AiMessage(plain))
    page = open_page(f"/plain/{conversation.pk}/", permissions=CLIPBOARD)
    if way == "selection":  # what pages get that came over plain HTTP
        page.evaluate("delete Navigator.prototype.clipboard")
    copied = []
    with time_stands_still(page):
        for position, name in [(1, "Copy text"), (1, "Copy Markdown"), (3, "Copy text")]:
            button = entry(page, position).locator(".chatmemory-footer").get_by_role("button", name=name, exact=True)
            button.press("Enter")
            expect(button).to_have_count(0)
            said = entry(page, position).locator(".chatmemory-footer").get_by_role("button", name="Copied")
            expect(said.last).to_be_focused()
            expect(said.last.locator("[aria-live=polite]")).to_have_text("Copied")
            copied.append(clipboard(page) if way == "clipboard" else read_elsewhere(page))
    assert copied == [PLAIN, ANSWER, plain]
    expect(entry(page, 1).get_by_role("button", name="Copied")).to_have_count(0)
    expect(entry(page, 3).get_by_role("button", name="Copy Markdown")).to_have_count(0)
    assert page.locator("textarea").count() == 1
    assert new_page.problems == []


def read_elsewhere(page: Any) -> str:
    """The clipboard, as another page reads it that has one."""
    with page.context.new_page() as other:
        other.goto("/markdown/")
        text = clipboard(other)
    page.bring_to_front()
    return text


def test_each_message_has_its_time(open_page: Callable[..., Any], conversation: Conversation, settings: Any) -> None:
    conversation.memory.add(SystemMessage("Rules"), UserMessage("Hello"))
    conversation.memory.add(AiMessage(None, [ToolExecutionRequest("1", "look_up", '{"number": "7"}')]))
    conversation.memory.add(ToolExecutionResultMessage("1", "look_up", "order 7"), AiMessage("On its way."))
    moment = datetime(2024, 2, 3, 23, 30, tzinfo=UTC)
    Message.objects.update(created_at=moment)
    page = open_page(f"/plain/{conversation.pk}/", timezone_id="Asia/Tokyo")
    times = page.locator("[data-part='history'] > li:visible time")
    expect(times).to_have_text(["Feb 4, 2024, 8:30 AM"] * 5)
    assert datetime.fromisoformat(times.first.get_attribute("datetime")) == moment
    assert "Sunday, February 4, 2024" in times.first.get_attribute("title")
    opacity = "time => Number(getComputedStyle(time).opacity)"
    page.mouse.move(0, 0)
    assert entry(page, 1).locator("time").evaluate(opacity) == 0
    entry(page, 1).hover()
    assert entry(page, 1).locator("time").evaluate(opacity) == 1
    page.mouse.move(0, 0)
    assert entry(page, 4).locator("time").evaluate(opacity) == 0
    entry(page, 4).get_by_role("button", name="Copy text").focus()
    assert entry(page, 4).locator("time").evaluate(opacity) == 1
    settings.LANGUAGE_CODE = "ja"
    phone = open_page(f"/plain/{conversation.pk}/", timezone_id="UTC", has_touch=True, is_mobile=True, viewport=PHONE)
    expect(entry(phone, 4).locator("time")).to_have_text("2024年2月3日 23:30")
    assert entry(phone, 4).locator("time").evaluate(opacity) == 1


def test_the_arguments_of_a_call_are_folded_and_inert(
    open_page: Callable[..., Any], conversation: Conversation, new_page: Pages
) -> None:
    calls = [
        ToolExecutionRequest("1", "look_up", HOSTILE),
        ToolExecutionRequest("2", "now", "{}"),
        ToolExecutionRequest("3", "broken", '{"a": <b>'),
        ToolExecutionRequest("4", "long", '{"text": "' + "word " * 2000 + '"}'),
    ]
    conversation.memory.add(UserMessage("Look."), AiMessage(None, calls))
    page = open_page(f"/panel/{conversation.pk}/", bypass_csp=True, reduced_motion="reduce")
    for place in (entry(page, 1), page.locator("[data-part='retained'] [data-position='1']")):
        expect(place.locator(".chatmemory-call")).to_have_count(4)
        expect(place.get_by_text("calls now()")).to_be_visible()
        expect(place.locator(".chatmemory-call").first).to_contain_text(", \\u202eevil)")
        looks = "code => [getComputedStyle(code).direction, code.scrollWidth > code.clientWidth]"
        assert place.locator(".chatmemory-call code").last.evaluate(looks) == ["ltr", True]
        shown = place.get_by_role("group", name="Arguments")
        expect(shown).to_have_count(0)  # they are hidden
        for summary in place.locator("summary").all():
            summary.press("Enter")
        expect(shown).to_have_count(3)
        assert shown.nth(0).text_content() == OPENED
        assert shown.nth(1).text_content() == '{"a": <b>'
        assert shown.nth(2).evaluate("box => box.scrollHeight > box.clientHeight && box.clientHeight <= 240")
        assert place.locator("img, b").count() == 0
    assert axe_violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") == WIDE["width"]
    assert new_page.problems == []


def test_a_button_leads_back_to_the_newest(
    open_page: Callable[..., Any], conversation: Conversation, speak: Callable[..., None]
) -> None:
    conversation.memory.add(*(AiMessage(f"Line {number}. " * 30) for number in range(20)))
    go_on = threading.Event()
    page = open_page(f"/plain/{conversation.pk}/", reduced_motion="reduce", bypass_csp=True)
    newest, scroller = part(page, "newest"), part(page, "scroller")
    expect(newest).to_be_hidden()
    is_at_end = "box => box.scrollHeight - box.scrollTop - box.clientHeight < 2"
    speak("Once ", "upon ", "a time. " * 40, wait_for=go_on)
    say(page, "Tell me a story")
    expect(part(page, "answering")).to_contain_text("Once upon")
    scroller.evaluate("box => box.scrollTo(0, 300)")
    expect(newest).to_have_text("To the newest")
    assert axe_violations(page) == []
    go_on.set()
    expect(newest).to_have_text("New words below")
    answered(page, 22)
    assert scroller.evaluate("box => box.scrollTop") == 300
    newest.press("Enter")
    expect(newest).to_be_hidden()
    expect(scroller).to_be_focused()
    assert scroller.evaluate(is_at_end)
    # What is new is new only once.
    scroller.evaluate("box => box.scrollTo(0, 300)")
    expect(newest).to_have_text("To the newest")
    scroller.evaluate("box => box.scrollTo(0, box.scrollHeight)")
    expect(newest).to_be_hidden()


def test_nothing_grows_for_somebody_who_reads_at_the_end(
    open_page: Callable[..., Any], conversation: Conversation, speak: Callable[..., None]
) -> None:
    conversation.memory.add(*(AiMessage(f"Line {number}. " * 30) for number in range(20)))
    page = open_page(f"/plain/{conversation.pk}/", reduced_motion="reduce")
    size = part(page, "scroller").evaluate("box => box.scrollHeight")
    part(page, "scroller").evaluate("box => box.scrollTo(0, 0)")
    expect(part(page, "newest")).to_be_visible()
    assert part(page, "scroller").evaluate("box => box.scrollHeight") == size  # the button takes no room
    speak("Short.")
    say(page, "Hello")
    answered(page, 22)
    expect(part(page, "newest")).to_be_hidden()


def test_a_conversation_without_a_title_is_called_by_its_first_words(
    open_page: Callable[..., Any], conversation: Conversation
) -> None:
    page = open_page(f"/both/{conversation.pk}/")
    heading = page.locator("chatmemory-chat [data-part='title']")
    listed = page.locator("chatmemory-conversations li [data-part='title']")
    expect(heading).to_have_text("Chat")
    say(page, "Which <b>tea</b> is in season?")
    answered(page, 2)
    expect(heading).to_have_text("Which <b>tea</b> is in season?")
    expect(listed).to_have_text("Which <b>tea</b> is in season?")
    page.locator("[data-part='rename']").click()
    expect(page.get_by_label("Title")).to_have_value("")
    page.get_by_label("Title").fill("Tea")
    page.get_by_label("Title").press("Enter")
    expect(heading).to_have_text("Tea")
    page.locator("[data-part='rename']").click()
    page.get_by_label("Title").fill("")
    page.get_by_label("Title").press("Enter")
    for place in (heading, listed):
        expect(place).to_have_text("Which <b>tea</b> is in season?")
    conversation.refresh_from_db()
    assert conversation.title == ""
