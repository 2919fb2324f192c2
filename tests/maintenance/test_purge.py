"""``chatmemory_purge``: what is too old goes, and nothing else."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db.models import Case, ProtectedError, When
from django.db.models.signals import pre_delete
from django.utils import timezone

from chatmemory import UserMessage
from chatmemory.database import operations
from chatmemory.database.change import Target
from chatmemory.models import Compaction, Conversation, IdempotencyKey, Message, Origin
from chatmemory.retention import purge_conversations, purge_evicted, purge_keys
from chatmemory.verification import verify
from tests.support.factories import ConversationFactory
from tests.support.full_windows import conversation_of_turns, turn

pytestmark = pytest.mark.django_db


def days(number: float) -> Any:
    return timezone.now() - timedelta(days=number)


def run(*args: str) -> str:
    out = io.StringIO()
    call_command("chatmemory_purge", *args, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def made(age: float, messages: int = 5, **kwargs: Any) -> Conversation:
    """A conversation that was last active so many days ago; it retains two messages."""
    conversation = ConversationFactory(window="messages", limit=2, **kwargs)
    conversation.memory.add(*[UserMessage(f"u{number}") for number in range(messages)], idempotency_key="k")
    aged(conversation, age)
    return conversation


def aged(conversation: Conversation, age: float) -> None:
    Conversation.objects.filter(pk=conversation.pk).update(created_at=days(age), updated_at=days(age))
    conversation.messages.update(created_at=days(age))
    conversation.messages.evicted().update(evicted_at=days(age))
    IdempotencyKey.objects.filter(conversation=conversation).update(created_at=days(age))


def positions(conversation: Conversation) -> list[int]:
    return list(conversation.messages.order_by("position").values_list("position", flat=True))


class TestConversations:
    def test_old_ones_go_with_everything_in_them(self) -> None:
        old, young = made(31), made(29)
        assert run("--older-than", "30") == "Erased conversations: 1, messages: 5, idempotency keys: 1.\n"
        assert list(Conversation.objects.all()) == [young]
        assert not Message.objects.filter(conversation_id=old.pk).exists()
        assert positions(young) == [0, 1, 2, 3, 4]
        assert IdempotencyKey.objects.count() == 1

    def test_a_dry_run_says_the_same_and_erases_nothing(self) -> None:
        made(31)
        assert (
            run("--older-than", "30", "--dry-run")
            == "Would erase conversations: 1, messages: 5, idempotency keys: 1.\n"
        )
        assert Message.objects.count() == 5

    def test_only_those_of_one_owner(self) -> None:
        mine, other = made(31), made(31)
        run("--older-than", "30", "--owner", str(mine.owner_id))
        assert list(Conversation.objects.all()) == [other]

    def test_what_is_used_meanwhile_stays(self) -> None:
        """Both were old when they were found; something is said in the second while the first is erased."""
        first, second = made(31), made(31)
        steps = purge_conversations(days(30))
        next(steps)
        left = Conversation.objects.get()
        assert left in (first, second)
        left.memory.add(UserMessage("I am back"))
        assert [step.conversations for step in steps] == [0]
        assert Conversation.objects.get().memory.messages()[-1] == UserMessage("I am back")

    def test_what_is_erased_meanwhile_is_no_error(self) -> None:
        made(31), made(31)
        steps = purge_conversations(days(30))
        next(steps)
        operations.erase(Target.of(Conversation.objects.get()))
        assert [step.conversations for step in steps] == [0]

    def test_what_other_objects_hold_stays_and_is_told(self) -> None:
        held, free = made(31), made(31)

        def refuse(sender: Any, instance: Conversation, **kwargs: Any) -> None:
            if instance.pk == held.pk:
                raise ProtectedError("held", set())

        pre_delete.connect(refuse, sender=Conversation)
        try:
            said = run("--older-than", "30")
        finally:
            pre_delete.disconnect(refuse, sender=Conversation)
        assert said == (
            "Erased conversations: 1, messages: 5, idempotency keys: 1.\n"
            "Conversations that stay because other objects refer to them: 1.\n"
        )
        assert positions(held) == [0, 1, 2, 3, 4]
        assert not Conversation.objects.filter(pk=free.pk).exists()


class TestEvictedMessages:
    def test_old_ones_go_and_what_is_retained_stays(self) -> None:
        conversation = made(31)
        assert (
            run("--older-than", "30", "--evicted-only")
            == "Erased conversations: 0, messages: 3, idempotency keys: 0.\n"
        )
        assert positions(conversation) == [3, 4]
        assert conversation.memory.messages() == [UserMessage("u3"), UserMessage("u4")]
        conversation.refresh_from_db()
        assert (conversation.message_count, conversation.next_position, conversation.evicted_count) == (5, 5, 3)
        assert list(verify()) == []

    def test_placeholders_outlive_their_tool_results(self) -> None:
        conversation = conversation_of_turns()
        before, version = conversation.memory.messages(), conversation.version
        Message.objects.update(
            evicted_at=Case(When(evicted_in=None, then=None), default=timezone.now() - timedelta(days=31))
        )
        Conversation.objects.update(created_at=timezone.now() - timedelta(days=40))
        run("--older-than", "30", "--evicted-only")
        assert conversation.messages.retained().filter(origin=Origin.CLEARED).count() == 3
        assert not conversation.messages.evicted().exists()
        assert (conversation.memory.messages(), conversation.memory.at(version)) == (before, before)
        assert [row.position for row in conversation.messages.pinned()] == [3]
        conversation.memory.add(*turn(6))
        assert list(verify()) == []

    def test_what_was_evicted_since_stays_though_it_was_said_before(self) -> None:
        conversation = made(31)
        conversation.memory.add(UserMessage("new"))
        run("--older-than", "30", "--evicted-only")
        assert positions(conversation) == [3, 4, 5]
        assert list(conversation.messages.evicted().values_list("position", flat=True)) == [3]
        assert conversation.memory.at(1) == [UserMessage("u3"), UserMessage("u4")]

    @pytest.mark.parametrize(("size", "steps"), [(1, [1] * 7), (3, [3, 3, 1]), (7, [7]), (100, [7])])
    def test_in_batches(self, size: int, steps: list[int]) -> None:
        conversation = made(31, messages=9)
        assert [step.messages for step in purge_evicted(days(30), batch_size=size)] == steps
        assert positions(conversation) == [7, 8]

    def test_stopped_it_goes_on(self) -> None:
        conversation = made(31, messages=9)
        next(purge_evicted(days(30), batch_size=3))
        assert positions(conversation) == [3, 4, 5, 6, 7, 8]
        assert list(verify()) == []
        run("--older-than", "30", "--evicted-only")
        assert positions(conversation) == [7, 8]

    @pytest.mark.django_db(transaction=True)
    def test_objects_that_know_the_conversation_go_on(self) -> None:
        """They add without reading what is there."""
        conversation = made(0)
        conversation.memory.add(UserMessage("u5"))
        conversation.messages.evicted().update(evicted_at=days(31))
        Conversation.objects.update(created_at=days(31))
        run("--older-than", "30", "--evicted-only")
        conversation.memory.add(UserMessage("u6"))
        assert conversation.memory.messages() == [UserMessage("u5"), UserMessage("u6")]
        assert list(verify()) == []

    def test_a_dry_run_says_the_same_and_erases_nothing(self) -> None:
        made(31), made(31), made(1)
        said = run("--older-than", "30", "--evicted-only", "--dry-run")
        assert said == "Would erase conversations: 0, messages: 6, idempotency keys: 0.\n"
        assert Message.objects.count() == 15

    def test_a_repeated_request_gives_its_account_without_them(self) -> None:
        conversation = made(31)
        run("--older-than", "30", "--evicted-only")
        again = conversation.memory.add(*[UserMessage(f"u{number}") for number in range(5)], idempotency_key="k")
        assert [row.position for row in again.added] == [3, 4]
        assert conversation.messages.count() == 2

    @pytest.mark.slow
    def test_history_and_admin_show_what_is_left(self, admin_client: Any) -> None:
        conversation = made(31, owner=None)
        run("--older-than", "30", "--evicted-only")
        page = admin_client.get(f"/admin/chatmemory/conversation/{conversation.pk}/change/")
        assert page.status_code == 200
        assert "u3" in page.content.decode()
        past = admin_client.get(f"/admin/chatmemory/conversation/{conversation.pk}/memory/?version=1")
        assert past.status_code == 200
        api = f"/api/conversations/{conversation.pk}"
        listed = admin_client.get(f"{api}/messages/?owner=*").json()["results"]
        assert [one["position"] for one in listed] == [3, 4]
        assert admin_client.get(f"{api}/messages/1/?owner=*").status_code == 404

    def test_what_other_objects_hold_stays_and_is_told(self) -> None:
        held, free = made(31), made(31)

        def refuse(sender: Any, instance: Message, **kwargs: Any) -> None:
            if instance.conversation_id == held.pk:
                raise ProtectedError("held", set())

        pre_delete.connect(refuse, sender=Message)
        try:
            said = run("--older-than", "30", "--evicted-only")
        finally:
            pre_delete.disconnect(refuse, sender=Message)
        assert said == (
            "Erased conversations: 0, messages: 3, idempotency keys: 0.\n"
            "Conversations with evicted messages that stay because other objects refer to them: 1.\n"
        )
        assert positions(held) == [0, 1, 2, 3, 4]
        assert positions(free) == [3, 4]


class TestKeys:
    def test_old_ones_go_and_nothing_else(self) -> None:
        made(31), made(29)
        assert run("--older-than", "30", "--keys") == "Erased conversations: 0, messages: 0, idempotency keys: 1.\n"
        assert (Conversation.objects.count(), Message.objects.count(), IdempotencyKey.objects.count()) == (2, 10, 1)

    def test_together_with_evicted_messages(self) -> None:
        made(31)
        said = run("--older-than", "30", "--keys", "--evicted-only")
        assert said == "Erased conversations: 0, messages: 3, idempotency keys: 1.\n"

    def test_in_batches_of_one_owner(self) -> None:
        mine = made(31)
        made(31)
        for number in range(4):
            mine.memory.add(idempotency_key=str(number))
        aged(mine, 31)
        whose = Conversation.objects.filter(owner=mine.owner)
        assert [step.keys for step in purge_keys(days(30), whose, dry_run=True)] == [5]
        assert [step.keys for step in purge_keys(days(30), whose, batch_size=2)] == [2, 2, 1]
        assert IdempotencyKey.objects.count() == 1


@pytest.mark.parametrize("given", ["0", "-1", "1.5", "soon"])
def test_days_are_whole_and_above_zero(given: str) -> None:
    with pytest.raises(CommandError, match="whole number above zero"):
        call_command("chatmemory_purge", f"--older-than={given}")


@pytest.mark.parametrize("digits", [19, 5000])
def test_a_number_that_no_database_takes(digits: int) -> None:
    with pytest.raises(CommandError, match="at most 18 digits"):
        run("--older-than", "1", "--evicted-only", "--batch-size", "9" * digits)


def test_days_must_be_given() -> None:
    with pytest.raises(CommandError, match="--older-than"):
        call_command("chatmemory_purge")


def test_before_the_calendar() -> None:
    with pytest.raises(CommandError, match="before the first year"):
        call_command("chatmemory_purge", "--older-than", "99999999")


class TestSummaries:
    """What a purge does to summaries; more is in ``tests/database/test_compaction.py``."""

    def test_what_failed_is_not_quoted_any_more(self) -> None:
        conversation = made(31)
        Compaction.objects.create(conversation=conversation, failures=2, error="ValueError: u0")
        run("--older-than", "40", "--evicted-only")
        assert Compaction.objects.get().error == "ValueError: u0"
        run("--older-than", "30", "--evicted-only")
        assert (Compaction.objects.get().error, Compaction.objects.get().failures) == ("", 2)

    @pytest.mark.parametrize("kept", [True, False])
    def test_none_that_is_being_made_brings_back_what_is_erased(self, kept: bool, settings: Any) -> None:
        conversation = ConversationFactory(window="messages", limit=4)
        conversation.memory.add(*[UserMessage(f"A secret, number {number}. " * 20) for number in range(9)])
        settings.CHATMEMORY = {"KEEP_HISTORY": kept}
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        aged(conversation, 31)
        run("--older-than", "30", "--evicted-only")
        assert conversation.memory.apply_compaction(plan, "Many secrets.") is None
        assert list(verify()) == []

    def test_without_history_what_the_window_evicts_meanwhile_is_in_it(self, settings: Any) -> None:
        settings.CHATMEMORY = {"KEEP_HISTORY": False}
        conversation = ConversationFactory(window="messages", limit=8)
        conversation.memory.add(*[UserMessage(f"Number {number}. " * 40) for number in range(8)])
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        conversation.memory.add(UserMessage("Meanwhile"))
        assert positions(conversation) == [1, 2, 3, 4, 5, 6, 7, 8]
        assert conversation.memory.apply_compaction(plan, "Seven numbers.") is not None
        assert [row.position for row in conversation.messages.retained()] == [9, 7, 8]
        assert list(verify()) == []
