"""The demo's chat page, and the assistant that answers there, without a browser."""

# ruff: noqa: F811 - fixtures that are imported

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from chatmemory import AiMessage, SystemMessage, ToolExecutionRequest, UserMessage
from chatmemory.models import Conversation
from demo_project.chat import assistant as assistant_module
from tests.support.assistant_models import ScriptedModel
from tests.support.demo_chat import conversation, demo_chat, events_of, history, kinds, types  # noqa: F401
from tests.support.factories import ConversationFactory, UserFactory
from tests.support.turns import stream


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
        assert client.get("/", follow=True).status_code == 200
        assert client.post("/sign-out/")["Location"] == "/sign-in/"

    @pytest.mark.parametrize("path", ["/", "/chat/01a1fca1-2ec4-707f-8871-493a30708057/", "/sign-in/"])
    def test_nothing_is_inline_and_nothing_from_elsewhere(self, user: Any, path: str) -> None:
        client = Client()
        if path != "/sign-in/":
            client.force_login(user)
        response: Any = client.get(path, follow=True)
        policy = response["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        page = response.content.decode()
        assert not re.search(
            r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=|\stype=\"application/json\")|https?://", page
        )

    def test_a_conversation_that_is_not_ones_own_is_not_found(self, api: Client, conversation: Conversation) -> None:
        assert api.get(f"/chat/{conversation.pk}/").status_code == 200
        response: Any = api.get(f"/chat/{ConversationFactory().pk}/")
        assert response.status_code == 404
        assert b"There is no such conversation" in response.content

    def test_without_a_script_it_says_so(self, api: Client) -> None:
        page = api.get("/", follow=True).content.decode()
        assert re.search(r"<noscript>.*This chat needs JavaScript.*</noscript>", page)

    def test_the_first_visit_starts_a_chat_and_the_next_one_finds_it(self, api: Client, user: Any) -> None:
        first: Any = api.get("/")
        assert api.get("/")["Location"] == first["Location"]
        [chat] = Conversation.objects.owned_by(user)
        assert first["Location"] == f"/chat/{chat.pk}/"
        assert (chat.title, chat.limit) == ("", 8)
        assert [type(message) for message in history(chat)] == [SystemMessage]

    def test_a_new_chat_is_another_one(self, api: Client, user: Any) -> None:
        api.get("/")
        made: Any = api.post("/new/")
        assert made.status_code == 201
        assert api.get("/")["Location"] == f"/chat/{made.json()['id']}/"
        assert Conversation.objects.owned_by(user).count() == 2

    def test_only_who_signed_in_starts_a_chat(self, user: Any) -> None:
        response: Any = Client().post("/new/")
        assert (response.status_code, response.json()) == (403, {"detail": "You are signed out."})
        client = Client(enforce_csrf_checks=True)
        client.force_login(user)
        assert client.get("/new/").status_code == 405
        assert client.post("/new/").status_code == 403
        assert not Conversation.objects.exists()

    def test_it_links_to_this_conversation_in_the_admin(self, api: Client, conversation: Conversation) -> None:
        page = api.get(f"/chat/{conversation.pk}/").content.decode()
        assert f'href="/admin/chatmemory/conversation/{conversation.pk}/change/"' in page

    def test_it_says_which_model_answers(self, api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        assert b"the built-in bot" in api.get("/", follow=True).content
        monkeypatch.setenv("CHATMEMORY_DEMO_MODEL", "tiny")
        monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:11434/v1")
        assert b"tiny at localhost:11434" in api.get("/", follow=True).content


class TestAssistant:
    def test_the_bot_answers_word_by_word(self, api: Client, conversation: Conversation) -> None:
        events = events_of(api, conversation, "My name is Ann")
        assert kinds(events) == ["change", "delta", "change", "done"]
        text = "".join(event["text"] for event in events if event["event"] == "delta")
        change = events[-2]
        assert text == change["added"][0]["text"] == history(conversation)[-1].text  # type: ignore[attr-defined]
        assert change["memory"]["messages"] == 3

    def test_tools_are_called_in_parallel_through_messages(self, api: Client, conversation: Conversation) -> None:
        events = events_of(api, conversation, "Look up orders 1002 and 1003")
        assert kinds(events) == ["change", "change", "change", "delta", "change", "done"]
        assert types(conversation)[2:] == ["AI", "TOOL_EXECUTION_RESULT", "TOOL_EXECUTION_RESULT", "AI"]
        call, *results, answer = history(conversation)[2:]
        assert isinstance(call, AiMessage)
        assert isinstance(answer, AiMessage)
        assert [request.id for request in call.tool_execution_requests] == [result.id for result in results]  # type: ignore[attr-defined]
        assert answer.text == (
            "Order 1002: two mugs, being packed, leave tomorrow. Order 1003: a bread knife, delivered on Monday."
        )

    def test_what_left_the_memory_is_forgotten(self, api: Client, conversation: Conversation) -> None:
        said = ["My name is Ann", "What is my name?", "Hello", "Hello", "Hello", "Hello", "What is my name?"]
        answers = [events_of(api, conversation, text)[-2]["added"][0]["text"] for text in said]
        assert answers[1] == "You said:\n“My name is Ann”"
        assert "forgotten" in answers[-1]
        assert "Ann" not in answers[-1]

    @pytest.mark.slow
    def test_with_recall_it_finds_again_what_left_the_memory(self, api: Client, conversation: Conversation) -> None:
        page = f"/chat/{conversation.pk}/"
        assert "Recall: off" in api.get(page).content.decode()
        assert api.post(f"{page}recall/")["Location"] == page
        assert "Recall: on" in api.get(page).content.decode()
        said = ["My name is Ann", "Hello", "Hello", "Hello", "Hello", "What is my name?"]
        answers = [events_of(api, conversation, text)[-2]["added"][0]["text"] for text in said]
        assert re.fullmatch(
            r"I no longer have that in mind, but on \w+day [-\d]+ at [\d:]+ you told me:\n“My name is Ann”", answers[-1]
        )
        assert types(conversation)[-4:] == ["USER", "AI", "TOOL_EXECUTION_RESULT", "AI"]
        api.post(f"{page}recall/")
        events_of(api, conversation, "Hello")
        for _ in range(4):
            events_of(api, conversation, "Hello")
        assert "forgotten" in events_of(api, conversation, "What is my name?")[-2]["added"][0]["text"]

    def test_only_who_signed_in_switches_recall(self, conversation: Conversation) -> None:
        response: Any = Client().post(f"/chat/{conversation.pk}/recall/")
        assert response["Location"].startswith("/sign-in/")

    def test_it_goes_on_after_a_call_whose_result_is_missing(self, api: Client, conversation: Conversation) -> None:
        request = ToolExecutionRequest(id="1", name="look_up_order", arguments='{"number": "1001"}')
        conversation.memory.add(UserMessage("Where is order 1001?"), AiMessage(tool_execution_requests=[request]))
        assert kinds(events_of(api, conversation))[-3:] == ["delta", "change", "done"]
        assert types(conversation)[1:] == ["USER", "AI", "TOOL_EXECUTION_RESULT", "AI"]

    def test_a_message_larger_than_the_window(self, api: Client, user: Any) -> None:
        conversation = ConversationFactory(owner=user, window="tokens", limit=20)
        response = stream(api, conversation, "word " * 50)
        assert (response.status_code, response.json()["type"]) == (409, "urn:chatmemory:problem:window-too-small")
        assert types(conversation) == ["USER"]

    def test_a_model_that_never_stops_calling_tools(
        self, api: Client, conversation: Conversation, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        conversation.memory.set_window(limit=100)
        request = ToolExecutionRequest(id="1", name="look_up_order", arguments='{"number": "1001"}')
        model = ScriptedModel(*[AiMessage(tool_execution_requests=[request])] * 9)
        monkeypatch.setattr(assistant_module, "chosen_speaker", lambda: model)
        assert kinds(events_of(api, conversation, "Hello"))[-1] == "error"
        assert len(model.asked) == 7, "six rounds of tools, and the call that was too many"

    @pytest.mark.django_db(transaction=True)
    def test_a_chat_with_the_bot_is_named_by_the_first_words(self, api: Client, user: Any) -> None:
        made: Any = api.post("/new/").json()
        chat = Conversation.objects.get(pk=made["id"])
        events_of(api, chat, f"My name is Ann{'!' * 60}\nand more")
        chat.refresh_from_db()
        assert chat.title == f"My name is Ann{'!' * 45}…"
        events_of(api, chat, "Hello")
        chat.refresh_from_db()
        assert chat.title.startswith("My name")

    def test_a_title_of_ones_own_stays(self, api: Client, conversation: Conversation) -> None:
        title = conversation.title
        events_of(api, conversation, "Hello")
        conversation.refresh_from_db()
        assert title
        assert conversation.title == title
