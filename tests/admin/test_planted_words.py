"""Staff without ``read_message_text`` find no word of a message anywhere in the admin; with it, each of them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

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
from chatmemory.formats.registry import message_formats
from chatmemory.models import Conversation, Message
from tests.support.crawling import Answer, crawl
from tests.support.factories import ConversationFactory, UserFactory

pytestmark = pytest.mark.django_db

WORDS = {
    "plantedSystem",
    "plantedFirstSystem",
    "plantedEvicted",
    "plantedSpeaker",
    "plantedAttribute",
    "plantedThinking",
    "plantedTool",
    "plantedArgument",
    "plantedCallId",
    "plantedResult",
    "plantedClearedResult",
    "plantedPlaceholder",
    "plantedAddress",
    "plantedPart",
    "plantedCustom",
    "plantedRewritten",
    "plantedSummary",
    "plantedPinned",
    "plantedNative",
    "plantedKey",
    "plantedValue",
    "plantedUnreadable",
    "plantedLong",
}
"""Each stands in another place where there can be words."""

PLANTED = re.compile("planted\\w+", re.IGNORECASE)


def talk(**settings: Any) -> Conversation:
    """A conversation with words in every place, and in every state that a message can be in."""
    made: Conversation = ConversationFactory(title="About tea", metadata={"plantedKey": "plantedValue"}, **settings)
    memory = made.memory
    memory.add(SystemMessage("plantedFirstSystem"), UserMessage("plantedEvicted", name="plantedSpeaker"))
    memory.add(SystemMessage("plantedSystem"))
    for number in range(3):
        call = ToolExecutionRequest(f"plantedCallId{number}", "plantedTool", '{"what": "plantedArgument"}')
        memory.add(UserMessage(f"plantedAsked {number} " * 20, attributes={"note": "plantedAttribute"}))
        memory.add(AiMessage(None, [call], thinking="plantedThinking"))
        memory.add(
            ToolExecutionResultMessage(call.id, "plantedTool", "plantedClearedResult " * 30, is_error=number == 1)
        )
        memory.add(AiMessage(f"plantedAnswer {number}"))
    memory.clear_tool_results(keep=1, placeholder="plantedPlaceholder")
    return made


@pytest.fixture
def conversations(settings: Any) -> list[Conversation]:
    """Conversations in which nothing of what can be planted is missing."""
    settings.CHATMEMORY = {
        **getattr(settings, "CHATMEMORY", {}),
        "SUMMARIZER": "demo_project.chat.summarizer.summarize",
    }
    first = talk(window="messages", limit=30, always_keep_system_message_first=True)
    first.memory.compact(lambda messages, previous: "plantedSummary", keep=20)
    first.memory.add(
        UserMessage([TextContent("plantedPart"), ImageContent("https://plantedAddress.example/a.png")]),
        CustomMessage({"card": "plantedCustom"}),
        ToolExecutionResultMessage("9", "plantedTool", "plantedResult"),
        UserMessage("plantedPinned"),
    )
    first.memory.pin(first.messages.get(text="plantedPinned").position)
    first.memory.add(UserMessage("plantedLong " + "x" * 30_000))
    second = talk(window="tokens", limit=600)
    second.memory.set([UserMessage("plantedRewritten"), *second.memory.messages()[-2:]])
    second.memory.add(UserMessage("plantedNative"))
    Message.objects.filter(conversation=second, text="plantedNative").update(native='{"fw": "plantedNative"}')
    broken = talk(window="messages", limit=30)
    last = broken.messages.retained().last()
    assert last is not None
    Message.objects.filter(pk=last.pk).update(payload='{"plantedUnreadable": "plantedUnreadable"}')
    cleared = talk(window="messages", limit=6)
    cleared.memory.clear()
    return [first, second, broken, cleared]


def staff(*, without: str = "") -> Client:
    """Log a member of staff in who has all permissions but one."""
    user = UserFactory(is_staff=True)
    user.user_permissions.set(Permission.objects.exclude(codename=without))
    client = Client()
    client.force_login(user)
    return client


def walk(client: Client, conversations: list[Conversation]) -> list[Answer]:
    """Walk through the whole admin. A server's error ends the walk."""
    # Short memories have their JSON on the page, and no link to a file.
    files = [f"{address('memory', each)}?download={name}" for each in conversations for name in message_formats()]
    return list(crawl(client, "/admin/", *files))


def address(name: str, conversation: Conversation) -> str:
    return reverse(f"admin:chatmemory_conversation_{name}", args=[conversation.pk])


@pytest.mark.slow
def test_no_word_is_anywhere_for_those_who_may_not_read(conversations: list[Conversation]) -> None:
    reader = staff()
    reader.get("/admin/chatmemory/conversation/", {"q": "plantedEvicted"})  # which the log has
    reader.get(address("memory", conversations[0]), {"answer": "4"})
    answers = walk(staff(without="read_message_text"), conversations)
    assert [(answer.asked, word) for answer in answers for word in PLANTED.findall(answer.said)] == []
    assert len(answers) > 150


@pytest.mark.slow
def test_each_word_is_somewhere_for_those_who_may(conversations: list[Conversation]) -> None:
    answers = walk(staff(), conversations)
    assert {word for word in WORDS if not any(word in answer.said for answer in answers)} == set()
    asked = " ".join(answer.asked for answer in answers)
    pages = ("memory/?answer=", "download=", "export/jsonl/", "delete/", "history/", "against=", "?position=", "?q=")
    for part in pages:
        assert part in asked, part
