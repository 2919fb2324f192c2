"""The index is complete and exact, whoever writes meanwhile, and nothing of erased text stays in it."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connections, transaction
from django.utils import timezone

from chatmemory import AiMessage, UserMessage
from chatmemory.contrib.search import indexing
from chatmemory.contrib.search.checking import wrong_documents
from chatmemory.contrib.search.models import Page, Progress, Segment
from chatmemory.contrib.search.segments import pages_of
from chatmemory.models import Conversation, Message
from chatmemory.personal_data import erase_user
from chatmemory.retention import purge_evicted
from chatmemory.verification import verify
from tests.support.factories import ConversationFactory, UserFactory

pytestmark = pytest.mark.django_db(transaction=True)

SOON = timedelta(days=1)


def indexed() -> set[str]:
    """Return all tokens of all pages, also of those that no segment needs."""
    found = {token for row in Segment.objects.all() for page in pages_of(row) for token, _ in page.postings()}
    assert sum(len(bytes(row.pages)) // 8 for row in Segment.objects.all()) == Page.objects.count()
    firsts = {token for row in Segment.objects.all() for token in bytes(row.tokens).decode().split("\n")}
    assert firsts <= found | {""}
    return found


def word(number: int) -> str:
    return f"word{chr(97 + number // 676 % 26)}{chr(97 + number // 26 % 26)}{chr(97 + number % 26)}"


def talk(conversation: Conversation, first: int, last: int) -> None:
    for number in range(first, last, 10):
        conversation.memory.add(*(UserMessage(f"{word(n)} common") for n in range(number, min(number + 10, last))))


def command(*arguments: str) -> str:
    out = io.StringIO()
    call_command("chatmemory_index", *arguments, stdout=out, stderr=out)
    return out.getvalue()


class TestWriting:
    def test_every_64_positions_it_is_written(self) -> None:
        conversation = ConversationFactory()
        talk(conversation, 0, 63)
        assert not Progress.objects.exists()
        talk(conversation, 63, 64)
        assert Progress.objects.get().indexed_to == 64
        talk(conversation, 64, 200)
        assert Progress.objects.get().indexed_to == 192
        assert {f"w{word(n)}" for n in range(192)} <= indexed()

    @pytest.mark.slow
    def test_segments_are_merged_so_that_there_are_few(self) -> None:
        conversation = ConversationFactory()
        talk(conversation, 0, 1000)
        assert Segment.objects.count() <= 8
        assert sum(Segment.objects.values_list("size", flat=True)) == Progress.objects.get().indexed_to
        assert not list(wrong_documents(Conversation.objects.all(), repair=False))

    @pytest.mark.slow
    def test_segments_are_as_large_as_they_can_be(self) -> None:
        conversation = ConversationFactory()
        talk(conversation, 0, 30)
        # As if 140,000 messages had been purged since then.
        Conversation.objects.update(next_position=140_000)
        talk(conversation, 140_000, 140_010)
        indexing.index_all(conversation)
        assert [*Segment.objects.order_by("start").values_list("size", flat=True)][:2] == [65_536, 65_536]
        assert [hit.position for hit in conversation.search("common", limit=12)] == [
            *range(140_009, 139_999, -1),
            29,
            28,
        ]

    def test_a_transaction_that_is_rolled_back_writes_nothing(self) -> None:
        conversation = ConversationFactory()
        with transaction.atomic():
            talk(conversation, 0, 64)
            transaction.set_rollback(True)
        assert not Progress.objects.exists()

    def test_without_a_history_nothing_is_written(self, settings: Any) -> None:
        settings.CHATMEMORY = {**settings.CHATMEMORY, "KEEP_HISTORY": False}
        conversation = ConversationFactory(window="messages", limit=50)
        talk(conversation, 0, 100)
        assert not Segment.objects.exists()
        assert [hit.position for hit in conversation.search("common", limit=3)] == [99, 98, 97]
        assert conversation.search(word(49)) == []
        assert list(verify()) == []
        with pytest.raises(CommandError, match="KEEP_HISTORY"):
            command()


class TestErasing:
    @pytest.fixture
    def conversation(self) -> Conversation:
        conversation: Conversation = ConversationFactory(owner=UserFactory(), window="messages", limit=10)
        talk(conversation, 0, 128)
        assert {f"w{word(3)}", f"w{word(120)}"} <= indexed()
        return conversation

    def test_a_purge(self, conversation: Conversation) -> None:
        Conversation.objects.update(created_at=timezone.now() - 3 * SOON)
        Message.objects.filter(position__lt=40).update(evicted_at=timezone.now() - 2 * SOON)
        list(purge_evicted(timezone.now() - SOON))
        assert not {f"w{word(n)}" for n in range(40)} & indexed()
        assert {f"w{word(n)}" for n in range(40, 128)} <= indexed()
        assert [hit.position for hit in conversation.search("common", limit=100)] == [*range(127, 39, -1)]

    def test_a_purge_of_all(self, conversation: Conversation) -> None:
        list(purge_evicted(timezone.now() + SOON))
        assert indexed() == {"wcommon", *(f"w{word(n)}" for n in range(118, 128))}

    def test_anonymising(self, conversation: Conversation) -> None:
        erase_user(conversation.owner, how="anonymise")
        assert indexed() == set()
        indexing.index_all(conversation)
        assert indexed() == {"werased"}

    def test_erasing_a_user(self, conversation: Conversation) -> None:
        erase_user(conversation.owner, how="erase")
        assert [model.objects.count() for model in (Progress, Segment, Page)] == [0, 0, 0]

    def test_without_a_history_what_is_evicted_leaves_the_index(
        self, conversation: Conversation, settings: Any
    ) -> None:
        settings.CHATMEMORY = {**settings.CHATMEMORY, "KEEP_HISTORY": False}
        conversation.memory.set([])
        assert {f"w{word(n)}" for n in range(118, 128)}.isdisjoint(indexed())

    @pytest.mark.slow
    def test_a_text_that_was_read_before_it_was_erased_is_not_written(self, conversation: Conversation) -> None:
        """Several threads index and erase the same conversation."""
        stop = timezone.now() + timedelta(seconds=3)

        def erase() -> None:
            try:
                while timezone.now() < stop:
                    list(purge_evicted(timezone.now() + SOON, Conversation.objects.all(), batch_size=7))
            finally:
                connections.close_all()

        def index() -> None:
            try:
                while timezone.now() < stop:
                    indexing.rebuild(conversation)
                    indexing.index_all(conversation)
            finally:
                connections.close_all()

        with ThreadPoolExecutor(2) as pool:
            running = [pool.submit(erase), pool.submit(index)]
            number = 128
            while timezone.now() < stop:
                conversation.memory.add(*(AiMessage(f"secret{word(number + n)}") for n in range(20)))
                number += 20
            for one in running:
                one.result()
        list(purge_evicted(timezone.now() + SOON))
        there = set(Message.objects.values_list("text", flat=True))
        assert {f"wsecret{word(n)}" for n in range(128, number) if f"secret{word(n)}" not in there}.isdisjoint(
            indexed()
        )
        indexing.index_all(conversation)
        assert not list(wrong_documents(Conversation.objects.all(), repair=False))


class TestCommand:
    @pytest.mark.slow
    def test_it_closes_the_gap_that_a_killed_process_leaves(self) -> None:
        conversation = ConversationFactory()
        talk(conversation, 0, 64)
        Progress.objects.update(indexed_to=0)
        Segment.objects.all().delete()
        Page.objects.all().delete()
        assert "expected all messages, found 64 positions fewer" in check()
        assert list(verify()) == []  # they were said just now
        Message.objects.update(created_at=timezone.now() - SOON)
        [finding] = verify()
        assert (finding.what, finding.found) == ("search index", "64 positions fewer")
        assert command() == "Indexed conversations: 1, messages: 64.\n"
        assert list(verify()) == []
        assert command("--check") == "Findings: 0.\n"
        assert command() == "Indexed conversations: 0, messages: 0.\n"

    def test_verify_leaves_conversations_to_it_that_were_never_indexed(self) -> None:
        conversation = ConversationFactory()
        talk(conversation, 0, 64)
        Message.objects.update(created_at=timezone.now() - SOON)
        for model in (Progress, Segment, Page):  # as after an import
            model.objects.all().delete()
        assert list(verify()) == []
        assert "found 64 positions fewer" in check()
        assert command() == "Indexed conversations: 1, messages: 64.\n"

    def test_verify_repairs(self) -> None:
        talk(ConversationFactory(), 0, 64)
        Message.objects.filter(position=5).update(text="another")
        [finding] = verify(repair=True)
        assert (finding.found, finding.repaired) == ("others at positions 0 to 63", True)
        assert list(verify()) == []

    def test_rebuild(self) -> None:
        conversation = ConversationFactory()
        talk(conversation, 0, 64)
        Page.objects.update(data=b"")
        assert (
            command("--rebuild", "--conversation", str(conversation.pk)) == "Indexed conversations: 1, messages: 64.\n"
        )
        assert [hit.position for hit in conversation.search(word(7))] == [7]

    def test_bad_arguments(self) -> None:
        with pytest.raises(CommandError, match="--check: writes nothing"):
            command("--check", "--rebuild")


def check() -> str:
    out = io.StringIO()
    with pytest.raises(SystemExit) as exit_:
        call_command("chatmemory_index", "--check", stdout=out, stderr=out)
    assert exit_.value.code == 1
    return out.getvalue()
