"""The page "Window": trying windows on a conversation, side by side."""

# ruff: noqa: F811

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from chatmemory import AiMessage, SystemMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.admin.display import window_words
from chatmemory.models import Conversation, Message
from tests.admin.test_conversation import conversation, html, own_part, page, staff, words  # noqa: F401
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db

ONE = "?1-window=messages&1-limit=1"
THREE = "?1-window=messages&1-limit=1&2-window=messages&2-limit=3&3-window=tokens&3-limit=1000"


@pytest.fixture
def agent() -> Conversation:
    """Three turns, each with a call and a long result at the positions 2, 6 and 10; nothing has left."""
    made: Conversation = ConversationFactory(title="Agent")
    for number, tool in enumerate(("weather", "stocks", "weather")):
        made.memory.add(
            UserMessage(f"question {number}"),
            AiMessage(None, [ToolExecutionRequest(f"call_{number}", tool, "{}")]),
            ToolExecutionResultMessage(f"call_{number}", tool, "so much " * 40),
            AiMessage(f"answer {number}"),
        )
    made.refresh_from_db()
    return made


@pytest.fixture
def long() -> Conversation:
    """A system message and thirty turns, of which a window of ten messages has the last."""
    made: Conversation = ConversationFactory(window="messages", limit=10)
    made.memory.add(SystemMessage("Be kind."))
    for number in range(30):
        made.memory.add(UserMessage(f"question {number}"))
        made.memory.add(AiMessage(f"answer {number}"))
    made.refresh_from_db()
    return made


def tried(client: Client, made: Conversation, query: str = "") -> str:
    return own_part(html(client, page(made, "window") + query))


def cards(shown: str) -> list[str]:
    """What is said of each window."""
    found = re.search(r'<ol class="chatmemory-windows">(.*?)</ol>', shown, re.DOTALL)
    assert found is not None
    return [words(card) for card in re.findall("<li.*?</li>", found[1], re.DOTALL)]


def outcome(shown: str) -> str:
    """The section about the window that was chosen; empty if there is none."""
    found = re.search(r'<section[^>]* id="chatmemory-outcome".*?</section>', shown, re.DOTALL)
    return found[0] if found else ""


class TestOutcome:
    def test_shows_what_would_go_and_writes_nothing(self, admin_client: Client, conversation: Conversation) -> None:
        before = list(Message.objects.values())
        shown = outcome(tried(admin_client, conversation, ONE))
        assert "1 would stay, 3 would be evicted" in words(shown)
        assert re.findall(r'id="message-(\d+)"', shown) == ["2", "3", "4", "5"]
        assert "no room in the window 3 messages" in words(shown)
        assert words(shown).index("answer 1") < words(shown).index("The memory begins here")
        assert list(Message.objects.values()) == before

    def test_counts_messages_and_tokens_by_reason(self, admin_client: Client, agent: Conversation) -> None:
        shown = words(outcome(tried(admin_client, agent, "?1-window=messages&1-limit=8")))
        tokens = dict(agent.messages.values_list("position", "token_count"))
        calls = f"its tool call was evicted 1 message, {tokens[2]} tokens"
        assert f"no room in the window 3 messages, {tokens[0] + tokens[1] + tokens[3]} tokens" in shown
        assert calls in shown

    def test_lists_what_would_go_and_not_all_that_stays(self, admin_client: Client, long: Conversation) -> None:
        shown = outcome(tried(admin_client, long, "?1-window=messages&1-limit=8"))
        assert re.findall(r'id="message-(\d+)"', shown) == ["52", "53", "54"]

    def test_a_long_list_is_cut_and_says_so(
        self, admin_client: Client, long: Conversation, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(window_words, "_MOST_SHOWN", 2)
        shown = outcome(tried(admin_client, long, "?1-window=messages&1-limit=4"))
        assert re.findall(r'id="message-(\d+)"', shown) == ["52", "53"]
        assert "4 more messages would be evicted. They are not shown." in words(shown)

    def test_a_cleared_result_is_followed_by_its_placeholder(self, admin_client: Client, agent: Conversation) -> None:
        query = f"?1-window=tokens&1-limit={agent.retained_tokens}&1-keep_tool_results=0"
        shown = outcome(tried(admin_client, agent, query))
        assert "12 would stay, 2 would be evicted" in words(shown)
        assert "old tool result, cleared 2 messages" in words(shown)
        assert re.findall(r'id="message-(\d+)"', shown)[-4:] == ["2", "12", "6", "13"]
        assert "Covers message 2" in words(shown)
        assert Message.objects.count() == 12

    def test_lists_nothing_that_stays_before_what_would_go(
        self, admin_client: Client, conversation: Conversation
    ) -> None:
        conversation.memory.pin(2)
        shown = outcome(tried(admin_client, conversation, "?1-window=messages&1-limit=3"))
        assert re.findall(r'id="message-(\d+)"', shown) == ["3"]
        assert "The memory begins here" not in words(shown)

    def test_a_window_that_evicts_nothing_lists_nothing(self, admin_client: Client, conversation: Conversation) -> None:
        shown = outcome(tried(admin_client, conversation, "?1-window=tokens&1-limit=4000"))
        assert "The new window evicts nothing." in words(shown)
        assert "Messages that would be evicted" not in words(shown)

    @pytest.mark.slow
    def test_is_of_the_window_that_was_asked_for(self, admin_client: Client, conversation: Conversation) -> None:
        first = tried(admin_client, conversation, THREE)
        assert "Outcome of Window 1 1 would stay" in words(outcome(first))
        addresses = [unescape(found) for found in re.findall(r'href="(\?[^"]*)#chatmemory-outcome"', first)]
        second = tried(admin_client, conversation, addresses[0])
        assert "Outcome of Window 2 3 would stay, 1 would be evicted" in words(outcome(second))
        assert [card.split(" at most")[0] for card in cards(second)] == ["Now", "Window 1", "Window 2", "Window 3"]
        assert ["Shown below" in card for card in cards(second)] == [False, False, True, False]

    @pytest.mark.parametrize("show", ["2", "x", "", "99999999999999999999"])
    def test_without_such_a_window_is_of_the_first(
        self, admin_client: Client, conversation: Conversation, show: str
    ) -> None:
        assert "Outcome of Window 1" in words(tried(admin_client, conversation, f"{ONE}&show={show}"))

    def test_without_permission_to_read_has_no_words(self, staff: Any, conversation: Conversation) -> None:
        shown = html(staff("view_conversation"), page(conversation, "window") + ONE)
        assert "1 would stay, 3 would be evicted" in words(shown)
        assert "no room in the window" in shown
        assert not re.search(r"(question|answer) \d", shown)
        assert not LogEntry.objects.exists()

    def test_words_that_are_shown_are_recorded_as_read(self, admin_client: Client, conversation: Conversation) -> None:
        tried(admin_client, conversation)
        assert not LogEntry.objects.exists()
        tried(admin_client, conversation, ONE)
        assert LogEntry.objects.get().change_message == "Read what its messages say."

    @pytest.mark.parametrize("payload", ["{broken", "[]"])
    def test_says_which_message_cannot_be_read(
        self, admin_client: Client, conversation: Conversation, payload: str
    ) -> None:
        Message.objects.filter(conversation=conversation, position=4).update(payload=payload)
        for query in ("", ONE):
            shown = tried(admin_client, conversation, query)
            assert "No window can be tried, because a message cannot be read: message 4" in words(shown)
            assert not outcome(shown)


class TestForms:
    def test_begin_with_the_present_window(self, admin_client: Client, agent: Conversation) -> None:
        agent.memory.set_window(
            low_water=70, whole_turns=True, keep_tool_results=3, compact_at=90, compact_keep_calls=2
        )
        shown = tried(admin_client, agent)
        values = dict(re.findall(r'<input type="number" name="1-(\w+)" value="(\d+)"', shown))
        limits = {"limit": "100000", "low_water": "70", "keep_tool_results": "3"}
        assert values == limits | {"reserve": "0", "compact_at": "90", "compact_keep": "50", "compact_keep_calls": "2"}
        assert '<option value="yes" selected>whole turns</option>' in shown
        assert "prompt cache" in words(shown)

    def test_of_others_have_no_limit_until_somebody_wants_them(self, admin_client: Client, agent: Conversation) -> None:
        found = dict(re.findall(r'<input type="number" name="(\d-limit)"([^>]*)>', tried(admin_client, agent)))
        assert ["value=" in found[f"{number}-limit"] for number in (1, 2, 3)] == [True, False, False]
        assert ["required" in found[f"{number}-limit"] for number in (1, 2, 3)] == [True, False, False]

    @pytest.mark.parametrize(
        ("query", "field"),
        [
            ("1-window=hours&1-limit=1", "window"),
            ("1-window=messages&1-limit=0", "limit"),
            ("1-window=messages", "limit"),
            (f"1-window=messages&1-limit={'9' * 30}", "limit"),
            ("1-window=messages&1-limit=4&1-low_water=0", "low_water"),
            ("1-window=messages&1-limit=4&1-low_water=101", "low_water"),
            ("1-window=messages&1-limit=4&1-keep_tool_results=-1", "keep_tool_results"),
            ("1-window=messages&1-limit=4&1-whole_turns=maybe", "whole_turns"),
            ("1-window=messages&1-limit=4&1-compact_at=101", "compact_at"),
        ],
    )
    def test_refuse_nonsense_at_the_field(
        self, admin_client: Client, conversation: Conversation, query: str, field: str
    ) -> None:
        answer = admin_client.get(f"{page(conversation, 'window')}?{query}")
        assert list(answer.context["forms"][0].errors) == [field]
        assert 'class="errorlist"' in answer.content.decode()
        assert "Please correct the error below." in answer.content.decode()
        assert not outcome(answer.content.decode())

    def test_one_with_nonsense_leaves_the_others(self, admin_client: Client, conversation: Conversation) -> None:
        shown = tried(admin_client, conversation, "?1-window=messages&1-limit=0&2-window=messages&2-limit=3")
        assert "errorlist" in shown
        assert "Outcome of Window 2" in words(shown)

    def test_with_errors_come_first(self, admin_client: Client, conversation: Conversation) -> None:
        wrong, right = (tried(admin_client, conversation, f"?1-window=messages&1-limit={limit}") for limit in (0, 3))
        assert wrong.index("Try other windows") < wrong.index("Windows side by side")
        assert right.index("Windows side by side") < right.index("Try other windows")
        assert wrong.count("Try other windows") == right.count("Try other windows") == 1

    def test_without_a_limit_are_left_out(self, admin_client: Client, conversation: Conversation) -> None:
        shown = tried(admin_client, conversation, f"{ONE}&2-window=tokens&2-limit=&3-window=tokens&3-limit=+")
        assert len(cards(shown)) == 2
        assert "errorlist" not in shown

    def test_a_limit_without_room_for_pins_is_refused_at_the_limit(
        self, admin_client: Client, conversation: Conversation
    ) -> None:
        conversation.memory.pin(2)
        conversation.memory.pin(3)
        answer = admin_client.get(page(conversation, "window") + "?1-window=messages&1-limit=3")
        (problem,) = answer.context["forms"][0].errors["limit"]
        assert "would take 2 of 3 messages, more than half. Unpin some, or choose a limit of at least 4." in problem
        assert problem in unescape(answer.content.decode())
        assert 'name="seen"' not in answer.content.decode()

    def test_suggestions_fill_the_first_and_keep_the_others(
        self, admin_client: Client, conversation: Conversation
    ) -> None:
        shown = tried(admin_client, conversation, "?2-window=messages&2-limit=3")
        links = {
            words(name): unescape(query) for query, name in re.findall(r'<li><a href="(\?[^"]*)">(.*?)</a>', shown)
        }
        suited = ["Chat", "Long chat with summaries"]
        assert list(links) == ["Half", "Double", *suited, "20 messages", "4,000 tokens"]
        filled = tried(admin_client, conversation, links["Half"])
        assert [card[:28] for card in cards(filled)][1:] == [
            "Window 1 at most 2 messages ",
            "Window 2 at most 3 messages ",
        ]

    def test_suggest_neither_the_present_window_nor_one_twice(self, admin_client: Client) -> None:
        made = ConversationFactory(window="messages", limit=10, low_water=70, whole_turns=True)
        shown = tried(admin_client, made)
        names = re.findall(r'<li><a href="[^"]*">(.*?)</a>', shown)
        assert names == ["Half", "Double", "LangChain4j", "Long chat with summaries", "4,000 tokens"]
