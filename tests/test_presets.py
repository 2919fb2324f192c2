"""Presets: settings of a window that suit a use, by one name everywhere."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client, override_settings

from chatmemory import AiMessage, UserMessage
from chatmemory.checks import check_settings
from chatmemory.core.window import PRESETS
from chatmemory.models import Conversation
from tests.support.api import url
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db

CHAT = {
    "low_water": 70,
    "whole_turns": True,
    "keep_tool_results": None,
    "compact_at": None,
    "compact_keep": 50,
    "compact_keep_calls": None,
}


def window_of(conversation: Conversation) -> dict[str, Any]:
    conversation.refresh_from_db()
    return {name: getattr(conversation, name) for name in CHAT}


def talk(**columns: Any) -> Conversation:
    conversation: Conversation = ConversationFactory(**columns)
    for number in range(20):
        conversation.memory.add(UserMessage(f"Question {number} {'word ' * 10}"), AiMessage("Reply"))
    return conversation


@pytest.mark.parametrize("preset", PRESETS)
def test_each_can_be_set(preset: str) -> None:
    conversation = ConversationFactory(low_water=33)
    conversation.memory.set_window(preset=preset)
    assert window_of(conversation) == PRESETS[preset].settings


def test_the_default_is_langchain4j() -> None:
    assert window_of(ConversationFactory()) == PRESETS["langchain4j"].settings


def test_what_is_given_beside_it_holds() -> None:
    conversation = ConversationFactory(limit=100)
    conversation.memory.set_window(preset="agent", low_water=50, keep_tool_results=None, limit=500)
    assert window_of(conversation) == CHAT | {"low_water": 50}
    assert conversation.limit == 500


def test_it_can_be_tried_and_replayed() -> None:
    conversation = talk(limit=200)
    assert conversation.memory.try_window(preset="chat", limit=150).evicted
    assert conversation.memory.replay(preset="long") == conversation.memory.replay(low_water=70, whole_turns=True)
    assert conversation.low_water == 100


@pytest.mark.parametrize("wrong", ["chatty", "", 5])
def test_one_that_does_not_exist(wrong: Any) -> None:
    with pytest.raises(ValueError, match="preset must be one of langchain4j, chat, agent, long, but is: "):
        ConversationFactory().memory.set_window(preset=wrong)


class TestProject:
    def test_new_conversations_have_it(self) -> None:
        with override_settings(CHATMEMORY={"WINDOW": {"preset": "agent", "low_water": 60}}):
            assert window_of(Conversation.objects.create()) == CHAT | {"low_water": 60, "keep_tool_results": 3}
            assert check_settings() == []

    def test_one_that_does_not_exist_is_an_error(self) -> None:
        with override_settings(CHATMEMORY={"WINDOW": {"preset": "chatty"}}):
            [error] = check_settings()
        assert error.id == "chatmemory.E004"
        assert "one of langchain4j, chat, agent, long" in error.hint


class TestRest:
    def test_a_new_conversation(self, api: Client) -> None:
        answer = api.post("/api/conversations/", {"preset": "long", "limit": 500}, content_type="application/json")
        assert answer.status_code == 201, answer.content
        made = answer.json()
        assert {name: made[name] for name in CHAT} == PRESETS["long"].settings
        assert "preset" not in made

    def test_a_change_and_a_trial(self, api: Client, user: Any) -> None:
        conversation = ConversationFactory(owner=user)
        for method, path in (("patch", ""), ("post", "memory/preview/")):
            send = getattr(api, method)
            answer = send(url(conversation, path), {"preset": "chat", "low_water": 80}, content_type="application/json")
            assert answer.status_code == 200, answer.content
        assert window_of(conversation) == CHAT | {"low_water": 80}

    def test_one_that_does_not_exist(self, api: Client, user: Any) -> None:
        conversation = ConversationFactory(owner=user)
        answer = api.patch(url(conversation), {"preset": "chatty"}, content_type="application/json")
        assert answer.status_code == 400
        assert answer.json()["errors"][0]["place"] == "preset"


class TestCommand:
    def run(self, *arguments: str) -> str:
        out = StringIO()
        call_command("chatmemory_window", *arguments, stdout=out, stderr=StringIO())
        return out.getvalue()

    def test_it_sets_the_windows_that_exist(self) -> None:
        first, second = talk(limit=300), talk(limit=300, window="tokens")
        kept = first.messages.retained().count()
        told = self.run("--preset", "chat", "--limit", "200", "--dry-run")
        assert window_of(first) == PRESETS["langchain4j"].settings
        gone = 2 * (kept - len(first.memory.try_window(preset="chat", limit=200).retained))
        assert told == f"Would set conversations: 2, evicted messages: {gone}.\n"
        assert self.run("--preset", "chat", "--limit", "200") == told.replace("Would set", "Set")
        assert window_of(first) == window_of(second) == CHAT
        assert first.messages.retained().count() == kept - gone / 2

    def test_one_owner_only(self, django_user_model: Any) -> None:
        owner = django_user_model.objects.create(username="ann")
        theirs, other = ConversationFactory(owner=owner), ConversationFactory()
        assert self.run("--preset", "agent", "--owner", str(owner.pk)).startswith("Set conversations: 1,")
        assert window_of(theirs) == PRESETS["agent"].settings
        assert window_of(other) == PRESETS["langchain4j"].settings

    def test_pins_without_room_stay(self) -> None:
        conversation = ConversationFactory(limit=300)
        conversation.memory.add(UserMessage("word " * 140))
        conversation.memory.pin(0)
        with pytest.raises(SystemExit):
            self.run("--limit", "100")
        conversation.refresh_from_db()
        assert conversation.limit == 300

    @pytest.mark.parametrize("arguments", [(), ("--low-water", "0"), ("--limit", "99999999999")])
    def test_bad_arguments(self, arguments: tuple[str, ...]) -> None:
        with pytest.raises(CommandError):
            self.run(*arguments)
