"""What the calls of a model used: a row for each answer, shown at it, and erased and exported with it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chatmemory import AiMessage, ChatMessage, ToolExecutionRequest, UserMessage
from chatmemory.assistant import Answered, Assistant, ModelError
from chatmemory.assistant import Usage as Tokens
from chatmemory.contrib.usage.models import Usage
from chatmemory.models import Conversation
from chatmemory.personal_data import erase_user, export_user
from chatmemory.retention import purge_evicted
from chatmemory.transfer.export import conversation_lines
from tests.support.api import url
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db(transaction=True)


def look_up(word: str) -> str:
    """Look it up.

    Args:
        word: the word.
    """
    return f"{word}: an animal"


CALL = AiMessage(None, [ToolExecutionRequest("1", "look_up", '{"word": "cat"}')])
ANSWERS = [
    Answered(CALL, Tokens(input_tokens=1000, output_tokens=20, cache_read_tokens=0)),
    Answered(
        AiMessage("An animal."),
        Tokens(input_tokens=1240, output_tokens=85, cache_read_tokens=1100, reasoning_tokens=60),
    ),
    AiMessage("I do not know."),
]


class Model:
    """A model that answers with one of ``ANSWERS`` after the other, and raises what is an exception."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def __call__(self, messages: Sequence[ChatMessage], tools: Sequence[Any]) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def conversation(user: Any) -> Conversation:
    made: Conversation = ConversationFactory(owner=user, limit=1000)
    return made


def talk(conversation: Conversation) -> None:
    """Two turns: the first calls a tool, and of the second nothing is reported. The answers are at 1, 3 and 5."""
    assistant = Assistant(Model(*ANSWERS), tools=[look_up])
    assistant.chat(conversation, "What is a cat?")
    assistant.chat(conversation, "And a dog?")


COUNTS = ("position", "model", "input_tokens", "output_tokens", "cache_read_tokens", "reasoning_tokens")
ROWS = [
    (1, "Model", 1000, 20, 0, None),
    (3, "Model", 1240, 85, 1100, 60),
    (5, "Model", None, None, None, None),
]


def rows() -> list[tuple[Any, ...]]:
    return list(Usage.objects.order_by("position").values_list(*COUNTS))


def stream(assistant: Assistant, conversation: Conversation, text: str) -> None:
    list(assistant.stream(conversation, text))


def astream(assistant: Assistant, conversation: Conversation, text: str) -> None:
    async def run() -> None:
        async for _ in assistant.astream(conversation, text):
            pass

    async_to_sync(run)()


def achat(assistant: Assistant, conversation: Conversation, text: str) -> None:
    async_to_sync(assistant.achat)(conversation, text)


@pytest.mark.parametrize("say", [Assistant.chat, achat, stream, astream])
def test_each_answer_has_a_row_of_its_own_call(conversation: Conversation, say: Callable[..., Any]) -> None:
    assistant = Assistant(Model(*ANSWERS), tools=[look_up])
    for text in ("What is a cat?", "And a dog?"):
        say(assistant, conversation, text)
    assert rows() == ROWS
    assert all(0 <= row.seconds < 60 for row in conversation.usage.all())


def test_a_failure_has_a_row_and_a_repeated_request_has_none(conversation: Conversation) -> None:
    failure = ModelError("No.", usage=Tokens(input_tokens=7))
    assistant = Assistant(Model(failure, *ANSWERS[1:]))
    with pytest.raises(ModelError):
        assistant.chat(conversation, "What is a cat?", idempotency_key="k")
    for _ in range(2):
        assistant.chat(conversation, "What is a cat?", idempotency_key="k")
    failed, answered = Usage.objects.order_by("created_at")
    assert (failed.status, failed.position, failed.input_tokens) == ("failed", None, 7)
    assert (answered.status, answered.position, answered.input_tokens) == ("ok", 1, 1240)


def test_messages_say_it_over_rest(api: Client, conversation: Conversation) -> None:
    talk(conversation)
    found = [each["usage"] for each in api.get(url(conversation, "messages/")).json()["results"]]
    assert [found[position] for position in (0, 2, 4)] == [None, None, None]
    assert [tuple(found[row[0]][name] for name in COUNTS[1:]) for row in ROWS] == [row[1:] for row in ROWS]
    assert api.get(url(conversation, "messages/3/")).json()["usage"]["seconds"] == Usage.objects.get(position=3).seconds


def test_the_admin_says_what_is_known(admin_client: Client, conversation: Conversation) -> None:
    talk(conversation)
    Usage.objects.filter(position=3).update(seconds=3.21, model="<b>")
    Usage.objects.filter(position=5).update(seconds=None)
    page = admin_client.get(reverse("admin:chatmemory_conversation_change", args=[conversation.pk])).content.decode()
    assert "<p><bdi>&lt;b&gt;</bdi> · 3.2 s · 1,240 tokens in (89% cached) · 85 out</p>" in page
    assert " s · 1,000 tokens in (0% cached) · 20 out</p>" in page
    assert "<p><bdi>Model</bdi></p>" in page


class TestErasing:
    def test_what_was_paid_stays(self, conversation: Conversation, user: Any) -> None:
        talk(conversation)
        conversation.memory.set(conversation.memory.messages()[-2:])
        list(purge_evicted(timezone.now() + timedelta(days=1)))
        assert rows() == ROWS
        key = conversation.pk
        conversation.delete()
        assert rows() == ROWS
        assert {(row.conversation_id, row.owner_id) for row in Usage.objects.all()} == {(key, user.pk)}
        assert Usage.objects.filter(conversation__owner=None).count() == 3  # joins keep them
        user.delete()
        assert {row.owner_id for row in Usage.objects.all()} == {None}

    def test_the_id_of_a_response_goes_with_its_text(self, conversation: Conversation) -> None:
        def ids() -> list[tuple[int | None, str]]:
            return list(Usage.objects.order_by("input_tokens").values_list("position", "response_id"))

        conversation.memory.add(*[UserMessage("Hi"), AiMessage("Hello")] * 2)
        conversation.memory.set_window(window="messages", limit=2)
        for position in (1, 3, None):
            used = {"model": "m", "input_tokens": len(ids()), "response_id": f"r{position}"}
            conversation.record_usage(used, position=position)
        list(purge_evicted(timezone.now() + timedelta(days=1)))
        assert ids() == [(1, ""), (3, "r3"), (None, "")]
        key = conversation.pk
        conversation.delete()
        assert ids() == [(1, ""), (3, ""), (None, "")]
        assert {row.conversation_id for row in Usage.objects.all()} == {key}

    def test_anonymising_a_user_keeps_figures(self, conversation: Conversation, user: Any) -> None:
        conversation.record_usage({"model": "m", "input_tokens": 5, "response_id": "r"})
        erased = ConversationFactory(owner=user)
        erased.record_usage({"model": "m", "input_tokens": 6, "response_id": "s"})
        erased.delete()
        erase_user(user, how="anonymise")
        assert {(row.owner_id, row.response_id) for row in Usage.objects.all()} == {(None, "")}
        assert {row.input_tokens for row in Usage.objects.all()} == {5, 6}

    def test_erasing_a_user_deletes_the_rows_of_that_user(self, conversation: Conversation, user: Any) -> None:
        other = ConversationFactory()
        for one in (conversation, other):
            one.record_usage({"model": "m", "input_tokens": 5})
        erase_user(user, how="erase")
        assert [row.conversation for row in Usage.objects.all()] == [other]

    def test_an_export_of_a_user_has_the_rows_of_erased_conversations(
        self, conversation: Conversation, user: Any
    ) -> None:
        conversation.record_usage({"model": "m", "input_tokens": 5})
        key = str(conversation.pk)
        conversation.delete()
        [line] = map(json.loads, export_user(user))
        assert (line["app"], line["conversation"], line["input_tokens"]) == ("chatmemory_usage", key, 5)


class TestTransfer:
    @pytest.fixture
    def file(self, conversation: Conversation, tmp_path: Path) -> Path:
        talk(conversation)
        path = tmp_path / "all.jsonl"
        path.write_text("".join(conversation_lines([conversation.pk])))
        conversation.delete()
        return path

    def run(self, *arguments: Any) -> str:
        out = io.StringIO()
        with suppress(SystemExit, CommandError):  # something is left out
            call_command("chatmemory_import", *map(str, arguments), stdout=out, stderr=out)
        return out.getvalue()

    def test_an_import_restores_what_an_export_has(self, file: Path) -> None:
        self.run(file)
        assert rows() == ROWS
        assert "".join(conversation_lines([Conversation.objects.get().pk])) == file.read_text()

    @pytest.mark.parametrize(
        ("old", "new", "problem"),
        [
            ('"input_tokens":1240', '"input_tokens":"many"', "input_tokens: expected a whole number"),
            ('"input_tokens":1240', '"input_tokens":-1', "input_tokens: expected a number from 0 to 2147483647"),
            ('"input_tokens":1240,', "", "input_tokens is missing"),
            ('"position":3,"model"', '"position":9,"model"', "position: expected one of this conversation, got 9"),
            (',"seconds":', ',"seconds":"","x":', "seconds: expected a number"),
            ('"model":"Model"', f'"model":"{"x" * 256}"', "model: expected at most 255 characters, got 256"),
            ('"operation":"chat"', '"operation":"dream"', "operation: expected one of chat, summary, title, tool"),
            ('"status":"ok"', '"status":""', "status: expected one of ok, failed, interrupted"),
            ('"cost":null', '"cost":"Infinity"', "cost: expected an amount such as 0.0125"),
            ('"cost":null', '"cost":"-1"', "cost: expected an amount such as 0.0125"),
            ('"details":{}', '"details":{"a":"b"}', "details: expected an object of numbers"),
            ('"id":"', '"id":"x', "id: expected a UUID"),
        ],
    )
    def test_a_bad_line_leaves_the_conversation_out(self, file: Path, old: str, new: str, problem: str) -> None:
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))
        for arguments in (["--dry-run"], []):
            assert problem in self.run(file, *arguments)
        assert (Conversation.objects.count(), rows()) == (0, ROWS)

    def test_rows_of_the_erased_conversation_are_not_doubled(self, file: Path, user: Any) -> None:
        before = Usage.objects.values("pk", "owner").order_by("pk")
        expected = list(before)
        self.run(file)
        assert (list(before), Conversation.objects.get().usage.count()) == (expected, 3)

    def test_a_row_of_another_conversation_is_not_taken(self, file: Path) -> None:
        other, kept = ConversationFactory(), list(Usage.objects.all())
        Usage.objects.all().delete()
        for row in kept:
            row.conversation = other
            row.save(force_insert=True)
        assert "belongs to another conversation" in self.run(file)

    def test_each_field_is_restored(self, conversation: Conversation, tmp_path: Path) -> None:
        talk(conversation)
        conversation.record_usage(
            {
                **{"model": "gpt-5", "provider": "openai", "tier": "flex", "response_id": "r", "reasoning_tokens": 4},
                **{"input_tokens": 90, "output_tokens": 9, "cache_read_tokens": 50, "cache_write_tokens": 20},
                "details": {"web_searches": 2, "cache_write_1h_tokens": 20},
            },
            operation="tool",
            status="interrupted",
            position=1,
            seconds=1.5,
            first_delta_seconds=0.25,
        )
        before = list(Usage.objects.order_by("pk").values())
        path = tmp_path / "all.jsonl"
        path.write_text("".join(conversation_lines([conversation.pk])))
        conversation.delete()
        Usage.objects.all().delete()
        self.run(path)
        assert list(Usage.objects.order_by("pk").values()) == before
