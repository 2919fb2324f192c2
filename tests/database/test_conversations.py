"""Conversations as an application uses them: what stays, what goes, what is kept."""

from __future__ import annotations

import sys
import time
import uuid
from typing import Any

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatmemory import (
    AiMessage,
    ChatMessage,
    CustomMessage,
    IdempotencyConflictError,
    ImageContent,
    MessageWindowChatMemory,
    OpenAiTokenCountEstimator,
    SystemMessage,
    TextContent,
    TokenWindowChatMemory,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.models import ORDER_STEP, Conversation, Message
from chatmemory.models.fields import uuid7
from chatmemory.stores import DjangoChatMemoryStore
from tests.support import budget
from tests.support.factories import ConversationFactory, UserFactory, give
from tests.vectors import OracleEstimator

pytestmark = pytest.mark.django_db

CALL = AiMessage(tool_execution_requests=[ToolExecutionRequest("1", "weather", "{}")])
RESULT = ToolExecutionResultMessage("1", "weather", "sunny")


def users(*numbers: int) -> list[ChatMessage]:
    return [UserMessage(f"u{number}") for number in numbers]


def reasons(conversation: Conversation) -> dict[int, str]:
    return dict(conversation.messages.evicted().values_list("position", "eviction_reason"))


def check_invariants(conversation: Conversation) -> None:
    """The counters say what the rows say, whatever happened."""
    conversation.refresh_from_db()
    rows = list(conversation.messages.order_by("position"))
    retained = [row for row in rows if row.evicted_in is None]
    assert [row.position for row in rows] == list(range(len(rows)))
    assert conversation.next_position == len(rows)
    assert conversation.message_count == sum(not row.synthetic for row in rows)
    assert conversation.retained_count == len(retained)
    assert conversation.retained_tokens == sum(row.token_count for row in retained)
    orders = [row.memory_order for row in conversation.messages.retained()]
    assert orders == sorted(set(orders))
    # So what is added next stands before or behind them all. An import refuses other orders.
    lowest = -max(len(rows) - 1, 0) * ORDER_STEP
    assert all(lowest <= row.memory_order <= row.position * ORDER_STEP for row in rows)
    assert all(row.added_in <= conversation.version for row in rows)
    assert all(row.evicted_in <= conversation.version for row in rows if row.evicted_in is not None)


class TestAdding:
    def test_history_keeps_what_leaves_with_reason_and_version(self) -> None:
        conversation = ConversationFactory(window="messages", limit=3)
        for message in [*users(0), CALL, RESULT, *users(1)]:
            conversation.memory.add(message)
        assert conversation.memory.messages() == [CALL, RESULT, *users(1)]
        conversation.memory.add(AiMessage("done"))
        assert conversation.memory.messages() == [*users(1), AiMessage("done")]
        assert reasons(conversation) == {0: "window", 1: "window", 2: "orphan"}
        gone = conversation.messages.get(position=2)
        assert (gone.added_in, gone.evicted_in) == (3, 5)
        assert gone.evicted_at == conversation.messages.get(position=4).created_at
        assert [row.message for row in conversation.messages.history()] == [
            *users(0), CALL, RESULT, *users(1), AiMessage("done"),
        ]  # fmt: skip
        check_invariants(conversation)

    def test_a_token_window_counts_each_message_once(self) -> None:
        conversation = ConversationFactory(window="tokens", limit=30)
        conversation.memory.add(*users(*range(10)))
        check_invariants(conversation)
        estimator = OpenAiTokenCountEstimator("gpt-4o")
        assert estimator.estimate_token_count_in_messages(conversation.memory.messages()) <= 30
        counts = {row.token_count for row in conversation.messages.all()}
        assert counts == {estimator.estimate_token_count_in_message(users(0)[0])}

    def test_a_message_larger_than_the_window_is_kept_as_history(self) -> None:
        conversation = ConversationFactory(window="tokens", limit=20)
        change = conversation.memory.add(UserMessage("word " * 100))
        assert conversation.memory.messages() == []
        assert [row.position for row in change.evicted] == [0]
        assert [(row.added_in, row.evicted_in) for row in conversation.messages.history()] == [(1, 1)]
        check_invariants(conversation)

    def test_a_new_system_message_replaces_the_old_one(self) -> None:
        conversation = ConversationFactory(always_keep_system_message_first=True)
        conversation.memory.add(*users(0), SystemMessage("one"), *users(1))
        conversation.memory.add(SystemMessage("one"))
        assert conversation.memory.messages() == [SystemMessage("one"), *users(0, 1)]
        conversation.memory.add(SystemMessage("two"))
        assert conversation.memory.messages() == [SystemMessage("two"), *users(0, 1)]
        assert reasons(conversation) == {1: "replaced"}
        check_invariants(conversation)
        assert conversation.version == 2

    def test_a_batch_is_all_or_nothing(self) -> None:
        conversation = ConversationFactory()
        with pytest.raises(ValueError, match=r"U\+0000"):
            conversation.memory.add(UserMessage("good"), UserMessage("b\x00d"))
        with pytest.raises(TypeError):
            conversation.memory.add(UserMessage("good"), CustomMessage({"when": object()}))
        assert not Message.objects.exists()
        check_invariants(conversation)

    def test_everything_comes_back_as_it_was_said(self) -> None:
        said = [
            SystemMessage("s"),
            UserMessage("", name="Ann", attributes={"zulu": 1, "alpha": [1.5, None, {"x": -0.0}]}),
            UserMessage([TextContent("a"), ImageContent("https://example.com/a.png", detail_level="HIGH")]),
            UserMessage([TextContent("a"), TextContent("b")]),
            AiMessage(),
            AiMessage(""),
            AiMessage("text", thinking="hmm", attributes={"big": 10**300, "small": 1e-7}),
            AiMessage(None, [ToolExecutionRequest("1", "a", "{}"), ToolExecutionRequest("2", "b", "")]),
            ToolExecutionResultMessage("1", "a", "", is_error=True),
            ToolExecutionResultMessage(None, None, contents=[ImageContent(base64_data="aGk=", mime_type="image/png")]),
            CustomMessage({"k": "v"}),
            CustomMessage(),
        ]
        conversation = ConversationFactory()
        conversation.memory.add(*said)
        assert conversation.memory.messages() == said
        assert list(conversation.memory.messages()[6].attributes) == ["big", "small"]

    def test_plain_text_needs_no_payload(self) -> None:
        conversation = ConversationFactory()
        conversation.memory.add(SystemMessage("s"), UserMessage("u"), AiMessage("a"), RESULT)
        assert list(conversation.messages.history().values_list("text", flat=True)) == ["s", "u", "a", "sunny"]
        assert conversation.messages.filter(payload__isnull=True).count() == 3

    def test_a_stored_field_that_nobody_knows_is_passed_over_and_kept(self) -> None:
        conversation = ConversationFactory()
        conversation.memory.add(RESULT)
        payload = '{"id":"1","toolName":"weather","future":{"x":1}}'
        conversation.messages.update(payload=payload)
        assert conversation.memory.messages() == [RESULT]
        conversation.memory.set([RESULT, *users(1)])
        assert conversation.messages.get(position=0).payload == payload

    def test_saving_a_stale_object_leaves_the_counters_alone(self) -> None:
        stale = ConversationFactory()
        Conversation.objects.get().memory.add(*users(0, 1))
        stale.title = "New title"
        stale.save()
        assert Conversation.objects.get().title == "New title"
        Conversation.objects.get().memory.add(*users(2))
        check_invariants(stale)
        Conversation.objects.only("title").get().save()
        check_invariants(stale)

    def test_a_rollback_of_the_callers_takes_everything_back(self) -> None:
        conversation = ConversationFactory()
        conversation.memory.add(*users(0))
        with transaction.atomic():
            conversation.memory.add(*users(1))
            transaction.set_rollback(True)
        conversation.save()
        conversation.memory.add(*users(2))
        assert conversation.memory.messages() == users(0, 2)
        check_invariants(conversation)

    @pytest.mark.parametrize("kwargs", [{"limit": 0}, {"limit": "9"}, {"window": "token"}])
    def test_a_bad_window_of_a_new_conversation_says_so(self, kwargs: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match="must be"):
            Conversation.objects.create(**kwargs)

    def test_what_was_said_stays_said(self) -> None:
        conversation = ConversationFactory()
        [row] = conversation.memory.add(*users(0)).added
        row.text = "something else"
        with pytest.raises(TypeError, match="never changes"):
            row.save()
        assert conversation.memory.messages() == users(0)

    def test_an_unsaved_conversation_says_so(self) -> None:
        with pytest.raises(ValueError, match="save the conversation"):
            Conversation().memory.add(*users(0))

    @pytest.mark.slow
    def test_rows_touched_do_not_grow_with_history_or_window(self) -> None:
        """An add costs the same statements in a long conversation, and reads a bounded part of the window."""

        def cost(limit: int, before: int) -> int:
            conversation = ConversationFactory(window="messages", limit=limit)
            conversation.memory.add(*users(*range(before)))
            with CaptureQueriesContext(connection) as queries:
                conversation.memory.add(*users(before))
            return len(queries)

        assert cost(10, 10) == cost(10, 500) == cost(400, 500)
        assert cost(10, 3) == cost(400, 399)

    def test_reading_is_one_statement_and_counts_nothing(
        self, django_assert_num_queries: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        conversation = ConversationFactory()
        conversation.memory.add(*users(*range(20)))
        monkeypatch.setattr("chatmemory.core.tokens.count_tokens", None)
        with django_assert_num_queries(1):
            assert len(conversation.memory.messages()) == 20

    def test_an_erased_conversation_says_so(self) -> None:
        conversation = ConversationFactory()
        Conversation.objects.all().delete()
        with pytest.raises(Conversation.DoesNotExist, match="erased"):
            conversation.memory.add(UserMessage("anybody?"))

    def test_erasing_the_user_erases_everything(self) -> None:
        user = UserFactory()
        ConversationFactory(owner=user).memory.add(*users(1, 2))
        ConversationFactory(owner=user, memory_id="same")
        nobodys = ConversationFactory(owner=None, memory_id="same")
        user.delete()
        assert list(Conversation.objects.all()) == [nobodys]
        assert not Message.objects.exists()

    def test_the_object_in_hand_knows_what_its_row_has_become(self) -> None:
        conversation = ConversationFactory(title="Old")
        conversation.title = "Not saved yet"
        conversation.memory.add(*users(0, 1))
        assert (conversation.version, conversation.message_count, conversation.retained_count) == (1, 2, 2)
        assert conversation.title == "Not saved yet"


def vars_of(row: Message) -> dict[str, Any]:
    return {field.name: getattr(row, field.attname) for field in Message._meta.concrete_fields}


class TestLargeMemories:
    @pytest.mark.slow
    @pytest.mark.parametrize("keep", [True, False])
    def test_thousands_of_messages_leave_at_once(self, settings: Any, keep: bool) -> None:
        settings.CHATMEMORY = {"KEEP_HISTORY": keep}
        conversation = ConversationFactory(window="messages", limit=10_000)
        conversation.memory.add(*(UserMessage(str(number)) for number in range(1300)))
        conversation.memory.set_window(limit=600)
        assert conversation.messages.retained().count() == 600
        conversation.memory.clear()
        assert (conversation.memory.messages(), conversation.retained_count) == ([], 0)
        assert conversation.messages.evicted().count() == (1300 if keep else 0)

    @pytest.mark.slow
    def test_long_messages_are_stored_in_statements_that_a_server_takes(self) -> None:
        conversation = ConversationFactory(window="messages", limit=100)
        # Four bytes each, in the text and in the payload.
        said = [UserMessage([TextContent("\U00020000" * 90_000), TextContent(str(number))]) for number in range(60)]
        conversation.memory.add(*said)
        assert conversation.memory.messages() == said


class TestIdempotency:
    def test_the_same_key_adds_once(self) -> None:
        conversation = ConversationFactory(window="messages", limit=2)
        conversation.memory.add(*users(0, 1))
        first = conversation.memory.add(*users(2), idempotency_key="k")
        conversation.memory.add(*users(3))
        again = conversation.memory.add(*users(2), idempotency_key="k")
        assert [row.pk for row in again.added] == [row.pk for row in first.added]
        assert [row.position for row in again.evicted] == [0]
        assert conversation.messages.history().count() == 4
        check_invariants(conversation)

    def test_the_account_is_that_of_the_first_time(self) -> None:
        conversation = ConversationFactory(window="messages", limit=2)
        conversation.memory.add(*users(0))
        first = conversation.memory.add(*users(1, 2), idempotency_key="k")
        conversation.memory.add(*users(3, 4))
        conversation.memory.set_window(window="tokens", limit=1000, model="gpt-4")
        again = conversation.memory.add(*users(1, 2), idempotency_key="k")
        assert again.memory == first.memory
        assert [vars_of(row) for row in again.added] == [vars_of(row) for row in first.added]
        assert [vars_of(row) for row in again.evicted] == [vars_of(row) for row in first.evicted]
        assert (conversation.window, conversation.version) == ("tokens", 3)

    def test_a_pin_that_came_later_is_not_in_the_account(self) -> None:
        conversation = ConversationFactory(window="messages", limit=4)
        first = conversation.memory.add(*users(0, 1), idempotency_key="k")
        conversation.memory.pin(0)
        conversation.memory.clear()
        again = conversation.memory.add(*users(0, 1), idempotency_key="k")
        assert again.to_data("langchain4j") == first.to_data("langchain4j")

    def test_a_key_is_kept_when_nothing_was_added(self) -> None:
        conversation = ConversationFactory()
        conversation.memory.add(SystemMessage("s"))
        for _ in range(2):
            change = conversation.memory.add(SystemMessage("s"), idempotency_key="k")
            assert (change.added, change.memory.version) == ([], 1)
        with pytest.raises(IdempotencyConflictError):
            conversation.memory.add(*users(1), idempotency_key="k")

    def test_a_key_is_kept_when_its_message_is_deleted(self, settings: Any) -> None:
        settings.CHATMEMORY = {"KEEP_HISTORY": False}
        conversation = ConversationFactory(window="messages", limit=1)
        conversation.memory.add(*users(1), idempotency_key="k")
        conversation.memory.add(*users(2))
        assert conversation.memory.add(*users(1), idempotency_key="k").added == []
        assert conversation.memory.messages() == users(2)

    def test_the_same_key_with_other_messages_is_an_error(self) -> None:
        conversation = ConversationFactory()
        conversation.memory.add(*users(1), idempotency_key="k")
        with pytest.raises(IdempotencyConflictError, match="'k'"):
            conversation.memory.add(*users(2), idempotency_key="k")
        assert conversation.messages.history().count() == 1

    def test_what_was_ignored_the_first_time_is_no_other_message(self) -> None:
        conversation = ConversationFactory()
        conversation.memory.add(SystemMessage("s"))
        for _ in range(2):
            conversation.memory.add(SystemMessage("s"), *users(1), idempotency_key="k")
        for other in ([SystemMessage("t"), *users(1), *users(2)], [*users(2)], []):
            with pytest.raises(IdempotencyConflictError):
                conversation.memory.add(*other, idempotency_key="k")
        conversation.memory.add(SystemMessage("t"), idempotency_key="k2")
        with pytest.raises(IdempotencyConflictError):
            conversation.memory.add(SystemMessage("u"), idempotency_key="k2")
        assert conversation.messages.history().count() == 3

    @pytest.mark.parametrize("key", ["", "x" * 256, "a\x00", 5])
    def test_bad_keys(self, key: Any) -> None:
        conversation = ConversationFactory()
        with pytest.raises(ValueError, match="idempotency_key"):
            conversation.memory.add(*users(1), idempotency_key=key)
        assert not Message.objects.exists()

    def test_keys_are_of_one_conversation(self) -> None:
        for conversation in (ConversationFactory(), ConversationFactory()):
            conversation.memory.add(*users(1), idempotency_key="K")
            conversation.memory.add(*users(2), idempotency_key="k")
            assert conversation.messages.history().count() == 2


class TestRewriting:
    def test_a_summary_is_synthetic_and_what_it_replaces_is_history(self) -> None:
        conversation = ConversationFactory()
        conversation.memory.add(SystemMessage("s"), *users(*range(6)))
        summary = UserMessage("Summary of u0 to u3")
        conversation.memory.set([SystemMessage("s"), summary, *users(4, 5)])
        assert conversation.memory.messages() == [SystemMessage("s"), summary, *users(4, 5)]
        assert reasons(conversation) == dict.fromkeys([1, 2, 3, 4], "rewritten")
        assert conversation.messages.get(origin="rewrite").message == summary
        assert [row.message for row in conversation.messages.history()] == [SystemMessage("s"), *users(*range(6))]
        assert conversation.version == 2
        check_invariants(conversation)

    def test_setting_what_is_there_changes_nothing(self) -> None:
        conversation = ConversationFactory()
        conversation.memory.add(*users(0, 1))
        conversation.memory.set(users(0, 1))
        conversation.refresh_from_db()
        assert conversation.version == 1

    @pytest.mark.slow
    def test_room_between_two_messages_runs_out(self) -> None:
        """A foreign memory that keeps a reminder at the end inserts before it again and again."""
        store = DjangoChatMemoryStore()
        reminder = UserMessage("Answer briefly")
        wanted = [reminder]
        for number in range(80):
            wanted = [*wanted[:-1], AiMessage(f"a{number}"), reminder]
            store.update_messages("m", wanted)
            assert store.get_messages("m") == wanted
        check_invariants(Conversation.objects.get())

    def test_a_foreign_memory_appends_what_was_said(self) -> None:
        store = DjangoChatMemoryStore()
        store.update_messages("m", users(0))
        store.update_messages("m", users(0, 1))
        store.update_messages("m", users(1, 2))
        conversation = Conversation.objects.get()
        assert [row.message for row in conversation.messages.history()] == users(0, 1, 2)
        assert reasons(conversation) == {0: "rewritten"}
        store.update_messages("m", [UserMessage("summary"), *users(2)])
        assert [row.message for row in conversation.messages.history()] == users(0, 1, 2)
        check_invariants(conversation)

    def test_a_foreign_memory_may_say_the_same_again_and_move_its_system_message(self) -> None:
        store = DjangoChatMemoryStore()
        yes, system = UserMessage("yes"), SystemMessage("s")
        for messages in (
            [yes],
            [yes, yes],
            [yes, AiMessage("a")],
            [AiMessage("a"), yes],
            [AiMessage("a"), yes, system],
        ):
            store.update_messages("m", messages)
        store.update_messages("m", [system, AiMessage("a"), yes])
        conversation = Conversation.objects.get()
        assert store.get_messages("m") == [system, AiMessage("a"), yes]
        assert [row.message for row in conversation.messages.history()] == [yes, yes, AiMessage("a"), yes, system]
        check_invariants(conversation)

    def test_a_foreign_memory_may_keep_its_system_message_last(self) -> None:
        store = DjangoChatMemoryStore()
        for said in (users(1), users(1, 2), users(1, 2, 3)):
            store.update_messages("m", [*said, SystemMessage("s")])
        history = [row.message for row in Conversation.objects.get().messages.history()]
        assert history == [*users(1), SystemMessage("s"), *users(2, 3)]

    def test_clearing_keeps_history(self) -> None:
        conversation = ConversationFactory()
        conversation.memory.clear()
        conversation.memory.add(SystemMessage("s"), *users(0))
        conversation.memory.clear()
        assert conversation.memory.messages() == []
        assert reasons(conversation) == {0: "cleared", 1: "cleared"}
        check_invariants(conversation)
        assert conversation.version == 2


class TestWindow:
    def test_a_smaller_window_evicts_at_once_and_a_wider_one_brings_nothing_back(self) -> None:
        conversation = ConversationFactory(window="messages", limit=5)
        conversation.memory.add(*users(*range(5)))
        change = conversation.memory.set_window(limit=2)
        assert [row.position for row in change.evicted] == [0, 1, 2]
        assert conversation.memory.messages() == users(3, 4)
        assert not conversation.memory.set_window(limit=50).evicted
        assert conversation.memory.messages() == users(3, 4)
        assert conversation.limit == 50
        check_invariants(conversation)

    def test_another_kind_and_another_model(self) -> None:
        conversation = ConversationFactory(window="messages", limit=5, model="gpt-4")
        conversation.memory.add(UserMessage("안녕하세요"), *users(1))
        assert conversation.messages.get(position=0).token_count == 4 + 5
        conversation.memory.set_window(model="gpt-4o")
        assert conversation.messages.get(position=0).token_count == 4 + 2
        conversation.memory.set_window(window="tokens", limit=10)
        assert conversation.memory.messages() == users(1)
        check_invariants(conversation)

    @pytest.mark.parametrize("kwargs", [{"limit": 0}, {"limit": -1}, {"limit": True}, {"window": "hours"}])
    def test_bad_windows_change_nothing(self, kwargs: dict[str, Any]) -> None:
        conversation = ConversationFactory(window="messages", limit=5)
        for method in (conversation.memory.set_window, conversation.memory.try_window):
            with pytest.raises(ValueError, match="must be"):
                method(**kwargs)
        conversation.refresh_from_db()
        assert (conversation.window, conversation.limit) == ("messages", 5)

    @pytest.mark.parametrize("kwargs", [{"limit": 2}, {"window": "tokens", "limit": 24}, {"limit": 100}])
    def test_trying_tells_what_changing_does(self, kwargs: dict[str, Any], django_assert_num_queries: Any) -> None:
        conversation = ConversationFactory(window="messages", limit=6)
        conversation.memory.add(SystemMessage("s"), CALL, RESULT, *users(1, 2))
        with django_assert_num_queries(2):
            trial = Conversation(pk=conversation.pk).memory.try_window(**kwargs)
        change = conversation.memory.set_window(**kwargs)
        assert [row.pk for row, _ in trial.evicted] == [row.pk for row in change.evicted]
        assert [reason for _, reason in trial.evicted] == [row.eviction_reason for row in change.evicted]
        assert [row.message for row in trial.retained] == conversation.memory.messages()
        assert trial.tokens == conversation.retained_tokens

    def test_trying_tells_it_also_where_no_history_is_kept(self, settings: Any) -> None:
        settings.CHATMEMORY = {"KEEP_HISTORY": False}
        conversation = ConversationFactory(window="messages", limit=6)
        conversation.memory.add(*users(0, 1, 2))
        trial = conversation.memory.try_window(limit=1)
        assert ([row.position for row, _ in trial.evicted], trial.limit) == ([0, 1], 1)

    @pytest.mark.parametrize("system_first", [False, True])
    @pytest.mark.parametrize("kwargs", [{"limit": 3}, {"window": "tokens", "limit": 24}, {"model": "gpt-4"}])
    def test_trying_messages_tells_what_adding_does(self, kwargs: dict[str, Any], system_first: bool) -> None:
        conversation = ConversationFactory(window="messages", limit=6)
        conversation.memory.add(SystemMessage("s"), CALL, RESULT, *users(1, 2))
        said = [UserMessage("你好，世界"), SystemMessage("t"), *users(3)]
        trial = conversation.memory.try_window(**kwargs, always_keep_system_message_first=system_first, messages=said)
        assert conversation.messages.count() == 5
        first = conversation.memory.set_window(**kwargs, always_keep_system_message_first=system_first)
        second = conversation.memory.add(*said)
        assert [row.position for row, _ in trial.evicted] == [row.position for row in first.evicted + second.evicted]
        assert [row.position for row in trial.added] == [row.position for row in second.added]
        assert [row.message for row in trial.retained] == conversation.memory.messages()
        assert trial.tokens == conversation.retained_tokens

    @pytest.mark.parametrize("model", ["", " ", "x" * 256, "a\x00", 5])
    def test_bad_models_change_nothing(self, model: Any) -> None:
        conversation = ConversationFactory()
        for method in (conversation.memory.set_window, conversation.memory.try_window):
            with pytest.raises(ValueError, match="model"):
                method(model=model)

    def test_a_limit_that_no_column_holds(self) -> None:
        store = DjangoChatMemoryStore()
        memory = MessageWindowChatMemory(max_messages=sys.maxsize, store=store)
        memory.add(*users(1))
        memory.add(*users(2))
        assert memory.messages() == users(1, 2)
        with pytest.raises(ValueError, match="at most 2147483647"):
            Conversation.objects.get().memory.set_window(limit=2**31)

    def test_a_limit_written_behind_its_back_is_a_view_until_the_next_add(self) -> None:
        conversation = ConversationFactory(window="messages", limit=9)
        conversation.memory.add(*users(0, 1, 2))
        Conversation.objects.update(limit=2)
        assert conversation.memory.messages() == users(1, 2)
        assert conversation.messages.retained().count() == 3
        conversation.memory.add(*users(3))
        assert conversation.memory.messages() == users(2, 3)
        check_invariants(conversation)


class TestThePast:
    @pytest.mark.slow
    @settings(max_examples=budget.examples(25), suppress_health_check=list(HealthCheck))
    @given(data=st.data())
    def test_every_past_memory_is_exact(self, data: st.DataObject) -> None:
        """Snapshots taken while a conversation went on are what memory.at() returns afterwards."""
        with transaction.atomic():
            kind = data.draw(st.sampled_from(["messages", "tokens"]))
            conversation = ConversationFactory(
                window=kind,
                limit=5 if kind == "messages" else 45,
                always_keep_system_message_first=data.draw(st.booleans()),
            )
            snapshots = {0: []}
            some = st.lists(
                st.sampled_from([*users(*range(5)), CALL, RESULT, SystemMessage("s"), SystemMessage("t")]), max_size=4
            )
            for _ in range(data.draw(st.integers(1, 10))):
                step = data.draw(st.sampled_from(["add", "add", "add", "set", "clear", "window", "foreign"]))
                match step:
                    case "add":
                        conversation.memory.add(*data.draw(some))
                    case "set":
                        conversation.memory.set(data.draw(some))
                    case "foreign":
                        kept = [m for m in conversation.memory.messages() if data.draw(st.booleans())]
                        store = DjangoChatMemoryStore(owner=conversation.owner)
                        store.update_messages(conversation.memory_id, [*data.draw(some), *kept, *data.draw(some)])
                    case "clear":
                        conversation.memory.clear()
                    case "window":
                        conversation.memory.set_window(limit=data.draw(st.integers(1, 60)))
                check_invariants(conversation)
                snapshots[conversation.version] = [row.message for row in conversation.messages.retained()]
            for version, messages in snapshots.items():
                assert conversation.memory.at(version) == messages
            transaction.set_rollback(True)

    @pytest.mark.parametrize("version", [-1, 2, True, "1", None])
    def test_there_was_no_such_version(self, version: Any) -> None:
        conversation = ConversationFactory()
        conversation.memory.add(*users(1))
        with pytest.raises(ValueError, match="from 0 to 1"):
            conversation.memory.at(version)


class TestKeepHistoryFalse:
    def test_evicted_rows_are_deleted(self, settings: Any) -> None:
        settings.CHATMEMORY = {"KEEP_HISTORY": False}
        conversation = ConversationFactory(window="messages", limit=2)
        for number in range(5):
            conversation.memory.add(*users(number))
        conversation.memory.add(*users(5, 6, 7))
        assert [row.message for row in conversation.messages.all()] == users(6, 7)
        conversation.memory.clear()
        assert not Message.objects.exists()
        conversation.refresh_from_db()
        assert (conversation.message_count, conversation.retained_count, conversation.retained_tokens) == (8, 0, 0)


class TestTheStore:
    def test_owners_are_apart(self) -> None:
        ann, bob = UserFactory(), UserFactory()
        for owner, message in zip((ann, bob, None), users(1, 2, 3), strict=True):
            MessageWindowChatMemory(id="x", max_messages=5, store=DjangoChatMemoryStore(owner)).add(message)
        assert DjangoChatMemoryStore(ann).get_messages("x") == users(1)
        assert DjangoChatMemoryStore(bob).get_messages("x") == users(2)
        assert DjangoChatMemoryStore().get_messages("x") == users(3)

    def test_an_anonymous_user_is_nobody_to_keep_for(self) -> None:
        from django.contrib.auth.models import AnonymousUser

        with pytest.raises(ValueError, match="saved user"):
            DjangoChatMemoryStore(owner=AnonymousUser())

    @pytest.mark.parametrize(
        ("memory_id", "says"), [(None, "null"), ("", "empty"), ("x" * 256, "256"), ("a\x00", "U\\+0000")]
    )
    def test_bad_ids(self, memory_id: Any, says: str) -> None:
        store = DjangoChatMemoryStore()
        for call in (store.get_messages, store.delete_messages, lambda key: store.update_messages(key, [])):
            with pytest.raises(ValueError, match=says):
                call(memory_id)

    @pytest.mark.parametrize("other", ["A", "a ", "á", " a"])
    def test_ids_are_exact(self, other: str) -> None:
        store = DjangoChatMemoryStore()
        store.update_messages("a", users(1))
        assert store.get_messages(other) == []
        store.update_messages(other, users(2))
        assert store.get_messages("a") == users(1)

    @pytest.mark.parametrize("memory_id", [1, uuid.UUID(int=1), ("a", 1)], ids=str)
    def test_ids_of_any_type(self, memory_id: Any) -> None:
        MessageWindowChatMemory(id=memory_id, max_messages=5, store=DjangoChatMemoryStore()).add(*users(1))
        assert DjangoChatMemoryStore().get_messages(str(memory_id)) == users(1)

    def test_a_stored_message_that_an_estimator_refuses_does_not_brick_the_memory(self) -> None:
        store = DjangoChatMemoryStore()
        stored = [CustomMessage({"k": "v"})]
        store.update_messages("x", stored)
        estimator = OracleEstimator(raise_on_custom=True)
        memory = TokenWindowChatMemory(id="x", max_tokens=50, token_count_estimator=estimator, store=store)
        assert memory.messages() == stored
        memory.add(*users(1))
        assert memory.messages() == [*stored, *users(1)]
        check_invariants(Conversation.objects.get())

    def test_reading_and_deleting_make_nothing(self) -> None:
        store = DjangoChatMemoryStore()
        assert store.get_messages("x") == []
        store.delete_messages("x")
        assert not Conversation.objects.exists()

    def test_the_row_shows_the_window_of_the_memory(self) -> None:
        store = DjangoChatMemoryStore()
        estimator = OpenAiTokenCountEstimator("gpt-4")
        TokenWindowChatMemory(id="x", max_tokens=99, token_count_estimator=estimator, store=store).add(*users(1))
        conversation = Conversation.objects.get()
        assert (conversation.window, conversation.limit, conversation.model) == ("tokens", 99, "gpt-4")
        MessageWindowChatMemory(id="x", max_messages=7, store=store).add(*users(2))
        conversation.refresh_from_db()
        assert (conversation.window, conversation.limit, conversation.model) == ("messages", 7, "gpt-4")
        check_invariants(conversation)

    def test_another_estimator_counts_again_even_if_nothing_is_added(self) -> None:
        store = DjangoChatMemoryStore()
        for model, tokens in (("gpt-4o", 6), ("gpt-4", 9)):
            estimator = OpenAiTokenCountEstimator(model)
            memory = TokenWindowChatMemory(id="x", max_tokens=99, token_count_estimator=estimator, store=store)
            memory.add(SystemMessage("안녕하세요"))
            conversation = Conversation.objects.get()
            check_invariants(conversation)
            assert (conversation.model, conversation.retained_tokens) == (model, tokens)

    def test_a_project_estimator_counts_and_the_rows_own_memory_still_works(self) -> None:
        class Letters:
            def estimate_token_count_in_text(self, text: str) -> int:
                return len(text)

            def estimate_token_count_in_message(self, message: Any) -> int:
                return len(message.single_text())

            def estimate_token_count_in_messages(self, messages: Any) -> int:
                return sum(map(self.estimate_token_count_in_message, messages))

        store = DjangoChatMemoryStore()
        memory = TokenWindowChatMemory(id="x", max_tokens=6, token_count_estimator=Letters(), store=store)
        memory.add(*users(1, 2, 3, 4))
        assert memory.messages() == users(2, 3, 4)
        conversation = Conversation.objects.get()
        check_invariants(conversation)
        conversation.memory.set_window(limit=100)
        conversation.memory.add(*users(5))
        check_invariants(conversation)
        assert conversation.model == "gpt-4o"


def test_a_copy_made_as_django_documents_it_has_no_messages_yet() -> None:
    conversation = ConversationFactory(window="messages", limit=2)
    conversation.memory.add(*users(0, 1, 2))
    conversation.pk, conversation.memory_id, conversation._state.adding = uuid7(), "copy", True
    conversation.save()
    conversation.memory.add(*users(3))
    assert conversation.memory.messages() == users(3)
    check_invariants(conversation)


@pytest.mark.django_db(databases=["default", "other"])
class TestSeveralDatabases:
    def test_a_conversation_on_another_database(self) -> None:
        conversation = Conversation.objects.using("other").create(window="messages", limit=2)
        conversation.memory.add(*users(0, 1, 2))
        conversation.memory.set_window(limit=1)
        assert conversation.memory.messages() == users(2)
        assert conversation.memory.at(1) == users(1, 2)
        assert not Conversation.objects.using("default").exists()

    def test_no_turn_reads_from_a_replica_that_lags(self, settings: Any) -> None:
        settings.DATABASE_ROUTERS = [LaggingReplica()]
        store = DjangoChatMemoryStore()
        memory = MessageWindowChatMemory(max_messages=2, store=store)
        for number in range(5):
            memory.add(*users(number))
        assert memory.messages() == store.get_messages("default") == users(3, 4)
        conversation = Conversation.objects.using("default").get()
        conversation.memory.add(*users(5))
        assert conversation.memory.messages() == users(4, 5)
        assert conversation.memory.at(5) == users(3, 4)
        assert not conversation.messages.using("other").exists()
        on_the_replica = Conversation(pk=conversation.pk, memory_id="default", window="messages", limit=2)
        on_the_replica._state.adding, on_the_replica._state.db = False, "other"
        assert on_the_replica.memory.at(6) == users(4, 5)
        assert on_the_replica.memory.try_window(limit=1).version == 6
        settings.DATABASE_ROUTERS = []
        check_invariants(conversation)


class LaggingReplica:
    """Reads go to a database that has heard of nothing yet."""

    def db_for_read(self, model: Any, **hints: Any) -> str:
        return "other"

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return "default"

    def allow_relation(self, *args: Any, **hints: Any) -> bool:
        return True


class TestConstraints:
    """The database holds what the code promises, whoever writes to it."""

    @pytest.fixture
    def conversation(self) -> Conversation:
        conversation: Conversation = ConversationFactory()
        conversation.memory.add(*users(0, 1))
        return conversation

    @pytest.mark.parametrize(
        "change",
        [
            {"position": 0},
            {"type": "ROBOT"},
            {"evicted_in": 1},
            {"evicted_at": "2026-01-01T00:00Z"},
            {"eviction_reason": "window"},
            {"evicted_in": 0, "evicted_at": "2026-01-01T00:00Z", "eviction_reason": "window"},
            {"evicted_in": 1, "evicted_at": "2026-01-01T00:00Z", "eviction_reason": "boredom"},
            {"added_in": 0},
            {"token_count": -1},
            {"text": None},
        ],
        ids=str,
    )
    def test_of_messages(self, conversation: Conversation, change: dict[str, Any]) -> None:
        refused = Exception if connection.vendor == "mysql" else IntegrityError  # MariaDB: OperationalError, DataError
        with pytest.raises(refused), transaction.atomic():
            conversation.messages.filter(position=1).update(**change)

    @pytest.mark.parametrize(
        "change",
        [
            {"limit": 0},
            {"window": "hours"},
            {"compact_keep_calls": 0},
            {"retained_count": 3},
            {"message_count": 3},
            {"version": -1},
        ],
        ids=str,
    )
    def test_of_conversations(self, conversation: Conversation, change: dict[str, Any]) -> None:
        refused = Exception if connection.vendor == "mysql" else IntegrityError
        with pytest.raises(refused), transaction.atomic():
            Conversation.objects.filter(pk=conversation.pk).update(**change)

    @pytest.mark.parametrize("anonymous", [True, False])
    def test_memory_ids_are_unique_per_owner(self, anonymous: bool) -> None:
        owner = None if anonymous else UserFactory()
        ConversationFactory(owner=owner, memory_id="x")
        ConversationFactory(memory_id="x")
        with pytest.raises(IntegrityError), transaction.atomic():
            ConversationFactory(owner=owner, memory_id="x")
        other = ConversationFactory(memory_id="x")
        with pytest.raises(IntegrityError), transaction.atomic():
            give(other.pk, owner)


def test_no_migration_is_missing() -> None:
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)


def test_the_ids_of_conversations_begin_with_the_time() -> None:
    before = time.time_ns() // 1_000_000
    key = ConversationFactory().pk
    assert key.version == 7
    assert before <= key.int >> 80 <= time.time_ns() // 1_000_000
