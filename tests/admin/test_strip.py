"""The strip of bars on a conversation's pages: what each bar says, which messages have one, and what it costs."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.template.loader import render_to_string
from django.test.utils import CaptureQueriesContext

from chatmemory import AiMessage, SystemMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.admin.display.memory_map import MemoryMap
from chatmemory.admin.display.strip import Strip
from chatmemory.models import Conversation, Message
from tests.support.factories import ConversationFactory
from tests.support.long_histories import conversation_of, sqlite_steps

pytestmark = pytest.mark.django_db

EVIL = '"><script>alert(1)</script> \u202egnp.exe\nnext line'


def said(count: int, **window: Any) -> Conversation:
    """A conversation of so many messages, m0, m1 …, added at once."""
    made: Conversation = ConversationFactory(**window)
    made.memory.add(*(UserMessage(f"m{number}") for number in range(count)))
    made.refresh_from_db()
    return made


def strip(made: Conversation, first: int = 0, last: int = 49, *, with_text: bool = True) -> Strip:
    made.refresh_from_db()
    return Strip.read(made, first, last, MemoryMap.now(made), with_text=with_text)


def drawn(found: Strip, made: Conversation, **context: Any) -> str:
    context |= {"strip": found, "original": made, "opts": Conversation._meta}
    return render_to_string("admin/chatmemory/conversation/strip.html", context)


def titles(shown: str) -> list[str]:
    """What the bars of the strip say."""
    return re.findall("<title>(.*?)</title>", shown)


class TestBars:
    def test_say_what_the_message_is(self) -> None:
        made = ConversationFactory(window="messages", limit=20)
        call = AiMessage(None, [ToolExecutionRequest("1", "look_up", "{}")])
        result = ToolExecutionResultMessage("1", "look_up", "tea " * 20)
        made.memory.add(SystemMessage("rules"), UserMessage("a"), call, result, AiMessage("c"), UserMessage("e"))
        made.memory.pin(1)
        made.memory.clear_tool_results(keep=0)
        made.memory.set([*made.memory.messages(), UserMessage("d")])
        tokens = dict(made.messages.values_list("position", "token_count"))
        assert titles(drawn(strip(made), made)) == [
            f"Message 0 · System · {tokens[0]} tokens · retained",
            f"Message 1 · User · {tokens[1]} tokens · retained · pinned",
            f"Message 2 · AI · {tokens[2]} tokens · retained",
            f"Message 3 · Tool result · {tokens[3]} tokens · evicted · old tool result, cleared",
            f"Message 4 · AI · {tokens[4]} tokens · retained",
            f"Message 5 · User · {tokens[5]} tokens · retained",
            f"Message 6 · Tool result · {tokens[6]} tokens · retained · placeholder",
            f"Message 7 · User · {tokens[7]} tokens · retained · synthetic",
        ]

    def test_a_summary_is_called_so_and_says_what_it_sums_up(self) -> None:
        made = ConversationFactory(window="messages", limit=4)
        made.memory.add(*(UserMessage("word " * 200) for _ in range(8)))
        made.memory.compact(lambda messages, previous: "They spoke of tea.")
        last = strip(made).bars[-1]
        assert (last.notes, last.words) == ("summary", "They spoke of tea.")

    def test_a_pin_that_left_the_memory_is_no_mark(self) -> None:
        made = said(2, window="messages", limit=4)
        made.memory.pin(0)
        made.memory.clear()
        assert ["pinned" in bar.marks for bar in strip(made).bars] == [False, False]

    def test_have_the_colours_of_their_roles(self) -> None:
        made = said(1)
        made.memory.add(AiMessage("b"))
        assert re.findall('<a class="(.*?)"', drawn(strip(made), made)) == [
            "chatmemory-role-user",
            "chatmemory-role-ai",
        ]

    def test_the_legend_has_what_is_there(self) -> None:
        legend = drawn(strip(made := said(3, window="messages", limit=5)), made).partition("<figcaption>")[2]
        assert re.findall("chatmemory-key-([a-z]+)", legend) == ["role", "retained", "edge"]
        made.memory.clear()
        legend = drawn(strip(made), made).partition("<figcaption>")[2]
        assert re.findall("chatmemory-key-([a-z]+)", legend) == ["role", "evicted"]


class TestFirstWords:
    def test_are_one_short_line(self) -> None:
        made = ConversationFactory()
        made.memory.add(UserMessage(" a\n\tb "), UserMessage("c" * 80), UserMessage("d" * 81), UserMessage("e " * 9000))
        assert [bar.words for bar in strip(made).bars] == ["a b", "c" * 80, "d" * 80 + "…", "e " * 40 + "…"]

    def test_are_not_even_read_for_those_who_may_not(self) -> None:
        made = said(2)
        with CaptureQueriesContext(connection) as captured:
            found = Strip.read(made, 0, 1, MemoryMap.of([]), with_text=False)
        assert "text" not in captured[0]["sql"]
        assert [bar.words for bar in found.bars] == ["", ""]
        assert "data-words" not in drawn(found, made)

    def test_cannot_end_their_attribute(self) -> None:
        made = ConversationFactory()
        made.memory.add(UserMessage(EVIL))
        shown = drawn(strip(made), made)
        assert "<script" not in shown
        assert 'data-words="&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt; \u202egnp.exe next line"' in shown


class TestPlace:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("total", "first", "last", "bars", "framed"),
        [
            (10, 0, 9, (0, 9), (0, 9)),
            (100, 50, 99, (0, 99), (50, 99)),
            (101, 51, 100, (1, 100), (51, 100)),
            (500, 0, 49, (400, 499), None),
            (500, 375, 424, (400, 499), (400, 424)),
            (500, 450, 499, (400, 499), (450, 499)),
            (500, 100, 499, (400, 499), (400, 499)),
        ],
    )
    def test_is_the_end_of_the_conversation_with_a_frame_around_the_page(
        self, total: int, first: int, last: int, bars: tuple[int, int], framed: tuple[int, int] | None
    ) -> None:
        found = strip(said(total, window="messages", limit=5), first, last)
        assert (found.bars[0].row.position, found.bars[-1].row.position) == bars
        on_page = [bar.row.position for bar in found.bars if found.page_x <= bar.x < found.page_end]
        assert on_page == ([] if framed is None else list(range(framed[0], framed[1] + 1)))

    @pytest.mark.slow
    def test_says_how_many_of_the_messages_it_has(self) -> None:
        made = said(1100, window="messages", limit=5)
        for page in (0, 49), (1050, 1099):
            shown = drawn(strip(made, *page), made)
            assert "The last 100 of 1,100 messages: one bar per message" in shown
        made = said(100, window="messages", limit=5)
        shown = drawn(strip(made), made)
        assert "One bar per message; height = tokens" in shown

    def test_a_bar_links_to_the_history(self) -> None:
        made = said(3)
        assert 'href="?position=2#message-2"' in drawn(strip(made), made)

    def test_messages_that_were_not_kept_have_no_bar(self) -> None:
        made = said(300, window="messages", limit=5)
        Message.objects.filter(position__lt=200).delete()
        found = strip(made, 250, 299)
        assert (found.bars[0].row.position, found.bars[-1].row.position, len(found.bars)) == (200, 299, 100)
        Message.objects.filter(position__lt=270).delete()
        found = strip(made, 0, 49)
        assert (found.bars[0].row.position, found.bars[-1].row.position, len(found.bars)) == (270, 299, 30)
        assert "The last 30 of 300 messages" in drawn(found, made)


class TestCost:
    @pytest.mark.slow
    @pytest.mark.parametrize("size", [100, 1000, 5000])
    def test_it_is_one_statement(self, size: int) -> None:
        made = conversation_of(size)
        memory = MemoryMap.now(made)
        made.refresh_from_db()
        with CaptureQueriesContext(connection) as captured:
            Strip.read(made, 0, 49, memory, with_text=True)
        assert len(captured) == 1

    @pytest.mark.slow
    @pytest.mark.skipif(connection.vendor != "sqlite", reason="only SQLite says how many steps a query took")
    def test_a_long_history_costs_the_database_what_a_short_one_does(self) -> None:
        def steps(size: int) -> int:
            made = conversation_of(size)
            memory = MemoryMap.now(made)
            made.refresh_from_db()
            return sqlite_steps(lambda: Strip.read(made, 0, 49, memory, with_text=True))

        assert steps(20_000) < 1.5 * steps(2_500)
