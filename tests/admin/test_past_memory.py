"""The page "What the model had": before an answer, after a message, at a version, and compared with another version."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from html import unescape
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from chatmemory import (
    AiMessage,
    SystemMessage,
    UserMessage,
)
from chatmemory.formats.registry import message_formats
from chatmemory.models import Conversation
from tests.admin.test_conversation import html, own_part, staff, words  # noqa: F401
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db


def address(conversation: Conversation, query: str = "") -> str:
    return reverse("admin:chatmemory_conversation_memory", args=[conversation.pk]) + query


def section(page: str, name: str) -> str:
    """The text of a section, by the name of its heading's id."""
    found = re.search(rf'<section[^>]*aria-labelledby="chatmemory-{name}".*?</section>', page, re.DOTALL)
    return words(found[0]) if found else ""


def positions(page: str, name: str = "memory") -> list[int]:
    """The positions of the messages that a section shows, in order."""
    found = re.search(rf'<section[^>]*aria-labelledby="chatmemory-{name}".*?</section>', page, re.DOTALL)
    return [int(position) for position in re.findall(r'<header id="message-(\d+)"', found[0] if found else "")]


def said_one_by_one(limit: int, turns: int) -> Conversation:
    """A window of messages, and turns that were added message by message."""
    made: Conversation = ConversationFactory(window="messages", limit=limit)
    for turn in range(turns):
        made.memory.add(UserMessage(f"question {turn}."))
        made.memory.add(AiMessage(f"answer {turn}."))
    made.refresh_from_db()
    return made


@pytest.fixture
def conversation() -> Conversation:
    """Twelve messages, of which a window of four retains the last."""
    return said_one_by_one(4, 6)


class TestBeforeAnAnswer:
    def test_it_had_what_was_retained_when_its_answer_came(
        self, admin_client: Client, conversation: Conversation
    ) -> None:
        page = html(admin_client, address(conversation, "?answer=7"))
        assert "What the model had when it wrote message 7" in words(page)
        assert positions(page) == [3, 4, 5, 6]
        assert "4 messages" in section(page, "memory")

    def test_its_answer_stands_after_it(self, admin_client: Client, conversation: Conversation) -> None:
        page = html(admin_client, address(conversation, "?answer=7"))
        assert positions(page, "wrote") == [7]
        assert section(page, "wrote").startswith("… and it wrote:")
        assert page.index("question 3.") < page.index("answer 3.")

    def test_a_question_that_came_with_its_answer_is_there(self, admin_client: Client) -> None:
        made: Conversation = ConversationFactory(window="messages", limit=4)
        for turn in range(3):
            made.memory.add(UserMessage(f"question {turn}."), AiMessage(f"answer {turn}."))
        page = html(admin_client, address(made, "?answer=5"))
        # Message 0 made room in the same change, but was there when the answer was asked for.
        assert positions(page) == [0, 1, 2, 3, 4]

    def test_a_system_message_stands_first(self, admin_client: Client) -> None:
        made: Conversation = ConversationFactory(window="messages", limit=3, always_keep_system_message_first=True)
        made.memory.add(UserMessage("a"), AiMessage("b"))
        made.memory.add(SystemMessage("Be kind."), UserMessage("c"), AiMessage("d"))
        assert positions(html(admin_client, address(made, "?answer=4")))[0] == 2

    def test_a_long_system_message_is_folded(self, admin_client: Client) -> None:
        made: Conversation = ConversationFactory(window="messages", limit=3, always_keep_system_message_first=True)
        made.memory.add(SystemMessage("Be kind. " * 40), UserMessage("a " * 200), AiMessage("b"))
        shown = html(admin_client, address(made, "?answer=2"))
        assert positions(shown) == [0, 1]
        (folded,) = re.findall(r'<details class="chatmemory-folded.*?</details>', shown, re.DOTALL)
        assert "Be kind." in folded

    def test_what_came_and_left_in_its_own_change_is_said_to_be_unknown(self, admin_client: Client) -> None:
        made: Conversation = ConversationFactory(window="messages", limit=2)
        made.memory.add(*(UserMessage(f"m{number}") for number in range(4)), AiMessage("answer"))
        page = html(admin_client, address(made, "?answer=4"))
        assert positions(page) == [3]
        assert "Some of the messages 0 to 2 came and left in the same change" in section(page, "gone")

    @pytest.mark.slow
    def test_leads_to_the_answers_around(self, admin_client: Client, conversation: Conversation) -> None:
        page = html(admin_client, address(conversation, "?answer=7"))
        assert 'href="?answer=5" rel="prev"' in page
        assert 'href="?answer=9" rel="next"' in page
        assert 'rel="prev">Previous' not in html(admin_client, address(conversation, "?answer=1"))
        assert 'rel="next">Next' not in html(admin_client, address(conversation, "?answer=11"))

    def test_rows_can_be_had_as_a_file(self, admin_client: Client, conversation: Conversation) -> None:
        answer = admin_client.get(address(conversation, "?answer=7&download=openai"))
        said = [message["content"] for message in answer.json()]
        assert said == ["answer 1.", "question 2.", "answer 2.", "question 3."]
        assert f"conversation-{conversation.pk}-before-message-7-openai.json" in answer["Content-Disposition"]

    def test_no_words_without_permission(self, staff: Any, conversation: Conversation) -> None:  # noqa: F811
        page = html(staff("view_conversation"), address(conversation, "?answer=7&against=0"))
        assert positions(page) == [3, 4, 5, 6]
        assert not re.search(r"(question|answer) \d\.", page)


class TestWhatItHadNoLonger:
    def test_is_a_range_that_leads_to_the_history(self, admin_client: Client, conversation: Conversation) -> None:
        page = html(admin_client, address(conversation, "?answer=7"))
        assert "What it had no longer 0–2" in section(page, "gone")
        assert "?position=2#message-2" in page

    def test_has_the_last_messages_that_went(self, admin_client: Client, conversation: Conversation) -> None:
        gone = section(html(admin_client, address(conversation, "?answer=7")), "gone")
        assert "2 User question 1." in gone
        assert "question 2." not in gone

    def test_is_nothing_at_first(self, admin_client: Client, conversation: Conversation) -> None:
        assert "Nothing: it had all that was said." in section(
            html(admin_client, address(conversation, "?answer=3")), "gone"
        )

    def test_what_nobody_said_is_not_missed(self, admin_client: Client) -> None:
        made: Conversation = ConversationFactory(window="messages", limit=20)
        made.memory.add(UserMessage("a"))
        made.memory.set([UserMessage("a"), UserMessage("put in")])
        made.memory.set([UserMessage("a")])
        made.memory.add(AiMessage("b"))
        assert "Nothing: it had all that was said." in section(html(admin_client, address(made, "?answer=2")), "gone")


class TestTooLong:
    """A memory of more characters than are read at once."""

    @pytest.fixture(autouse=True)
    def few_characters(self, settings: Any) -> None:
        settings.CHATMEMORY = {"MAX_MEMORY_CHARS": 10}

    @pytest.mark.parametrize("query", ["?answer=7", "?version=5", "", "?answer=7&download=openai"])
    def test_says_why_there_is_no_json_and_what_has_the_messages(
        self, admin_client: Client, conversation: Conversation, query: str
    ) -> None:
        page = html(admin_client, address(conversation, query))
        assert section(page, "json") == (
            "As JSON, to copy This memory is too long to show or download as JSON here: export the whole conversation "
            "instead. Export JSON lines"
        )
        export = reverse("admin:chatmemory_conversation_export_jsonl", args=[conversation.pk])
        assert f'instead. <a href="{export}">Export JSON lines</a>' in page
        assert "question 3." in body(admin_client.get(export))

    def test_says_nothing_of_json_to_those_who_may_not_read(
        self,
        staff: Any,  # noqa: F811
        conversation: Conversation,
    ) -> None:
        page = html(staff("view_conversation"), address(conversation, "?answer=7"))
        assert section(page, "json") == ""


class TestCompared:
    def compared(self, client: Client, conversation: Conversation, query: str) -> str:
        return section(html(client, address(conversation, query)), "difference")

    def test_what_left_and_came_since(self, admin_client: Client, conversation: Conversation) -> None:
        shown = self.compared(admin_client, conversation, "?answer=7&against=9")
        assert "What changed from here to version 9" in shown
        assert "2 messages in both" in shown
        assert re.search(r"Left 2 3 AI answer 1\. 4 User question 2\. Came 2 7 AI .* 8 User", shown)

    def test_with_an_earlier_version(self, admin_client: Client, conversation: Conversation) -> None:
        shown = self.compared(admin_client, conversation, "?version=5&against=4")
        assert "What changed from version 4 to here" in shown
        assert re.search(r"Left 1 0 User question 0\. Came 1 4 User", shown)

    def test_what_a_rewrite_put_elsewhere_moved(self, admin_client: Client) -> None:
        made: Conversation = ConversationFactory(window="messages", limit=9)
        made.memory.add(UserMessage("a"), UserMessage("b"), UserMessage("c"))
        made.memory.set([UserMessage("c"), UserMessage("a"), UserMessage("b"), UserMessage("d")])
        shown = self.compared(admin_client, made, "?version=1&against=2")
        assert "3 messages in both" in shown
        assert re.search(r"Came 1 4 User d Moved 1 2 User c", shown)
        assert "Left" not in shown.replace("Left 0", "")

    def test_with_itself(self, admin_client: Client, conversation: Conversation) -> None:
        assert "both are the same" in self.compared(admin_client, conversation, "?version=5&against=5")

    def test_is_suggested_with_the_memory_now(self, admin_client: Client, conversation: Conversation) -> None:
        page = html(admin_client, address(conversation, "?answer=7"))
        assert 'id="difference"' not in page
        form = re.search(r'<input type="hidden" name="answer" value="7">.*?value="(\d+)"', page, re.DOTALL)
        assert form is not None
        assert form[1] == str(conversation.version)

    @pytest.mark.slow
    def test_stands_first_and_is_one_click_away(self, admin_client: Client, conversation: Conversation) -> None:
        shown = html(admin_client, address(conversation, "?answer=7"))
        (link,) = re.findall(r'<a href="([^"]*)">What has changed since</a>', shown)
        compared = html(admin_client, address(conversation, unescape(link)))
        assert f"What changed from here to version {conversation.version}" in section(compared, "difference")
        assert compared.index('id="difference"') < compared.index('id="chatmemory-memory"')
        assert '<a href="?answer=7">Without the comparison</a>' in compared
        assert "What has changed since" not in compared

    def test_of_the_memory_now_is_with_the_version_before(
        self, admin_client: Client, conversation: Conversation
    ) -> None:
        page = html(admin_client, address(conversation))
        assert "What has changed since" not in page
        assert f'name="against" type="number" min="0" max="12" value="{conversation.version - 1}"' in page

    def test_of_many_the_last_are_shown(self, admin_client: Client) -> None:
        made: Conversation = ConversationFactory(window="messages", limit=200)
        made.memory.add(*(UserMessage(f"m{number}.") for number in range(120)))
        shown = self.compared(admin_client, made, "?version=0&against=1")
        assert "Came 120 The first 70 messages are not shown." in shown
        assert "m119." in shown
        assert "m69." not in shown


class TestWrongInput:
    @pytest.mark.parametrize(
        ("query", "says"),
        [
            ("?answer=99", "Before answer #: there is no message 99. The messages are 0 to 11."),
            ("?answer=x", "Before answer #: there is no message x."),
            ("?message=99", "After message #: there is no message 99. The messages are 0 to 11."),
            ("?version=99", "Version: there is no version 99. The versions are 0 to 12."),
            ("?version=-1", "Version: there is no version -1."),
            ("?against=99", "Compare with version: there is no version 99. The versions are 0 to 12."),
            ("?against=<b>", "Compare with version: there is no version <b>."),
        ],
    )
    def test_is_named_by_its_field(
        self, admin_client: Client, conversation: Conversation, query: str, says: str
    ) -> None:
        page = html(admin_client, address(conversation, query))
        assert "errornote" in page
        notes = " ".join(re.findall(r'<p class="errornote">(.*?)</p>', page))
        assert says in notes.replace("&lt;", "<").replace("&gt;", ">")
        assert "<b>" not in notes
        assert positions(page) == [8, 9, 10, 11]

    def test_what_is_no_answer_is_said_and_the_memory_after_it_offered(
        self, admin_client: Client, conversation: Conversation
    ) -> None:
        page = html(admin_client, address(conversation, "?answer=6"))
        assert "message 6 is not an answer of the model. It is of the type: User." in words(page)
        assert 'href="?message=6"' in page

    def test_a_long_one_is_not_repeated(self, admin_client: Client, conversation: Conversation) -> None:
        assert "9" * 30 not in own_part(html(admin_client, address(conversation, f"?version={'9' * 5000}")))

    def test_of_nothing(self, admin_client: Client) -> None:
        made = ConversationFactory()
        assert "No messages were said yet." in words(html(admin_client, address(made, "?answer=0")))
        assert "Nothing had been said before." in words(html(admin_client, address(made)))


def files(conversation: Conversation) -> Iterable[str]:
    """Every address of a file that has words of a conversation."""
    for query in ("?version=3", "?message=3", "?answer=3", ""):
        for name in message_formats():
            yield address(conversation, f"{query or '?'}&download={name}")
    yield reverse("admin:chatmemory_conversation_export_jsonl", args=[conversation.pk])
    for name, format in message_formats().items():
        if format.write_each is not None:
            yield reverse(f"admin:chatmemory_conversation_export_{name}", args=[conversation.pk])


def body(answer: Any) -> str:
    whole: bytes = b"".join(answer.streaming_content) if answer.streaming else answer.content
    return whole.decode()


@pytest.mark.slow
def test_each_copy_that_leaves_is_logged(admin_client: Client, conversation: Conversation) -> None:
    for each in files(conversation):
        LogEntry.objects.all().delete()
        answer = admin_client.get(each)
        assert "attachment" in answer["Content-Disposition"], each
        assert "question" in body(answer), each
        entry = LogEntry.objects.get()
        assert entry.object_id == str(conversation.pk)
        assert entry.change_message.startswith("Exported"), each


def test_each_chosen_conversation_that_leaves_is_logged(admin_client: Client, conversation: Conversation) -> None:
    chosen = {"action": "export_selected", "_selected_action": [conversation.pk]}
    answer = admin_client.post(reverse("admin:chatmemory_conversation_changelist"), chosen)
    assert "question 0." in body(answer)
    assert [entry.change_message for entry in LogEntry.objects.all()] == ["Exported as JSON lines."]


def statements(client: Client, url: str) -> int:
    with CaptureQueriesContext(connection) as captured:
        html(client, url)
    return len(captured)


@pytest.mark.slow
@pytest.mark.parametrize("query", [lambda last: f"?answer={last}", lambda last: f"?answer={last}&against=2"])
def test_statements_do_not_grow_with_the_history(admin_client: Client, query: Callable[[int], str]) -> None:
    short, long = said_one_by_one(4, 6), said_one_by_one(4, 60)
    statements(admin_client, address(short, query(11)))
    assert statements(admin_client, address(short, query(11))) == statements(admin_client, address(long, query(111)))
