"""Summaries that programs write back, or that took in others: they, too, fall with what they were made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from chatmemory import AiMessage, ChatMessage, UserMessage
from chatmemory.core.summaries import summary_message
from chatmemory.models import Conversation, Message, Origin
from chatmemory.stores import DjangoChatMemoryStore
from tests.database.test_compaction import (  # noqa: F401
    _books_are_right,
    memory,
    purge,
    short,
    summarised,
    talk,
    turn,
)

pytestmark = pytest.mark.django_db

Write = Callable[[Conversation, Sequence[ChatMessage]], object]


def by_set(conversation: Conversation, messages: Sequence[ChatMessage]) -> None:
    conversation.memory.set(messages)


def by_store(conversation: Conversation, messages: Sequence[ChatMessage]) -> None:
    store = DjangoChatMemoryStore(owner=conversation.owner)
    store.update_messages(conversation.memory_id, list(messages))


ways = pytest.mark.parametrize("write", [by_set, by_store])


def is_told(word: str) -> bool:
    return Message.objects.filter(text__contains=word).exists()


def talk_with_summary() -> Conversation:
    """Six turns; the summary stands for the first five."""
    conversation = talk(6)
    summarised(conversation, "secret")
    return conversation


@ways
def test_one_that_is_written_back_is_the_summary_again(write: Write) -> None:
    conversation = talk_with_summary()
    read = conversation.memory.messages()
    write(conversation, read[1:])
    assert memory(conversation) == ["q5", "a5"]
    write(conversation, read)
    assert memory(conversation) == ["[secret]", "q5", "a5"]
    row = conversation.messages.retained()[0]
    assert (row.origin, row.covers_from, row.covers_to) == (Origin.SUMMARY, 0, 9)
    assert conversation.messages.history().count() == 12


@ways
def test_it_falls_with_what_it_was_made_from(write: Write) -> None:
    conversation = talk_with_summary()
    read = conversation.memory.messages()
    write(conversation, read[1:])
    write(conversation, read)
    purge(conversation, 3)
    assert memory(conversation) == ["q5", "a5"]
    assert not is_told("secret")
    plan = conversation.memory.plan_compaction(keep=0)
    assert plan is not None
    assert short(plan.messages) == ["q0", "a0", "q1", "q2", "a2", "q3", "a3", "q4", "a4"]


@ways
def test_one_that_was_only_moved_falls_too(write: Write) -> None:
    conversation = talk_with_summary()
    summary, *rest = conversation.memory.messages()
    write(conversation, [*rest, summary])
    assert memory(conversation) == ["q5", "a5", "[secret]"]
    purge(conversation, 3)
    assert not is_told("secret")


@pytest.mark.slow
def test_a_copy_falls_too() -> None:
    """Between two messages there is room for some 32 halvings; then a rewrite copies the one behind."""
    conversation = talk_with_summary()
    for number in range(40):
        *before, summary, question, answer = conversation.memory.messages()
        conversation.memory.set([*before, AiMessage(str(number)), summary, question, answer])
    assert conversation.messages.filter(origin=Origin.SUMMARY).count() == 2
    purge(conversation, 3)
    assert not is_told("secret")


@ways
def test_one_that_was_erased_does_not_come_back(write: Write) -> None:
    """A program writes back what it read before the purge, and a message more."""
    conversation = talk_with_summary()
    read = conversation.memory.messages()
    purge(conversation, 3)
    write(conversation, [*read, UserMessage("new")])
    assert memory(conversation) == ["q5", "a5", "new"]
    assert not is_told("secret")


@ways
def test_other_text_in_the_tags_is_the_programs_own(write: Write) -> None:
    conversation = talk_with_summary()
    read = conversation.memory.messages()
    own = summary_message("my own")
    write(conversation, [own, *read])
    purge(conversation, 3)
    assert memory(conversation) == ["[my own]", "q5", "a5"]
    assert conversation.messages.retained()[0].origin == Origin.REWRITE


def test_the_next_summary_takes_it_in() -> None:
    conversation = talk_with_summary()
    read = conversation.memory.messages()
    conversation.memory.set(read[1:])
    conversation.memory.set(read)
    conversation.memory.add(*turn(6), *turn(7))
    plan = conversation.memory.plan_compaction(keep=0)
    assert plan is not None
    assert plan.previous == "secret"
    assert short(plan.messages) == ["q5", "a5", "q6", "a6"]


def test_a_later_one_falls_with_the_source_of_the_one_that_it_took_in() -> None:
    """The source left before the later summary came, so that is not made from it, but from a summary that is."""
    conversation = talk(6)
    plan = conversation.memory.plan_compaction(keep=0)
    assert plan is not None
    conversation.memory.pin(2)
    conversation.memory.apply_compaction(plan, "secret one")
    conversation.memory.set([message for message in conversation.memory.messages() if short([message]) != ["q1"]])
    conversation.memory.add(*turn(6), *turn(7))
    summarised(conversation, "secret two")
    purge(conversation, 2)
    assert not is_told("secret")


def test_one_that_was_written_back_falls_with_a_source_that_left_with_it() -> None:
    conversation = talk(6)
    plan = conversation.memory.plan_compaction(keep=0)
    assert plan is not None
    conversation.memory.pin(2)
    conversation.memory.apply_compaction(plan, "secret")
    read = conversation.memory.messages()
    assert short(read) == ["q1", "[secret]", "q5", "a5"]
    conversation.memory.set(read[2:])
    conversation.memory.set(read[1:])
    assert memory(conversation) == ["[secret]", "q5", "a5"]
    purge(conversation, 2)
    assert not is_told("secret")


def test_what_was_cleared_does_not_come_back_with_it() -> None:
    conversation = talk_with_summary()
    read = conversation.memory.messages()
    conversation.memory.add(*turn(6))
    conversation.memory.clear()
    conversation.memory.set([read[0], *turn(7), *turn(8), *turn(9)])
    purge(conversation, 3)
    plan = conversation.memory.plan_compaction(keep=0)
    assert plan is not None
    assert short(plan.messages) == ["q7", "a7", "q8", "a8"]


@pytest.mark.parametrize("is_back", [True, False])
def test_one_falls_after_the_latest_has_fallen_with_all_its_range(is_back: bool) -> None:
    """The next summary begins at the first position then, as if there had been none."""
    conversation = talk(6)
    conversation.memory.pin(0)
    summarised(conversation, "secret")
    question, summary, *rest = conversation.memory.messages()
    conversation.memory.set([question, *rest])
    conversation.memory.unpin(0)
    conversation.memory.add(*turn(6), *turn(7))
    summarised(conversation, "another")
    purge(conversation, 11)
    assert conversation.compacted_to == 0
    if is_back:
        conversation.memory.set([summary, *rest])
    purge(conversation, 3)
    assert not is_told("secret")


@ways
def test_a_new_one_with_the_text_of_one_that_was_erased_stays(write: Write) -> None:
    conversation = talk_with_summary()
    purge(conversation, 3)
    summarised(conversation, "secret")
    read = conversation.memory.messages()
    assert short(read) == ["[secret]", "q5", "a5"]
    write(conversation, [*read, UserMessage("new")])
    assert memory(conversation) == ["[secret]", "q5", "a5", "new"]
