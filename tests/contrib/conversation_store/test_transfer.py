"""Stored conversations in exports, imports, purges, ``erase_user`` and ``chatmemory_verify``."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.management import call_command
from django.utils import timezone
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict, ConversationRecord
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.tools import DeferredToolRequests
from pydantic_ai.usage import RunUsage

from chatmemory.contrib.pydantic_ai import DjangoConversationStore
from chatmemory.contrib.pydantic_ai.models import Entry, Record
from chatmemory.models import Conversation as Row
from chatmemory.personal_data import erase_user
from chatmemory.retention import purge_evicted
from chatmemory.transfer.export import conversation_lines
from chatmemory.verification import verify
from tests.support.factories import UserFactory

pytestmark = pytest.mark.django_db


async def _planted(store: DjangoConversationStore) -> None:
    messages = [ModelRequest.user_text_prompt("a\x00"), ModelResponse([TextPart("b")])]
    conversation = Conversation(conversation_id="c", messages=[*messages, ModelRequest.user_text_prompt("left")])
    await store.save(conversation, scope="web")
    branch = await store.branch("c", at=2, expected_revision=conversation.revision)
    call = ToolCallPart("pay", {"to": "Bob"}, "1")
    branch.messages += [ModelRequest.user_text_prompt("stays"), ModelResponse([call])]
    branch.usage = RunUsage(requests=2, input_tokens=9, details={"b": 1, "a": 2})
    branch.deferred_tool_requests = DeferredToolRequests(approvals=[call], metadata={"1": {"why": "z\x00"}})
    await store.save(branch)


@pytest.fixture
def store() -> DjangoConversationStore:
    """A store with one conversation, which left a branch and waits for an approval."""
    store = DjangoConversationStore()
    async_to_sync(_planted)(store)
    return store


def known(store: DjangoConversationStore) -> tuple[Any, ConversationRecord]:
    [record] = async_to_sync(store.list_conversations)()
    return async_to_sync(store.load_entries)("c"), record


def exported(path: Path) -> Path:
    file = path / "all.jsonl"
    file.write_text("".join(conversation_lines(Row.objects.values_list("pk", flat=True))))
    return file


def imported(file: Path, *options: str) -> str:
    out = io.StringIO()
    with suppress(SystemExit):  # something is left out
        call_command("chatmemory_import", str(file), *options, stdout=out, stderr=out)
    return out.getvalue()


class TestTransfer:
    def test_an_import_restores_what_an_export_has(self, store: DjangoConversationStore, tmp_path: Path) -> None:
        before, file = known(store), exported(tmp_path)
        text = file.read_text()
        Row.objects.all().delete()
        assert (Record.objects.count(), Entry.objects.count()) == (0, 0)
        assert "left out: 0" in imported(file, "--dry-run")
        assert not Record.objects.exists()
        assert "left out: 0" in imported(file)
        assert known(store) == before
        assert exported(tmp_path).read_text() == text
        assert list(verify()) == []

    @pytest.mark.parametrize(
        ("kind", "change", "problem"),
        [
            ("entry", {"message": {"kind": "request"}}, "parts"),
            ("entry", {"entry": "a" * 65}, "entry entry_id has 65 characters; at most 64"),
            ("entry", {"more": 1}, "'more' is unknown"),
            ("head", {"branches": [1]}, "branches: expected a list of texts"),
            ("head", {"usage": {"requests": "many"}}, "requests"),
            ("head", {"format_version": "1"}, "format_version: expected a whole number"),
            ("head", {"deferred_tool_requests": {"calls": 1}}, "calls"),
        ],
    )
    @pytest.mark.usefixtures("store")
    def test_a_bad_line_leaves_the_conversation_out(
        self, tmp_path: Path, kind: str, change: dict[str, Any], problem: str
    ) -> None:
        file = exported(tmp_path)
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        number = next(number for number, line in enumerate(lines) if kind in line and "app" in line)
        lines[number] |= change
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        Row.objects.all().delete()
        said = imported(file)
        assert f"all.jsonl:{number + 1}: " in said
        assert problem in said
        assert not Row.objects.exists()


class TestErasing:
    def test_a_purge_deletes_the_branches_that_were_left(self, store: DjangoConversationStore) -> None:
        history, record = known(store)
        assert len(record.branches) == 1
        list(purge_evicted(timezone.now() - timedelta(days=1)))
        assert Entry.objects.count() == 5
        list(purge_evicted(timezone.now() + timedelta(days=1)))
        assert not Entry.objects.filter(message__contains="left").exists()
        assert known(store)[0] == history
        assert known(store)[1].branches == []
        assert list(verify()) == []

    def test_a_branch_that_is_purged_during_a_save_does_not_return(self, store: DjangoConversationStore) -> None:
        read = known(store)[1]
        list(purge_evicted(timezone.now() + timedelta(days=1)))
        late = replace(read, revision="later")
        async_to_sync(store.write_record)(late, expected_revision=read.revision)
        assert known(store)[1].branches == []
        assert list(verify()) == []

    @pytest.mark.slow
    @pytest.mark.parametrize("how", ["erase", "anonymise"])
    def test_a_user_takes_records_and_entries_along(self, how: str) -> None:
        ann, bob = UserFactory(), UserFactory()
        for owner in (ann, bob):
            async_to_sync(_planted)(DjangoConversationStore(owner))
        erase_user(ann, how=how)
        assert set(Record.objects.values_list("conversation__owner", flat=True)) == {bob.pk}
        assert set(Entry.objects.values_list("conversation__owner", flat=True)) == {bob.pk}
        assert list(verify()) == []

    def test_a_copy_that_was_loaded_before_is_refused(self, store: DjangoConversationStore) -> None:
        loaded = async_to_sync(store.load)("c")
        assert loaded is not None
        Row.objects.all().delete()
        with pytest.raises(ConversationConflict):
            async_to_sync(store.save)(loaded)
        assert not Row.objects.exists()


class TestVerify:
    def found(self, what: str) -> None:
        """Expect one finding, and that it is repaired."""
        (finding,) = verify()
        assert (finding.what, finding.memory_id, finding.found) == ("Pydantic AI history", "c", f"none of {what}")
        assert [finding.repaired for finding in verify(repair=True)] == [True]
        assert list(verify()) == []

    def test_a_history_begins_after_a_missing_entry(self, store: DjangoConversationStore) -> None:
        (first, *rest), record = known(store)
        Entry.objects.filter(entry_id=first.id).delete()
        self.found(first.id)
        history, mended = known(store)
        assert [entry.id for entry in history] == [entry.id for entry in rest]
        assert mended.revision != record.revision

    def test_it_ends_with_the_newest_entry_if_the_last_one_is_missing(self, store: DjangoConversationStore) -> None:
        history, record = known(store)
        Entry.objects.filter(entry_id__in=[history[-1].id, *record.branches]).delete()
        self.found(", ".join(sorted([history[-1].id, *record.branches])))
        assert known(store)[0] == history[:-1]
        assert known(store)[1].branches == []

    @pytest.mark.usefixtures("store")
    def test_entries_without_a_record_are_deleted(self) -> None:
        Record.objects.all().delete()
        self.found("the record")
        assert not Entry.objects.exists()

    def test_only_the_chosen_conversations_are_looked_at(self, store: DjangoConversationStore) -> None:
        Record.objects.all().delete()
        assert list(verify(Row.objects.exclude(memory_id="c"))) == []
