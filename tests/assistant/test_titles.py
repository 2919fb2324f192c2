"""The titles that an assistant's model gives to conversations: after the answer, once, and never over a user's own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from django.utils import timezone

from chatmemory import AiMessage, ChatMessage, MessageWindowChatMemory, SystemMessage, ToolExecutionRequest
from chatmemory.assistant import Assistant
from chatmemory.models import Conversation
from chatmemory.personal_data import erase_user
from chatmemory.retention import purge_evicted
from chatmemory.stores import DjangoChatMemoryStore
from tests.database.test_async import run
from tests.support.factories import ConversationFactory, UserFactory, give

pytestmark = pytest.mark.django_db(transaction=True)


class Namer:
    """A model that answers, and gives one title after the other: a text, an answer, an error, or a function."""

    def __init__(self, *titles: Any) -> None:
        self.titles = list(titles)
        self.asked: list[Sequence[ChatMessage]] = []

    def __call__(self, messages: Sequence[ChatMessage], tools: Sequence[Any]) -> AiMessage:
        first = messages[0]
        if not (isinstance(first, SystemMessage) and first.text.startswith("You name conversations")):
            return AiMessage("Green tea.")
        self.asked.append(messages)
        assert not tools
        title = self.titles.pop(0)
        if isinstance(title, BaseException):
            raise title
        if callable(title):
            title = title()
        return title if isinstance(title, AiMessage) else AiMessage(title)


@pytest.fixture
def conversation() -> Conversation:
    conversation: Conversation = ConversationFactory(owner=None, title="")
    return conversation


def tool() -> None: ...


def titled(conversation: Conversation) -> str:
    return Conversation.objects.get(pk=conversation.pk).title


def say(assistant: Assistant, conversation: Any, message: str = "Which tea?") -> None:
    assistant.chat(conversation, message)
    assert assistant.wait_for_summaries(60)


def chat(assistant: Assistant, conversation: Conversation) -> None:
    assistant.chat(conversation, "Which tea?")


def stream(assistant: Assistant, conversation: Conversation) -> None:
    list(assistant.stream(conversation, "Which tea?"))


def achat(assistant: Assistant, conversation: Conversation) -> None:
    run(assistant.achat(conversation, "Which tea?"))


def astream(assistant: Assistant, conversation: Conversation) -> None:
    async def talk() -> None:
        async for _ in assistant.astream(conversation, "Which tea?"):
            pass

    run(talk())


@pytest.mark.parametrize("way", [chat, stream, achat, astream])
def test_the_answer_does_not_wait_for_the_title(
    conversation: Conversation, way: Callable[[Assistant, Conversation], None]
) -> None:
    asked, may_answer = threading.Event(), threading.Event()

    def blocked() -> str:
        asked.set()
        assert may_answer.wait(60)
        return "Tea"

    assistant = Assistant(Namer(blocked), title=True, tools=[tool], wait_timeout=60)
    way(assistant, conversation)
    assert asked.wait(60)
    way(assistant, conversation)  # nor does the next turn
    assert titled(conversation) == ""
    may_answer.set()
    assert assistant.wait_for_summaries(60)
    assert titled(conversation) == "Tea"
    assert conversation.messages.count() == 4


def test_it_is_asked_for_once_and_only_if_wanted(conversation: Conversation) -> None:
    model = Namer("Green tea")
    say(Assistant(model), conversation)
    assert model.asked == []
    assistant = Assistant(model, title=True)
    version = Conversation.objects.get(pk=conversation.pk).version
    for _ in range(3):
        say(assistant, conversation)
    assert titled(conversation) == "Green tea"
    [(_, transcript)] = model.asked
    assert "Which tea?" in transcript.text  # type: ignore[union-attr]
    assert "Green tea." in transcript.text  # type: ignore[union-attr]
    assert Conversation.objects.get(pk=conversation.pk).version == version + 6


def test_a_title_of_the_users_own_stays(conversation: Conversation) -> None:
    def renamed() -> str:
        Conversation.objects.update(title="Mine")
        return "Tea"

    model = Namer(renamed, "Again")
    assistant = Assistant(model, title=True)
    say(assistant, conversation)
    assert titled(conversation) == "Mine"
    say(assistant, conversation)
    say(assistant, Conversation.objects.get(pk=conversation.pk))
    assert titled(conversation) == "Mine"
    assert model.titles == ["Again"]


@pytest.mark.parametrize(
    "failure",
    [
        OSError("away"),
        KeyboardInterrupt(),
        " \n",
        "<think>Tea?</think>",
        AiMessage("Tea", [ToolExecutionRequest("1", "tool", "{}")]),
    ],
)
def test_a_failure_is_silent_and_tried_again(
    conversation: Conversation, failure: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assistant = Assistant(Namer(failure, "Tea"), title=True)
    say(assistant, conversation)
    assert titled(conversation) == ""
    [record] = [record for record in caplog.records if record.name == "chatmemory.assistant"]
    assert record.levelno == logging.INFO
    assert "got no title" in record.message
    say(assistant, conversation)
    assert titled(conversation) == "Tea"


def test_a_turn_without_an_answer_asks_for_none(conversation: Conversation) -> None:
    def model(messages: Any, tools: Any) -> AiMessage:
        raise OSError("away")

    assistant = Assistant(model, title=True)
    with pytest.raises(OSError, match="away"):
        assistant.chat(conversation, "Which tea?")
    assert assistant.wait_for_summaries(0)


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ('"Green tea."\n', "Green tea"),
        ("\n# **Tee\tund  Kuchen**\nIt is about tea.", "Tee und Kuchen"),
        ("「緑茶の話」", "緑茶の話"),
        ("<think>Hm.\nTea?</think>\nTea", "Tea"),
        ("tea " * 100, f"{'tea ' * 19}".strip() + "…"),
        ("茶" * 300, "茶" * 79 + "…"),
        ("a\x00b\ud800", "a\ufffdb\ufffd"),
    ],
)
def test_what_the_model_wrote_around_it_is_taken_off(conversation: Conversation, text: str, title: str) -> None:
    say(Assistant(Namer(text), title=True), conversation)
    assert titled(conversation) == title


def test_memories_of_a_store_have_titles_and_those_in_process_none(user: Any) -> None:
    def provider(memory_id: str) -> MessageWindowChatMemory:
        store = DjangoChatMemoryStore(owner=user) if memory_id == "stored" else None
        return MessageWindowChatMemory(id=memory_id, max_messages=4, **({"store": store} if store else {}))

    model = Namer("Tea", "More tea")
    assistant = Assistant(model, memory=provider, title=True)
    for memory_id in ("stored", "here", "stored"):
        say(assistant, memory_id)
    assert Conversation.objects.get(memory_id="stored").title == "Tea"
    assert model.titles == ["More tea"]


def test_a_conversation_that_is_erased_meanwhile(conversation: Conversation) -> None:
    def erased() -> str:
        Conversation.objects.all().delete()
        return "Tea"

    assistant = Assistant(Namer(erased), title=True)
    say(assistant, conversation)
    assert not Conversation.objects.exists()


def anonymise(conversation: Conversation) -> None:
    erase_user(conversation.owner, how="anonymise")


def purge(conversation: Conversation) -> None:
    conversation.memory.clear()
    list(purge_evicted(timezone.now()))


def give_away(conversation: Conversation) -> None:
    give(conversation.pk, UserFactory())


@pytest.mark.parametrize("meanwhile", [anonymise, purge, give_away])
def test_no_title_is_made_of_what_is_gone_meanwhile(
    user: Any, meanwhile: Callable[[Conversation], None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    conversation = ConversationFactory(owner=user, title="")

    def late() -> str:
        meanwhile(Conversation.objects.get(pk=conversation.pk))
        return "Ann's tea"

    say(Assistant(Namer(late), title=True), conversation)
    assert titled(conversation) == ""
    assert [record for record in caplog.records if record.name == "chatmemory.assistant"] == []


def test_the_model_is_not_asked_for_the_title_of_what_was_anonymised_while_it_waited(user: Any) -> None:
    """Four titles are made at once; the fifth waits for them."""
    may_answer = threading.Event()

    def blocked() -> str:
        assert may_answer.wait(60)
        return "Tea"

    model = Namer(*[blocked] * 5)
    assistant = Assistant(model, title=True)
    conversations = [ConversationFactory(owner=user if number == 4 else None, title="") for number in range(5)]
    for conversation in conversations:
        assistant.chat(conversation, "Which tea?")
    erase_user(user, how="anonymise")
    may_answer.set()
    assert assistant.wait_for_summaries(60)
    assert [titled(conversation) for conversation in conversations] == ["Tea"] * 4 + [""]
    assert len(model.asked) == 4
