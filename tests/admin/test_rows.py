"""What a row says of its message, folded or open, with or without what the message says."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.template.loader import render_to_string

from chatmemory import AiMessage, CustomMessage, SystemMessage, ToolExecutionRequest, UserMessage
from chatmemory.admin.display.memory_map import MemoryMap
from chatmemory.admin.display.timeline import history_entries, memory_entries
from chatmemory.models import Conversation, Message
from tests.admin.evicted_messages import CALL, EVICTED, RESULT, SECRETS, today, tokens
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db


class Row:
    """A row as it is drawn."""

    def __init__(self, html: str) -> None:
        self.html = html
        summary = re.search(r"<summary>(.*?)</summary>\s*<article", html, re.DOTALL)
        self.line = words(summary[1]) if summary else None
        """What its folded line says; None if it has none."""

        self.message = words(html[html.index("<article") :])
        """What it says when it is open."""


def words(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def drawn(entries: list[Any], **context: Any) -> dict[int, Row]:
    html = render_to_string("admin/chatmemory/conversation/entries.html", {"entries": entries, **context})
    pieces = re.split(r'<li class="(?=chatmemory-role)', html)[1:]
    found = {}
    for piece in pieces:
        position = re.search(r'id="message-(\d+)"', piece)
        assert position is not None
        found[int(position[1])] = Row(piece)
    return found


def rows_of(made: Conversation, *, with_text: bool = True, **context: Any) -> dict[int, Row]:
    made = Conversation.objects.get(pk=made.pk)
    rows = list(made.messages.order_by("position"))
    return drawn(history_entries(made, rows, MemoryMap.now(made), with_text=with_text), **context)


class TestEvicted:
    @pytest.mark.parametrize("state", EVICTED)
    def test_folded_it_says_what_it_is_and_why_it_left(self, state: Any) -> None:
        made, position, line, _ = state()
        assert rows_of(made)[position].line == line

    @pytest.mark.parametrize("state", EVICTED)
    def test_open_it_says_so_too(self, state: Any) -> None:
        made, position, _, reason = state()
        row = rows_of(made)[position]
        assert reason in row.message
        assert "sesame" in row.message

    @pytest.mark.parametrize("state", EVICTED)
    def test_without_the_text_the_shape_and_the_reason_stay(self, state: Any) -> None:
        made, position, line, reason = state()
        row = rows_of(made, with_text=False)[position]
        assert reason in row.message
        assert row.line is not None
        role = row.line.split(f" {tokens(made, position)} ")[0]
        assert re.fullmatch(r"\d (System|User|AI|Tool result|Custom)( synthetic)?", role)
        assert row.line.rpartition(" tokens ")[2] == line.rpartition(" tokens ")[2]
        assert not [secret for secret in SECRETS if secret in row.html]

    def test_a_summary_stands_for_it(self, settings: Any) -> None:
        settings.CHATMEMORY = {"SUMMARIZER": "demo_project.chat.summarizer.summarize"}
        made = ConversationFactory(window="messages", limit=20)
        made.memory.add(*(UserMessage("tea " * 100) for _ in range(10)))
        made.memory.compact(lambda messages, previous: "sesame", keep=20)
        summary = made.messages.get(origin="summary").position
        rows = rows_of(made, timeline_address="/there/")
        assert rows[0].line is not None
        assert rows[0].line.endswith(f"a summary covers it: message {summary}, {today()}")
        assert f'href="/there/?position={summary}#message-{summary}"' in rows[0].html
        assert rows[summary].line is None
        assert "User summary" in rows[summary].message

    def test_a_message_that_once_fitted_is_not_called_too_large(self) -> None:
        """Only the limit of today is known, and with an earlier one the message was in the memory for a while."""
        made = ConversationFactory(window="tokens", limit=1000)
        made.memory.add(UserMessage("hello " * 200))
        made.memory.set_window(limit=50)
        assert "no room in the window" in rows_of(made)[0].message
        assert "larger" not in rows_of(made)[0].message

    @pytest.mark.parametrize("window", [{"window": "messages", "limit": 5}, {"window": "tokens", "limit": 500}])
    def test_nor_is_one_that_would_fit_today(self, window: Any) -> None:
        made = ConversationFactory(window="tokens", limit=50)
        made.memory.add(UserMessage("hello " * 200))
        made.memory.set_window(**window)
        assert "larger" not in rows_of(made)[0].message


class TestCut:
    @pytest.mark.slow
    def test_what_has_no_room_is_left_out_and_said_to_be(self) -> None:
        made = ConversationFactory(window="messages", limit=2000)
        call = ToolExecutionRequest("1", "look_up", '{"query": "tea"}')
        made.memory.add(AiMessage("long " * 1000, [call]), *(UserMessage("x") for _ in range(999)))
        message = rows_of(made)[0].message
        assert 'Calls look_up(query="tea") 1 … and 4,020 more characters. Show the whole message' in message


class TestRetained:
    @pytest.fixture
    def made(self) -> Conversation:
        """A message of each kind, all of them in the memory."""
        made: Conversation = ConversationFactory()
        made.memory.add(SystemMessage("sesame"), UserMessage("sesame", name="theo"), CALL, RESULT)
        made.memory.add(AiMessage("sesame"), CustomMessage({"mood": "sesame"}))
        return made

    def test_is_open_and_says_no_reason(self, made: Conversation) -> None:
        rows = rows_of(made)
        assert [row.line for row in rows.values()] == [None] * 6
        assert all("sesame" in row.message and "Evicted" not in row.message for row in rows.values())

    def test_says_nothing_to_those_who_may_not_read(self, made: Conversation) -> None:
        for position, row in rows_of(made, with_text=False, saw="/saw/").items():
            assert not [secret for secret in SECRETS if secret in row.html]
            assert tokens(made, position) in row.message

    def test_the_edge_has_the_colour_of_who_speaks(self, made: Conversation) -> None:
        roles = [re.match(r"chatmemory-role-(\w+)", row.html) for row in rows_of(made, with_text=False).values()]
        assert [role and role[1] for role in roles] == ["system", "user", "ai", "tool", "ai", "custom"]

    def test_a_call_is_one_line_and_its_json_is_behind_it(self, made: Conversation) -> None:
        row = rows_of(made)[2]
        assert 'Calls look_up(query="sesame", page=2) c-42 Arguments as JSON { "query"' in row.message
        assert "Calls now() 2" in row.message
        assert row.html.count("<details") == 1  # a call without arguments has none

    def test_a_result_names_its_tool_and_its_error(self, made: Conversation) -> None:
        assert rows_of(made)[3].message.startswith("3 Tool result look_up error")

    def test_only_answers_lead_to_what_the_model_had(self, made: Conversation) -> None:
        made.memory.set([*made.memory.messages(), AiMessage("put there by a rewrite")])
        links = {
            position: re.findall(r'"/saw/(.*?)"', row.html) for position, row in rows_of(made, saw="/saw/").items()
        }
        assert links == {0: [], 1: [], 2: ["?answer=2"], 3: [], 4: ["?answer=4"], 5: [], 6: []}
        assert not any("/saw/" in row.html for row in rows_of(made).values())

    def test_where_it_cannot_be_read_the_others_can(self, made: Conversation) -> None:
        Message.objects.filter(conversation=made, position=2).update(payload="{broken")
        rows = rows_of(made)
        assert "This message cannot be read" in rows[2].message
        assert "look_up" in rows[3].message

    @pytest.mark.parametrize(
        ("origin", "badge"), [("rewrite", "synthetic"), ("copy", "copy"), ("cleared", "placeholder")]
    )
    def test_what_nobody_said_has_a_badge(self, made: Conversation, origin: str, badge: str) -> None:
        made.messages.filter(position=4).update(origin=origin)
        for with_text in (True, False):
            row = rows_of(made, with_text=with_text)[4]
            assert row.message.startswith(f"4 AI {badge}")
            assert "chatmemory-message-synthetic" in row.html


class TestTried:
    def trial(self, reason: str) -> Row:
        made = ConversationFactory()
        made.memory.add(CALL, RESULT)
        rows = list(made.messages.order_by("position"))
        rows[0].eviction_reason = reason
        entries = memory_entries(rows, MemoryMap.of([(1, "TOOL_EXECUTION_RESULT", 7)]), with_text=True)
        return drawn(entries)[0]

    def test_the_window_is_not_named_where_a_window_is_tried(self) -> None:
        row = self.trial("window")
        assert row.line is not None
        assert row.line.endswith("tokens would be evicted")

    def test_another_reason_is(self) -> None:
        row = self.trial("orphan")
        assert row.line is not None
        assert row.line.endswith("would be evicted: its tool call was evicted")
        assert "evicted" not in row.message  # the line stays above it


class TestMarkdown:
    def test_is_offered_for_what_people_and_models_wrote(self) -> None:
        made = ConversationFactory()
        made.memory.add(
            SystemMessage("**a**"), UserMessage("**b**"), CALL, RESULT, AiMessage("**c**", thinking="**d**")
        )
        rows = rows_of(made)
        assert [row.html.count("data-markdown") for row in rows.values()] == [1, 1, 1, 0, 2]
        assert not re.search(r"data-markdown[^>]*>\s*\{", rows[2].html)

    def test_there_is_nothing_of_it_without_the_text(self) -> None:
        made = ConversationFactory()
        made.memory.add(UserMessage("**b**"))
        entries = history_entries(made, list(made.messages.all()), MemoryMap.now(made), with_text=False)
        html = render_to_string("admin/chatmemory/conversation/entries.html", {"entries": entries})
        assert "data-markdown" not in html
        assert "chatmemory-look" not in html
