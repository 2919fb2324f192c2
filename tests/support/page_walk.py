"""A walk through a page as a newcomer reads it: its blocks are performed in their order, in a project of their own."""

from __future__ import annotations

import http.cookiejar
import json
import re
import shlex
import shutil
import subprocess
import tomllib
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode, urljoin, urlsplit

import pytest

from tests.support.chat_completions import chat_completions
from tests.support.new_project import PASSWORD, NewProject, make_environment, running
from tests.support.pages import Block, blocks_of
from tests.support.paths import ROOT

__all__ = ["NOT_PERFORMED", "WALKED", "PageWalk", "empty_project", "named", "readme_walk", "take_a_turn"]

_OUTPUT = "a test compares it with what the command prints"
_PARSED = "tests/test_docs.py parses its commands; tests of the commands run them"
_SNIPPET = "a part of a program whose rest is the reader's"

NOT_PERFORMED: dict[str, dict[str, str]] = {
    "README.md": {
        'pip install -e ".[assistant]" && python manage.py demo': "tests/demo runs the demo",
        'pip install -e ".[test]" && pytest': "it is the command that runs this",
    },
    "docs/chat.md": {
        'document.addEventListener("chatmemory:ready"': _SNIPPET,
        ":root {": _SNIPPET,
        "default-src 'none'": "tests/chat/test_startproject_browser.py has pages with this policy",
    },
    "docs/compaction.md": {"$ python manage.py chatmemory_compact": "what a command prints that is performed"},
    "docs/development.md": {"python -m venv": "the commands of CI"},
    "docs/import-export.md": {"python manage.py chatmemory_export": _PARSED},
    "docs/looking-after.md": {"python manage.py chatmemory_verify": _PARSED},
    "docs/partitions.md": {
        "BEGIN;": "tests/support/partitions.py runs it on PostgreSQL",
        "SELECT citus_set_coordinator_host": "it needs servers with Citus",
        "python manage.py migrate": f"it needs servers with Citus; {_PARSED}",
    },
    "docs/react.md": {"import { useChat }": "tests/ai_sdk/test_use_chat_browser.py runs it"},
    "docs/rest.md": {
        "const messageRepository = ": "tests/ai_sdk/test_assistant_ui.py runs it",
        "const csrfToken = ": _SNIPPET,
        "let latest = version;": "tests/ai_sdk/test_lost_connections.py runs it",
        "const transport = ": _SNIPPET,
        "const response = ": _SNIPPET,
        "{": "tests/test_docs.py compares it with what the API answers",
        "const texts = ": _SNIPPET,
        "import static dev.langchain4j": "tests/rest/test_java_store.py compiles and runs it",
    },
    "docs/search.md": {
        "<result>": "what a model gets",
        '{"conversation": "support-4711"': _OUTPUT,
        "$ python manage.py chatmemory_replay": _OUTPUT,
    },
    "docs/settings.md": {"$ python manage.py chatmemory_window": _PARSED},
    "docs/tenants.md": {"ALTER TABLE": "tests/tenants/test_tenants.py has such policies on PostgreSQL"},
    "docs/windows.md": {"$ python manage.py chatmemory_replay": _OUTPUT},
}
"""By page, the beginnings of the blocks that are not performed, and why not.

The other blocks of a page are performed by a walk, or if they are Python, by ``tests/test_docs.py``.
"""

WALKED: dict[str, str | None] = {
    "README.md": None,
    "docs/tutorial.md": None,
    "docs/branches.md": "README.md",
    "docs/chat.md": "README.md",
    "docs/compaction.md": "README.md",
    "docs/feedback.md": "README.md",
    "docs/permissions.md": "README.md",
    "docs/search.md": "README.md",
    "docs/usage.md": "README.md",
}
"""The pages that build a project, each with the page whose project it continues: None for an empty folder."""

# What ``manage.py shell`` does with the lines that somebody types or pastes, without IPython: an empty line ends an
# indented block. The first error ends it.
_SHELL = """
import code, json, os, sys


class Console(code.InteractiveConsole):
    def fail(self, *args, **kwargs):
        kind, error, _ = sys.exc_info()
        super().showtraceback() if not issubclass(kind, SyntaxError) else super().showsyntaxerror()
        sys.exit(f"{name}: the shell refuses this")

    showtraceback = showsyntaxerror = fail


console = Console()
for name, text in json.loads(os.environ["BLOCKS"]):
    for line in [*text.splitlines(), ""]:
        is_incomplete = console.push(line)
    if is_incomplete:
        sys.exit(f"{name}: the shell waits for more")
"""


def named(block: Block) -> list[str]:
    """The key of ``NOT_PERFORMED`` that is about a block; empty if it is performed."""
    return [beginning for beginning in NOT_PERFORMED.get(block.page, ()) if block.text.startswith(beginning)]


class PageWalk:
    """A project, and what pages do to it."""

    def __init__(self, project: NewProject) -> None:
        self.project = project

    def perform(self, page: Path, visit: Callable[[str], None] | None = None) -> None:
        """Perform the blocks of a page, one after the other.

        A block whose first line is a path is written to this file, or added to the settings. ``sh`` is run. Other
        Python is typed into ``manage.py shell``: into one shell until a file or a command comes, for then a reader
        starts another one.

        Args:
            page: the page.
            visit: called with the address of ``runserver``, where the page starts it.

        Raises:
            AssertionError: a block failed, or it is neither performed nor named in ``NOT_PERFORMED``.
        """
        typed: list[Block] = []
        blocks = [block for block in blocks_of(page) if not named(block)]
        for block in blocks:
            if block.language == "python" and block.file is None:
                typed.append(block)
                continue
            self._type(typed)
            typed = []
            if block.file is not None:
                self._write(block.file, block.text)
            elif block.language == "sh":
                for line in block.text.splitlines():
                    self._run(block, line, visit)
            else:
                raise AssertionError(f"{block}: {block.language} without a path; name it in NOT_PERFORMED")
        self._type(typed)
        if blocks and blocks[-1].file is not None:  # nothing has loaded it yet
            self.project.run("manage.py", "check")

    def shell(self, text: str) -> None:
        """Type into a new shell.

        Raises:
            AssertionError: the text fails.
        """
        self._type([Block("the test", 1, "python", text)])

    def continued(self, folder: Path) -> PageWalk:
        """Copy the project as it is now, for another page that goes on from here."""
        shutil.copytree(self.project.folder, folder)
        return PageWalk(replace(self.project, folder=folder))

    def _type(self, blocks: list[Block]) -> None:
        if blocks:
            given = json.dumps([(str(block), block.text) for block in blocks])
            shell = replace(self.project, more=self.project.more | {"BLOCKS": given})
            shell.run("manage.py", "shell", "--no-imports", "--command", _SHELL)

    def _write(self, name: str, text: str) -> None:
        path = self.project.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a" if path.name == "settings.py" else "w", encoding="utf-8") as file:
            file.write(text)

    def _run(self, block: Block, line: str, visit: Callable[[str], None] | None) -> None:
        command = re.sub(r"\s+#.*$", "", line)
        if command.startswith("python -m venv "):
            pass  # there is one
        elif command.startswith("pip install "):
            # What the extras need is there; that they are enough, only a new environment shows.
            assert _has_extras(line), f"{block}: {line}: no clone, or an extra that does not exist"
        elif variable := re.fullmatch(r"export (\w+)=(.*)", command):
            self.project = replace(self.project, more=self.project.more | {variable[1]: variable[2]})
        elif command == "python manage.py runserver":
            assert visit is not None, f"{block}: a server that nobody asks"
            with running(self.project) as site:
                visit(site)
        elif command:
            if command == "python manage.py createsuperuser":
                command += " --no-input --username boss"
            self._run_in_bash(f"{block}: {line}", command)

    def _run_in_bash(self, name: str, command: str) -> None:
        programs = self.project.python.parent
        environment = self.project.environment
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.project.folder,
            env=environment | {"PATH": f"{programs}:{environment['PATH']}"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"{name}\n{done.stdout}{done.stderr}"


def _has_extras(line: str) -> bool:
    (requirement,) = shlex.split(line, comments=True)[2:]
    found = re.fullmatch(r"path/to/the/clone\[([\w,-]+)\]", requirement)
    known = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    return found is not None and set(found[1].split(",")) <= known.keys()


@pytest.fixture(scope="session")
def empty_project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewProject]:
    """An environment beside an empty folder; models are asked on loopback."""
    made = make_environment(tmp_path_factory.mktemp("pages"))
    with chat_completions() as (address, _):
        variables = {
            "OPENAI_BASE_URL": address,
            "OPENAI_API_KEY": "none",
            "DJANGO_SUPERUSER_PASSWORD": PASSWORD,
            "DJANGO_SUPERUSER_EMAIL": "x@example.com",
        }
        yield replace(made, more=variables)


@pytest.fixture(scope="session")
def readme_walk(empty_project: NewProject) -> PageWalk:
    """The project after README.md was performed."""
    walk = PageWalk(empty_project)
    walk.perform(ROOT / "README.md", lambda site: take_a_turn(f"{site}/chat/", "I got 2 messages."))
    return walk


def take_a_turn(page: str, answer: str) -> None:
    """Log in where a page leads to, and say something to its assistant.

    Raises:
        AssertionError: there is no chat on the page, or another answer.
    """
    cookies = http.cookiejar.CookieJar()
    ask = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(cookies)).open

    def token() -> str:
        return next(cookie.value or "" for cookie in cookies if cookie.name == "csrftoken")

    with ask(page) as response:
        login = response.geturl()
    form = {"username": "boss", "password": PASSWORD, "csrfmiddlewaretoken": token(), "next": urlsplit(page).path}
    with ask(login, urlencode(form).encode()) as response:
        text = response.read().decode()
    assert response.geturl() == page
    found = re.search(r"<chatmemory-chat[^>]*>", text)
    assert found is not None, text
    api = urljoin(page, "/api/conversations/")
    with ask(api) as response:
        [conversation] = json.load(response)["results"]
    message = {"id": "1", "role": "user", "parts": [{"type": "text", "text": "Hello"}]}
    body = json.dumps({"id": conversation["id"], "trigger": "submit-message", "messages": [message]}).encode()
    headers = {"Content-Type": "application/json", "X-CSRFToken": token()}
    with ask(urllib.request.Request(f"{api}{conversation['id']}/turns/", body, headers)) as response:
        events = [
            line.removeprefix("data: ") for line in response.read().decode().splitlines() if line[:7] == "data: {"
        ]
    deltas = [event["delta"] for event in map(json.loads, events) if event["type"] == "text-delta"]
    assert "".join(deltas) == answer, events
