"""Files that cannot be read: the error names the cause, and what to do."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path

import pytest

from chatmemory.models import Conversation
from tests.support.imports import run_import

pytestmark = pytest.mark.django_db

FORMATS = ["jsonl", "langchain4j", "openai", "chatgpt"]
SAID = json.dumps([{"role": "user", "content": "Tee für Zoë"}], ensure_ascii=False)


def load(path: Path, format: str) -> str:
    text = run_import(format, str(path))
    assert not Conversation.objects.exists()
    assert "left out: 1" in text
    return text


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"])
def test_another_encoding(tmp_path: Path, format: str, encoding: str) -> None:
    """PowerShell writes UTF-16 with a mark at its beginning, others without."""
    file = tmp_path / "m.json"
    file.write_text(SAID, encoding=encoding)
    text = load(file, format)
    assert f"is {encoding[:6].upper()}; save it as UTF-8, and import that" in text
    assert "JSON" not in text


@pytest.mark.parametrize("format", FORMATS)
def test_bytes_that_are_not_utf_8(tmp_path: Path, format: str) -> None:
    file = tmp_path / ("m.jsonl" if format == "jsonl" else "m.json")
    file.write_bytes(SAID.encode("latin-1"))
    assert "has bytes that are not UTF-8, such as 0xfc; save the file as UTF-8, and import that" in load(file, format)


@pytest.mark.parametrize("format", ["jsonl", "langchain4j", "openai"])
def test_an_archive_for_a_format_without_archives(tmp_path: Path, format: str) -> None:
    with zipfile.ZipFile(tmp_path / "m.zip", "w") as archive:
        archive.writestr("m.json", SAID)
        archive.writestr("conversations.json", SAID)
    text = load(tmp_path / "m.zip", format)
    assert "m.zip: is a zip archive, which only --format chatgpt reads; unpack it, and import its files" in text


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", ["m.zip", "m.json"])
def test_an_archive_that_is_cut_off(tmp_path: Path, format: str, name: str) -> None:
    whole = tmp_path / "whole.zip"
    with zipfile.ZipFile(whole, "w") as archive:
        archive.writestr("conversations.json", SAID)
    (tmp_path / name).write_bytes(whole.read_bytes()[:-40])
    assert "is a zip archive that is cut off or broken; download or copy it again" in load(tmp_path / name, format)


@pytest.mark.parametrize("format", FORMATS)
def test_a_compressed_file(tmp_path: Path, format: str) -> None:
    (tmp_path / "m.json.gz").write_bytes(gzip.compress(SAID.encode()))
    assert "m.json.gz: is compressed by gzip; unpack it, and import that" in load(tmp_path / "m.json.gz", format)


@pytest.mark.parametrize("line", ['{"messages": [', "{messages: []}", '{"messages": []} x'])
def test_a_broken_line_names_no_other_cause(tmp_path: Path, line: str) -> None:
    (tmp_path / "m.jsonl").write_text(f"{line}\n")
    text = load(tmp_path / "m.jsonl", "openai")
    assert "m.jsonl:1: not JSON: " in text
    assert ".jsonl" not in text.partition("not JSON")[2]


def test_lines_in_a_file_of_another_name(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text('{"messages": []}\n{"messages": []}\n')
    assert "the name of a file of JSON lines must end with .jsonl" in load(tmp_path / "m.json", "openai")


def test_a_broken_file_that_is_no_lines(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text('{"messages": [')
    assert ".jsonl" not in load(tmp_path / "m.json", "openai")


def test_a_broken_message_of_langchain4j(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text('[{"type": "USER", text: 1}]')
    assert "m.json:1: item 1: not JSON: " in load(tmp_path / "m.json", "langchain4j")
