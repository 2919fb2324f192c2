"""A turn that runs elsewhere: followed from its rows, stopped, and in the way of others."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.test import AsyncClient, Client
from django.utils import timezone

from chatmemory import AiMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.assistant import turn
from chatmemory.models import Conversation
from chatmemory.rest.turns import stream as turn_stream
from chatmemory.rest.turns import taking
from chatmemory.rest.turns.stream import COMMENT
from tests.database.test_async import run
from tests.support.api import url
from tests.support.turns import (
    Gate,
    ask,
    chat,
    chunks_in,
    chunks_of,
    message_of,
    said,
    stream,
    texts_of,
    turn_under_way,
    ui_message,
)

pytestmark = pytest.mark.django_db(transaction=True)


class GateAfterTool(Gate):
    """A model that calls a tool before it waits."""

    def speak(self, messages: Any) -> Iterator[Any]:
        if isinstance(messages[-1], ToolExecutionResultMessage):
            yield from super().speak(messages)
        else:
            yield "Wait"
            yield AiMessage("Wait", [ToolExecutionRequest("1", "look_up", '{"number": "7"}')])


def follow(api: Client, conversation: Conversation) -> Any:
    return api.get(url(conversation, "turns/stream/"))


class TestFollow:
    def test_nothing_runs(self, api: Client, conversation: Conversation) -> None:
        ask(api, conversation, "Hello")
        assert follow(api, conversation).status_code == 204
        assert api.get(url(conversation, "turns/")).json()["running"] is False

    @pytest.mark.slow
    def test_what_was_stored_comes_at_once_and_the_rest_when_it_is(
        self, api: Client, conversation: Conversation
    ) -> None:
        ask(api, conversation, "Before")
        gate = GateAfterTool()
        with turn_under_way(api, conversation, "Hello", gate) as first:
            shown = api.get(url(conversation, "turns/")).json()
            assert [one["id"] for one in shown["messages"]] == ["0", "answer-0", "2"]
            assert shown["running"] is True
            assert api.head(url(conversation, "turns/stream/")).status_code == 200
            response = follow(api, conversation)
            assert response["x-vercel-ai-ui-message-stream"] == "v1"
            parts = iter(response.streaming_content)
            beginning = next(parts)
            assert b"order 7" in beginning
            assert b"Half" not in beginning
            gate.go.set()
            chunks = chunks_in([beginning, *parts])
        assert message_of(chunks) == message_of(first)
        assert chunks[-1]["type"] == "finish"
        [memory] = [chunk["data"] for chunk in chunks if chunk["type"] == "data-memory"]
        assert [item["text"] for item in memory["added"]] == ["Half whole"]
        assert {item["reason"] for item in memory["evicted"]} <= {"window", "orphan"}
        assert memory["version"] == Conversation.objects.get().version
        shown = api.get(url(conversation, "turns/")).json()
        assert shown["messages"][-1]["id"] == chunks[0]["messageId"] == "answer-2"
        assert shown["running"] is False

    def test_one_that_fails_ends_with_a_sentence(self, api: Client, conversation: Conversation) -> None:
        class Failing(Gate):
            def speak(self, messages: Any) -> Iterator[Any]:
                next(pieces := super().speak(messages))
                next(pieces)
                raise OSError("secret")
                yield

        gate = Failing()
        with turn_under_way(api, conversation, "Hello", gate) as first:
            parts = iter(follow(api, conversation).streaming_content)
            beginning = next(parts)
            gate.go.set()
            chunks = chunks_in([beginning, *parts])
        assert first[-1]["type"] == chunks[-1]["type"] == "error"
        assert "kept" in chunks[-1]["errorText"]

    def test_one_that_is_stopped_ends_so_for_all(self, api: Client, conversation: Conversation) -> None:
        gate = Gate()
        with turn_under_way(api, conversation, "Hello", gate) as first:
            parts = iter(follow(api, conversation).streaming_content)
            beginning = next(parts)
            assert api.delete(url(conversation, "turns/")).status_code == 204
            chunks = chunks_in([beginning, *parts])
        assert first[-1]["type"] == chunks[-1]["type"] == "abort"
        assert texts_of(first) == texts_of(chunks) == "Half "
        assert said(conversation) == ["Hello", "Half "]

    @pytest.mark.slow
    def test_a_comment_comes_while_nothing_is_stored(
        self, api: Client, conversation: Conversation, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(turn_stream, "SILENCE", 0.0)  # a test does not wait for 15 seconds
        gate = Gate()
        with turn_under_way(api, conversation, "Hello", gate) as first:
            parts = iter(follow(api, conversation).streaming_content)
            beginning = next(parts)
            assert next(parts) == next(parts) == COMMENT
            gate.go.set()
            chunks = chunks_in([beginning, *parts])
        assert message_of(chunks) == message_of(first)

    @pytest.mark.parametrize("looks", [False, True])
    def test_a_conversation_that_is_erased_ends_it(
        self, api: Client, conversation: Conversation, monkeypatch: pytest.MonkeyPatch, looks: bool
    ) -> None:
        """Whether the turn finds out when it looks for an interruption, after a second, or when it adds its answer."""
        monkeypatch.setattr(turn, "_LONGEST_DEAFNESS", 0.0 if looks else 60.0)
        gate = Gate()
        with turn_under_way(api, conversation, "Hello", gate) as first:
            parts = iter(follow(api, conversation).streaming_content)
            beginning = next(parts)
            assert api.delete(url(conversation)).status_code == 204
            chunks = chunks_in([beginning, *parts])
        assert "erased" in chunks[-1]["errorText"]
        assert "erased" in first[-1]["errorText"]

    @pytest.mark.slow
    def test_a_turn_whose_process_died_after_its_answer(self, api: Client, conversation: Conversation) -> None:
        ask(api, conversation, "Hello")
        Conversation.objects.update(turn=F("turn") + 1, turn_until=timezone.now() + timedelta(minutes=1))
        shown = api.get(url(conversation, "turns/")).json()
        assert [one["id"] for one in shown["messages"]] == ["0", "answer-0"]
        assert shown["running"] is False
        assert follow(api, conversation).status_code == 204

    @pytest.mark.slow
    def test_it_is_followed_under_asgi(
        self, api: Client, user: Any, conversation: Conversation, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(turn_stream, "SILENCE", 0.0)
        gate = Gate()

        async def read() -> list[bytes]:
            client = AsyncClient()
            await client.aforce_login(user)
            response: Any = await client.get(url(conversation, "turns/stream/"))
            parts = []
            async for part in response.streaming_content:
                parts.append(part)
                if part == COMMENT:  # it comes while nothing is stored
                    gate.go.set()
            return parts

        with turn_under_way(api, conversation, "Hello", gate) as first:
            chunks = chunks_in(run(read()))
        assert message_of(chunks) == message_of(first)


@pytest.fixture
def short_wait_for_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that is refused has waited 0.05 seconds for the turn before, and not 0.5."""
    monkeypatch.setattr(taking, "_WAIT_FOR_TURN", 0.05)


class TestBusy:
    @pytest.mark.usefixtures("short_wait_for_turn")
    def test_another_turn_is_refused_at_once(self, api: Client, conversation: Conversation) -> None:
        gate = Gate()
        with turn_under_way(api, conversation, "Hello", gate) as first:
            for answer in (
                ask(api, conversation, "Me too"),
                stream(api, conversation, "Me too"),
                chat(api, conversation, ui_message("Me too")),
                ask(api, conversation, None),
            ):
                assert (answer.status_code, answer["Retry-After"]) == (409, "1")
                assert answer["Content-Type"] == "application/problem+json"
                assert answer.json()["type"] == "urn:chatmemory:problem:turn-under-way"
        assert texts_of(first) == "Half whole"
        assert said(conversation) == ["Hello", "Half whole"]

    @pytest.mark.usefixtures("short_wait_for_turn")
    def test_a_doubled_request_is_refused_and_then_answered(self, api: Client, conversation: Conversation) -> None:
        gate = Gate()
        with turn_under_way(api, conversation, "Hello", gate, idempotency_key="k") as first:
            assert ask(api, conversation, "Hello", idempotency_key="k").status_code == 409
            assert chat(api, conversation, ui_message("Hello", "k")).status_code == 409
        again = chunks_of(stream(api, conversation, "Hello", idempotency_key="k"))
        assert message_of(again) == message_of(first)
        assert said(conversation) == ["Hello", "Half whole"]

    def test_after_a_stop_the_next_turn_begins_at_once(self, api: Client, conversation: Conversation) -> None:
        gate = Gate()
        with turn_under_way(api, conversation, "Hello", gate) as first:
            api.delete(url(conversation, "turns/"))
            conversation.memory.add(UserMessage("Something else"))
            gate.go.set()
            assert ask(api, conversation, None).json()["answer"]["text"] == "Half whole"
        assert first[-1]["type"] == "abort"
        assert said(conversation) == ["Hello", "Half ", "Something else", "Half whole"]

    def test_no_connection_is_in_a_transaction_afterwards(self, api: Client, conversation: Conversation) -> None:
        chunks_of(stream(api, conversation, "Hello"))
        assert not connection.in_atomic_block
