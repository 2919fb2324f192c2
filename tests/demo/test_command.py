"""``python manage.py demo``, run as a newcomer runs it: as a process of its own.

Runs that end soon are forked from a process that has imported everything. The first run and the server are started as a
newcomer starts them.
"""

from __future__ import annotations

import http.client
import json
import os
import pty
import re
import shutil
import signal
import socket
import sqlite3
import sys
import time
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest
from django.core.management.base import CommandError
from django.test import override_settings

from chatmemory import AiMessage, ToolExecutionResultMessage
from demo_project.demo_user import password
from demo_project.management.commands.demo import Command as DemoCommand
from demo_project.sample_loading import Sample, read_samples
from tests.support.forked_demo import ForkedDemo
from tests.support.paths import ROOT
from tests.support.ports import reserved_port

pytestmark = pytest.mark.slow  # the demo that its tests share

MANAGE = ("manage.py", "demo")
SAMPLES = {sample.memory_id: sample for sample in read_samples()}

# The demo's own settings, except that hashing a password does not take a quarter of a second.
SETTINGS = """
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from demo_project.settings import *

PBKDF2PasswordHasher.iterations = 1
"""

# The demo, struck by a signal in the middle of the 200th message.
INTERRUPTED = """
import os, sys
from django.core.management import execute_from_command_line
import django

django.setup()
from chatmemory.database.conversation_memory import ConversationMemory

add, said = ConversationMemory.add, []

def add_or_stop(self, *messages):
    said.append(messages)
    add(self, *messages)
    if len(said) == 200:
        os.kill(os.getpid(), int(sys.argv.pop()))

ConversationMemory.add = add_or_stop
execute_from_command_line(["manage.py", "demo", "--no-serve"])
"""

COUNTS = """
    SELECT memory_id, message_count, retained_count, version,
           (SELECT count(*) FROM chatmemory_message m WHERE m.conversation_id = c.id AND origin = 'said'),
           (SELECT count(*) FROM chatmemory_message m WHERE m.conversation_id = c.id AND evicted_in IS NULL)
    FROM chatmemory_conversation c
"""


def write_settings(folder: Path, settings: Sequence[str] = ()) -> None:
    """Write the demo's settings and these lines to a file of ``folder``."""
    (folder / "own_settings.py").write_text("\n".join([SETTINGS, *settings, ""]), encoding="utf-8")


def environment(folder: Path) -> dict[str, str]:
    """The variables of a process that has the settings of ``folder``."""
    path = os.pathsep.join([str(folder), str(ROOT)])
    return {**os.environ, "DJANGO_SETTINGS_MODULE": "own_settings", "PYTHONPATH": path}


class Demo:
    """The demo on a database of its own."""

    def __init__(self, folder: Path, forked: ForkedDemo | None = None, database: Path | None = None) -> None:
        self.folder = folder
        self.forked = forked
        self.database = database or folder / "demo.sqlite3"
        self.settings = [f"DATABASES['default']['NAME'] = {str(self.database)!r}"]
        self.environment = environment(folder)
        write_settings(folder, self.settings)

    def add_setting(self, line: str) -> None:
        self.settings.append(line)
        write_settings(self.folder, self.settings)

    def start(self, *arguments: str, out: int = PIPE) -> Popen[str]:
        return Popen(
            [sys.executable, *MANAGE, *arguments],
            cwd=ROOT,
            env=self.environment,
            stdout=out,
            stderr=PIPE,
            text=True,
            # A shell that runs the tests in the background has SIGINT ignored, and children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """The exit code, and what was printed on stdout and stderr."""
        if self.forked is not None:
            return self.forked.run(list(arguments), "\n".join(self.settings))
        with self.start(*arguments) as process:
            out, err = process.communicate(timeout=300)
        return process.returncode, out, err

    def run_well(self, *arguments: str) -> str:
        code, out, err = self.run(*arguments)
        assert (code, err) == (0, "")
        return out

    def complaint(self, *arguments: str) -> str:
        """The one line of a run that fails as it should."""
        code, _out, err = self.run(*arguments)
        assert code == 1, err
        assert len(err.splitlines()) == 1, err
        assert err.startswith("CommandError: ")
        return err

    def password(self) -> str:
        """The password that it prints, once it has run."""
        with override_settings(SECRET_KEY=(ROOT / "demo.key").read_text()):
            return password()

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.database)) as database, database:
            return database.execute(sql).fetchall()

    def everything(self) -> list[str]:
        with closing(sqlite3.connect(self.database)) as database:
            return [line for line in database.iterdump() if "chatmemory_" in line or "auth_user" in line]


@pytest.fixture(scope="module")
def forked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkedDemo]:
    folder = tmp_path_factory.mktemp("forked")
    write_settings(folder)
    with ForkedDemo(folder, environment(folder)) as forked:
        yield forked


@pytest.fixture
def demo(tmp_path: Path, forked: ForkedDemo) -> Demo:
    return Demo(tmp_path, forked)


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Demo, str]:
    """A demo that ran once, to look at and to copy, and what it printed."""
    demo = Demo(tmp_path_factory.mktemp("first"))
    return demo, demo.run_well("--no-serve")


@pytest.fixture
def loaded(demo: Demo, first_run: tuple[Demo, str]) -> Demo:
    """A demo that ran once, of the test's own."""
    shutil.copy(first_run[0].database, demo.database)
    return demo


@pytest.fixture
def free_port() -> Iterator[int]:
    with reserved_port() as port:
        yield port


def assert_complete(demo: Demo) -> None:
    rows = demo.query(COUNTS)
    assert sorted(row[0] for row in rows) == sorted(SAMPLES)
    for memory_id, said, retained, version, stored, still_there in rows:
        summaries = SAMPLES[memory_id].settings.get("compact_at") is not None
        assert said == version - summaries == stored == len(SAMPLES[memory_id].messages)
        assert retained == still_there


def test_the_first_run_loads_every_sample_message_by_message(first_run: tuple[Demo, str]) -> None:
    demo, out = first_run
    assert_complete(demo)
    for memory_id, sample in SAMPLES.items():
        assert f"{memory_id}: {len(sample.messages)} messages" in out
    assert "\r" not in out, "a bar is for terminals"


@pytest.mark.parametrize("window", ["messages", "tokens"])
def test_the_windows_have_evicted_most_of_each_conversation(first_run: tuple[Demo, str], window: str) -> None:
    rows = first_run[0].query(
        f"SELECT message_count, retained_count FROM chatmemory_conversation WHERE window='{window}'"
    )
    assert rows
    for said, retained in rows:
        assert 0 < retained < said / 2


def test_the_demo_user_owns_the_conversations_and_may_do_everything(first_run: tuple[Demo, str]) -> None:
    demo, out = first_run
    assert demo.query("SELECT username, is_staff, is_superuser, is_active FROM auth_user") == [("demo", 1, 1, 1)]
    assert demo.query("SELECT count(*) FROM chatmemory_conversation c JOIN auth_user u ON c.owner_id = u.id") == [(5,)]
    for line in [
        "Chat      http://127.0.0.1:8000/\n",
        "Admin     http://127.0.0.1:8000/admin/\n",
        "API docs  http://127.0.0.1:8000/api/docs/\n",
        "User      demo",
    ]:
        assert line in out
    assert re.search(r"Password  [0-9a-f]{12}\n", out)


def test_the_samples_were_said_over_two_weeks(first_run: tuple[Demo, str]) -> None:
    demo, _out = first_run
    # Not the number of dates: that depends on the hour at which the demo begins.
    span = "julianday(max(created_at)) - julianday(min(created_at))"
    rows = demo.query(f"SELECT {span} FROM chatmemory_message GROUP BY conversation_id")
    assert [round(days) for (days,) in sorted(rows)] == [9, 10, 11, 12, 13]
    ends = "SELECT conversation_id, max(created_at) FROM chatmemory_message GROUP BY 1"
    assert demo.query(f"{ends} ORDER BY 1") == demo.query(
        "SELECT id, updated_at FROM chatmemory_conversation ORDER BY 1"
    )
    unordered = "SELECT count(*) FROM chatmemory_message m JOIN chatmemory_message n USING (conversation_id) WHERE "
    assert demo.query(f"{unordered} m.added_in < n.added_in AND m.created_at >= n.created_at") == [(0,)]
    assert demo.query(f"{unordered} m.evicted_in = n.added_in AND m.evicted_at <> n.created_at") == [(0,)]


def test_one_sample_has_a_summary_that_claims_to_be_no_models(first_run: tuple[Demo, str]) -> None:
    demo, _out = first_run
    summaries = "SELECT text FROM chatmemory_message WHERE origin = 'summary' AND evicted_in IS NULL"
    ((text,),) = demo.query(summaries)
    assert text.startswith("<summary>\nMade by a small program, not by a model:")
    due = "SELECT memory_id FROM chatmemory_conversation WHERE compact_at IS NOT NULL"
    assert demo.query(due) == [("support-4711",)]


def test_one_sample_has_a_window_that_keeps_the_prompt_cache(first_run: tuple[Demo, str]) -> None:
    demo, _out = first_run
    marks = "SELECT id FROM chatmemory_conversation WHERE low_water < 100 AND whole_turns AND keep_tool_results = 1"
    placeholders = "SELECT count(*) FROM chatmemory_message WHERE origin = 'cleared'"
    assert len(demo.query(marks)) == 1
    assert demo.query(f"{placeholders} AND conversation_id IN ({marks})") == demo.query(placeholders) == [(4,)]
    assert demo.query(f"{placeholders} AND evicted_in IS NULL") == [(1,)]


def test_without_the_docs_it_prints_where_the_api_is(loaded: Demo) -> None:
    loaded.forked = None  # it has imported them
    loaded.add_setting("INSTALLED_APPS = [app for app in INSTALLED_APPS if not app.startswith('drf_spectacular')]")
    assert "API       http://127.0.0.1:8000/api/\n" in loaded.run_well("--no-serve")


@pytest.mark.usefixtures("sdks")
def test_it_says_at_its_start_that_the_model_cannot_answer(loaded: Demo) -> None:
    loaded.add_setting("__import__('os').environ.update(CHATMEMORY_DEMO_MODEL='anthropic:tiny', ANTHROPIC_API_KEY='')")
    code, out, err = loaded.run("--no-serve")
    assert (code, err) == (0, "The chat cannot answer yet. api.anthropic.com needs a key. Set ANTHROPIC_API_KEY.\n")
    assert "Password" in out


def test_a_second_run_changes_nothing(loaded: Demo) -> None:
    before = loaded.everything()
    out = loaded.run_well("--no-serve")
    assert f"Password  {loaded.password()}\n" in out
    assert loaded.everything() == before


def test_a_run_makes_the_printed_password_true_again(loaded: Demo) -> None:
    loaded.query("UPDATE auth_user SET password = '!', is_staff = 0")
    loaded.run_well("--no-serve")
    [(stored, staff)] = loaded.query("SELECT password, is_staff FROM auth_user")
    assert stored.startswith("pbkdf2_")
    assert staff


@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_an_interrupted_load_is_completed(demo: Demo, forked: ForkedDemo, how: signal.Signals, code: int) -> None:
    returncode, out, err = forked.run([str(int(how))], "\n".join(demo.settings), INTERRUPTED)
    assert (returncode, err) == (code, "")
    assert ("goes on from here" in out) == (how is signal.SIGINT)
    there = {memory_id: stored for memory_id, *_counters, stored, _retained in demo.query(COUNTS)}
    assert 0 < len(there) < len(SAMPLES)
    assert there == {memory_id: len(SAMPLES[memory_id].messages) for memory_id in there}
    demo.run_well("--no-serve")
    assert_complete(demo)


def test_reset_starts_from_an_empty_database_and_leaves_other_files(loaded: Demo) -> None:
    loaded.query("UPDATE chatmemory_conversation SET title = 'changed'")
    loaded.query("INSERT INTO auth_group (name) VALUES ('mine')")
    neighbours = [loaded.database.with_name(name) for name in ("demo.sqlite3.bak", "demo.sqlite", "notes.sqlite3-wal")]
    for neighbour in neighbours:
        neighbour.write_text("keep me")
    for suffix in ("-wal", "-shm", "-journal"):
        Path(f"{loaded.database}{suffix}").write_bytes(b"left behind")
    loaded.run_well("--no-serve", "--reset")
    assert_complete(loaded)
    assert loaded.query("SELECT count(*) FROM chatmemory_conversation WHERE title = 'changed'") == [(0,)]
    assert loaded.query("SELECT count(*) FROM auth_group") == [(0,)]
    assert [neighbour.read_text() for neighbour in neighbours] == ["keep me"] * 3
    assert not Path(f"{loaded.database}-journal").exists()


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_reset_says_what_it_cannot_remove(loaded: Demo, suffix: str) -> None:
    Path(f"{loaded.database}{suffix}").mkdir()
    assert f"{loaded.database}{suffix} cannot be removed" in loaded.complaint("--no-serve", "--reset")


def answer(process: Popen[str], port: int, path: str, **headers: str) -> tuple[int, str]:
    """Status and body, as soon as the server listens."""
    deadline = time.monotonic() + 300
    while True:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as client:
            try:
                client.request("GET", path, headers=headers)
                response = client.getresponse()
                return response.status, response.read().decode()
            except (ConnectionError, http.client.HTTPException):  # refused, or cut off while it starts to listen
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline


def test_it_serves_admin_and_api_until_ctrl_c(loaded: Demo, free_port: int) -> None:
    with loaded.start("--port", str(free_port)) as process:
        try:
            status, body = answer(process, free_port, "/admin/login/")
            credentials = b64encode(f"demo:{loaded.password()}".encode()).decode()
            api_status, api_body = answer(
                process, free_port, "/api/conversations/", Authorization=f"Basic {credentials}"
            )
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert status == 200
    assert "csrfmiddlewaretoken" in body
    assert api_status == 200
    assert all(memory_id in api_body for memory_id in SAMPLES)
    assert process.returncode == 0
    assert "Traceback" not in err
    assert f"http://127.0.0.1:{free_port}/admin/" in out


def test_a_terminal_gets_a_bar(loaded: Demo) -> None:
    missing = "SELECT id FROM chatmemory_conversation WHERE memory_id = 'support-4711'"
    loaded.query(f"DELETE FROM chatmemory_message WHERE conversation_id IN ({missing})")
    loaded.query("DELETE FROM chatmemory_conversation WHERE memory_id = 'support-4711'")
    terminal, out = pty.openpty()
    shown = b""
    try:
        with loaded.start("--no-serve", out=out) as process:
            os.close(out)
            with suppress(OSError):  # how Linux tells the end of it
                while chunk := os.read(terminal, 4096):
                    shown += chunk
            process.communicate(timeout=60)
    finally:
        os.close(terminal)
    total = len(SAMPLES["support-4711"].messages)
    assert process.returncode == 0
    assert f"\r[{'-' * 10}".encode() in shown
    assert f"#] {total}/{total} messages\r\n".encode() in shown


def test_a_busy_port_is_found_before_anything_is_done(loaded: Demo) -> None:
    before = loaded.database.read_bytes()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        line = loaded.complaint("--port", str(port), "--reset")
    assert f"Port {port} is busy" in line
    assert "--port" in line
    assert loaded.database.read_bytes() == before


@pytest.mark.parametrize("port", ["0", "65536", "-1", "http", "٣"])
def test_a_port_is_a_number_from_1_to_65535(demo: Demo, port: str) -> None:
    code, _out, err = demo.run(f"--port={port}")
    assert code == 2
    assert "1 to 65535" in err
    assert not demo.database.exists()


@pytest.mark.parametrize("options", [["--no-serve"], ["--no-serve", "--reset"]])
@pytest.mark.parametrize("folder", ["file", "missing"])
def test_a_folder_that_cannot_be_written(tmp_path: Path, forked: ForkedDemo, folder: str, options: list[str]) -> None:
    # Root may write anywhere, but not below a file.
    (tmp_path / "file").write_text("no folder")
    demo = Demo(tmp_path, forked, tmp_path / folder / "demo.sqlite3")
    line = demo.complaint(*options)
    assert str(demo.database) in line
    assert "writable" in line


def test_a_read_only_database(loaded: Demo) -> None:
    # Root may write to any file, but SQLite heeds who opens it for reading only.
    loaded.add_setting(f"DATABASES['default'].update(NAME='file:{loaded.database}?mode=ro', OPTIONS={{'uri': True}})")
    loaded.query("DELETE FROM chatmemory_message")
    loaded.query("DELETE FROM chatmemory_conversation")
    assert "writable" in loaded.complaint("--no-serve")


@pytest.mark.parametrize("options", [["--no-serve"], ["--no-serve", "--reset"]])
def test_a_file_that_is_no_database_is_left_alone(demo: Demo, options: list[str]) -> None:
    demo.database.write_text("dear diary, today I learnt about windows")
    line = demo.complaint(*options)
    assert "is no SQLite database. Move it away" in line
    assert demo.database.read_text().startswith("dear diary")


@pytest.mark.parametrize("options", [["--no-serve"], ["--no-serve", "--reset"]])
def test_a_folder_where_the_database_should_be(demo: Demo, options: list[str]) -> None:
    demo.database.mkdir()
    assert "is no file. Move it away" in demo.complaint(*options)


def test_a_database_in_use_by_another_program(loaded: Demo) -> None:
    loaded.query("DELETE FROM chatmemory_message")
    loaded.query("DELETE FROM chatmemory_conversation")
    loaded.add_setting("DATABASES['default']['OPTIONS']['timeout'] = 0.1")
    with closing(sqlite3.connect(loaded.database, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert "in use by another program" in loaded.complaint("--no-serve")


HALF_MADE = {
    "tables without migrations": "CREATE TABLE auth_user (id integer)",
    "an app's tables without migrations": "CREATE TABLE chatmemory_conversation (id integer)",
    "another's table of migrations": "CREATE TABLE django_migrations (id integer)",
}

OUTDATED = {
    "a missing column": "ALTER TABLE chatmemory_conversation DROP COLUMN title",
    "a column of another version": "ALTER TABLE chatmemory_message ADD COLUMN mood text NOT NULL DEFAULT ''",
    "a missing table": "DROP TABLE chatmemory_message",
    "migrations that are not in order": "DELETE FROM django_migrations WHERE app = 'auth' AND name = '0001_initial'",
}


@pytest.mark.parametrize("sql", HALF_MADE.values(), ids=HALF_MADE)
def test_a_half_made_database(demo: Demo, sql: str) -> None:
    demo.query(sql)
    assert "manage.py demo --reset" in demo.complaint("--no-serve")
    demo.run_well("--no-serve", "--reset")
    assert_complete(demo)


@pytest.mark.parametrize("sql", OUTDATED.values(), ids=OUTDATED)
def test_a_database_of_another_version(loaded: Demo, sql: str) -> None:
    loaded.query(sql)
    assert "manage.py demo --reset" in loaded.complaint("--no-serve")


def test_a_damaged_database(loaded: Demo) -> None:
    damaged = loaded.database.read_bytes()
    loaded.database.write_bytes(damaged[:100] + b"\xff" * 3996 + damaged[4096:])
    assert "manage.py demo --reset" in loaded.complaint("--no-serve")
    loaded.run_well("--no-serve", "--reset")
    assert_complete(loaded)


def test_migrations_that_were_left_half_way_go_on(loaded: Demo) -> None:
    loaded.query("DROP TABLE django_session")
    loaded.query("DELETE FROM django_migrations WHERE app = 'sessions'")
    loaded.run_well("--no-serve")
    assert_complete(loaded)


class TestSamples:
    @pytest.fixture(params=SAMPLES.values(), ids=SAMPLES)
    def sample(self, request: pytest.FixtureRequest) -> Sample:
        sample: Sample = request.param
        return sample

    def test_there_are_five_or_more_with_both_kinds_of_window(self) -> None:
        assert len(SAMPLES) >= 5
        assert len(SAMPLES) == len(list((ROOT / "demo_project" / "samples").iterdir()))
        assert {sample.settings["window"] for sample in SAMPLES.values()} == {"messages", "tokens"}

    def test_tool_results_follow_their_calls(self, sample: Sample) -> None:
        open_calls: list[tuple[str | None, str]] = []
        for message in sample.messages:
            if isinstance(message, ToolExecutionResultMessage):
                open_calls.remove((message.id, message.tool_name))
                continue
            assert not open_calls
            if isinstance(message, AiMessage):
                open_calls = [(request.id, request.name) for request in message.tool_execution_requests]
        assert not open_calls

    def test_the_arguments_of_tools_are_json(self, sample: Sample) -> None:
        for message in sample.messages:
            if isinstance(message, AiMessage):
                for request in message.tool_execution_requests:
                    assert isinstance(json.loads(request.arguments), dict)

    def test_the_support_case_is_long_and_has_parallel_and_failed_tools(self) -> None:
        messages = SAMPLES["support-4711"].messages
        assert len(messages) >= 150
        assert any(isinstance(m, AiMessage) and len(m.tool_execution_requests) > 1 for m in messages)
        assert any(isinstance(m, ToolExecutionResultMessage) and m.is_error for m in messages)


def test_without_what_its_tools_need_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic", None)
    with pytest.raises(CommandError, match=re.escape('pip install -e ".[assistant]"')):
        DemoCommand().handle(port=0, no_serve=True, reset=False)
