"""Replays: what the requests of a conversation were, and what they would have been under another window."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given, settings
from hypothesis import strategies as st

from chatmemory import (
    AiMessage,
    ChatMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.database.change import Target
from chatmemory.database.operations.archive import take_back
from chatmemory.database.operations.compact import apply_compaction
from chatmemory.database.operations.compaction_plan import plan_compaction
from chatmemory.database.operations.replay import PastMemory, memories_before
from chatmemory.database.reading import is_answer, request_before
from chatmemory.models import Conversation, Message
from tests.support import budget
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db

CALL = AiMessage(None, [ToolExecutionRequest(id="c", name="weather", arguments="{}")])
SUMMARISED = AiMessage("Yes", attributes={"anthropic": {"content": [{"type": "compaction", "content": "Tea."}]}})
RESULT = ToolExecutionResultMessage("c", "weather", "sunny " * 30)


def figures(conversation: Conversation, *names: str, **window: Any) -> tuple[Any, ...]:
    replay = conversation.memory.replay(**window)
    return tuple(getattr(replay, name) for name in names)


def chat(conversation: Conversation, turns: int) -> None:
    for turn in range(turns):
        conversation.memory.add(UserMessage(f"Question {turn}"))
        conversation.memory.add(AiMessage(f"Answer {turn}"))


class TestWhatHappened:
    def test_each_answer_had_a_request_that_the_next_one_begins_with(self) -> None:
        conversation = ConversationFactory(window="messages", limit=100)
        chat(conversation, 3)
        one = conversation.messages.get(position=0).token_count
        other = conversation.messages.get(position=1).token_count
        replay = conversation.memory.replay()
        assert replay.requests == 3
        assert replay.input_tokens == one + (2 * one + other) + (3 * one + 2 * other)
        assert replay.cacheable_tokens == 0 + one + (2 * one + other)
        assert (replay.prefix_breaks, replay.evictions, replay.repairs) == (0, 0, 0)
        assert replay.mean_fill == pytest.approx((1 + 3 + 5) / 300)

    def test_an_eviction_at_the_front_breaks_the_prefix(self) -> None:
        conversation = ConversationFactory(window="messages", limit=4)
        conversation.memory.add(SystemMessage("Be kind."))
        chat(conversation, 3)
        system = conversation.messages.get(position=0).token_count
        # S U | S U A U | S A U A, then U: the third request is S A A U less the oldest: S U A U.
        assert figures(conversation, "requests", "prefix_breaks", "evictions") == (3, 1, 3)
        replay = conversation.memory.replay()
        assert replay.cacheable_tokens == system + conversation.messages.get(position=1).token_count + system

    def test_what_came_with_the_answer_and_before_it_was_in_its_request(self) -> None:
        conversation = ConversationFactory(window="messages", limit=10)
        conversation.memory.add(UserMessage("Hi"), AiMessage("Hello"))
        assert figures(conversation, "requests", "input_tokens") == (1, conversation.messages.first().token_count)

    def test_a_conversation_without_answers_has_no_requests(self) -> None:
        conversation = ConversationFactory()
        assert figures(conversation, "requests", "input_tokens", "hit_share", "mean_fill") == (0, 0, 0.0, 0.0)
        conversation.memory.add(UserMessage("Hi"))
        assert figures(conversation, "requests", "input_tokens") == (0, 0)

    def test_requests_that_no_api_takes_as_they_are_are_counted(self) -> None:
        conversation = ConversationFactory(window="messages", limit=2)
        conversation.memory.add(UserMessage("Hi"))
        conversation.memory.add(AiMessage("Hello"))  # from U
        conversation.memory.add(UserMessage("How are you?"))
        conversation.memory.add(AiMessage("Fine"))  # from A U
        conversation.memory.add(ToolExecutionResultMessage("x", "weather", "late"))
        conversation.memory.add(AiMessage("It is late"))  # from A R, where R has no call
        assert figures(conversation, "repairs", "requests") == (2, 3)

    def test_messages_that_are_deleted_are_missing(self) -> None:
        conversation = ConversationFactory(window="messages", limit=2)
        chat(conversation, 3)
        conversation.messages.evicted().delete()
        Conversation.objects.filter(pk=conversation.pk).update(purged_count=4)
        assert figures(conversation, "missing", "requests") == (4, 1)

    def test_another_process_may_have_added_since_the_object_was_read(self) -> None:
        conversation = ConversationFactory()
        Conversation.objects.get().memory.add(UserMessage("Hi"), AiMessage("Hello"))
        assert figures(conversation, "requests") == (1,)


class TestWhatAnotherWindowWouldHaveDone:
    @pytest.mark.slow
    def test_a_mark_and_whole_turns_break_fewer_prefixes(self) -> None:
        conversation = ConversationFactory(window="messages", limit=20)
        chat(conversation, 100)
        before = conversation.memory.replay()
        after = conversation.memory.replay(low_water=50, whole_turns=True)
        assert after.prefix_breaks < before.prefix_breaks / 4
        assert after.hit_share > before.hit_share + 0.4
        assert after.full_price_tokens < before.full_price_tokens / 2
        assert (before.repairs > 0, after.repairs) == (True, 0)
        assert (after.low_water, after.whole_turns, after.limit, after.window) == (50, True, 20, "messages")

    def test_settings_that_are_not_given_are_those_of_the_row(self) -> None:
        conversation = ConversationFactory(window="messages", limit=7, low_water=60, keep_tool_results=2)
        assert figures(
            conversation, "window", "limit", "low_water", "whole_turns", "keep_tool_results", whole_turns=True
        ) == ("messages", 7, 60, True, 2)

    def test_a_wider_window_keeps_what_was_evicted(self) -> None:
        conversation = ConversationFactory(window="messages", limit=2)
        chat(conversation, 10)
        assert figures(conversation, "evictions", "prefix_breaks", limit=100) == (0, 0)

    def test_old_results_give_way(self) -> None:
        conversation = ConversationFactory(window="tokens", limit=200)
        for turn in range(6):
            conversation.memory.add(UserMessage(f"Question {turn}"))
            conversation.memory.add(CALL)
            conversation.memory.add(RESULT)
            conversation.memory.add(AiMessage("Sunny"))
        kept = {"whole_turns": True, "keep_tool_results": 0}
        twin = ConversationFactory(window="tokens", limit=200, **kept)
        for message in [row.message for row in conversation.messages.history()]:
            twin.memory.add(message)
        assert twin.messages.filter(eviction_reason="tool_cleared").count() == 5
        assert conversation.memory.replay(**kept) == twin.memory.replay()

    def test_what_takes_the_place_of_a_pinned_message_is_pinned(self) -> None:
        conversation = ConversationFactory(window="messages", limit=6)
        conversation.memory.add(UserMessage("Question"), AiMessage("Answer"))
        conversation.memory.pin(1)
        take_back(Target.of(conversation), lambda row: (AiMessage("Ans"), None))  # type: ignore[arg-type, return-value]
        chat(conversation, turns=5)
        recorded = conversation.memory.replay()
        assert recorded.repairs > 0  # the pinned answer outlives its question
        assert conversation.memory.replay(limit=6) == recorded

    def test_a_summary_was_made_under_another_window_as_well(self) -> None:
        conversation = ConversationFactory(window="messages", limit=6)
        chat(conversation, 10)
        plan = plan_compaction(conversation, summary_tokens=0)
        assert plan is not None
        assert (plan.covers_from, plan.covers_to) == (0, 17)
        conversation.memory.apply_compaction(plan, "Ten questions.")
        chat(conversation, 1)
        twin = ConversationFactory(window="messages", limit=100)
        chat(twin, 10)
        twin.memory.set([conversation.messages.get(origin="summary").message, *twin.memory.messages()[18:]])
        chat(twin, 1)
        assert conversation.memory.replay(limit=100) == twin.memory.replay()

    def test_it_makes_no_summaries_of_its_own(self) -> None:
        with pytest.raises(TypeError, match="takes no compact_at"):
            ConversationFactory().memory.replay(compact_at=50)

    def test_it_counts_no_tokens_anew(self) -> None:
        with pytest.raises(TypeError, match="takes no model"):
            ConversationFactory().memory.replay(model="gpt-4")

    @pytest.mark.parametrize("wrong", [{"limit": 0}, {"low_water": 101}, {"keep_tool_results": -1}])
    def test_settings_without_a_meaning_are_refused(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must"):
            ConversationFactory().memory.replay(**wrong)

    def test_nothing_is_written_and_no_text_is_read(self) -> None:
        conversation = ConversationFactory(window="messages", limit=3)
        chat(conversation, 5)
        with CaptureQueriesContext(
            connection,
        ) as queries:
            conversation.memory.replay(low_water=50)
        assert {query["sql"].split()[0] for query in queries} == {"SELECT"}
        columns = queries[-1]["sql"].split("FROM")[0]
        assert "position" in columns
        assert '"text"' not in columns.replace("`", '"')


WINDOWS = st.fixed_dictionaries(
    {
        "low_water": st.sampled_from([100, 70, 50, 1]),
        "whole_turns": st.booleans(),
        "keep_tool_results": st.sampled_from([None, 0, 1, 3]),
        "always_keep_system_message_first": st.booleans(),
        "reserve": st.sampled_from([0, 0, 20, 200]),
    }
)
BOUNDS = st.tuples(st.just("messages"), st.integers(2, 10)) | st.tuples(st.just("tokens"), st.integers(40, 300))
SAID = st.one_of(
    st.just(CALL),
    st.sampled_from([AiMessage("Yes"), SUMMARISED]),
    st.sampled_from([SystemMessage("a"), SystemMessage("b")]),
    st.integers(0, 20).map(lambda words: UserMessage("word " * words)),
    st.integers(0, 20).map(lambda words: ToolExecutionResultMessage("c", "weather", "word " * words)),
)
ACTS = st.one_of(
    st.tuples(st.just("add"), st.lists(SAID, min_size=1, max_size=4)),
    st.tuples(st.just("add"), st.lists(SAID, min_size=1, max_size=1)),
    st.tuples(st.sampled_from(["clear", "pin", "unpin", "clear_tool_results", "set", "compact"]), st.randoms()),
)


def act(conversation: Conversation, kind: str, argument: Any) -> None:
    memory = conversation.memory
    if kind == "add":
        memory.add(*argument)
    elif kind == "clear":
        memory.clear()
    elif kind == "clear_tool_results":
        memory.clear_tool_results(argument.randint(0, 2))
    elif kind == "compact":
        plan = plan_compaction(conversation, keep=argument.choice([0, 30, 60]), summary_tokens=0)
        with suppress(ValueError):  # a summary that is not smaller, or too large for the window
            if plan is not None:
                apply_compaction(Target.of(conversation), plan, "So far: tea.")
    elif kind == "set":
        messages: list[ChatMessage] = [each for each in memory.messages() if argument.random() < 0.8]
        summaries = [row.message for row in conversation.messages.filter(origin="summary")]
        messages.insert(argument.randint(0, len(messages)), argument.choice([UserMessage("A summary"), *summaries]))
        memory.set(messages)
    elif positions := list(conversation.messages.retained().values_list("position", flat=True)):
        change = memory.pin if kind == "pin" else memory.unpin
        with suppress(ValueError):  # pins that take more than half of the limit
            change(argument.choice(positions))


def past_memory(rows: Iterable[Message]) -> PastMemory:
    """Return what ``memories_before`` says of these rows."""
    rows = list(rows)
    said = {row.position for row in rows if row.origin == "said"}
    said |= {row.covers_from for row in rows if row.origin == "copy"}
    summaries = sorted((row.covers_from, row.covers_to) for row in rows if row.origin == "summary")
    return PastMemory(frozenset(said), tuple(summaries), sum(row.token_count for row in rows))


@pytest.mark.slow
@settings(max_examples=budget.examples(150))
@given(BOUNDS, WINDOWS, st.lists(ACTS, min_size=3, max_size=30))
def test_the_replay_of_the_window_that_a_conversation_had_is_its_record(
    bound: tuple[str, int], window: dict[str, Any], acts: list[tuple[str, Any]]
) -> None:
    conversation = ConversationFactory(window=bound[0], limit=bound[1], **window)
    for kind, argument in acts:
        act(conversation, kind, argument)
    recorded = conversation.memory.replay()
    assert conversation.memory.replay(limit=bound[1]) == recorded
    rows = list(conversation.messages.all())
    answers = [row for row in rows if is_answer(row)]
    requests = [request_before(row) for row in answers]
    for variants in ([None], [{"limit": bound[1]}]):
        memories = memories_before(conversation, variants, [row.position for row in answers])
        assert [(at, memory) for at, (memory,) in memories] == [
            (answer.position, past_memory(request)) for answer, request in zip(answers, requests, strict=True)
        ]
    assert recorded.input_tokens == sum(row.token_count for request in requests for row in request)
    assert recorded.requests == sum(row.type == "AI" and not row.synthetic for row in rows)
    assert recorded.evictions == sum(row.eviction_reason in ("window", "orphan", "tool_cleared") for row in rows)
    assert 0 <= recorded.cacheable_tokens <= recorded.input_tokens


@pytest.mark.slow
@settings(max_examples=budget.examples(60))
@given(st.lists(st.lists(SAID, min_size=1, max_size=1), min_size=3, max_size=30), st.integers(40, 300))
def test_the_input_of_each_request_is_the_memory_that_its_answer_was_made_from(
    batches: list[list[ChatMessage]], limit: int
) -> None:
    conversation = ConversationFactory(window="tokens", limit=limit, low_water=70)
    for batch in batches:
        conversation.memory.add(*batch)
    tokens = 0
    for row in conversation.messages.filter(type="AI"):
        tokens += sum(each.token_count for each in conversation.messages.in_memory_at(row.added_in - 1))
    assert conversation.memory.replay().input_tokens == tokens
