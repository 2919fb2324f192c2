"""Feedback in Python: who has given what, what becomes of it, and who hears of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.utils import timezone

from chatmemory import AiMessage, SystemMessage, UserMessage
from chatmemory.contrib.feedback.giving import NotAnAnswerError, agive_feedback, give_feedback, withdraw_feedback
from chatmemory.contrib.feedback.models import LONGEST_COMMENT, Feedback
from chatmemory.contrib.feedback.signals import feedback_given
from chatmemory.models import Conversation, Message
from chatmemory.personal_data import erase_user, export_user
from chatmemory.retention import purge_evicted
from chatmemory.verification import verify
from tests.support.factories import ConversationFactory, UserFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def conversation(user: Any) -> Conversation:
    made: Conversation = ConversationFactory(owner=user)
    made.memory.add(SystemMessage("Be kind."), UserMessage("What is a cat?"), AiMessage("An animal."))
    return made


@pytest.fixture
def heard() -> Iterator[list[tuple[int, str, str]]]:
    found: list[tuple[int, str, str]] = []

    def hear(conversation: Conversation, feedback: Feedback, **kwargs: Any) -> None:
        found.append((feedback.position, feedback.value, feedback.comment))

    feedback_given.connect(hear, sender=Conversation)
    yield found
    feedback_given.disconnect(hear, sender=Conversation)


def given() -> list[tuple[Any, int, str, str]]:
    return list(Feedback.objects.order_by("pk").values_list("user", "position", "value", "comment"))


class TestGiving:
    def test_each_user_has_one_for_each_answer(self, conversation: Conversation, user: Any) -> None:
        another = UserFactory()
        first = give_feedback(conversation, 2, user, "up")
        give_feedback(conversation, 2, another, "down", "No: a musical.")
        changed = give_feedback(conversation, 2, user, "down", "Too short.")
        assert (changed.pk, changed.created_at) == (first.pk, first.created_at)
        assert changed.updated_at > first.updated_at
        assert given() == [(user.pk, 2, "down", "Too short."), (another.pk, 2, "down", "No: a musical.")]
        assert list(conversation.feedback.filter(value="down").values_list("position", flat=True)) == [2, 2]
        assert withdraw_feedback(conversation, 2, user)
        assert not withdraw_feedback(conversation, 2, user)
        assert given() == [(another.pk, 2, "down", "No: a musical.")]

    def test_only_answers_are_rated_whether_the_model_still_has_them_or_not(
        self, conversation: Conversation, user: Any
    ) -> None:
        conversation.memory.set([AiMessage("They spoke of cats.")])  # nobody said this
        give_feedback(conversation, 2, user, "up")
        for position in (0, 1, 3):
            with pytest.raises(NotAnAnswerError, match=f"message {position} is not an answer of the model"):
                give_feedback(conversation, position, user, "up")
        with pytest.raises(Message.DoesNotExist):
            give_feedback(conversation, 4, user, "up")
        assert len(given()) == 1

    @pytest.mark.parametrize(
        ("value", "comment", "problem"),
        [
            ("good", "", 'must be "up" or "down", but is: \'good\''),
            (1, "", 'must be "up" or "down", but is: 1'),
            ("up", "a\x00", "U\\+0000"),
            ("up", "\ud800", "lone surrogate"),
            ("up", "x" * (LONGEST_COMMENT + 1), "at most 1000 characters, but has: 1001"),
        ],
    )
    def test_wrong_values_are_refused(
        self, conversation: Conversation, user: Any, value: Any, comment: str, problem: str
    ) -> None:
        with pytest.raises(ValueError, match=problem):
            give_feedback(conversation, 2, user, value, comment)
        with pytest.raises(ValueError, match="must be a saved user"):
            give_feedback(conversation, 2, None, "up")
        assert given() == []

    def test_it_changes_nothing_of_the_conversation(self, conversation: Conversation, user: Any) -> None:
        before = Conversation.objects.values().get()
        give_feedback(conversation, 2, user, "up", "🐈" * LONGEST_COMMENT)
        assert Conversation.objects.values().get() == before

    @pytest.mark.django_db(transaction=True)
    def test_the_signal_comes_after_the_commit_and_not_for_what_is_the_same(
        self, conversation: Conversation, user: Any, heard: list[Any]
    ) -> None:
        def fail(change: Any) -> None:
            assert heard == []
            raise RuntimeError

        with pytest.raises(RuntimeError):
            give_feedback(conversation, 2, user, "up", also=fail)
        assert (given(), heard) == ([], [])
        for _ in range(2):
            give_feedback(conversation, 2, user, "up")
        async_to_sync(agive_feedback)(conversation, 2, user, "down", "Why?")
        assert heard == [(2, "up", ""), (2, "down", "Why?")]

    @pytest.mark.django_db(transaction=True)
    def test_at_once_it_is_still_one(self, conversation: Conversation, user: Any) -> None:
        start = threading.Barrier(4)

        def give(value: str) -> None:
            try:
                start.wait()
                give_feedback(Conversation.objects.get(), 2, user, value)
            finally:
                connection.close()

        threads = [threading.Thread(target=give, args=(value,)) for value in ("up", "down") * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        [(owner, position, value, _comment)] = given()
        assert (owner, position) == (user.pk, 2)
        assert value in {"up", "down"}


class TestErasing:
    @pytest.fixture
    def another(self, conversation: Conversation, user: Any) -> Any:
        """Who rated the answer, too."""
        made = UserFactory()
        give_feedback(conversation, 2, user, "down", "I am Ann.")
        give_feedback(conversation, 2, made, "up", "She is Ann.")
        return made

    def test_it_goes_with_its_message(self, conversation: Conversation, user: Any) -> None:
        conversation.memory.add(AiMessage("Or a whip."))
        for position in (2, 3):
            give_feedback(conversation, position, user, "up")
        conversation.memory.set([AiMessage("Or a whip.")])
        assert len(given()) == 2  # evicted is not erased
        list(purge_evicted(timezone.now() + timedelta(days=1)))
        assert given() == [(user.pk, 3, "up", "")]

    def test_it_goes_with_its_conversation(self, conversation: Conversation, another: Any) -> None:
        conversation.delete()
        assert given() == []

    def test_it_goes_with_its_user(self, conversation: Conversation, user: Any, another: Any) -> None:
        another.delete()
        assert given() == [(user.pk, 2, "down", "I am Ann.")]

    def test_erasing_a_user_erases_it_in_all_conversations(
        self, conversation: Conversation, user: Any, another: Any
    ) -> None:
        erase_user(another, how="erase")
        assert given() == [(user.pk, 2, "down", "I am Ann.")]
        erase_user(user, how="erase")
        assert given() == []

    def test_anonymising_keeps_the_thumb_alone(self, conversation: Conversation, user: Any, another: Any) -> None:
        erase_user(another, how="anonymise")
        assert given() == [(user.pk, 2, "down", "I am Ann."), (None, 2, "up", "")]
        erase_user(user, how="anonymise")
        assert given() == [(None, 2, "down", ""), (None, 2, "up", "")]

    def test_a_user_gets_what_is_theirs(self, conversation: Conversation, user: Any, another: Any) -> None:
        [theirs] = export_user(another)
        assert f'"conversation":"{conversation.pk}"' in theirs
        assert '"comment":"She is Ann."' in theirs
        assert "I am Ann." in "".join(export_user(user))


class TestVerify:
    @pytest.mark.slow
    def test_what_belongs_to_no_answer_is_found_and_deleted(self, conversation: Conversation, user: Any) -> None:
        give_feedback(conversation, 2, user, "up")
        assert list(verify()) == []
        Feedback.objects.create(conversation=conversation, position=1, user=user, value="up")
        for repair in (False, True):
            [found] = verify(repair=repair)
            assert (found.what, found.repaired) == ("feedback to message 1", repair)
        assert list(verify()) == []
        assert given() == [(user.pk, 2, "up", "")]
