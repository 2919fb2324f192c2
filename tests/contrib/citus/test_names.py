"""Names in a table of their own, which any PostgreSQL can have: what tables on many nodes do is in the soak.

With ``CHATMEMORY_TEST_CITUS=1`` all tests run with this app, after ``chatmemory_distribute --constraints-only``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any
from uuid import UUID

import pytest
from django.db import IntegrityError, NotSupportedError, connection, connections, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chatmemory import UserMessage
from chatmemory.models import Conversation, IdempotencyKey
from chatmemory.models.conversation_names import kept_names, key_name, memory_name
from chatmemory.personal_data import erase_user
from chatmemory.retention import purge_keys
from chatmemory.stores import DjangoChatMemoryStore
from chatmemory.verification import verify
from tests.support.api import post
from tests.support.factories import ConversationFactory, UserFactory
from tests.support.kept_names import led_to, where_names_are_kept
from tests.support.waiting import wait_until, waits_for_a_lock

pytestmark = [pytest.mark.django_db(transaction=True), where_names_are_kept]


def names() -> Any:
    kept = kept_names("default")
    assert kept is not None
    return kept


def in_thread(work: Callable[[], Any]) -> Callable[[], Any]:
    def run() -> Any:
        try:
            return work()
        finally:
            connections.close_all()

    return run


@pytest.fixture
def unseen() -> Iterator[Callable[[Conversation], Callable[[], None]]]:
    """Makes a conversation whose name is committed and whose row is not, as when one node is faster than another."""
    ends: list[Callable[[], None]] = []

    def make(conversation: Conversation) -> Callable[[], None]:
        inserted, go_on = threading.Event(), threading.Event()

        def insert() -> None:
            with transaction.atomic():
                # Not save(), which claims the name in the same transaction.
                super(type(Conversation.objects.all()), Conversation.objects.all()).bulk_create([conversation])
                inserted.set()
                assert go_on.wait(60)

        pool = ThreadPoolExecutor(1)
        done = pool.submit(in_thread(insert))
        assert inserted.wait(60)
        assert names().claim("default", memory_name(conversation, "default"), conversation.pk) == conversation.pk

        def commit() -> None:
            go_on.set()
            done.result()
            pool.shutdown()

        ends.append(commit)
        return commit

    yield make
    for end in ends:
        end()


class TestDoubt:
    """A transaction on two nodes is committed on one of them first."""

    def test_who_adds_meanwhile_adds_to_the_one_that_comes(self, unseen: Any) -> None:
        commit = unseen(Conversation(memory_id="a"))
        with ThreadPoolExecutor(1) as pool:
            adding = pool.submit(
                in_thread(lambda: DjangoChatMemoryStore().update_messages("a", [UserMessage("Hello")]))
            )
            wait_until(waits_for_a_lock, "nobody waits for the other node")
            commit()
            adding.result()
        [conversation] = Conversation.objects.all()
        assert [row.text for row in conversation.messages.all()] == ["Hello"]
        assert list(verify()) == []

    def test_who_makes_one_of_that_name_is_refused(self, unseen: Any) -> None:
        commit = unseen(Conversation(memory_id="a"))
        with ThreadPoolExecutor(1) as pool:
            making = pool.submit(in_thread(lambda: Conversation.objects.create(memory_id="a")))
            wait_until(waits_for_a_lock, "nobody waits for the other node")
            commit()
            with pytest.raises(IntegrityError):
                making.result()
        assert Conversation.objects.count() == 1

    def test_a_repair_does_not_take_the_name_away(self, unseen: Any) -> None:
        commit = unseen(Conversation(memory_id="a"))
        with ThreadPoolExecutor(1) as pool:
            repairing = pool.submit(in_thread(lambda: list(verify(repair=True))))
            wait_until(waits_for_a_lock, "nobody waits for the other node")
            commit()
            assert repairing.result() == []
        assert led_to() == [Conversation.objects.get().pk]

    def test_a_name_whose_conversation_never_came_is_used_again(self) -> None:
        key = UUID(int=7)
        names().claim("default", ("", "a"), key)
        assert DjangoChatMemoryStore().get_messages("a") == []
        DjangoChatMemoryStore().update_messages("a", [UserMessage("Hello")])
        assert Conversation.objects.get().pk == key
        assert list(verify()) == []


class TestNames:
    def test_follow_their_conversations(self) -> None:
        owner, other = UserFactory(), UserFactory()
        conversation = Conversation.objects.create(owner=owner, memory_id="a")
        conversation.memory_id = "b"
        conversation.save()
        conversation.owner = other
        conversation.save()
        assert Conversation.objects.named(other, "b").get() == conversation
        assert not Conversation.objects.named(owner, "a").exists()
        assert led_to() == [conversation.pk]
        Conversation.objects.create(owner=owner, memory_id="a")
        assert list(verify()) == []

    @pytest.mark.parametrize("how", ["erase", "anonymise", "delete the user", "delete", "delete all"])
    def test_are_given_up(self, how: str) -> None:
        owner = UserFactory()
        conversation = Conversation.objects.create(owner=owner, memory_id="a")
        match how:
            case "erase" | "anonymise":
                erase_user(owner, how=how)
            case "delete the user":
                owner.delete()
            case "delete":
                conversation.delete()
            case _:
                Conversation.objects.all().delete()
        assert led_to() == ([conversation.pk] if how == "anonymise" else [])
        assert list(verify()) == []

    def test_are_of_one_conversation_of_an_owner(self) -> None:
        owner = UserFactory()
        for whose in (owner, None):
            Conversation.objects.create(owner=whose, memory_id="a")
            taken = Conversation(owner=whose, memory_id="a")
            key = taken.pk
            with pytest.raises(IntegrityError):
                taken.save()
            assert taken.pk == key
            with pytest.raises(IntegrityError):
                Conversation.objects.bulk_create([taken])
        renamed = Conversation.objects.create(owner=owner, memory_id="b")
        renamed.memory_id = "a"
        with pytest.raises(IntegrityError, match="another conversation with the memory ID 'a'"):
            renamed.save()
        assert Conversation.objects.count() == 3
        assert list(verify()) == []

    def test_are_given_back_with_what_was_done(self) -> None:
        conversation = Conversation.objects.create(memory_id="a")
        with transaction.atomic():
            conversation.delete()
            Conversation.objects.create(memory_id="b")
            transaction.set_rollback(True)
        assert led_to() == [Conversation.objects.get().pk]
        assert list(verify()) == []

    @pytest.mark.parametrize("columns", [{"owner": None}, {"memory_id": "b"}])
    def test_do_not_change_by_update(self, columns: dict[str, Any]) -> None:
        conversation = ConversationFactory()
        with pytest.raises(NotSupportedError, match="save"):
            Conversation.objects.update(**columns)
        with pytest.raises(NotSupportedError, match="save"):
            Conversation.objects.bulk_update([conversation], list(columns))

    def test_lead_each_statement_to_one_place(self) -> None:
        store = DjangoChatMemoryStore()
        store.update_messages("a", [UserMessage("Hello")])
        key = Conversation.objects.get().pk
        with CaptureQueriesContext(connection) as captured:
            store.update_messages("a", [UserMessage("Hello"), UserMessage("again")])
            store.get_messages("a")
            store.delete_messages("a")
        asked = [query["sql"] for query in captured.captured_queries if "chatmemory_" in query["sql"]]
        names_asked = [sql for sql in asked if "chatmemory_citus_name" in sql]
        assert len(names_asked) == 3
        assert [sql for sql in asked if not {key.hex, str(key)} & set(sql.split("'")) and sql not in names_asked] == []
        assert not any("= (SELECT" in sql for sql in asked)

    def test_are_given_up_by_who_knows_an_old_one(self) -> None:
        conversation = Conversation.objects.create(memory_id="a")
        known = Conversation.objects.get()
        conversation.memory_id = "b"
        conversation.save()
        known.delete()
        assert led_to() == []

    def test_are_of_one_conversation_each_whatever_many_processes_do(self) -> None:
        environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": "tests.settings.base",
            "CHATMEMORY_TEST_NAME": str(connection.settings_dict["NAME"]),
        }
        command = [sys.executable, "-m", "tests.support.renamer"]
        pipe = subprocess.PIPE
        with ExitStack() as stack:
            processes = [
                stack.enter_context(
                    subprocess.Popen([*command, str(seed), "500"], env=environment, stdin=pipe, stdout=pipe)
                )
                for seed in range(4)
            ]
            for process in processes:
                assert process.stdout is not None
                assert process.stdout.readline() == b"ready\n"
            for process in processes:
                process.communicate(b"go\n")
        assert [process.returncode for process in processes] == [0] * 4
        named = list(Conversation.objects.values_list("memory_id", flat=True))
        assert len(named) > 100
        assert len(named) == len(set(named))
        assert list(verify()) == []


class TestKeys:
    """Keys of owners, with which conversations are made."""

    def test_make_one_conversation(self, api: Client, user: Any) -> None:
        first, again = (
            post(api, "/api/conversations/", {"title": "Tea"}, idempotency_key="k").json() for _ in range(2)
        )
        assert first == again
        [conversation] = Conversation.objects.all()
        assert led_to() == [conversation.pk, conversation.pk]
        assert list(verify()) == []

    def test_make_one_conversation_though_another_node_is_late(self, api: Client, user: Any, unseen: Any) -> None:
        late = Conversation(owner=user, memory_id="late")
        commit = unseen(late)
        names().claim("default", key_name(f"owner {user.pk}", "k"), late.pk)
        with ThreadPoolExecutor(1) as pool:
            asking = pool.submit(
                in_thread(lambda: post(api, "/api/conversations/", {"title": "Tea"}, idempotency_key="k"))
            )
            wait_until(waits_for_a_lock, "nobody waits for the other node")
            commit()
            asking.result()
        assert Conversation.objects.count() == 1

    @pytest.mark.parametrize("how", ["delete", "delete all", "delete the user"])
    def test_are_given_up_with_the_conversation(self, api: Client, user: Any, how: str) -> None:
        post(api, "/api/conversations/", {"title": "Tea"}, idempotency_key="k")
        conversation = Conversation.objects.get()
        {
            "delete": conversation.delete,
            "delete all": Conversation.objects.all().delete,
            "delete the user": user.delete,
        }[how]()
        assert led_to() == []

    def test_are_given_up_one_by_one(self, api: Client, user: Any) -> None:
        post(api, "/api/conversations/", {"title": "Tea"}, idempotency_key="k")
        IdempotencyKey.objects.get().delete()
        assert led_to() == [Conversation.objects.get().pk]

    def test_are_given_up(self, api: Client, user: Any) -> None:
        post(api, "/api/conversations/", {"title": "Tea"}, idempotency_key="k")
        list(purge_keys(timezone.now()))
        assert not IdempotencyKey.objects.exists()
        assert led_to() == [Conversation.objects.get().pk]
        post(api, "/api/conversations/", {"title": "Tea"}, idempotency_key="k")
        assert Conversation.objects.count() == 2
