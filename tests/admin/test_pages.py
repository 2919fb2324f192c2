"""The admin's pages about one conversation: what they say is so, and what they weigh is bounded."""

# ruff: noqa: F811

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.db import connection
from django.http import QueryDict
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from chatmemory import (
    AiMessage,
    CustomMessage,
    ImageContent,
    SystemMessage,
    TextContent,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.admin.display.memory_map import Gauge, MemoryMap, used_in_window
from chatmemory.admin.display.message import lay_out, most_chars, shown
from chatmemory.admin.display.strip import Strip
from chatmemory.admin.display.timeline import Timeline
from chatmemory.models import Conversation, Message
from tests.admin.test_conversation import conversation, html, own_part, page, staff, timeline, words  # noqa: F401
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db


def said(count: int, **window: Any) -> Conversation:
    """A conversation of so many messages, m0, m1 …, each added on its own."""
    made: Conversation = ConversationFactory(**window)
    for number in range(count):
        made.memory.add(UserMessage(f"m{number}"))
    made.refresh_from_db()
    return made


def break_message(made: Conversation, position: int, payload: str = "{broken") -> None:
    Message.objects.filter(conversation=made, position=position).update(payload=payload)


def columns_read(captured: CaptureQueriesContext) -> str:
    """What was selected of messages, without the conditions."""
    selects = (query["sql"].replace('"', "").replace("`", "") for query in captured)
    return " ".join(sql.partition(" FROM ")[0] for sql in selects if " FROM chatmemory_message" in sql)


class TestPushedOut:
    def pushed_out(self, client: Client, made: Conversation, query: str = "?view=history") -> list[str]:
        shown_page = timeline(html(client, page(made) + query))
        return re.findall(r"pushed out (by message \d+|by messages \d+ to \d+) in version", shown_page)

    def test_names_the_message_that_came_alone(self, admin_client: Client) -> None:
        made = said(5, window="messages", limit=3)
        assert self.pushed_out(admin_client, made) == ["by message 3", "by message 4"]

    @pytest.mark.slow
    def test_names_all_that_came_in_one_go(self, admin_client: Client) -> None:
        made = ConversationFactory(window="messages", limit=3)
        made.memory.add(*(UserMessage(f"m{number}") for number in range(3)))
        made.memory.add(UserMessage("m3"), AiMessage("m4"), UserMessage("m5"))
        assert self.pushed_out(admin_client, made) == ["by messages 3 to 5"] * 3
        assert 'href="?position=3#message-3"' in own_part(html(admin_client, page(made)))

    def test_counts_those_in_that_left_in_the_version_in_which_they_came(self, admin_client: Client) -> None:
        made = ConversationFactory(window="messages", limit=3)
        made.memory.add(*(UserMessage(f"m{number}") for number in range(6)))
        assert self.pushed_out(admin_client, made) == ["by messages 0 to 5"] * 3

    def test_nothing_pushed_out_what_never_fitted(self, admin_client: Client) -> None:
        made = ConversationFactory(window="tokens", limit=20)
        made.memory.add(UserMessage("too long " * 30))
        assert self.pushed_out(admin_client, made) == []

    @pytest.mark.slow
    @pytest.mark.parametrize("size", [600, 1501])
    def test_is_found_however_far_away_and_in_few_queries(self, admin_client: Client, size: int) -> None:
        """A system message at the front leaves when it is replaced, long after its neighbours."""
        made = ConversationFactory(window="messages", limit=3)
        made.memory.add(SystemMessage("rules"))
        for start in range(0, size, 100):
            made.memory.add(*(UserMessage("x") for _ in range(min(100, size - start))))
        made.memory.add(SystemMessage("new rules"))
        made.memory.add(UserMessage("last"))
        made.refresh_from_db()
        with CaptureQueriesContext(connection) as captured:
            found = self.pushed_out(admin_client, made, "?position=0")
        assert found[0] == f"by message {size + 1}"
        assert set(found[1:]) == {"by messages 1 to 100"}
        probes = [query["sql"] for query in captured if " IN (" in query["sql"] and "added_in" in query["sql"]]
        searches = [sql for sql in probes if "'cleared'" not in sql]  # one more asks for placeholders
        assert 1 <= len(searches) <= 3
        assert all(sql.count(",") < 600 for sql in searches)

    def test_is_left_out_where_what_came_was_not_kept(self, admin_client: Client) -> None:
        made = said(8, window="messages", limit=3)
        Message.objects.filter(conversation=made, position__in=[3, 4]).delete()
        assert self.pushed_out(admin_client, made) == ["by message 5"]


class TestWhereTheMemoryBegins:
    @pytest.fixture
    def rewritten(self) -> Conversation:
        """Messages 3 to 5 are retained, behind a summary at position 6."""
        made: Conversation = ConversationFactory(window="messages", limit=10)
        made.memory.add(*(UserMessage(f"m{number}") for number in range(6)))
        made.memory.set([UserMessage("summary"), *made.memory.messages()[3:]])
        made.refresh_from_db()
        return made

    def test_everything_retained_is_below_the_line(self, admin_client: Client, rewritten: Conversation) -> None:
        shown_page = timeline(html(admin_client, page(rewritten) + "?view=history"))
        before, _, after = shown_page.partition("The memory begins here")
        assert re.findall(r"\bm\d|summary", after) == ["m3", "m4", "m5", "summary"]
        assert "m2" in before

    def test_another_order_is_said(self, admin_client: Client, rewritten: Conversation) -> None:
        shown_page = timeline(html(admin_client, page(rewritten) + "?view=history"))
        assert re.findall(r"number (\d) in the memory", shown_page) == ["2", "3", "4", "1"]
        assert "running total" not in shown_page

    def test_the_strip_has_the_edge_there(self, rewritten: Conversation) -> None:
        strip = Strip.read(rewritten, 0, 49, MemoryMap.now(rewritten), with_text=True)
        assert strip.edge_x == strip.bars[3].x - 1 == 24

    def test_a_new_system_message_in_front_is_not_it(self, admin_client: Client) -> None:
        made = ConversationFactory(window="messages", limit=3, always_keep_system_message_first=True)
        made.memory.add(*(UserMessage(f"m{number}") for number in range(4)))
        made.memory.add(SystemMessage("rules"))
        after = timeline(html(admin_client, page(made) + "?view=history")).partition("The memory begins here")[2]
        assert re.findall(r"\bm\d|rules", after) == ["m2", "m3", "rules"]

    def test_a_system_message_alone_is(self, admin_client: Client) -> None:
        made = ConversationFactory(window="messages", limit=1)
        made.memory.add(SystemMessage("rules"))
        assert "The memory begins here 0 System" in timeline(html(admin_client, page(made) + "?view=history"))


class TestTimeline:
    @pytest.mark.slow
    def test_there_is_no_later_page_after_a_full_last_one(self, admin_client: Client) -> None:
        made = ConversationFactory(window="messages", limit=5)
        made.memory.add(*(UserMessage(str(number)) for number in range(50)))
        assert 'rel="next"' not in html(admin_client, page(made) + "?view=history")
        made.memory.add(UserMessage("one more"))
        assert 'rel="next"' in html(admin_client, page(made) + "?position=0")

    @pytest.mark.slow
    def test_totals_go_on_from_page_to_page(self, admin_client: Client) -> None:
        made = ConversationFactory(window="messages", limit=80)
        made.memory.add(*(UserMessage(f"m{number}") for number in range(90)))
        tokens = list(made.messages.retained().values_list("token_count", flat=True))
        totals = re.findall(r"running total (\d+)", timeline(html(admin_client, page(made) + "?position=60")))
        assert list(map(int, totals)) == [sum(tokens[: index + 1]) for index in range(30, 80)]

    @pytest.mark.parametrize(("go", "position"), [("7", 7), ("first-evicted", 0), ("999", 9), ("x", 0), ("", 0)])
    def test_one_can_go_to_a_position(self, admin_client: Client, go: str, position: int) -> None:
        made = said(10, window="messages", limit=3)
        answer = admin_client.get(page(made), {"go": go})
        assert answer["Location"] == f"{page(made)}?position={position}#message-{position}"

    @pytest.mark.slow
    def test_the_form_asks_for_that(self, admin_client: Client) -> None:
        made = said(60, window="messages", limit=3)
        assert '<input id="chatmemory-position" name="go"' in html(admin_client, page(made) + "?view=history")

    def test_evicted_messages_that_were_not_kept_are_not_linked(self, admin_client: Client, settings: Any) -> None:
        settings.CHATMEMORY = {"KEEP_HISTORY": False}
        made = said(2, window="messages", limit=1)
        assert "go=first-evicted" not in html(admin_client, page(made) + "?view=history")

    @pytest.mark.parametrize(("name", "query"), [("change", ""), ("memory", ""), ("memory", "?version=1")])
    @pytest.mark.parametrize("may_read", [True, False])
    def test_texts_are_not_even_read_for_those_who_may_not(
        self, staff: Any, conversation: Any, name: str, query: str, may_read: bool
    ) -> None:
        client = staff("view_conversation", *(["read_message_text"] if may_read else []))
        with CaptureQueriesContext(connection) as captured:
            html(client, page(conversation, name) + query)
        assert ("chatmemory_message.text" in columns_read(captured)) == may_read

    def test_folded_lines_without_text_say_what_they_are(self) -> None:
        call = AiMessage(None, [ToolExecutionRequest("1", "look_up", "{}"), ToolExecutionRequest("2", "add", "{}")])
        image = UserMessage([ImageContent("https://example.com/a.png"), ImageContent("https://example.com/b.png")])
        made = ConversationFactory()
        made.memory.add(call, image, UserMessage("\n" * 500 + "at last"), AiMessage(None))
        excerpts = [shown(row).excerpt for row in made.messages.order_by("position")]
        assert excerpts == ["Calls look_up(), add()", "Image, Image", "at last", ""]

    def test_an_excerpt_says_that_there_is_more(self) -> None:
        made = ConversationFactory()
        made.memory.add(UserMessage("a" * 160), UserMessage("a" * 161))
        excerpts = [shown(row).excerpt for row in made.messages.order_by("position")]
        assert excerpts == ["a" * 160, "a" * 160 + "…"]


class TestStrip:
    def test_says_what_each_bar_is(self, admin_client: Client) -> None:
        made = ConversationFactory(window="messages", limit=10)
        made.memory.add(SystemMessage("rules"), UserMessage("short"), UserMessage("long " * 100))
        made.memory.set([*made.memory.messages(), UserMessage("summary")])
        made.refresh_from_db()
        bars = Strip.read(made, 0, 49, MemoryMap.now(made), with_text=True).bars
        assert ["system" in bar.marks for bar in bars] == [True, False, False, False]
        assert ["synthetic" in bar.marks for bar in bars] == [False, False, False, True]
        assert bars[2].height == 48
        assert bars[1].height == 3  # a hundredth, which can still be seen
        drawn = own_part(html(admin_client, page(made)))
        assert drawn.count('class="chatmemory-bar-synthetic"') == 1
        assert drawn.count('class="chatmemory-bar-system"') == 1
        assert "<title>Message 1 · User · 5 tokens · retained</title>" in drawn

    def test_the_edge_is_drawn_where_the_first_retained_bar_begins(self, admin_client: Client) -> None:
        made = said(8, window="messages", limit=3)
        drawn = own_part(html(admin_client, page(made)))
        bars = re.findall(r'class="chatmemory-bar( chatmemory-bar-retained)?" x="(\d+)"', drawn)
        first_retained = next(int(x) for retained, x in bars if retained)
        assert f'class="chatmemory-strip-edge" x1="{first_retained - 1}"' in drawn


class TestGauge:
    @pytest.fixture
    def full(self) -> Conversation:
        """Its messages alone have as many tokens as its window."""
        made: Conversation = ConversationFactory(window="tokens", limit=1000)
        made.memory.add(UserMessage("hello world " * 45))
        made.refresh_from_db()
        Conversation.objects.filter(pk=made.pk).update(limit=made.retained_tokens)
        made.refresh_from_db()
        return made

    def test_counts_what_decides(self, admin_client: Client, full: Conversation) -> None:
        assert full.memory.messages() == []
        assert "over its limit" in words(html(admin_client, page(full)))
        full.memory.set_window(limit=full.limit)
        full.refresh_from_db()
        assert Gauge.of(full).used == 0

    def test_says_what_the_request_takes(self, admin_client: Client, full: Conversation) -> None:
        Conversation.objects.filter(pk=full.pk).update(limit=full.retained_tokens + 3)
        full.refresh_from_db()
        assert len(full.memory.messages()) == 1
        shown_page = words(html(admin_client, page(full)))
        amount = f"{full.retained_tokens} of {full.limit} tokens 100 percent of the window in use"
        assert f"{amount} plus 3 tokens of request overhead" in shown_page
        assert Gauge.of(full).is_over is False

    def test_says_what_is_reserved(self, admin_client: Client) -> None:
        made = said(2, window="tokens", limit=500, reserve=40)
        for address in (page(made), reverse("admin:chatmemory_conversation_memory", args=[made.pk])):
            assert "plus 40 tokens reserved for tools and the answer" in words(html(admin_client, address))

    def test_the_database_counts_alike(self, full: Conversation) -> None:
        said(2, window="messages", limit=9)
        ConversationFactory()
        said(2, window="tokens", limit=501, reserve=40)
        said(2, window="tokens", limit=501, reserve=300)
        for made in Conversation.objects.annotate(used=used_in_window()):
            assert made.used == Gauge.of(made).counted

    @pytest.mark.parametrize(("limit", "is_over"), [(4, False), (3, True)])
    def test_is_over_from_one_too_many(self, limit: int, is_over: bool) -> None:
        assert Gauge(used=4, limit=limit, counts_tokens=False).is_over is is_over


class TestWhatTheModelSaw:
    def saw(self, client: Client, made: Conversation, query: str = "") -> str:
        return words(html(client, page(made, "memory") + query))

    def test_a_limit_made_smaller_by_other_hands(self, admin_client: Client, conversation: Any) -> None:
        Conversation.objects.filter(pk=conversation.pk).update(limit=2)
        conversation.refresh_from_db()
        shown_page = html(admin_client, page(conversation, "memory"))
        assert "The memory at version 3 2 messages" in words(shown_page)
        assert "2 more messages are retained, but over the limit" in words(shown_page)
        openai = re.findall(r"<textarea[^>]*>(.*?)</textarea>", shown_page, re.DOTALL)[1]
        assert len(json.loads(openai.replace("&quot;", '"'))) == len(conversation.memory.messages()) == 2

    def test_nothing_fits(self, admin_client: Client) -> None:
        made = said(1, window="tokens", limit=100)
        Conversation.objects.filter(pk=made.pk).update(limit=1)
        assert "Nothing fits the window" in self.saw(admin_client, made)

    def test_what_was_not_kept_is_said(self, admin_client: Client, settings: Any) -> None:
        settings.CHATMEMORY = {"KEEP_HISTORY": False}
        made = said(4, window="messages", limit=2)
        assert "nothing is left of what the model got" in self.saw(admin_client, made, "?version=1")
        assert "may have received more than is shown" in self.saw(admin_client, made, "?version=3")
        assert "not kept" not in self.saw(admin_client, made)
        assert "The memory was empty" in self.saw(admin_client, made, "?version=0")

    def test_nothing_of_that_is_said_where_all_is_kept(self, admin_client: Client) -> None:
        made = said(4, window="messages", limit=2)
        made.memory.clear()
        assert "not kept" not in self.saw(admin_client, made, "?version=1")
        assert "The memory is empty" in self.saw(admin_client, made)

    def test_tokens_and_the_last_message_are_said(self, admin_client: Client, conversation: Any) -> None:
        tokens = sum(conversation.messages.filter(position__lt=2).values_list("token_count", flat=True))
        shown_page = self.saw(admin_client, conversation, "?version=1")
        assert f"2 messages {tokens} tokens" in shown_page
        assert "right after message 1" in shown_page
        conversation.memory.clear()
        assert "right after message 5" in self.saw(admin_client, conversation, "?version=3")

    @pytest.mark.slow
    def test_the_last_ones_are_shown_of_many(self, admin_client: Client) -> None:
        made = ConversationFactory(window="messages", limit=1000)
        made.memory.add(*(UserMessage(f"m{number}.") for number in range(510)))
        shown_page = self.saw(admin_client, made)
        assert "The first 10 messages are not shown." in shown_page
        assert "m10." in shown_page
        assert "m509." in shown_page
        assert " m9." not in shown_page

    @pytest.mark.parametrize("payload", ["{broken", "[]", '{"contents": 5}'])
    def test_a_message_that_cannot_be_read(self, admin_client: Client, conversation: Any, payload: str) -> None:
        break_message(conversation, 4, payload)
        shown_page = html(admin_client, page(conversation, "memory"))
        assert "There is no JSON of this memory, because a message cannot be read: message 4" in words(shown_page)
        assert "answer 2" in shown_page
        assert "<textarea" not in shown_page
        Conversation.objects.filter(pk=conversation.pk).update(limit=2)
        assert "message 4" in self.saw(admin_client, conversation)


class TestDownloads:
    @pytest.fixture
    def long(self) -> Conversation:
        made: Conversation = ConversationFactory(window="messages", limit=10)
        made.memory.add(UserMessage("x" * 120_000), AiMessage("y"))
        made.refresh_from_db()
        return made

    def test_take_the_place_of_long_json(self, admin_client: Client, long: Conversation) -> None:
        shown_page = html(admin_client, page(long, "memory"))
        assert "<textarea" not in shown_page
        for key in ("langchain4j", "openai"):
            assert f'href="?version=1&amp;download={key}"' in shown_page
        openai = admin_client.get(page(long, "memory") + "?version=1&download=openai")
        assert openai["Content-Disposition"] == f'attachment; filename="conversation-{long.pk}-version-1-openai.json"'
        assert [len(message["content"]) for message in openai.json()] == [120_000, 1]
        langchain4j = admin_client.get(page(long, "memory") + "?download=langchain4j").json()
        assert [message["type"] for message in langchain4j] == ["USER", "AI"]

    def test_are_for_those_who_may_read(self, staff: Any, long: Conversation) -> None:
        client = staff("view_conversation")
        assert client.get(page(long, "memory") + "?download=openai").status_code == 403
        assert "download=" not in html(client, page(long, "memory"))

    def test_have_the_thinking_that_was_sent_then(self, admin_client: Client) -> None:
        made: Conversation = ConversationFactory(window="messages", limit=4)
        answer = AiMessage("OK", thinking="Hm.", attributes={"thinking_signature": "signed"})
        made.memory.add(UserMessage("Hi"), answer)
        before = made.memory.to_format("anthropic")
        made.memory.add(UserMessage("Hi"), AiMessage("OK"), UserMessage("Hi"))
        for version, sent in (1, before), (2, made.memory.to_format("anthropic")):
            path = page(made, "memory") + f"?version={version}"
            assert admin_client.get(f"{path}&download=anthropic").json() == sent
            assert ("&quot;signature&quot;" in html(admin_client, path)) is (version == 1)

    def test_have_no_thinking_where_the_limit_was_made_smaller_by_other_hands(self, admin_client: Client) -> None:
        made: Conversation = ConversationFactory(window="messages", limit=4)
        answer = AiMessage("OK", thinking="Hm.", attributes={"thinking_signature": "signed"})
        made.memory.add(UserMessage("Hi"), answer, UserMessage("Hi"))
        Conversation.objects.update(limit=2)
        sent = admin_client.get(page(made, "memory") + "?download=anthropic").json()
        assert sent == made.memory.to_format("anthropic")
        assert "signed" not in json.dumps(sent)

    def test_what_a_format_cannot_express_is_said(self, admin_client: Client, long: Conversation) -> None:
        long.memory.add(CustomMessage({"a": 1}))
        shown_page = html(admin_client, page(long, "memory") + "?download=openai")
        assert "OpenAI has no such messages" in words(shown_page)
        assert 'download=openai"' not in shown_page
        assert 'download=openai-responses"' in shown_page
        assert "download=langchain4j" in shown_page


class TestWeight:
    @pytest.mark.slow
    def test_a_long_text_is_cut_and_can_be_had_whole(self, admin_client: Client) -> None:
        made = ConversationFactory(window="messages", limit=5)
        # More than is read for one page: of some messages only the beginning is read.
        made.memory.add(*(UserMessage("x" * 100_000) for _ in range(50)))
        shown_page = html(admin_client, page(made))
        assert len(shown_page) < 1_500_000
        assert "… and 80,000 more characters. Show the whole message" in words(shown_page)
        whole = html(admin_client, page(made) + "?position=3&whole=3")
        assert 'href="?position=3&amp;whole=3#message-3"' in shown_page
        assert "x" * 100_000 in whole
        assert len(whole) < len(shown_page) + 100_000
        for name, query in ("memory", ""), ("window", "?1-window=messages&1-limit=2"):
            other = html(admin_client, page(made, name) + query)
            assert len(other) < 300_000
            assert f'href="{page(made)}?position=47&amp;whole=47#message-47"' in other

    @pytest.mark.slow
    def test_many_messages_share_what_a_page_holds(self, admin_client: Client) -> None:
        made = ConversationFactory(window="messages", limit=500)
        made.memory.add(*(UserMessage("x" * 3000) for _ in range(500)))
        assert 500 * most_chars(500) <= 1_000_000
        assert len(html(admin_client, page(made, "memory"))) < 2_500_000

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "message",
        [
            UserMessage([TextContent("x" * 15_000)] * 10),
            UserMessage([TextContent("")] * 3000),
            UserMessage("x", name="n" * 400_000),
            UserMessage([ImageContent("https://example.com/" + "u" * 400_000)]),
            UserMessage([ImageContent(f"data:image/png;base64,{'A' * 400_000}")]),
            AiMessage("x", thinking="t" * 400_000),
            AiMessage(None, [ToolExecutionRequest("i" * 100_000, "n" * 100_000, "[" + "[]," * 60_000 + "1]")]),
            AiMessage(None, [ToolExecutionRequest("i", "n", "[" * 400 + "]" * 400)] * 100),
            ToolExecutionResultMessage("i" * 100_000, "n" * 100_000, "r" * 100_000),
            CustomMessage({"a": "b" * 400_000}),
        ],
    )
    def test_no_part_of_a_message_makes_a_page_heavy(self, admin_client: Client, message: Any) -> None:
        made = ConversationFactory(window="messages", limit=1, title="t")
        made.memory.add(message)
        assert len(own_part(html(admin_client, page(made)))) < 150_000

    def test_an_address_is_shortened(self) -> None:
        made = ConversationFactory()
        made.memory.add(UserMessage([ImageContent("https://example.com/" + "u" * 400)]))
        (placeholder,) = shown(made.messages.get()).parts
        assert placeholder.url == "https://example.com/" + "u" * 280 + "…"  # type: ignore[attr-defined]

    def test_a_data_url_is_a_type_and_a_size(self, admin_client: Client) -> None:
        made = ConversationFactory()
        made.memory.add(UserMessage([ImageContent(f"data:image/webp;base64,{'QUJD' * 1000}")]))
        shown_page = timeline(html(admin_client, page(made) + "?view=history")).replace("\xa0", " ")
        assert "Image image/webp 2.9 KB, stored as Base64 low detail" in shown_page
        assert "QUJD" not in shown_page

    def test_long_json_is_not_laid_out(self) -> None:
        text = json.dumps(["x"] * 10_000)
        assert lay_out(text) == text

    @pytest.mark.slow
    def test_a_page_reads_no_more_of_a_long_conversation(self, admin_client: Client) -> None:
        made = said(3, window="messages", limit=3)
        for _ in range(6):
            made.memory.add(*(UserMessage("x") for _ in range(100)))
        made.refresh_from_db()
        with CaptureQueriesContext(connection) as captured:
            Timeline.read(made, QueryDict(), MemoryMap.now(made), with_text=True)
        assert len(captured) <= 8
