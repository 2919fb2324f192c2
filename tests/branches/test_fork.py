"""Copies of a conversation as it was at a message."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import IntegrityError, transaction
from django.test import override_settings
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatmemory import AiMessage, ChatMessage, SystemMessage, UserMessage
from chatmemory.models import Branch, Conversation, IdempotencyKey, Message
from chatmemory.models.branch import on_current_branch
from chatmemory.retention import purge_evicted
from chatmemory.verification import verify
from tests.support import budget
from tests.support.factories import ConversationFactory, UserFactory
from tests.support.full_windows import conversation_of_turns
from tests.support.steps import do, steps

pytestmark = pytest.mark.django_db

examples = settings(max_examples=budget.examples(15), deadline=None, suppress_health_check=list(HealthCheck))

KEPT = [
    "position",
    "type",
    "text",
    "payload",
    "native",
    "token_count",
    "origin",
    "written_by",
    "covers_from",
    "covers_to",
    "memory_order",
    "added_in",
    "created_at",
]


def rows(conversation: Conversation, **chosen: Any) -> list[dict[str, Any]]:
    return list(conversation.messages.filter(**chosen).order_by("position").values(*KEPT))


def pinned_at(conversation: Conversation, version: int) -> list[int]:
    there = conversation.messages.in_memory_at(version)
    return [row.position for row in there if row.was_pinned_at(version)]


def check(source: Conversation, at: int) -> None:
    """Check that a fork equals its source as it was at a message."""
    last = source.messages.get(position=at)
    is_whole = not source.messages.history().filter(position__gt=at, added_in=last.added_in).exists()
    fork = source.fork(at=at)
    assert fork.forked_from == source.pk
    assert fork.messages.history().last().position == at
    tree, whole = fork.tree(), source.tree()
    assert tree.parents == {child: parent for child, parent in whole.parents.items() if child <= at}
    assert at not in tree.parents or tree.head == at
    on_branch = fork.messages.history().filter(on_current_branch(fork)).exclude(type="SYSTEM")
    assert list(on_branch.values_list("position", flat=True)) == tree.path()
    for version in range(last.added_in + is_whole):
        assert fork.memory.at(version) == source.memory.at(version)
        assert pinned_at(fork, version) == pinned_at(source, version)
    if is_whole:
        assert fork.version == last.added_in
        assert rows(fork) == rows(source, added_in__lte=last.added_in)
    stored = Conversation.objects.get(pk=fork.pk)
    for name in ("version", "retained_count", "message_count", "next_position", "compacted_to"):
        assert getattr(stored, name) == getattr(fork, name)


def said() -> st.SearchStrategy[ChatMessage]:
    return st.builds(UserMessage, st.sampled_from("abc")) | st.builds(SystemMessage, st.sampled_from("xy"))


class TestTheCopy:
    @pytest.mark.slow
    @examples
    @given(all_steps=steps())
    def test_is_what_the_conversation_was(self, all_steps: list[Any]) -> None:
        with transaction.atomic():
            source = ConversationFactory(window="messages", limit=4, compact_keep=0)
            do(source, all_steps)
            for position in source.messages.history().values_list("position", flat=True):
                check(source, position)
            assert list(verify()) == []
            transaction.set_rollback(True)

    @pytest.mark.slow
    @examples
    @given(batches=st.lists(st.lists(said(), min_size=1, max_size=6), min_size=1, max_size=3), limit=st.integers(1, 6))
    def test_ends_within_a_change(self, batches: list[list[ChatMessage]], limit: int) -> None:
        """The messages of one change that came later are not in the copy, nor did they make room for themselves."""
        with transaction.atomic():
            source = ConversationFactory(window="messages", limit=limit)
            for batch in batches:
                source.memory.add(*batch)
            *before, last = batches
            for number in range(1, len(last)):
                naive = ConversationFactory(window="messages", limit=limit)
                for batch in before:
                    naive.memory.add(*batch)
                if naive.memory.add(*last[:number]).added:
                    fork = source.fork(at=naive.next_position - 1)
                    assert fork.memory.messages() == naive.memory.messages()
                    assert fork.messages.history().count() == naive.message_count
            assert list(verify()) == []
            transaction.set_rollback(True)

    def test_ends_within_a_change_that_cleared_results(self) -> None:
        source = conversation_of_turns()
        cleared = source.messages.filter(eviction_reason="tool_cleared").first()
        question = source.messages.history().filter(added_in=cleared.evicted_in).first()
        memory = source.fork(at=question.position).memory.messages()
        assert memory[-1] == question.message
        assert cleared.message in memory


class TestTheRow:
    def test_is_the_owners_with_names_of_its_own(self) -> None:
        source = ConversationFactory(title="Tea", metadata={"a": [1]})
        source.memory.add(UserMessage("Hi"), idempotency_key="key")
        fork = source.fork(at=0)
        assert (fork.owner, fork.title, fork.metadata) == (source.owner, "Tea", {"a": [1]})
        assert fork.memory_id != source.memory_id
        assert not IdempotencyKey.objects.filter(conversation=fork).exists()
        assert fork.memory.add(UserMessage("Hi"), idempotency_key="key").added

    def test_has_the_title_that_is_stored(self) -> None:
        source = ConversationFactory(title="old")
        source.memory.add(UserMessage("Hi"))
        Conversation.objects.filter(pk=source.pk).update(title="new")
        assert source.fork(at=0).title == "new"

    def test_takes_other_fields(self) -> None:
        source, other = ConversationFactory(window="messages", limit=9), UserFactory()
        source.memory.add(*map(UserMessage, "abcd"))
        fork = source.fork(at=3, owner=other, memory_id="mine", title="T", metadata={"b": 1}, limit=2)
        stored = Conversation.objects.get(owner=other, memory_id="mine")
        assert (stored.title, stored.metadata, stored.limit) == ("T", {"b": 1}, 2)
        assert fork.memory.messages() == [UserMessage("c"), UserMessage("d")]
        assert source.memory.messages() == [*map(UserMessage, "abcd")]

    @pytest.mark.parametrize("field", ["version", "pk", "colour"])
    def test_refuses_fields_that_are_not_the_callers(self, field: str) -> None:
        source = ConversationFactory()
        source.memory.add(UserMessage("Hi"))
        with pytest.raises(TypeError, match=f"unexpected fields: {field}"):
            source.fork(at=0, **{field: 1})

    def test_is_not_made_with_a_bad_field(self) -> None:
        source = ConversationFactory()
        source.memory.add(UserMessage("Hi"))
        with pytest.raises(ValueError, match="limit"):
            source.fork(at=0, limit=0)
        with pytest.raises(IntegrityError), transaction.atomic():
            source.fork(at=0, memory_id=source.memory_id)
        assert Conversation.objects.count() == 1

    @pytest.mark.parametrize("position", [-1, 1, 7, True, None, "0"])
    def test_refuses_a_position_at_which_nothing_was_said(self, position: Any) -> None:
        source = ConversationFactory()
        source.memory.add(UserMessage("Hi"))
        with pytest.raises(ValueError, match="position must be that of a message of the history"):
            source.fork(at=position)

    def test_is_made_in_a_task(self) -> None:
        source = ConversationFactory()
        source.memory.add(UserMessage("Hi"))
        fork = async_to_sync(source.afork)(at=0, title="T")
        assert (fork.title, fork.memory.messages()) == ("T", [UserMessage("Hi")])


class TestTheBranches:
    def test_end_at_the_message(self) -> None:
        source = ConversationFactory()
        user = UserFactory()
        source.memory.add(UserMessage("a"), AiMessage("b"))
        source.memory.add(UserMessage("c"))
        source.edit(2, UserMessage("d"), user=user)
        source.memory.add(AiMessage("e"))
        source.switch(2)
        fork = source.fork(at=4)
        assert [(row.start, row.follows, row.current_to, row.user) for row in fork.branches.order_by("version")] == [
            (0, -1, 1, None),
            (3, 1, 2**31 - 1, user),
        ]
        assert fork.tree().path() == [0, 1, 3, 4]
        fork.switch(2)
        assert fork.memory.messages() == [UserMessage("a"), AiMessage("b"), UserMessage("c")]
        assert list(verify()) == []

    def test_have_no_rows_before_the_conversation_went_back(self) -> None:
        source = ConversationFactory()
        source.memory.add(UserMessage("a"))
        source.edit(0, UserMessage("b"))
        assert not Branch.objects.filter(conversation=source.fork(at=0)).exists()

    def test_of_a_fork_of_a_fork(self) -> None:
        source = ConversationFactory()
        source.memory.add(UserMessage("a"))
        source.edit(0, UserMessage("b"))
        fork = source.fork(at=1)
        again = fork.fork(at=1)
        assert again.forked_from == fork.pk
        assert rows(again) == rows(source)


class TestWhatIsGone:
    def test_is_not_in_the_copy(self) -> None:
        source = ConversationFactory(window="messages", limit=2)
        for text in "abcde":
            source.memory.add(UserMessage(text))
        before = source.memory.at(4)
        list(purge_evicted(timezone.now()))
        fork = source.fork(at=3)
        assert fork.memory.messages() == before[1:]
        assert (fork.message_count, fork.purged_count, fork.next_position) == (4, 3, 4)
        with pytest.raises(ValueError, match="history"):
            source.fork(at=1)
        assert list(verify()) == []

    def test_without_a_history(self) -> None:
        with override_settings(CHATMEMORY={"KEEP_HISTORY": False}):
            source = ConversationFactory(window="messages", limit=2)
            for text in "abc":
                source.memory.add(UserMessage(text))
            fork = source.fork(at=2)
            assert fork.memory.messages() == [UserMessage("b"), UserMessage("c")]
            assert fork.message_count == 3
            assert list(verify()) == []


def test_a_summary_is_not_covered_again() -> None:
    """Also after the conversation went back to before the summary."""
    source = ConversationFactory(window="messages", limit=4)
    do(source, [("add", [[*map(UserMessage, "abcdef")]][0]), ("compact",), ("add", [UserMessage("g")])])
    summary = source.messages.get(origin="summary")
    last = source.messages.history().last().position
    source.rewind(before=1)
    fork = source.fork(at=last)
    assert fork.compacted_to == summary.covers_to + 1
    assert list(verify()) == []


@pytest.mark.slow
def test_many_rows_are_copied_in_parts(django_assert_max_num_queries: Any) -> None:
    source = ConversationFactory(window="messages", limit=10)
    source.memory.add(*(UserMessage(str(number)) for number in range(1200)))
    with django_assert_max_num_queries(60):
        fork = source.fork(at=1199)
    assert Message.objects.filter(conversation=fork).count() == 1200
    assert fork.memory.messages() == source.memory.messages()


def test_a_search_finds_its_messages() -> None:
    source = ConversationFactory()
    source.memory.add(UserMessage("Which tea is green?"), AiMessage("Sencha."))
    fork = source.fork(at=1)
    assert [hit.position for hit in fork.search("sencha")] == [1]
