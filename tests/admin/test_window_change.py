"""The page "Window": giving a conversation the window that was tried."""

# ruff: noqa: F811

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.utils import translation

from chatmemory import UserMessage
from chatmemory.admin.views.staff_pages import state_of
from chatmemory.models import Conversation, Message
from tests.admin.test_acts import logged
from tests.admin.test_conversation import conversation, html, page, staff, words  # noqa: F401

pytestmark = pytest.mark.django_db

ONE = "?1-window=messages&1-limit=1"


def hidden(shown: str) -> dict[str, str]:
    """The hidden fields of the form that applies a window; empty if it is not offered."""
    form = re.search(r'<form method="post" class="chatmemory-confirm">.*?</form>', shown, re.DOTALL)
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form[0]) if form else []
    return {name: unescape(value) for name, value in found}


def asked(client: Client, made: Conversation, query: str = ONE) -> dict[str, str]:
    fields = hidden(html(client, page(made, "window") + query))
    assert fields["seen"]
    return fields


def apply(client: Client, made: Conversation, fields: dict[str, str]) -> str:
    """What the page says that follows."""
    answer = client.post(page(made, "window"), fields, follow=True)
    assert answer.status_code == 200
    return words(answer.content.decode())


def settings_of(made: Conversation) -> tuple[Any, ...]:
    made.refresh_from_db()
    return made.window, made.limit, made.low_water, made.whole_turns, made.keep_tool_results, made.compact_at


@pytest.mark.slow
def test_asks_does_says_and_logs_it(admin_client: Client, conversation: Conversation) -> None:
    shown = words(html(admin_client, page(conversation, "window") + ONE))
    assert "at most 4 messages → at most 1 message" in shown
    assert (
        "3 messages will be evicted now. Widening the window later does not bring them back. They stay in the history."
    ) in shown
    assert conversation.messages.retained().count() == 4
    said = "The window was changed to at most 1 message. 3 messages were evicted."
    assert said in apply(admin_client, conversation, asked(admin_client, conversation))
    assert conversation.messages.retained().count() == 1
    assert logged() == [said]


@pytest.mark.slow
def test_applies_every_setting(admin_client: Client, conversation: Conversation) -> None:
    query = "?1-window=messages&1-limit=3&1-low_water=70&1-whole_turns=yes&1-keep_tool_results=2&1-compact_at=90"
    query += "&1-always_keep_system_message_first=yes"
    fields = asked(admin_client, conversation, query)
    said = (
        "The window was changed to at most 3 messages. Now: a new system message comes first, evicts down to 70%, "
        "whole turns, keeps only the last 2 tool results, a summary is due at 90%. 2 messages were evicted."
    )
    assert said in apply(admin_client, conversation, fields)
    assert settings_of(conversation) == ("messages", 3, 70, True, 2, 90)
    assert conversation.always_keep_system_message_first
    query = "?1-window=tokens&1-limit=4000&1-low_water=100&1-whole_turns=no&1-keep_tool_results=&1-compact_at="
    query += "&1-always_keep_system_message_first=no"
    apply(admin_client, conversation, asked(admin_client, conversation, query))
    assert settings_of(conversation) == ("tokens", 4000, 100, False, None, None)
    assert not conversation.always_keep_system_message_first
    assert logged() == [
        said,
        "The window was changed to at most 4000 tokens. Now: a new system message comes last, evicts down to 100%, "
        "message by message, clears no tool results, no summary is due by itself. 0 messages were evicted.",
    ]


@pytest.mark.slow
def test_settings_that_an_address_leaves_out_stay(admin_client: Client, conversation: Conversation) -> None:
    conversation.memory.set_window(low_water=70, whole_turns=True, keep_tool_results=3, compact_at=90)
    apply(admin_client, conversation, asked(admin_client, conversation, "?1-window=messages&1-limit=3"))
    assert settings_of(conversation) == ("messages", 3, 70, True, 3, 90)


@pytest.mark.slow
def test_of_several_windows_the_one_that_is_shown(admin_client: Client, conversation: Conversation) -> None:
    query = "?1-window=messages&1-limit=1&2-window=messages&2-limit=3&show=2"
    assert "1 message was evicted" in apply(admin_client, conversation, asked(admin_client, conversation, query))
    assert conversation.limit == 4
    assert settings_of(conversation)[:2] == ("messages", 3)


@pytest.mark.slow
def test_large_numbers_arrive_as_they_are(admin_client: Client, conversation: Conversation, settings: Any) -> None:
    settings.USE_THOUSAND_SEPARATOR = True
    conversation.memory.set_window(window="tokens", limit=5000, keep_tool_results=4000)
    apply(admin_client, conversation, asked(admin_client, conversation, "?1-window=tokens&1-limit=6000"))
    assert settings_of(conversation)[:2] == ("tokens", 6000)
    assert conversation.keep_tool_results == 4000


@pytest.mark.slow
def test_what_changed_since_is_shown_and_asked_again(admin_client: Client, conversation: Conversation) -> None:
    fields = asked(admin_client, conversation, "?1-window=messages&1-limit=3&2-window=messages&2-limit=1")
    conversation.memory.set_window(limit=10)
    conversation.memory.add(*(UserMessage(f"more {number}") for number in range(6)))
    again = admin_client.post(page(conversation, "window"), fields).content.decode()
    assert conversation.messages.retained().count() == 10
    assert "Nothing was changed" in words(again)
    assert "Now at most 10 messages" in words(again)
    assert "7 messages will be evicted now" in words(again)
    assert "Window 2 at most 1 message" in words(again)
    assert logged() == []
    apply(admin_client, conversation, hidden(again))
    assert conversation.messages.retained().count() == 3


@pytest.mark.slow
@pytest.mark.parametrize("change", [{"low_water": 50}, {"model": "gpt-4"}, {"keep_tool_results": 0}], ids=str)
def test_another_window_of_others_is_another_question_too(
    admin_client: Client, conversation: Conversation, change: dict[str, Any]
) -> None:
    conversation.memory.set_window(window="tokens", limit=4000)
    fields = asked(admin_client, conversation, "?1-window=tokens&1-limit=20")
    conversation.memory.set_window(**change)
    assert "Nothing was changed" in apply(admin_client, conversation, fields)
    assert settings_of(conversation)[1] == 4000


@pytest.mark.slow
def test_without_what_was_seen_nothing_changes(admin_client: Client, conversation: Conversation) -> None:
    admin_client.post(page(conversation, "window") + ONE)
    admin_client.post(page(conversation, "window"), {"1-window": "messages", "1-limit": "1"})
    admin_client.post(page(conversation, "window"), {"1-window": "messages", "1-limit": "0", "seen": "x"})
    assert conversation.messages.retained().count() == 4


def test_is_for_those_who_may(staff: Any, conversation: Conversation) -> None:
    client = staff("view_conversation", "read_message_text")
    assert hidden(html(client, page(conversation, "window") + ONE)) == {}
    fields = {"1-window": "messages", "1-limit": "1", "seen": state_of(conversation)}
    assert client.post(page(conversation, "window"), fields).status_code == 403
    assert conversation.messages.retained().count() == 4


@pytest.mark.slow
def test_needs_no_permission_to_read(staff: Any, conversation: Conversation) -> None:
    client = staff("change_conversation")
    assert client.post(page(conversation, "window"), asked(client, conversation)).status_code == 302
    assert conversation.messages.retained().count() == 1


@pytest.mark.slow
def test_asks_for_a_token(admin_user: Any, conversation: Conversation) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(admin_user)
    fields = asked(strict, conversation)
    token = fields.pop("csrfmiddlewaretoken")
    assert strict.post(page(conversation, "window"), fields).status_code == 403
    done = strict.post(page(conversation, "window"), {**fields, "csrfmiddlewaretoken": token})
    assert done.status_code == 302


@pytest.mark.slow
def test_a_message_that_cannot_be_read_is_in_the_way(admin_client: Client, conversation: Conversation) -> None:
    fields = asked(admin_client, conversation)
    Message.objects.filter(conversation=conversation, position=2).update(payload="{broken")
    shown = apply(admin_client, conversation, fields)
    assert "No window can be tried, because a message cannot be read: message 2" in shown
    assert conversation.messages.retained().count() == 4


@pytest.mark.slow
def test_pins_of_the_last_moment_are_heeded(admin_client: Client, conversation: Conversation) -> None:
    fields = asked(admin_client, conversation, "?1-window=messages&1-limit=3")
    conversation.memory.pin(2)
    conversation.memory.pin(3)
    conversation.refresh_from_db()
    answer = admin_client.post(page(conversation, "window"), {**fields, "seen": state_of(conversation)})
    (problem,) = answer.context["forms"][0].errors["limit"]
    assert "Unpin some, or choose a limit of at least 4." in problem
    assert logged() == []


@pytest.mark.slow
def test_a_memory_that_became_too_long_is_left_alone(
    admin_client: Client, conversation: Conversation, settings: Any
) -> None:
    fields = asked(admin_client, conversation)
    settings.CHATMEMORY = {"MAX_MEMORY_CHARS": 10}
    assert "This memory is too long for this page." in apply(admin_client, conversation, fields)
    assert conversation.messages.retained().count() == 4


def test_says_when_no_history_is_kept(admin_client: Client, conversation: Conversation, settings: Any) -> None:
    settings.CHATMEMORY = {"KEEP_HISTORY": False}
    shown = words(html(admin_client, page(conversation, "window") + ONE))
    assert "Evicted messages are deleted, because no history is kept." in shown
    assert "stay in the history" not in shown


@pytest.mark.slow
def test_the_present_window_is_nothing_to_apply(admin_client: Client, conversation: Conversation) -> None:
    shown = html(admin_client, page(conversation, "window") + "?1-window=messages&1-limit=4")
    assert "already has this window" in words(shown)
    assert hidden(shown) == {}
    # By other hands, so that the memory has more than its window allows.
    Conversation.objects.filter(pk=conversation.pk).update(limit=3)
    shown = html(admin_client, page(conversation, "window") + "?1-window=messages&1-limit=3")
    assert "1 message will be evicted now. Widening the window later does not bring it back. It stays" in words(shown)


@pytest.mark.parametrize("other", ["low_water=50", "whole_turns=yes", "keep_tool_results=0", "compact_at=90"])
def test_one_setting_makes_another_window(admin_client: Client, conversation: Conversation, other: str) -> None:
    assert asked(admin_client, conversation, f"?1-window=messages&1-limit=4&1-{other}")


def test_is_logged_in_the_language_of_the_site(admin_client: Client, conversation: Conversation) -> None:
    fields = asked(admin_client, conversation)
    with translation.override("ja"):
        admin_client.post(page(conversation, "window"), fields)
    assert logged() == ["The window was changed to at most 1 message. 3 messages were evicted."]


def test_does_not_happen_if_it_cannot_be_logged(
    admin_client: Client, conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> None:
        raise RuntimeError

    fields = asked(admin_client, conversation)
    monkeypatch.setattr("chatmemory.admin.ConversationAdmin.log_change", fail)
    with pytest.raises(RuntimeError):
        admin_client.post(page(conversation, "window"), fields)
    assert settings_of(conversation)[1] == 4
