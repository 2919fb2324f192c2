"""Answers that are stopped at any moment, in a real browser: what was read is what is stored.

``CHATMEMORY_TEST_EXAMPLES`` is the number of moments.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from chatmemory import AiMessage, ChatMessage, ToolExecutionRequest, ToolExecutionResultMessage
from chatmemory.assistant import Thinking
from chatmemory.models import Conversation
from chatmemory.verification import verify
from tests.chat.test_panel_browser import bubbles, conversation, open_page, part, said, say  # noqa: F401
from tests.support.assistants import Speaker, choose
from tests.support.browser import browser_thread, chromium, expect, new_page, no_double_click, wait_until  # noqa: F401

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

_MOMENTS = int(os.environ.get("CHATMEMORY_TEST_EXAMPLES", "4"))
_WORDS = ["The", "**old**", "keeper", "counted", "*seven*", "ships", "and", "wrote", "`their`", "names", "down"]

# In one step, so that no word comes in between.
_STOP = """at => {
    if (performance.now() < at) return false;
    const answering = document.querySelector("[data-part='answering']");
    window.read = answering.querySelector(".chatmemory-markdown")?.textContent.trim() ?? "";
    document.querySelector("[data-part='stop']").click();
    return true;
}"""


class Storyteller:
    """Thinks, looks something up, thinks again, and tells a story that lasts too long; each of it at its own pace."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def speak(self, messages: Sequence[ChatMessage]) -> Iterator[Any]:
        pace = self._chance.choice([0.0005, 0.002, 0.02])
        for word in ["An", " order", "?"] * self._chance.choice([0, 1, 30]):
            yield Thinking(word)
            time.sleep(pace)
        has_looked = isinstance(messages[-1], ToolExecutionResultMessage)
        text = ""
        for number in range(6000 if has_looked else self._chance.choice([0, 3, 40])):
            word = f"{_WORDS[number % len(_WORDS)]} "
            text += word
            yield word
            time.sleep(pace)
        yield AiMessage(text, [] if has_looked else [ToolExecutionRequest("1", "look_up", '{"number": "7"}')])


@pytest.fixture
def chance() -> Iterator[random.Random]:
    chance = random.Random(35)
    choose(Speaker(Storyteller(chance).speak))
    yield chance
    choose(None)


def without_marks(text: str) -> str:
    """Return a text of the storyteller as a page shows it."""
    return re.sub(r"[*`]", "", text)


def test_what_was_read_is_what_is_stored(
    open_page: Callable[..., Any],  # noqa: F811
    conversation: Conversation,  # noqa: F811
    chance: random.Random,
) -> None:
    conversation.memory.set_window(limit=30)
    page = open_page(f"/plain/{conversation.pk}/")
    last = page.locator("[data-part='history'] li").last
    for moment in range(_MOMENTS):
        say(page, f"Story {moment}")
        no_double_click(page)
        wait_until(page, _STOP, page.evaluate("performance.now()") + chance.uniform(0, 600))
        read = page.evaluate("window.read")
        page.get_by_role("button", name="Send").wait_for()
        *_, question = conversation.messages.history().filter(type="USER")
        rows = list(conversation.messages.history().filter(type="AI", position__gt=question.position))
        # What was read may be the text before a call, which the page shows until it hears of the call.
        assert not read or any(without_marks(row.text).startswith(read) for row in rows), (moment, read)
        answer = rows[-1].message if rows else None
        if isinstance(answer, AiMessage) and answer.is_stopped:
            assert answer == AiMessage(answer.text, attributes={"stopped": True})
            expect(last.locator(".chatmemory-answer")).to_have_text(without_marks(answer.text).strip())
            expect(last.get_by_text("Stopped", exact=True)).to_be_visible()
            expect(part(page, "turn-notice")).to_be_hidden()
        else:  # it thought, or ran a tool
            expect(part(page, "turn-notice")).to_contain_text("Stopped.")
    shown = last.text_content()
    page.reload()
    expect(last).to_have_text(shown)
    assert list(verify()) == []
