"""Branches in the admin: what was left, what was restored, and how staff switch."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.db import connection
from django.http import QueryDict
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chatmemory import AiMessage, UserMessage
from chatmemory.admin.display.dashboard import Dashboard
from chatmemory.admin.display.memory_map import MemoryMap
from chatmemory.admin.display.strip import Strip
from chatmemory.admin.display.timeline import Timeline
from chatmemory.models import Branch, Conversation, Origin
from tests.admin.test_conversation import html, page, timeline, words
from tests.admin.test_memory_view import section
from tests.support.factories import ConversationFactory, UserFactory

pytestmark = pytest.mark.django_db


def talk(turns: int = 3, **settings: Any) -> Conversation:
    """A conversation of so many turns: q0, a1, q2, a3, …, each message with its position."""
    made: Conversation = ConversationFactory(**settings)
    for position in range(0, 2 * turns, 2):
        made.memory.add(UserMessage(f"q{position}."))
        made.memory.add(AiMessage(f"a{position + 1}."))
    return made


@pytest.fixture
def edited() -> Conversation:
    """The second of three questions was edited by alice: 0 1 | 2 3 4 5 | 6 7."""
    made = talk()
    made.edit(2, UserMessage("q6."), user=UserFactory(username="alice"))
    made.memory.add(AiMessage("a7."))
    return made


@pytest.fixture
def switched(edited: Conversation) -> Conversation:
    """The same, back on the first branch: 2 to 5 are in the memory as 8 to 11."""
    edited.switch(5)
    return edited


@pytest.fixture
def reader(client: Client) -> Callable[..., Client]:
    """A member of staff with these permissions."""

    def sign_in(*codenames: str) -> Client:
        user = UserFactory(is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        client.force_login(user)
        return client

    return sign_in


def branches(text: str) -> str:
    """The list of branches as a reader sees it; empty if there is none."""
    found = re.search(r"<h2>Branches.*?</section>", text, re.DOTALL)
    return words(found[0]) if found else ""


def entries(made: Conversation) -> dict[int, Any]:
    shown = Timeline.read(made, QueryDict("position=0"), MemoryMap.now(made), with_text=True)
    return {entry.message.row.position: entry for entry in shown.entries}


class TestRewound:
    def test_say_why_when_and_who(self, admin_client: Client, edited: Conversation) -> None:
        shown = timeline(html(admin_client, page(edited) + "?view=history"))
        assert shown.count("Evicted: the conversation went back in version 7") == 4
        assert len(re.findall(r"in version 7 \w+\.? \d+, \d{4}, [^ ]+ [ap]\.m\. by alice", shown)) == 4

    def test_of_the_sites_own_code_name_nobody(self, admin_client: Client) -> None:
        made = talk()
        made.rewind(before=4)
        shown = timeline(html(admin_client, page(made) + "?view=history"))
        assert "the conversation went back" in shown
        assert " by " not in shown

    def test_are_one_group_of_what_left_last(self, admin_client: Client, edited: Conversation) -> None:
        shown = section(html(admin_client, page(edited)), "chatmemory-evicted-last")
        assert "4 evicted" in shown
        assert "4 messages , the conversation went back by alice" in shown

    def test_are_on_another_branch(self, admin_client: Client, edited: Conversation) -> None:
        found = entries(edited)
        assert [position for position, entry in found.items() if entry.is_elsewhere] == [2, 3, 4, 5]
        assert html(admin_client, page(edited) + "?view=history").count(">other branch<") == 4

    def test_and_so_are_those_that_the_window_evicted_before(self) -> None:
        made = talk(window="messages", limit=4)
        made.rewind(before=0)
        made.memory.add(UserMessage("q6."))
        found = entries(made)
        assert {found[position].message.row.eviction_reason for position in (0, 1)} == {"window"}
        assert [position for position, entry in found.items() if not entry.is_elsewhere] == [6]

    @pytest.mark.slow
    def test_where_the_conversation_went_back_is_said_in_the_history(
        self, admin_client: Client, edited: Conversation
    ) -> None:
        shown = timeline(html(admin_client, page(edited) + "?view=history"))
        assert re.search(r"a5\..*The conversation went back to message 1 .* by alice 6 User", shown)
        assert shown.count("The conversation went back") == 1
        assert "chatmemory-branch" not in section(html(admin_client, page(edited)), "chatmemory-evicted-last")

    def test_or_to_the_beginning(self, admin_client: Client) -> None:
        made = talk()
        made.edit(0, UserMessage("q6."))
        assert "went back to its beginning" in timeline(html(admin_client, page(made) + "?view=history"))


class TestRestored:
    def test_copies_say_of_which_message(self, admin_client: Client, switched: Conversation) -> None:
        assert list(switched.messages.filter(origin=Origin.RESTORED).values_list("position", "covers_from")) == [
            *((8, 2), (9, 3), (10, 4), (11, 5))
        ]
        shown = html(admin_client, page(switched))
        memory = section(shown, "chatmemory-now")
        assert re.findall(r"[qa]\d\.", memory) == ["q0.", "a1.", "q2.", "a3.", "q4.", "a5."]
        assert "Restored: a copy of message 2, because the conversation went back" in memory
        assert memory.count(" restored ") == 4

    def test_originals_are_not_lost(self, admin_client: Client, switched: Conversation) -> None:
        found = entries(switched)
        assert [position for position, entry in found.items() if entry.is_gone] == [6, 7]
        assert {position: entry.restored_as for position, entry in found.items() if entry.restored_as} == {
            **{2: 8, 3: 9, 4: 10, 5: 11}
        }
        assert [position for position, entry in found.items() if entry.is_folded] == [6, 7, 8, 9, 10, 11]
        shown = timeline(html(admin_client, page(switched) + "?view=history"))
        assert "6 retained, 2 evicted" in shown
        assert "In the memory as message 8: restored, because the conversation went back" in shown

    def test_what_left_last_is_the_other_branch_alone(self, admin_client: Client, switched: Conversation) -> None:
        shown = section(html(admin_client, page(switched)), "chatmemory-evicted-last")
        assert "2 evicted" in shown
        assert "2 messages , the conversation went back" in shown
        assert "more in Everything said" not in shown

    @pytest.mark.slow
    def test_a_copy_that_left_is_lost_once(self, admin_client: Client, switched: Conversation) -> None:
        switched.memory.clear()
        shown = section(html(admin_client, page(switched)), "chatmemory-evicted-last")
        assert "8 evicted" in shown
        assert re.findall(r"(\d) messages , ([a-z ]+)", shown) == [
            *(("6", "the memory was cleared "), ("2", "the conversation went back "))
        ]

    @pytest.mark.slow
    def test_a_copy_of_which_there_is_another_is_not_lost(self, admin_client: Client, switched: Conversation) -> None:
        switched.switch(7)
        switched.switch(5)
        entry = entries(switched)[8]
        assert not entry.is_gone
        assert entry.why == f"restored as message {entry.restored_as}"
        shown = section(html(admin_client, page(switched)), "chatmemory-evicted-last")
        assert "2 evicted" in shown

    def test_the_strip_has_them_as_retained(self, switched: Conversation) -> None:
        bars = Strip.read(switched, 0, 49, MemoryMap.now(switched), with_text=False).bars
        assert [bar.row.position for bar in bars if bar.is_retained] == [0, 1, 2, 3, 4, 5, 8, 9, 10, 11]
        assert [bar.notes for bar in bars[5:9]] == ["restored as message 11", "", "", "restored"]
        assert bars[5].reason == ""

    def test_the_memory_begins_where_the_original_is(self) -> None:
        made = talk(window="messages", limit=4)
        made.rewind(before=4)
        assert MemoryMap.now(made).edge == 0
        assert [position for position, entry in entries(made).items() if entry.begins_memory] == [0]

    def test_one_goes_to_the_first_that_is_lost(self, admin_client: Client, switched: Conversation) -> None:
        answer = admin_client.get(page(switched), {"go": "first-evicted"})
        assert answer["Location"].endswith("#message-6")

    def test_the_last_answer_is_that_of_the_current_branch(self, admin_client: Client, switched: Conversation) -> None:
        shown = section(html(admin_client, page(switched)), "chatmemory-last-answer")
        assert "a5." in shown

    def test_the_dashboard_does_not_count_them(self, switched: Conversation) -> None:
        reasons = Dashboard.read(Conversation.objects.all()).reasons
        assert [(str(reason.label), reason.messages) for reason in reasons] == [("the conversation went back", 2)]

    def test_the_list_of_messages_does_not_call_them_evicted(
        self, admin_client: Client, switched: Conversation
    ) -> None:
        shown = html(admin_client, "/admin/chatmemory/message/")
        states = re.findall(r'<td class="field-state">(.*?)</td>', shown)
        assert states[::-1] == [*["retained"] * 2, *["restored"] * 4, *["evicted"] * 2, *["retained"] * 4]


class TestPastMemory:
    def test_of_an_answer_on_another_branch(self, admin_client: Client, edited: Conversation) -> None:
        shown = words(html(admin_client, page(edited, "memory") + "?answer=5"))
        assert re.search(r"What it had 5 messages .*q4\..*and it wrote: 5 AI other branch ", shown)
        assert "Switch to the branch of this message" in shown
        assert "Nothing: it had all that was said." in shown

    def test_what_was_said_on_another_branch_was_not_lost(self, admin_client: Client, edited: Conversation) -> None:
        gaps = section(html(admin_client, page(edited, "memory") + "?answer=7"), "chatmemory-gone")
        assert "Nothing: it had all that was said." in gaps
        assert "Messages on other branches are left out." in gaps

    def test_what_the_window_evicted_on_its_branch_was(self, admin_client: Client) -> None:
        made = talk(window="messages", limit=3)
        made.edit(4, UserMessage("q."))
        made.memory.add(AiMessage("a."))
        answer = made.messages.history().last().position
        gaps = section(html(admin_client, page(made, "memory") + f"?answer={answer}"), "chatmemory-gone")
        assert gaps.startswith("What it had no longer 0–1 ")

    def test_restored_copies_are_explained(self, admin_client: Client, switched: Conversation) -> None:
        switched.memory.add(AiMessage("a12."))
        shown = html(admin_client, page(switched, "memory") + "?answer=12")
        assert "Restored: a copy of message 2" in words(shown)
        assert "Nothing: it had all that was said." in section(shown, "chatmemory-gone")

    def test_right_after_the_conversation_went_back(self, admin_client: Client, edited: Conversation) -> None:
        edited.rewind(before=6)
        gaps = section(html(admin_client, page(edited, "memory")), "chatmemory-gone")
        assert "Nothing: it has all that was said." in gaps

    def test_switching_there_and_back_makes_no_difference(self, admin_client: Client, edited: Conversation) -> None:
        before = edited.version
        edited.switch(5)
        edited.switch(7)
        shown = words(html(admin_client, page(edited, "memory") + f"?against={before}"))
        assert "Nothing: both are the same." in shown


class TestList:
    def test_has_the_current_branch_and_the_others(self, admin_client: Client, edited: Conversation) -> None:
        shown = branches(html(admin_client, page(edited)))
        assert re.fullmatch(
            r"Branches 2 Current branch up to message 7 4 messages "
            r"Messages 2 to 5 a5\. 4 messages · left \w+ \d+, [^ ]+ [ap]\.m\. by alice Switch",
            shown,
        )

    def test_is_not_there_if_the_conversation_never_went_back(self, admin_client: Client) -> None:
        assert not branches(html(admin_client, page(talk())))

    @pytest.mark.slow
    def test_names_a_branch_once_however_often_it_was_left(self, admin_client: Client, edited: Conversation) -> None:
        for position in (5, 7, 5, 7):
            edited.switch(position)
        shown = branches(html(admin_client, page(edited)))
        assert shown.startswith("Branches 2 ")
        assert shown.count("Messages 2 to 5") == 1
        assert "by alice" not in shown  # it was left last by the site's own code

    def test_has_no_branch_that_goes_on(self, admin_client: Client, edited: Conversation) -> None:
        edited.rewind(before=4)
        assert branches(html(admin_client, page(edited))).startswith("Branches 3 Current branch up to message 3 ")

    @pytest.mark.slow
    def test_of_many_has_those_that_were_left_last(self, admin_client: Client) -> None:
        made = talk(turns=1)
        for number in range(25):
            made.edit(0, UserMessage(f"edit {number}."))
        shown = branches(html(admin_client, page(made)))
        assert re.findall(r"edit (\d+)\.", shown) == [str(number) for number in range(23, 3, -1)]
        assert "5 more branches were left earlier." in shown

    def test_has_no_words_for_those_who_may_not_read_them(
        self, reader: Callable[..., Client], edited: Conversation
    ) -> None:
        shown = html(reader("view_conversation"), page(edited))
        assert "4 messages · left" in branches(shown)
        assert not re.search(r"[qa]\d\.", shown)
        assert "Switch" not in shown

    @pytest.mark.slow
    def test_costs_a_fixed_number_of_statements(self, admin_client: Client, edited: Conversation) -> None:
        def statements() -> int:
            with CaptureQueriesContext(connection) as captured:
                html(admin_client, page(edited))
                html(admin_client, page(edited) + "?view=history")
            return len(captured)

        statements()
        before = statements()
        for number in range(30):
            edited.edit(2, UserMessage(f"edit {number}."))
            edited.switch(5)
        assert statements() <= before


class TestSwitching:
    def test_asks_first(self, admin_client: Client, edited: Conversation) -> None:
        shown = html(admin_client, page(edited, "switch") + "?position=5")
        assert "on the branch of message 5, where it was left" in words(shown)
        assert "a5." in shown
        assert Branch.objects.count() == 2

    def test_switches(self, admin_client: Client, edited: Conversation, admin_user: Any) -> None:
        answer = admin_client.post(page(edited, "switch"), {"position": 5}, follow=True)
        assert "Switched to the branch of message 5. 2 messages left the memory. 4 messages were restored." in words(
            answer.content.decode()
        )
        edited.refresh_from_db()
        assert [row.text for row in edited.messages.retained()] == ["q0.", "a1.", "q2.", "a3.", "q4.", "a5."]
        assert Branch.objects.order_by("version").last().user == admin_user
        assert LogEntry.objects.filter(change_message__startswith="Switched to the branch of message 5.").count() == 1

    def test_each_message_of_another_branch_has_a_link(self, admin_client: Client, edited: Conversation) -> None:
        shown = html(admin_client, page(edited) + "?view=history")
        found = re.findall(r'switch/\?position=(\d+)">Switch to the branch of this message', shown)
        assert found == ["2", "3", "4", "5"]

    def test_but_no_copy(self, admin_client: Client, switched: Conversation) -> None:
        switched.switch(7)
        shown = html(admin_client, page(switched) + "?view=history")
        found = re.findall(r'switch/\?position=(\d+)">Switch to the branch of this message', shown)
        assert found == ["2", "3", "4", "5"]

    def test_to_the_current_branch_does_nothing(self, admin_client: Client, edited: Conversation) -> None:
        shown = words(html(admin_client, page(edited, "switch") + "?position=1"))
        assert "There is nothing to switch: message 1 is on the current branch." in shown
        answer = admin_client.post(page(edited, "switch"), {"position": 1}, follow=True)
        assert "Message 1 is on the current branch already." in words(answer.content.decode())
        assert Branch.objects.count() == 2
        assert not LogEntry.objects.filter(change_message__startswith="Switched").exists()

    def test_waits_for_a_turn(self, admin_client: Client, edited: Conversation) -> None:
        Conversation.objects.filter(pk=edited.pk).update(turn_until=timezone.now() + timedelta(minutes=1))
        answer = admin_client.post(page(edited, "switch"), {"position": 5}, follow=True)
        assert "Nothing was changed: a turn is in progress." in words(answer.content.decode())
        assert Branch.objects.count() == 2

    @pytest.mark.slow
    def test_needs_a_history(self, admin_client: Client, edited: Conversation, settings: Any) -> None:
        settings.CHATMEMORY = {"KEEP_HISTORY": False}
        assert "because no history is kept" in words(html(admin_client, page(edited, "switch") + "?position=5"))
        answer = admin_client.post(page(edited, "switch"), {"position": 5}, follow=True)
        assert "the conversation cannot go back, because evicted messages are deleted" in words(answer.content.decode())
        assert "switch/" not in html(admin_client, page(edited))

    @pytest.mark.parametrize("position", ["", "x", "-1", "99", "8"])
    def test_needs_a_message_of_the_history(self, admin_client: Client, switched: Conversation, position: str) -> None:
        assert admin_client.get(page(switched, "switch"), {"position": position}).status_code == 404
        assert admin_client.post(page(switched, "switch"), {"position": position}).status_code == 404

    def test_needs_the_permission_for_changes(self, reader: Callable[..., Client], edited: Conversation) -> None:
        client = reader("view_conversation", "read_message_text")
        assert client.get(page(edited, "switch") + "?position=5").status_code == 403
        assert client.post(page(edited, "switch"), {"position": 5}).status_code == 403

    def test_shows_no_words_to_those_who_may_not_read_them(
        self, reader: Callable[..., Client], edited: Conversation
    ) -> None:
        client = reader("view_conversation", "change_conversation")
        assert "a5." not in html(client, page(edited, "switch") + "?position=5")
        assert client.post(page(edited, "switch"), {"position": 5}).status_code == 302


class TestForked:
    def test_links_to_the_original(self, admin_client: Client) -> None:
        made, origin = talk(1), talk(1, title="The original")
        Conversation.objects.filter(pk=made.pk).update(forked_from=origin.pk)
        shown = html(admin_client, page(made))
        assert f'<a href="{page(origin)}"><bdi>The original</bdi></a>' in shown
        assert "Forked from The original" in words(shown)

    def test_has_no_link_if_it_was_erased(self, admin_client: Client) -> None:
        made, origin = talk(1), talk(1)
        Conversation.objects.filter(pk=made.pk).update(forked_from=origin.pk)
        address = page(origin)
        origin.delete()
        shown = html(admin_client, page(made))
        assert address not in shown
        assert "Forked from" in words(shown)

    def test_has_no_link_if_it_is_not_for_this_reader(self, admin_client: Client, settings: Any) -> None:
        made, origin = talk(1), talk(1, title="Secret")
        Conversation.objects.filter(pk=made.pk).update(forked_from=origin.pk)
        settings.CHATMEMORY = {"STAFF_CONVERSATIONS": f"{__name__}.all_but_secret"}
        assert "Secret" not in html(admin_client, page(made))

    def test_is_not_there_for_others(self, admin_client: Client) -> None:
        assert "Forked from" not in html(admin_client, page(talk(1)))


def all_but_secret(user: Any) -> Any:
    return Conversation.objects.exclude(title="Secret")


@pytest.mark.slow
def test_a_summary_covers_no_message_of_another_branch(admin_client: Client) -> None:
    made = talk(turns=4, window="messages", limit=4)
    made.rewind(before=2)
    for number in range(3):
        made.memory.add(
            UserMessage(f"question {number} " + "tea " * 400), AiMessage(f"answer {number} " + "leaf " * 400)
        )
    change = made.memory.compact(lambda messages, previous: "Tea.", keep=0)
    assert change is not None
    summary = change.added[0]
    found = entries(made)
    assert found[2].message.row.eviction_reason == "window"
    assert summary.covers_from is not None
    assert summary.covers_to is not None
    assert summary.covers_from < 2 < 3 < summary.covers_to
    assert (found[2].summary, found[3].summary, found[3].is_uncovered) == (None, None, False)
    card = entries(made)[summary.position].card
    positions = [original.row.position for original in card.originals]
    assert not {2, 3, 4, 5, 6, 7} & {*positions}
    assert positions
    assert card.count == len(positions)


@pytest.mark.slow
def test_a_summary_that_came_back_says_nothing_of_what_was_said_since(admin_client: Client) -> None:
    made = ConversationFactory(window="messages", limit=20)
    for number in range(3):
        made.memory.add(
            UserMessage(f"question {number} " + "tea " * 400), AiMessage(f"answer {number} " + "leaf " * 400)
        )
    summary = made.memory.compact(lambda messages, previous: "Tea.", keep=10).added[0]
    made.rewind(before=0)
    made.memory.add(UserMessage("Hi"))
    made.switch(5)
    copy = made.messages.retained().get(origin=Origin.SUMMARY)
    found = entries(made)
    before, after = found[summary.position].card, found[copy.position].card
    assert (after.count, after.said_since) == (before.count, 0)
