"""The demo's chat page and the address that makes a model answer, without a browser."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from chatmemory import AiMessage, SystemMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.messages import ChatMessage
from chatmemory.models import Conversation
from demo_project.chat import reply as reply_module
from demo_project.chat import speakers
from demo_project.chat.reply import reply_events
from demo_project.chat.speakers import EmbeddedBot, chosen_speaker
from tests.factories import ConversationFactory, UserFactory
from tests.openai_server import ModelServer, calls, model_server, says  # noqa: F401

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def _demo(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo's addresses and templates, no model of the developer's, and no pauses."""
    settings.ROOT_URLCONF = "demo_project.urls"
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": [ROOT / "templates"]}]
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "CHATMEMORY_DEMO_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(speakers, "PAUSE", 0)


@pytest.fixture
def conversation(user: Any) -> Conversation:
    conversation: Conversation = ConversationFactory(owner=user, window="messages", limit=8)
    conversation.memory.add(SystemMessage("Be brief."))
    return conversation


def events_of(client: Client, conversation: Conversation) -> list[dict[str, Any]]:
    response: Any = client.post(f"/chat/{conversation.pk}/reply/")
    assert response.status_code == 200
    assert response["Content-Type"] == "application/x-ndjson"
    return [json.loads(line) for line in b"".join(response.streaming_content).splitlines()]


def kinds(events: list[dict[str, Any]]) -> list[str]:
    """The events, several pieces of an answer as one."""
    names = [event["event"] for event in events]
    return [name for index, name in enumerate(names) if name != "delta" or names[index - 1 : index] != ["delta"]]


def history(conversation: Conversation) -> list[ChatMessage]:
    return [row.message for row in conversation.messages.history()]


def types(conversation: Conversation) -> list[str]:
    return [row.type for row in conversation.messages.history()]


class TestPage:
    @pytest.mark.django_db
    def test_it_is_for_those_who_signed_in(self) -> None:
        response: Any = Client().get("/")
        assert (response.status_code, response["Location"]) == (302, "/sign-in/?next=/")

    @pytest.mark.django_db
    def test_signing_in_leads_to_the_chat(self) -> None:
        user = UserFactory(username="demo")
        user.set_password("demo")
        user.save()
        client = Client()
        assert b"Try again" in client.post("/sign-in/", {"username": "demo", "password": "no"}).content
        response: Any = client.post("/sign-in/", {"username": "demo", "password": "demo"})
        assert (response.status_code, response["Location"]) == (302, "/")
        assert client.get("/").status_code == 200
        assert client.post("/sign-out/")["Location"] == "/sign-in/"

    @pytest.mark.parametrize("path", ["/", "/chat/01a1fca1-2ec4-707f-8871-493a30708057/", "/sign-in/"])
    def test_nothing_is_inline_and_nothing_from_elsewhere(self, user: Any, path: str) -> None:
        client = Client()
        if path != "/sign-in/":
            client.force_login(user)
        response: Any = client.get(path)
        policy = response["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        page = response.content.decode()
        assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)|https?://", page)

    def test_without_a_script_it_says_so(self, api: Client) -> None:
        page = api.get("/").content.decode()
        assert re.search(r"<noscript>.*it needs JavaScript.*</noscript>", page)

    def test_it_says_which_model_answers(self, api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        assert b"the built-in bot" in api.get("/").content
        monkeypatch.setenv("CHATMEMORY_DEMO_MODEL", "tiny")
        monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:11434/v1")
        assert b"tiny at localhost:11434" in api.get("/").content


class TestAccess:
    def test_signed_out(self, conversation: Conversation) -> None:
        response: Any = Client().post(f"/chat/{conversation.pk}/reply/")
        assert (response.status_code, response.json()) == (403, {"detail": "You are signed out."})

    def test_another_users_conversation(self, api: Client) -> None:
        other = ConversationFactory()
        other.memory.add(UserMessage("Hi"))
        assert api.post(f"/chat/{other.pk}/reply/").status_code == 404
        assert len(history(other)) == 1

    def test_only_post_and_only_with_a_csrf_token(self, user: Any, conversation: Conversation) -> None:
        client = Client(enforce_csrf_checks=True)
        client.force_login(user)
        assert client.get(f"/chat/{conversation.pk}/reply/").status_code == 405
        assert client.post(f"/chat/{conversation.pk}/reply/").status_code == 403


class TestReply:
    def test_the_bot_answers_word_by_word(self, api: Client, conversation: Conversation) -> None:
        conversation.memory.add(UserMessage("My name is Ann"))
        events = events_of(api, conversation)
        assert kinds(events) == ["delta", "change", "done"]
        text = "".join(event["text"] for event in events if event["event"] == "delta")
        change = events[-2]
        assert text == change["added"][0]["text"] == history(conversation)[-1].text  # type: ignore[attr-defined]
        assert change["memory"] == {
            "window": "messages",
            "limit": 8,
            "messages": 3,
            "tokens": change["memory"]["tokens"],
        }

    def test_tools_are_called_in_parallel_through_messages(self, api: Client, conversation: Conversation) -> None:
        conversation.memory.add(UserMessage("Calculate 3*4 and look up order 1002"))
        events = events_of(api, conversation)
        assert kinds(events) == ["change", "change", "delta", "change", "done"]
        assert types(conversation)[2:] == ["AI", "TOOL_EXECUTION_RESULT", "TOOL_EXECUTION_RESULT", "AI"]
        call, *results, answer = history(conversation)[2:]
        assert isinstance(call, AiMessage)
        assert isinstance(answer, AiMessage)
        assert [request.id for request in call.tool_execution_requests] == [result.id for result in results]  # type: ignore[attr-defined]
        assert answer.text == "3*4 = 12. Order 1002: two mugs, being packed, leave tomorrow."

    def test_what_left_the_memory_is_forgotten(self, api: Client, conversation: Conversation) -> None:
        answers = []
        for text in ["My name is Ann", "What is my name?", "What is 1+1?", "What is 2+2?", "What is my name?"]:
            conversation.memory.add(UserMessage(text))
            answers.append(events_of(api, conversation)[-2]["added"][0]["text"])
        assert answers[1] == "Your name is Ann."
        assert "no longer" in answers[-1]
        assert "Ann" not in answers[-1]

    @pytest.mark.parametrize("last", [None, AiMessage("Hi")])
    def test_nothing_happens_where_nobody_waits(
        self, api: Client, conversation: Conversation, last: ChatMessage | None
    ) -> None:
        if last is not None:
            conversation.memory.add(last)
        before = history(conversation)
        assert kinds(events_of(api, conversation)) == ["done"]
        assert history(conversation) == before

    def test_it_goes_on_after_a_call_whose_result_is_missing(self, api: Client, conversation: Conversation) -> None:
        request = ToolExecutionRequest(id="1", name="calculator", arguments='{"expression": "6*7"}')
        conversation.memory.add(UserMessage("6*7"), AiMessage(tool_execution_requests=[request]))
        assert kinds(events_of(api, conversation)) == ["change", "delta", "change", "done"]
        assert kinds(events_of(api, conversation)) == ["done"]
        assert types(conversation)[1:] == ["USER", "AI", "TOOL_EXECUTION_RESULT", "AI"]

    def test_a_message_larger_than_the_window(self, api: Client, user: Any) -> None:
        conversation = ConversationFactory(owner=user, window="tokens", limit=20)
        conversation.memory.add(UserMessage("word " * 50))
        [error] = events_of(api, conversation)
        assert "window is too small" in error["detail"]
        assert types(conversation) == ["USER"]

    def test_who_leaves_early_leaves_nothing_behind(self, conversation: Conversation) -> None:
        conversation.memory.add(UserMessage("Hello"))
        events = reply_events(conversation, EmbeddedBot())
        assert next(events)["event"] == "delta"
        events.close()  # type: ignore[attr-defined]
        assert types(conversation) == ["SYSTEM", "USER"]
        assert kinds(list(reply_events(conversation, EmbeddedBot()))) == ["delta", "change", "done"]

    def test_two_at_once_with_the_same_answer(self, conversation: Conversation) -> None:
        conversation.memory.add(UserMessage("Hello"))
        one = reply_events(conversation, EmbeddedBot())
        next(one)
        other = list(reply_events(conversation, EmbeddedBot()))
        rest = list(one)
        assert rest[-2]["added"] == other[-2]["added"]
        assert types(conversation) == ["SYSTEM", "USER", "AI"]

    def test_two_at_once_with_different_answers(self, conversation: Conversation) -> None:
        conversation.memory.add(UserMessage("Hello"))
        one = reply_events(conversation, Scripted("One"))
        next(one)
        assert kinds(list(reply_events(conversation, Scripted("Other")))) == ["delta", "change", "done"]
        assert list(one) == [{"event": "stale"}]
        assert history(conversation)[-1] == AiMessage("Other")

    def test_a_conversation_that_is_erased_meanwhile(self, conversation: Conversation) -> None:
        conversation.memory.add(UserMessage("Hello"))
        events = reply_events(conversation, EmbeddedBot())
        next(events)
        Conversation.objects.get(pk=conversation.pk).delete()
        assert list(events)[-1] == {"event": "error", "detail": "This conversation has been erased."}

    def test_a_bug_is_an_event_too(self, conversation: Conversation, caplog: pytest.LogCaptureFixture) -> None:
        conversation.memory.add(UserMessage("Hello"))
        [event] = reply_events(conversation, Scripted(ZeroDivisionError("oops")))
        assert "The demo itself failed" in event["detail"]
        assert "oops" in caplog.text

    def test_a_model_that_never_stops_calling_tools(
        self, conversation: Conversation, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(reply_module, "_MAX_STEPS", 4)
        conversation.memory.add(UserMessage("Hello"))
        request = ToolExecutionRequest(id="1", name="calculator", arguments='{"expression": "1+1"}')
        events = list(reply_events(conversation, Scripted(AiMessage(tool_execution_requests=[request]))))
        assert kinds(events) == ["change"] * 4 + ["error"]
        assert "2 times in a row" in events[-1]["detail"]


class Scripted:
    """A model that says one thing, or fails."""

    name = "scripted"

    def __init__(self, outcome: str | AiMessage | Exception) -> None:
        self._outcome = outcome

    def speak(self, messages: Sequence[ChatMessage]) -> Generator[str, None, AiMessage]:
        if isinstance(self._outcome, Exception):
            raise self._outcome
        if isinstance(self._outcome, AiMessage):
            return self._outcome
        yield self._outcome
        return AiMessage(self._outcome)


class TestChoice:
    def test_a_key_alone_costs_nobody_money(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "secret")
        assert isinstance(chosen_speaker(), EmbeddedBot)

    def test_without_the_package(
        self, api: Client, conversation: Conversation, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CHATMEMORY_DEMO_MODEL", "tiny")
        monkeypatch.setitem(sys.modules, "openai", None)
        conversation.memory.add(UserMessage("Hello"))
        [error] = events_of(api, conversation)
        assert error["detail"] == "The package openai is missing. Install it: pip install openai"


class TestOpenAi:
    @pytest.fixture(autouse=True)
    def _asked(self, conversation: Conversation) -> Iterator[None]:
        """Somebody waits for an answer, and whatever fails, what they said stays as it is."""
        conversation.memory.add(UserMessage("What is 3*4, and where is order 1002?"))
        said = history(conversation)
        yield
        assert history(conversation)[: len(said)] == said

    def test_it_streams(self, api: Client, conversation: Conversation, model_server: ModelServer) -> None:  # noqa: F811
        model_server.stream(says("Hel", "lo", "!"))
        events = events_of(api, conversation)
        assert [event["text"] for event in events if event["event"] == "delta"] == ["Hel", "lo", "!"]
        assert history(conversation)[-1] == AiMessage("Hello!")
        [request] = model_server.requests
        assert (request["path"], request["key"]) == ("/v1/chat/completions", "Bearer secret")
        assert (request["model"], request["stream"]) == ("tiny", True)
        assert [tool["function"]["name"] for tool in request["tools"]] == ["calculator", "look_up_order"]
        assert request["messages"] == [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "What is 3*4, and where is order 1002?"},
        ]

    def test_it_calls_tools_in_parallel(
        self,
        api: Client,
        conversation: Conversation,
        model_server: ModelServer,  # noqa: F811
    ) -> None:
        model_server.stream(
            calls(("a", "calculator", '{"expression": "3*4"}'), ("b", "look_up_order", '{"number": 1002}'))
        )
        model_server.stream(says("12, and it is being packed."))
        assert kinds(events_of(api, conversation)) == ["change", "change", "delta", "change", "done"]
        sent = model_server.requests[1]["messages"][2:]
        assert [(call["id"], call["function"]["arguments"]) for call in sent[0]["tool_calls"]] == [
            ("a", '{"expression": "3*4"}'),
            ("b", '{"number": 1002}'),
        ]
        assert [(message["role"], message["tool_call_id"], message["content"]) for message in sent[1:]] == [
            ("tool", "a", "3*4 = 12"),
            ("tool", "b", "Order 1002: two mugs, being packed, leave tomorrow."),
        ]

    @pytest.mark.parametrize(
        ("status", "message", "words"),
        [
            (500, "boom", ["tiny at 127.0.0.1", "(500)", "boom"]),
            (401, "bad key", ["refused the key (401)", "OPENAI_API_KEY", "bad key"]),
            (404, "no such model", ["CHATMEMORY_DEMO_MODEL", "no such model"]),
            (429, "slow down", ["(429)", "slow down"]),
        ],
    )
    def test_errors_say_what_to_do_and_can_be_tried_again(
        self,
        api: Client,
        conversation: Conversation,
        model_server: ModelServer,  # noqa: F811
        status: int,
        message: str,
        words: list[str],
    ) -> None:
        model_server.fail(status, message)
        model_server.stream(says("Hello"))
        [error] = events_of(api, conversation)
        assert all(word in error["detail"] for word in words)
        assert types(conversation) == ["SYSTEM", "USER"]
        assert kinds(events_of(api, conversation)) == ["delta", "change", "done"]
        assert types(conversation) == ["SYSTEM", "USER", "AI"]

    def test_a_connection_that_breaks_in_the_middle(
        self,
        api: Client,
        conversation: Conversation,
        model_server: ModelServer,  # noqa: F811
    ) -> None:
        model_server.break_off(says("Hel", finish=None))
        model_server.stream(says("Hello"))
        events = events_of(api, conversation)
        assert kinds(events) == ["delta", "error"]
        assert "broke off" in events[-1]["detail"]
        assert types(conversation) == ["SYSTEM", "USER"]
        events_of(api, conversation)
        assert types(conversation) == ["SYSTEM", "USER", "AI"]

    def test_an_error_in_the_middle(self, api: Client, conversation: Conversation, model_server: ModelServer) -> None:  # noqa: F811
        model_server.stream([*says("Hel", finish=None), {"error": {"message": "out of memory"}}])
        assert "out of memory" in events_of(api, conversation)[-1]["detail"]
        assert types(conversation) == ["SYSTEM", "USER"]

    def test_an_answer_that_just_ends(self, api: Client, conversation: Conversation, model_server: ModelServer) -> None:  # noqa: F811
        model_server.stream(says("Hel", finish=None))
        assert "broke off" in events_of(api, conversation)[-1]["detail"]
        assert types(conversation) == ["SYSTEM", "USER"]

    def test_an_empty_answer(self, api: Client, conversation: Conversation, model_server: ModelServer) -> None:  # noqa: F811
        model_server.stream(says())
        assert "empty answer" in events_of(api, conversation)[-1]["detail"]

    def test_no_server(self, api: Client, conversation: Conversation, model_server: ModelServer) -> None:  # noqa: F811
        model_server.close()
        assert "cannot be reached" in events_of(api, conversation)[-1]["detail"]

    def test_a_failure_after_the_tools_repeats_no_tool(
        self,
        api: Client,
        conversation: Conversation,
        model_server: ModelServer,  # noqa: F811
    ) -> None:
        model_server.stream(calls(("a", "calculator", '{"expression": "3*4"}')))
        model_server.fail(500, "boom")
        assert kinds(events_of(api, conversation)) == ["change", "change", "error"]
        model_server.stream(says("12"))
        assert kinds(events_of(api, conversation)) == ["delta", "change", "done"]
        assert types(conversation) == ["SYSTEM", "USER", "AI", "TOOL_EXECUTION_RESULT", "AI"]

    def test_results_without_their_call_are_not_sent(
        self,
        api: Client,
        conversation: Conversation,
        model_server: ModelServer,  # noqa: F811
    ) -> None:
        conversation.memory.set([ToolExecutionResultMessage("gone", "calculator", "12"), UserMessage("And now?")])
        conversation.memory.add(UserMessage("Well?"))
        model_server.stream(says("Hello"))
        assert kinds(events_of(api, conversation)) == ["delta", "change", "done"]
        assert [message["role"] for message in model_server.requests[0]["messages"]] == ["user", "user"]

    def test_a_window_too_small_for_a_call_and_its_results(
        self,
        api: Client,
        conversation: Conversation,
        model_server: ModelServer,  # noqa: F811
    ) -> None:
        conversation.set_window(limit=2)
        requests = [(id, "calculator", '{"expression": "3*4"}') for id in "ab"]
        model_server.stream(calls(*requests))
        error = events_of(api, conversation)[-1]
        assert "too small for a tool call and its results" in error["detail"]
