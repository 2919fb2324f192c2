"""Files of other programs, made conversations of."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from chatmemory import (
    AiMessage,
    ChatMessage,
    ChatMessageType,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
    messages_to_json,
)
from chatmemory.formats.openai import to_openai
from chatmemory.models import Conversation, Message, Origin
from chatmemory.transfer import files
from chatmemory.transfer.chat_files import read_openai
from chatmemory.transfer.files import items, open_sources
from chatmemory.transfer.importing import import_all
from chatmemory.transfer.records import BadRecordError, DryRun, FoundConversation, FoundMessage, Owners, Reports
from chatmemory.verification import verify
from tests.support.factories import ConversationFactory, UserFactory
from tests.support.full_windows import turn
from tests.support.strategies import json_values

pytestmark = pytest.mark.django_db

ANYBODYS = {"imported": {"source": "test", "messages": "1", "digest": "", "version": 0}}
NOON = datetime(2024, 1, 31, 12, 0, tzinfo=UTC)
TALK = [
    SystemMessage("Be kind."),
    UserMessage("Weather?"),
    AiMessage(None, [ToolExecutionRequest("c1", "weather", '{"city":"Rome"}')]),
    ToolExecutionResultMessage("c1", "weather", "sunny"),
    AiMessage("Sunny."),
]


def run(*args: str) -> str:
    """What the command says; its exit code is 1 if something was left out."""
    out = io.StringIO()
    code: Any = 0
    try:
        call_command("chatmemory_import", *args, stdout=out, stderr=out)
    except SystemExit as end:
        code = end.code
    assert code == ("left out: 0" not in out.getvalue())
    return out.getvalue()


def history(memory_id: str) -> list[ChatMessage]:
    return [row.message for row in Conversation.objects.get(memory_id=memory_id).messages.history()]


def said(*messages: ChatMessage, at: datetime | None = NOON) -> list[FoundMessage | BadRecordError]:
    """Messages of a source, a minute after each other."""
    return [
        FoundMessage(place=f"p{number}", message=message, said_at=at and at + timedelta(minutes=number))
        for number, message in enumerate(messages)
    ]


def imported(messages: list[FoundMessage | BadRecordError], **options: Any) -> Reports:
    reports = Reports(say=options.pop("say", lambda problem: None))
    settings = {"window": "messages", "limit": 3} | options.pop("settings", {})
    found = FoundConversation(place="p", memory_id="m", messages=iter(messages), framework="fw", **options)
    for _step in import_all("test", iter([found]), reports, Owners("default"), database="default", settings=settings):
        pass
    assert list(verify()) == []
    return reports


class TestImporting:
    def test_what_was_said_is_added_through_the_window(self) -> None:
        reports = imported(said(*TALK))
        made = Conversation.objects.get()
        assert (reports.conversations, reports.messages) == (1, 5)
        assert [row.message for row in made.messages.history()] == TALK
        assert made.memory.messages() == [TALK[0], TALK[4]]
        assert made.retained_tokens == sum(row.token_count for row in made.messages.retained()) > 0

    def test_it_was_said_when_the_source_says(self) -> None:
        imported(said(*TALK), created_at=NOON - timedelta(hours=1))
        made = Conversation.objects.get()
        assert made.created_at == NOON - timedelta(hours=1)
        assert made.updated_at == NOON + timedelta(minutes=4)
        times = [row.created_at for row in made.messages.history()]
        assert times == [NOON + timedelta(minutes=number) for number in range(5)]
        assert all(row.evicted_at.year > 2024 for row in made.messages.evicted())

    def test_a_system_message_that_is_there_already_shifts_no_times(self) -> None:
        imported(said(TALK[0], TALK[0], TALK[1], TALK[0], TALK[4]))
        rows = Conversation.objects.get().messages.history()
        assert [(row.message, row.created_at.minute) for row in rows] == [(TALK[0], 0), (TALK[1], 2), (TALK[4], 4)]

    def test_without_a_time_it_was_said_with_the_one_before(self) -> None:
        imported([*said(TALK[0]), *said(TALK[1], at=None)])
        assert [row.created_at for row in Conversation.objects.get().messages.history()] == [NOON, NOON]
        Conversation.objects.all().delete()
        imported(said(TALK[0], at=None))
        assert Message.objects.get().created_at.year > 2024

    def test_native_forms_are_kept(self) -> None:
        imported([FoundMessage(place="p", message=TALK[1], native={"raw": "\x00"})])
        assert Message.objects.get().native_of("fw") == {"raw": "\x00"}

    def test_twice_is_once(self) -> None:
        imported(said(*TALK))
        before = list(Message.objects.values())
        reports = imported(said(*TALK))
        assert (reports.unchanged, reports.messages, reports.problems) == (1, 0, 0)
        assert list(Message.objects.values()) == before

    def test_what_the_source_has_got_since_is_added(self) -> None:
        imported(said(*TALK[:2]))
        assert imported(said(*TALK)).messages == 3
        assert [row.message for row in Conversation.objects.get().messages.history()] == TALK

    def test_what_somebody_went_on_with_is_left_alone(self) -> None:
        imported(said(*TALK[:2]))
        Conversation.objects.get().memory.add(UserMessage("mine"))
        problems: list[str] = []
        assert imported(said(*TALK), say=problems.append).problems == 1
        assert "changed since it was imported" in problems[0]
        assert imported(said(*TALK[:2])).unchanged == 1
        assert Message.objects.count() == 3

    @pytest.mark.parametrize("now", [said(TALK[1], TALK[0]), said(TALK[0]), said(*TALK[:2], at=None)])
    def test_a_source_that_says_something_else_adds_nothing(self, now: list[FoundMessage | BadRecordError]) -> None:
        imported(said(*TALK[:2]))
        problems: list[str] = []
        assert imported(now, say=problems.append).problems == 1
        assert "the source has changed since it was imported" in problems[0]
        assert Message.objects.count() == 2

    @pytest.mark.parametrize("metadata", [{}, {"imported": 1}, {"imported": {"source": "test"}}, ANYBODYS])
    def test_a_conversation_from_elsewhere_is_left_alone(self, metadata: dict[str, Any]) -> None:
        ConversationFactory(owner=None, memory_id="m", metadata=metadata)
        problems: list[str] = []
        imported(said(*TALK), say=problems.append)
        assert problems == [
            "p: the owner has a conversation with this memory ID that was not imported from here; erase that one "
            "(memory ID 'm')"
        ]
        assert not Message.objects.exists()

    def test_a_bad_message_is_named_and_the_others_are_added(self) -> None:
        problems: list[str] = []
        bad = [*said(TALK[1]), BadRecordError("p9", "broken"), *said(UserMessage("\x00")), *said(TALK[4])]
        assert imported(bad, say=problems.append).messages == 2
        assert problems == ["p9: broken", "p0: text: has U+0000 at index 0; take it out"]
        assert imported(bad).unchanged == 1

    def test_a_conversation_without_messages(self) -> None:
        imported([], title="t" * 300)
        made = Conversation.objects.get()
        assert (made.title, made.metadata["title"]) == ("t" * 255, "t" * 300)
        assert imported([]).unchanged == 1

    @pytest.mark.parametrize("wrong", [{"title": "\x00"}, {"metadata": {"a": "\ud800"}}, {"owner": "nobody here"}])
    def test_a_conversation_that_cannot_be(self, wrong: dict[str, Any]) -> None:
        assert imported(said(*TALK), **wrong).problems == 1
        assert not Conversation.objects.exists()

    @pytest.mark.slow
    def test_many_messages_are_one_after_the_other(self) -> None:
        many = [UserMessage(str(number)) for number in range(450)]
        imported(said(*many))
        made = Conversation.objects.get()
        assert [row.message for row in made.messages.history()] == many
        assert made.version == 3


class TestDryRun:
    """It says what the import then says."""

    @pytest.fixture
    def files(self, tmp_path: Path) -> Any:
        def files(*talks: list[ChatMessage]) -> list[str]:
            """Files of the same name, so of the same memory ID."""
            paths = [tmp_path / str(number) / "m.json" for number in range(len(talks))]
            for path, talk in zip(paths, talks, strict=True):
                path.parent.mkdir(exist_ok=True)
                path.write_text(messages_to_json(talk))
            return list(map(str, paths))

        return files

    @pytest.mark.parametrize(
        ("others", "account"),
        [
            ([TALK], "conversations: 1, messages: 5; there already: 1, left out: 0."),
            ([TALK[:2]], "conversations: 1, messages: 5; there already: 0, left out: 1."),
            (
                [[*TALK, TALK[1]], [*TALK, TALK[1], TALK[4]]],
                "conversations: 3, messages: 7; there already: 0, left out: 0.",
            ),
            ([TALK[1:]], "conversations: 1, messages: 5; there already: 0, left out: 1."),
        ],
    )
    def test_of_an_id_that_comes_twice(self, files: Any, others: list[list[ChatMessage]], account: str) -> None:
        arguments = ["--format", "langchain4j", *files(TALK, *others)]
        would, does = run(*arguments, "--dry-run"), run(*arguments)
        assert would.endswith(f"Would import {account}\n")
        assert does == would.replace("Would import", "Imported")

    def test_of_what_is_new_since_the_import(self, files: Any) -> None:
        run("--format", "langchain4j", *files(TALK[:2]))
        arguments = ["--format", "langchain4j", *files(TALK[:3], TALK, TALK)]
        would, does = run(*arguments, "--dry-run"), run(*arguments)
        assert would == "Would import conversations: 2, messages: 3; there already: 1, left out: 0.\n"
        assert does == would.replace("Would import", "Imported")

    def test_of_the_same_id_of_two_owners(self) -> None:
        found = [
            FoundConversation(place="p", memory_id="m", messages=said(*TALK), owner=UserFactory().username)
            for _number in range(2)
        ]
        for dry_run in DryRun(), None:
            reports = Reports(say=lambda problem: None)
            owners = Owners("default")
            steps = import_all("test", iter(found), reports, owners, database="default", settings={}, dry_run=dry_run)
            assert len(list(steps)) == 4
            assert (reports.conversations, reports.messages, reports.problems) == (2, 10, 0)


class TestLangChain4j:
    def test_a_file(self, tmp_path: Path) -> None:
        file = tmp_path / "tea%2F7.json"
        file.write_text(messages_to_json(TALK))
        assert "conversations: 1, messages: 5" in run(
            "--format", "langchain4j", str(file), "--window", "messages", "--limit", "9"
        )
        assert history("tea/7") == TALK
        assert Conversation.objects.get().memory.messages() == TALK
        assert "there already: 1" in run("--format", "langchain4j", str(file))
        run("--format", "langchain4j", str(file), "--memory-id", "other")
        assert history("other") == TALK

    def test_through_a_window_that_keeps_the_prompt_cache(self, tmp_path: Path) -> None:
        file = tmp_path / "m.json"
        file.write_text(messages_to_json([message for number in range(5) for message in turn(number)]))
        window = ("--limit", "330", "--low-water", "70", "--whole-turns", "--keep-tool-results", "0")
        window += ("--compact-at", "80", "--always-keep-system-message-first")
        assert "messages: 20" in run("--format", "langchain4j", str(file), *window)
        made = Conversation.objects.get()
        assert (made.low_water, made.whole_turns, made.keep_tool_results, made.compact_at) == (70, True, 0, 80)
        assert made.always_keep_system_message_first
        assert [row.position for row in made.messages.filter(origin=Origin.CLEARED)] != []
        assert made.memory.messages()[0].type is ChatMessageType.USER
        assert "there already: 1" in run("--format", "langchain4j", str(file))
        assert list(verify()) == []

    def test_the_others_have_the_project_s_defaults(self, tmp_path: Path, settings: Any) -> None:
        settings.CHATMEMORY = {"WINDOW": {"low_water": 60, "whole_turns": True, "keep_tool_results": 4}}
        file = tmp_path / "m.json"
        file.write_text(messages_to_json(TALK))
        run("--format", "langchain4j", str(file), "--low-water", "80")
        made = Conversation.objects.get()
        assert (made.low_water, made.whole_turns, made.keep_tool_results) == (80, True, 4)
        made.delete()
        run("--format", "langchain4j", str(file), "--no-whole-turns")
        made = Conversation.objects.get()
        assert (made.low_water, made.whole_turns, made.keep_tool_results) == (60, False, 4)

    def test_a_bad_message_is_named(self, tmp_path: Path) -> None:
        file = tmp_path / "m.json"
        file.write_text('[\n{"type":"USER","contents":[{"type":"TEXT","text":"a"}]},\n{"type":"DOG"},\n{"text": x}]')
        text = run("--format", "langchain4j", str(file))
        assert "m.json:3: item 2: type: expected one of" in text
        assert "m.json:4: item 3: " in text
        assert history("m") == [UserMessage("a")]

    def test_a_file_of_a_version_before_1(self, tmp_path: Path) -> None:
        """As 0.24 and 0.25 wrote them; half of it would be worse than nothing."""
        call = {"name": "calculator", "arguments": "{}"}
        result = {"toolName": "calculator", "text": "4", "type": "TOOL_EXECUTION_RESULT"}
        old = [
            {"text": "Be kind.", "type": "SYSTEM"},
            {"text": "2+2?", "type": "USER"},
            {"name": "Klaus", "text": "3+1?", "type": "USER"},
            {"toolExecutionRequest": call, "type": "AI"},
            result,
            {"toolExecutionRequests": [{"id": "c1", **call}], "type": "AI"},
            {"id": "c1", **result},
            {"text": "4", "type": "AI"},
        ]
        (tmp_path / "m.json").write_text(json.dumps(old))
        run("--format", "langchain4j", str(tmp_path / "m.json"))
        assert history("m") == [
            SystemMessage("Be kind."),
            UserMessage("2+2?"),
            UserMessage("3+1?", name="Klaus"),
            AiMessage(None, [ToolExecutionRequest(None, "calculator", "{}")]),
            ToolExecutionResultMessage(None, "calculator", "4"),
            AiMessage(None, [ToolExecutionRequest("c1", "calculator", "{}")]),
            ToolExecutionResultMessage("c1", "calculator", "4"),
            AiMessage("4"),
        ]

    @pytest.mark.parametrize(
        "wrong", [{"text": "a", "contents": [{"type": "TEXT", "text": "b"}]}, {"text": 1}, {"text": None}]
    )
    def test_a_text_that_no_version_wrote_is_named(self, tmp_path: Path, wrong: dict[str, Any]) -> None:
        (tmp_path / "m.json").write_text(json.dumps([{"type": "USER", **wrong}]))
        assert "m.json:1: item 1: " in run("--format", "langchain4j", str(tmp_path / "m.json"))

    @pytest.mark.parametrize(
        ("text", "problem"),
        [("{}", "m.json: expected a JSON array"), ("[1", "m.json: the item that begins on line 1 does not end")],
    )
    def test_a_file_of_something_else(self, tmp_path: Path, text: str, problem: str) -> None:
        file = tmp_path / "m.json"
        file.write_text(text)
        assert problem in run("--format", "langchain4j", str(file))
        assert not Conversation.objects.exists()

    def test_with_the_format_of_another_it_is_not_in_the_way(self, tmp_path: Path) -> None:
        file = tmp_path / "m.json"
        file.write_text(json.dumps(to_openai(TALK)))
        assert "left out: 5" in run("--format", "langchain4j", str(file))
        assert "messages: 5; there already: 0, left out: 0" in run("--format", "openai", str(file))
        assert history("m") == TALK


class TestOpenAi:
    def test_an_array(self, tmp_path: Path) -> None:
        (tmp_path / "m.json").write_text(json.dumps(to_openai(TALK), indent=1))
        run("--format", "openai", str(tmp_path / "m.json"))
        assert history("m") == TALK

    def test_an_object(self, tmp_path: Path) -> None:
        tools = [{"type": "function", "function": {"name": "weather"}}]
        (tmp_path / "m.json").write_text(json.dumps({"messages": to_openai(TALK), "tools": tools}, indent=1))
        run("--format", "openai", str(tmp_path / "m.json"))
        assert history("m") == TALK
        assert Conversation.objects.get().metadata["openai"] == {"tools": tools}

    def test_lines(self, tmp_path: Path) -> None:
        talks = [TALK, TALK[:2], TALK[1:2]]
        (tmp_path / "train.jsonl").write_text("\n\n".join(json.dumps({"messages": to_openai(talk)}) for talk in talks))
        run("--format", "openai", str(tmp_path / "train.jsonl"))
        assert [history(f"train-{number}") for number in (1, 3, 5)] == talks

    def test_an_array_on_one_line_is_read_a_little_at_a_time(self, tmp_path: Path) -> None:
        file = tmp_path / "m.json"
        file.write_text("\n " + json.dumps(to_openai([UserMessage("x" * 1000)] * 1000)))
        with open_sources(file) as (open_it,):
            source = open_it()
            tracemalloc.start()
            (found,) = read_openai(source, "m")
            _now, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak < 200_000
            assert isinstance(found, FoundConversation)
            assert len(list(found.messages)) == 1000

    def test_a_weight_takes_no_thinking_away(self, tmp_path: Path) -> None:
        message = {"role": "assistant", "content": "no", "reasoning_content": "hm", "weight": 1}
        (tmp_path / "m.json").write_text(json.dumps([message]))
        run("--format", "openai", str(tmp_path / "m.json"))
        assert history("m") == [AiMessage("no", thinking="hm", attributes={"weight": 1})]

    def test_weights_are_kept(self, tmp_path: Path) -> None:
        message = {"role": "assistant", "content": "no", "weight": 0}
        (tmp_path / "m.json").write_text(json.dumps([message, {"role": "user", "content": "x", "weight": 1}]))
        text = run("--format", "openai", str(tmp_path / "m.json"))
        assert "weight: only an answer can have one" in text
        assert history("m") == [AiMessage("no", attributes={"weight": 0})]

    @pytest.mark.parametrize(
        ("name", "text", "problem"),
        [
            ("m.json", "", "not JSON"),
            ("m.json", '{"a": 1}', 'm.json: expected an object with the list "messages"'),
            ("m.jsonl", "[]\n{", 'm.jsonl:1: expected an object with the list "messages"'),
            ("m.jsonl", "\n{", "m.jsonl:2: not JSON"),
            (
                "m.json",
                '[{"role": "user"}]',
                "m.json:1: item 1: content: expected a string or a list of parts, got nothing",
            ),
            ("m.json", '{"messages": [{"role": "dog"}]}', "m.json: messages[0]: role: expected one of"),
            ("m.json", "[{]", "m.json: the item that begins on line 1 does not end"),
            ("m.json", "[{}] x", "m.json: line 1: something follows the end of the array"),
            ("m.json", "[\n7]", "m.json:2: item 1: expected an object, got a number"),
        ],
    )
    def test_what_is_wrong_is_named(self, tmp_path: Path, name: str, text: str, problem: str) -> None:
        (tmp_path / name).write_text(text)
        assert problem in run("--format", "openai", str(tmp_path / name))


class TestItems:
    @pytest.mark.slow
    @given(
        values=st.lists(json_values(), max_size=6),
        chunk=st.integers(1, 9),
        indent=st.none() | st.integers(0, 3),
        ascii=st.booleans(),
    )
    def test_are_those_of_the_array(self, values: list[Any], chunk: int, indent: int | None, ascii: bool) -> None:
        text = json.dumps(values, indent=indent, ensure_ascii=ascii)
        found = list(items(io.StringIO(f"\n {text}\n "), chunk))
        assert [json.loads(item) for _line, item in found] == values
        lines = [line for line, _item in found]
        assert lines == sorted(lines)
        if indent is not None:
            starts = text.split("\n")
            assert all(starts[line - 2].strip() for line in lines)

    @pytest.mark.parametrize(
        "text", ["", "{}", "[", "[1", "[1,", "[1,]", "[,1]", "[1}", "[[1]", "[1]]", '["a]', '["\\"]']
    )
    @pytest.mark.parametrize("chunk", [1, 100])
    def test_what_is_no_array_is_refused(self, text: str, chunk: int) -> None:
        with pytest.raises(ValueError, match=r"line|expected"):
            list(items(io.StringIO(text), chunk))

    def test_one_without_end_is_refused_before_it_fills_the_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(files, "MAX_RECORD_CHARS", 1000)
        endless = io.StringIO("[" + "[" * 5000)
        with pytest.raises(ValueError, match="item that begins on line 1 has over"):
            list(items(endless, 100))
        assert endless.tell() < 1500


def langchain4j_file(path: Path, count: int, more: str = "") -> Path:
    path.write_text(messages_to_json(UserMessage(f"message {number}{more}") for number in range(count)))
    return path


class TestMemory:
    """Four times as many messages take no more memory."""

    LONG = "many words " * 600

    @staticmethod
    def peak(command: str, *args: str) -> int:
        tracemalloc.start()
        try:
            call_command(command, *args, "-v0", stdout=io.StringIO())
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    @pytest.mark.slow
    def test_of_an_import(self, tmp_path: Path) -> None:
        peaks = []
        for count in (1, 300, 1_200):
            file = langchain4j_file(tmp_path / f"{count}.json", count, self.LONG)
            peaks.append(self.peak("chatmemory_import", "--format", "langchain4j", str(file), "--dry-run"))
        assert peaks[2] < 1.2 * peaks[1]

    @pytest.mark.slow
    def test_of_an_export_and_its_import(self, tmp_path: Path) -> None:
        exports, imports = [], []
        for count in (1, 300, 1_200):
            made = ConversationFactory(owner=None, window="messages", limit=10)
            Message.objects.bulk_create(self.rows(made, count))
            Conversation.objects.update(next_position=count)
            file = str(tmp_path / f"{count}.jsonl")
            exports.append(self.peak("chatmemory_export", "--output", file))
            Conversation.objects.all().delete()
            imports.append(self.peak("chatmemory_import", file))
            assert Message.objects.count() == count
            Conversation.objects.all().delete()
        assert exports[2] < 1.2 * exports[1]
        assert imports[2] < 1.2 * imports[1]

    def rows(self, made: Conversation, count: int) -> Iterator[Message]:
        for number in range(count):
            yield Message(
                conversation=made,
                position=number,
                type="USER",
                text=self.LONG,
                token_count=1,
                memory_order=number,
                added_in=1,
                created_at=NOON,
            )


# An import that halts when so many messages are there and more are about to come. It may be through before a busy
# machine comes to kill it.
HALTED = """
import os, signal, sys
from concurrent.futures import ThreadPoolExecutor
import django
django.setup()
from django.core.management import call_command
from django.db import connection
from chatmemory.models import Message

least, *arguments = sys.argv[1:]
others = ThreadPoolExecutor(1)  # has a connection of its own, which sees what was committed

def halt(execute, sql, params, many, context):
    if sql.startswith("INSERT") and Message._meta.db_table in sql:
        if others.submit(Message.objects.count).result() >= int(least):
            os.kill(os.getpid(), signal.SIGSTOP)
    return execute(sql, params, many, context)

with connection.execute_wrapper(halt):
    call_command("chatmemory_import", *arguments)
"""


@pytest.mark.django_db(transaction=True)
class TestKilled:
    @pytest.mark.slow
    def test_and_begun_again_it_is_as_if_never_killed(self, tmp_path: Path) -> None:
        file = langchain4j_file(tmp_path / "m.json", 700)
        environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": "tests.settings.base",
            "CHATMEMORY_TEST_NAME": str(connection.settings_dict["NAME"]),
        }
        for least in (100, 300):  # once it is on its way, twice
            command = [sys.executable, "-c", HALTED, str(least), "--format", "langchain4j", str(file)]
            with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
                halted = os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
                process.send_signal(signal.SIGKILL)
            assert halted is not None
            assert halted.si_status == signal.SIGSTOP
            assert least <= Message.objects.count() < 700
            assert list(verify()) == []
        assert "left out: 0" in run("--format", "langchain4j", str(file))
        assert [row.text for row in Conversation.objects.get().messages.history()] == [
            f"message {number}" for number in range(700)
        ]
        assert list(verify()) == []
        assert "messages: 0; there already: 1" in run("--format", "langchain4j", str(file))
