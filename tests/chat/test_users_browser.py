"""The panel of users who may only chat: it works, and neither page nor network has the instructions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from chatmemory import AiMessage, ChatMessage, SystemMessage, ToolExecutionRequest, ToolExecutionResultMessage
from chatmemory.models import Conversation
from tests.chat.test_panel_browser import PHONE, WIDE, open_page  # noqa: F401
from tests.support.assistants import Speaker, choose
from tests.support.browser import Pages, axe_violations, browser_thread, chromium, expect, new_page  # noqa: F401
from tests.support.factories import ConversationFactory

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def discreet(messages: Sequence[ChatMessage]) -> Iterator[Any]:
    if isinstance(messages[-1], ToolExecutionResultMessage):
        yield AiMessage("It is on its way.")
    else:
        yield AiMessage(None, [ToolExecutionRequest("1", "look_up", '{"number": "plantedArgument"}')])


@pytest.fixture
def conversation(user: Any, settings: Any) -> Iterator[Conversation]:
    settings.CHATMEMORY = {**settings.CHATMEMORY, "USERS": "turns"}
    choose(Speaker(discreet))
    made: Conversation = ConversationFactory(owner=user, title="Tea", window="messages", limit=20)
    made.memory.add(SystemMessage("plantedSystem"))
    yield made
    choose(None)


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_they_chat_without_the_instructions(
    open_page: Callable[..., Any],  # noqa: F811
    conversation: Conversation,
    viewport: Any,
) -> None:
    page = open_page(f"/panel/{conversation.pk}/", viewport=viewport, bypass_csp=True, reduced_motion="reduce")
    history = page.locator("[data-part=history]")
    page.get_by_label("Message", exact=True).fill("Where is it?")
    page.get_by_role("button", name="Send").click()
    expect(history).to_contain_text("It is on its way.")
    expect(history).to_contain_text("look_up")
    expect(history.locator("[data-type=system]")).to_be_hidden()
    if viewport == PHONE:
        page.get_by_role("tab", name="Memory").click()
    memory = page.locator("[data-part=memory-panel]")
    expect(memory.locator("li.chatmemory-entry[data-type=system]")).to_contain_text("Not shown here")
    expect(memory.locator("[data-part=gauge-amount]")).to_have_text("5 of 20 messages")
    expect(memory.locator("[data-part=limit]")).to_have_count(0)
    expect(page.get_by_role("alert").first).to_be_hidden()
    for word in ("plantedSystem", "plantedArgument"):
        assert word not in page.content()
    assert axe_violations(page) == []


def test_staff_change_the_window(open_page: Callable[..., Any], conversation: Conversation, user: Any) -> None:  # noqa: F811
    user.is_staff = user.is_superuser = True
    user.save()
    page = open_page(f"/panel/{conversation.pk}/")
    expect(page.locator("[data-part=memory-panel]")).to_contain_text("plantedSystem")
    expect(page.locator("[data-part=limit]")).to_have_value("20")
