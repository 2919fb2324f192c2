"""``chatmemory_compact``: the summaries that are due, by the project's own summarizer."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

import pytest
from asgiref.sync import sync_to_async
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import connections, transaction

from chatmemory import ChatMessage
from chatmemory.compaction import UnusableSummaryError, acompact_due, compact_due, project_summarizer
from chatmemory.models import Compaction, Conversation
from chatmemory.verification import verify
from tests.database.test_async import run as run_async
from tests.support.due_conversations import SUMMARY, BlockedSummarizer, due_conversation, texts
from tests.support.factories import UserFactory

pytestmark = pytest.mark.django_db

IN_MEMORY = f"<summary>\n{SUMMARY}\n</summary>"
HERE = "tests.maintenance.test_compact_command"

blocked = BlockedSummarizer()


def summarise(messages: Sequence[ChatMessage], previous: str | None) -> str:
    return SUMMARY


def fail(messages: Sequence[ChatMessage], previous: str | None) -> str:
    raise ConnectionError(f"Cannot summarise {messages[0].text}")


def say_nothing(messages: Sequence[ChatMessage], previous: str | None) -> str:
    return " "


@pytest.fixture(autouse=True)
def _summarizer(settings: Any) -> Iterator[None]:
    settings.CHATMEMORY = {"SUMMARIZER": f"{HERE}.summarise"}
    yield
    assert list(verify()) == []


def run(*args: str) -> str:
    out = io.StringIO()
    call_command("chatmemory_compact", "--due", *args, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def summarised(*conversations: Conversation) -> list[bool]:
    return [texts(conversation)[0] == IN_MEMORY for conversation in conversations]


@pytest.mark.slow
def test_due_conversations_are_summarised_once() -> None:
    conversations = due_conversation(), due_conversation(compact_at=None), due_conversation(2), due_conversation()
    assert run() == "Summarised conversations: 2, failed: 0.\n"
    assert summarised(*conversations) == [True, False, False, True]
    assert run() == "Summarised conversations: 0, failed: 0.\n"


@pytest.mark.slow
def test_owner_conversation_and_keep() -> None:
    ann = UserFactory()
    conversations = [due_conversation(owner=ann), due_conversation(owner=ann), due_conversation()]
    assert run("--conversation", str(conversations[1].pk)) == "Summarised conversations: 1, failed: 0.\n"
    assert summarised(*conversations) == [False, True, False]
    assert run("--owner", str(ann.pk), "--keep", "0") == "Summarised conversations: 2, failed: 0.\n"
    assert [len(texts(conversation)) for conversation in conversations] == [3, 3, 16]


@pytest.mark.slow
def test_a_limit_is_one_of_work_not_of_conversations() -> None:
    # The turn under way fills the window, so there is nothing to summarise however often somebody asks.
    idle = [due_conversation(1, limit=300) for _ in range(3)]
    due = [due_conversation() for _ in range(3)]
    assert run("--limit", "2") == "Summarised conversations: 2, failed: 0.\n"
    assert sum(summarised(*due)) == 2
    assert run("--limit", "2") == "Summarised conversations: 1, failed: 0.\n"
    assert summarised(*idle, *due) == [False] * 3 + [True] * 3


def test_a_limit_counts_failures() -> None:
    assert len([due_conversation() for _ in range(3)]) == 3
    assert len(list(compact_due(summarizer=say_nothing, limit=2))) == 2


def test_a_dry_run_says_what_is_due(settings: Any) -> None:
    settings.CHATMEMORY = {}  # nobody is asked
    conversations = [due_conversation(), due_conversation(2)]
    plan = conversations[0].memory.plan_compaction()
    assert plan is not None
    assert run("--dry-run") == (
        f"{conversations[0].pk}: messages: {len(plan.messages)}, model calls: 1, tokens: {plan.tokens}\n"
        f"Would summarise conversations: 1, failed: 0, messages: {len(plan.messages)}, model calls: 1, "
        f"tokens: {plan.tokens}.\n"
    )
    assert summarised(*conversations) == [False, False]
    assert not Compaction.objects.exists()


@pytest.mark.parametrize(
    ("name", "problem"), [("fail", "ConnectionError"), ("say_nothing", "a summary must not be blank")]
)
def test_failures_are_named_without_what_was_said(name: str, problem: str, settings: Any) -> None:
    settings.CHATMEMORY = {"SUMMARIZER": f"{HERE}.{name}"}
    conversation = due_conversation()
    before = texts(conversation)
    out, err = io.StringIO(), io.StringIO()
    with pytest.raises(SystemExit) as raised:
        call_command("chatmemory_compact", "--due", stdout=out, stderr=err)
    assert raised.value.code == 1
    assert err.getvalue() == f"{conversation.pk}: {problem} [left as it was]\n"
    assert out.getvalue() == "Summarised conversations: 0, failed: 1.\n"
    assert texts(conversation) == before
    # It is not tried again before the pause is over.
    assert run() == "Summarised conversations: 0, failed: 0.\n"
    settings.CHATMEMORY = {"SUMMARIZER": f"{HERE}.summarise"}
    Compaction.objects.update(retry_at=None)
    assert run() == "Summarised conversations: 1, failed: 0.\n"
    assert summarised(conversation) == [True]


@pytest.mark.slow
def test_one_that_fails_keeps_no_other_from_its_turn() -> None:
    conversations = [due_conversation() for _ in range(3)]

    def summarise_others(messages: Sequence[ChatMessage], previous: str | None) -> str:
        seen.append(len(messages))
        if len(seen) == 2:
            raise ConnectionError("The model is away")
        return SUMMARY

    seen: list[int] = []
    accounts = list(compact_due(summarizer=summarise_others))
    assert [account.error is None for account in accounts] == [True, False, True]
    assert [account.change is not None for account in accounts] == [True, False, True]
    assert summarised(*(account.conversation for account in accounts)) == [True, False, True]
    assert {account.conversation for account in accounts} == {*conversations}


def test_a_terminal_shows_the_progress() -> None:
    class Terminal(io.StringIO):
        """A terminal."""

        def isatty(self) -> bool:
            return True

    due_conversation(), due_conversation()
    out, err = io.StringIO(), Terminal()
    call_command("chatmemory_compact", "--due", "--no-color", stdout=out, stderr=err)
    assert "[###############...............]  50% conversations: 1, failed: 0" in err.getvalue()
    assert out.getvalue() == "Summarised conversations: 2, failed: 0.\n"


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (("--limit", "0"), "--limit: must be a whole number above zero"),
        (("--keep", "101"), "--keep: must be a whole number from 0 to 100, but is: '101'"),
        (("--keep", "-1"), "--keep"),
        (("--owner", "99999"), "--owner: there is no user"),
        (("--conversation", str(uuid4())), "--conversation: there is no conversation"),
        (("--database", "moon"), "--database: there is no 'moon'"),
    ],
)
def test_options_that_make_no_sense(args: tuple[str, ...], problem: str) -> None:
    with pytest.raises(CommandError, match=problem):
        run(*args)


def test_due_must_be_said() -> None:
    with pytest.raises(CommandError, match="--due"):
        call_command("chatmemory_compact")


class TestSetting:
    @pytest.mark.parametrize(
        ("path", "problem"),
        [
            (None, r"Set CHATMEMORY\['SUMMARIZER'\] to the dotted path"),
            ("nowhere", "'nowhere', is not the dotted path of a function"),
            (f"{HERE}.missing", "cannot be imported"),
            (f"{HERE}.SUMMARY", "is not the path of a function"),
            (summarise, "is not the dotted path of a function"),
        ],
    )
    def test_no_function(self, path: Any, problem: str, settings: Any) -> None:
        settings.CHATMEMORY = {"SUMMARIZER": path}
        with pytest.raises(ImproperlyConfigured, match=problem):
            project_summarizer()
        with pytest.raises(CommandError, match=problem):
            run()

    def test_a_function(self) -> None:
        assert project_summarizer()([], None) == SUMMARY


class TestFromPrograms:
    def test_arguments_are_checked_at_once(self) -> None:
        with pytest.raises(ValueError, match="keep must be a percentage"):
            compact_due(keep=101)
        with pytest.raises(ValueError, match="limit must be greater than zero, but is: 0"):
            compact_due(limit=0)

    def test_failures_are_told_not_raised(self) -> None:
        due_conversation()
        [account] = compact_due(summarizer=say_nothing)
        assert isinstance(account.error, UnusableSummaryError)


@pytest.mark.django_db(transaction=True)
class TestTogether:
    @pytest.mark.slow
    def test_two_at_once_summarise_each_conversation_once(self, settings: Any) -> None:
        settings.CHATMEMORY = {"SUMMARIZER": f"{HERE}.blocked"}
        conversations = [due_conversation() for _ in range(2)]
        outcomes = []

        def work() -> None:
            try:
                outcomes.append(run())
            finally:
                connections.close_all()

        first = threading.Thread(target=work)
        first.start()
        assert blocked.asked.wait(60)
        blocked.may_answer.set()  # the second may be the faster one
        outcomes.append(run())
        first.join(60)
        counts = [int(outcome.split(": ")[1].split(",")[0]) for outcome in outcomes]
        assert sum(counts) == 2
        assert len(blocked.covered) == 2
        assert summarised(*conversations) == [True, True]

    def test_not_within_a_transaction(self) -> None:
        due_conversation()
        with transaction.atomic(), pytest.raises(RuntimeError, match="in a transaction"):
            list(compact_due())

    def test_async(self) -> None:
        async def work() -> int:
            await sync_to_async(due_conversation)()
            return sum([account.change is not None async for account in acompact_due(limit=1)])

        assert run_async(work()) == 1
