"""Turns without an answer: what was said is kept, people read a safe sentence, and the log has the rest."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client, override_settings
from rest_framework.exceptions import PermissionDenied

from chatmemory import AiMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.models import Conversation
from tests.support.api import url
from tests.support.assistants import Speaker, choose
from tests.support.turns import ask, chat, chunks_of, message_of, said, stream, ui_message

pytestmark = pytest.mark.django_db

SECRET = "postgres://klaus:hunter2@10.0.0.7 sk-12345"


class ServerError(Exception):
    """An error of a model's package."""


def at_once(messages: Any) -> Iterator[Any]:
    raise ServerError(SECRET)
    yield


def in_the_middle(messages: Any) -> Iterator[Any]:
    yield "Half an "
    raise ServerError(SECRET)


def after_a_tool(messages: Any) -> Iterator[Any]:
    if isinstance(messages[-1], ToolExecutionResultMessage):
        raise ServerError(SECRET)
    yield AiMessage(None, [ToolExecutionRequest("1", "look_up", '{"number": "7"}')])


def without_an_end(messages: Any) -> Iterator[Any]:
    yield "Half an "


def with_nothing(messages: Any) -> Iterator[Any]:
    yield AiMessage("")


def with_tools_only(messages: Any) -> Iterator[Any]:
    yield AiMessage(None, [ToolExecutionRequest("1", "look_up", '{"number": "7"}')])


FAILURES: list[Callable[[Any], Iterator[Any]]] = [
    at_once, in_the_middle, after_a_tool, without_an_end, with_nothing, with_tools_only,
]  # fmt: skip


@pytest.mark.parametrize("speak", FAILURES, ids=lambda speak: speak.__name__)
@pytest.mark.parametrize("debug", [False, True])
class TestModel:
    def test_its_failure_is_a_problem(
        self, api: Client, conversation: Conversation, caplog: Any, speak: Any, debug: bool
    ) -> None:
        choose(Speaker(speak))
        conversation.memory.set_window(limit=100)
        with override_settings(DEBUG=debug):
            answer = ask(api, conversation, "Hello")
        assert (answer.status_code, answer["Content-Type"]) == (502, "application/problem+json")
        assert answer.json()["type"] == "urn:chatmemory:problem:model-failed"
        self._check(api, conversation, caplog, answer.content.decode())

    def test_its_failure_is_a_part_of_a_stream(
        self, api: Client, conversation: Conversation, caplog: Any, speak: Any, debug: bool
    ) -> None:
        choose(Speaker(speak))
        conversation.memory.set_window(limit=100)
        with override_settings(DEBUG=debug):
            chunks = chunks_of(stream(api, conversation, "Hello"))
        assert chunks[-1]["type"] == "error"
        assert [chunk for chunk in chunks if chunk["type"] in {"finish", "abort"}] == []
        self._check(api, conversation, caplog, str(chunks))

    def _check(self, api: Client, conversation: Conversation, caplog: Any, told: str) -> None:
        assert "What was said is kept." in told
        assert not any(word in told for word in ("hunter2", "10.0.0.7", "sk-", "ServerError", "Traceback"))
        records = [record for record in caplog.records if record.levelno >= logging.ERROR]
        assert [record.name for record in records if record.exc_info] == ["chatmemory.rest"]
        assert said(conversation)[0] == "Hello"
        assert "Half" not in "".join(said(conversation))
        assert api.get(url(conversation, "turns/stream/")).status_code == 204
        choose(None)
        conversation.memory.set_window(limit=1000)
        assert ask(api, conversation, None).status_code == 200


def too_long_at(most: int) -> Callable[[Any], Iterator[Any]]:
    """A model that takes at most ``most`` messages; it says so by their number."""

    def speak(messages: Any) -> Iterator[Any]:
        if len(messages) > most:
            raise ServerError(f"prompt is too long: {len(messages)} tokens > {most} maximum {SECRET}")
        yield "It fits."
        yield AiMessage("It fits.")

    return speak


class TestTooLong:
    @pytest.fixture(autouse=True)
    def _said_before(self, conversation: Conversation) -> None:
        conversation.memory.set_window(window="messages", limit=100)
        conversation.memory.add(*(UserMessage(f"Say {number}") for number in range(9)))

    def test_the_response_tells_what_was_evicted(self, api: Client, conversation: Conversation) -> None:
        choose(Speaker(too_long_at(5)))
        answer = ask(api, conversation, "Hello")
        assert answer.status_code == 200
        gone = answer.json()["evicted"]
        assert gone
        assert {row["reason"] for row in gone} == {"too_long"}
        retained = conversation.messages.retained().count()
        assert retained == 11 - len(gone)
        listed = api.get(url(conversation, "messages/?reason=too_long")).json()
        assert len(listed["results"]) == len(gone)

    def test_a_stream_tells_it_too(self, api: Client, conversation: Conversation) -> None:
        choose(Speaker(too_long_at(5)))
        chunks = chunks_of(stream(api, conversation, "Hello"))
        told = [chunk["data"] for chunk in chunks if chunk["type"] == "data-memory"]
        assert {row["reason"] for data in told for row in data["evicted"]} == {"too_long"}
        assert chunks[-1]["type"] == "finish"

    def test_a_message_that_is_too_long_itself_is_a_problem(self, api: Client, conversation: Conversation) -> None:
        choose(Speaker(too_long_at(0)))
        answer = ask(api, conversation, "Hello")
        assert (answer.status_code, answer.json()["type"]) == (409, "urn:chatmemory:problem:context-too-long")
        assert "hunter2" not in answer.content.decode()
        assert said(conversation)[-1] == "Hello"


class TestOthers:
    def test_a_message_that_does_not_fit(self, api: Client, conversation: Conversation) -> None:
        conversation.memory.set_window(window="tokens", limit=5)
        answer = ask(api, conversation, "This is longer than the window is, which has room for a few tokens only")
        assert (answer.status_code, answer.json()["type"]) == (409, "urn:chatmemory:problem:window-too-small")
        assert stream(api, conversation, "This is longer than the window is, too, and no stream").status_code == 409

    def test_a_window_that_tools_fill(self, api: Client, conversation: Conversation) -> None:
        conversation.memory.set_window(limit=2)
        chunks = chunks_of(stream(api, conversation, "order 7"))
        assert [chunk["type"] for chunk in chunks if "tool" in chunk["type"]] == [
            "tool-input-available", "tool-output-available",
        ]  # fmt: skip
        assert "window is too small" in chunks[-1]["errorText"]

    def test_a_conversation_that_is_erased_meanwhile(self, api: Client, conversation: Conversation) -> None:
        def erase(messages: Any) -> Iterator[Any]:
            yield "Half "
            Conversation.objects.all().delete()
            yield AiMessage("Half whole")

        choose(Speaker(erase))
        chunks = chunks_of(stream(api, conversation, "Hello"))
        assert (chunks[-1]["type"], "erased" in chunks[-1]["errorText"]) == ("error", True)
        assert Conversation.objects.count() == 0

    def test_a_conversation_that_is_erased_before_json(self, api: Client, conversation: Conversation) -> None:
        def erase(messages: Any) -> Iterator[Any]:
            Conversation.objects.all().delete()
            yield AiMessage("Late")

        choose(Speaker(erase))
        assert ask(api, conversation, "Hello").status_code == 404

    def test_a_turn_that_is_stopped(self, api: Client, conversation: Conversation) -> None:
        def stop(messages: Any) -> Iterator[Any]:
            yield "Half "
            assert api.delete(url(conversation, "turns/")).status_code == 204
            yield AiMessage("Half whole")

        choose(Speaker(stop))
        chunks = chunks_of(stream(api, conversation, "Hello"))
        assert [chunk["type"] for chunk in chunks[-5:]] == [
            "text-end", "message-metadata", "data-memory", "finish-step", "abort",
        ]  # fmt: skip
        answer = ask(api, conversation, "Hello")
        assert (answer.status_code, answer.json()["type"]) == (409, "urn:chatmemory:problem:turn-interrupted")
        # A client that waits for the whole answer has read nothing of it.
        assert said(conversation) == ["Hello", "Half ", "Hello"]

    def test_to_stop_nothing_is_no_error(self, api: Client, conversation: Conversation) -> None:
        assert api.delete(url(conversation, "turns/")).status_code == 204

    def test_a_database_that_is_away(self, api: Client, conversation: Conversation) -> None:
        def fail(messages: Any) -> Iterator[Any]:
            raise OperationalError("database is locked")
            yield

        choose(Speaker(fail))
        answer = ask(api, conversation, "Hello")
        assert (answer.status_code, answer["Retry-After"]) == (503, "1")

    def test_an_error_that_is_meant_for_the_client(self, api: Client, conversation: Conversation) -> None:
        def refuse(messages: Any) -> Iterator[Any]:
            raise PermissionDenied("Your free messages are used up.")
            yield

        choose(Speaker(refuse))
        answer = ask(api, conversation, "Hello")
        assert (answer.status_code, answer.json()["detail"]) == (403, "Your free messages are used up.")
        assert chunks_of(stream(api, conversation, "Hello"))[-1]["errorText"] == "Your free messages are used up."

    def test_a_call_that_was_interrupted_is_told_at_the_next_turn(
        self, api: Client, conversation: Conversation
    ) -> None:
        call = AiMessage(None, [ToolExecutionRequest("1", "look_up", "{}")])
        conversation.memory.add(UserMessage("order 1"), call)
        chunks = chunks_of(chat(api, conversation, ui_message("Hello")))
        told = [chunk["data"]["added"] for chunk in chunks if chunk["type"] == "data-memory"]
        assert [[item["type"] for item in added] for added in told] == [["TOOL_EXECUTION_RESULT"], ["USER"], ["AI"]]
        shown = api.get(url(conversation, "turns/")).json()["messages"]
        assert [one["id"] for one in shown] == ["0", "answer-0", "3", "answer-3"]
        assert "interrupted" in shown[1]["parts"][-1]["errorText"]

    def test_a_retry_shows_what_the_failed_turn_had_done(self, api: Client, conversation: Conversation) -> None:
        choose(Speaker(after_a_tool))
        assert chunks_of(stream(api, conversation, "order 7", idempotency_key="1"))[-1]["type"] == "error"
        choose(None)
        message = message_of(chunks_of(stream(api, conversation, "order 7", idempotency_key="1")))
        kinds = [part["type"] for part in message["parts"]]
        assert kinds == ["step-start", "dynamic-tool", "step-start", "text"]
        [_question, stored] = api.get(url(conversation, "turns/")).json()["messages"]
        assert message["id"] == stored["id"]
        assert kinds == [part["type"] for part in stored["parts"]]
