"""The seconds and tokens at the answers of a chat, in a real browser and under a strict content security policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from chatmemory import AiMessage, ChatMessage, ToolExecutionRequest
from chatmemory.assistant import Answered
from chatmemory.assistant import Usage as Tokens
from chatmemory.contrib.usage.models import Usage
from chatmemory.models import Conversation
from tests.chat.test_panel_browser import WIDE, answered, conversation, open_page, say  # noqa: F401
from tests.support.assistants import Speaker, choose
from tests.support.browser import Pages, axe_violations, browser_thread, chromium, expect, new_page  # noqa: F401

# ruff: noqa: F811 (fixtures of another module)

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def used() -> Iterator[list[Tokens | None]]:
    """What the calls of the model use. It calls a tool, and then answers."""
    usage: list[Tokens | None] = []

    def answer(messages: Sequence[ChatMessage]) -> Iterator[Any]:
        call = AiMessage(None, [ToolExecutionRequest("1", "look_up", '{"number": "7"}')])
        is_asked = messages[-1].type.value == "USER"
        yield Answered(call if is_asked else AiMessage("Sent."), usage.pop(0))

    choose(Speaker(answer))
    yield usage
    choose(None)


def test_an_answer_shows_the_sum_of_its_calls_at_once_and_later(
    open_page: Callable[..., Any], conversation: Conversation, new_page: Pages, used: list[Tokens | None]
) -> None:
    conversation.memory.set_window(limit=100)
    used += [Tokens(input_tokens=1000, output_tokens=20), Tokens(input_tokens=1240, output_tokens=85)]
    used += [Tokens(input_tokens=1), None]
    page = open_page(f"/plain/{conversation.pk}/", bypass_csp=True, reduced_motion="reduce")
    shown = page.locator(".chatmemory-usage:visible")
    say(page, "Where is it?")
    expect(shown).to_contain_text("2,240 + 105 tokens")
    assert [row.position for row in Usage.objects.order_by("position")] == [1, 3]
    say(page, "And now?")
    expect(shown).to_have_count(2)
    expect(shown.last).not_to_contain_text("tokens")  # the second call did not tell
    page.get_by_role("button", name="Send").wait_for()
    Usage.objects.filter(position=1).update(seconds=2)
    Usage.objects.filter(position=3).update(seconds=1.24)
    Usage.objects.filter(position=5).delete()
    page.reload()
    expect(shown).to_have_text("3.2 s · 2,240 + 105 tokens")
    assert axe_violations(page) == []
    assert new_page.problems == []
