"""What calls used on the pages of a conversation: below answers, in sums, and beside the replay of its window."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from html import unescape
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.db.models import F
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from chatmemory import AiMessage, ChatMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.assistant import Answered, Assistant, ModelError, WindowTooSmallError
from chatmemory.assistant import Usage as Tokens
from chatmemory.contrib.usage.dearest import dearest
from chatmemory.contrib.usage.models import Usage
from chatmemory.database.reading import ANSWERS, request_before
from chatmemory.models import Conversation, Message, Origin
from tests.support.factories import ConversationFactory
from tests.support.planted import member

pytestmark = pytest.mark.django_db(transaction=True)


def page(conversation: Conversation, name: str = "usage") -> str:
    return reverse(f"admin:chatmemory_conversation_{name}", args=[conversation.pk])


def words(text: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())


@pytest.fixture
def conversation() -> Conversation:
    made: Conversation = ConversationFactory(title="Pets", limit=1000)
    made.memory.add(UserMessage("What is a cat?"), AiMessage("An animal."))
    return made


class TestBelowAnswers:
    def notes(self, client: Client, conversation: Conversation) -> list[str]:
        found = re.findall(
            r'<div class="chatmemory-notes">(.*?)</div>', client.get(page(conversation, "change")).content.decode()
        )
        return [words(note) for note in found]

    def test_is_each_call_with_what_is_known(self, admin_client: Client, conversation: Conversation) -> None:
        for status, cost in (("interrupted", None), ("failed", Decimal("0.0004")), ("ok", Decimal("1.25"))):
            Usage.objects.create(
                conversation=conversation,
                position=1,
                model="gpt-5",
                status=status,
                input_tokens=2000,
                output_tokens=5,
                cache_read_tokens=None if status == "failed" else 1500,
                seconds=2.0,
                cost=cost,
                currency="" if cost is None else "USD",
            )
        assert self.notes(admin_client, conversation) == [
            "Interrupted · gpt-5 · 2.0 s · 2,000 tokens in (75% cached) · 5 out "
            "Failed · gpt-5 · 2.0 s · 2,000 tokens in · 5 out · 0.00040 USD "
            "gpt-5 · 2.0 s · 2,000 tokens in (75% cached) · 5 out · 1.2500 USD"
        ]

    def test_names_other_operations(self, admin_client: Client, conversation: Conversation) -> None:
        conversation.record_usage({"model": "m", "input_tokens": 5}, operation="tool", position=1)
        assert self.notes(admin_client, conversation) == ["Tool · m · 5 tokens in"]

    def test_is_asked_once(self, admin_client: Client, conversation: Conversation) -> None:
        for _ in range(2):
            conversation.memory.add(AiMessage("Another."))
            for position in (1, conversation.next_position - 1):
                conversation.record_usage({"model": "m", "input_tokens": 5}, position=position)
            with CaptureQueriesContext(connection) as captured:
                admin_client.get(page(conversation, "change"))
            assert sum("chatmemory_usage_usage" in query["sql"] for query in captured) == 1


class TestThePage:
    def test_has_the_sums_of_its_calls(self, admin_client: Client, conversation: Conversation) -> None:
        conversation.record_usage(
            {"model": "<b>one", "input_tokens": 1500, "output_tokens": 2, "cache_read_tokens": 750}
        )
        conversation.record_usage({"model": "two", "input_tokens": 500}, operation="title")
        ConversationFactory().record_usage({"model": "three", "input_tokens": 7})
        text = admin_client.get(page(conversation)).content.decode()
        shown = words(text[text.index('id="content-main"') :])
        assert "<b>one 1 1,500 50% 2 1 – two 1 500 – – 1 – Total 2 2,000 38% 2 2 –" in shown
        assert "Answer 1 1,500 50% 2 1 Title 1 500 – – 1" in shown
        assert "three" not in shown
        assert "<b>one" not in text
        assert page(conversation) in admin_client.get(page(conversation, "change")).content.decode()

    def test_says_that_there_are_none(self, admin_client: Client, conversation: Conversation) -> None:
        shown = words(admin_client.get(page(conversation)).content.decode())
        assert "No model was called." in shown
        assert "No request with messages is known." in shown

    def test_lists_the_dearest_messages(self, admin_client: Client, conversation: Conversation) -> None:
        for position in (1, 1):
            conversation.record_usage({"model": "m", "input_tokens": 5}, position=position)
        tokens = conversation.messages.get(position=0).token_count * 2
        text = admin_client.get(page(conversation)).content.decode()
        assert f"0 User {tokens} tokens, in 2 requests What is a cat?" in words(text)
        assert f'href="{page(conversation, "change")}?position=0#message-0"' in text
        assert LogEntry.objects.filter(object_id=str(conversation.pk)).count() == 1

    def test_shows_text_to_those_who_may_read(self, conversation: Conversation) -> None:
        conversation.record_usage({"model": "m", "input_tokens": 5}, position=1)
        blind = Client()
        blind.force_login(member(["view_conversation"]))
        shown = words(blind.get(page(conversation)).content.decode())
        assert "What is a cat?" not in shown
        assert "0 User" in shown
        assert not LogEntry.objects.exists()
        nobody = Client()
        nobody.force_login(member(["read_message_text"]))
        assert nobody.get(page(conversation)).status_code == 403

    def test_is_of_conversations_that_the_reader_reaches(
        self, admin_client: Client, conversation: Conversation, settings: Any
    ) -> None:
        settings.CHATMEMORY = {**settings.CHATMEMORY, "STAFF_CONVERSATIONS": "tests.support.tenants.acme"}
        assert admin_client.get(page(conversation)).status_code in (302, 404)

    def test_takes_as_many_statements_for_a_long_conversation(
        self, admin_client: Client, conversation: Conversation
    ) -> None:
        counts = []
        for _ in range(2):
            for _ in range(10):
                conversation.memory.add(UserMessage("And?"), AiMessage("Another."))
                conversation.record_usage({"model": "m", "input_tokens": 5}, position=conversation.next_position - 1)
            with CaptureQueriesContext(connection) as captured:
                admin_client.get(page(conversation))
            counts.append(len(captured))
        assert counts[0] == counts[1]

    def test_does_not_read_a_conversation_that_is_too_long(
        self, admin_client: Client, conversation: Conversation
    ) -> None:
        conversation.record_usage({"model": "m", "input_tokens": 5}, position=1)
        Conversation.objects.update(next_position=10_001)
        shown = words(admin_client.get(page(conversation)).content.decode())
        assert "They are listed for conversations of at most 10,000 messages." in shown


class Model:
    """A model that remembers the texts that it was sent with each call, and calls a tool, fails or answers."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.sent: list[list[str]] = []
        self.count = 0

    def __call__(self, messages: Sequence[ChatMessage], tools: Sequence[Any]) -> Any:
        if self.rng.random() < 0.15:
            raise ModelError("No.")
        self.count += 1
        self.sent.append([str(getattr(message, "text", "")) for message in messages])
        if self.rng.random() < 0.2:
            call = ToolExecutionRequest(f"c{self.count}", "look", f'{{"number": {self.count}}}')
            return Answered(AiMessage(f"I look, {self.count}.", [call]), Tokens(input_tokens=7))
        return Answered(AiMessage(f"Answer {self.count}. {'word ' * self.rng.randrange(9)}"), Tokens(input_tokens=5))


def naive(conversation: Conversation) -> dict[int, tuple[int, int]]:
    """The requests and the tokens of each message, by reading the memory before each answer."""
    requests: Counter[int] = Counter()
    tokens: Counter[int] = Counter()
    rows = {row.position: row for row in conversation.messages.all()}
    for call in conversation.usage.filter(operation="chat", position__isnull=False):
        for row in request_before(rows[call.position]):
            place = row
            while place.origin in (Origin.RESTORED, Origin.COPY) and place.covers_from in rows:
                place = rows[place.covers_from]
            requests[place.position] += 1
            tokens[place.position] += row.token_count
    return {place: (requests[place], tokens[place]) for place in tokens}


def found(conversation: Conversation) -> dict[int, tuple[int, int]]:
    return {one.position: (one.requests, one.tokens) for one in dearest(conversation, 10_000)}


def act(rng: random.Random, conversation: Conversation, assistant: Assistant, number: int) -> None:
    """Say something, or go back."""
    said = conversation.messages.filter(origin=Origin.SAID)
    questions = list(said.filter(type="USER").values_list("position", flat=True))
    choice = rng.random()
    if choice < 0.1:
        key = rng.randrange(3)
        assistant.chat(conversation, f"Asked again and again, {key}.", idempotency_key=f"key {key}")
    elif choice < 0.6 or not questions:
        assistant.chat(conversation, f"Question {number}. {'word ' * rng.randrange(12)}")
    elif choice < 0.7:
        conversation.regenerate(rng.choice(questions), assistant=assistant)
    elif choice < 0.8:
        conversation.edit(rng.choice(questions), UserMessage(f"Edit {number}."))
        assistant.chat(conversation)
    elif choice < 0.9:
        conversation.switch(rng.choice(list(said.values_list("position", flat=True))))
    elif choice < 0.92:
        conversation.memory.set_window(limit=rng.randrange(4, 9) * (20 if conversation.window == "tokens" else 1))
    elif choice < 0.94:
        conversation.memory.clear_tool_results(keep=1)
    elif choice < 0.96:
        conversation.memory.compact(lambda messages, previous: "They talked.")
    elif choice < 0.98:
        messages = conversation.memory.messages()
        conversation.memory.set([*messages[:1], *messages[2:], UserMessage(f"Rewritten {number}.")])
    else:
        conversation.memory.add(UserMessage(f"First {number}."), AiMessage(f"At once {number}."))
        conversation.record_usage({"model": "m", "input_tokens": number}, position=conversation.next_position - 1)


def look(number: int) -> str:
    """Look.

    Args:
        number: a number.
    """
    return f"Found {number}. " + "word " * 15


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_the_dearest_messages_are_those_that_were_sent_most(seed: int) -> None:
    """Through windows, tools, failures, edits, other answers and branches."""
    rng = random.Random(seed)
    window = {"window": "tokens", "limit": 120} if seed % 2 else {"window": "messages", "limit": 6}
    conversation: Conversation = ConversationFactory(**window)
    model = Model(rng)
    assistant = Assistant(model, system_message="Be brief.", tools=[look] if seed % 3 else [])
    for number in range(40):
        with suppress(ModelError, WindowTooSmallError, ValueError):
            act(rng, conversation, assistant, number)
    conversation.refresh_from_db()
    counts = found(conversation)
    assert counts == naive(conversation)
    assert Message.objects.filter(conversation=conversation, origin=Origin.RESTORED).exists()
    assert len(counts) > 20


def batch(rng: random.Random, number: int) -> list[ChatMessage]:
    """Messages that are added in one change: some with calls and their results, and several answers."""
    made: list[ChatMessage] = []
    for index in range(rng.randrange(1, 4)):
        name = f"{number}.{index}"
        made.append(UserMessage(f"Question {name}."))
        if rng.random() < 0.5:
            made.append(AiMessage(f"I look, {name}.", [ToolExecutionRequest(name, "look", "{}")]))
            made.append(ToolExecutionResultMessage(name, "look", f"Found {name}. {'word ' * 20}"))
        if rng.random() < 0.9:
            made.append(AiMessage(f"Answer {name}."))
    return made


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_messages_may_come_and_leave_in_the_change_of_an_answer(seed: int) -> None:
    """So may placeholders of tool results."""
    rng = random.Random(seed)
    conversation: Conversation = ConversationFactory(
        window="tokens", limit=rng.randrange(150, 250), keep_tool_results=1
    )
    for number in range(30):
        with suppress(ValueError):
            conversation.memory.add(*batch(rng, number))
            if rng.random() < 0.2:
                said = conversation.messages.filter(origin=Origin.SAID)
                conversation.switch(rng.choice(list(said.values_list("position", flat=True))))
    for position in conversation.messages.filter(ANSWERS).values_list("position", flat=True):
        conversation.record_usage({"model": "m", "input_tokens": 5, "response_id": str(position)}, position=position)
    assert found(conversation) == naive(conversation)
    rows = conversation.messages.all()
    assert rows.filter(added_in=F("evicted_in")).exists()
    assert rows.filter(origin=Origin.CLEARED).exists()


def test_dearest_messages_are_those_that_the_model_got(conversation: Conversation) -> None:
    """Each text of this conversation is said once, so what the model got tells how often each message was sent."""
    model = Model(random.Random(4))
    model.rng.random = lambda: 1.0  # type: ignore[method-assign]
    conversation = ConversationFactory(window="messages", limit=5)
    assistant = Assistant(model)
    for number in range(6):
        assistant.chat(conversation, f"Question {number}.")
    conversation.regenerate(assistant=assistant)
    conversation.edit(6, UserMessage("Edited."))
    assistant.chat(conversation, "Once more.")
    conversation.switch(11)
    assistant.chat(conversation, "And back.")
    sent = Counter(text for texts in model.sent for text in texts)
    rows = {row.position: row for row in conversation.messages.all()}
    assert {rows[place].text: requests for place, (requests, _) in found(conversation).items()} == dict(sent)


class TestBesideTheReplay:
    def really(self, client: Client, conversation: Conversation) -> str | None:
        shown = words(client.get(page(conversation, "window")).content.decode())
        match = re.search(r"Really read from the prompt cache (\S+)", shown)
        return match and match[1]

    def test_is_the_share_that_was_read(self, admin_client: Client, conversation: Conversation) -> None:
        for cached in (100, 500):
            conversation.record_usage(
                {"model": "m", "input_tokens": 1000, "cache_read_tokens": cached, "response_id": str(cached)},
                position=1,
            )
        conversation.record_usage({"model": "m", "input_tokens": 1000, "cache_read_tokens": 0}, operation="title")
        conversation.record_usage({"model": "m", "input_tokens": 9000}, position=1)  # nothing is known of its cache
        assert self.really(admin_client, conversation) == "30%"

    def test_is_left_out_if_it_is_not_known(self, admin_client: Client, conversation: Conversation) -> None:
        conversation.record_usage({"model": "m", "input_tokens": 1000}, position=1)
        assert self.really(admin_client, conversation) is None

    def test_may_be_nothing(self, admin_client: Client, conversation: Conversation) -> None:
        conversation.record_usage({"model": "m", "input_tokens": 1000, "cache_read_tokens": 0}, position=1)
        assert self.really(admin_client, conversation) == "0%"
