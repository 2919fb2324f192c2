"""Summaries in the admin: what they cover, what is in none, what failed, and making one now."""

# ruff: noqa: F811 (fixtures of another module)

from __future__ import annotations

import logging
import re
from html import unescape
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from chatmemory import AiMessage, SystemMessage, UserMessage
from chatmemory.admin.display import summary_cards
from chatmemory.models import Compaction, Conversation, Message, Origin
from chatmemory.personal_data import erase_user
from tests.admin.test_conversation import html, own_part, page, staff, timeline, words  # noqa: F401
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db

SHORT = "They spoke about tea."
MESSAGES = "/admin/chatmemory/message/"


def shortest(messages: Any, previous: str | None) -> str:
    """A summarizer."""
    return SHORT


class WordlessError(Exception):
    """An error that fails even when it is to be told."""

    def __str__(self) -> str:
        raise KeyError("reason")


def failing_wordless(messages: Any, previous: str | None) -> str:
    raise WordlessError


def failing_in_halves(messages: Any, previous: str | None) -> str:
    raise ValueError("\ud800")


def failing(messages: Any, previous: str | None) -> str:
    """A summarizer of which nothing comes."""
    raise TimeoutError("the model did not answer about plantedWord")


def outside_of_transactions(messages: Any, previous: str | None) -> str:
    """A summarizer that tells whether a transaction is open."""
    return f"open: {connection.in_atomic_block}"


def untitling(messages: Any, previous: str | None) -> str:
    """A summarizer while which the title is taken away."""
    Conversation.objects.filter(title="About tea").update(title="")
    return SHORT


def failing_late(messages: Any, previous: str | None) -> str:
    """A summarizer that fails after the conversation was anonymised."""
    erase_user(Conversation.objects.get(title="About tea").owner, how="anonymise")
    return failing(messages, previous)


def two_at_once(messages: Any, previous: str | None) -> str | None:
    """A summarizer while which somebody else asks for a summary, too."""
    (conversation,) = Conversation.objects.filter(title="About tea")
    assert conversation.memory.compact(shortest) is None
    client, address = two_at_once.other  # type: ignore[attr-defined]
    two_at_once.seen = words(own_part(html(client, address)))  # type: ignore[attr-defined]
    return SHORT


def turn(number: int) -> list[Any]:
    return [UserMessage(f"question {number} " + "tea " * 60), AiMessage(f"answer {number} " + "leaf " * 60)]


@pytest.fixture
def conversation() -> Conversation:
    """Six turns behind a system message: twelve messages, of which a window of nine keeps the last eight and it."""
    made: Conversation = ConversationFactory(title="About tea", window="messages", limit=9, compact_at=90)
    made.memory.add(SystemMessage("Be kind."))
    for number in range(6):
        made.memory.add(*turn(number))
    made.refresh_from_db()
    return made


@pytest.fixture
def summarizer(settings: Any) -> Any:
    def choose(name: str) -> None:
        settings.CHATMEMORY = {**getattr(settings, "CHATMEMORY", {}), "SUMMARIZER": f"{__name__}.{name}"}

    choose("shortest")
    return choose


def ask(client: Client, conversation: Conversation, query: str = "") -> str:
    return words(own_part(html(client, page(conversation, "compact") + query)))


def confirm(client: Client, conversation: Conversation, **changed: Any) -> str:
    """Submit the form of the confirmation, and return the page that follows."""
    address = page(conversation, "compact")
    shown = html(client, address)
    form = re.search(r'<form method="post" class="chatmemory-confirm">.*?</form>', shown, re.DOTALL)
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form[0])) if form else {}
    response = client.post(address, fields | changed, follow=True)
    assert response.status_code == 200
    return response.content.decode()


def card(text: str, position: int) -> str:
    """The text of a message on the timeline."""
    start = text.index(f'id="message-{position}"')
    return words(text[start : text.index("</article>", start)])


def logged() -> list[str]:
    done = LogEntry.objects.exclude(change_message="Read what its messages say.")
    return list(done.order_by("pk").values_list("change_message", flat=True))


def summary_of(conversation: Conversation) -> Message:
    return conversation.messages.filter(origin=Origin.SUMMARY).latest("position")


class TestSummarisingNow:
    def test_shows_the_plan_and_nothing_of_the_words(self, admin_client, conversation, summarizer) -> None:
        shown = ask(admin_client, conversation)
        plan = conversation.memory.plan_compaction()
        assert (plan.covers_from, plan.covers_to) == (1, 8)
        assert f"Messages 1 – 8 New in the summary 8 messages Tokens that it replaces {plan.tokens:,}" in shown
        retained = conversation.messages.retained()
        staying = sum(row.token_count for row in retained if row.position == 0 or row.position > 8)
        assert f"Stays as it is 5 messages {staying:,} tokens" in shown
        assert "Some of these messages were evicted before" in shown
        assert "question" not in shown
        assert not conversation.messages.filter(origin=Origin.SUMMARY).exists()

    @pytest.mark.slow
    def test_makes_a_summary_that_is_shown_and_logged(self, admin_client, conversation, summarizer) -> None:
        tokens = conversation.memory.plan_compaction().tokens
        done = confirm(admin_client, conversation)
        summary = summary_of(conversation)
        said = f"A summary covers messages 1 to 8 now: {tokens} → {summary.token_count} tokens."
        assert said in words(done)
        assert logged() == [said]
        assert [row.position for row in conversation.messages.retained()] == [0, 13, 9, 10, 11, 12]

    @pytest.mark.slow
    def test_keeps_as_much_as_was_asked_for(self, admin_client, conversation, summarizer) -> None:
        assert "Messages 1 – 10" in ask(admin_client, conversation, "?keep=0")
        confirm(admin_client, conversation, keep="0", seen="1-10")
        assert summary_of(conversation).covers_to == 10

    def test_a_percentage_that_is_none_is_refused(self, admin_client, conversation, summarizer) -> None:
        assert "less than or equal to 100" in ask(admin_client, conversation, "?keep=101")

    def test_other_messages_than_were_shown_are_asked_about_again(self, admin_client, conversation, summarizer) -> None:
        for number in range(6, 9):
            conversation.memory.add(*turn(number))
        again = words(confirm(admin_client, conversation, seen="1-8"))
        assert "Nothing was changed: the conversation has changed since this page was shown." in again
        assert "Messages 1 – 14" in again
        assert not conversation.messages.filter(origin=Origin.SUMMARY).exists()

    def test_without_a_summarizer_it_says_what_to_set(self, admin_client, conversation) -> None:
        shown = ask(admin_client, conversation)
        assert "this project names no function that writes summaries. The setting is SUMMARIZER" in shown
        assert "Yes, summarise them" not in shown
        confirm(admin_client, conversation, keep="50", seen="1-8")
        assert not conversation.messages.filter(origin=Origin.SUMMARY).exists()

    def test_too_little_is_left_alone(self, admin_client, summarizer) -> None:
        small = ConversationFactory()
        small.memory.add(UserMessage("Hi"), AiMessage("Hello"))
        assert "There is too little to summarise" in ask(admin_client, small)

    def test_what_is_left_for_further_summaries_is_said(self, admin_client, conversation, summarizer, settings) -> None:
        conversation.memory.set_window(window="tokens", limit=600)
        settings.CHATMEMORY = {**settings.CHATMEMORY, "MAX_MEMORY_MESSAGES": 9}
        assert "Left for further summaries 2 messages" in ask(admin_client, conversation, "?keep=0")

    @pytest.mark.parametrize("bound", [{"MAX_MEMORY_CHARS": 1000}, {"MAX_MEMORY_MESSAGES": 5}], ids=str)
    def test_too_much_for_a_page_is_not_read(
        self, admin_client, conversation, summarizer, settings, bound: dict[str, int]
    ) -> None:
        conversation.memory.set_window(limit=20)
        settings.CHATMEMORY = {**settings.CHATMEMORY, **bound}
        assert "There is too much to summarise for this page." in ask(admin_client, conversation)
        admin_client.post(page(conversation, "compact"), {"keep": "50", "seen": "1-8"})
        assert not conversation.messages.filter(origin=Origin.SUMMARY).exists()

    def test_a_message_that_cannot_be_read_is_named(self, admin_client, conversation, summarizer) -> None:
        conversation.messages.filter(position=6).update(type="AI", payload="{broken")
        shown = ask(admin_client, conversation)
        assert "Nothing can be summarised, because a message cannot be read: message 6" in shown

    @pytest.mark.slow
    def test_it_needs_a_permission_of_its_own(self, staff, conversation, summarizer) -> None:
        client = staff("view_conversation", "change_conversation", "read_message_text")
        assert "Summarise now" not in html(client, page(conversation))
        assert client.get(page(conversation, "compact")).status_code == 403
        assert client.post(page(conversation, "compact"), {"keep": "50", "seen": "1-8"}).status_code == 403

    @pytest.mark.slow
    def test_who_has_it_need_not_read_nor_change(self, staff, conversation, summarizer) -> None:
        client = staff("view_conversation", "compact_conversation")
        assert "Summarise now" in html(client, page(conversation))
        done = confirm(client, conversation)
        assert "A summary covers messages 1 to 8 now" in words(done)
        assert SHORT not in done
        assert "question" not in words(own_part(done))

    def test_an_erased_conversation_is_not_found(self, admin_client, summarizer) -> None:
        gone = reverse("admin:chatmemory_conversation_compact", args=["01900000-0000-7000-8000-000000000000"])
        assert admin_client.get(gone).status_code == 404

    @pytest.mark.slow
    def test_while_another_makes_one_it_says_so(self, admin_client, conversation, summarizer) -> None:
        summarizer("two_at_once")
        two_at_once.other = admin_client, page(conversation, "compact")  # type: ignore[attr-defined]
        confirm(admin_client, conversation)
        assert "Somebody else is making a summary now." in two_at_once.seen  # type: ignore[attr-defined]
        assert "Yes, summarise them" not in two_at_once.seen  # type: ignore[attr-defined]
        assert summary_of(conversation).covers_to == 8

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("name", "told"),
        [("failing_wordless", "WordlessError: without a text"), ("failing_in_halves", "ValueError: \ufffd")],
    )
    def test_an_error_that_no_page_can_hold(
        self, admin_client: Client, conversation: Conversation, summarizer: Any, name: str, told: str
    ) -> None:
        summarizer(name)
        logging.disable()  # a lone surrogate in the log is more than a report of pytest can hold
        try:
            done = words(confirm(admin_client, conversation))
        finally:
            logging.disable(logging.NOTSET)
        assert f"The project's function failed: {told}" in done


class TestFailures:
    @pytest.mark.slow
    def test_a_failure_changes_nothing_and_is_shown(self, admin_client, conversation, summarizer) -> None:
        summarizer("failing")
        before = conversation.version
        done = words(confirm(admin_client, conversation))
        assert "nothing has changed. The project's function failed: TimeoutError: the model did not answer" in done
        conversation.refresh_from_db()
        assert conversation.version == before
        assert logged() == ["No summary was made: TimeoutError."]
        for shown in (words(html(admin_client, page(conversation))), ask(admin_client, conversation)):
            assert "1 attempt at a summary failed since the last one. Nothing was changed by it." in shown
            assert "TimeoutError: the model did not answer about plantedWord" in shown
            assert "Not tried again by itself before:" in shown
        confirm(admin_client, conversation)
        assert "2 attempts at a summary failed" in words(html(admin_client, page(conversation)))

    @pytest.mark.slow
    def test_the_log_has_no_title_that_was_erased_while_the_model_worked(
        self, admin_client, conversation, summarizer
    ) -> None:
        summarizer("untitling")
        confirm(admin_client, conversation)
        assert LogEntry.objects.filter(change_message__startswith="A summary").exists()
        assert not LogEntry.objects.filter(
            change_message__startswith="A summary", object_repr__contains="About tea"
        ).exists()

    @pytest.mark.slow
    def test_it_is_not_noted_of_a_conversation_that_was_anonymised_meanwhile(
        self, admin_client, conversation, summarizer
    ) -> None:
        summarizer("failing_late")
        address = page(conversation, "compact")
        seen = re.search(r'name="seen" value="([^"]*)"', html(admin_client, address))
        assert admin_client.post(address, {"seen": seen[1] if seen else ""}).status_code == 404
        assert not Compaction.objects.exists()

    @pytest.mark.slow
    def test_its_words_are_for_those_who_may_read_texts(self, staff, conversation, summarizer) -> None:
        summarizer("failing")
        client = staff("view_conversation", "compact_conversation")
        for shown in (confirm(client, conversation), html(client, page(conversation)), ask(client, conversation)):
            assert "TimeoutError" in shown
            assert "plantedWord" not in shown

    @pytest.mark.slow
    def test_a_pause_that_is_over_is_told(self, admin_client, conversation, summarizer) -> None:
        summarizer("failing")
        confirm(admin_client, conversation)
        Compaction.objects.update(retry_at=timezone.now() - timezone.timedelta(minutes=1))
        assert "The pause is over" in words(html(admin_client, page(conversation)))

    @pytest.mark.slow
    def test_a_success_forgets_it(self, admin_client, conversation, summarizer) -> None:
        summarizer("failing")
        confirm(admin_client, conversation)
        summarizer("shortest")
        confirm(admin_client, conversation)
        assert "failed since" not in words(html(admin_client, page(conversation)))


class TestOnTheTimeline:
    @pytest.mark.slow
    def test_a_summary_says_what_it_stands_for(self, admin_client, conversation) -> None:
        conversation.memory.compact(shortest)
        shown = html(admin_client, page(conversation) + "?view=history")
        summary, covered = summary_of(conversation), conversation.messages.filter(position__range=(1, 8))
        tokens = sum(row.token_count for row in covered)
        said = card(shown, 13)
        assert f"Covers 1 to 8 (4 turns) {tokens:,} → {summary.token_count} tokens" in said
        assert "4 more messages were said before it was made" in said
        assert "1 User question 0" in said
        assert "number 2 in the memory" in said
        assert "running total" in card(shown, 12)  # a summary does not change the order of the others

    @pytest.mark.slow
    def test_an_evicted_message_leads_to_its_summary(self, admin_client, conversation) -> None:
        conversation.memory.compact(shortest)
        shown = html(admin_client, page(conversation))
        left = card(shown, 1), card(shown, 8)
        assert "Evicted pushed out by messages" in left[0]  # before there was a summary
        assert "Evicted: a summary covers it" in left[1]
        for text in left:
            assert "message 13 is the summary" in text
            assert "in no summary" not in text
        assert '<a href="?position=13#message-13">message 13 is the summary</a>' in shown

    @pytest.mark.slow
    def test_of_many_only_the_newest_have_cards(self, admin_client, conversation) -> None:
        for number in range(6, 30):
            conversation.memory.add(*turn(number))
            conversation.memory.compact(shortest)
        for query in ("", "?view=history"):
            with CaptureQueriesContext(connection) as captured:
                shown = html(admin_client, page(conversation) + query)
            assert shown.count('class="chatmemory-card"') == 5
            assert len(captured) <= 44
        assert "Covers messages 1–" in words(shown)

    @pytest.mark.slow
    def test_a_superseded_summary_keeps_its_card(self, admin_client, conversation) -> None:
        conversation.memory.compact(shortest)
        for number in range(6, 10):
            conversation.memory.add(*turn(number))
        conversation.memory.compact(shortest)
        shown = html(admin_client, page(conversation))
        older, newer = conversation.messages.filter(origin=Origin.SUMMARY).order_by("position")
        assert "Covers 1 to 8 (4 turns)" in card(shown, older.position)
        assert f"message {newer.position} is the summary" in card(shown, older.position)
        assert f"Covers 1 to {newer.covers_to} (" in card(shown, newer.position)
        assert f"message {older.position} is the summary" in card(shown, 1)  # the first that took it in
        assert f"message {newer.position} is the summary" in card(shown, 9)

    @pytest.mark.slow
    def test_what_was_pinned_at_that_time_is_in_no_summary(self, admin_client, conversation) -> None:
        conversation.memory.pin(7)
        conversation.memory.compact(shortest)
        shown = html(admin_client, page(conversation))
        assert "(3 turns)" in card(shown, 13)
        assert "is the summary" not in card(shown, 7)
        conversation.memory.unpin(7)
        conversation.memory.set_window(limit=2)
        shown = html(admin_client, page(conversation))
        assert "is the summary" not in card(shown, 7)
        assert "(3 turns)" in card(shown, 13)

    @pytest.mark.slow
    def test_words_are_for_those_who_may_read_them(self, staff, conversation) -> None:
        conversation.memory.compact(shortest)
        shown = html(staff("view_conversation"), page(conversation))
        assert "Covers 1 to 8 (4 turns)" in card(shown, 13)
        assert "question" not in shown
        assert SHORT not in shown

    @pytest.mark.slow
    def test_many_messages_are_neither_listed_nor_counted(self, admin_client, conversation, monkeypatch) -> None:
        conversation.memory.set_window(window="tokens", limit=100_000)
        for number in range(6, 40):
            conversation.memory.add(*turn(number))
        conversation.memory.compact(shortest, keep=0)
        address = page(conversation)
        summary = summary_of(conversation)
        assert summary.covers_to == 78
        shown = html(admin_client, address)
        listed = shown[shown.index('class="chatmemory-originals"') :]
        assert listed[: listed.index("</ul>")].count("<li>") == 10
        assert "… and 68 more All of them on the timeline" in card(shown, summary.position)
        monkeypatch.setattr(summary_cards, "MOST_COUNTED", 50)
        said = card(html(admin_client, address), summary.position)
        assert "more messages were said" not in said
        assert "Covers 1 to 78" in said
        assert "turns" not in said

    @pytest.mark.slow
    def test_deleted_originals_are_told(self, admin_client, settings) -> None:
        settings.CHATMEMORY = {**getattr(settings, "CHATMEMORY", {}), "KEEP_HISTORY": False}
        made = ConversationFactory()
        for number in range(6):
            made.memory.add(*turn(number))
        made.memory.compact(shortest, keep=0)
        said = card(html(admin_client, page(made)), summary_of(made).position)
        assert "The messages that it covers were not kept." in said
        assert "turn" not in said

    @pytest.mark.slow
    def test_its_queries_do_not_grow_with_the_history(self, admin_client, conversation) -> None:
        def queries() -> int:
            with CaptureQueriesContext(connection) as captured:
                html(admin_client, page(conversation))
            return len(captured)

        conversation.memory.compact(shortest)
        few = queries()
        for number in range(6, 100):
            conversation.memory.add(*turn(number))
        conversation.memory.compact(shortest)
        assert queries() <= few + 3


class TestWhatIsInNoSummary:
    @pytest.mark.slow
    def test_is_marked_and_found(self, admin_client, conversation) -> None:
        shown = html(admin_client, page(conversation) + "?view=history")
        assert "in no summary" in card(shown, 1)
        assert "First in no summary" in timeline(shown)
        assert "Summary due yes, if there is enough to summarise" in words(shown)
        assert "Evicted, and in no summary 4" in words(shown)
        response = admin_client.get(page(conversation) + "?go=first-uncovered")
        assert response.url.endswith("?position=1#message-1")
        conversation.memory.compact(shortest)
        shown = html(admin_client, page(conversation) + "?view=history")
        assert "in no summary" not in timeline(shown)
        assert "Summary due not now Latest summary message 13" in words(shown)

    @pytest.mark.slow
    def test_what_was_cleared_away_is_no_longer_among_it(self, admin_client, conversation) -> None:
        conversation.memory.clear()
        assert "in no summary" not in timeline(html(admin_client, page(conversation) + "?view=history"))

    def test_is_no_matter_where_no_summaries_are_made(self, admin_client) -> None:
        made = ConversationFactory(window="messages", limit=2)
        made.memory.add(*turn(0), *turn(1))
        shown = words(own_part(html(admin_client, page(made))))
        assert "in no summary" not in shown
        assert "Summary due" not in shown

    @pytest.mark.slow
    def test_messages_are_filtered_by_it(self, admin_client, conversation) -> None:
        address = f"{MESSAGES}?state=uncovered"
        assert "question 0" in html(admin_client, address)
        assert "question 3" not in html(admin_client, address)
        conversation.memory.compact(shortest)
        assert "question" not in html(admin_client, address)
        assert "evicted, and in no summary" in html(admin_client, address)


class TestTheSetting:
    @pytest.mark.slow
    def test_is_changed_and_logged(self, admin_client, conversation) -> None:
        wanted = {"1-window": "messages", "1-limit": "9", "1-compact_at": "70"}
        shown = html(admin_client, page(conversation, "window") + "?1-window=messages&1-limit=9&1-compact_at=70")
        assert "a summary is due at 90% → at most 9 messages, a summary is due at 70%" in words(shown)
        seen = unescape(re.findall(r'name="seen" value="([^"]+)"', shown)[0])
        admin_client.post(page(conversation, "window"), {**wanted, "seen": seen})
        conversation.refresh_from_db()
        assert conversation.compact_at == 70
        assert logged()[0].startswith("The window was changed to at most 9 messages. Now: a summary is due at 70%.")
        assert "at most 9 messages a summary is due at 70%" in words(html(admin_client, page(conversation)))

    def test_can_be_taken_away(self, admin_client, conversation) -> None:
        shown = html(admin_client, page(conversation, "window") + "?1-window=messages&1-limit=9&1-compact_at=")
        seen = unescape(re.findall(r'name="seen" value="([^"]+)"', shown)[0])
        address = page(conversation, "window")
        admin_client.post(address, {"1-window": "messages", "1-limit": "9", "1-compact_at": "", "seen": seen})
        conversation.refresh_from_db()
        assert conversation.compact_at is None
        assert "Now: no summary is due by itself." in logged()[0]

    def test_stays_where_it_is_not_named(self, admin_client, conversation) -> None:
        shown = html(admin_client, page(conversation, "window") + "?1-window=messages&1-limit=5")
        assert '<input type="hidden" name="1-compact_at" value="90">' in shown

    @pytest.mark.parametrize("wrong", ["0", "101", "x"])
    def test_is_refused_if_it_is_no_percentage(self, admin_client, conversation, wrong) -> None:
        address = page(conversation, "window") + f"?1-window=messages&1-limit=5&1-compact_at={wrong}"
        assert "errorlist" in html(admin_client, address)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_no_transaction_is_open_while_the_model_works(admin_client, conversation, summarizer, monkeypatch) -> None:
    summarizer("outside_of_transactions")
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    assert "A summary covers messages 1 to 8 now" in words(confirm(admin_client, conversation))
    assert "open: False" in summary_of(conversation).text
    with transaction.atomic():
        assert connection.in_atomic_block  # so the summarizer would have told it
