"""The demo's chat page and the address that makes a model answer, without a browser."""

# ruff: noqa: F811 - fixtures that are imported

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections
from django.test import Client
from django.utils import timezone

from chatmemory import AiMessage, ChatMessage, ToolExecutionRequest, UserMessage
from chatmemory.models import Conversation
from demo_project.chat import reply as reply_module
from demo_project.chat.reply import reply_events
from demo_project.chat.speakers import EmbeddedBot
from tests.support.assistant_models import ScriptedModel
from tests.support.demo_chat import conversation, demo_chat, events_of, history, kinds, types  # noqa: F401
from tests.support.factories import ConversationFactory, UserFactory


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

    def test_a_conversation_that_is_not_ones_own_is_not_found(self, api: Client, conversation: Conversation) -> None:
        assert api.get(f"/chat/{conversation.pk}/").status_code == 200
        response: Any = api.get(f"/chat/{ConversationFactory().pk}/")
        assert response.status_code == 404
        assert b"There is no such conversation" in response.content

    def test_without_a_script_it_says_so(self, api: Client) -> None:
        page = api.get("/").content.decode()
        assert re.search(r"<noscript>.*This page needs JavaScript.*</noscript>", page)

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
        assert "forgotten" in answers[-1]
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
        assert error["again"] is False, "it is forgotten for good"
        assert types(conversation) == ["USER"]

    def test_who_leaves_early_leaves_nothing_behind(self, conversation: Conversation) -> None:
        conversation.memory.add(UserMessage("Hello"))
        events = reply_events(conversation, EmbeddedBot())
        assert next(events)["event"] == "delta"
        events.close()  # type: ignore[attr-defined]
        assert types(conversation) == ["SYSTEM", "USER"]
        assert kinds(list(reply_events(conversation, EmbeddedBot()))) == ["delta", "change", "done"]

    def test_two_at_once(self, conversation: Conversation, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reply_module, "_WAIT", 0.01)
        conversation.memory.add(UserMessage("Hello"))
        one = reply_events(conversation, EmbeddedBot())
        next(one)
        [error] = reply_events(conversation, EmbeddedBot())
        assert (error["event"], error["again"]) == ("error", True)
        assert "Another turn" in error["detail"]
        assert list(one)[-1] == {"event": "done"}
        assert types(conversation) == ["SYSTEM", "USER", "AI"]

    @pytest.mark.django_db(transaction=True)
    def test_who_waited_for_the_same_answer_reads_it(self, conversation: Conversation) -> None:
        conversation.memory.add(UserMessage("Hello"))
        answering = reply_events(conversation, EmbeddedBot())
        next(answering)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(in_thread, lambda: list(reply_events(conversation, EmbeddedBot())))
            list(answering)
            assert kinds(waiting.result())[-1] in ("stale", "done")
        assert types(conversation) == ["SYSTEM", "USER", "AI"]

    def test_a_reply_that_was_taken_over(self, conversation: Conversation) -> None:
        conversation.memory.add(UserMessage("Hello"))
        one = reply_events(conversation, ScriptedModel("One"))
        next(one)
        Conversation.objects.filter(pk=conversation.pk).update(turn_until=timezone.now() - timedelta(seconds=1))
        assert kinds(list(reply_events(conversation, ScriptedModel("Other")))) == ["delta", "change", "done"]
        assert list(one) == [{"event": "stale"}]
        assert history(conversation)[-1] == AiMessage("Other")

    def test_a_reply_that_was_stopped(self, api: Client, conversation: Conversation) -> None:
        conversation.memory.add(UserMessage("Hello"))
        one = reply_events(conversation, ScriptedModel("One"))
        next(one)
        assert api.delete(f"/chat/{conversation.pk}/reply/").status_code == 204
        assert kinds(events_of(api, conversation)) == ["delta", "change", "done"]
        assert list(one) == [{"event": "stale"}]
        assert api.delete(f"/chat/{ConversationFactory().pk}/reply/").status_code == 404

    def test_a_conversation_that_is_erased_meanwhile(self, conversation: Conversation) -> None:
        conversation.memory.add(UserMessage("Hello"))
        events = reply_events(conversation, EmbeddedBot())
        next(events)
        Conversation.objects.get(pk=conversation.pk).delete()
        assert list(events)[-1] == {"event": "error", "detail": "This conversation has been erased.", "again": True}

    def test_a_bug_is_an_event_too(self, conversation: Conversation, caplog: pytest.LogCaptureFixture) -> None:
        conversation.memory.add(UserMessage("Hello"))
        [event] = reply_events(conversation, ScriptedModel(ZeroDivisionError("oops")))
        assert "The demo itself failed" in event["detail"]
        assert "oops" in caplog.text

    def test_a_model_that_never_stops_calling_tools(
        self, conversation: Conversation, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(reply_module, "_MAX_INVOCATIONS", 2)
        conversation.memory.add(UserMessage("Hello"))
        request = ToolExecutionRequest(id="1", name="calculator", arguments='{"expression": "1+1"}')
        call = AiMessage(tool_execution_requests=[request])
        events = list(reply_events(conversation, ScriptedModel(call, call, call)))
        assert kinds(events) == ["change"] * 4 + ["error"]
        assert "2 times in a row" in events[-1]["detail"]


def in_thread(work: Callable[[], Any]) -> Any:
    """What it gives, in a thread that leaves no connection behind."""
    try:
        return work()
    finally:
        connections.close_all()
