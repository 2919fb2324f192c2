"""What people write to search for something."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chatmemory.contrib.search.query import LONGEST_QUERY, MOST_TERMS, Query, has_phrase, parse
from chatmemory.contrib.search.tokenizer import fits, sequence, token_texts
from chatmemory.core.exceptions import InvalidValueError
from tests.search.test_tokenizer import INTERESTING, TEXTS
from tests.support import budget


def finds(query: Query, text: str) -> bool:
    """Return whether an exact search finds the text, by the plainest way to read a query."""
    found, steps = token_texts(text), sequence(text)

    def has(phrase: tuple[str, ...]) -> bool:
        return any(fits(phrase[0], token) for token in found) if len(phrase) == 1 else has_phrase(phrase, steps)

    return (
        all(has((word,)) for word in query.words)
        and all(has(phrase) for phrase in query.phrases)
        and (query.prefix is None or any(token.startswith(query.prefix) for token in found))
        and not any(has(phrase) for phrase in query.excluded)
    )


@pytest.mark.parametrize(
    ("query", "found", "not_found"),
    [
        ("café", ["Ein CAFE!", "Café", "cafe\u0301"], ["cafeteria"]),
        ("hello world", ["world, hello"], ["hello"]),
        ('"support group"', ["a Support Group."], ["group support", "support a group"]),
        ("“support group”", ["support group"], ["group support"]),
        ("«support group»", ["support group"], ["group support"]),
        ("＂support group＂", ["support group"], ["group support"]),
        ('"support group', ["my support group"], ["group support"]),
        ('"support group"tea', ["tea in the support group"], ["support group"]),
        ("tea -milk", ["tea"], ["tea with milk"]),
        ("tea －milk", ["tea"], ["tea with milk"]),
        ('tea -"with milk"', ["milk with tea"], ["tea with milk"]),
        ("tea -「牛奶」", ["tea"], ["tea 牛奶"]),
        ("tea -don't", ["tea don", "tea t don"], ["tea, don’t"]),
        ("tea - milk", ["tea milk"], ["tea"]),
        ("--verbose", ["the option --verbose"], ["the option"]),
        ("e-mail", ["an E-Mail", "my-e-mail e-mail"], ["an email", "e mail"]),
        ("user_id", ["SELECT user_id"], ["user id"]),
        ("user id", ["user_id", "id of the user"], ["user"]),
        ("example.com", ["see https://example.com/a", "anna@example.com", "www.example.com"], ["example org"]),
        ("https://example.com/a", ["at www.example.com/a."], ["https://example.com/b"]),
        ("1,234.56", ["$1,234.56"], ["1234.56"]),
        ("API", ["APIs", "api"], ["apiary"]),
        ("iphone", ["my iPhone15", "iPhone"], ["phone"]),
        ("O'Brien", ["O’Brien"], ["Brien"]),
        ("北京", ["我爱北京", "北京大学", "北京"], ["北 京都", "东京", "北"]),
        ("北京大学", ["在北京大学"], ["北京 大学", "大学北京", "北京大 京大学"]),
        ("大学 北京", ["北京大学", "大学在北京"], ["北京"]),
        ("猫", ["猫", "我有猫", "猫在", "小猫在"], ["狗"]),
        ("北京 -大学", ["北京"], ["北京大学"]),
        ("北京 -猫", ["北京"], ["北京的猫在"]),
        ('"北京 大学"', ["北京 大学", "北京大学"], ["北京的大学", "大学 北京"]),
        ("「北京」", ["北京大学"], ["东京"]),
        ('"京 京"', ["京 京", "京京"], ["北京", "京"]),
        ('看"北京"吧', ["看北京吧", "吧看北京"], ["看北", "北京"]),
        ("東京タワー", ["東京タワーへ"], ["東京のタワー"]),
        ("ﾀﾜｰ", ["東京タワー"], ["東京"]),
        ("한국", ["한국어", "대한국"], ["한 국"]),
        ("ประเทศ", ["ประเทศไทย"], ["ไทย"]),
        ("ພາສາ", ["ພາສາລາວ"], ["ລາວ"]),
        ("ភាសា", ["ភាសាខ្មែរ", "ភា\u200bសា"], ["ខ្មែរ"]),
        ("မြန်မာ", ["မြန်မာစာ"], ["စာ"]),
        ("محمد", ["مُحَمَّد"], ["أحمد"]),
        ('צה"ל שלום', ['שָׁלוֹם, צה"ל'], ["שלום"]),
        ("नमस्ते", ["नमस्ते!"], ["नमस्कार"]),
        ("தமிழ்", ["தமிழ்."], ["தமிழ"]),
        ("👍", ["ok👍👍"], ["👍🏽", "ok"]),
        ("Strasse", ["Straße"], ["Gasse"]),
        ("Οδυσσεύς", ["ΟΔΥΣΣΕΥΣ"], ["Οδυσσέα"]),
    ],
)
def test_people_find_what_they_search_for(query: str, found: list[str], not_found: list[str]) -> None:
    parsed = parse(query)
    assert [text for text in found if not finds(parsed, text)] == []
    assert [text for text in not_found if finds(parsed, text)] == []


@pytest.mark.parametrize(
    ("query", "found", "not_found"),
    [
        ("tea mi", ["tea with milk"], ["milk", "tea"]),
        ("tea mi ", ["tea mi"], ["tea with milk"]),
        ("tea mi,", ["tea mi"], ["tea with milk"]),
        ("mi te", ["mi tea"], ["milk tea"]),
        ('tea "mi"', ["tea mi"], ["tea with milk"]),
        ('tea "with mi', ["tea with mi"], ["tea with milk"]),
        ("tea -mi", ["tea with milk"], ["tea mi"]),
        ("get_us", ["get_user_name"], ["get us"]),
        ("get_", ["get_user_name"], ["gets"]),
        ("anna@exam", ["anna@example.org"], ["anna example"]),
        ("1,2", ["1,234.56"], ["1 2"]),
        ("北", ["我爱北京"], ["南京"]),
        ("北京大", ["北京大学"], ["北京"]),
        ("ที่น", ["ที่นี่"], ["ที่"]),
        ("Caro", ["caroline’s"], ["car"]),
    ],
)
def test_the_last_word_may_be_unfinished_while_one_types(query: str, found: list[str], not_found: list[str]) -> None:
    parsed = parse(query, prefix=True)
    assert [text for text in found if not finds(parsed, text)] == []
    assert [text for text in not_found if finds(parsed, text)] == []


def test_a_search_by_relevance_has_the_parts_of_identifiers_and_runs_too() -> None:
    query = parse('What is user_id? 我爱北京 猫 "tea time" -milk')
    assert query.terms == (
        *("wwhat", "wis", "xuser_id", "wuser", "wid", "c我爱", "c爱北", "c北京", "c猫", "wtea", "wtime"),
        *("c我", "c爱", "c北", "c京"),
    )
    assert query.quoted == (("wtea", "wtime"),)
    assert query.excluded == (("wmilk",),)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("猫叫什么", ("c猫叫", "c叫什", "c什么", "c猫", "c叫", "c什", "c么")),
        ("京のカ", ("c京の", "cのカ", "c京")),
        ("한국어", ("c한국", "c국어")),
    ],
)
def test_each_ideograph_counts_for_relevance(text: str, terms: tuple[str, ...]) -> None:
    assert parse(text).terms == terms


def test_pairs_count_before_ideographs() -> None:
    terms = parse("".join(map(chr, range(0x4E00, 0x4E00 + 60)))).terms
    assert len(terms) == MOST_TERMS
    assert [len(term) for term in terms] == [3] * 59 + [2] * 5


@pytest.mark.parametrize("text", ["", "  ", "-", '"', '""', "“”", "…", "-milk", '-"milk', "\x00\ud800"])
def test_a_query_without_anything_to_find_is_empty(text: str) -> None:
    assert parse(text).is_empty
    assert parse(text, prefix=True).is_empty


@pytest.mark.parametrize("text", ["a", "猫", '"a"', "👍"])
def test_a_query_with_something_to_find_is_not_empty(text: str) -> None:
    assert not parse(text).is_empty
    assert not parse(text, prefix=True).is_empty


def test_words_count_once() -> None:
    assert parse('tea TEA "tea" "a b" "A b" -x -X') == Query(
        words=("wtea",),
        phrases=(("wa", "wb"),),
        quoted=(("wtea",), ("wa", "wb")),
        excluded=(("wx",),),
        terms=("wtea", "wa", "wb"),
    )


def test_of_too_many_words_the_first_count() -> None:
    words = [f"w{chr(97 + number // 10)}{chr(97 + number % 10)}" for number in range(100)]
    query = parse(" ".join(words))
    assert query.words == tuple("w" + word for word in words[:MOST_TERMS])
    assert query.terms == query.words


def test_of_a_long_phrase_the_beginning_counts() -> None:
    (phrase,) = parse("".join(map(chr, range(0x4E00, 0x4E00 + 500)))).phrases
    assert len(phrase) == MOST_TERMS
    assert phrase[0] == "c一丁"


def test_a_query_that_is_too_long_is_an_error() -> None:
    assert parse("a" * LONGEST_QUERY).words
    with pytest.raises(InvalidValueError, match="has 1001 characters; at most 1000") as error:
        parse("a" * (LONGEST_QUERY + 1))
    assert error.value.code == "max_length"


@pytest.mark.slow
@given(TEXTS | st.text(st.sampled_from("ab -\"“”「」«» \t北京猫ที่-'_.")))
@settings(max_examples=budget.examples(300))
def test_every_text_can_be_parsed(text: str) -> None:
    for prefix in (False, True):
        query = parse(text, prefix=prefix)
        required = [*query.words, *(token for phrase in query.phrases + query.excluded for token in phrase)]
        assert len(required) <= MOST_TERMS
        assert len({*query.words}) == len(query.words)
        assert all(len(phrase) > 1 for phrase in query.phrases)


@pytest.mark.slow
@given(INTERESTING)
@settings(max_examples=budget.examples(300))
def test_a_text_is_found_by_itself_and_by_its_words(text: str) -> None:
    text = text.replace("-", "_").replace('"', " ").replace("‐", "_")
    for query in (text, f'"{text}"', *text.split()):
        parsed = parse(query)
        assert parsed.is_empty or finds(parsed, text)
        assert finds(parse(query, prefix=True), text)


@pytest.mark.slow
@given(INTERESTING)
@settings(max_examples=budget.examples(300))
def test_a_query_in_another_normal_form_is_the_same(text: str) -> None:
    assert parse(unicodedata.normalize("NFD", text)) == parse(unicodedata.normalize("NFC", text))
