"""The translations: complete, and as compiled as they are written."""

from __future__ import annotations

import ast
import gettext
import re
import struct
from dataclasses import dataclass, field
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import translation

from chatmemory import AiMessage, SystemMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.models import Conversation
from tests.support.factories import ConversationFactory, UserFactory
from tests.support.translations import APP, CATALOGUES, LOCALES, Catalogue, Key, marked_in_python, marked_in_template
from tests.tools.write_translations import updated


@dataclass
class Entry:
    """One string of a .po file."""

    flags: set[str] = field(default_factory=set)

    texts: dict[str, str] = field(default_factory=dict)
    """By keyword: msgctxt, msgid, msgid_plural, msgstr, msgstr[0] …"""

    @property
    def key(self) -> Key:
        return self.texts.get("msgctxt"), self.texts["msgid"], self.texts.get("msgid_plural")

    @property
    def translations(self) -> list[str]:
        return [text for keyword, text in self.texts.items() if keyword.startswith("msgstr")]


@cache
def entries(path: Path) -> list[Entry]:
    """A .po file's entries, the first of which is its header."""
    found = []
    for block in path.read_text(encoding="utf-8").strip().split("\n\n"):
        entry, keyword = Entry(), ""
        for line in block.splitlines():
            if line.startswith("#"):
                assert not line.startswith("#~"), f"obsolete: {line}"
                if line.startswith("#,"):
                    entry.flags |= {flag.strip() for flag in line[2:].split(",")}
                continue
            if not line.startswith('"'):
                keyword, line = line.split(" ", 1)
            entry.texts[keyword] = entry.texts.get(keyword, "") + ast.literal_eval(line)
        found.append(entry)
    return found


def compiled(path: Path) -> tuple[gettext.GNUTranslations, int]:
    """A .mo file, and how many entries it has."""
    with path.open("rb") as file:
        content = file.read()
        file.seek(0)
        order = "<" if content[:4] == b"\xde\x12\x04\x95" else ">"
        return gettext.GNUTranslations(file), struct.unpack_from(f"{order}I", content, 8)[0]


def placeholders(text: str) -> list[str]:
    return sorted(re.findall(r"%\(\w+\)[a-z]|\{\w*\}", text))


@pytest.fixture(params=CATALOGUES.values(), ids=CATALOGUES)
def catalogue(request: pytest.FixtureRequest) -> Catalogue:
    """The app's strings, and the demo's."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(params=LOCALES.values())
def folder(request: pytest.FixtureRequest, catalogue: Catalogue) -> Path:
    """Where a language's catalog is."""
    return catalogue.folder(str(request.param))


def test_the_search_finds_what_is_marked() -> None:
    source = '_("a"); ngettext("b", "bs", 2); pgettext("c", "d"); other("e"); translation.gettext_lazy("f" "g")'
    assert set(marked_in_python(source)) == {
        (None, "a", None),
        (None, "b", "bs"),
        ("c", "d", None),
        (None, "fg", None),
    }
    assert list(marked_in_python("gettext(message); error.text(gettext); gettext(self.message)")) == []
    for mistake in ('_(f"a {b}")', '_("a" % b)', "gettext(str(error))"):
        with pytest.raises(AssertionError, match="no literal"):
            list(marked_in_python(mistake))
    template = (
        """{% load i18n %}{% translate "It's (a) \\"b\\"" %}{{ x|default:_("none") }}{% translate "c" context "d" %}"""
        "{% blocktranslate trimmed count n=1 %}\n one {{ n }} {% plural %} many {{ n }} {% endblocktranslate %}"
    )
    assert {key[1] for key in marked_in_template(template)} >= {"none", "c", "one %(n)s"}
    assert len(set(marked_in_template(template))) == 4


@pytest.mark.slow
def test_every_string_is_there_and_no_other(folder: Path, catalogue: Catalogue) -> None:
    written = [entry.key for entry in entries(folder / "django.po")[1:]]
    assert written == list(catalogue.marked), "run python -m tests.tools.write_translations"


def test_no_string_is_there_with_and_without_a_plural(catalogue: Catalogue) -> None:
    keys = [(context, message) for context, message, _plural in catalogue.marked]
    assert [key for key in keys if keys.count(key) > 1] == [], "compilemessages refuses the file"


def test_the_files_are_as_the_tool_writes_them(folder: Path, catalogue: Catalogue) -> None:
    file = folder / "django.po"
    written = str(updated(catalogue, file))
    assert written.strip() == file.read_text(encoding="utf-8").strip(), "run python -m tests.tools.write_translations"


def test_every_string_is_translated(folder: Path) -> None:
    for entry in entries(folder / "django.po"):
        assert "fuzzy" not in entry.flags, entry
        assert len(entry.translations) == 1, entry
        assert entry.translations[0].strip(), f"translate it: {entry}"


def test_placeholders_are_kept(folder: Path) -> None:
    for entry in entries(folder / "django.po")[1:]:
        _, message, plural = entry.key
        assert placeholders(entry.translations[0]) == placeholders(plural or message), entry
        if placeholders(message):
            assert not re.search(r"%(?!%|\()", entry.translations[0].replace("%%", "")), entry


def test_it_is_compiled_as_it_is_written(folder: Path) -> None:
    written = entries(folder / "django.po")
    catalog, count = compiled(folder / "django.mo")
    assert count == len(written), "run python -m tests.tools.write_translations"
    assert catalog.gettext("") == written[0].translations[0]
    for entry in written[1:]:
        context, message, plural = entry.key
        if plural is None:
            said = catalog.pgettext(context, message) if context else catalog.gettext(message)
            assert said == entry.translations[0], entry
        else:
            for number in (0, 1, 2):
                said = (
                    catalog.npgettext(context, message, plural, number)
                    if context
                    else catalog.ngettext(message, plural, number)
                )
                assert said == entry.translations[0], entry


@pytest.fixture
def conversation(db: None) -> Conversation:
    """It has something of everything: a tool call, evicted messages, a synthetic one, a cleared result, a pin."""
    made: Conversation = ConversationFactory(
        owner=UserFactory(username="marta"), memory_id="tea-7", title="春茶", window="messages", limit=4
    )
    made.memory.add(SystemMessage("甲"), *(UserMessage("乙") for _ in range(4)))
    call = ToolExecutionRequest("call_1", "weather", '{"city":"Oslo"}')
    made.memory.add(AiMessage(None, [call]), ToolExecutionResultMessage("call_1", "weather", "丙"))
    made.memory.set([SystemMessage("甲"), UserMessage("丁")])
    made.memory.add(AiMessage(None, [call]), ToolExecutionResultMessage("call_1", "weather", "戊" * 99))
    made.memory.clear_tool_results(keep=0)
    made.memory.set_window(limit=10, low_water=70, whole_turns=True, keep_tool_results=2)
    made.memory.add(
        UserMessage("己"), AiMessage(None, [call]), ToolExecutionResultMessage("call_1", "weather", "戊" * 99)
    )
    made.memory.add(UserMessage("庚"))
    made.memory.pin(made.memory.conversation.next_position - 1)
    made.refresh_from_db()
    return made


def visible(page: str) -> str:
    """What a page says where our templates and columns are, its labels for screen readers included."""
    part = page[page.index('id="content-main"') : page.rindex('id="footer"')]
    part = re.sub(r"<(textarea|script).*?</\1>", " ", part, flags=re.DOTALL)
    # Django's own headings, which it has not translated into each language.
    part = re.sub(r'<thead class="visually-hidden">.*?</thead>', " ", part, flags=re.DOTALL)
    part = re.sub(r'\s(?:aria-label|title|placeholder)="([^"]*)"', r">\1<i ", part)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", part)).split())


@cache
def english(locale: str) -> list[tuple[str, re.Pattern[str]]]:
    """The English strings of the app that have no place in a page of this language."""
    found = []
    for entry in entries(APP.folder(locale) / "django.po")[1:]:
        for message in filter(None, entry.key[1:]):
            pattern = re.compile(r"(?<!\w)" + re.sub(r"%\\\(\w+\\\)[sd]", r"\\S+", re.escape(message)) + r"(?!\w)")
            if not pattern.search(entry.translations[0]):
                found.append((message, pattern))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("language", LOCALES)
@pytest.mark.parametrize(
    ("action", "query", "message"),
    [
        ("changelist", "", "fullness"),
        ("change", "", "In memory now"),
        ("change", "", "dropped by a rewrite"),
        ("change", "?view=history", "Where the memory begins"),
        ("memory", "?version=1", "As JSON, to copy"),
        ("memory", "?answer=5", "What it had"),
        ("memory", "?answer=4&against=3", "Show"),
        ("memory", "?answer=99", "This is the memory now."),
        ("memory", "?version=3&against=1", "Compare"),
        ("memory", "?version=3&against=3", "Nothing: both are the same."),
        ("window", "", "Windows side by side"),
        ("window", "?1-window=messages&1-limit=2", "Apply this window"),
        ("window", "?1-window=messages&1-limit=0", "limit"),
        ("clear", "", "Yes, clear it"),
        ("clear_tool_results", "", "There is no old tool result to clear."),
        ("clear_tool_results", "?keep=0", "What would be cleared"),
        ("history", "", None),
        ("messages", "", "retained"),
        ("dashboard", "", "Why messages were evicted"),
    ],
)
def test_pages_speak_the_language(
    admin_client: Client,
    settings: Any,
    conversation: Conversation,
    language: str,
    action: str,
    query: str,
    message: str | None,
) -> None:
    settings.LANGUAGE_CODE = language
    addresses = {
        "changelist": reverse("admin:chatmemory_conversation_changelist"),
        "messages": reverse("admin:chatmemory_message_changelist"),
        "dashboard": reverse("admin:app_list", args=["chatmemory"]),
    }
    address = addresses.get(action) or reverse(f"admin:chatmemory_conversation_{action}", args=[conversation.pk])
    response = admin_client.get(address + query)
    assert response.status_code == 200
    shown = visible(response.content.decode())
    assert [said for said, pattern in english(LOCALES[language]) if pattern.search(shown)] == []
    if message:
        with translation.override(language):
            assert translation.gettext(message) in shown


@pytest.mark.slow
@pytest.mark.parametrize("language", LOCALES)
def test_pages_about_summaries_speak_the_language(admin_client: Client, settings: Any, language: str) -> None:
    settings.LANGUAGE_CODE = language
    settings.CHATMEMORY = {
        **getattr(settings, "CHATMEMORY", {}),
        "SUMMARIZER": "demo_project.chat.summarizer.summarize",
    }
    made = ConversationFactory(
        owner=UserFactory(username="marta"), memory_id="tea-8", title="春茶", window="messages", limit=9, compact_at=90
    )

    def say() -> None:
        for _ in range(6):
            made.memory.add(UserMessage("甲" * 200), AiMessage("乙" * 200))

    def fail(messages: Any, previous: str | None) -> str:
        raise TimeoutError("丙")

    say()
    made.memory.compact(lambda messages, previous: "丁")
    say()
    with pytest.raises(TimeoutError):
        made.memory.compact(fail)
    for action, query in (("change", "?position=0"), ("change", ""), ("compact", ""), ("compact", "?keep=100")):
        address = reverse(f"admin:chatmemory_conversation_{action}", args=[made.pk])
        shown = visible(admin_client.get(address + query).content.decode()).replace("<summary>", "")
        shown = shown.replace("</summary>", "")  # what the model gets
        assert [said for said, pattern in english(LOCALES[language]) if pattern.search(shown)] == []


@pytest.mark.slow
@pytest.mark.parametrize("language", LOCALES)
def test_what_was_done_is_said_in_the_language(
    admin_client: Client, settings: Any, conversation: Conversation, language: str
) -> None:
    settings.LANGUAGE_CODE = language
    change = reverse("admin:chatmemory_conversation_window", args=[conversation.pk])
    conversation.memory.unpin(conversation.next_position - 1)
    wanted = {"1-window": "messages", "1-limit": "1", "1-low_water": "50"}
    seen = re.findall(r'name="seen" value="([^"]+)"', admin_client.get(change, wanted).content.decode())
    response = admin_client.post(change, {**wanted, "seen": seen[0]}, follow=True)
    assert response.status_code == 200
    expected = {
        "zh-hans": "窗口已改为最多 1 条消息。 今后：移出到 50%。 已移出 7 条消息。",
        "ja": "ウィンドウを最大1件に変更しました。 今後：50%まで外す。 7件のメッセージがメモリから外れました。",
    }
    assert expected[language] in response.content.decode()
