"""The overview of all messages of a long conversation, above its strip."""

from __future__ import annotations

import re
from itertools import accumulate, pairwise
from typing import Any

import pytest
from django.template.loader import render_to_string
from hypothesis import given
from hypothesis import strategies as st

from chatmemory import UserMessage
from chatmemory.admin.display.memory_map import MemoryMap
from chatmemory.admin.display.strip import MOST_BARS, Strip
from chatmemory.admin.display.strip_overview import MOST_COUNTED, StripOverview, sampled
from chatmemory.models import Conversation
from tests.support.factories import ConversationFactory


def overview(tokens: list[int], kept: int, shown: range = range(200)) -> StripOverview:
    """The overview of messages with so many tokens each, of which the memory has the last ``kept``."""
    positions = range(len(tokens))
    retained = positions[len(tokens) - kept :]
    totals = dict(zip(retained, accumulate(tokens[position] for position in retained), strict=True))
    evicted = {position: tokens[position] for position in sampled(len(tokens)) if position not in totals}
    return StripOverview.of(len(tokens), evicted, MemoryMap(edge=None, totals=totals), shown)


def said(bin: Any) -> list[int]:
    """The tokens that a bin says it has."""
    return [int(found.replace(",", "")) for found in re.findall("([0-9,]+) token", bin.name)]


def test_there_is_none_where_the_strip_has_all(db: None) -> None:
    made: Conversation = ConversationFactory(window="messages", limit=5)
    for count, has_one in ((MOST_BARS, False), (1, True)):
        made.memory.add(*(UserMessage("m") for _ in range(count)))
        made.refresh_from_db()
        assert (Strip.read(made, 0, 49, MemoryMap.now(made), with_text=True).overview is not None) == has_one


@given(st.integers(1, 20_000))
def test_the_bins_are_few_and_have_each_message_once(total: int) -> None:
    bins = overview([1] * total, 0).bins
    assert len(bins) <= 60
    places = [re.match("Messages ([0-9,]+)–([0-9,]+) ", bin.name) for bin in bins]
    ends = [(int(place[1].replace(",", "")), int(place[2].replace(",", ""))) for place in places if place]
    assert (ends[0][0], ends[-1][1]) == (0, total - 1)
    assert all(after == before + 1 for (_, before), (after, _) in pairwise(ends))
    assert [first for first, _ in ends] == [bin.first for bin in bins]


@given(st.integers(1, 100_000))
def test_the_samples_are_few_and_no_message_is_asked_for_twice(total: int) -> None:
    positions = sampled(total)
    assert len(positions) == len(set(positions)) <= max(MOST_COUNTED, 300)
    assert all(0 <= position < total for position in positions)
    assert total <= MOST_COUNTED or len(positions) + MOST_BARS <= 500


def test_few_messages_are_counted_exactly() -> None:
    tokens = [number % 7 for number in range(600)]
    found = overview(tokens, 95)
    assert not found.is_estimated
    assert [said(bin)[0] for bin in found.bins] == [sum(tokens[start : start + 10]) for start in range(0, 600, 10)]
    assert found.bins[49].name == f"Messages 490–499 · {sum(tokens[490:500])} tokens · none in the memory"
    assert found.bins[50].name.endswith(f" · {sum(tokens[505:510])} of them in the memory")
    assert found.bins[51].name.endswith(" · all in the memory")


@pytest.mark.parametrize("rhythm", [[10, 100], [10, 20, 300, 80], [10, 20, 300, 20, 200, 80], [50] * 7])
@pytest.mark.parametrize("total", [2_001, 12_000, 100_000, 999_999])
def test_many_messages_are_estimated_whatever_the_rhythm_of_their_turns(rhythm: list[int], total: int) -> None:
    tokens = (rhythm * (total // len(rhythm) + 1))[:total]
    found = overview(tokens, 20)
    assert found.is_estimated
    assert "about" in found.bins[0].name
    all_said = sum(said(bin)[0] for bin in found.bins)
    assert 0.8 < all_said / sum(tokens) < 1.2


def test_what_the_memory_has_is_exact_also_where_the_rest_is_estimated() -> None:
    found = overview([7] * 60_000, 1234)
    assert found.bins[-1].name.endswith("all in the memory")
    assert found.bins[-2].name.endswith(f"{234 * 7:,} of them in the memory")
    assert found.bins[-3].name.endswith("none in the memory")
    assert found.bins[-1].retained_height == found.bins[-1].height
    assert 0 < found.bins[-2].retained_height < found.bins[-2].height
    assert found.bins[-3].retained_height == 0


def test_the_frame_is_around_what_the_strip_shows() -> None:
    found = overview([1] * 6_000, 0, range(3_000, 3_200))
    assert (found.shown_x, found.shown_width) == (found.width / 2, found.width / 30)
    wide = overview([1] * 1_000_000, 0, range(999_800, 1_000_000))
    assert wide.shown_width == 2


def test_the_frame_of_the_newest_ends_where_the_last_bin_does() -> None:
    found = overview([1] * 197, 0, range(97, 197))
    assert found.shown_x + found.shown_width == found.width


def test_it_is_drawn_with_a_link_for_each_bin() -> None:
    found = overview([1] * 600, 5)
    drawn = render_to_string("admin/chatmemory/conversation/strip_overview.html", {"overview": found})
    assert re.findall('href="(.*?)"', drawn) == [f"?position={start}" for start in range(0, 600, 10)]
    assert "All messages, 10 per bar" in drawn
    assert "estimated" not in drawn
    assert drawn.count('class="chatmemory-bin-retained"') == 1
