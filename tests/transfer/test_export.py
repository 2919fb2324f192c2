"""Conversations out of the database and into another one, whole."""

from __future__ import annotations

import io
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.urls import reverse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatmemory import (
    AiMessage,
    ChatMessage,
    CustomMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
    message_to_json,
    messages_from_json,
)
from chatmemory.formats.openai import from_openai
from chatmemory.models import Conversation, IdempotencyKey, Message
from chatmemory.models.fields import uuid7
from chatmemory.retention import purge_evicted
from chatmemory.transfer.export import conversation_lines
from chatmemory.transfer.records import DryRun
from chatmemory.verification import verify
from tests.support import budget
from tests.support.factories import ConversationFactory, UserFactory
from tests.support.full_windows import conversation_of_turns, turn
from tests.support.provider_rules import assert_openai_accepts
from tests.support.restored import restored
from tests.support.steps import do, steps
from tests.support.strategies import texts

pytestmark = pytest.mark.django_db

examples = settings(max_examples=budget.examples(15), suppress_health_check=list(HealthCheck))


def export() -> str:
    return "".join(conversation_lines(Conversation.objects.order_by("pk").values_list("pk", flat=True)))


def run(command: str, *args: str) -> str:
    out = io.StringIO()
    call_command(command, *args, stdout=out, stderr=out)
    return out.getvalue()


class TestThereAndBack:
    @pytest.mark.slow
    @examples
    @given(
        all_steps=st.lists(steps(), min_size=1, max_size=2),
        title=texts(max_size=20),
        metadata=st.dictionaries(texts(max_size=5), st.integers() | texts(max_size=5), max_size=3),
    )
    def test_any_conversation_is_the_same_again(
        self, all_steps: list[list[Any]], title: str, metadata: dict[str, Any]
    ) -> None:
        with transaction.atomic():
            owners = [UserFactory(), None]
            for number, one in enumerate(all_steps):
                made = ConversationFactory(
                    owner=owners[number % 2], title=title, metadata=metadata, window="messages", limit=4
                )
                do(made, one)
            first = export()
            memories = {made.pk: made.memory.messages() for made in Conversation.objects.all()}
            Conversation.objects.all().delete()
            reports = restored(first)
            assert (reports.said, reports.conversations) == ([], len(all_steps))  # type: ignore[attr-defined]
            assert export() == first
            assert list(verify()) == []
            assert {made.pk: made.memory.messages() for made in Conversation.objects.all()} == memories
            assert restored(first).unchanged == len(all_steps)
            assert export() == first
            transaction.set_rollback(True)

    def test_every_column_of_a_conversation_is_in_it(self) -> None:
        ConversationFactory()
        columns = {field.name for field in Conversation._meta.concrete_fields}
        derived, of_now = {"owner_key"}, {"turn", "turn_until"}
        assert {*json.loads(export().splitlines()[0])} == columns - {"id"} - derived - of_now | {"conversation"}

    @pytest.mark.parametrize("described", [{"title": "T"}, {"metadata": {"b": [{"d": 1, "c": 2}], "a": None}}])
    def test_what_describes_a_conversation(self, described: dict[str, Any]) -> None:
        ConversationFactory(**described)
        text = export()
        Conversation.objects.all().delete()
        assert restored(text).problems == 0
        assert Conversation.objects.values(*described).get() == described
        assert export() == text

    def test_goes_on_where_it_was(self) -> None:
        """Adding, delivering again, and looking back work as if nothing had happened."""
        made = ConversationFactory(window="messages", limit=2)
        made.memory.add(UserMessage("a"), AiMessage("b"), idempotency_key="k")
        made.memory.add(UserMessage("c"))
        text = export()
        Conversation.objects.all().delete()
        restored(text)
        again = Conversation.objects.get()
        assert again.memory.add(UserMessage("a"), AiMessage("b"), idempotency_key="k").memory.version == 1
        again.memory.add(AiMessage("d"))
        assert again.memory.messages() == [UserMessage("c"), AiMessage("d")]
        assert again.memory.at(1) == [UserMessage("a"), AiMessage("b")]
        assert (again.message_count, again.version) == (4, 3)
        assert list(verify()) == []

    @pytest.mark.slow
    def test_full_windows_go_on_alike(self) -> None:
        """Pins, placeholders and the settings of the window are restored: the next addition evicts the same."""
        made = conversation_of_turns()
        text = export()
        memories = [made.memory.at(version) for version in range(1, made.version + 1)]
        pins = [[row.was_pinned_at(version) for row in made.messages.all()] for version in range(1, made.version + 1)]

        def account(conversation: Conversation) -> Any:
            changes = [conversation.memory.add(*turn(number)) for number in (6, 7)]
            rows = [row for change in changes for row in (*change.added, *change.evicted)]
            return [
                (row.position, row.text, row.origin, row.covers_from, row.pins, row.evicted_in, row.eviction_reason)
                for row in rows
            ]

        before = account(made)
        assert {"window", "orphan", "tool_cleared"} <= {reason for *_, reason in before}
        Conversation.objects.all().delete()
        assert restored(text).problems == 0
        assert export() == text
        again = Conversation.objects.get()
        assert (again.low_water, again.whole_turns, again.keep_tool_results) == (70, True, 1)
        assert [again.memory.at(version) for version in range(1, again.version + 1)] == memories
        assert [[row.was_pinned_at(v) for row in again.messages.all()] for v in range(1, again.version + 1)] == pins
        assert [row.position for row in again.messages.pinned()] == [3]
        assert list(verify()) == []
        assert account(again) == before

    def test_a_window_that_never_clears_stays_one(self, settings: Any) -> None:
        ConversationFactory(keep_tool_results=None)
        text = export()
        Conversation.objects.all().delete()
        settings.CHATMEMORY = {"WINDOW": {"keep_tool_results": 3, "low_water": 50, "whole_turns": True}}
        assert restored(text).problems == 0
        again = Conversation.objects.get()
        assert (again.low_water, again.whole_turns, again.keep_tool_results) == (100, False, None)

    def test_pins_are_those_of_the_exported_version(self) -> None:
        made = ConversationFactory()
        made.memory.add(UserMessage("a"), UserMessage("b"))
        made.memory.pin(0)
        before = export()
        lines = conversation_lines([made.pk])
        first = next(lines)
        made.memory.unpin(0)
        made.memory.pin(1)
        assert first + "".join(lines) == before
        assert [json.loads(line).get("pins") for line in before.splitlines()] == [None, "2-", "", None]

    def test_what_was_purged_stays_purged(self) -> None:
        made = ConversationFactory(window="messages", limit=1)
        made.memory.add(*(UserMessage(str(number)) for number in range(5)))
        moment = Message.objects.latest("created_at").created_at.replace(year=2100)
        assert sum(step.messages for step in purge_evicted(moment)) == 4
        text = export()
        Conversation.objects.all().delete()
        restored(text)
        assert export() == text
        assert list(verify()) == []

    @pytest.mark.parametrize("payload", ["{broken", '{"attributes": {}, "of the future": 1}'])
    def test_what_nobody_can_read_is_kept(self, payload: str) -> None:
        made = ConversationFactory()
        made.memory.add(UserMessage("a"), UserMessage("b"))
        Message.objects.filter(position=1).update(payload=payload, native="{no JSON")
        text = export()
        Conversation.objects.all().delete()
        assert restored(text).messages == 2
        assert export() == text
        row = Message.objects.get(position=1)
        assert (row.payload, row.native, row.text) == (payload, "{no JSON", "b")

    def test_what_is_nested_as_deep_as_may_be(self) -> None:
        deep: object = 1
        for _ in range(497):
            deep = [deep]
        made = ConversationFactory()
        made.memory.add(AiMessage("x", attributes={"deep": deep}))
        text = export()
        Conversation.objects.all().delete()
        assert restored(text).messages == 1
        assert export() == text

    @pytest.mark.skipif(connection.vendor != "sqlite", reason="other databases refuse it themselves")
    def test_half_of_a_surrogate_pair_in_metadata(self) -> None:
        ConversationFactory(metadata={"odd": "\ud800"})
        text = export()
        text.encode()
        Conversation.objects.all().delete()
        restored(text)
        assert Conversation.objects.get().metadata == {"odd": "\ud800"}

    def test_keys_of_creations_follow_the_owner(self, api: Any, user: Any) -> None:
        first = api.post("/api/conversations/", {}, "application/json", headers={"Idempotency-Key": "k"}).json()
        text = export()
        Conversation.objects.all().delete()
        get_user_model().objects.all().delete()
        UserFactory()
        new = UserFactory(username=user.username)
        assert restored(text).problems == 0
        api.force_login(new)
        again = api.post("/api/conversations/", {}, "application/json", headers={"Idempotency-Key": "k"}).json()
        assert again == first
        assert export() == text

    def test_what_is_said_meanwhile_is_not_in_it(self) -> None:
        made = ConversationFactory(window="messages", limit=2)
        made.memory.add(UserMessage("a"), UserMessage("b"))
        before = export()
        lines = conversation_lines([made.pk])
        first = next(lines)
        made.memory.add(UserMessage("c"), idempotency_key="late")
        assert first + "".join(lines) == before

    def test_an_erased_conversation_is_left_out(self) -> None:
        assert list(conversation_lines([ConversationFactory.build().pk])) == []


class TestBadLines:
    @pytest.fixture
    def lines(self) -> list[str]:
        """A conversation of three messages, the first one evicted, and one of a single message."""
        first = ConversationFactory(window="messages", limit=2, owner=UserFactory(username="ann"))
        first.memory.add(UserMessage("a"), UserMessage("b"), UserMessage("c"), idempotency_key="k")
        ConversationFactory(owner=None).memory.add(UserMessage("other"))
        lines = export().splitlines(keepends=True)
        Conversation.objects.all().delete()
        assert len(lines) == 6 + 3
        return lines

    @pytest.mark.parametrize(
        ("number", "change", "problem"),
        [
            (1, {"owner": "bob"}, "there is no user 'bob'; create one, or use --map-owner bob=ID or --owner ID"),
            (1, {"owner": "\ud800"}, r"there is no user '\ud800'"),
            (1, {"owner": "\x00"}, "there is no user"),
            (1, {"owner": 5}, "owner: expected a user name or null"),
            (1, {"window": "days"}, "window: Value 'days' is not a valid choice."),
            (1, {"limit": 0}, "limit: Ensure this value is greater than or equal to 1."),
            (1, {"limit": "4"}, 'limit: expected a whole number, got "4"'),
            (1, {"version": True}, "version: expected a whole number, got true"),
            (1, {"memory_id": ""}, "memory_id cannot be empty"),
            (1, {"memory_id": "x" * 256}, "memory_id: Ensure this value has at most 255 characters (it has 256)."),
            (1, {"title": "\x00"}, "title: has U+0000 at index 0; take it out"),
            (1, {"created_at": "yesterday"}, "created_at: expected a time such as 2026-01-31T12:00:00+00:00"),
            (1, {"created_at": "2026-13-31T12:00:00Z"}, "created_at: expected a time"),
            (1, {"colour": "red"}, "'colour' is unknown; a newer version may have written this file"),
            (1, {"conversation": "7"}, "conversation: expected a UUID, got '7'"),
            (1, {"conversation": 7}, 'expected an object with the key "conversation"'),
            (3, {"position": "1"}, 'position: expected a whole number, got "1"'),
            (3, {"message": {"type": "USER"}}, "message: contents cannot be null or empty"),
            (3, {"message": [1]}, "message: expected a message, got [1]"),
            (3, {"synthetic": None}, "synthetic: expected true or false, got null"),
            (3, {"mood": 1}, "'mood' is unknown"),
            (1, {"low_water": 0}, "low_water: Ensure this value is greater than or equal to 1."),
            (1, {"low_water": 101}, "low_water: Ensure this value is less than or equal to 100."),
            (1, {"whole_turns": 1}, "whole_turns: expected true or false, got 1"),
            (1, {"keep_tool_results": -1}, "keep_tool_results: Ensure this value is greater than or equal to 0."),
            (1, {"keep_tool_results": 2**31}, "keep_tool_results: Ensure this value is less than or equal to"),
            (1, {"keep_tool_results": True}, "keep_tool_results: expected a whole number, got true"),
            (
                3,
                {"origin": "made up"},
                "origin: expected one of said, rewrite, copy, restored, cleared, summary, got 'made up'",
            ),
            (3, {"origin": "copy"}, "synthetic: expected true, as origin is 'copy'"),
            (3, {"synthetic": True}, "synthetic: expected false, as origin is 'said'"),
            (3, {"covers_from": 0, "covers_to": 0}, "covers_from: expected null, as origin is 'said'"),
            (3, {"origin": "cleared", "synthetic": True}, "covers_from: expected a position that it covers"),
            (3, {"origin": "summary", "synthetic": True}, "covers_from: expected a position that it covers"),
            (1, {"compact_at": 101}, "compact_at: Ensure this value is less than or equal to 100."),
            (1, {"compact_at": "80"}, 'compact_at: expected a whole number, got "80"'),
            (1, {"compacted_to": 999}, "compacted_to: expected at most next_position, "),
            (3, {"origin": "copy", "synthetic": True, "covers_from": 1, "covers_to": 0}, "two nulls, got 1 and 0"),
            (3, {"origin": "copy", "synthetic": True, "covers_from": 0}, "two nulls, got 0 and null"),
            (3, {"origin": "copy", "synthetic": True, "covers_from": 1, "covers_to": 1}, "before its own, 1, got 1"),
            (3, {"position": 3}, "position: expected at least 0, and less than next_position, 3, got 3; export"),
            (3, {"position": -1}, "and less than next_position, 3, got -1; export the conversation again"),
            (3, {"memory_order": 2**32 + 1}, "memory_order: expected from -8589934592 to 4294967296, got 4294967297;"),
            (3, {"memory_order": 2**62}, "would stand in the wrong place, so export the conversation again"),
            (3, {"memory_order": -(2**33) - 1}, "memory_order: expected from -8589934592 to 4294967296, got -85899345"),
            (2, {"memory_order": 1}, "memory_order: expected from -8589934592 to 0, got 1;"),
            (3, {"memory_order": 10**4000}, f"to 4294967296, got 1{'0' * 99};"),
            (3, {"pins": None}, "pins: expected a text, got null"),
            (3, {"pins": "yes"}, "pins: expected versions such as '3-7 9-', got 'yes'"),
            (3, {"pins": "1- 1-"}, "pins: expected versions such as '3-7 9-', got '1- 1-'"),
            (3, {"pins": "1-1"}, "pins: expected versions in ascending order, got '1-1'"),
            (3, {"pins": "1-2"}, "pins: expected versions up to 1, that of the conversation, got '1-2'"),
            (3, {"native": "\ud800"}, "native: has a lone surrogate at index 0; take it out"),
            (3, {"problem": "p", "type": "USER", "text": "\ud800", "payload": None}, "text: has a lone surrogate"),
            (5, {"idempotency_key": "\ud800"}, "idempotency_key: has a lone surrogate"),
            (5, {"creator": "\x00"}, "there is no user"),
            (5, {"creator": "bob"}, "there is no user 'bob'"),
            (6, {"end": {"messages": 4, "idempotency_keys": 1}}, 'expected {"messages": 4, "idempotency_keys": 1}'),
        ],
    )
    def test_is_named_and_its_conversation_left_out(
        self, lines: list[str], number: int, change: dict[str, Any], problem: str
    ) -> None:
        lines[number - 1] = json.dumps({**json.loads(lines[number - 1]), **change}) + "\n"
        reports = restored("".join(lines))
        said = reports.said[0]  # type: ignore[attr-defined]
        assert said.startswith(f"f.jsonl:{number}: ")
        assert problem in said
        assert [row.text for row in Message.objects.all()] == ["other"]
        assert Conversation.objects.count() == 1
        assert not IdempotencyKey.objects.exists()

    @pytest.mark.parametrize(
        ("number", "name"), [(1, "low_water"), (1, "keep_tool_results"), (3, "origin"), (3, "covers_to"), (3, "pins")]
    )
    def test_one_of_an_older_version(self, lines: list[str], number: int, name: str) -> None:
        old = json.loads(lines[number - 1])
        del old[name]
        lines[number - 1] = json.dumps(old) + "\n"
        assert restored("".join(lines)).said == [  # type: ignore[attr-defined]
            f"f.jsonl:{number}: {name} is missing; if an older version wrote this file, export the conversation again"
        ]

    @pytest.mark.parametrize("text", ["{", "[]", "nonsense", '{"a": 1}'])
    def test_one_that_is_no_line_of_a_conversation(self, lines: list[str], text: str) -> None:
        lines[2] = f"{text}\n"
        reports = restored("".join(lines))
        (said,) = reports.said  # type: ignore[attr-defined]
        assert said.startswith("f.jsonl:3: ")
        assert Conversation.objects.count() == 1

    @pytest.mark.parametrize("is_dry", [True, False])
    def test_metadata_that_are_nested_too_deep(self, lines: list[str], is_dry: bool) -> None:
        lines[6] = lines[6].replace('"metadata":{}', f'"metadata":{{"deep":{"[" * 500}{"]" * 500}}}')
        reports = restored("".join(lines), dry_run=DryRun() if is_dry else None)
        assert reports.said == ["f.jsonl:7: metadata: nested more than 500 levels deep"]  # type: ignore[attr-defined]
        assert reports.conversations == 1

    def test_a_file_that_was_cut_off(self, lines: list[str]) -> None:
        reports = restored("".join(lines[:5]))
        (said,) = reports.said  # type: ignore[attr-defined]
        assert "the end of this conversation is missing; is the file cut off?" in said
        assert not Conversation.objects.exists()

    def test_a_line_that_is_missing(self, lines: list[str]) -> None:
        for gone, problem in ((0, "the first line of this conversation"), (1, "expected {"), (4, "expected {")):
            reports = restored("".join(lines[:gone] + lines[gone + 1 :]))
            assert problem in reports.said[0]  # type: ignore[attr-defined]
            assert Conversation.objects.count() == 1

    def test_a_line_that_comes_twice(self, lines: list[str]) -> None:
        reports = restored("".join([*lines[:2], *lines[1:]]))
        assert "the database refuses this conversation" in reports.said[0]  # type: ignore[attr-defined]
        assert Conversation.objects.count() == 1

    def test_a_line_after_the_end_is_named(self, lines: list[str]) -> None:
        reports = restored("".join([*lines[:6], lines[3], *lines[6:]]))
        assert reports.conversations == 2
        assert reports.said == [  # type: ignore[attr-defined]
            "f.jsonl:7: the first line of this conversation, with its settings, is missing"
        ]

    def test_two_exports_in_one_file(self, lines: list[str]) -> None:
        lines = [*lines[:6] * 2, *lines[6:] * 2]
        reports = restored("".join(lines))
        assert (reports.conversations, reports.unchanged, reports.problems) == (2, 2, 0)
        assert restored("".join(lines)).unchanged == 4

    def test_a_dry_run_finds_what_comes_twice(self, lines: list[str]) -> None:
        alone, key = [json.loads(line) for line in lines[6:]], str(uuid7())
        named_alike = [json.dumps({**line, "conversation": key}) + "\n" for line in alone]
        with_other_content = [*lines[6:7], json.dumps({**alone[1], "token_count": 77}) + "\n", *lines[8:]]
        text = "".join([*lines, *lines[:6], *named_alike, *with_other_content])
        would, does = restored(text, dry_run=DryRun()), restored(text)
        assert (would.conversations, would.messages, would.unchanged, would.problems) == (2, 4, 1, 2)
        assert (does.conversations, does.messages, does.unchanged, does.problems) == (2, 4, 1, 2)
        of_would, of_does = would.said, does.said  # type: ignore[attr-defined]
        assert of_would[0] == of_does[0]
        assert of_would[1].partition("conversation ")[2] == of_does[1].partition("conversation ")[2]

    def test_strict_stops_at_the_first(self, lines: list[str], tmp_path: Path) -> None:
        file = tmp_path / "f.jsonl"
        file.write_text("".join(["{\n", *lines]))
        with pytest.raises(SystemExit):
            run("chatmemory_import", str(file), "--strict")
        assert not Conversation.objects.exists()
        with pytest.raises(SystemExit):
            run("chatmemory_import", str(file))
        assert Conversation.objects.count() == 2

    def test_what_is_there_with_other_content_is_never_overwritten(self, lines: list[str]) -> None:
        restored("".join(lines))
        made = Conversation.objects.get(owner=None)
        made.memory.add(UserMessage("new"))
        before = export()
        reports = restored("".join(lines))
        (said,) = reports.said  # type: ignore[attr-defined]
        assert (
            said == f"f.jsonl:7: conversation {made.pk} exists already with other content; "
            "erase it to restore it from this file"
        )
        assert reports.unchanged == 1
        assert export() == before

    def test_another_conversation_has_the_memory_id(self, lines: list[str]) -> None:
        ConversationFactory(owner=None, memory_id=json.loads(lines[6])["memory_id"])
        reports = restored("".join(lines))
        (said,) = reports.said  # type: ignore[attr-defined]
        assert said.startswith("f.jsonl:7: the owner has another conversation with the memory ID")
        assert Conversation.objects.count() == 2


class TestOwners:
    def test_everybodys_become_one_users(self) -> None:
        for name in ("ann", None):
            ConversationFactory(owner=name and UserFactory(username=name)).memory.add(UserMessage("a"))
        text = export()
        Conversation.objects.all().delete()
        new = UserFactory()
        assert restored(text, everybody=new).conversations == 2
        assert set(Conversation.objects.values_list("owner", flat=True)) == {new.pk}
        assert restored(text, everybody=new).unchanged == 2

    def test_one_users_become_anothers(self) -> None:
        made = ConversationFactory(owner=UserFactory(username="ann"))
        made.memory.add(UserMessage("a"), idempotency_key="k")
        text = export()
        get_user_model().objects.all().delete()
        new = UserFactory()
        assert restored(text).problems == 1
        assert restored(text, mapped={"ann": new}).conversations == 1
        assert Conversation.objects.get().owner == new
        assert restored(text, mapped={"ann": new}).unchanged == 1

    @pytest.mark.parametrize("name", ["ANN", "änn", "ann "])
    def test_a_name_that_is_only_alike_is_unknown(self, name: str) -> None:
        """On MariaDB they are equal."""
        made = ConversationFactory(owner=UserFactory(username=name))
        text = export()
        made.owner.delete()
        UserFactory(username="ann")
        assert restored(text).problems == 1


class TestTheCommands:
    @pytest.fixture
    def made(self, user: Any) -> Conversation:
        made = ConversationFactory(owner=user, memory_id="tea/7")
        made.memory.add(
            SystemMessage("s"),
            UserMessage("a"),
            AiMessage(None, [ToolExecutionRequest("1", "find", "{}")]),
            AiMessage("b"),
        )
        return made

    def test_there_and_back(self, made: Conversation, tmp_path: Path) -> None:
        file = tmp_path / "all.jsonl"
        assert run("chatmemory_export", "--output", str(file)) == "Exported conversations: 1. Left out: 0.\n"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert file.read_text(encoding="utf-8") == export()
        made.delete()
        would = "Would import conversations: 1, messages: 4; there already: 0, left out: 0.\n"
        assert run("chatmemory_import", str(file), "--dry-run") == would
        assert not Conversation.objects.exists()
        assert run("chatmemory_import", str(file)) == would.replace("Would import", "Imported")
        assert file.read_text(encoding="utf-8") == export()
        assert "there already: 1, left out: 0" in run("chatmemory_import", str(file))
        assert run("chatmemory_import", str(file), "-v0") == ""

    def test_to_standard_output_comes_nothing_but_the_lines(self, made: Conversation) -> None:
        out, err = io.StringIO(), io.StringIO()
        call_command("chatmemory_export", stdout=out, stderr=err)
        assert out.getvalue() == export()
        assert "Exported" in err.getvalue()

    def test_only_some(self, made: Conversation, user: Any) -> None:
        other = ConversationFactory()
        text = run("chatmemory_export", "--owner", str(other.owner_id), "-v0")
        assert {json.loads(line)["conversation"] for line in text.splitlines()} == {str(other.pk)}
        text = run("chatmemory_export", "--conversation", str(made.pk), "-v0")
        assert {json.loads(line)["conversation"] for line in text.splitlines()} == {str(made.pk)}

    def test_for_langchain4j(self, made: Conversation, tmp_path: Path) -> None:
        said = [row.message for row in made.messages.history()]
        assert (
            messages_from_json(
                run("chatmemory_export", "--format", "langchain4j", "--conversation", str(made.pk), "-v0")
            )
            == said
        )
        run("chatmemory_export", "--format", "langchain4j", "--output", str(tmp_path / "out"))
        (file,) = (tmp_path / "out").iterdir()
        assert file.name == "tea%2F7.json"
        made.delete()
        run("chatmemory_import", "--format", "langchain4j", str(file))
        again = Conversation.objects.get()
        assert again.memory_id == "tea/7"
        assert [row.message for row in again.messages.history()] == said

    def test_the_admin_writes_the_same_for_langchain4j(
        self, admin_client: Any, made: Conversation, tmp_path: Path
    ) -> None:
        """One message on each line, so that an import names the line of a message."""
        file = tmp_path / "f.json"
        args = ["--format", "langchain4j", "--conversation", str(made.pk), "--output", str(file)]
        run("chatmemory_export", *args)
        address = reverse("admin:chatmemory_conversation_export_langchain4j", args=[made.pk])
        assert admin_client.get(address).getvalue() == file.read_bytes()
        first, *lines, last = file.read_text(encoding="utf-8").splitlines()
        assert (first, last) == ("[", "]")
        assert [json.loads(line.removesuffix(",")) for line in lines] == [
            json.loads(message_to_json(row.message)) for row in made.messages.history()
        ]

    @pytest.mark.parametrize("format", ["langchain4j", "openai"])
    def test_nothing_is_written_of_a_row_that_nobody_can_read(
        self, made: Conversation, tmp_path: Path, format: str
    ) -> None:
        made.messages.filter(position=1).update(payload="{broken")
        file = tmp_path / "f.json"
        with pytest.raises((SystemExit, CommandError)):
            run(
                "chatmemory_export",
                *("--format", format, "--conversation", str(made.pk), "--output", str(file), "--strict"),
            )
        assert not file.exists()

    @pytest.mark.usefixtures("sdks")
    def test_for_openai(self, made: Conversation) -> None:
        ConversationFactory().memory.add(CustomMessage({"a": 1}))
        out, err = io.StringIO(), io.StringIO()
        with pytest.raises(SystemExit):
            call_command("chatmemory_export", "--format", "openai", stdout=out, stderr=err)
        (line,) = out.getvalue().splitlines()
        messages = json.loads(line)["messages"]
        assert_openai_accepts(messages)
        *said, call, answer = (row.message for row in made.messages.history())
        *before, called, result, last = from_openai(messages)
        assert ([*before, called], last) == ([*said, call], answer)
        assert isinstance(result, ToolExecutionResultMessage)
        assert (result.id, result.tool_name) == ("1", "find")
        assert "message 0: " in err.getvalue()
        assert "Exported conversations: 1. Left out: 1." in err.getvalue()

    @pytest.mark.usefixtures("sdks")
    @pytest.mark.parametrize(
        "more",
        [
            [UserMessage("c")],
            [UserMessage("c"), AiMessage(None, [ToolExecutionRequest("2", "find", "{}")])],
            [
                UserMessage("c"),
                AiMessage("Let me see", [ToolExecutionRequest("2", "find", "{}")]),
                ToolExecutionResultMessage("2", "find", "x"),
            ],
            [ToolExecutionResultMessage("9", "find", "of nothing"), SystemMessage("t")],
        ],
    )
    def test_what_fine_tuning_takes_ends_with_an_answer(self, user: Any, more: list[ChatMessage]) -> None:
        answer = AiMessage("b", thinking="Hm.", attributes={"openai": {"extra": {"reasoning_details": ["Hm."]}}})
        call = AiMessage(None, [ToolExecutionRequest(None, "find", " ")])
        made = ConversationFactory(owner=user)
        made.memory.add(
            UserMessage("a"), call, ToolExecutionResultMessage(None, "find", "x"), answer, UserMessage("More"), answer
        )
        made.memory.add(*more)
        (line,) = run("chatmemory_export", "--format", "openai", "-v0").splitlines()
        messages = json.loads(line)["messages"]
        assert_openai_accepts(messages)
        assert [message["role"] for message in messages] == [
            "user",
            "assistant",
            "tool",
            "assistant",
            "user",
            "assistant",
        ]
        assert messages[-1] == {"role": "assistant", "content": "b"}

    def test_fine_tuning_takes_nothing_without_an_answer(self, user: Any) -> None:
        ConversationFactory(owner=user).memory.add(SystemMessage("s"), UserMessage("a"))
        ConversationFactory(owner=user)
        out, err = io.StringIO(), io.StringIO()
        with pytest.raises(SystemExit):
            call_command("chatmemory_export", "--format", "openai", stdout=out, stderr=err)
        assert out.getvalue() == ""
        assert err.getvalue().count("there is no answer in it") == 2

    @pytest.mark.parametrize(
        ("args", "problem"),
        [
            (["export", "--format", "langchain4j"], "name a directory"),
            (["export", "--output", "/no/such/file"], "cannot write"),
            (["export", "--owner", "0"], "there is no user with the primary key '0'"),
            (["import", "f", "--owner", "0"], "--owner: there is no user with the primary key '0'"),
            (["import", "f", "--map-owner", "ann"], "--map-owner: expected NAME=ID, got 'ann'"),
            (["import", "f", "--map-owner", "ann=0"], "--map-owner: there is no user with the primary key '0'"),
            (["import", "f", "g", "--memory-id", "m"], "--memory-id: is for one file"),
            (["import", "f", "--memory-id", "m"], "--memory-id: is for --format langchain4j, openai; leave it out"),
            (["import", "f", "--window", "tokens"], "--window: is for --format langchain4j, openai, chatgpt,"),
            (["import", "f", "--format", "openai", "--table", "t"], "--table: is for --format langchain-sql,"),
            (["import", "f", "--format", "openai", "--limit", "99999999999"], "--limit: limit must be at most"),
            (["import", "f", "--whole-turns"], "--whole-turns: is for --format langchain4j, openai, chatgpt,"),
            (["import", "f", "--format", "openai", "--low-water", "101"], "--low-water: low_water must be a percent"),
            (
                ["import", "f", "--format", "openai", "--keep-tool-results", "-1"],
                "--keep-tool-results: keep_tool_results must be a whole number of at least zero",
            ),
            (
                ["import", "f", "--format", "openai", "--model", " "],
                "--model: model must be a string of 1 to 255 characters",
            ),
            (["import", "f", "--database", "nope"], "there is no 'nope'"),
        ],
    )
    def test_options_that_cannot_be(self, args: list[str], problem: str) -> None:
        with pytest.raises(CommandError, match=problem):
            run(f"chatmemory_{args[0]}", *args[1:])

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        err = io.StringIO()
        with pytest.raises(SystemExit):
            call_command("chatmemory_import", str(tmp_path / "none"), stdout=err, stderr=err)
        assert "cannot be read" in err.getvalue()

    def test_on_a_terminal_there_is_a_bar(self, made: Conversation, tmp_path: Path) -> None:
        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return True

        err = Terminal()
        call_command("chatmemory_export", "--output", str(tmp_path / "f.jsonl"), stderr=err)
        assert "[" in err.getvalue()
        assert "%" in err.getvalue()
