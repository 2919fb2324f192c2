"""What one call of a summarizer does not take is summarised in parts, each of which is applied by itself."""

from __future__ import annotations

import asyncio
import io
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatmemory import (
    AiMessage,
    ChatMessage,
    OpenAiTokenCountEstimator,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.assistant import ChatModelSummarizer
from chatmemory.compaction import SummarizerTimeoutError, UnusableSummaryError, compact_due
from chatmemory.database.operations.compact import compact
from chatmemory.database.operations.compaction_plan import plan_compaction, plan_parts, uncovered
from chatmemory.models import Compaction, Conversation
from chatmemory.verification import verify
from tests.database.test_async import run as run_async
from tests.database.test_compaction import purge
from tests.support import budget
from tests.support.due_conversations import due_conversation, texts
from tests.support.long_histories import conversation_of
from tests.support.window_cases import calls_of, left_behind, windows

pytestmark = pytest.mark.django_db


class Scribe:
    """A summarizer that takes so many tokens at once, and remembers what it was given."""

    def __init__(
        self, input_tokens: int, *, fails_at: int = 0, text: str = "s", meanwhile: Callable[[], object] = object
    ) -> None:
        self.input_tokens = input_tokens
        self.fails_at = fails_at
        self.text = text
        self.meanwhile = meanwhile
        self.given: list[tuple[Sequence[ChatMessage], str | None]] = []

    def __call__(self, messages: Sequence[ChatMessage], previous: str | None) -> str:
        self.given.append((messages, previous))
        if len(self.given) == self.fails_at:
            raise ConnectionError("the model is away")
        self.meanwhile()
        return f"{self.text}{len(self.given)}"

    @property
    def told(self) -> list[ChatMessage]:
        return [message for messages, _previous in self.given for message in messages]


@st.composite
def histories(draw: st.DrawFn) -> dict[str, Any]:
    """A window of tokens, and what happens to its memory: turns, and what comes after some of them."""
    window = draw(windows()) | {"window": "tokens", "limit": draw(st.integers(60, 500))}
    sizes = st.sampled_from([0, 5, 12, 40])
    turns = draw(st.lists(st.tuples(sizes, st.integers(0, 3), sizes), min_size=8, max_size=30))
    turns.append((draw(sizes), draw(st.sampled_from([0, 1, 3, 20])), draw(sizes)))
    batches = [_turn(number, *turn) for number, turn in enumerate(turns)]
    acts = st.sampled_from(["nothing"] * 3 + ["pin", "clear results"] + ["rewrite"] * draw(st.integers(0, 1)))
    return {"window": window, "batches": [(batch, draw(acts), draw(st.integers(0, 9))) for batch in batches]}


def _turn(number: int, words: int, calls: int, more: int) -> list[ChatMessage]:
    ids = [f"{number}.{which}" for which in range(calls)]
    exchanges = [
        message
        for id in ids
        for message in (
            AiMessage(None, [ToolExecutionRequest(id, "tool", "{}")]),
            ToolExecutionResultMessage(id, "tool", f"result {id}" + " word" * more),
        )
    ]
    answer = [AiMessage(f"answer {number}" + " word" * more)] if words else []
    return [UserMessage(f"question {number}" + " word" * words), *exchanges, *answer]


def made_of(history: dict[str, Any]) -> Conversation:
    conversation = Conversation.objects.create(model="gpt-4o", compact_at=1, **history["window"])
    for batch, act, number in history["batches"]:
        conversation.memory.add(*batch)
        retained = list(conversation.messages.retained())
        if act == "pin" and retained:
            with suppress(ValueError):  # more than half of the limit
                conversation.memory.pin(retained[number % len(retained)].position)
        elif act == "clear results":
            conversation.memory.clear_tool_results(keep=number % 3)
        elif act == "rewrite":
            given = conversation.memory.messages()
            conversation.memory.set([*given[: number + 1], *given[number + 2 :]])
    conversation.refresh_from_db()
    return conversation


@pytest.mark.slow
@settings(max_examples=budget.examples(36), suppress_health_check=list(HealthCheck), deadline=None)
@given(history=histories(), most=st.integers(1, 300), keep=st.sampled_from([0, 0, 30, 60, 100]), goes_on=st.booleans())
def test_parts_cover_what_one_plan_would(history: dict[str, Any], most: int, keep: int, goes_on: bool) -> None:
    conversation = made_of(history)
    whole = plan_compaction(conversation, keep=keep, summarizer=Scribe(10**9))
    planned = [part.messages for part in plan_parts(conversation, keep=keep, summarizer=Scribe(most))]
    assert [one for part in planned for one in part] == ([] if whole is None else [*whole.messages])
    more = _turn(99, 5, 1, 12)
    scribe = Scribe(most, meanwhile=lambda: conversation.memory.add(*more) if goes_on else None)
    calls = calls_of(conversation)
    try:
        for plan, change in compact(conversation, scribe, keep=keep):
            assert goes_on or not left_behind(conversation, calls), "a result whose call left"
            calls = calls_of(conversation)
            assert conversation.memory.messages() == conversation.memory.at(change.memory.version)
            number = len(scribe.given)
            assert plan.previous == (f"s{number - 1}" if number > 1 else None)
            told = set(map(repr, scribe.told))
            assert told.isdisjoint(repr(row.message) for row in uncovered(conversation))
    except UnusableSummaryError:
        planned = planned[: len(scribe.given)]  # the text is longer than what it stands for, or than the window
    told = [repr(message) for message in scribe.told]
    assert len(told) == len({*told}), "told twice"
    if goes_on and conversation.compact_keep_calls is not None:
        # Another question came: what is left of the turn that was the last is told with its own question, as one part.
        question = repr(history["batches"][-1][0][0])
        assert {*told} - {question} <= {repr(message) for messages in planned for message in messages}
    elif any(act == "rewrite" for _batch, act, _number in history["batches"]):
        # A message that a rewrite moved has a late position: if the window evicts it meanwhile, the next run tells it.
        assert {*told} <= {repr(message) for messages in planned for message in messages}
    else:
        # What came meanwhile may leave no room for a summary.
        assert [messages for messages, _ in scribe.given] == planned[: len(scribe.given) if goes_on else None]
    assert list(verify(Conversation.objects.filter(pk=conversation.pk))) == []
    conversation.delete()


@pytest.mark.slow
def test_as_much_stays_as_if_it_were_one() -> None:
    """A part that makes no room for its summary has others evicted: those that the next part covers, not more."""
    for scribe in Scribe(10**9, text="word " * 150), Scribe(800, text="word " * 150):
        conversation = due_conversation(28, low_water=20, whole_turns=True)
        assert conversation.retained_tokens > 1900
        conversation.memory.compact(scribe)
        assert len(conversation.memory.messages()) == 1 + 2 * 5
    assert len(scribe.given) > 2


@pytest.mark.slow
def test_a_run_ends_though_the_conversation_goes_on() -> None:
    conversation = due_conversation(20)
    planned = list(plan_parts(conversation, summarizer=Scribe(800)))
    turn = UserMessage("More: " + "train " * 300), AiMessage("Yes: " + "train " * 300)

    def go_on() -> None:
        assert len(scribe.given) <= len(planned)
        conversation.memory.add(*turn)

    scribe = Scribe(800, meanwhile=go_on)
    conversation.memory.compact(scribe)
    assert [messages for messages, _ in scribe.given] == [plan.messages for plan in planned]


@pytest.mark.slow
def test_a_failure_keeps_the_parts_before_it() -> None:
    conversation, other = due_conversation(40), due_conversation(8)
    whole = plan_compaction(conversation, summarizer=Scribe(10**9))
    assert whole is not None
    failing = Scribe(1500, fails_at=3)
    results = list(compact_due(summarizer=failing))
    assert [(one.conversation, bool(one.change), type(one.error)) for one in results] == [
        (conversation, True, type(None)),
        (conversation, True, type(None)),
        (conversation, False, ConnectionError),
        (other, True, type(None)),
    ]
    assert texts(conversation)[0] == "<summary>\ns2\n</summary>"
    noted = Compaction.objects.get(conversation=conversation)
    assert (noted.failures, noted.error) == (1, "ConnectionError: the model is away")
    assert noted.retry_at is not None
    assert not any(one.change or one.error for one in compact_due(summarizer=failing)), "before the pause is over"
    Compaction.objects.update(retry_at=None)
    later = Scribe(1500)
    assert all(one.change for one in compact_due(Conversation.objects.filter(pk=conversation.pk), later))
    assert later.given[0][1] == "s2"
    told = [message for messages, _ in [*failing.given[:2], *later.given] for message in messages]
    assert told == [*whole.messages]
    assert list(verify()) == []


@pytest.mark.slow
def test_what_an_erased_summary_stood_for_is_told_in_parts_too() -> None:
    """It left for a summary, but for one that is not there."""
    conversation = due_conversation(10)
    conversation.memory.compact(lambda *_: "erased", keep=0)
    purge(conversation, 0)
    for number in range(10, 14):
        conversation.memory.add(UserMessage(f"Question {number}"), AiMessage(f"Answer {number}"))
    scribe = Scribe(500)
    assert conversation.memory.compact(scribe, keep=0) is not None
    assert len(scribe.given) == 3
    conversation.refresh_from_db()
    said = conversation.messages.history().filter(position__lt=conversation.compacted_to)
    assert [message.text for message in scribe.told] == [row.text for row in said]


@pytest.mark.slow
def test_what_is_still_in_the_memory_goes_on_though_the_first_part_made_room() -> None:
    conversation = due_conversation(24, limit=5000)
    assert not uncovered(conversation).exists()
    scribe = Scribe(600)
    results = list(compact_due(summarizer=scribe))
    assert len(results) > 2
    assert results[0].left[0] > results[1].left[0] > results[-1].left[0] == 0
    assert results[0].left[0] + len(scribe.given[0][0]) == len(scribe.told)
    assert Conversation.objects.get(pk=conversation.pk).retained_tokens <= 2600
    assert not list(compact_due(summarizer=scribe))


@pytest.mark.slow
def test_a_limit_is_one_of_summaries_and_the_next_run_goes_on() -> None:
    conversation = due_conversation(40)
    scribe = Scribe(1500)
    assert [bool(one.change) for one in compact_due(summarizer=scribe, limit=2)] == [True, True]
    assert conversation.memory.compact(scribe, limit=1) is not None
    assert [previous for _, previous in scribe.given] == [None, "s1", "s2"]
    assert len({repr(one) for one in scribe.told}) == len(scribe.told), "nothing is told twice"


def test_a_turn_that_is_longer_than_one_call_takes_is_not_divided() -> None:
    conversation = due_conversation(2)
    conversation.memory.add(*[AiMessage(f"more {number} {'train ' * 90}") for number in range(20)])
    conversation.memory.add(UserMessage("And now?"))
    first, second = plan_parts(conversation, keep=0, summary_tokens=10, summarizer=Scribe(250))
    assert (len(first.messages), len(second.messages)) == (2, 22)


def test_what_is_too_little_for_a_summary_goes_with_the_part_before_it() -> None:
    conversation = due_conversation(2)
    conversation.memory.add(UserMessage("Thanks"), AiMessage("You are welcome"), UserMessage("And now?"))
    (plan,) = plan_parts(conversation, keep=0, summarizer=Scribe(420))
    assert [message.text for message in plan.messages[-2:]] == ["Thanks", "You are welcome"]


def test_a_part_has_no_more_than_a_request_may_read(settings: Any) -> None:
    """Media have few tokens, however long they are."""
    settings.CHATMEMORY = {"MAX_MEMORY_MESSAGES": 6}
    conversation = due_conversation(12, limit=1000)
    plans = list(plan_parts(conversation, keep=0, summary_tokens=10))
    assert [len(plan.messages) for plan in plans] == [6, 6, 6, 4]
    settings.CHATMEMORY = {"MAX_MEMORY_CHARS": 2500}
    plans = list(plan_parts(conversation, keep=0, summary_tokens=10))
    assert [len(plan.messages) for plan in plans] == [4, 4, 4, 4, 4, 2]


@pytest.mark.slow
@pytest.mark.skipif(connection.vendor != "sqlite", reason="the same everywhere")
def test_a_plan_reads_a_part_however_much_is_to_be_summarised() -> None:
    read: list[int] = []
    for size in 2_000, 8_000:
        conversation = conversation_of(size)
        with CaptureQueriesContext(connection) as captured:
            plan = plan_compaction(conversation, summarizer=Scribe(3_000))
        assert plan is not None
        assert plan.has_more
        read.append(len(captured))
    assert read[0] == read[1] <= 12


class TestDryRun:
    @pytest.mark.slow
    def test_it_takes_what_a_run_then_takes(self, settings: Any) -> None:
        long, short = due_conversation(40), due_conversation(8)
        due_conversation(2)
        with_long_turn = due_conversation(2)
        with_long_turn.memory.add(*[AiMessage(f"more {number} {'train ' * 90}") for number in range(20)])
        with_long_turn.memory.add(UserMessage("And now?"))
        settings.CHATMEMORY = {"SUMMARIZER": f"{__name__}.counting"}
        requests.clear()
        out = io.StringIO()
        call_command("chatmemory_compact", "--due", "--dry-run", stdout=out)
        assert not requests
        *each, in_all = [
            {name: int(number) for name, number in re.findall(r"(model calls|tokens|messages): (\d+)", line)}
            for line in out.getvalue().splitlines()
        ]
        assert in_all == {name: sum(one[name] for one in each) for name in in_all}
        taken = []
        for conversation in long, short, with_long_turn:
            requests.clear()
            call_command("chatmemory_compact", "--due", "--conversation", str(conversation.pk), stdout=io.StringIO())
            taken.append({"model calls": len(requests), "tokens": sum(requests)})
        assert [{name: one[name] for name in taken[0]} for one in each] == taken
        assert [one["model calls"] > 1 for one in taken] == [True, False, True]


requests: list[int] = []
"""The tokens of the transcript in each request of ``counting``."""


def _answer(messages: Sequence[ChatMessage], tools: Any) -> AiMessage:
    (transcript,) = re.findall(r"<transcript>\n(.*)</transcript>", messages[-1].text or "", re.DOTALL)
    pieces = re.findall(r"<message.*?</message>\n", transcript, re.DOTALL)
    assert "".join(pieces) == transcript
    requests.append(sum(map(OpenAiTokenCountEstimator("gpt-4o").estimate_token_count_in_text, pieces)))
    return AiMessage("They count trains.")


counting = ChatModelSummarizer(_answer, input_tokens=1000)


@pytest.mark.slow
def test_the_command_says_what_is_done_and_what_is_left(settings: Any) -> None:
    conversation = due_conversation(40)
    settings.CHATMEMORY = {"SUMMARIZER": f"{__name__}.counting"}
    out = io.StringIO()
    call_command("chatmemory_compact", "--due", "--limit", "3", stdout=out)
    *parts, in_all = out.getvalue().splitlines()
    left = [int(line.split("messages left: ")[1].split(",")[0]) for line in parts]
    assert [line.split(": ")[0] for line in parts] == [str(conversation.pk)] * 3
    assert left == sorted(left, reverse=True)
    assert left[-1] == sum(len(plan.messages) for plan in plan_parts(conversation))
    assert in_all == "Summarised conversations: 1, failed: 0."


@pytest.mark.django_db(transaction=True)
class TestTimeLimit:
    @pytest.fixture(autouse=True)
    def _limit(self, settings: Any) -> None:
        settings.CHATMEMORY = {"SUMMARIZER_TIMEOUT": 0.05}

    @pytest.fixture
    def forever(self) -> Iterator[threading.Event]:
        event = threading.Event()
        yield event
        event.set()

    def check(self, hangs: Any) -> None:
        """The first conversation's summarizer hangs, and the others get their summaries."""
        stuck, other = due_conversation(), due_conversation()
        first, second = compact_due(summarizer=hangs)
        assert (first.conversation, second.conversation) == (stuck, other)
        assert isinstance(first.error, SummarizerTimeoutError)
        said = "the summarizer did not end within 0.05 seconds, the setting SUMMARIZER_TIMEOUT"
        assert str(first.error) == said
        assert Compaction.objects.get(conversation=stuck).error == f"SummarizerTimeoutError: {said}"
        assert second.change is not None
        assert texts(stuck)[0].startswith("Question")
        assert list(verify()) == []

    @pytest.mark.slow
    def test_a_sync_summarizer_goes_on_in_its_thread(self, forever: threading.Event) -> None:
        threads: list[threading.Thread] = []

        def hang(messages: Sequence[ChatMessage], previous: str | None) -> str:
            threads.append(threading.current_thread())
            if len(threads) == 1:
                forever.wait(60)
            return "late"

        self.check(hang)
        assert threads[0].is_alive()
        assert threads[0].daemon, "the end of the process does not wait for it"
        forever.set()
        threads[0].join(60)

    @pytest.mark.slow
    def test_an_async_summarizer_is_cancelled(self) -> None:
        ends: list[str] = []

        async def hang(messages: Sequence[ChatMessage], previous: str | None) -> str:
            try:
                if not ends:
                    await asyncio.Event().wait()
            finally:
                ends.append("ended")
            return "written"

        self.check(hang)
        assert len(ends) == 2

    def test_async(self, forever: threading.Event) -> None:
        async def work() -> None:
            conversation = await sync_to_async(due_conversation)()
            with pytest.raises(SummarizerTimeoutError):
                await conversation.memory.acompact(lambda *_: str(forever.wait(60)))

        run_async(work())

    def test_its_own_time_out_is_its_own(self) -> None:
        async def fail(messages: Sequence[ChatMessage], previous: str | None) -> str:
            raise TimeoutError("the model's client gave up")

        (result,) = compact_due(Conversation.objects.filter(pk=due_conversation().pk), fail)
        assert type(result.error) is TimeoutError
