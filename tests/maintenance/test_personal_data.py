"""What is stored of one user, handed out and erased."""

from __future__ import annotations

import io
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import AnonymousUser
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models import ProtectedError
from django.db.models.signals import pre_delete
from django.urls import reverse

from chatmemory import (
    AiMessage,
    CustomMessage,
    ImageContent,
    SystemMessage,
    TextContent,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.compaction import compact_due
from chatmemory.database.operations.compact import due_conversations
from chatmemory.models import Compaction, Conversation, IdempotencyKey, Message
from chatmemory.personal_data import ERASED_TEXT, erase_user, export_user
from chatmemory.verification import verify
from tests.support.factories import ConversationFactory, UserFactory, give
from tests.support.full_windows import conversation_of_turns

pytestmark = pytest.mark.django_db

SECRET = "xyzzy"
SAID = [
    SystemMessage(f"You talk to {SECRET}."),
    UserMessage([TextContent(SECRET), ImageContent(f"https://example.com/{SECRET}.png")], name=SECRET),
    AiMessage(thinking=SECRET, tool_execution_requests=[ToolExecutionRequest("1", "find", f'{{"who": "{SECRET}"}}')]),
    ToolExecutionResultMessage("1", "find", f"{SECRET} is here"),
    CustomMessage({"who": SECRET}),
    AiMessage(f"Hello {SECRET}", attributes={"to": SECRET}),
    UserMessage(SECRET),
]


@pytest.fixture
def theirs(user: Any) -> Conversation:
    """A conversation full of what must go. Three messages are evicted."""
    made = ConversationFactory(
        owner=user, memory_id=f"{SECRET}-1", title=f"About {SECRET}", metadata={"name": SECRET}, window="messages"
    )
    made.memory.add(*SAID, idempotency_key=f"{SECRET}-key")
    made.memory.set_window(limit=4)
    made.refresh_from_db()
    return made


@pytest.fixture
def others() -> Conversation:
    """Somebody else's."""
    made = ConversationFactory(title="Other")
    made.memory.add(UserMessage("mine"), idempotency_key="k")
    return made


def found_anywhere(text: str) -> list[str]:
    """The tables in which ``text`` is."""
    tables = []
    for model in apps.get_models():
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(model._meta.db_table)}")
            if any(text in str(value) for row in cursor.fetchall() for value in row):
                tables.append(model._meta.db_table)
    return tables


def run(*args: str) -> str:
    out = io.StringIO()
    call_command("chatmemory_user", *args, stdout=out)
    return out.getvalue()


class TestExporting:
    def test_everything_of_one_user(self, user: Any, theirs: Conversation, others: Conversation) -> None:
        lines = [json.loads(line) for line in export_user(user)]
        assert all(line["conversation"] == str(theirs.pk) for line in lines)
        settings, *messages, key, end = lines
        assert (settings["title"], settings["metadata"]) == (f"About {SECRET}", {"name": SECRET})
        assert (settings["message_count"], settings["retained_count"], settings["limit"]) == (7, 4, 4)
        assert [line["position"] for line in messages] == list(range(7))
        assert [line["evicted_in"] is None for line in messages].count(False) == 3
        assert messages[1]["message"]["contents"][1]["image"]["url"] == f"https://example.com/{SECRET}.png"
        assert key["idempotency_key"] == f"{SECRET}-key"
        assert end["end"] == {"messages": 7, "idempotency_keys": 1}

    def test_it_is_as_the_admin_exports_it(self, user: Any, theirs: Conversation, admin_client: Any) -> None:
        answer = admin_client.get(reverse("admin:chatmemory_conversation_export_jsonl", args=[theirs.pk]))
        assert answer.getvalue().decode() == "".join(export_user(user))

    def test_a_key_of_what_another_owns_now(self, user: Any, api: Any, others: Conversation) -> None:
        made = api.post("/api/conversations/", {}, "application/json", headers={"Idempotency-Key": "k-1"}).json()
        give(made["id"], others.owner)
        [line] = export_user(user)
        assert json.loads(line)["idempotency_key"] == "k-1"

    def test_nothing_of_who_has_nothing(self) -> None:
        assert list(export_user(UserFactory())) == []

    @pytest.mark.parametrize("nobody", [None, AnonymousUser()], ids=["none", "anonymous"])
    def test_nobody_is_no_user(self, nobody: Any) -> None:
        ConversationFactory(owner=None)
        for act in (export_user, erase_user):
            with pytest.raises(ValueError, match="must be a saved user"):
                act(nobody)
        assert Conversation.objects.count() == 1


def refuse(messages: Any, previous: str | None) -> str:
    raise RuntimeError(f"no idea: {messages[0].text}")


class TestErasing:
    @pytest.mark.parametrize("how", ["erase", "anonymise"])
    def test_what_was_erased_is_in_no_table(
        self, how: str, user: Any, theirs: Conversation, others: Conversation, admin_client: Any
    ) -> None:
        admin_client.get(reverse("admin:chatmemory_conversation_export_jsonl", args=[theirs.pk])).getvalue()
        assert LogEntry.objects.filter(object_repr__contains=SECRET).exists()
        assert len(found_anywhere(SECRET)) == 4
        done = erase_user(user, how=how)
        assert (done.conversations, done.messages, done.keys) == (1, 7, 1)
        assert found_anywhere(SECRET) == []
        assert not Conversation.objects.filter(owner=user).exists()
        assert LogEntry.objects.count() == 1
        assert others.memory.messages() == [UserMessage("mine")]
        assert IdempotencyKey.objects.get().conversation == others

    def test_by_default_the_conversations_are_deleted(self, user: Any, theirs: Conversation) -> None:
        erase_user(user)
        assert not Conversation.objects.exists()
        assert not Message.objects.exists()

    def test_anonymised_conversations_keep_their_figures(self, user: Any, theirs: Conversation, settings: Any) -> None:
        settings.CHATMEMORY = {"ERASE_USER": "anonymise"}
        figures = ["position", "type", "token_count", "origin", "added_in", "evicted_in", "evicted_at", "created_at"]
        before = list(Message.objects.order_by("position").values(*figures))
        erase_user(user)
        after = Conversation.objects.get()
        assert list(Message.objects.order_by("position").values(*figures)) == before
        assert (after.owner, after.title, after.metadata) == (None, "", {})
        assert (after.message_count, after.retained_count) == (7, 4)
        assert after.version == theirs.version + 1
        assert [row.message for row in after.messages.history()][:5] == [
            SystemMessage(ERASED_TEXT),
            UserMessage(ERASED_TEXT),
            AiMessage(ERASED_TEXT),
            ToolExecutionResultMessage(None, None, ERASED_TEXT),
            CustomMessage(),
        ]
        assert list(verify()) == []

    def test_anonymised_conversations_keep_pins_and_what_placeholders_stand_for(self, user: Any) -> None:
        made = conversation_of_turns(owner=user)
        figures = ["position", "origin", "covers_from", "covers_to", "pins", "eviction_reason", "memory_order"]
        before = list(made.messages.order_by("position").values(*figures))
        erase_user(user, how="anonymise")
        assert list(made.messages.order_by("position").values(*figures)) == before
        assert {row.text for row in made.messages.all()} == {ERASED_TEXT}
        assert list(verify()) == []

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize("how", ["erase", "anonymise"])
    def test_no_summary_that_was_being_made_brings_anything_back(self, user: Any, how: str) -> None:
        made = ConversationFactory(owner=user, window="messages", limit=50)
        made.memory.add(*(UserMessage(f"My name is Ann {number}. " * 20) for number in range(9)))
        plan = made.memory.plan_compaction(keep=0)
        assert plan is not None
        with pytest.raises(RuntimeError):
            made.memory.compact(refuse, keep=0)
        assert Compaction.objects.get().error.startswith("RuntimeError: no idea: My name is Ann 0")
        erase_user(user, how=how)
        if how == "erase":
            with pytest.raises(Conversation.DoesNotExist):
                made.memory.apply_compaction(plan, "Her name is Ann.")
        else:
            assert made.memory.apply_compaction(plan, "Her name is Ann.") is None
            assert {row.text for row in made.messages.all()} == {ERASED_TEXT}
        assert not Compaction.objects.exists()
        assert list(verify()) == []

    @pytest.mark.slow
    @pytest.mark.django_db(transaction=True)
    def test_no_summary_is_made_of_what_was_erased(self, user: Any) -> None:
        made = ConversationFactory(owner=user, limit=1000, compact_at=50)
        for number in range(20):
            made.memory.add(UserMessage(f"My name is Ann {number}. " * 20), AiMessage("Hello, Ann. " * 20))
        assert made.memory.compact(lambda *_: "Her name is Ann.", keep=60) is not None
        made.memory.add(*(UserMessage(f"My name is Ann {number}. " * 20) for number in range(6)))
        assert made in due_conversations(Conversation.objects.all())
        erase_user(user, how="anonymise")
        assert made not in due_conversations(Conversation.objects.all())
        assert list(compact_due(summarizer=refuse)) == []
        for keep in 0, 50:
            assert made.memory.compact(refuse, keep=keep) is None

    @pytest.mark.django_db(transaction=True)
    def test_what_is_said_afterwards_can_be_summarised(self, user: Any) -> None:
        """By somebody who asks for it, and without what was erased."""
        made = ConversationFactory(owner=user, limit=2000, compact_at=10)
        made.memory.add(*(UserMessage(f"My name is Ann {number}. " * 20) for number in range(9)))
        made.memory.compact(lambda *_: "Her name is Ann.", keep=0)
        erase_user(user, how="anonymise")
        new = [UserMessage(f"New {number}. " * 60) for number in range(5)]
        made.memory.add(*new)
        told: list[Any] = []

        def write(*given: Any) -> str:
            told.append(given)
            return "New."

        assert list(compact_due(summarizer=refuse)) == []
        assert made.memory.compact(write, keep=0) is not None
        assert told == [(tuple(new[:-1]), None)]
        assert [message.single_text() for message in made.memory.messages()] == [
            "<summary>\nNew.\n</summary>",
            new[-1].single_text(),
        ]

    def test_no_summary_reaches_the_user_whom_a_conversation_was_given_to(self, user: Any) -> None:
        made = ConversationFactory(owner=user, window="messages", limit=50)
        made.memory.add(*(UserMessage(f"My name is Ann {number}. " * 20) for number in range(9)))
        plan = made.memory.plan_compaction(keep=0)
        give(made.pk, UserFactory())
        assert plan is not None
        assert made.memory.apply_compaction(plan, "Her name is Ann.") is None

    @pytest.mark.django_db(transaction=True)
    def test_an_object_from_before_cannot_bring_anything_back(self, user: Any, theirs: Conversation) -> None:
        theirs.memory.add(UserMessage("one more"))
        erase_user(user, how="anonymise")
        theirs.memory.add(UserMessage("late"))
        assert theirs.memory.messages()[-1] == UserMessage("late")
        assert "one more" not in str(Conversation.objects.get().memory.messages())
        assert list(verify()) == []

    @pytest.mark.parametrize("how", ["erase", "anonymise"])
    def test_what_another_owns_meanwhile_stays(
        self, how: str, user: Any, theirs: Conversation, others: Conversation
    ) -> None:
        """It was the user's when it was found."""
        given = []

        def give_away(execute: Any, sql: str, *args: Any) -> Any:
            if "COUNT(" in sql and not given:
                given.append(sql)
                give(theirs.pk, others.owner)
            return execute(sql, *args)

        with connection.execute_wrapper(give_away):
            assert erase_user(user, how=how).conversations == 0
        theirs.refresh_from_db()
        assert (theirs.owner, theirs.title) == (others.owner, f"About {SECRET}")
        assert [row.message for row in theirs.messages.history()] == SAID

    def test_several_anonymised_conversations_stay_apart(self, user: Any) -> None:
        for number in range(3):
            ConversationFactory(owner=user, memory_id=str(number))
        ConversationFactory(owner=None, memory_id="1")
        erase_user(user, how="anonymise")
        assert Conversation.objects.filter(owner=None).count() == 4

    def test_twice_is_no_error(self, user: Any, theirs: Conversation) -> None:
        erase_user(user)
        assert erase_user(user).conversations == 0

    def test_there_is_no_third_way(self, user: Any, theirs: Conversation) -> None:
        with pytest.raises(ValueError, match='"erase" or "anonymise"'):
            erase_user(user, how="hide")
        assert Conversation.objects.exists()

    def test_keys_of_what_another_owns_now(self, user: Any, api: Any, others: Conversation) -> None:
        made = api.post("/api/conversations/", {}, "application/json", headers={"Idempotency-Key": "k-1"}).json()
        give(made["id"], others.owner)
        assert erase_user(user).keys == 1
        assert Conversation.objects.filter(pk=made["id"]).exists()
        assert not IdempotencyKey.objects.filter(key="k-1").exists()


class TestTheCommand:
    def test_export(self, user: Any, theirs: Conversation, tmp_path: Path) -> None:
        said = run("export", user.username)
        assert said == "".join(export_user(user)) == run("export", str(user.pk), "--id")
        file = tmp_path / "user.jsonl"
        run("export", user.username, "--output", str(file))
        assert file.read_text(encoding="utf-8") == said
        with pytest.raises(CommandError, match="exists already"):
            run("export", user.username, "--output", str(file))
        with pytest.raises(CommandError, match="cannot write"):
            run("export", user.username, "--output", str(tmp_path / "no" / "folder"))

    def test_a_file_is_for_nobody_else(self, user: Any, theirs: Conversation, tmp_path: Path) -> None:
        file = tmp_path / "user.jsonl"
        run("export", user.username, "--output", str(file))
        assert stat.S_IMODE(file.stat().st_mode) == 0o600

    def test_half_an_export_leaves_no_file(self, user: Any, theirs: Conversation, tmp_path: Path) -> None:
        file = tmp_path / "user.jsonl"

        def interrupt(execute: Any, sql: str, *args: Any) -> Any:
            if "chatmemory_idempotencykey" in sql:
                raise KeyboardInterrupt
            return execute(sql, *args)

        with connection.execute_wrapper(interrupt), pytest.raises(KeyboardInterrupt):
            run("export", user.username, "--output", str(file))
        assert not file.exists()
        run("export", user.username, "--output", str(file))
        assert file.exists()

    def test_erasing_writes_no_file(self, user: Any, theirs: Conversation, tmp_path: Path) -> None:
        with pytest.raises(CommandError, match=r"--output: erase writes no file"):
            run("erase", user.username, "--no-input", "--output", str(tmp_path / "backup"))
        assert Conversation.objects.exists()

    def test_nobody_answers(self, user: Any, theirs: Conversation, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO())
        with pytest.raises(CommandError, match="--no-input erases without a question"):
            run("erase", user.username)
        assert Conversation.objects.exists()

    @pytest.mark.parametrize("name", ["ANN", "änn", "ann "])
    def test_a_name_that_is_only_alike_is_unknown(self, name: str) -> None:
        """On MariaDB they are equal."""
        ConversationFactory(owner=UserFactory(username="ann"))
        with pytest.raises(CommandError, match="There is no user with the user name"):
            run("erase", name, "--no-input")
        assert Conversation.objects.exists()

    def test_erase(self, user: Any, theirs: Conversation, settings: Any) -> None:
        settings.CHATMEMORY = {"ERASE_USER": "anonymise"}
        said = "Anonymised conversations: 1, messages: 7. Erased idempotency keys: 1.\n"
        assert run("erase", user.username, "--no-input") == said
        settings.CHATMEMORY = {}
        assert run("erase", user.username, "--no-input").startswith("Erased conversations: 0,")

    def test_what_other_objects_hold_is_an_error(self, user: Any, theirs: Conversation) -> None:
        def refuse(sender: Any, **kwargs: Any) -> None:
            raise ProtectedError("held", set())

        pre_delete.connect(refuse, sender=Conversation)
        try:
            with pytest.raises(CommandError, match="cannot be erased, because other objects refer to it"):
                run("erase", user.username, "--no-input")
        finally:
            pre_delete.disconnect(refuse, sender=Conversation)
        assert Message.objects.count() == 7

    @pytest.mark.parametrize(("answer", "left"), [("no", 1), ("yes", 0)])
    def test_it_asks_before(
        self, user: Any, theirs: Conversation, monkeypatch: pytest.MonkeyPatch, answer: str, left: int
    ) -> None:
        asked = []
        monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or answer)
        if left:
            with pytest.raises(CommandError, match=r"Nothing was erased\."):
                run("erase", user.username)
        else:
            run("erase", user.username)
        assert len(asked) == 1
        assert user.username in asked[0]
        assert Conversation.objects.count() == left

    @pytest.mark.parametrize("args", [["nobody"], ["nobody", "--id"], ["123456789", "--id"], ["123456789"]])
    def test_an_unknown_user_is_an_error(self, args: list[str]) -> None:
        with pytest.raises(CommandError, match="There is no user with the"):
            run("export", *args)
