"""Everything said, in the admin: its pages, and how one gets about on them."""

# ruff: noqa: F811

from __future__ import annotations

import re
from typing import Any

import pytest
from django.http import QueryDict
from django.test import Client

from chatmemory import AiMessage, ChatMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.admin.display.memory_map import MemoryMap
from chatmemory.admin.display.timeline import Timeline
from chatmemory.models import Conversation
from tests.admin.test_conversation import html, own_part, page, staff, timeline, words  # noqa: F401
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def long() -> Conversation:
    """Messages 0 to 249, of which the last 20 are retained."""
    made: Conversation = ConversationFactory(window="messages", limit=20)
    made.memory.add(*(UserMessage(f"m{number}.") for number in range(250)))
    made.refresh_from_db()
    return made


def call(count: int) -> list[ChatMessage]:
    """A message that calls ``count`` tools, and their results."""
    names = [f"call_{number}" for number in range(count)]
    asked = AiMessage(None, [ToolExecutionRequest(name, "look_up", "{}") for name in names])
    return [asked, *(ToolExecutionResultMessage(name, "look_up", f"Found by {name}.") for name in names)]


def bounds(made: Conversation, query: str = "") -> tuple[int, int]:
    shown = Timeline.read(made, QueryDict(query), MemoryMap.now(made), with_text=True)
    positions = [entry.message.row.position for entry in shown.entries]
    assert positions == list(range(shown.start, shown.last + 1))
    return shown.start, shown.last


class TestPages:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("query", "first", "last"),
        [
            ("?view=history", 200, 249),
            ("?position=0", 0, 49),
            ("?position=49", 0, 49),
            ("?position=50", 50, 99),
            ("?position=9999", 200, 249),
            ("?position=x", 200, 249),
            ("?position=-1", 200, 249),
            ("?position=%00", 200, 249),
            (f"?position={'9' * 5000}", 200, 249),
        ],
    )
    def test_a_page_has_fifty_messages(
        self, admin_client: Client, long: Conversation, query: str, first: int, last: int
    ) -> None:
        shown = timeline(html(admin_client, page(long) + query))
        assert f"Messages {first}–{last} of 250" in shown
        assert f"m{first}." in shown
        assert f"m{last}." in shown
        assert f"m{first - 1}." not in shown

    @pytest.mark.parametrize(
        ("count", "pages"),
        [(1, [(0, 0)]), (50, [(0, 49)]), (51, [(0, 0), (1, 50)]), (123, [(0, 22), (23, 72), (73, 122)])],
    )
    def test_they_are_counted_back_from_the_newest(self, count: int, pages: list[tuple[int, int]]) -> None:
        made = ConversationFactory(window="messages", limit=5)
        made.memory.add(*(UserMessage("m") for _ in range(count)))
        made.refresh_from_db()
        assert bounds(made) == pages[-1]
        for shown in pages:
            assert {bounds(made, f"position={position}") for position in (shown[0], sum(shown) // 2, shown[1])} == {
                shown
            }

    @pytest.mark.slow
    def test_earlier_and_later_turn_the_pages(self, admin_client: Client) -> None:
        made = ConversationFactory(window="messages", limit=500)
        made.memory.add(*(UserMessage("m") for _ in range(60)), *call(5), *(UserMessage("m") for _ in range(100)))
        made.refresh_from_db()
        seen, address = [], page(made) + "?position=0"
        while address:
            shown = html(admin_client, address)
            found = re.search(r"<p>Messages (\d+)–(\d+) of 166", shown)
            assert found
            seen += range(int(found[1]), int(found[2]) + 1)
            later = re.search(r'href="(\?position=\d+)#timeline" rel="next"', shown)
            address = page(made) + later[1] if later else ""
        assert seen == list(range(166))
        first = re.search(r"<p>Messages (\d+)–165 of 166", shown)
        assert first
        assert f'href="?position={int(first[1]) - 1}#timeline" rel="prev"' in shown


class TestGettingAbout:
    @pytest.mark.slow
    def test_the_memory_is_one_link_away_and_so_is_everything_said(
        self, admin_client: Client, long: Conversation
    ) -> None:
        memory, history = (own_part(html(admin_client, page(long) + query)) for query in ("", "?view=history"))
        for shown, current in ((memory, "Memory"), (history, "Everything said")):
            switch = re.search(r'<nav class="chatmemory-switch".*?</nav>', shown, re.DOTALL)
            assert switch
            assert re.findall(r'aria-current="page">([^<]+)<', switch[0]) == [current]
            assert f'href="{page(long)}"' in switch[0]
            assert 'href="?view=history"' in switch[0]

    @pytest.mark.slow
    def test_where_the_memory_begins_is_marked_and_linked(self, admin_client: Client, long: Conversation) -> None:
        shown = html(admin_client, page(long) + "?view=history")
        assert "m229." in timeline(shown).partition("The memory begins here")[0]
        assert 'href="?position=230#memory-begins"' in shown
        assert "The memory begins here" not in timeline(html(admin_client, page(long) + "?position=0"))

    @pytest.mark.slow
    def test_the_first_evicted_is_a_jump_away(self, admin_client: Client, long: Conversation) -> None:
        assert 'href="?go=first-evicted"' in html(admin_client, page(long) + "?view=history")
        assert admin_client.get(page(long) + "?go=first-evicted")["Location"].endswith("?position=0#message-0")

    def test_a_jump_tells_nothing_to_those_who_may_not_look(self, staff: Any, long: Conversation) -> None:
        assert staff("view_message").get(page(long) + "?go=first-evicted").status_code == 403

    @pytest.mark.slow
    def test_latest_is_the_last_page(self, admin_client: Client, long: Conversation) -> None:
        shown = html(admin_client, page(long) + "?position=0")
        assert re.search(r'href="\?position=249#message-249">Latest<', shown)

    def test_a_short_one_has_nothing_to_turn(self, admin_client: Client) -> None:
        made = ConversationFactory()
        made.memory.add(UserMessage("only one"))
        shown = timeline(html(admin_client, page(made) + "?view=history"))
        assert "Messages 0–0 of 1" in shown
        assert not {"Earlier", "Later", "Beginning", "Latest"} & set(shown.split())
        assert "Go to position" not in shown

    @pytest.mark.slow
    def test_a_cleared_memory_is_said_to_be_empty(self, admin_client: Client, long: Conversation) -> None:
        long.memory.clear()
        shown = timeline(html(admin_client, page(long) + "?view=history"))
        assert "The memory is empty: the model gets nothing." in shown


class TestStrip:
    @pytest.mark.slow
    def test_it_has_a_bar_for_each_message(self, admin_client: Client, long: Conversation) -> None:
        shown = html(admin_client, page(long))
        assert 'href="?position=240#message-240"' in shown
        assert "The last 100 of 250 messages: one bar per message" in words(shown)

    @pytest.mark.slow
    def test_numbers_in_addresses_and_drawings_are_not_localised(self, admin_client: Client, settings: Any) -> None:
        settings.USE_THOUSAND_SEPARATOR = True
        made = ConversationFactory(window="messages", limit=5)
        made.memory.add(*(UserMessage("m") for _ in range(1300)))
        for query in ("", "?view=history"):
            shown = own_part(html(admin_client, page(made) + query))
            for drawing in re.findall(r"<svg.*?</svg>", shown, re.DOTALL):
                assert not re.search(r'="[^"]*\d,\d', drawing)
            assert not re.search(r'href="[^"]*\d,\d', shown)
            assert 'href="?position=1299#message-1299"' in shown
