"""Exports, imports, checks and erasures of conversations that went back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatmemory import AiMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.models import Branch, Conversation
from chatmemory.models.branch import OPEN_END
from chatmemory.personal_data import erase_user, export_user
from chatmemory.retention import purge_evicted
from chatmemory.transfer.export import conversation_lines
from chatmemory.transfer.records import DryRun
from chatmemory.verification import verify
from tests.support import budget
from tests.support.factories import ConversationFactory, UserFactory
from tests.support.restored import restored
from tests.support.steps import do, steps

pytestmark = pytest.mark.django_db


def branched(**columns: Any) -> Conversation:
    """A conversation in which a question was edited, and then the first one again."""
    made: Conversation = ConversationFactory(**columns)
    made.memory.add(UserMessage("a"), AiMessage("b"))
    made.memory.add(UserMessage("c"))
    made.edit(2, UserMessage("d"), user=made.owner)
    made.memory.add(AiMessage("e"))
    made.switch(2, user=UserFactory())
    return made


def exported(conversation: Conversation) -> list[dict[str, Any]]:
    return list(map(json.loads, conversation_lines([conversation.pk])))


def branches_of(conversation: Conversation) -> list[tuple[Any, ...]]:
    rows = Branch.objects.filter(conversation=conversation).order_by("version")
    return list(rows.values_list("version", "start", "follows", "left", "compacted_to", "current_to", "created_at"))


class TestAnExport:
    @pytest.mark.slow
    @settings(max_examples=budget.examples(8), deadline=None, suppress_health_check=list(HealthCheck))
    @given(all_steps=steps(), position=st.integers(0, 20))
    def test_comes_back_whole(self, all_steps: list[Any], position: int) -> None:
        with transaction.atomic():
            made = ConversationFactory(window="messages", limit=4)
            do(made, all_steps)
            made.refresh_from_db()
            lines, rows, tree = exported(made), branches_of(made), made.tree()
            memories = [made.memory.at(version) for version in range(made.version + 1)]
            positions = [*tree.parents]
            there = positions[position % len(positions)] if positions else None
            if there is not None:
                made.switch(there)
            switched = made.memory.messages()
            Conversation.objects.all().delete()
            assert restored(lines).problems == 0
            again = Conversation.objects.get()
            assert (exported(again), branches_of(again)) == (lines, rows)
            assert (again.tree().parents, again.tree().head) == (tree.parents, tree.head)
            assert [again.memory.at(version) for version in range(again.version + 1)] == memories
            assert list(verify()) == []
            if there is not None:
                again.switch(there)
            assert again.memory.messages() == switched
            transaction.set_rollback(True)

    def test_names_the_owner_only_as_who_went_back(self) -> None:
        lines = exported(branched())
        owner = UserFactory()
        Conversation.objects.all().delete()
        assert restored(lines, everybody=owner).problems == 0
        assert [row.user for row in Branch.objects.order_by("version")] == [None, owner, None]

    def test_knows_its_source(self) -> None:
        fork = branched().fork(at=1)
        lines = exported(fork)
        Conversation.objects.filter(pk=fork.pk).delete()
        assert restored(lines).problems == 0
        assert Conversation.objects.get(pk=fork.pk).forked_from == fork.forked_from

    def test_is_of_the_version_that_it_began_with(self) -> None:
        made = branched()
        lines, rows = conversation_lines([made.pk]), branches_of(made)
        first = next(lines)
        made.edit(0, UserMessage("later"))
        rest = list(map(json.loads, lines))
        Conversation.objects.all().delete()
        assert restored([json.loads(first), *rest]).problems == 0
        assert branches_of(Conversation.objects.get()) == rows
        assert list(verify()) == []

    @pytest.mark.parametrize("dry_run", [None, DryRun()])
    @pytest.mark.parametrize(
        ("wrong", "problem"),
        [
            ({"version": 99}, "version: expected from 0 to"),
            ({"start": -1}, "start: expected from 0 to"),
            ({"follows": 3}, "follows: expected a position before 3, or -1, got 3"),
            ({"left": -2}, "left: expected a position before 3, or -1, got -2"),
            ({"current_to": 2}, "current_to: expected at least 3, or null, got 2"),
            ({"compacted_to": 99}, "compacted_to: expected from 0 to"),
            ({"by_owner": None}, "by_owner: expected true or false"),
            ({"colour": 1}, "'colour' is unknown"),
        ],
    )
    def test_with_a_bad_line_is_left_out(self, wrong: dict[str, Any], problem: str, dry_run: DryRun | None) -> None:
        lines = exported(branched())
        Conversation.objects.all().delete()
        [_first, second, _third] = [line for line in lines if line.get("app") == "chatmemory"]
        second.update(wrong)
        reports = restored(lines, dry_run=dry_run)
        assert reports.problems == 1
        assert problem in reports.said[0]
        assert not Conversation.objects.exists()

    def test_has_no_line_of_a_conversation_that_never_went_back(self) -> None:
        made = ConversationFactory()
        made.memory.add(UserMessage("a"))
        assert not any("app" in line for line in exported(made))


def test_a_tree_is_that_of_the_stored_messages() -> None:
    made = ConversationFactory()
    old = Conversation.objects.get()
    made.memory.add(UserMessage("a"))
    assert old.tree().head == 0


class TestVerify:
    @pytest.mark.parametrize(
        ("version", "columns", "what"),
        [
            (3, {"current_to": OPEN_END}, "current_to of the branch of version 3: expected None"),
            (0, {"current_to": 1}, "current_to of the branch of version 0: expected 2, found 1"),
            (3, {"left": 4}, "left of the branch of version 3: expected a position before 3, or -1, found 4"),
            (3, {"start": 40}, "start of the branch of version 3: expected from 0 to"),
            (3, {"version": 40}, "version of the branch of version 40: expected up to"),
            (0, {"version": 1}, "start of the branch of version 1: expected 0, and a branch of version 0"),
        ],
    )
    def test_names_a_wrong_column(self, version: int, columns: dict[str, Any], what: str) -> None:
        made = branched()
        Branch.objects.filter(conversation=made, version=version).update(**columns)
        assert what in " ".join(map(str, verify()))

    def test_repairs_what_is_derived(self) -> None:
        made = branched()
        rows = branches_of(made)
        Branch.objects.update(current_to=None)
        assert {finding.repaired for finding in verify(repair=True)} == {True}
        assert branches_of(made) == rows
        assert list(verify()) == []


class TestAPurge:
    def test_leaves_no_part_of_a_tool_call(self) -> None:
        """The result was cleared and deleted. Before that, the memory had the call with its result."""
        made = ConversationFactory()
        call = AiMessage(None, [ToolExecutionRequest("1", "look_up", "{}")])
        made.memory.add(UserMessage("a"), call, ToolExecutionResultMessage("1", "look_up", "word " * 60))
        made.memory.add(AiMessage("b"))
        made.memory.add(UserMessage("c"))
        made.memory.clear_tool_results(keep=0)
        list(purge_evicted(timezone.now()))
        made.rewind(before=4)
        assert made.memory.messages() == [UserMessage("a"), AiMessage("b")]
        assert list(verify()) == []

    def test_leaves_the_rest_of_a_branch(self) -> None:
        made = branched()
        list(purge_evicted(timezone.now()))
        assert list(verify()) == []
        before = made.memory.messages()
        made.rewind(before=2)
        assert made.memory.messages() == before[:2]
        with pytest.raises(ValueError, match="history"):
            made.switch(3)
        assert made.tree().parents == {0: None, 1: 0, 2: 1}


class TestAUser:
    def test_is_forgotten_as_who_went_back(self) -> None:
        made, staff = ConversationFactory(), UserFactory()
        made.memory.add(UserMessage("a"))
        made.rewind(before=0, user=staff)
        [line] = map(json.loads, export_user(staff))
        assert (line["conversation"], line["app"], line["version"]) == (str(made.pk), "chatmemory", 2)
        erase_user(staff, how="anonymise")
        assert list(export_user(staff)) == []
        assert not Branch.objects.exclude(user=None).exists()
        assert Branch.objects.count() == 2

    def test_is_forgotten_with_what_they_said(self) -> None:
        made = branched()
        fork = made.fork(at=3)
        erase_user(made.owner, how="anonymise")
        assert not Branch.objects.exclude(user=None).exists()
        fork.refresh_from_db()
        assert fork.forked_from is None
        assert {row.text for row in made.messages.all()} == {"[erased]"}
        made.refresh_from_db()
        made.switch(3)
        assert made.memory.messages()[-1] == AiMessage("[erased]")
        assert list(verify()) == []

    def test_is_erased_with_their_branches(self) -> None:
        erase_user(branched().owner, how="erase")
        assert not Branch.objects.exists()
