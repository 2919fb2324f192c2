"""Going back in a conversation: what the memory and the history are then, what is refused, and what comes twice."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chatmemory import (
    AiMessage,
    ChatMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.assistant import Assistant, ConversationBusyError
from chatmemory.branches.going_back import HistoryNotKeptError
from chatmemory.core.exceptions import IdempotencyConflictError, InvalidValueError
from chatmemory.database.reading import last_words
from chatmemory.models import Branch, Conversation
from chatmemory.signals import memory_rewritten, messages_added, messages_evicted
from chatmemory.verification import verify
from tests.support.factories import UserFactory

pytestmark = pytest.mark.django_db


def talk(turns: int = 3, **window: Any) -> Conversation:
    """A conversation: question 0 at position 0, answer 0 at position 1, and so on."""
    conversation = Conversation.objects.create(**{"window": "messages", "limit": 100, **window})
    for number in range(turns):
        conversation.memory.add(UserMessage(f"question {number}"))
        conversation.memory.add(AiMessage(f"answer {number}"))
    return conversation


def texts(conversation: Conversation) -> list[str]:
    return [row.text for row in conversation.messages.retained()]


def call(id: str) -> list[ChatMessage]:
    return [
        AiMessage("", [ToolExecutionRequest(id, "tool", "{}")]),
        ToolExecutionResultMessage(id, "tool", f"result {id}"),
    ]


class TestRewind:
    def test_what_was_said_since_leaves_the_memory_and_stays_in_the_history(self) -> None:
        conversation = talk()
        change = conversation.rewind(before=2)
        assert texts(conversation) == ["question 0", "answer 0"]
        assert [(row.text, row.eviction_reason) for row in change.evicted] == [
            ("question 1", "rewound"),
            ("answer 1", "rewound"),
            ("question 2", "rewound"),
            ("answer 2", "rewound"),
        ]
        assert conversation.message_count == conversation.messages.history().count() == 6

    def test_what_the_window_has_evicted_since_returns_to_its_place(self) -> None:
        conversation = talk(limit=4)
        before = conversation.memory.at(conversation.messages.get(position=4).added_in - 1)
        change = conversation.rewind(before=4)
        assert conversation.memory.messages() == before
        assert [(row.text, row.origin, row.covers_from) for row in change.added] == [
            ("question 0", "restored", 0),
            ("answer 0", "restored", 1),
        ]

    def test_a_smaller_limit_than_then_holds(self) -> None:
        conversation = talk(limit=6)
        conversation.memory.set_window(limit=2)
        conversation.rewind(before=4)
        assert texts(conversation) == ["question 1", "answer 1"]

    def test_past_memories_stay_exact(self) -> None:
        conversation = talk(limit=3)
        past = {version: conversation.memory.at(version) for version in range(conversation.version + 1)}
        conversation.rewind(before=2)
        conversation.switch(5)
        assert {version: conversation.memory.at(version) for version in past} == past

    def test_to_before_the_first_message(self) -> None:
        conversation = talk()
        conversation.rewind(before=0)
        assert conversation.memory.messages() == []
        conversation.memory.add(UserMessage("Another beginning"))
        assert conversation.tree().parents[6] is None

    def test_in_the_middle_of_an_addition(self) -> None:
        conversation = Conversation.objects.create(window="messages", limit=100)
        conversation.memory.add(UserMessage("question"), AiMessage("answer"))
        conversation.rewind(before=1)
        assert texts(conversation) == ["question"]

    def test_instructions_are_those_of_then(self) -> None:
        conversation = Conversation.objects.create(window="messages", limit=100)
        conversation.memory.add(SystemMessage("Be kind."), UserMessage("question"), AiMessage("answer"))
        conversation.memory.add(SystemMessage("Be brief."), UserMessage("another question"))
        conversation.rewind(before=1)
        assert texts(conversation) == ["Be kind."]

    def test_results_leave_with_their_calls(self) -> None:
        conversation = Conversation.objects.create(window="messages", limit=100)
        conversation.memory.add(UserMessage("question"))
        conversation.memory.add(*call("a"))
        conversation.rewind(before=1)
        assert texts(conversation) == ["question"]

    def test_a_summary_of_what_was_said_since_leaves(self) -> None:
        conversation = talk()
        conversation.memory.apply_text(3, "Short.")
        conversation.rewind(before=4)
        assert texts(conversation) == ["question 0", "answer 0", "question 1", "answer 1"]
        conversation.switch(5)
        assert texts(conversation) == ["<summary>\nShort.\n</summary>", "question 2", "answer 2"]

    def test_a_message_that_was_pinned_when_it_left_returns_pinned(self) -> None:
        conversation = talk()
        conversation.memory.pin(4)
        conversation.rewind(before=2)
        conversation.switch(4)
        assert [row.text for row in conversation.messages.pinned()] == ["question 2"]

    def test_there_and_back_copies_only_what_differs(self) -> None:
        conversation = talk()
        conversation.rewind(before=4)
        for position in (4, 3, 5, 5):
            conversation.switch(position)
        assert conversation.messages.count() == 8, "the question and the answer, once"

    def test_receivers_hear_what_left_and_what_came(self, django_capture_on_commit_callbacks: Any) -> None:
        conversation = talk(limit=4)
        heard: list[tuple[Any, list[str]]] = []

        def hear(signal: Any, messages: Any, **rest: Any) -> None:
            heard.append((signal, [row.text for row in messages]))

        signals = (messages_evicted, memory_rewritten, messages_added)
        for signal in signals:
            signal.connect(hear)
        try:
            with django_capture_on_commit_callbacks(execute=True):
                conversation.rewind(before=4)
        finally:
            for signal in signals:
                signal.disconnect(hear)
        assert heard == [
            (messages_evicted, ["question 2", "answer 2"]),
            (memory_rewritten, ["question 0", "answer 0"]),
        ]

    def test_who_went_back_and_when(self) -> None:
        conversation, user = talk(), UserFactory()
        conversation.rewind(before=2, user=user)
        branch = Branch.objects.latest("version")
        assert (branch.user, branch.version) == (user, conversation.version)
        assert branch.created_at == conversation.messages.get(position=2).evicted_at
        user.delete()
        branch.refresh_from_db()
        assert branch.user is None

    def test_nothing_else_is_stored_where_nobody_went_back(self) -> None:
        talk()
        assert not Branch.objects.exists()

    def test_an_addition_has_as_many_statements_after_it(self) -> None:
        conversation, other = talk(), talk()
        conversation.rewind(before=2)
        counts = []
        for each in (conversation, other):
            with CaptureQueriesContext(connection) as captured:
                each.memory.add(UserMessage("Hi"))
            counts.append(len(captured))
        assert counts[0] == counts[1]


class TestRefusals:
    @pytest.mark.parametrize("position", [-1, 6, 99, True, "1", 1.0])
    def test_there_is_no_such_message(self, position: Any) -> None:
        conversation = talk()
        for go in (
            lambda: conversation.rewind(before=position),
            lambda: conversation.switch(position),
            lambda: conversation.edit(position, UserMessage("x")),
        ):
            with pytest.raises(InvalidValueError, match="position must be that of a message of the history"):
                go()
        assert conversation.version == 6

    def test_a_summary_was_not_said(self) -> None:
        conversation = talk()
        conversation.memory.apply_text(3, "Short.")
        with pytest.raises(InvalidValueError, match="history"):
            conversation.rewind(before=6)

    def test_a_result_has_to_follow_its_call(self) -> None:
        conversation = Conversation.objects.create(window="messages", limit=100)
        conversation.memory.add(UserMessage("question"), *call("a"))
        with pytest.raises(InvalidValueError, match="position 2 is a tool result; go back to before its call"):
            conversation.rewind(before=2)

    def test_only_questions_are_edited(self) -> None:
        conversation = talk()
        with pytest.raises(InvalidValueError, match="position 1 must be one of the user, but is of type AI"):
            conversation.edit(1, UserMessage("x"))
        with pytest.raises(TypeError, match="UserMessage"):
            conversation.edit(0, AiMessage("x"))  # type: ignore[arg-type]
        assert texts(conversation)[0] == "question 0"

    def test_without_a_history(self, settings: Any) -> None:
        conversation = talk()
        settings.CHATMEMORY = {**settings.CHATMEMORY, "KEEP_HISTORY": False}
        with pytest.raises(HistoryNotKeptError, match="KEEP_HISTORY is False"):
            conversation.rewind(before=2)

    def test_while_a_turn_is_in_progress(self) -> None:
        conversation = talk()
        rows = Conversation.objects.filter(pk=conversation.pk)
        rows.update(turn_until=timezone.now() + timedelta(minutes=1))
        for go in (
            lambda: conversation.rewind(before=2),
            lambda: conversation.edit(2, UserMessage("x")),
            lambda: conversation.rewind(before=0),
        ):
            with pytest.raises(ConversationBusyError, match="in progress"):
                go()
        rows.update(turn_until=timezone.now() - timedelta(minutes=1))
        conversation.rewind(before=2)

    def test_a_precondition(self) -> None:
        conversation = talk()

        def refuse(row: Conversation) -> None:
            raise PermissionError

        with pytest.raises(PermissionError):
            conversation.edit(2, UserMessage("x"), precondition=refuse)
        assert len(texts(conversation)) == 6

    def test_an_erased_conversation(self) -> None:
        conversation = talk()
        Conversation.objects.filter(pk=conversation.pk).delete()
        with pytest.raises(Conversation.DoesNotExist):
            conversation.rewind(before=2)

    def test_a_rollback_restores_the_object(self) -> None:
        conversation = talk()
        with transaction.atomic():
            conversation.edit(2, UserMessage("x"))
            transaction.set_rollback(True)
        assert conversation.version == 6
        conversation.memory.add(UserMessage("Hi"))
        assert list(verify()) == []


class TestEdit:
    def test_both_stay_in_the_history(self) -> None:
        conversation = talk()
        change = conversation.edit(2, UserMessage("another question"))
        assert [row.text for row in change.added] == ["another question"]
        assert texts(conversation) == ["question 0", "answer 0", "another question"]
        assert conversation.tree().siblings(2) == (2, 6)

    def test_what_the_model_had_is_what_was_before(self) -> None:
        conversation = talk()
        conversation.edit(2, UserMessage("another question"))
        conversation.rewind(before=6)
        assert texts(conversation) == ["question 0", "answer 0"]

    def test_a_repeat_changes_nothing(self) -> None:
        conversation = talk()
        first = conversation.edit(2, UserMessage("another question"), idempotency_key="a")
        conversation.memory.add(AiMessage("another answer"))
        again = conversation.edit(2, UserMessage("another question"), idempotency_key="a")
        assert [row.position for row in again.added] == [row.position for row in first.added]
        assert again.memory == first.memory
        assert len(texts(conversation)) == 4
        with pytest.raises(IdempotencyConflictError):
            conversation.edit(2, UserMessage("something else"), idempotency_key="a")

    def test_a_message_too_large_for_the_window_changes_nothing_more_than_that(self) -> None:
        conversation = talk(window="tokens", limit=60)
        conversation.edit(2, UserMessage("word " * 500))
        assert texts(conversation) == []
        assert conversation.tree().siblings(2) == (2, 6)


class TestSwitch:
    def test_to_where_the_branch_was_left_last(self) -> None:
        conversation = talk(2)
        conversation.edit(2, UserMessage("second"))
        conversation.memory.add(AiMessage("to the second"))
        conversation.rewind(before=5)
        conversation.memory.add(AiMessage("again to the second"))
        conversation.switch(5)
        conversation.switch(3)
        assert texts(conversation)[-1] == "answer 1"
        conversation.switch(4)
        assert texts(conversation)[-2:] == ["second", "to the second"], "where it was left, not the newest"

    def test_a_message_of_the_current_branch_changes_nothing(self) -> None:
        conversation = talk()
        change = conversation.switch(2)
        assert (change.added, change.evicted, conversation.version) == ([], [], 6)
        assert not Branch.objects.exists()

    def test_a_repeat_does_not_switch_again(self) -> None:
        conversation = talk()
        conversation.edit(2, UserMessage("second"))
        conversation.switch(2, idempotency_key="a")
        conversation.switch(6)
        conversation.switch(2, idempotency_key="a")
        assert texts(conversation)[-1] == "second"

    def test_the_conversation_goes_on_there(self) -> None:
        conversation = talk(2)
        conversation.edit(2, UserMessage("second"))
        conversation.switch(3)
        conversation.memory.add(UserMessage("and on"))
        tree = conversation.tree()
        position = conversation.next_position - 1
        assert (tree.head, tree.parents[position], tree.siblings(position)) == (position, 3, (position,))


class TestTree:
    def test_instructions_are_no_nodes(self) -> None:
        conversation = Conversation.objects.create(window="messages", limit=100)
        conversation.memory.add(SystemMessage("Be kind."), UserMessage("question"), AiMessage("answer"))
        conversation.rewind(before=1)
        conversation.memory.add(SystemMessage("Be brief."), UserMessage("second"))
        tree = conversation.tree()
        assert tree.parents == {1: None, 2: 1, 4: None}
        assert (tree.siblings(4), tree.path()) == ((1, 4), [4])

    def test_of_an_empty_conversation(self) -> None:
        tree = Conversation.objects.create().tree()
        assert (tree.head, tree.parents, tree.path(), tree.children(None)) == (None, {}, [], ())

    def test_a_deleted_message_is_passed_over(self) -> None:
        conversation = talk(2)
        conversation.edit(2, UserMessage("second"))
        conversation.messages.filter(position__in=(1, 2)).delete()
        assert conversation.tree().parents == {0: None, 3: 0, 4: 0}


@pytest.mark.django_db(transaction=True)
class TestRegenerate:
    @pytest.fixture
    def assistant(self) -> Assistant:
        numbers = iter(range(100))
        return Assistant(lambda messages, tools: AiMessage(f"{next(numbers)} to {messages[-1].text}"))  # type: ignore[attr-defined]

    def test_another_answer_to_the_last_question(self, assistant: Assistant) -> None:
        conversation = talk(1)
        answer = conversation.regenerate(assistant=assistant)
        assert answer.text == "0 to question 0"
        assert texts(conversation) == ["question 0", "0 to question 0"]
        assert conversation.tree().siblings(1) == (1, 2)

    @pytest.mark.parametrize("position", [2, 3])
    def test_to_an_earlier_one_by_the_question_or_the_answer(self, assistant: Assistant, position: int) -> None:
        conversation = talk(3)
        conversation.regenerate(position, assistant=assistant)
        assert texts(conversation) == ["question 0", "answer 0", "question 1", "0 to question 1"]

    def test_on_another_branch(self, assistant: Assistant) -> None:
        conversation = talk(2)
        conversation.edit(2, UserMessage("second"))
        conversation.regenerate(3, assistant=assistant)
        assert texts(conversation)[-2:] == ["question 1", "0 to question 1"]
        conversation.regenerate(4, assistant=assistant)
        assert texts(conversation)[-2:] == ["second", "1 to second"]

    def test_after_calls_of_tools(self, assistant: Assistant) -> None:
        conversation = Conversation.objects.create(window="messages", limit=100)
        conversation.memory.add(UserMessage("question"))
        conversation.memory.add(*call("a"))
        conversation.memory.add(AiMessage("answer"))
        conversation.regenerate(3, assistant=assistant)
        assert texts(conversation) == ["question", "0 to question"]

    def test_a_question_without_an_answer_gets_its_first(self, assistant: Assistant) -> None:
        conversation = talk(1)
        conversation.memory.add(UserMessage("unanswered"))
        conversation.regenerate(assistant=assistant)
        assert not Branch.objects.exists()
        assert texts(conversation)[-1] == "0 to unanswered"

    def test_nothing_to_answer(self, assistant: Assistant) -> None:
        conversation = Conversation.objects.create()
        with pytest.raises(InvalidValueError, match="said nothing yet"):
            conversation.regenerate(assistant=assistant)

    def test_a_model_that_fails_leaves_the_question(self) -> None:
        def fail(messages: Any, tools: Any) -> AiMessage:
            raise OSError("no model")

        conversation = talk(1)
        with pytest.raises(OSError, match="no model"):
            conversation.regenerate(assistant=Assistant(fail))
        assert texts(conversation) == ["question 0"]
        conversation.switch(1)
        assert texts(conversation) == ["question 0", "answer 0"]

    def test_in_a_memory_without_a_conversation(self, assistant: Assistant) -> None:
        from chatmemory import MessageWindowChatMemory

        local = Assistant(lambda messages, tools: AiMessage("x"), memory=MessageWindowChatMemory(max_messages=3))
        with pytest.raises(TypeError, match="only a Conversation can go back"):
            local.chat("default", "Hi", go_back=lambda target: None)  # type: ignore[arg-type,return-value]

    def test_async(self, assistant: Assistant) -> None:
        conversation = talk(2)

        async def go() -> None:
            await conversation.aregenerate(assistant=assistant)
            await conversation.aedit(2, UserMessage("second"))
            await conversation.arewind(before=0)
            await conversation.aswitch(3)
            assert (await conversation.atree()).head == 3

        async_to_sync(go)()
        assert texts(conversation)[-1] == "answer 1"


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_writers_at_once_lose_nothing_and_break_nothing() -> None:
    """Threads add, edit and switch: each edit has a branch of its own, and the counters are right."""
    conversation = talk(3)
    edited: list[int] = []

    def work(number: int) -> None:
        try:
            own = Conversation.objects.get(pk=conversation.pk)
            for step in range(6):
                match (number + step) % 3:
                    case 0:
                        edited.append(own.edit(2, UserMessage(f"edit {number} {step}")).added[0].position)
                    case 1:
                        own.memory.add(UserMessage(f"add {number} {step}"))
                    case _:
                        own.switch((number + step) % 6)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    conversation.refresh_from_db()
    tree = conversation.tree()
    assert set(edited) <= set(tree.siblings(2))
    assert conversation.message_count == 6 + 16
    assert len(tree.parents) == 22
    assert list(verify()) == []
    for position in tree.parents:
        conversation.switch(position)
        assert position in conversation.tree().path()


class TestLastWords:
    def test_of_the_current_branch(self) -> None:
        conversation = talk(2)
        conversation.edit(2, UserMessage("second"))
        assert last_words([conversation]) == {conversation.pk: "second"}
        conversation.switch(3)
        assert last_words([conversation]) == {conversation.pk: "answer 1"}

    def test_what_returns_at_the_start_is_not_last(self) -> None:
        conversation = talk(4, limit=2)
        conversation.rewind(before=4)
        assert last_words([conversation]) == {conversation.pk: "answer 1"}
