"""``chatmemory_recount``: every stored count becomes that of another model."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from chatmemory import OpenAiTokenCountEstimator, TokenWindowChatMemory, UserMessage
from chatmemory.models import Conversation, Message, Origin
from chatmemory.recounting import recount
from chatmemory.stores import DjangoChatMemoryStore
from chatmemory.verification import verify
from tests.support.factories import ConversationFactory
from tests.support.full_windows import turn
from tests.vectors import OracleEstimator

pytestmark = pytest.mark.django_db

# 6 tokens for gpt-4o, 9 for gpt-4, with the 4 of each message.
TEXT = "안녕하세요"


def run(*args: str) -> str:
    out = io.StringIO()
    call_command("chatmemory_recount", *args, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def made(model: str = "gpt-4o", limit: int = 4, **kwargs: Any) -> Conversation:
    """Seven messages, of which four are retained."""
    conversation = ConversationFactory(window="messages", limit=limit, model=model, **kwargs)
    for _ in range(7):
        conversation.memory.add(UserMessage(TEXT))
    return conversation


def counts(conversation: Conversation) -> set[int]:
    return set(conversation.messages.values_list("token_count", flat=True))


def test_evicted_and_retained_messages_are_counted_for_the_new_model() -> None:
    conversation = made()
    assert counts(conversation) == {6}
    said = run("--model", "gpt-4")
    assert said == "Counted conversations: 1, messages: 7, evicted: 0.\n"
    assert counts(conversation) == {9}
    conversation.refresh_from_db()
    assert (conversation.model, conversation.retained_tokens, conversation.retained_count) == ("gpt-4", 36, 4)
    assert list(verify()) == []


def test_what_no_longer_fits_is_evicted() -> None:
    conversation = ConversationFactory(window="tokens", limit=3 + 4 * 6, model="gpt-4o")
    conversation.memory.add(*[UserMessage(TEXT)] * 5)
    assert conversation.retained_count == 4
    assert run("--model", "gpt-4") == "Counted conversations: 1, messages: 5, evicted: 2.\n"
    conversation.refresh_from_db()
    assert (conversation.retained_count, conversation.retained_tokens) == (2, 18)
    assert conversation.messages.get(position=1).eviction_reason == "window"
    assert list(verify()) == []


def test_old_results_are_cleared_and_pins_stay() -> None:
    conversation = ConversationFactory(limit=150, keep_tool_results=0)
    conversation.memory.add(*turn(0, words=10), *turn(1, words=50))
    conversation.memory.pin(0)
    Message.objects.filter(position=2).update(token_count=15, text="안녕하세요 " * 20)
    said = run("--model", "gpt-4")
    conversation.refresh_from_db()
    cleared = conversation.messages.get(position=2)
    assert (cleared.eviction_reason, cleared.evicted_in) == ("tool_cleared", conversation.version)
    placeholder = conversation.messages.get(position=8)
    assert (placeholder.origin, placeholder.covers_from, placeholder.is_retained) == (Origin.CLEARED, 2, True)
    assert [row.position for row in conversation.messages.pinned()] == [0]
    assert said == "Counted conversations: 1, messages: 8, evicted: 1.\n"
    assert list(verify()) == []


def test_pins_that_take_more_than_half_stay() -> None:
    """What was promised to a user is kept, even if another model counts more tokens for it."""
    conversation = ConversationFactory(limit=3 + 4 * 6, model="gpt-4o")
    conversation.memory.add(*[UserMessage(TEXT)] * 4)
    conversation.memory.pin(0)
    conversation.memory.pin(1)
    run("--model", "gpt-4")
    conversation.refresh_from_db()
    assert [row.position for row in conversation.messages.retained()] == [0, 1]
    assert list(verify()) == []


@pytest.mark.django_db(transaction=True)
def test_an_object_from_before_adds_rightly(settings: Any) -> None:
    """It knows the counts of its version, and adds without a lock as long as that is the version."""
    conversation = ConversationFactory(window="tokens", limit=100, model="some-new-model")
    settings.CHATMEMORY = {"FALLBACK_ENCODING": "cl100k_base"}
    conversation.memory.add(*[UserMessage(TEXT)] * 3)
    assert counts(conversation) == {9}
    settings.CHATMEMORY = {}
    run()
    conversation.memory.add(UserMessage(TEXT))
    assert counts(conversation) == {6}
    assert list(verify()) == []


def test_without_a_model_each_keeps_its_own(settings: Any) -> None:
    known, unknown = made(), made("some-new-model")
    settings.CHATMEMORY = {"FALLBACK_ENCODING": "cl100k_base"}
    run()
    assert (counts(known), counts(unknown)) == ({6}, {9})
    before = Conversation.objects.get(pk=known.pk).version
    assert before == 7  # nothing of it is another thing now
    assert list(verify()) == []


def test_only_conversations_of_one_model() -> None:
    one, other = made("gpt-4o"), made("o1")
    run("--from", "gpt-4o", "--model", "gpt-4")
    assert (counts(one), counts(other)) == ({9}, {6})
    assert set(Conversation.objects.values_list("model", flat=True)) == {"gpt-4", "o1"}


def test_only_one_conversation() -> None:
    one, other = made(), made()
    run("--conversation", str(one.pk), "--model", "gpt-4")
    assert (counts(one), counts(other)) == ({9}, {6})


def test_what_an_own_estimator_counts_is_left_to_it() -> None:
    store = DjangoChatMemoryStore(owner=None)
    memory = TokenWindowChatMemory(id="x", max_tokens=1000, token_count_estimator=OracleEstimator(), store=store)
    memory.add(UserMessage(TEXT))
    conversation = Conversation.objects.get()
    own = counts(conversation)
    assert own != {OpenAiTokenCountEstimator("gpt-4").estimate_token_count_in_message(UserMessage(TEXT))}
    assert run() == run("--model", "gpt-4") == "Counted conversations: 0, messages: 0, evicted: 0.\n"
    assert counts(conversation) == own
    run("--from", conversation.model, "--model", "gpt-4")
    assert counts(conversation) == {9}


@pytest.mark.parametrize(("size", "steps"), [(1, [1, 1, 1, 4]), (2, [2, 5]), (3, [3, 4]), (100, [7])])
def test_in_batches(size: int, steps: list[int]) -> None:
    conversation = made()
    assert [step.messages for step in recount(model="gpt-4", batch_size=size)] == steps
    assert counts(conversation) == {9}


def test_interrupted_it_begins_again_with_what_is_left() -> None:
    conversation = made()
    next(recount(model="gpt-4", batch_size=2))
    conversation.refresh_from_db()
    assert conversation.model == "gpt-4o"
    assert list(verify()) == []
    run("--model", "gpt-4")
    assert counts(conversation) == {9}
    assert run("--model", "gpt-4") == "Counted conversations: 0, messages: 0, evicted: 0.\n"


def test_what_is_evicted_meanwhile_is_counted_as_well() -> None:
    conversation = made()
    steps = recount(model="gpt-4", batch_size=3)
    next(steps)
    conversation.memory.add(UserMessage(TEXT))
    list(steps)
    assert counts(conversation) == {9}
    assert conversation.messages.evicted().count() == 4
    assert list(verify()) == []


def test_a_dry_run_changes_nothing() -> None:
    conversation = made()
    said = run("--model", "gpt-4", "--dry-run")
    assert said == "Would count conversations: 1, messages: 7.\n"
    assert counts(conversation) == {6}


def test_a_row_that_says_no_message_stops_only_its_conversation() -> None:
    bad, good = made(), made()
    bad.messages.filter(position=0).update(payload="[")
    err = io.StringIO()
    with pytest.raises(SystemExit):
        call_command("chatmemory_recount", "--model", "gpt-4", stdout=io.StringIO(), stderr=err)
    assert f"conversation {bad.pk}" in err.getvalue()
    assert counts(good) == {9}
    assert Conversation.objects.get(pk=bad.pk).model == "gpt-4o"


def test_a_model_must_have_a_name() -> None:
    with pytest.raises(CommandError, match="--model: model must be a string of 1 to 255 characters"):
        run("--model", " ")


def test_it_is_no_activity() -> None:
    """A purge by age goes by the last activity."""
    conversation = ConversationFactory(window="tokens", limit=3 + 4 * 6, model="gpt-4o")
    conversation.memory.add(*[UserMessage(TEXT)] * 5)
    last = timezone.now() - timedelta(days=31)
    Conversation.objects.update(updated_at=last)
    run("--model", "gpt-4")
    conversation.refresh_from_db()
    assert (conversation.retained_count, conversation.updated_at) == (2, last)
    left = conversation.messages.get(position=1)
    assert left.evicted_at is not None
    assert left.evicted_at > last


def test_it_is_no_activity_where_nothing_leaves() -> None:
    conversation = made()
    last = timezone.now() - timedelta(days=31)
    Conversation.objects.update(updated_at=last)
    run("--model", "gpt-4")
    conversation.refresh_from_db()
    assert (conversation.model, conversation.updated_at) == ("gpt-4", last)
