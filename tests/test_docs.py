"""README.md and the pages of docs/: their Python runs, their links lead somewhere, and each thing is said once."""

from __future__ import annotations

import gc
import io
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from agent_framework import Message
from asgiref.sync import async_to_sync
from django.core.management import call_command, load_command_class
from django.dispatch import Signal
from django.test import Client

from chatmemory import signals
from chatmemory.conf import DEFAULTS
from chatmemory.core.entries import EvictionReason
from chatmemory.core.exceptions import CODES
from chatmemory.models import Conversation
from demo_project.sample_loading import load_sample, read_samples
from tests.support.agent_framework_client import ScriptedClient
from tests.support.api import post, url, user_message
from tests.support.chat_completions import chat_completions
from tests.support.factories import ConversationFactory, UserFactory
from tests.support.page_walk import WALKED
from tests.support.pages import FENCED, PAGES, blocks_of, name_of
from tests.support.paths import ROOT
from tests.support.problems import problem_classes

LINKING_PAGES = sorted({*PAGES, *ROOT.glob("*.md")})
APPS_WITH_COMMANDS = {
    "chatmemory_distribute": "chatmemory.contrib.citus",
    "chatmemory_index": "chatmemory.contrib.search",
}
LANGUAGES = {"console", "css", "html", "java", "js", "json", "jsx", "python", "sh", "sql"}
LONG_ENOUGH = 60
"""Characters from which on a sentence is meant to stand on one page only."""


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


every_page = pytest.mark.parametrize("page", PAGES, ids=name_of)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What a model on loopback was sent."""
    with chat_completions() as (address, asked):
        monkeypatch.setenv("OPENAI_BASE_URL", address)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        yield asked


@pytest.fixture
def receivers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is connected to the signals is disconnected after the test."""
    for signal in vars(signals).values():
        if isinstance(signal, Signal):
            monkeypatch.setattr(signal, "receivers", list(signal.receivers))


def check_assistant(namespace: dict[str, Any], printed: str, asked: list[Any]) -> None:
    # One memory for all; one for each user; in the database; one for each user there; a conversation; with tools,
    # streamed; for a title, though within the transaction of a test none is asked for; with documents.
    assert [len(messages) for messages in asked] == [1, 3, 1, 1, 3, 1, 1, 3, 2, 4, 1, 2]
    found, question = asked[-1][-1]["content"]
    assert ("Sencha is in season" in found["text"], question["text"]) == (True, "Which tea is in season?")
    told = Conversation.objects.latest("created_at").messages.history()
    assert [row.text for row in told] == ["You work in a tea shop.", "Which tea is in season?", "I got 2 messages."]
    assert "\nI got 4 messages.\nAdded(" in printed
    assert namespace["conversation"].messages.history().count() == 5


def check_frameworks(namespace: dict[str, Any], printed: str, asked: list[Any]) -> None:
    langchain, llama_index = printed.splitlines()
    assert langchain.startswith("[HumanMessage(content='Hi! My name is Ann.'")
    assert llama_index.startswith("[ChatMessage(role=<MessageRole.USER: 'user'>")
    assert {"answer", "answer_sync"} <= namespace.keys()
    client = ScriptedClient(Message("assistant", ["Which one?"]))
    assert async_to_sync(namespace["answer_in_session"])(client, None, "Tea, please.") == "Which one?"
    assert [message.text for message in client.got[0]] == ["Hi! My name is Ann.", "Tea, please."]
    told = Conversation.objects.get(memory_id="support").messages.history()
    assert [row.text for row in told] == ["Hi! My name is Ann.", "Tea, please.", "Which one?"]


def check_langchain4j(namespace: dict[str, Any], printed: str, asked: list[Any]) -> None:
    assert Conversation.objects.get().messages.get().text == "Hi"


def check_settings(namespace: dict[str, Any], printed: str, asked: list[Any]) -> None:
    assert namespace["CHATMEMORY"] == DEFAULTS


def add_module(name: str, names: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let other files of the page import this one."""
    package, _, _ = name.rpartition(".")
    for each in filter(None, (package, name)):
        monkeypatch.setitem(sys.modules, each, ModuleType(each))
    vars(sys.modules[name]).update(names)


CHECKS: dict[str, Callable[[dict[str, Any], str, list[Any]], None]] = {
    "docs/assistant.md": check_assistant,
    "docs/frameworks.md": check_frameworks,
    "docs/langchain4j.md": check_langchain4j,
    "docs/settings.md": check_settings,
}
"""What must be true after the blocks of a page, beyond what they assert themselves."""


PAGES_TO_EXECUTE = [page for page in PAGES if name_of(page) not in WALKED]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES_TO_EXECUTE, ids=name_of)
@pytest.mark.django_db
@pytest.mark.usefixtures("receivers")
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # the examples leave their clients to the garbage collector
def test_the_python_of_a_page_runs(
    page: Path, asked: list[Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace: dict[str, Any] = {}
    for block in blocks_of(page, "python"):
        # A file has only what it imports; what a page shows later goes on from there.
        # Settings are added to those that startproject wrote.
        is_settings = block.file is not None and block.file.endswith("settings.py")
        names = namespace if block.file is None else {"INSTALLED_APPS": []} if is_settings else {}
        exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), names)
        if block.file is not None:
            add_module(block.file.removesuffix(".py").replace("/", "."), names, monkeypatch)
            namespace |= names
    check = CHECKS.get(name_of(page))
    if check is not None:
        check(namespace, capsys.readouterr().out, asked)
    namespace.clear()
    gc.collect()  # now, for later the warning would be another test's


def test_what_is_checked_after_a_page_is_about_a_page() -> None:
    assert CHECKS.keys() <= set(map(name_of, PAGES_TO_EXECUTE))


@every_page
def test_no_block_is_missed(page: Path) -> None:
    fences = re.findall(r"^.*(?:```|~~~).*$", text_of(page), re.MULTILINE)
    assert all(re.fullmatch(r"```\w*", fence) for fence in fences), fences
    opening, closing = fences[::2], fences[1::2]
    assert {fence.removeprefix("```") for fence in opening} <= LANGUAGES
    assert set(closing) <= {"```"}
    assert len(opening) == len(closing) == len(FENCED.findall(text_of(page)))


@every_page
def test_the_commands_of_a_page_exist_with_their_options(page: Path) -> None:
    for line in "".join(block.text for block in blocks_of(page, "console", "sh")).splitlines():
        if line.startswith("python manage.py chatmemory_"):
            name, *arguments = shlex.split(line, comments=True)[2:]
            app = APPS_WITH_COMMANDS.get(name, "chatmemory")
            load_command_class(app, name).create_parser("manage.py", name).parse_args(arguments)


def anchors(page: Path) -> set[str]:
    """What GitHub calls the headings of a page."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.*)$", FENCED.sub("", text_of(page)), re.MULTILINE):
        shown = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", shown.strip().lower()).replace(" ", "-")
        assert slug not in found, f"{name_of(page)} has two headings {heading!r}"
        found.add(slug)
    return found


@pytest.mark.parametrize("page", LINKING_PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(\s*([^)\s]+)\s*\)", FENCED.sub("", text_of(page)))
    for link in links:
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_relative_to(ROOT), link
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_readme_is_a_front_page_that_leads_to_every_page() -> None:
    readme = text_of(ROOT / "README.md")
    assert len(readme.encode()) <= 11_500
    assert [name for name in map(name_of, PAGES[1:]) if f"]({name})" not in readme] == []


def sentences(page: Path) -> set[str]:
    """The long sentences of a page, outside its code, tables, headings and pictures."""
    text = re.sub(r"^(?:\||#|!\[).*$", "", FENCED.sub("", text_of(page)), flags=re.MULTILINE)
    text = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", text, flags=re.DOTALL)
    paragraphs = re.split(r"\n\s*\n|^\s*(?:[-*]|\d+\.) ", text, flags=re.MULTILINE)
    plain = [" ".join(re.sub(r"[`*]", "", paragraph).split()).lower() for paragraph in paragraphs]
    found = {sentence for paragraph in plain for sentence in re.split(r"(?<=[.!?:]) ", paragraph)}
    return {sentence for sentence in found if len(sentence) >= LONG_ENOUGH}


def test_no_sentence_stands_on_two_pages() -> None:
    place: dict[str, Path] = {}
    for page in PAGES:
        for sentence in sentences(page):
            assert sentence not in place, f"{name_of(page)} and {name_of(place[sentence])}: {sentence}"
            place[sentence] = page
    assert len(place) > 100  # the pages were read


def test_what_the_table_of_recipes_touches_exists() -> None:
    (recipes,) = re.findall(r"^## To add something\n(.*?)^## ", text_of(ROOT / "docs" / "development.md"), re.M | re.S)
    paths = {path for path in re.findall(r"`([^`]+)`", recipes) if "/" in path}
    assert len(paths) > 10
    assert not [path for path in paths if not ((ROOT / path).exists() or (ROOT / "chatmemory" / path).exists())]


def test_the_table_of_eviction_reasons_is_what_is_declared() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", text_of(ROOT / "docs" / "memory.md"), re.MULTILINE)
    declared = [(reason.value, reason.explanation) for reason in EvictionReason]
    assert [row for row in rows if row[0] in {*EvictionReason}] == declared


@pytest.fixture
def samples(db: None) -> None:
    owner = UserFactory()
    for sample in read_samples():
        load_sample(sample, owner, lambda: None)


PLAIN = {"low_water": 100, "whole_turns": False, "keep_tool_results": None}


@pytest.mark.usefixtures("samples")
@pytest.mark.parametrize(
    ("memory_id", "settings", "row"),
    [
        ("support-4711", PLAIN, "| support chat, 2,000 tokens | the defaults |"),
        ("support-4711", PLAIN | {"low_water": 70, "whole_turns": True}, "| | `low_water=70, whole_turns=True` |"),
        ("coding-invoices", PLAIN, "| agent with tools, 4,000 tokens | the defaults |"),
        (
            "coding-invoices",
            {"low_water": 70, "whole_turns": True, "keep_tool_results": 3},
            "| | `low_water=70, whole_turns=True, keep_tool_results=3` |",
        ),
    ],
)
def test_the_readme_says_what_replays_of_the_samples_say(memory_id: str, settings: Any, row: str) -> None:
    found = Conversation.objects.get(memory_id=memory_id).memory.replay(**settings)
    assert f"{row} {found.hit_share:.0%} | {found.prefix_breaks} of {found.requests} |" in text_of(ROOT / "README.md")


@pytest.mark.usefixtures("samples")
def test_what_the_page_shows_of_the_command_is_what_it_prints() -> None:
    [block] = blocks_of(ROOT / "docs" / "windows.md", "console")
    command, *lines = block.text.strip().splitlines()
    name, *arguments = shlex.split(command.removeprefix("$ python manage.py "))
    out = io.StringIO()
    call_command(name, *arguments, stdout=out, stderr=io.StringIO())
    assert [line.rstrip() for line in out.getvalue().splitlines()] == [line.rstrip() for line in lines]


def test_the_page_has_every_code_of_an_error() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|(?: .* \|)?$", text_of(ROOT / "docs" / "rest.md"), re.MULTILINE)
    known = {each.code: str(each.status_code) for each in problem_classes()} | {"invalid": "400"}
    assert {code: status for code, status in rows if status.isdecimal()} == known
    assert [row for row in rows if row[0] in CODES and not row[1].isdecimal()] == list(CODES.items())


@pytest.mark.django_db
def test_the_error_on_the_page_is_what_the_api_answers(api: Client, user: Any) -> None:
    [block] = blocks_of(ROOT / "docs" / "rest.md", "json")
    messages = {"messages": [user_message("Hello"), user_message("x" * 400_001)]}
    assert post(api, f"{url(ConversationFactory(owner=user))}messages/", messages).json() == json.loads(block.text)
