"""The passages of what was found, with marks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chatmemory.contrib.search.query import parse
from chatmemory.contrib.search.snippets import snippet
from chatmemory.contrib.search.tokenizer import is_mark, token_texts
from tests.search.test_tokenizer import INTERESTING, TEXTS
from tests.support import budget

BEFORE, AFTER = "lorem ipsum " * 30, " dolor sit amet" * 30


def marked(text: str, query: str, *, prefix: bool = False, length: int = 160, related: bool = False) -> str:
    line, marks = snippet(text, parse(query, prefix=prefix), length=length, related=related)
    for start, end in reversed(marks):
        line = f"{line[:start]}[{line[start:end]}]{line[end:]}"
    return line


@pytest.mark.parametrize(
    ("text", "query", "expected"),
    [
        ("The Café, café!", "CAFE", "The [Café], [café]!"),
        ("a  support\n\n group", "support group", "a [support] [group]"),
        ("groups group", "group", "groups [group]"),
        ("a group in a support group", '"support group"', "a group in a [support group]"),
        ("my user_id", "user_id", "my [user_id]"),
        ("my user_id", "id user", "my [user]_[id]"),
        ("getUserName", "user", "get[User]Name"),
        ("tea, milk", "tea -milk", "[tea], milk"),
        ("我爱北京，南京", "北京", "我爱[北京]，南京"),
        ("我爱北京大学", "北京大学", "我爱[北京大学]"),
        ("猫和小猫在", "猫", "[猫]和小[猫]在"),
        ("ภาษาไทยที่นี่", "นี่", "ภาษาไทยที่[นี่]"),
        ("ｶﾞｯｺｳ", "ガッコ", "[ｶﾞｯｺ]ｳ"),
        ("e\u0301te\u0301", "ete", "[e\u0301te\u0301]"),
        ("ok 👍🏽👍", "👍🏽", "ok [👍🏽]👍"),
        ("nothing of it", "else", "nothing of it"),
        ("", "else", ""),
    ],
)
def test_what_was_searched_for_is_marked(text: str, query: str, expected: str) -> None:
    assert marked(text, query) == expected


def test_an_unfinished_word_is_marked() -> None:
    assert marked("milk and mint", "mi", prefix=True) == "[milk] and [mint]"
    assert marked("小猫在", "猫", prefix=True) == "小[猫]在"


def test_related_words_are_marked_in_a_search_by_relevance() -> None:
    assert marked("She painted cats", "painting cat", related=True) == "She [painted] cats"
    assert marked("She painted cats", "painting cat") == "She painted cats"
    assert marked("去北京", "我爱北京 去", related=True) == "[去][北京]"


def test_the_passage_has_most_of_the_words() -> None:
    text = f"tea {BEFORE}tea, tea, tea{BEFORE}green tea with milk{AFTER}"
    assert marked(text, "milk tea", length=80) == (
        "…lorem ipsum lorem ipsum green [tea] with [milk] dolor sit amet dolor sit amet dolor…"
    )


def test_of_passages_with_as_many_words_it_is_the_first() -> None:
    assert marked(f"milk {BEFORE}tea", "milk tea", length=20) == "[milk] lorem ipsum…"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"tea{AFTER}", "[tea] dolor sit amet dolor sit amet dolor…"),
        (f"{BEFORE}tea", "…lorem ipsum lorem ipsum lorem ipsum [tea]"),
        (f"{BEFORE}tea{AFTER}", "…ipsum lorem ipsum lorem ipsum [tea] dolor…"),
        ("👨‍👩‍👧" * 30 + "tea", "…" + "👨‍👩‍👧" * 7 + "[tea]"),
        ("🇩🇪" * 31 + "tea" + "🇩🇪" * 31, "…" + "🇩🇪" * 15 + "[tea]" + "🇩🇪" * 3 + "…"),
        ("e\u0301" * 301 + " tea", "…" + "e\u0301" * 18 + " [tea]"),
        ("\u0e17\u0e35\u0e48" * 100 + "tea", "…" + "\u0e17\u0e35\u0e48" * 12 + "[tea]"),
    ],
)
def test_neither_words_nor_characters_are_cut(text: str, expected: str) -> None:
    assert marked(text, "tea", length=40) == expected


def test_what_was_found_in_a_long_name_is_not_cut_off() -> None:
    assert marked("aaaaaaaaa tea_and_milk", "tea", length=12) == "…[tea]_and_…"


def test_a_passage_without_hits_is_the_beginning() -> None:
    assert marked(BEFORE, "tea", length=20) == "lorem ipsum lorem…"


@pytest.mark.slow
@given(TEXTS | st.text(st.sampled_from("ab 北京猫\n")), st.integers(1, 50), st.booleans(), st.booleans(), st.data())
@settings(max_examples=budget.examples(400))
def test_marks_are_in_the_passage(text: str, length: int, prefix: bool, related: bool, data: st.DataObject) -> None:
    query = data.draw(INTERESTING | st.sampled_from(text.split() or [""]))
    line, marks = snippet(text, parse(query, prefix=prefix), length=length, related=related)
    assert len(line.strip("…")) <= length
    edges = [0, *(edge for mark in marks for edge in mark), len(line)]
    assert edges == sorted(edges)
    assert all(start < end for start, end in marks)


@pytest.mark.slow
@given(st.lists(st.sampled_from(["a", "b", "tea", "京", "ที่", "e\u0301", "👍🏽", " ", "_", "."]), max_size=60))
@settings(max_examples=budget.examples(300))
def test_the_passage_has_what_was_found_and_whole_characters(parts: list[str]) -> None:
    text = "".join(parts)
    line, marks = snippet(text, parse("tea"), length=12)
    assert [line[start:end] for start, end in marks] == ["tea"] * len(marks)
    assert bool(marks) is ("wtea" in token_texts(text))
    cut = line.removeprefix("…")
    assert cut == line or not is_mark(cut[0])
