"""The page of a conversation opens on its memory: what left it last, and what the model gets now."""

# ruff: noqa: F811

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chatmemory import AiMessage, SystemMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.admin.display.memory_map import short_day
from chatmemory.models import Conversation, Message
from tests.admin.test_conversation import html, own_part, page, staff, words  # noqa: F401
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db


def section(text: str, label: str) -> str:
    """One section of the page as a reader sees it; empty if it is not there."""
    found = re.search(rf'<section[^>]* aria-labelledby="{label}".*?</section>', text, re.DOTALL)
    return words(found[0]) if found else ""


def now(text: str) -> str:
    return section(text, "chatmemory-now")


def groups(text: str) -> list[str]:
    """The lines of what left last."""
    found = re.findall(r'<span class="chatmemory-group-why">(.*?)</span>', text, re.DOTALL)
    found = [re.sub(r'<bdi class="chatmemory-position">[^<]*</bdi>', "", line) for line in found]
    # Without the minute.
    lines = [re.sub(r", [^,]*$", "", words(line).replace(" ,", ",")) for line in found]
    return [line.removesuffix(f", {today()}") for line in lines]


def positions(text: str) -> list[str]:
    """The positions in the lines of what left last."""
    return re.findall(r'<span class="chatmemory-group-why"><bdi class="chatmemory-position">(.*?)</bdi>', text)


def today(moment: datetime | None = None) -> str:
    return short_day(moment or timezone.now())


def said(count: int, **window: Any) -> Conversation:
    """A conversation of so many messages, m0. m1. …, each added on its own."""
    made: Conversation = ConversationFactory(**window)
    for number in range(count):
        made.memory.add(UserMessage(f"m{number}."))
    return made


class TestNow:
    def test_is_what_the_model_gets_and_in_its_order(self, admin_client: Client) -> None:
        made = said(6, window="messages", limit=4)
        made.memory.set([UserMessage("a summary"), *made.memory.messages()[1:]])
        shown = now(html(admin_client, page(made)))
        assert re.findall(r"m\d\.|a summary", shown) == ["a summary", "m3.", "m4.", "m5."]
        assert "4 messages" in shown
        totals = [int(total) for total in re.findall(r"running total (\d+)", shown)]
        assert totals == sorted(totals)
        assert len(totals) == 4
        assert "The memory begins here" not in shown

    def test_the_system_message_and_pins_come_first(self, admin_client: Client) -> None:
        made = ConversationFactory(window="messages", limit=6)
        made.memory.add(SystemMessage("rules."), *(UserMessage(f"m{number}.") for number in range(5)))
        made.memory.pin(3)
        shown = now(html(admin_client, page(made)))
        assert re.findall(r"Always first|Pinned|In order|rules\.|m\d\.", shown) == [
            *("Always first", "rules.", "Pinned", "m2."),
            *("In order", "m0.", "m1.", "m3.", "m4."),
        ]
        assert "number 4 in the memory" in shown

    def test_a_system_message_that_is_pinned_stands_once(self, admin_client: Client) -> None:
        made = ConversationFactory(window="messages", limit=6)
        made.memory.add(SystemMessage("rules."), UserMessage("m0."))
        made.memory.pin(0)
        shown = now(html(admin_client, page(made)))
        assert shown.count("rules.") == 1
        assert "Pinned" not in shown

    @pytest.mark.parametrize(("rules", "is_folded"), [("rules. " * 40, True), ("rules.", False)], ids=["long", "short"])
    def test_a_long_system_message_is_one_line_until_it_is_opened(
        self, admin_client: Client, rules: str, is_folded: bool
    ) -> None:
        made = ConversationFactory(window="messages", limit=6)
        made.memory.add(SystemMessage(rules), UserMessage("m0."))
        shown = own_part(html(admin_client, page(made)))
        assert shown.count("<details") - shown.count("data-chatmemory-menu") == int(is_folded)
        # It is in the memory: nothing says that it left.
        assert "chatmemory-message-evicted" not in shown
        assert "chatmemory-why" not in shown

    def test_without_such_there_are_no_parts(self, admin_client: Client) -> None:
        shown = now(html(admin_client, page(said(2, window="messages", limit=2))))
        assert not re.search("Always first|Pinned|In order", shown)

    @pytest.mark.slow
    @pytest.mark.parametrize(("count", "left_out"), [(200, 0), (201, 1), (230, 30)])
    def test_is_whole_up_to_two_hundred_messages(self, admin_client: Client, count: int, left_out: int) -> None:
        made = ConversationFactory(window="messages", limit=500)
        made.memory.add(*(UserMessage(f"m{number}.") for number in range(count)))
        shown = html(admin_client, page(made))
        found = re.findall(r"m(\d+)\.", now(shown))
        assert [int(number) for number in found] == list(range(left_out, count))
        assert ("not shown" in now(shown)) == bool(left_out)
        if left_out:
            assert f"The first {left_out} message" in now(shown)
            assert 'href="?position=0#message-0"' in shown

    @pytest.mark.slow
    def test_of_a_large_one_the_first_the_pinned_and_the_newest_are_shown(self, admin_client: Client) -> None:
        made = ConversationFactory(window="messages", limit=500)
        made.memory.add(SystemMessage("rules."), *(UserMessage(f"m{number}.") for number in range(250)))
        made.memory.pin(5)
        shown = now(html(admin_client, page(made)))
        found = re.findall(r"rules\.|m\d+\.", shown)
        assert found == ["rules.", "m4.", *(f"m{number}." for number in range(50, 250))]
        assert "The first 49 messages of the memory are not shown." in shown

    @pytest.mark.slow
    def test_a_message_of_a_large_one_that_is_merely_first_is_left_out(self, admin_client: Client) -> None:
        made = ConversationFactory(window="messages", limit=500)
        made.memory.add(*(UserMessage(f"m{number}.") for number in range(250)))
        assert "m0." not in now(html(admin_client, page(made)))


class TestEmptyMemory:
    def test_of_a_fresh_conversation(self, admin_client: Client) -> None:
        shown = html(admin_client, page(ConversationFactory()))
        assert "Nothing was said yet. Messages appear here as soon as your application adds them." in now(shown)
        assert "chatmemory-evicted-last" not in own_part(shown)
        assert "chatmemory-strip" not in own_part(shown)

    def test_that_was_cleared(self, admin_client: Client) -> None:
        made = said(3, window="messages", limit=3)
        made.memory.clear()
        shown = html(admin_client, page(made))
        assert "The memory is empty: the model gets nothing of what was said." in now(shown)
        assert "Read everything said" in now(shown)
        assert groups(shown) == ["3 messages, the memory was cleared"]

    @pytest.mark.slow
    def test_that_was_cleared_has_bars_of_what_left_last(self, admin_client: Client) -> None:
        made = ConversationFactory(window="messages", limit=200)
        made.memory.add(*(UserMessage("m") for _ in range(130)))
        made.memory.clear()
        assert "The last 100 of 130 messages: one bar per message" in words(own_part(html(admin_client, page(made))))

    def test_without_a_history(self, admin_client: Client, settings: Any) -> None:
        settings.CHATMEMORY = {"KEEP_HISTORY": False}
        made = said(3, window="messages", limit=3)
        made.memory.clear()
        shown = html(admin_client, page(made))
        assert "Evicted messages were not kept." in words(own_part(shown))
        assert "The memory is empty" in now(shown)
        assert "Read everything said" not in now(shown)


def test_the_positions_of_the_memory_are_said(admin_client: Client) -> None:
    made = said(8, window="messages", limit=3)
    assert re.search(r"In memory now 3 messages \d+ tokens 5–7", now(html(admin_client, page(made))))


class TestEvictedLast:
    def test_the_latest_change_is_a_group_before_the_others(self, admin_client: Client) -> None:
        shown = html(admin_client, page(said(8, window="messages", limit=3)))
        assert groups(shown) == ["1 message, pushed out by message 7", "4 messages, pushed out by messages 3 to 6"]

    def test_the_rows_are_in_the_group_in_order(self, admin_client: Client) -> None:
        shown = html(admin_client, page(said(8, window="messages", limit=3)))
        last = section(shown, "chatmemory-evicted-last")
        rows = re.findall(r'<details class="chatmemory-group">(.*?)</ol>\s*</details>', shown, re.DOTALL)
        assert [re.findall(r'id="message-(\d+)"', row) for row in rows] == [["4"], ["0", "1", "2", "3"]]
        assert "5 evicted" in last
        assert "more in Everything said" not in last

    def test_each_reason_is_said(self, admin_client: Client) -> None:
        made = ConversationFactory(window="messages", limit=6)
        made.memory.add(SystemMessage("old rules"), *(UserMessage(f"m{number}.") for number in range(5)))
        made.memory.add(SystemMessage("new rules"))
        made.memory.set(made.memory.messages()[1:])
        made.memory.set_window(limit=2)
        made.memory.clear()
        assert groups(html(admin_client, page(made))) == [
            "2 messages, the memory was cleared",
            "3 messages, no room in the window",
            "1 message, dropped by a rewrite",
            "1 message, replaced by a new system message",
        ]

    def test_a_call_and_its_results_leave_together(self, admin_client: Client) -> None:
        made = ConversationFactory(window="messages", limit=3)
        made.memory.add(
            AiMessage(None, [ToolExecutionRequest("1", "look_up", "{}")]),
            ToolExecutionResultMessage("1", "look_up", "A leaf."),
            UserMessage("m2."),
        )
        made.memory.add(UserMessage("m3."))
        assert groups(html(admin_client, page(made))) == ["2 messages, pushed out by message 3"]

    def test_cleared_results_are_called_so(self, admin_client: Client) -> None:
        made = ConversationFactory(window="messages", limit=9)
        for name in ("1", "2"):
            made.memory.add(
                AiMessage(None, [ToolExecutionRequest(name, "look_up", "{}")]),
                ToolExecutionResultMessage(name, "look_up", "A leaf. " * 50),
                AiMessage("It is a leaf."),
                UserMessage("Look again."),
            )
        made.memory.clear_tool_results(keep=0)
        assert groups(html(admin_client, page(made))) == ["2 messages, old tool results, cleared"]

    @pytest.mark.slow
    def test_a_summary_is_named(self, admin_client: Client) -> None:
        made = ConversationFactory(window="messages", limit=6)
        for number in range(3):
            made.memory.add(UserMessage(f"m{number}. " * 400), AiMessage("yes"))
        made.memory.compact(lambda messages, previous: "s")
        summary = made.messages.get(origin="summary")
        found = groups(html(admin_client, page(made)))
        assert len(found) == 1
        assert found[0].endswith(f"messages, a summary covers them: message {summary.position}")

    def test_two_clearings_are_two_groups(self, admin_client: Client) -> None:
        made = said(2, window="messages", limit=5)
        made.memory.clear()
        made.memory.add(UserMessage("again"))
        made.memory.clear()
        made.memory.add(UserMessage("and again"))
        made.memory.clear()
        assert groups(html(admin_client, page(made))) == [
            "1 message, the memory was cleared",
            "1 message, the memory was cleared",
            "2 messages, the memory was cleared",
        ]

    def test_each_day_is_a_group_with_its_date(self, admin_client: Client) -> None:
        made = said(8, window="messages", limit=3)
        yesterday = timezone.now() - timedelta(days=1)
        Message.objects.filter(conversation=made, position__lt=2).update(evicted_at=yesterday)
        assert groups(html(admin_client, page(made))) == [
            "1 message, pushed out by message 7",
            "2 messages, pushed out by messages 5 to 6",
            f"2 messages, pushed out by messages 3 to 4, {today(yesterday)}",
        ]

    @pytest.mark.slow
    def test_there_are_at_most_four_and_the_rest_is_linked(self, admin_client: Client) -> None:
        made = ConversationFactory(window="messages", limit=5)
        for number in range(6):
            made.memory.add(*(UserMessage(f"m{number}.") for _ in range(2)))
            made.memory.clear()
        shown = html(admin_client, page(made))
        assert len(groups(shown)) == 4
        assert "… and 4 more in Everything said" in section(shown, "chatmemory-evicted-last")
        assert 'href="?position=4#message-4"' in shown

    @pytest.mark.slow
    def test_of_very_many_the_last_sixty_are_shown(self, admin_client: Client) -> None:
        made = ConversationFactory(window="messages", limit=500)
        made.memory.add(*(UserMessage(f"m{number}.") for number in range(300)))
        made.memory.clear()
        shown = html(admin_client, page(made))
        assert groups(shown) == ["60 or more messages, the memory was cleared"]
        assert "… and 240 more in Everything said" in section(shown, "chatmemory-evicted-last")

    @pytest.mark.slow
    def test_exactly_sixty_are_exactly_sixty(self, admin_client: Client) -> None:
        made = ConversationFactory(window="messages", limit=500)
        made.memory.add(*(UserMessage(f"m{number}.") for number in range(60)))
        made.memory.clear()
        assert groups(html(admin_client, page(made))) == ["60 messages, the memory was cleared"]

    def test_the_positions_of_each_group_are_said(self, admin_client: Client) -> None:
        shown = html(admin_client, page(said(8, window="messages", limit=3)))
        assert positions(shown) == ["4", "0–3"]

    @pytest.mark.slow
    def test_the_positions_are_said_also_where_more_may_have_left(self, admin_client: Client) -> None:
        made = ConversationFactory(window="messages", limit=500)
        made.memory.add(*(UserMessage(f"m{number}.") for number in range(300)))
        made.memory.clear()
        assert positions(html(admin_client, page(made))) == ["… 240–299"]

    def test_the_message_that_left_last_is_the_one_that_is_quoted(self, admin_client: Client) -> None:
        shown = html(admin_client, page(said(8, window="messages", limit=3)))
        quoted = re.findall(r'<span class="chatmemory-group-last">(.*?)</bdi>', shown, re.DOTALL)
        assert list(map(words, quoted)) == ["4 User m4.", "3 User m3."]

    def test_the_minute_is_said_in_which_the_last_one_left(self, admin_client: Client) -> None:
        made = said(8, window="messages", limit=3)
        moment = timezone.localtime().replace(month=1, day=17, hour=9, minute=41)
        Message.objects.filter(conversation=made, position__lt=3).update(evicted_at=moment - timedelta(hours=3))
        Message.objects.filter(conversation=made, position=3).update(evicted_at=moment)
        shown = section(html(admin_client, page(made)), "chatmemory-evicted-last")
        assert "4 messages , pushed out by messages 3 to 6 , Jan 17, 9:41 a.m." in shown

    def test_that_a_message_was_larger_than_its_window_is_a_reason_of_its_own(self, admin_client: Client) -> None:
        made = ConversationFactory(window="tokens", limit=40)
        for text in ("m0.", "m1. " * 100, "m2. " * 100, "m3."):
            made.memory.add(UserMessage(text))
        shown = groups(html(admin_client, page(made)))
        assert re.fullmatch(r"1 message, larger than the whole window \(\d+ of 40\)", shown[0])
        assert re.fullmatch(r"1 message, larger than the whole window \(\d+ of 40\)", shown[1])
        assert shown[2] == "1 message, pushed out by message 1"

    def test_that_is_the_reason_also_where_others_came_with_it(self, admin_client: Client) -> None:
        made = ConversationFactory(window="tokens", limit=40)
        made.memory.add(UserMessage("word " * 60), UserMessage("tea"))
        (shown,) = groups(html(admin_client, page(made)))
        assert shown.startswith("1 message, larger than the whole window")


class TestLastAnswer:
    def test_leads_to_what_the_model_had(self, admin_client: Client) -> None:
        made = said(2, window="messages", limit=5)
        made.memory.add(AiMessage("An answer."), AiMessage("The last answer."), UserMessage("Thanks."))
        shown = html(admin_client, page(made))
        assert "The last answer." in (said_last := section(shown, "chatmemory-last-answer"))
        assert "An answer." not in said_last
        assert said_last.endswith("What the model had")
        assert shown.index("chatmemory-last-answer") < shown.index("?answer=3") < shown.index('id="chatmemory-now"')

    def test_is_the_last_that_says_something(self, admin_client: Client) -> None:
        made = said(1, window="messages", limit=5)
        made.memory.add(
            AiMessage("I look it up."),
            AiMessage(None, [ToolExecutionRequest("1", "look_up", "{}")]),
            ToolExecutionResultMessage("1", "look_up", "A leaf."),
        )
        assert "I look it up." in section(html(admin_client, page(made)), "chatmemory-last-answer")

    def test_can_be_one_that_was_evicted(self, admin_client: Client) -> None:
        made = said(1, window="messages", limit=5)
        made.memory.add(AiMessage("The last answer."))
        made.memory.clear()
        assert "The last answer." in section(html(admin_client, page(made)), "chatmemory-last-answer")

    def test_without_an_answer_there_is_none(self, admin_client: Client) -> None:
        assert "chatmemory-last-answer" not in html(admin_client, page(said(2, window="messages", limit=5)))

    def test_is_not_quoted_to_those_who_may_not_read_it(self, staff: Any) -> None:
        made = said(1, window="messages", limit=5)
        made.memory.add(AiMessage("planted"))
        shown = html(staff("view_conversation"), page(made))
        assert "What the model had" in section(shown, "chatmemory-last-answer")
        assert "planted" not in shown


class TestWords:
    def test_who_may_not_read_sees_shapes_and_reasons(self, staff: Any) -> None:
        made = ConversationFactory(window="messages", limit=3)
        made.memory.add(SystemMessage("planted"), *(UserMessage("planted", name="planted") for _ in range(5)))
        made.memory.pin(5)
        shown = own_part(html(staff("view_conversation"), page(made)))
        assert "planted" not in shown
        assert "pushed out by messages 0 to 5" in words(shown)
        assert "Always first" in words(shown)

    @pytest.mark.parametrize("query", ["", "?view=history", "?position=0"])
    def test_reading_is_recorded(self, admin_client: Client, query: str) -> None:
        made = said(2, window="messages", limit=1)
        html(admin_client, page(made) + query)
        assert LogEntry.objects.filter(object_id=str(made.pk)).count() == 1

    def test_so_is_reading_what_left_an_empty_memory(self, admin_client: Client) -> None:
        made = said(2, window="messages", limit=1)
        made.memory.clear()
        html(admin_client, page(made))
        assert LogEntry.objects.filter(object_id=str(made.pk)).count() == 1

    @pytest.mark.slow
    def test_so_is_reading_the_strip_of_a_page_whose_messages_were_not_kept(
        self, admin_client: Client, settings: Any
    ) -> None:
        settings.CHATMEMORY = {**settings.CHATMEMORY, "KEEP_HISTORY": False}
        made = said(60, window="messages", limit=2)
        shown = own_part(html(admin_client, page(made) + "?position=0"))
        assert "Evicted messages were not kept." in words(shown)
        assert 'data-words="m59."' in shown
        assert LogEntry.objects.filter(object_id=str(made.pk)).count() == 1

    def test_without_words_there_is_nothing_to_record(self, admin_client: Client, staff: Any) -> None:
        html(admin_client, page(ConversationFactory()))
        html(staff("view_conversation"), page(said(2, window="messages", limit=1)))
        assert not LogEntry.objects.exists()


@pytest.mark.slow
def test_the_statements_are_few_for_any_memory(admin_client: Client) -> None:
    for size in (30, 190, 300):
        made = ConversationFactory(window="messages", limit=size)
        for _ in range(3):
            made.memory.add(*(UserMessage("m") for _ in range(size)))
        with CaptureQueriesContext(connection) as captured:
            html(admin_client, page(made))
        assert len(captured) <= 25


def test_a_pin_can_be_made_where_it_is_read(admin_client: Client) -> None:
    made = said(3, window="messages", limit=5)
    shown = own_part(html(admin_client, page(made)))
    assert re.search(r'<form method="post"[^>]* id="chatmemory-pins">', shown)
    assert len(re.findall(r'<button type="submit" form="chatmemory-pins"', shown)) == 3
