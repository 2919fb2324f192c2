"""``conversation.messages`` and its rows: in the order said, and neither added nor deleted by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.template import Context, Template

from chatmemory import (
    AiMessage,
    ChatMessage,
    CustomMessage,
    ImageContent,
    SystemMessage,
    TextContent,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.models import Conversation, Message
from chatmemory.verification import verify
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db

SAID = UserMessage("Hi")


@pytest.fixture
def conversation() -> Conversation:
    made = ConversationFactory(window="messages", limit=3)
    made.memory.add(*(UserMessage(str(number)) for number in range(5)))
    return made


def test_they_come_in_the_order_said(conversation: Conversation) -> None:
    # Rows that are written anew are elsewhere in the table, so the database returns them last.
    first = list(conversation.messages.all())[:2]
    Message.objects.filter(pk__in=[row.pk for row in first]).delete()
    for row in first:
        row.pk = None
    Message.objects.bulk_create(reversed(first))
    assert [row.position for row in conversation.messages.all()] == [0, 1, 2, 3, 4]
    assert [row.position for row in conversation.messages.filter(position__gt=0)] == [1, 2, 3, 4]
    assert conversation.messages.first().position == 0
    assert conversation.messages.last().position == 4
    [read] = Conversation.objects.prefetch_related("messages")
    assert [row.text for row in read.messages.all()] == ["0", "1", "2", "3", "4"]


def test_a_template_renders_what_everybody_said(conversation: Conversation) -> None:
    conversation.memory.set_window(limit=4)
    conversation.memory.set([SystemMessage("s"), UserMessage("u"), AiMessage("a"), CustomMessage({"x": 1})])
    template = Template("{% for message in messages %}{{ message.text }},{% endfor %}")
    assert template.render(Context({"messages": conversation.memory.messages()})) == "s,u,a,None,"


ADDS: list[Callable[[Any], Any]] = [
    lambda messages: messages.create(type="USER", text="Hi"),
    lambda messages: messages.create(SAID),
    lambda messages: messages.acreate(SAID),
    lambda messages: messages.add(SAID),
    lambda messages: messages.set([SAID]),
    lambda messages: messages.get_or_create(position=9),
    lambda messages: messages.update_or_create(position=0, defaults={"text": "Hi"}),
    lambda messages: Message.objects.create(conversation=messages.instance, type="USER"),
    lambda messages: Message(conversation=messages.instance, type="USER", position=5).save(),
]


@pytest.mark.parametrize("add", ADDS)
def test_who_adds_a_row_is_told_how_messages_are_added(add: Callable[[Any], Any], conversation: Conversation) -> None:
    with pytest.raises(TypeError, match=r"conversation\.memory\.(add|set)\("):
        add(conversation.messages)
    assert conversation.messages.count() == 5
    assert list(verify()) == []


@pytest.mark.parametrize("position", [0, 4])
def test_a_row_is_not_deleted_by_itself(position: int, conversation: Conversation) -> None:
    row = conversation.messages.get(position=position)
    with pytest.raises(TypeError, match=r"memory\.set\(\) and clear\(\) evict .* conversation\.delete\(\)"):
        row.delete()
    with pytest.raises(TypeError, match="cannot be deleted"):
        async_to_sync(row.adelete)()
    assert conversation.messages.count() == 5
    conversation.delete()
    assert not Message.objects.exists()


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (SystemMessage("s"), "s"),
        (UserMessage("u"), "u"),
        (UserMessage(""), ""),
        (UserMessage([TextContent("a"), ImageContent("http://x"), TextContent("b")]), "a\nb"),
        (UserMessage([ImageContent("http://x")]), None),
        (AiMessage("a"), "a"),
        (AiMessage(), None),
        (ToolExecutionResultMessage(text="r"), "r"),
        (ToolExecutionResultMessage(contents=[TextContent("a"), TextContent("b")]), "a\nb"),
        (ToolExecutionResultMessage(contents=[ImageContent("http://x")]), None),
        (CustomMessage({"text": "t"}), None),
    ],
)
def test_a_message_has_the_text_of_its_row(message: ChatMessage, text: str | None, conversation: Conversation) -> None:
    assert message.text == text
    [row] = conversation.memory.add(message).added
    assert row.text == (text or "")
