"""The glossary of docs/development.md: the catalogues keep to its words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.translations import CATALOGUES
from tests.test_translations import entries

LANGUAGES = {"zh_Hans": 1, "ja": 2}
"""By locale, the column of the table."""


def rows() -> list[list[str]]:
    """The rows of the table, without its head."""
    text = (ROOT / "docs" / "development.md").read_text(encoding="utf-8")
    table = text.partition("| English | Chinese |")[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table]


ROWS = rows()


def files(locale: str) -> list[Path]:
    return [catalogue.folder(locale) / "django.po" for catalogue in CATALOGUES.values()]


def prose(text: str) -> str:
    """A text without placeholders, names of the API and calls, which stay as they are."""
    return re.sub(r"%\(\w+\)[a-z]|\?\w+=?|\w+/|[\w.]*\w(?:\.\w+)+(?:\(\))?|\w+\(\)|\w*_\w*|<\w+>|\{\w+\}", " ", text)


def pattern(term: str) -> re.Pattern[str]:
    """The forms of an English word: evict, evicts, evicted."""
    stem = re.sub(r"(?:otten|ned|ted|ed|y)$", "", term)
    return re.compile(rf"\b(?:un)?{stem}\w*", re.IGNORECASE)


def test_the_table_is_read() -> None:
    assert len(ROWS) > 15
    assert pattern("pinned").search("Pin it")
    assert pattern("pinned").search("Unpin it")
    assert pattern("summary").search("Summarise")
    assert pattern("forgotten").search("Would forget 2 messages")
    assert prose("conversation.memory.compact() of a memory_id in conversations/{id}").split() == ["of", "a", "in"]


@pytest.mark.slow
@pytest.mark.parametrize("locale", LANGUAGES)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_word_is_translated_by_the_same_word_everywhere(row: list[str], locale: str) -> None:
    if " " in row[0]:
        return  # it is here for what it must not be
    wanted = row[LANGUAGES[locale]].split(" / ")
    others = [
        f"{entry.texts['msgid']} -> {translation}"
        for file in files(locale)
        for entry in entries(file)[1:]
        for translation in entry.translations
        if pattern(row[0]).search(prose(entry.texts["msgid"]))
        and not any(word.lower() in translation.lower() for word in wanted)
    ]
    assert others == []


@pytest.mark.parametrize("locale", LANGUAGES)
def test_words_that_mislead_are_nowhere(locale: str) -> None:
    refused = {word for row in ROWS for word in row[3].split(", ") if word}
    texts = [text for file in files(locale) for entry in entries(file)[1:] for text in entry.translations]
    assert [(word, text) for word in refused for text in texts if word in text] == []
