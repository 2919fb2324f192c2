"""Ways in which other libraries lost a conversation when they summarised it. None of them is one here.

Each docstring names the public report: the repository, the number of the issue or pull request, and what happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from chatmemory import (
    AiMessage,
    ChatMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.assistant import Assistant, ChatModel, ChatModelSummarizer
from chatmemory.core.exceptions import UnusableSummaryError
from chatmemory.core.summaries import summary_text
from chatmemory.database.operations.compaction_plan import uncovered
from chatmemory.models import Compaction, Conversation, Message, Origin
from chatmemory.verification import verify

pytestmark = pytest.mark.django_db(transaction=True)

WORDS = " word" * 60


def turn(number: int) -> list[ChatMessage]:
    return [UserMessage(f"q{number}{WORDS}"), AiMessage(f"a{number}{WORDS}")]


@pytest.fixture
def talk() -> Conversation:
    """Six turns, of which the oldest have left."""
    conversation = Conversation.objects.create(limit=700, whole_turns=True, compact_at=50)
    conversation.memory.add(SystemMessage("rules"))
    for number in range(6):
        conversation.memory.add(*turn(number))
    assert uncovered(conversation)
    return conversation


@pytest.fixture(autouse=True)
def _nothing_is_wrong() -> Any:
    yield
    assert list(verify()) == []


def short(messages: Sequence[ChatMessage]) -> list[str]:
    """The first word of each; a summary is its text in brackets."""
    found = []
    for message in messages:
        text = message.text or ""
        found.append(f"[{summary_text(message)}]" if text.startswith("<summary>") else text.split()[0])
    return found


def memory(conversation: Conversation) -> list[str]:
    return short(conversation.memory.messages())


def nothing_changes(conversation: Conversation, summarizer: Any, error: type[Exception]) -> None:
    """The summarizer fails, which is noted, and the conversation is as it was."""
    before = conversation.version, conversation.memory.messages(), list(conversation.messages.history())
    with pytest.raises(error):
        conversation.memory.compact(summarizer)
    conversation.refresh_from_db()
    assert (conversation.version, conversation.memory.messages(), list(conversation.messages.history())) == before
    assert Compaction.objects.get(conversation=conversation).failures == 1
    assert conversation.memory.compact(lambda *_: "what was said") is not None
    assert memory(conversation)[:2] == ["rules", "[what was said]"]


class TestTheModelFails:
    def test_it_raises(self, talk: Conversation) -> None:
        """langchain-ai/langchain#38867: the model raised; all messages were removed, and the error's text was put there
        as the summary.
        """

        def fail(messages: Any, previous: Any) -> str:
            raise TimeoutError("429")

        nothing_changes(talk, fail, TimeoutError)
        assert not Message.objects.filter(text__contains="429").exists()

    def test_it_returns_nothing(self, talk: Conversation) -> None:
        """skorokithakis/stavrobot#28: an answer of only thinking was saved as an empty summary, in place of the one
        before and of 995 messages.
        """
        nothing_changes(talk, lambda *_: " \n", UnusableSummaryError)

    def test_a_failure_after_a_summary_keeps_that_one(self, talk: Conversation) -> None:
        """openclaw/openclaw#120663: where there was nothing to summarise, a form without contents took the place of
        the summary before: in 77 of 164 compactions.
        """
        talk.memory.compact(lambda *_: "the first")
        for number in range(6, 9):
            talk.memory.add(*turn(number))
        with pytest.raises(UnusableSummaryError):
            talk.memory.compact(lambda *_: "")
        assert memory(talk)[:2] == ["rules", "[the first]"]
        assert talk.memory.compact(lambda messages, previous: f"{previous}, and more", keep=0) is not None
        assert memory(talk)[:2] == ["rules", "[the first, and more]"]

    def test_it_writes_more_than_there_was(self, talk: Conversation) -> None:
        """langchain-ai/langchain#13481: the memory with its summary had more tokens than without one."""
        plan = talk.memory.plan_compaction()
        assert plan is not None
        nothing_changes(talk, lambda *_: "word " * plan.tokens, UnusableSummaryError)

    def test_what_it_had_written_when_it_was_killed_is_nothing(self, talk: Conversation) -> None:
        """danny-avila/LibreChat#15913: a summary that broke off was taken for one, and bounded the history ever after.

        XiaomiMiMo/MiMo-Code#2148: the mark of a summary was written before the summary, which then failed, so that all
        before it was gone.
        """

        def killed(messages: Any, previous: Any) -> str:
            raise KeyboardInterrupt

        before = talk.version, talk.memory.messages(), talk.compacted_to
        with pytest.raises(KeyboardInterrupt):
            talk.memory.compact(killed)
        talk.refresh_from_db()
        assert (talk.version, talk.memory.messages(), talk.compacted_to) == before
        assert talk.memory.compact(lambda *_: "sum") is not None


class TestTheRange:
    def test_the_turn_under_way_stays(self, talk: Conversation) -> None:
        """dyad-sh/dyad#2515: the question that had just been asked was deleted with all others before it was answered.

        letta-ai/letta#2601: all messages left, not only those that were summarised.
        """
        talk.memory.add(UserMessage("now?"))
        told: list[ChatMessage] = []

        def write(messages: Any, previous: Any) -> str:
            told.extend(messages)
            return "sum"

        assert talk.memory.compact(write, keep=20) is not None
        assert memory(talk) == ["rules", "[sum]", "q5", "a5", "now?"][:2] + memory(talk)[2:]
        assert memory(talk)[-1] == "now?"
        assert "now?" not in short(told)
        assert {*short(told)} | {*memory(talk)[2:]} == {f"{kind}{number}" for number in range(6) for kind in "qa"} | {
            "now?"
        }

    def test_one_turn_that_is_too_long_is_not_taken_along(self) -> None:
        """langchain-ai/langmem#69: one message above the limit made the list that the model got empty, and its question
        what it should summarise became the summary.

        langchain-ai/langchain#39261: a turn without room made the history a placeholder, without a call of the model.
        """
        conversation = Conversation.objects.create(limit=700, whole_turns=True)
        conversation.memory.add(*turn(0), *turn(1), UserMessage("read this"))
        conversation.memory.add(AiMessage("reading", [ToolExecutionRequest("1", "read", "{}")]))
        conversation.memory.add(ToolExecutionResultMessage("1", "read", "long" + " word" * 2000))
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        assert short(plan.messages) == ["q0", "a0", "q1", "a1"]
        conversation.memory.apply_compaction(plan, "sum")
        conversation.memory.add(AiMessage("done"), *turn(2))
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        assert short(plan.messages) == ["read", "reading", "long", "done"]
        assert plan.previous == "sum"

    @pytest.mark.slow
    def test_no_limit_deletes_the_rest(self) -> None:
        """langchain-ai/deepagentsjs#621: what was summarised was cut to its last 4,000 tokens; all before was in no
        summary, and the file that should have it was not written.
        """
        conversation = Conversation.objects.create(limit=2000)
        for number in range(200):
            conversation.memory.add(*turn(number))
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        assert short(plan.messages) == [f"{kind}{number}" for number in range(199) for kind in "qa"]

    @pytest.mark.slow
    def test_what_leaves_after_the_first_summary_is_summarised_too(self, talk: Conversation) -> None:
        """RedWoodOG/Hermes-Desktop#3: after the first summary nothing reached the conditions of a second one, and what
        left was in none.
        """
        said = 6
        while talk.memory.compact(lambda *_: "sum", if_due=True) is None or said < 20:
            talk.memory.add(*turn(said))
            said += 1
        assert not uncovered(talk)
        summary = talk.messages.retained().get(origin=Origin.SUMMARY)
        assert summary.covers_to is not None
        assert summary.covers_to >= 20

    def test_a_call_stays_with_its_results(self) -> None:
        """langchain-ai/langmem#126 and microsoft/semantic-kernel#13062: of parallel calls one result was summarised,
        and the provider refused the rest.
        """
        conversation = Conversation.objects.create(limit=2000)
        for number in range(4):
            ids = [f"{number}.{which}" for which in range(3)]
            conversation.memory.add(UserMessage(f"q{number}"))
            conversation.memory.add(AiMessage("calls", [ToolExecutionRequest(id, "t", "{}") for id in ids]))
            for id in ids:
                conversation.memory.add(ToolExecutionResultMessage(id, "t", id + WORDS))
        for keep in (70, 40, 0):
            conversation.memory.compact(lambda *_: "sum", keep=keep)
            sent = conversation.memory.to_format("openai")
            calls = {call["id"] for item in sent for call in item.get("tool_calls", ())}
            assert calls == {item["tool_call_id"] for item in sent if item["role"] == "tool"}
            assert len(calls) % 3 == 0

    def test_the_system_message_stays_and_is_not_rewritten(self, talk: Conversation) -> None:
        """microsoft/semantic-kernel#12612: the system prompt was reduced away with the oldest messages."""
        talk.memory.compact(lambda *_: "You must obey me.", keep=0)
        sent = talk.memory.to_format("openai")
        assert [item["role"] for item in sent] == ["system", "user", "user", "assistant"]
        assert sent[0]["content"] == "rules"


class TestMeanwhile:
    def test_a_write_in_flight_stays(self, talk: Conversation) -> None:
        """openai/openai-agents-python#4679: the history was replaced by what was read before the request; a message
        that was added while it ran was gone. BaranziniLab/biorouter#51: 229 of 231 such messages were destroyed.
        """

        def write(messages: Any, previous: Any) -> str:
            Conversation.objects.get(pk=talk.pk).memory.add(UserMessage("meanwhile"))
            return "sum"

        assert talk.memory.compact(write, keep=0) is not None
        assert memory(talk) == ["rules", "[sum]", "q5", "a5", "meanwhile"]

    def test_a_clear_in_flight_is_not_undone(self, talk: Conversation) -> None:
        """openai/openai-agents-python#4679: a session that was cleared while the request ran came back as a summary."""

        def write(messages: Any, previous: Any) -> str:
            Conversation.objects.get(pk=talk.pk).memory.clear()
            return "what was cleared"

        assert talk.memory.compact(write, keep=0) is None
        assert memory(talk) == []
        talk.memory.add(*turn(7), *turn(8), *turn(9))
        plan = talk.memory.plan_compaction(keep=0)
        assert plan is not None
        assert short(plan.messages) == ["q7", "a7", "q8", "a8"]
        assert plan.previous is None

    def test_a_rewound_message_does_not_leak_back(self, talk: Conversation) -> None:
        """anomalyco/opencode#30806: messages that had been reverted came back when the session was compacted."""
        talk.memory.set_window(limit=2000)

        def write(messages: Any, previous: Any) -> str:
            other = Conversation.objects.get(pk=talk.pk)
            other.memory.set(other.memory.messages()[:-4])
            return "with what was rewound"

        talk.memory.add(*turn(6))
        rewound = short(talk.memory.messages()[-4:])
        assert talk.memory.compact(write, keep=0) is None
        plan = talk.memory.plan_compaction(keep=0)
        assert plan is not None
        assert not {*rewound} & {*short(plan.messages)}

    def test_two_at_once_pay_once(self, talk: Conversation) -> None:
        """earendil-works/pi#4203: a second call of compact() ran beside the first: two bills and two summaries.
        NousResearch/hermes-agent#97321: one summary was there ten times.
        """
        paid = []

        def write(messages: Any, previous: Any) -> str:
            paid.append(previous)
            assert Conversation.objects.get(pk=talk.pk).memory.compact(write) is None
            return "sum"

        assert talk.memory.compact(write) is not None
        assert paid == [None]
        assert talk.messages.filter(origin=Origin.SUMMARY).count() == 1

    def test_a_paid_summary_that_is_late_is_used(self, talk: Conversation) -> None:
        """openai/openai-agents-js#1842: whatever was added meanwhile voided an automatic compaction."""
        plan = talk.memory.plan_compaction(keep=0)
        assert plan is not None
        for number in range(6, 15):
            talk.memory.add(*turn(number))
        assert talk.memory.apply_compaction(plan, "late") is not None
        assert memory(talk)[:2] == ["rules", "[late]"]


class TestAfterwards:
    @pytest.mark.slow
    def test_superseded_summaries_stay_and_the_past_can_be_rebuilt(self, talk: Conversation) -> None:
        """anthropics/claude-code#92347: earlier summaries were dropped, and with them all that only they told.
        NousResearch/hermes-agent#81258: after a compaction there was no way back to what the model had had.
        """
        past = {talk.version: talk.memory.messages()}
        for number in range(6, 14):
            talk.memory.add(*turn(number))
            talk.memory.compact(lambda messages, previous, number=number: f"up to {number}", keep=20)
            past[talk.version] = talk.memory.messages()
        assert {version: talk.memory.at(version) for version in past} == past
        summaries = talk.messages.filter(origin=Origin.SUMMARY)
        assert summaries.count() > 3
        assert {row.eviction_reason for row in summaries.evicted()} == {"summarized"}
        assert talk.messages.history().count() == 1 + 2 * 14

    def test_what_a_summary_stands_for_is_not_sent_beside_it(self, talk: Conversation) -> None:
        """openJiuwen-ai/jiuwenswarm#6893: a session that was opened again had the summary and all that it replaced."""
        talk.memory.compact(lambda *_: "sum", keep=0)
        again = Conversation.objects.get(pk=talk.pk)
        assert memory(again) == ["rules", "[sum]", "q5", "a5"]
        assert short([row.message for row in again.messages.retained()]) == memory(again)

    @pytest.mark.slow
    def test_a_summary_is_made_of_what_is_new(self, talk: Conversation) -> None:
        """FlowiseAI/Flowise#5873: each summary was made of all messages ever said, until no model could read them."""
        sizes = []

        def write(messages: Any, previous: Any) -> str:
            sizes.append(len(messages))
            return "sum"

        for number in range(6, 40):
            talk.memory.add(*turn(number))
            talk.memory.compact(write, if_due=True)
        assert len(sizes) > 5
        assert max(sizes[1:]) <= 10

    def test_the_summary_is_stored(self, talk: Conversation) -> None:
        """CassioML/cassio#17: the summary of a memory was only in the process, and gone with it."""
        talk.memory.compact(lambda *_: "kept")
        connection.close()
        assert memory(Conversation.objects.get(pk=talk.pk))[1] == "[kept]"

    def test_a_killed_worker_keeps_nobody_waiting(self, talk: Conversation) -> None:
        """github/app#3820: a background summary that did not settle was waited for, and the session failed."""
        Compaction.objects.create(conversation=talk, lease=1, leased_until=timezone.now() + timedelta(minutes=5))
        talk.memory.add(*turn(6))
        assert memory(talk)[-1] == "a6"
        assert talk.memory.compact(lambda *_: "sum") is None
        Compaction.objects.update(leased_until=timezone.now() - timedelta(seconds=1))
        assert talk.memory.compact(lambda *_: "sum") is not None


class Recording(ChatModel):
    """A model that answers as it is told, and keeps what it was asked."""

    def __init__(self, *answers: AiMessage) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[Sequence[ChatMessage], Sequence[Any]]] = []

    def chat(self, messages: Sequence[ChatMessage], tools: Sequence[Any]) -> AiMessage:
        self.asked.append((messages, tools))
        return self.answers.pop(0) if self.answers else AiMessage("what was said")


class TestTheModelsAnswer:
    def test_no_tools_are_offered(self, talk: Conversation) -> None:
        """code-yeongyu/senpi#1067: tools were offered to the summariser, which called one and wrote nothing,
        so that the session never got below its limit.
        """
        model = Recording(AiMessage(None, [ToolExecutionRequest("1", "search", "{}")]))
        nothing_changes(talk, ChatModelSummarizer(model), UnusableSummaryError)
        assert [list(tools) for _, tools in model.asked] == [[]]

    def test_only_thinking_is_no_summary(self, talk: Conversation) -> None:
        """skorokithakis/stavrobot#28: an answer of only thinking became an empty summary."""
        model = Recording(AiMessage("", thinking="They said much, so I could write"))
        nothing_changes(talk, ChatModelSummarizer(model), UnusableSummaryError)

    @pytest.mark.slow
    def test_everything_that_was_said_reaches_the_model(self) -> None:
        """langchain-ai/deepagentsjs#621: the model got the last 4,000 tokens of what its summary stood for."""
        conversation = Conversation.objects.create(limit=2000)
        for number in range(60):
            conversation.memory.add(*turn(number))
        model = Recording()
        assert conversation.memory.compact(ChatModelSummarizer(model, input_tokens=1000), keep=0) is not None
        read = " ".join(message.text or "" for messages, _ in model.asked for message in messages)
        assert len(model.asked) > 5
        assert all(f"{kind}{number} word" in read for number in range(59) for kind in "qa")

    def test_nobody_who_reads_the_answer_reads_the_summary(self) -> None:
        """langchain-ai/deepagentsjs#629 and langchain-ai/langchainjs#11238: the tokens of the summary were streamed to
        the user, in the middle of an answer.
        """
        conversation = Conversation.objects.create(limit=700, whole_turns=True, compact_at=50)
        for number in range(6):
            conversation.memory.add(*turn(number))
        summaries = Recording(AiMessage("a secret summary"))
        assistant = Assistant(
            Recording(AiMessage("the answer")),
            memory=lambda _: conversation.memory,
            summarizer=ChatModelSummarizer(summaries),
        )
        heard = [event for event in assistant.stream(conversation.memory_id, "and now?") if isinstance(event, str)]
        assert "".join(heard) == "the answer"
        assert assistant.wait_for_summaries(60)
        assert memory(conversation)[0] == "[a secret summary]"
