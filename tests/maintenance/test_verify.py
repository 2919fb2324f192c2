"""``chatmemory_verify``: it finds what is wrong, says so in a line, and sets right what it can."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models import Case, F, When
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from chatmemory import SystemMessage, UserMessage
from chatmemory.models import Conversation, IdempotencyKey, Message, Origin
from chatmemory.verification import verify
from tests.support import budget
from tests.support.factories import ConversationFactory, UserFactory
from tests.support.full_windows import conversation_of_turns, turn

pytestmark = pytest.mark.django_db


@pytest.fixture
def conversation() -> Conversation:
    """Six messages: 0 and 1 evicted, 4 synthetic."""
    made = ConversationFactory(memory_id="ann", window="messages", limit=4)
    made.memory.add(*[UserMessage(f"u{number}") for number in range(4)], idempotency_key="first")
    memory = [UserMessage("u2"), UserMessage("summary"), UserMessage("u3")]
    made.memory.set(memory)
    made.memory.add(UserMessage("u5"))
    made.refresh_from_db()
    return made


def run(*args: str) -> tuple[int, list[str]]:
    """The exit code and the lines of the findings."""
    out = io.StringIO()
    try:
        call_command("chatmemory_verify", *args, stdout=out, stderr=io.StringIO())
    except SystemExit as stop:
        return int(str(stop.code)), out.getvalue().splitlines()
    return 0, out.getvalue().splitlines()


def whats(**kwargs: Any) -> list[str]:
    return [finding.what for finding in verify(**kwargs)]


def test_nothing_is_found_where_all_is_well(conversation: Conversation) -> None:
    ConversationFactory()
    assert (conversation.next_position, conversation.message_count, conversation.retained_count) == (6, 5, 4)
    assert run() == (0, [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("counter", "wrong", "expected"),
    [
        ("message_count", 1, "5"),
        ("retained_count", 1, "4"),
        ("retained_tokens", 10**10, "23"),
        ("version", 1, "at least 3"),
        ("prefix_version", 1, "from 2 to 3"),
        ("next_position", 5, "at least 6"),
    ],
)
def test_each_counter_is_found_and_set_right(
    conversation: Conversation, counter: str, wrong: int, expected: str
) -> None:
    right = getattr(conversation, counter)
    Conversation.objects.update(**{counter: wrong})
    line = f"conversation {conversation.pk} ('ann'): {counter}: expected {expected}, found {wrong}"
    assert line in run()[1]
    assert run()[0] == 1
    before = Conversation.objects.get().version
    code, lines = run("--repair")
    assert (code, f"{line} [repaired]" in lines) == (0, True)
    conversation.refresh_from_db()
    if counter != "version":
        assert getattr(conversation, counter) == right
    assert conversation.version > max(before, right if counter == "version" else 0)
    assert run() == (0, [])


@pytest.mark.django_db(transaction=True)
def test_an_object_from_before_the_repair_adds_rightly() -> None:
    """It knows the wrong counters, and adds without a lock as long as the version is the one it knows."""
    ConversationFactory()
    Conversation.objects.update(retained_tokens=1000)
    conversation = Conversation.objects.get()
    conversation.memory.add(UserMessage("u0"))
    assert conversation.retained_tokens > 1000
    assert run("--repair")[0] == 0
    conversation.memory.add(UserMessage("u1"))
    assert run() == (0, [])


@pytest.mark.slow
def test_lost_history_is_found_but_cannot_be_repaired(conversation: Conversation) -> None:
    Message.objects.filter(position=1).delete()
    assert whats() == ["missing messages"]
    code, [line] = run("--repair")
    assert code == 1
    assert line.endswith("missing messages: expected 6 rows, one for each position, found 5 [cannot be repaired]")
    code, [line] = run("--repair", "--accept-missing")
    assert (code, line.endswith("found 5 [repaired]")) == (0, True)
    assert run() == (0, [])


def test_to_accept_is_to_repair() -> None:
    with pytest.raises(CommandError, match="use it with --repair"):
        call_command("chatmemory_verify", "--accept-missing")


def test_how_to_accept_is_said_once() -> None:
    for _ in range(3):
        ConversationFactory(limit=1).memory.add(UserMessage("gone"))
    Message.objects.all().delete()
    err = io.StringIO()
    with pytest.raises(SystemExit):
        call_command("chatmemory_verify", stdout=io.StringIO(), stderr=err)
    assert err.getvalue().splitlines() == [
        "If the missing messages were deleted on purpose, run it with --repair --accept-missing.",
        "Findings: 3.",
    ]


@pytest.mark.slow
def test_many_keys_are_each_looked_at(conversation: Conversation) -> None:
    for number in range(450):
        IdempotencyKey.objects.create(conversation=conversation, scope="elsewhere", key=str(number), account="{}")
    assert len(list(verify())) == 450


def test_evicted_messages_are_not_missed_where_no_history_is_kept(conversation: Conversation, settings: Any) -> None:
    settings.CHATMEMORY = {"KEEP_HISTORY": False}
    conversation.memory.set_window(limit=1)
    conversation.memory.add(*[UserMessage(str(number)) for number in range(60)])  # most leave before they are stored
    assert run() == (0, [])
    settings.CHATMEMORY = {}
    conversation.memory.add(UserMessage("kept"), UserMessage("from now on"))
    assert run() == (0, [])
    Message.objects.filter(pk=Message.objects.filter(evicted_in__isnull=False)[0].pk).delete()
    assert whats() == ["missing messages"]


def test_a_retained_message_must_not_be_missing(conversation: Conversation) -> None:
    Message.objects.filter(position=5).delete()
    assert whats() == ["missing messages", "retained_count", "retained_tokens"]


def test_two_messages_at_one_place_of_the_memory(conversation: Conversation) -> None:
    order = conversation.messages.get(position=5).memory_order
    Message.objects.filter(position=3).update(memory_order=order)
    Message.objects.filter(position=0).update(memory_order=order)  # evicted, and so in nobody's way
    assert whats() == ["memory_order"]


def test_a_message_that_was_added_before_the_one_before_it(conversation: Conversation) -> None:
    Message.objects.filter(position=3).update(added_in=3)
    [finding] = verify()
    assert (finding.what, finding.expected, finding.found) == ("added_in of message 4", "at least 3", "2")


@pytest.mark.slow
def test_the_first_such_message_of_each_conversation(conversation: Conversation) -> None:
    others = [ConversationFactory(window="messages", limit=4) for _ in range(3)]
    for other in others[:2]:
        other.memory.add(*[UserMessage(str(number)) for number in range(600)])
        other.memory.add(UserMessage("last"))
        rows = Message.objects.filter(conversation=other, position__in=range(1, 600, 2))
        rows.update(added_in=2, evicted_in=Case(When(evicted_in=None, then=None), default=3))
    found = [(finding.conversation, finding.what) for finding in verify() if finding.what.startswith("added_in")]
    assert found == [(other.pk, "added_in of message 2") for other in sorted(others[:2], key=lambda one: one.pk)]


@pytest.mark.skipif(connection.vendor != "sqlite", reason="elsewhere the constraint cannot be passed by")
def test_half_an_eviction(conversation: Conversation) -> None:
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA ignore_check_constraints = ON")
        try:
            Message.objects.filter(position=0).update(eviction_reason="")
        finally:
            cursor.execute("PRAGMA ignore_check_constraints = OFF")
    assert whats() == ["eviction fields"]


def test_pins_and_placeholders_are_no_finding(conversation: Conversation) -> None:
    made = conversation_of_turns()
    assert made.messages.filter(origin=Origin.CLEARED).exists()
    made.memory.clear_tool_results(keep=0)
    made.memory.pin(3)
    made.memory.clear()
    assert run() == (0, [])


@pytest.mark.slow
def test_results_that_a_summary_left_behind() -> None:
    """Before placeholders counted as what they cover, a late summary took only the calls."""
    made = conversation_with_summary()
    version = made.version
    for position in 2, 6:
        placeholder = made.messages.get(covers_from=position, origin=Origin.CLEARED)
        Message.objects.filter(pk=placeholder.pk).update(evicted_in=None, evicted_at=None, eviction_reason="")
        Conversation.objects.filter(pk=made.pk).update(
            retained_count=F("retained_count") + 1, retained_tokens=F("retained_tokens") + placeholder.token_count
        )
    [finding] = verify()
    assert (finding.what, finding.found) == ("tool results", "some whose call alone was summarised")
    assert list(verify(repair=True)) == [finding]
    made.refresh_from_db()
    assert made.version == version


def test_results_without_calls_that_somebody_wanted_are_no_finding() -> None:
    made = conversation_with_summary()
    lost = turn(99)[2]
    made.memory.add(lost, UserMessage("Go on"))
    made.memory.set([lost, *made.memory.messages(), lost])
    assert made.memory.compact(lambda messages, previous: "more", keep=0) is not None
    made.memory.add(lost)
    assert run() == (0, [])


def test_a_result_that_came_when_the_user_had_asked_on_is_no_finding() -> None:
    made = ConversationFactory(limit=2000, whole_turns=True)
    question, call, result, answer = turn(7, words=300)
    made.memory.add(*turn(5, words=300), *turn(6, words=300), question, call, UserMessage("hurry"), result, answer)
    assert made.memory.compact(lambda messages, previous: "sum", keep=0) is not None
    assert [message.type for message in made.memory.messages()] == ["USER", "USER", "TOOL_EXECUTION_RESULT", "AI"]
    assert run() == (0, [])


def conversation_with_summary() -> Conversation:
    """A conversation in which tool results were cleared while a summary was made."""
    made: Conversation = ConversationFactory(limit=2000, whole_turns=True)
    for number in range(6):
        made.memory.add(*turn(number))
    plan = made.memory.plan_compaction(keep=0)
    assert plan is not None
    made.memory.clear_tool_results(keep=0)
    assert made.memory.apply_compaction(plan, "sum") is not None
    return made


@pytest.mark.parametrize(
    ("pins", "expected"),
    [
        ("yes", "versions such as '3-7 9-'"),
        ("0-", "versions such as '3-7 9-'"),
        ("2- 3-", "versions such as '3-7 9-'"),
        ("2-3  4-", "versions such as '3-7 9-'"),
        ("2-2", "versions in ascending order"),
        ("2-3 1-", "versions in ascending order"),
    ],
)
def test_pins_that_cannot_be(conversation: Conversation, pins: str, expected: str) -> None:
    Message.objects.filter(position=2).update(pins=pins)
    [finding] = verify()
    assert (finding.what, finding.expected, finding.found) == ("pins of message 2", expected, repr(pins))


def test_a_pin_of_a_later_version(conversation: Conversation) -> None:
    Message.objects.filter(position=2).update(pins="1-2 7-")
    [finding] = verify(repair=True)
    assert (finding.what, finding.expected, finding.repaired) == ("version", "at least 7", True)
    assert run() == (0, [])


@pytest.mark.parametrize(
    ("position", "columns", "found"),
    [
        (5, {"covers_from": 0, "covers_to": 1}, 1),  # it was said
        (4, {"covers_from": 3, "covers_to": 4}, 1),
        (4, {"covers_from": None, "covers_to": None}, 0),
        (4, {"covers_from": 0, "covers_to": 3}, 0),
    ],
)
def test_positions_that_no_message_can_stand_for(
    conversation: Conversation, position: int, columns: dict[str, int | None], found: int
) -> None:
    Message.objects.filter(position=position).update(**columns)
    assert [(one.what, one.found) for one in verify()] == [
        ("covers_from and covers_to", "1 messages with others")
    ] * found


def test_a_placeholder_that_stands_for_nothing() -> None:
    made = conversation_of_turns()
    placeholders = made.messages.filter(origin=Origin.CLEARED)
    placeholders.filter(position=placeholders.latest("position").position).update(covers_from=None, covers_to=None)
    assert whats() == ["covers_from and covers_to", "placeholders"]


@pytest.mark.parametrize(
    "columns",
    [{"eviction_reason": "orphan"}, {"type": "USER"}, {"evicted_in": 9}],
    ids=["for another reason", "no result", "in another version"],
)
def test_a_placeholder_of_what_was_not_cleared(columns: dict[str, Any]) -> None:
    made = conversation_of_turns()
    original = made.messages.get(position=10)
    assert (original.evicted_in, original.eviction_reason) == (7, "tool_cleared")
    made.messages.filter(pk=original.pk).update(**columns)
    [finding] = verify()
    assert (finding.what, finding.found) == ("placeholders", "1 for none")


def test_cleared_results_are_not_missed_where_no_history_is_kept(settings: Any) -> None:
    settings.CHATMEMORY = {"KEEP_HISTORY": False}
    made = conversation_of_turns()
    assert made.messages.filter(origin=Origin.CLEARED).exists()
    assert not made.messages.evicted().exists()
    made.memory.clear_tool_results(keep=0)
    made.memory.add(*turn(6))
    made.refresh_from_db()
    assert made.purged_count == made.next_position - made.messages.count()
    assert run() == (0, [])


@pytest.mark.parametrize(
    "account",
    [
        "{",
        "[]",
        '{"added": [], "evicted": []}',
        '{"added": [[6, 5]], "evicted": [], "memory": {"version": 1}}',
        '{"added": [[0, 5]], "evicted": [], "memory": {"version": 99}}',
        '{"added": [["a", 5]], "evicted": [], "memory": {"version": 1}}',
        '{"added": [[0, 5]], "evicted": [], "memory": {"version": 1}, "answer": 6}',
        '{"added": [[0, 5]], "evicted": [], "memory": {"version": 1}, "answer": "a"}',
    ],
)
def test_an_idempotency_key_that_tells_of_what_is_not_there(conversation: Conversation, account: str) -> None:
    IdempotencyKey.objects.update(account=account)
    assert whats() == ["account of idempotency key 'first'"]
    assert run("--repair")[0] == 1


def test_an_idempotency_key_of_another_conversation(conversation: Conversation) -> None:
    IdempotencyKey.objects.update(scope="conversation of nobody")
    assert whats() == ["scope of idempotency key 'first'"]


def test_keys_of_creations_are_left_alone(api: Any, user: Any) -> None:
    made = api.post("/api/conversations/", {}, "application/json", headers={"Idempotency-Key": "k"})
    assert made.status_code == 201
    assert run() == (0, [])


def test_what_others_write_meanwhile_is_no_finding(conversation: Conversation) -> None:
    """They write after the counters were read, and before the rows are added up."""
    wrote = []

    def write_before(execute: Any, sql: str, *args: Any) -> Any:
        if "COUNT(" in sql and not wrote:
            wrote.append(sql)
            Conversation.objects.get().memory.add(UserMessage("u6"))
        return execute(sql, *args)

    with connection.execute_wrapper(write_before):
        assert list(verify(repair=True)) == []
    assert len(wrote) == 1
    assert Conversation.objects.get().version == conversation.version + 1


def test_a_finding_is_one_line_whatever_the_memory_is_called() -> None:
    ConversationFactory(memory_id="two\nlines")
    Conversation.objects.update(retained_tokens=7)
    assert len(run()[1]) == 1


@pytest.mark.slow
def test_only_what_is_asked_for(conversation: Conversation) -> None:
    other = ConversationFactory()
    Conversation.objects.update(retained_tokens=7)
    assert len(list(verify())) == 2
    assert [str(other.pk) in line for line in run("--conversation", str(other.pk))[1]] == [True]
    assert [str(conversation.pk) in line for line in run("--owner", str(conversation.owner_id))[1]] == [True]


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["--owner", "123456"], "there is no user with the primary key '123456'"),
        (["--owner", "ann"], "there is no user with the primary key 'ann'"),
        (["--conversation", "7"], "'7' is not a UUID"),
        (["--conversation", "01234567-89ab-7def-8123-456789abcdef"], "there is no conversation"),
        (["--database", "nowhere"], "there is no 'nowhere' in DATABASES; take one of default, other"),
    ],
)
def test_a_choice_of_nothing_is_an_error(args: list[str], problem: str) -> None:
    with pytest.raises(CommandError, match=problem):
        call_command("chatmemory_verify", *args)


@pytest.mark.django_db(databases=["default", "other"])
def test_another_database() -> None:
    made = Conversation.objects.using("other").create()
    Conversation.objects.using("other").update(message_count=0, next_position=1)
    assert run() == (0, [])
    Conversation.objects.using("other").filter(pk=made.pk).update(retained_tokens=5)
    code, lines = run("--database", "other", "--repair", "--accept-missing")
    assert (code, len(lines)) == (0, 2)
    assert Conversation.objects.using("other").get().retained_tokens == 0


def test_as_many_queries_for_many_conversations_as_for_one(conversation: Conversation) -> None:
    with CaptureQueriesContext(connection) as one:
        assert list(verify()) == []
    for _ in range(20):
        ConversationFactory().memory.add(UserMessage("Hi"), SystemMessage("s"))
    with CaptureQueriesContext(connection) as many:
        assert list(verify()) == []
    assert len(many) == len(one)


@pytest.mark.slow
@hypothesis_settings(max_examples=budget.examples(20), suppress_health_check=list(HealthCheck))
@given(
    wrong=st.fixed_dictionaries(
        {},
        optional={
            "message_count": st.integers(0, 3),
            "retained_count": st.integers(0, 3),
            "retained_tokens": st.integers(0, 100),
            "next_position": st.integers(3, 20),
            "version": st.integers(0, 9),
            "prefix_version": st.integers(0, 9),
            "purged_count": st.integers(0, 20),
        },
    )
)
def test_whatever_the_counters_say_a_repair_makes_them_right(wrong: dict[str, int]) -> None:
    made = ConversationFactory(window="messages", limit=2, owner=UserFactory())
    for number in range(3):
        made.memory.add(UserMessage(str(number)))
    rows = Conversation.objects.filter(pk=made.pk)
    rows.update(**wrong)
    list(verify(rows, repair=True, accept_missing=True))
    assert list(verify(rows)) == []
    again = rows.get()
    again.memory.add(UserMessage("more"))
    assert list(verify(rows)) == []
    assert json.dumps([message.single_text() for message in again.memory.messages()]) == '["2", "more"]'
