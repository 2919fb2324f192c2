"""``conversation.save()``: it writes what was changed on the object, and undoes nothing that others did."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from chatmemory import MessageWindowChatMemory, UserMessage
from chatmemory.models import Conversation, Message
from chatmemory.stores import DjangoChatMemoryStore
from chatmemory.verification import verify
from tests.support.factories import ConversationFactory, UserFactory

pytestmark = pytest.mark.django_db

# In a process of its own, for a model that has a subclass has it for all tests.
SUBCLASS = """
import django
from django.conf import settings
from tests.settings import base as own

names = {name: getattr(own, name) for name in dir(own) if name.isupper()}
names["DATABASES"] = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
settings.configure(**names)
django.setup()
from django.core.management import call_command
from django.db import connection, models
from chatmemory.models import Conversation

class Ticket(Conversation):
    touched = models.DateTimeField(auto_now=True)

    class Meta:
        app_label = "tests"

call_command("migrate", verbosity=0)
with connection.schema_editor() as editor:
    editor.create_model(Ticket)
ticket = Ticket.objects.create()
before = ticket.touched
ticket.save()
assert Ticket.objects.get().touched > before
"""

WORDS = [UserMessage(f"u{number}") for number in range(6)]


def conversation_of(**columns: Any) -> Conversation:
    conversation: Conversation = ConversationFactory(window="messages", limit=10, **columns)
    return conversation


def stored(conversation: Conversation) -> Conversation:
    return Conversation.objects.get(pk=conversation.pk)


class TestOfTwoObjects:
    def test_a_title_job_does_not_undo_a_window(self) -> None:
        conversation = conversation_of()
        conversation.memory.add(*WORDS)
        job = stored(conversation)
        conversation.memory.set_window(window="tokens", limit=50, model="gpt-4")
        job.title = "Six words"
        job.save()
        now = stored(conversation)
        assert (now.title, now.window, now.limit, now.model) == ("Six words", "tokens", 50, "gpt-4")
        assert now.memory.messages() == conversation.memory.messages()
        assert not list(verify())

    def test_each_writes_its_own_columns(self) -> None:
        conversation = conversation_of(metadata={"tags": ["a"]})
        titled, tagged, owned = (stored(conversation) for _ in range(3))
        titled.title = "Title"
        tagged.metadata["tags"].append("b")
        owned.owner = UserFactory()
        for each in titled, tagged, owned:
            each.save()
        now = stored(conversation)
        assert (now.title, now.metadata, now.owner) == ("Title", {"tags": ["a", "b"]}, owned.owner)

    def test_what_was_saved_or_read_again_is_not_saved_again(self) -> None:
        conversation = conversation_of()
        conversation.title = "Mine"
        conversation.save()
        Conversation.objects.update(title="Theirs", metadata={"read": True})
        conversation.save()
        assert stored(conversation).title == "Theirs"
        conversation.refresh_from_db()
        Conversation.objects.update(title="Theirs again")
        conversation.save()
        conversation.refresh_from_db(fields=["metadata"])
        conversation.title = "Mine"
        conversation.save()
        assert (stored(conversation).title, stored(conversation).metadata) == ("Mine", {"read": True})

    def test_a_column_that_was_not_read_is_written_if_it_was_set(self) -> None:
        conversation = conversation_of()
        partial = Conversation.objects.only("title").get()
        partial.metadata = {"set": True}
        partial.save()
        assert stored(conversation).metadata == {"set": True}

    def test_a_save_is_one_statement_and_an_activity(self) -> None:
        conversation = conversation_of()
        before = conversation.updated_at
        with CaptureQueriesContext(connection) as queries:
            conversation.save()
        assert len(queries) == 1
        assert stored(conversation).updated_at > before


class TestWhatIsSaved:
    def test_names_may_come_from_an_iterator(self) -> None:
        conversation = conversation_of()
        conversation.title = "Title"
        conversation.save(update_fields=iter(["title"]))
        assert stored(conversation).title == "Title"

    def test_an_owner_may_be_saved_after_it_was_set(self) -> None:
        conversation = stored(conversation_of(owner=None))
        conversation.owner = owner = UserFactory.build()
        owner.save()
        conversation.save()
        assert stored(conversation).owner == owner

    @pytest.mark.parametrize(("before", "after"), [(0, False), (1, True), (1, 1.5), (1, 1.0)])
    def test_numbers_and_truth_values_differ_in_metadata(self, before: Any, after: Any) -> None:
        conversation = stored(conversation_of(metadata={"deep": [before]}))
        conversation.metadata["deep"][0] = after
        conversation.save()
        assert type(stored(conversation).metadata["deep"][0]) is type(after)

    @pytest.mark.parametrize(
        ("name", "value", "stored"),
        [("whole_turns", 1, True), ("always_keep_system_message_first", 0, False), ("model", "", "")],
    )
    def test_flags_and_texts_of_a_new_window_may_be_all_that_django_takes(
        self, name: str, value: Any, stored: Any
    ) -> None:
        conversation = Conversation.objects.create(**{name: value})
        conversation.refresh_from_db()
        assert getattr(conversation, name) == stored

    @pytest.mark.parametrize(("name", "value"), [("low_water", 0), ("keep_tool_results", -1), ("compact_at", 101)])
    def test_no_number_of_a_new_window_is_out_of_bounds(self, name: str, value: int) -> None:
        with pytest.raises(ValueError, match=f"^{name} must be "):
            Conversation.objects.create(**{name: value})

    def test_what_was_created_in_bulk_can_be_saved(self) -> None:
        (conversation,) = Conversation.objects.bulk_create([Conversation(title="A")])
        conversation.title = "B"
        conversation.save()
        assert stored(conversation).title == "B"

    def test_what_was_written_in_bulk_can_be_set_back(self) -> None:
        conversation = conversation_of(title="A")
        conversation.title = "B"
        Conversation.objects.bulk_update(iter([conversation]), ["title"])
        conversation.title = "A"
        conversation.save()
        assert stored(conversation).title == "A"

    def test_what_was_written_in_bulk_and_rolled_back_is_saved_again(self) -> None:
        conversation = conversation_of(title="A")
        conversation.title = "B"
        with transaction.atomic():
            Conversation.objects.bulk_update([conversation], ["title"])
            transaction.set_rollback(True)
        conversation.save()
        assert stored(conversation).title == "B"


@pytest.mark.slow
def test_the_fields_of_a_subclass_are_all_saved() -> None:
    done = subprocess.run([sys.executable, "-c", SUBCLASS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class TestTheWindow:
    @pytest.mark.parametrize(
        ("name", "value"),
        [("limit", 2), ("window", "tokens"), ("model", "gpt-4"), ("always_keep_system_message_first", True)],
    )
    @pytest.mark.parametrize("update_fields", [None, True])
    def test_is_not_changed_by_saving(self, name: str, value: Any, update_fields: Any) -> None:
        conversation = conversation_of()
        setattr(conversation, name, value)
        with pytest.raises(ValueError, match=f"conversation.memory.set_window\\({name}={value!r}\\)"):
            conversation.save(update_fields=[name] if update_fields else None)
        assert getattr(stored(conversation), name) != value

    def test_is_not_written_by_name_either(self) -> None:
        conversation = conversation_of()
        job = stored(conversation)
        conversation.memory.set_window(limit=3)
        job.title = "Title"
        job.save(update_fields=["title", "limit"])
        assert (stored(conversation).title, stored(conversation).limit) == ("Title", 3)

    def test_of_an_object_whose_memory_changed_it_is_known(self) -> None:
        conversation = conversation_of()
        stored(conversation).memory.set_window(limit=3)
        conversation.memory.add(*WORDS)
        assert conversation.limit == 3
        conversation.title = "Title"
        conversation.save()
        assert stored(conversation).limit == 3

    def test_update_or_create_says_so(self) -> None:
        conversation = conversation_of()
        with pytest.raises(ValueError, match="set_window"):
            Conversation.objects.update_or_create(pk=conversation.pk, defaults={"limit": 2})

    def test_a_row_that_exists_is_not_overwritten_by_a_new_object(self) -> None:
        conversation = conversation_of()
        conversation.memory.add(*WORDS)
        with pytest.raises(IntegrityError), transaction.atomic():
            Conversation(pk=conversation.pk).save()
        assert not list(verify())


class TestAfterARollback:
    @pytest.mark.parametrize(
        "change",
        [
            lambda memory: memory.set_window(limit=3),
            lambda memory: memory.add(*WORDS),
            lambda memory: memory.add(*WORDS, idempotency_key="k"),
            lambda memory: memory.clear(),
        ],
    )
    def test_the_object_says_what_the_row_says(self, change: Callable[[Any], Any]) -> None:
        conversation = conversation_of()
        conversation.memory.add(WORDS[0])
        with transaction.atomic():
            change(conversation.memory)
            assert conversation.version > 1 or conversation.limit == 3
            transaction.set_rollback(True)
        now = stored(conversation)
        assert {name: vars(conversation)[name] for name in vars(now) if not name.startswith("_")} == {
            name: value for name, value in vars(now).items() if not name.startswith("_")
        }
        conversation.title = "Title"
        conversation.save()
        assert stored(conversation).limit == 10

    def test_a_savepoint_takes_back_only_what_came_after_it(self) -> None:
        conversation = conversation_of()
        with transaction.atomic():
            conversation.memory.set_window(limit=5)
            with transaction.atomic():
                conversation.memory.set_window(limit=3)
                conversation.memory.set_window(limit=2)
                transaction.set_rollback(True)
            assert conversation.limit == 5
        assert conversation.limit == stored(conversation).limit == 5

    def test_what_was_inserted_is_inserted_again(self) -> None:
        conversation = Conversation(title="Title", window="messages", limit=10)
        with transaction.atomic():
            conversation.save()
            conversation.memory.add(*WORDS)
            transaction.set_rollback(True)
        with pytest.raises(ValueError, match="save the conversation before"):
            conversation.memory.add(*WORDS)
        conversation.save()
        conversation.memory.add(*WORDS)
        assert stored(conversation).memory.messages() == WORDS
        assert not list(verify())

    def test_what_was_saved_is_saved_again(self) -> None:
        conversation = conversation_of()
        conversation.title = "Title"
        with transaction.atomic():
            conversation.save()
            transaction.set_rollback(True)
        assert stored(conversation).title != "Title"
        conversation.save()
        assert stored(conversation).title == "Title"

    @pytest.mark.slow
    def test_a_long_transaction_keeps_no_object_alive(self) -> None:
        conversation = stored(conversation_of())
        conversation.title = "Title"
        conversation.save()
        conversation.memory.add(*WORDS)
        object_of_the_row = weakref.ref(conversation)
        del conversation
        gc.collect()
        assert object_of_the_row() is None

    @pytest.mark.django_db(transaction=True)
    def test_a_commit_keeps_what_was_changed(self) -> None:
        conversation = conversation_of()
        with transaction.atomic():
            conversation.memory.set_window(limit=5)
        assert conversation.limit == stored(conversation).limit == 5


@pytest.mark.django_db(transaction=True)
def test_a_first_addition_that_fails_leaves_no_empty_conversation() -> None:
    memory = MessageWindowChatMemory(id="new", max_messages=5, store=DjangoChatMemoryStore(owner=UserFactory()))

    def fail_at_messages(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith("INSERT") and Message._meta.db_table in sql:
            raise DatabaseError("the connection is lost")
        return execute(sql, params, many, context)

    with pytest.raises(DatabaseError), connection.execute_wrapper(fail_at_messages):
        memory.add(*WORDS)
    assert not Conversation.objects.exists()
    memory.add(*WORDS)
    assert memory.messages() == WORDS[1:]
