"""The admin's lists: what a search shows of what it found, and whose a conversation is."""

from __future__ import annotations

import re
from datetime import datetime
from html import unescape
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chatmemory import AiMessage, SystemMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.admin import conversations, lists
from chatmemory.admin.display.passages import marked
from chatmemory.admin.lists import words
from chatmemory.database.reading import name_from
from chatmemory.models import Conversation, Message
from tests.admin.test_conversation import conversation, html, staff  # noqa: F401
from tests.support.factories import ConversationFactory, UserFactory

# ruff: noqa: F811 (fixtures of another module)

pytestmark = pytest.mark.django_db

CONVERSATIONS = "/admin/chatmemory/conversation/"
MESSAGES = "/admin/chatmemory/message/"
FILLER = "Nothing is said here that anybody looks for. " * 40


def plain(text: str) -> str:
    """What is read of a piece of HTML, the marks aside."""
    return " ".join(unescape(re.sub(r"<[^>]+>", "", text)).split())


def search(client: Client, address: str, term: str, **query: Any) -> str:
    answer = client.get(address, {"q": term, **query})
    assert answer.status_code == 200
    return answer.content.decode()


def said(client: Client, term: str, **query: Any) -> list[str]:
    """The column "text" of the list of messages."""
    return re.findall(r'<bdi class="chatmemory-said">(.*?)</bdi>', search(client, MESSAGES, term, **query), re.DOTALL)


def found(client: Client, term: str, address: str = CONVERSATIONS) -> list[str]:
    """The column "found" of the list of conversations."""
    return re.findall(r'<td class="field-found">(.*?)</td>', search(client, address, term), re.DOTALL)


def names(client: Client, query: str) -> list[str]:
    """The conversations of a list, in its order."""
    return [plain(cell) for cell in re.findall(r'<th class="field-name">(.*?)</th>', html(client, query), re.DOTALL)]


class TestFoundInMessages:
    def test_is_the_passage_around_the_word(self, admin_client: Client) -> None:
        ConversationFactory().memory.add(UserMessage(f"{FILLER}Then a zebra came by and drank tea. {FILLER}"))
        [shown] = said(admin_client, "zebra")
        assert "Then a <mark>zebra</mark> came by" in shown
        assert shown.startswith("…")
        assert shown.endswith("…")
        assert len(plain(shown)) < 220

    def test_begins_with_a_whole_word(self, admin_client: Client) -> None:
        ConversationFactory().memory.add(UserMessage(f"{FILLER}a zebra"))
        [shown] = said(admin_client, "zebra")
        assert plain(shown).split()[0].strip("…") in FILLER.split()

    def test_is_the_text_as_it_is_if_that_is_short(self, admin_client: Client) -> None:
        ConversationFactory().memory.add(UserMessage("A zebra\n\ncame by"))
        assert said(admin_client, "zebra") == ["A <mark>zebra</mark> came by"]

    def test_is_what_was_written_whatever_its_case(self, admin_client: Client) -> None:
        ConversationFactory().memory.add(UserMessage(f"{FILLER} the ZeBrA's tea"))
        assert "<mark>ZeBrA</mark>&#x27;s" in said(admin_client, "zebra")[0]

    def test_is_found_where_words_have_no_spaces(self, admin_client: Client) -> None:
        ConversationFactory().memory.add(UserMessage("今日はとてもいい天気です。" * 30 + "猫がお茶を飲みました。"))
        [shown] = said(admin_client, "お茶")
        assert "猫が<mark>お茶</mark>を飲みました。" in shown

    def test_has_a_passage_for_each_word_far_from_the_others(self, admin_client: Client) -> None:
        ConversationFactory().memory.add(UserMessage(f"A zebra. {FILLER} Then tea. {FILLER}"))
        [shown] = said(admin_client, "tea zebra")
        assert shown.startswith("A <mark>zebra</mark>")
        assert "Then <mark>tea</mark>" in shown
        assert len(plain(shown)) < 430

    def test_says_nothing_twice(self, admin_client: Client) -> None:
        text = " ".join(f"word{number}" for number in range(20)) + " tea " + "x" * 150 + " zebra"
        ConversationFactory().memory.add(UserMessage(text))
        shown = plain(said(admin_client, "tea zebra")[0])
        assert shown.count("x" * 150) == 1
        assert shown.count("tea") == shown.count("zebra") == 1

    def test_takes_words_in_quotation_marks_as_one(self, admin_client: Client) -> None:
        ConversationFactory().memory.add(UserMessage("tea for a zebra"))
        assert said(admin_client, '"a zebra"') == ["tea for <mark>a zebra</mark>"]

    @pytest.mark.parametrize("term", ["<b>", "<script>alert(1)</script>", "&lt;", "a&amp", "(", "[a-", "\\", "%", "_"])
    def test_is_text_whatever_is_searched_for(self, admin_client: Client, term: str) -> None:
        text = f"before {term} after <img src=x> &amp; it"
        ConversationFactory().memory.add(UserMessage(text))
        [shown] = said(admin_client, term)
        assert plain(shown) == text
        assert set(re.findall(r"<.*?>", shown)) == {"<mark>", "</mark>"}

    @pytest.mark.slow
    def test_of_an_owner_only_is_the_beginning(self, admin_client: Client, conversation: Conversation) -> None:
        assert "question 0" in said(admin_client, "marta")
        assert "<mark>" not in "".join(said(admin_client, "marta"))

    def test_of_a_call_is_still_said(self, admin_client: Client) -> None:
        made = ConversationFactory(owner=UserFactory(username="zebra"))
        made.memory.add(AiMessage(None, [ToolExecutionRequest("1", "look_up", "{}")]))
        assert said(admin_client, "zebra") == ["Calls look_up()"]

    def test_is_all_that_is_read_of_the_text(self, admin_client: Client) -> None:
        ConversationFactory().memory.add(UserMessage(f"{FILLER * 20} a zebra {FILLER * 20} unread"))
        with CaptureQueriesContext(connection) as captured:
            said(admin_client, "zebra")
        selected = [query["sql"].partition(" FROM ")[0].replace("`", '"') for query in captured]
        rows = [sql for sql in selected if '"chatmemory_message"."id"' in sql]
        assert rows
        assert not any(re.search(r', "chatmemory_message"\."text"(,|$)', sql) for sql in rows)


class TestFoundInConversations:
    def test_are_counted_and_two_are_shown_with_links(self, admin_client: Client, conversation: Conversation) -> None:
        [shown] = found(admin_client, "question")
        assert "3 messages match" in plain(shown)
        change = f"/admin/chatmemory/conversation/{conversation.pk}/change/"
        assert re.findall('href="(.*?)"', shown) == [f"{change}?position={n}#message-{n}" for n in (4, 2)]
        assert "<mark>question</mark> 2" in shown

    @pytest.mark.slow
    def test_are_one_or_more(self, admin_client: Client, conversation: Conversation) -> None:
        assert "1 message matches" in plain(found(admin_client, '"question 1"')[0])
        conversation.memory.add(*(UserMessage(f"tea {number}") for number in range(10)))
        assert "10 messages match" in plain(found(admin_client, '"tea "')[0])
        conversation.memory.add(UserMessage("tea again"))
        assert "11 messages match" in plain(found(admin_client, '"tea "')[0])

    def test_with_most_of_the_words_come_first(self, admin_client: Client) -> None:
        made = ConversationFactory()
        made.memory.add(*map(UserMessage, ["a zebra drank tea", "tea", "a zebra", "tea again"]))
        [shown] = found(admin_client, "tea zebra")
        assert "4 messages match" in plain(shown)
        assert re.findall(r"#message-(\d)", shown) == ["0", "3"]

    @pytest.mark.slow
    def test_are_those_of_their_conversation(self, admin_client: Client) -> None:
        for number in range(3):
            made = ConversationFactory(title=f"Number {number}")
            made.memory.add(*(UserMessage(f"zebra of {number}") for _ in range(number + 1)))
        shown = [plain(cell) for cell in found(admin_client, "zebra")]
        assert [text.partition(" match")[0] for text in shown] == ["3 messages", "2 messages", "1 message"]
        for number, text in zip((2, 1, 0), shown, strict=True):
            assert set(re.findall(r"zebra of (\d)", text)) == {str(number)}

    def test_are_none_where_the_title_has_the_word(self, admin_client: Client, conversation: Conversation) -> None:
        assert found(admin_client, "About") == ["-"]
        assert "<mark>About</mark> tea" in search(admin_client, CONVERSATIONS, "About")

    def test_are_not_looked_for_without_a_search(self, admin_client: Client, conversation: Conversation) -> None:
        assert found(admin_client, "") == []
        assert "column-found" not in html(admin_client, CONVERSATIONS)

    def test_are_nothing_for_those_who_may_not_read(self, staff: Any, conversation: Conversation) -> None:
        client = staff("view_conversation")
        shown = search(client, CONVERSATIONS, "tea")
        assert "About" in shown
        assert "column-found" not in shown
        assert found(client, "question") == []

    @pytest.mark.slow
    def test_cost_the_same_statements_however_many(self, admin_client: Client, conversation: Conversation) -> None:
        def statements() -> int:
            with CaptureQueriesContext(connection) as captured:
                assert found(admin_client, "question")
            return len(captured)

        statements()  # a process reads the content types once
        before = statements()
        for number in range(30):
            made = ConversationFactory(title=f"More {number}")
            made.memory.add(*(UserMessage(f"question {number}") for _ in range(3)))
        assert statements() == before

    def test_are_of_the_page_only(self, admin_client: Client) -> None:
        for number in range(3):
            ConversationFactory().memory.add(UserMessage(f"zebra the {number}nth"))
        assert len(found(admin_client, "zebra 1nth")) == 1

    def test_have_the_place_of_the_last_words(self, admin_client: Client, conversation: Conversation) -> None:
        def columns(address: str) -> list[str]:
            return re.findall(r'<th[^>]* class="[^"]*column-(\w+)', html(admin_client, address))

        before, searched = columns(CONVERSATIONS), columns(f"{CONVERSATIONS}?q=question")
        assert "last_said" in before
        assert [name if name != "found" else "last_said" for name in searched] == before

    def test_leave_the_order_of_the_list_alone(self, admin_client: Client, conversation: Conversation) -> None:
        shown = html(admin_client, f"{CONVERSATIONS}?o=3&window__exact=messages")
        form = shown[shown.index('id="changelist-search"') :].partition("</form>")[0]
        assert 'name="window__exact"' in form
        assert 'name="o" value="3"' in form


class TestWordsOfConversations:
    @pytest.fixture
    def cells(self, admin_client: Client) -> Any:
        """The name and the last words of each conversation, the last active first."""

        def read(client: Client = admin_client) -> list[tuple[str, str]]:
            shown = html(client, CONVERSATIONS)
            names = re.findall(r'<th class="field-name">(.*?)</th>', shown, re.DOTALL)
            said = re.findall(r'<td class="field-last_said">(.*?)</td>', shown, re.DOTALL) or [""] * len(names)
            return [(plain(name), plain(words)) for name, words in zip(names, said, strict=True)]

        return read

    @pytest.mark.slow
    def test_the_last_are_what_the_user_or_the_model_said(self, cells: Any) -> None:
        made = ConversationFactory(title="Tea", window="messages", limit=3)
        made.memory.add(SystemMessage("rules"), UserMessage("Is it green?"), AiMessage("It  is.\n" * 200))
        assert cells()[0][1].startswith("It is. It is.")
        assert cells()[0][1].endswith("…")
        made.memory.add(
            AiMessage(None, [ToolExecutionRequest("1", "look_up", "{}")]),
            ToolExecutionResultMessage("1", "look_up", "A leaf."),
        )
        assert cells()[0][1].startswith("It is. It is.")
        made.memory.add(UserMessage("Thanks."))
        assert cells()[0][1] == "Thanks."

    def test_the_first_are_the_name_of_what_has_no_title(self, cells: Any) -> None:
        made = ConversationFactory(title="", memory_id="m-1", window="messages", limit=2)
        made.memory.add(SystemMessage("rules"), UserMessage("Where is my order? I have waited for ten days."))
        made.memory.add(*(UserMessage(f"m{number}") for number in range(5)))
        assert cells()[0][0] == "Where is my order? I have waited for ten days.m-1"
        made.title = "Late"
        made.save()
        assert cells()[0][0] == "Latem-1"

    def test_are_not_for_those_who_may_not_read_them(self, staff: Any, cells: Any) -> None:
        made = ConversationFactory(title="", memory_id="m-1")
        made.memory.add(UserMessage("planted"))
        client = staff("view_conversation")
        with CaptureQueriesContext(connection) as captured:
            assert cells(client) == [("m-1", "")]
        assert not any('"text"' in query["sql"] for query in captured)

    def test_reading_them_is_recorded(self, admin_client: Client, cells: Any) -> None:
        cells()
        assert not LogEntry.objects.exists()  # there was nothing to read
        ConversationFactory()
        cells()
        assert LogEntry.objects.count() == 1

    @pytest.mark.slow
    def test_cost_no_statement_for_each(self, cells: Any) -> None:
        def statements() -> int:
            with CaptureQueriesContext(connection) as captured:
                cells()
            return len(captured)

        ConversationFactory(title="").memory.add(UserMessage("a"), AiMessage("b"))
        cells()  # a process reads the content types once
        before = statements()
        for _ in range(5):
            ConversationFactory(title="").memory.add(UserMessage("a"), AiMessage("b"))
        assert statements() == before


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (None, ""),
        ("  Where\nis  it? ", "Where is it?"),
        ("word " * 20, "word word word word word word word word word word word…"),
        ("字" * 80, "字" * 59 + "…"),
        ("a " + "b" * 80, "a " + "b" * 57 + "…"),
    ],
)
def test_a_name_is_one_line_that_ends_with_a_word(words: str | None, name: str) -> None:
    assert name_from(words) == name


class TestMessages:
    def test_say_their_state_and_why_they_left_apart(self, admin_client: Client) -> None:
        made = ConversationFactory(window="messages", limit=2)
        for number in range(3):
            made.memory.add(UserMessage(f"m{number}"))
        made.memory.pin(2)
        shown = html(admin_client, MESSAGES)
        cells = re.findall(r'<td class="field-state">(.*?)</td><td class="field-reason">(.*?)</td>', shown)
        assert cells == [("pinned", "-"), ("retained", "-"), ("evicted", "no room in the window")]

    def test_name_a_conversation_without_a_title_by_its_first_words(self, admin_client: Client, staff: Any) -> None:
        made = ConversationFactory(title="", memory_id="m-1")
        made.memory.add(UserMessage("Where is it?"), AiMessage("Here."))
        place = r'<th class="field-place">.*?<bdi>(.*?)</bdi>'
        assert re.findall(place, html(admin_client, MESSAGES)) == ["Where is it?"] * 2
        assert re.findall(place, html(staff("view_message", "view_conversation"), MESSAGES)) == ["m-1"] * 2

    @pytest.mark.slow
    def test_a_search_says_how_many_it_found_also_where_they_are_too_many_to_count(
        self, admin_client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = ConversationFactory(window="messages", limit=9)
        made.memory.add(*(UserMessage(f"tea {number}") for number in range(5)))
        assert "5 results" in plain(search(admin_client, MESSAGES, "tea"))
        monkeypatch.setattr(lists, "_MOST_COUNTED", 3)
        assert "3+ results" in plain(search(admin_client, MESSAGES, "tea"))
        assert "3+ results" not in plain(html(admin_client, MESSAGES))


class TestMoments:
    @pytest.mark.parametrize("address", [CONVERSATIONS, MESSAGES])
    def test_are_short_and_whole_on_hover(self, admin_client: Client, address: str) -> None:
        ConversationFactory().memory.add(UserMessage("Tea"))
        moment = datetime(timezone.now().year, 3, 7, 15, 4, tzinfo=timezone.get_current_timezone())
        Conversation.objects.update(updated_at=moment)
        Message.objects.update(created_at=moment)
        [(title, said)] = re.findall(r'<time [^>]*title="([^"]*)">(.*?)</time>', html(admin_client, address), re.DOTALL)
        assert plain(said) == "Mar 7 3:04 p.m."
        assert title == f"March 7, {moment.year}, 3:04 p.m."

    def test_of_another_year_have_the_year(self, admin_client: Client) -> None:
        ConversationFactory()
        Conversation.objects.update(updated_at=datetime(2020, 3, 7, 15, 4, tzinfo=timezone.get_current_timezone()))
        assert "March 7, 2020 3:04 p.m." in plain(html(admin_client, CONVERSATIONS))


class TestCharactersThatNoDatabaseTakes:
    @pytest.mark.parametrize("address", [CONVERSATIONS, MESSAGES])
    @pytest.mark.parametrize("term", ["\x00", "tea\x00", "question \x00"])
    def test_are_found_nowhere(self, admin_client: Client, conversation: Conversation, address: str, term: str) -> None:
        assert "0 results" in plain(search(admin_client, address, term))

    def test_are_in_no_condition(self) -> None:
        assert words('a\x00 "\ud800 b" c') == ["a\ufffd", '"\ufffd b"', "c"]

    @pytest.mark.parametrize("address", [CONVERSATIONS, MESSAGES])
    def test_are_no_error_in_another_encoding(self, admin_client: Client, address: str) -> None:
        """UTF-7 can say a lone surrogate."""
        answer = admin_client.get(f"{address}?q=%2B2AA-", headers={"content-type": "text/html; charset=utf-7"})
        assert answer.status_code in {200, 302, 400}


class TestOwners:
    @pytest.fixture
    def nobodys(self) -> Conversation:
        made: Conversation = ConversationFactory(owner=None, title="Nobody's own")
        made.memory.add(UserMessage("said by nobody"))
        return made

    @pytest.mark.slow
    @pytest.mark.parametrize("address", [CONVERSATIONS, MESSAGES])
    def test_are_links_to_what_is_theirs(
        self, admin_client: Client, conversation: Conversation, nobodys: Conversation, address: str
    ) -> None:
        shown = html(admin_client, address)
        theirs, of_nobody = f"?owner={conversation.owner_id}", "?owner=none"
        assert f'<a href="{theirs}"><bdi>marta</bdi></a>' in shown
        assert f'<a href="{of_nobody}"><bdi>no owner</bdi></a>' in shown
        assert "Nobody" not in html(admin_client, address + theirs)
        assert "About tea" in html(admin_client, address + theirs)
        assert "Nobody" in html(admin_client, address + of_nobody)
        assert "About tea" not in html(admin_client, address + of_nobody)

    @pytest.mark.parametrize("address", [CONVERSATIONS, MESSAGES])
    def test_lead_from_a_list_to_choose_from_to_such_a_list(
        self, admin_client: Client, conversation: Conversation, nobodys: Conversation, address: str
    ) -> None:
        shown = html(admin_client, f"{address}?_popup=1&_to_field=id")
        links = {unescape(link) for link in re.findall(r'<a href="([^"]*)"><bdi>(?:marta|no owner)<', shown)}
        assert len(links) == 2
        for link in links:
            assert 'data-popup-opener="' in html(admin_client, address + link)

    @pytest.mark.parametrize("address", [CONVERSATIONS, MESSAGES])
    def test_are_not_listed_to_choose_from(
        self, admin_client: Client, conversation: Conversation, address: str
    ) -> None:
        ConversationFactory(owner=UserFactory(username="eve")).memory.add(UserMessage("x"))
        # A later Django has another element for it.
        shown = re.split("</(?:nav|search)>", html(admin_client, address).partition('id="changelist-filter"')[2])[0]
        assert "By owner All no owner" in " ".join(unescape(re.sub(r"<[^>]+>", " ", shown)).split())
        assert "eve" not in shown

    def test_chosen_is_shown_and_can_be_undone(self, admin_client: Client, conversation: Conversation) -> None:
        address = f"{CONVERSATIONS}?owner={conversation.owner_id}&window__exact=messages"
        shown = html(admin_client, address).partition('id="changelist-filter"')[2]
        choices = re.findall(r'<li(.*?)>\s*<a href="(.*?)">(.*?)</a>', shown)[:3]
        assert [(name, "selected" in chosen) for chosen, _, name in choices] == [
            ("All", False),
            ("marta", True),
            ("no owner", False),
        ]
        assert [unescape(address) for _, address, _ in choices] == [
            "?window__exact=messages",
            f"?owner={conversation.owner_id}&window__exact=messages",
            "?owner=none&window__exact=messages",
        ]

    @pytest.mark.parametrize("query", ["owner=x", "owner=", f"owner={10**30}"])
    def test_that_cannot_be_are_no_error_of_the_server(self, admin_client: Client, query: str) -> None:
        assert admin_client.get(f"{CONVERSATIONS}?{query}").status_code in {200, 302}

    @pytest.mark.parametrize("query", ["owner=1", "owner=none"])
    def test_are_for_those_who_may_see_conversations(self, staff: Any, conversation: Conversation, query: str) -> None:
        client = staff("view_message")
        assert client.get(f"{MESSAGES}?conversation__{query}").status_code == 400
        assert "By owner" not in plain(html(client, MESSAGES))


class TestPagesOfRows:
    @pytest.fixture
    def many(self) -> None:
        Conversation.objects.bulk_create(
            Conversation(
                memory_id=f"m{n:03}",
                title=f"t{n % 7}",
                window="messages",
                limit=10,
                retained_count=n % 11,
                next_position=n % 11 + n % 3,
            )
            for n in range(130)
        )

    @pytest.mark.slow
    @pytest.mark.parametrize("order", ["", "1", "-1", "3", "5", "-5", "6", "-6", "7", "-6.1"])
    def test_have_each_row_once_and_in_its_order(self, admin_client: Client, many: None, order: str) -> None:
        pages = [names(admin_client, f"{CONVERSATIONS}?o={order}&p={number}") for number in (1, 2)]
        assert list(map(len, pages)) == [100, 30]
        shown = [re.search("m\\d+", name)[0] for name in [*pages[0], *pages[1]]]  # type: ignore[index]
        assert len(set(shown)) == 130
        rows = {row.memory_id: row for row in Conversation.objects.all()}
        keys: dict[str, Any] = {
            "": lambda row: row.updated_at,
            "1": lambda row: row.title,
            "3": lambda row: row.owner_id or 0,
            "5": lambda row: row.retained_count,
            "6": lambda row: row.evicted_count,
            "7": lambda row: row.updated_at,
        }
        for part in [order.split(".")[0]]:
            values = [keys[part.strip("-")](rows[name]) for name in shown]
            assert values == sorted(values, reverse=part.startswith("-") or not part)

    @pytest.mark.slow
    @pytest.mark.parametrize(("most", "links"), [(130, 5), (129, 2)])
    def test_are_sorted_by_an_index_alone_where_they_are_too_many(
        self, admin_client: Client, many: None, monkeypatch: pytest.MonkeyPatch, most: int, links: int
    ) -> None:
        monkeypatch.setattr(conversations, "MOST_SORTED", most)
        newest = names(admin_client, CONVERSATIONS)
        for order in ("1", "6"):
            asked = f"{CONVERSATIONS}?o={order}&p=1"
            assert (names(admin_client, asked) == newest) is (most < 130), order
        assert names(admin_client, f"{CONVERSATIONS}?o=5") != newest
        assert len(re.findall(r'<th[^>]*class="[^"]*\bsortable\b', html(admin_client, CONVERSATIONS))) == links

    @pytest.mark.slow
    def test_are_counted_when_they_were_chosen(self, admin_client: Client, many: None) -> None:
        assert "130 results" not in plain(html(admin_client, CONVERSATIONS))
        assert "130 results" in plain(html(admin_client, f"{CONVERSATIONS}?window__exact=messages"))
        assert "1 result (Show all)" in plain(html(admin_client, f"{CONVERSATIONS}?q=m007"))

    @pytest.mark.slow
    def test_are_found_by_their_keys(self, admin_client: Client, many: None) -> None:
        """A database that sorted whole rows would read them all."""
        with CaptureQueriesContext(connection) as captured:
            html(admin_client, f"{CONVERSATIONS}?o=-5")
        # Of those that read a page by its keys, only subqueries are sorted.
        ends = {query["sql"]: query["sql"].rpartition(")")[2] for query in captured}
        sorting = [sql for sql, end in ends.items() if "ORDER BY" in end and "conversation" in sql]
        assert sorting
        assert not any("memory_id" in sql or "JOIN" in sql for sql in sorting)

    @pytest.mark.slow
    @pytest.mark.skipif(connection.vendor != "sqlite", reason="the others choose by how many rows there are")
    @pytest.mark.parametrize(
        "query", ["", "p=2", "o=-5", "o=6", "window__exact=messages", "fullness=low", "evicted=yes", "evicted=no&o=-6"]
    )
    def test_are_found_in_an_index_alone(self, admin_client: Client, many: None, query: str) -> None:
        with CaptureQueriesContext(connection) as captured:
            html(admin_client, f"{CONVERSATIONS}?{query}")
        [keys] = [query["sql"] for query in captured if 'AS "pk"' in query["sql"]]
        with connection.cursor() as cursor:
            plan = str(cursor.execute(f"EXPLAIN QUERY PLAN {keys}").fetchall())
        assert "USING COVERING INDEX chatmemory_conv_updated" in plan


def test_marks_are_put_around_the_longest_word() -> None:
    assert str(marked("A teapot, a tea", ["tea", "teapot", ""])) == "A <mark>teapot</mark>, a <mark>tea</mark>"


def test_nothing_is_marked_in_what_a_page_says_itself(admin_client: Client) -> None:
    made = ConversationFactory(title="span class")
    made.memory.add(SystemMessage("bdi span"))
    shown = search(admin_client, CONVERSATIONS, "span bdi")
    assert "<<mark>" not in shown
    assert Message.objects.count() == 1
