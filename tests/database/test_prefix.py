"""Thinking is sent to Anthropic only behind what it was written behind, whatever happens to a memory."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from django.db.models import Max
from hypothesis import given, settings
from hypothesis import strategies as st

from chatmemory import AiMessage, SystemMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.database.operations.compaction_plan import plan_compaction
from chatmemory.database.reading import fresh_rows, prefix_version_at
from chatmemory.formats.registry import message_format
from chatmemory.models import Conversation
from chatmemory.verification import verify
from tests.support import budget
from tests.support.provider_rules import anthropic_signature, assert_anthropic_accepts, assert_thinking_is_bound

pytestmark = pytest.mark.django_db

FORMAT = "anthropic"
IDS = st.sampled_from([None, "a", "b", "call_0", "x.y"])


def _think(conversation: Conversation, *calls: str | None) -> AiMessage:
    """Return the signed answer of a model that gets the memory of a conversation."""
    request = conversation.memory.to_format(FORMAT)
    return AiMessage(
        f"Answer {conversation.version}",
        [ToolExecutionRequest(id, "now", "{}") for id in calls],
        thinking="Hm.",
        attributes={"thinking_signature": anthropic_signature(request)},
    )


def _signed(request: Any) -> int:
    contents = [turn["content"] for turn in request["messages"] if not isinstance(turn["content"], str)]
    return sum(block["type"] == "thinking" for content in contents for block in content)


class Talk:
    """A conversation to which random things happen."""

    def __init__(self, data: st.DataObject, limit: int, first: bool) -> None:
        self.data = data
        self.conversation = Conversation.objects.create(
            window="messages", limit=limit, always_keep_system_message_first=first
        )
        self.memory = self.conversation.memory
        self.calls: list[str | None] = []

    def ask(self) -> None:
        self.memory.add(UserMessage(f"Question {self.conversation.version}"))

    def answer(self) -> None:
        if self._waits():
            self.memory.add(_think(self.conversation))

    def call(self) -> None:
        if self._waits():
            calls = self.data.draw(st.lists(IDS, min_size=1, max_size=2))
            self.memory.add(_think(self.conversation, *calls))
            self.calls += calls

    def give_result(self) -> None:
        if self.calls:
            id = self.calls.pop(self.data.draw(st.integers(0, len(self.calls) - 1)))
            self.memory.add(ToolExecutionResultMessage(id, "now", f"Result {self.conversation.version}"))

    def ask_and_answer_at_once(self) -> None:
        self.memory.add(UserMessage("Quick"), AiMessage("Yes"))

    def change_the_system_message(self) -> None:
        self.memory.add(SystemMessage(self.data.draw(st.sampled_from(["Be brief.", "Be kind."]))))

    def rewrite(self) -> None:
        messages = self.memory.messages()
        self.memory.set(self.data.draw(st.permutations(messages))[: self.data.draw(st.integers(0, len(messages)))])

    def insert(self) -> None:
        messages = self.memory.messages()
        messages.insert(self.data.draw(st.integers(0, len(messages))), UserMessage("Inserted"))
        self.memory.set(messages)

    def change_the_window(self) -> None:
        window = self.data.draw(st.sampled_from(["messages", "tokens"]))
        limit = self.data.draw(st.integers(1, 9)) * (10 if window == "tokens" else 1)
        with suppress(ValueError):  # pinned messages may need more
            self.memory.set_window(window=window, limit=limit)

    def change_what_leaves(self) -> None:
        with suppress(ValueError):  # in whole turns, pinned messages keep their questions
            self.memory.set_window(
                low_water=self.data.draw(st.integers(30, 100)),
                whole_turns=self.data.draw(st.booleans()),
                keep_tool_results=self.data.draw(st.none() | st.integers(0, 2)),
            )

    def pin(self) -> None:
        with suppress(ValueError):
            self.memory.pin(self.data.draw(st.integers(0, max(0, self.conversation.next_position - 1))))

    def unpin(self) -> None:
        for row in self.conversation.messages.pinned():
            self.memory.unpin(row.position)

    def summarise(self) -> None:
        plan = plan_compaction(self.conversation, keep=self.data.draw(st.sampled_from([0, 50])), summary_tokens=0)
        with suppress(ValueError):  # a summary that is not smaller, or too large for the window
            if plan is not None:
                self.memory.apply_compaction(plan, "Tea.")

    def clear_results(self) -> None:
        self.memory.clear_tool_results(keep=self.data.draw(st.integers(0, 2)), placeholder="x")

    def shrink_the_window_elsewhere(self) -> None:
        """A limit that became smaller without a change is a view, until the next change."""
        limit = self.data.draw(st.integers(1, 9))
        Conversation.objects.filter(pk=self.conversation.pk).update(limit=limit)
        self.conversation.refresh_from_db()

    def clear(self) -> None:
        self.memory.clear()

    def _waits(self) -> bool:
        """Return whether a model that thinks would answer: none takes a request that ends with an answer."""
        return bool(self.memory.messages()) and self.memory.to_format(FORMAT)["messages"][-1]["role"] == "user"


USUAL = [Talk.ask, Talk.answer, Talk.call, Talk.give_result]
RARE = [
    Talk.ask_and_answer_at_once,
    Talk.change_the_system_message,
    Talk.rewrite,
    Talk.insert,
    Talk.change_the_window,
    Talk.change_what_leaves,
    Talk.pin,
    Talk.unpin,
    Talk.clear_results,
    Talk.summarise,
    Talk.clear,
]
STEPS = st.lists(
    st.one_of(st.sampled_from(USUAL), st.sampled_from(USUAL), st.sampled_from(RARE)), min_size=5, max_size=40
)


@pytest.mark.slow
@pytest.mark.usefixtures("sdks")
@given(st.data(), STEPS, st.integers(2, 9), st.booleans())
@settings(max_examples=budget.examples(120))
def test_every_request_is_accepted_now_and_as_a_past_memory(
    data: st.DataObject, steps: list[Any], limit: int, first: bool
) -> None:
    talk = Talk(data, limit, first)
    sent: dict[int, Any] = {}
    for step in steps:
        step(talk)
        if talk.memory.messages():
            request = sent[talk.conversation.version] = talk.memory.to_format(FORMAT)
            assert_anthropic_accepts(request)
            assert_thinking_is_bound(request)
    for version, request in sent.items():
        rows = list(talk.conversation.messages.in_memory_at(version))
        prefix_version = prefix_version_at(talk.conversation, version)
        last = talk.conversation.messages.filter(added_in__lte=version).aggregate(last=Max("position"))["last"]
        assert prefix_version_at(talk.conversation, version, last=last) == prefix_version
        fresh = fresh_rows(rows, prefix_version)
        assert message_format(FORMAT).write_memory([row.message for row in rows], fresh) == request
    assert list(verify(Conversation.objects.filter(pk=talk.conversation.pk))) == []


@pytest.mark.slow
@given(st.data(), st.lists(st.sampled_from([*USUAL, Talk.shrink_the_window_elsewhere]), max_size=20))
@settings(max_examples=budget.examples(50))
def test_a_window_that_is_smaller_than_what_is_stored_sends_no_stale_thinking(
    data: st.DataObject, steps: list[Any]
) -> None:
    talk = Talk(data, 9, False)
    for step in steps:
        step(talk)
        if talk.memory.messages():
            assert_thinking_is_bound(talk.memory.to_format(FORMAT))


def test_a_talk_that_only_grows_keeps_all_thinking() -> None:
    conversation = Conversation.objects.create(window="messages", limit=100)
    conversation.memory.add(SystemMessage("Be brief."), UserMessage("Hi"))
    for _ in range(3):
        conversation.memory.add(_think(conversation, "a"))
        conversation.memory.add(ToolExecutionResultMessage("a", "now", "noon"))
        conversation.memory.add(_think(conversation))
        conversation.memory.add(UserMessage("Go on"))
    assert _signed(conversation.memory.to_format(FORMAT)) == 6


def test_a_talk_that_is_added_as_a_whole_keeps_its_thinking() -> None:
    conversation = Conversation.objects.create(window="messages", limit=100)
    answer = AiMessage("Hello", thinking="Hm.", attributes={"thinking_signature": "signed"})
    conversation.memory.add(SystemMessage("Be brief."), UserMessage("Hi"), answer, UserMessage("Go on"))
    assert _signed(conversation.memory.to_format(FORMAT)) == 1


def test_after_a_cut_only_what_is_said_since_keeps_its_thinking() -> None:
    conversation = Conversation.objects.create(window="messages", limit=4)
    for _ in range(4):
        conversation.memory.add(UserMessage("Hi"))
        conversation.memory.add(_think(conversation))
    assert _signed(conversation.memory.to_format(FORMAT)) == 0
    conversation.memory.set_window(limit=20)
    conversation.memory.add(UserMessage("Hi"))
    conversation.memory.add(_think(conversation))
    conversation.memory.add(UserMessage("Hi"))
    assert _signed(conversation.memory.to_format(FORMAT)) == 1


def test_pins_leave_all_thinking_fresh_and_cleared_results_none() -> None:
    conversation = Conversation.objects.create(window="messages", limit=20)
    conversation.memory.add(UserMessage("The time?"))
    conversation.memory.add(_think(conversation, "a"))
    conversation.memory.add(ToolExecutionResultMessage("a", "now", "noon, as on every other day at this time"))
    conversation.memory.add(_think(conversation))
    conversation.memory.add(UserMessage("Thanks"))
    conversation.memory.pin(0)
    assert _signed(conversation.memory.to_format(FORMAT)) == 2
    before = conversation.version
    conversation.memory.clear_tool_results(keep=0)
    assert _signed(conversation.memory.to_format(FORMAT)) == 0
    conversation.refresh_from_db()
    assert prefix_version_at(conversation, before) == 0
    assert prefix_version_at(conversation, conversation.version) == conversation.version


def test_thinking_of_the_turn_under_way_stays_beside_its_call() -> None:
    conversation = Conversation.objects.create(window="messages", limit=3)
    conversation.memory.add(UserMessage("Hi"), AiMessage("Hello"))
    conversation.memory.add(UserMessage("What time is it?"))
    conversation.memory.add(_think(conversation, "a"))  # the first message leaves
    conversation.memory.add(ToolExecutionResultMessage("a", "now", "noon"))
    assert _signed(conversation.memory.to_format(FORMAT)) == 1
    conversation.memory.add(AiMessage("It is noon."))
    assert _signed(conversation.memory.to_format(FORMAT)) == 0


@pytest.mark.parametrize("first", [False, True])
def test_thinking_of_the_turn_under_way_stays_when_the_system_message_changes(first: bool) -> None:
    """A turn that died in a tool goes on after a deployment with other instructions."""
    conversation = Conversation.objects.create(window="messages", limit=20, always_keep_system_message_first=first)
    conversation.memory.add(SystemMessage("Be brief."), UserMessage("Hi"))
    conversation.memory.add(_think(conversation))
    conversation.memory.add(UserMessage("What time is it?"))
    conversation.memory.add(_think(conversation, "a"))
    for _ in range(2):
        conversation.memory.add(SystemMessage(f"Be kind {conversation.version}."))
        blocks = conversation.memory.to_format(FORMAT)["messages"][3]["content"]
        assert [block["type"] for block in blocks] == ["thinking", "text", "tool_use"]
        assert _signed(conversation.memory.to_format(FORMAT)) == 1
        conversation.memory.add(ToolExecutionResultMessage("a", "now", "noon"))
    conversation.memory.add(AiMessage("It is noon."))
    assert _signed(conversation.memory.to_format(FORMAT)) == 0


def test_a_prefix_changes_right_after_a_message_left() -> None:
    conversation = Conversation.objects.create(window="messages", limit=6)
    conversation.memory.add(UserMessage("Hi"))
    conversation.memory.clear()
    conversation.memory.add(SystemMessage("Be brief."))  # before all others, wherever they stand
    conversation.refresh_from_db()
    changed = conversation.prefix_version
    conversation.memory.add(UserMessage("Hi"))
    version = conversation.version
    conversation.memory.clear()
    conversation.refresh_from_db()
    assert conversation.prefix_version > version > changed > 2
    assert prefix_version_at(conversation, version) == changed


def test_past_versions_of_a_purged_history_have_no_thinking(settings: Any) -> None:
    settings.CHATMEMORY = {"KEEP_HISTORY": False}
    conversation = Conversation.objects.create(window="messages", limit=6)
    conversation.memory.add(UserMessage("Hi"))
    conversation.memory.add(_think(conversation))
    conversation.memory.add(UserMessage("Hi"))
    version = conversation.version
    conversation.memory.add(*[UserMessage("Hi")] * 4)
    conversation.refresh_from_db()
    assert prefix_version_at(conversation, version) == version
