"""Files that are made to fill the memory, to keep an import waiting, or to flood who reads its reports."""

from __future__ import annotations

import io
import json
import os
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from chatmemory import OpenAiTokenCountEstimator, UserMessage, messages_to_json
from chatmemory.models import Conversation
from chatmemory.transfer import chat_files as openai_chat
from chatmemory.transfer import files
from chatmemory.transfer.export import conversation_lines
from chatmemory.transfer.records import MAX_PROBLEMS, BadRecordError
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db


def run(*args: str) -> str:
    out = io.StringIO()
    with pytest.raises(SystemExit):
        call_command("chatmemory_import", *args, stdout=out, stderr=out)
    return out.getvalue()


class TestALineThatIsTooLong:
    @pytest.fixture(autouse=True)
    def _bounds(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for module in files, openai_chat:
            monkeypatch.setattr(module, "MAX_RECORD_CHARS", 2_000)

    @pytest.mark.slow
    @pytest.mark.parametrize("ends", [True, False])
    def test_is_left_out_and_the_next_is_read(self, tmp_path: Path, ends: bool) -> None:
        good = json.dumps({"messages": [{"role": "user", "content": "Hi"}]})
        long = json.dumps({"messages": [{"role": "user", "content": "x" * 20_000_000}]})
        (tmp_path / "m.jsonl").write_text("\n".join([good, long, good] if ends else [good, good, long]))
        OpenAiTokenCountEstimator("gpt-4o").estimate_token_count_in_text("Hi")  # reads its vocabulary
        tracemalloc.start()
        try:
            said = run("--format", "openai", str(tmp_path / "m.jsonl"))
            assert tracemalloc.get_traced_memory()[1] < 10_000_000
        finally:
            tracemalloc.stop()
        assert f"m.jsonl:{2 if ends else 3}: has over" in said
        assert Conversation.objects.count() == 2

    def test_of_an_export_leaves_out_its_conversation(self, tmp_path: Path) -> None:
        long, short = ConversationFactory(memory_id="long"), ConversationFactory(memory_id="short")
        long.memory.add(UserMessage("x" * 3000))
        short.memory.add(UserMessage("Hi"))
        (tmp_path / "all.jsonl").write_text("".join(conversation_lines([long.pk, short.pk])))
        Conversation.objects.all().delete()
        assert "all.jsonl:2: has over" in run(str(tmp_path / "all.jsonl"))
        assert [each.memory_id for each in Conversation.objects.all()] == ["short"]

    def test_a_document_that_is_too_long_is_left_out(self, tmp_path: Path) -> None:
        (tmp_path / "m.json").write_text(json.dumps({"messages": [{"role": "user", "content": "x" * 3000}]}))
        assert "m.json: has over" in run("--format", "openai", str(tmp_path / "m.json"))

    def test_a_line_of_just_the_bound_is_read(self, tmp_path: Path) -> None:
        text = json.dumps({"messages": [{"role": "user", "content": "Hi"}]})
        (tmp_path / "m.jsonl").write_text(text.ljust(1999) + "\n" + text.ljust(2000))
        call_command("chatmemory_import", "--format", "openai", str(tmp_path / "m.jsonl"), "-v0")
        assert Conversation.objects.count() == 2


class TestWhatIsNoFile:
    def test_a_pipe_that_nobody_writes_to_is_refused(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        assert "pipe: is not a regular file" in run(str(tmp_path / "pipe"))

    @pytest.mark.parametrize("path", ["/dev/zero", "/"])
    def test_a_device_or_a_folder_is_refused(self, path: str) -> None:
        assert f"{path}: is not a regular file" in run(path)

    def test_a_missing_file_is_an_error_of_the_command(self, tmp_path: Path) -> None:
        assert "cannot be read: [Errno 2]" in run(str(tmp_path / "missing.jsonl"))


def test_an_archive_that_says_it_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "export.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for number in range(3):
            file.writestr(f"conversations-{number}.json", "[]")
    # What the directory says of their size is 4 GB each.
    data = bytearray(archive.read_bytes())
    at = data.find(b"PK\x01\x02")
    while at >= 0:
        struct.pack_into("<I", data, at + 24, 4_000_000_000)
        at = data.find(b"PK\x01\x02", at + 1)
    archive.write_bytes(data)
    assert "export.zip: its conversations take over 10000000000 bytes" in run("--format", "chatgpt", str(archive))


class TestReports:
    def test_print_the_first_thousand_problems_and_count_the_others(self, tmp_path: Path) -> None:
        (tmp_path / "m.json").write_text(json.dumps([7] * 3000))
        said = run("--format", "openai", str(tmp_path / "m.json"))
        assert said.count("expected an object, got a number") == MAX_PROBLEMS
        assert "the others are only counted" in said
        assert "left out: 3000" in said

    def test_with_strict_the_first_is_printed(self, tmp_path: Path) -> None:
        (tmp_path / "m.json").write_text(messages_to_json([UserMessage("a")])[:-1] + ', {"type": "DOG"}]')
        assert "type: expected one of" in run("--format", "langchain4j", "--strict", str(tmp_path / "m.json"))

    @pytest.mark.parametrize(
        ("problem", "printed"),
        [
            ("\x1b[2Jgone \x07", r"\x1b[2Jgone \x07"),
            ("two\nlines", r"two\nlines"),
            ("half \ud800", r"half \ud800"),
            ("Löwe 狮子", "Löwe 狮子"),
        ],
    )
    def test_hold_nothing_that_a_terminal_obeys(self, problem: Any, printed: str) -> None:
        assert str(BadRecordError("p", problem)) == f"p: {printed}"

    def test_quote_no_more_than_one_can_read(self) -> None:
        assert len(str(BadRecordError("p", "x" * 1_000_000))) < 1100
