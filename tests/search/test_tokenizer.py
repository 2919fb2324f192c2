"""The tokens of texts in many scripts, and what holds for every text."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chatmemory.contrib.search.tokenizer import (
    LONGEST_TOKEN,
    fits,
    is_beginning,
    root,
    sequence,
    sequence_tokens,
    token_texts,
    tokens,
)
from tests.support import budget

WORDS = {
    "English": ("Don't stop, Caroline’s here!", "wdon wt wstop wcaroline ws where"),
    "German": ("Straße, GRÜSSE STRASSE Ärger", "wstrasse wgrusse wstrasse warger"),
    "French": ("L’été à l'école, cœur Œuvre", "wl wete wa wl wecole wcoeur woeuvre"),
    "Spanish": ("¿Mañana? ¡Adiós!", "wmanana wadios"),
    "Polish": ("Łódź żółć", "wlodz wzolc"),
    "Turkish": ("ışık IŞIK İstanbul istanbul", "wisik wisik wistanbul wistanbul"),
    "Vietnamese": ("Đường phở Việt", "wduong wpho wviet"),
    "Danish": ("Ørsted ærlig", "worsted waerlig"),
    "Greek": ("Καλημέρα ΟΔΥΣΣΕΥΣ Οδυσσεύς ᾳ", "wκαλημερα wοδυσσευσ wοδυσσευσ wα"),
    "Russian": ("Ёлка елка йод Чай слово́", "wелка wелка wйод wчай wслово"),
    "Ukrainian": ("Їжак п'ять пʼять", "wїжак wп wять wп wять"),
    "Belarusian": ("Ўсё", "wўсе"),
    "Arabic": ("مُحَمَّد محمد محـــمد أحمد احمد", "wمحمد wمحمد wمحمد wاحمد wاحمد"),
    "Persian": ("می\u200cخواهم كتاب کتاب", "wميخواهم wكتاب wكتاب"),
    "Hebrew": ("שָׁלוֹם שלום", "wשלום wשלום"),
    "Hindi": ("नमस्ते, हिन्दी।", "wनमस्ते wहिन्दी"),
    "Hindi without dots": ("ज़रूर जरूर माँ मां पड़ोसन", "wजरूर wजरूर wमां wमां wपड़ोसन"),
    "Tamil": ("வணக்கம் தமிழ்", "wவணக்கம் wதமிழ்"),
    "Bengali": ("বাংলা", "wবাংলা"),
    "Georgian": ("თბილისი", "wთბილისი"),
    "full width": ("Ｈｅｌｌｏ", "whello"),
    "soft hyphen": ("in\u00adde\u200bx", "windex"),
}

CHARACTERS = {
    "Chinese": ("我爱北京。猫", "c我爱 c爱北 c北京 c京 c猫"),
    "Chinese beyond 16 bits": ("𠮷野家", "c𠮷野 c野家 c家"),
    "Japanese": ("東京タワー", "c東京 c京タ cタワ cワー cー"),
    "Japanese in narrow characters": ("ｶﾞｯｺｳ", "cガッ cッコ cコウ cウ"),
    "Korean": ("안녕하세요 네", "c안녕 c녕하 c하세 c세요 c요 c네"),
    "Korean laughter": ("ㅋㅋ", "cᄏᄏ cᄏ"),
    "Thai": ("ที่นี่", "cที่นี่ cนี่"),
    "Lao": ("ພາສາ", "cພາ cາສ cສາ cາ"),
    "Khmer": ("ភាសា", "cភាសា cសា"),
    "Khmer with spaces of no width": ("ភា\u200bសា", "cភាសា cសា"),
    "Burmese": ("စကား", "cစကား cကား"),
    "with Latin words": ("买iPhone吧", "c买 wiphone wphone c吧"),
    "with numbers": ("2024年5月", "n2024 c年 n5 c月"),
}

NAMES = {
    "camel case": ("getUserName", "wgetusername wget wuser wname"),
    "abbreviations in camel case": ("XMLHttpRequest APIs", "wxmlhttprequest wxml whttp wrequest wapis wapi"),
    "snake case": ("user_name", "xuser_name wuser wname"),
    "kebab case": ("well-known", "xwell-known wwell wknown"),
    "another hyphen": ("well‐known well\u2011known", "xwell-known wwell wknown xwell-known wwell wknown"),
    "dots": ("node.js", "xnode.js wnode wjs"),
    "double underscores": ("__init__ a__b", "winit xa__b wa wb"),
    "version": ("v2.3.1", "xv2.3.1 xv2 n3 n1"),
    "number": ("$1,234.56", "x1,234.56 n1 n234 n56"),
    "comma between words": ("one,two", "wone wtwo"),
    "digits of other scripts": ("٢٠٢٤ २०२४ ２０２４", "n2024 n2024 n2024"),
    "fractions and squares": ("½ m² ①", "n1 n2 xm2 n1"),
    "date": ("2024-01-31", "x2024-01-31 n2024 n01 n31"),
    "date and time": (
        "2024-01-31T12:30",
        "x2024-01-31t12:30 x2024-01-31 n2024 n01 n31 n12 n30",
    ),
    "letters and digits": ("iPhone15 10kg b2b", "xiphone15 wiphone wphone n15 x10kg n10 wkg xb2b"),
    "UUID": (
        "550E8400-e29b-41d4-a716-446655440000",
        "x550e8400-e29b-41d4-a716-446655440000 x550e8400 xe29b x41d4 xa716 n446655440000",
    ),
    "e-mail": ("<Anna.B@example.org>", "xanna.b@example.org xanna.b wanna wb xexample.org wexample worg"),
    "URL": (
        "https://www.example.com/a?b=1.",
        "xexample.com/a?b=1 whttps xexample.com wwww wexample wcom wa wb n1",
    ),
    "path": ("/usr/lib/os.py", "xusr/lib/os.py wusr wlib xos.py wos wpy"),
    "path of Windows": ("C:\\Users\\me", "xc:\\users\\me wc wusers wme"),
    "languages": ("C++, C# and C", "xc++ xc# wand wc"),
    "operator": ("a += b; f(x)->y", "wa wb wf wx wy"),
    "hashtag and mention": ("#django @anna", "wdjango wanna"),
}

EMOJI = {
    "one": ("ok👍!", "wok e👍"),
    "skin tone": ("👍🏽", "e👍🏽"),
    "family": ("👨‍👩‍👧👍", "e👨‍👩‍👧 e👍"),
    "flags": ("🇩🇪🇫🇷", "e🇩🇪 e🇫🇷"),
    "flag of a region": ("🏴󠁧󠁢󠁳󠁣󠁴󠁿", "e🏴󠁧󠁢󠁳󠁣󠁴󠁿"),
    "with and without a variation selector": ("❤️ ❤", "e❤ e❤"),
    "keycap": ("1️⃣", "e1⃣"),
}

TABLE = [
    pytest.param(text, expected, id=name)
    for table in (WORDS, CHARACTERS, NAMES, EMOJI)
    for name, (text, expected) in table.items()
]


@pytest.mark.parametrize(("text", "expected"), TABLE)
def test_texts_have_these_tokens(text: str, expected: str) -> None:
    assert token_texts(text) == [unicodedata.normalize("NFKC", token) for token in expected.split(" ")]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("Don't stop", ["Don", "t", "stop"]),
        ("the user_id.", ["the", "user_id", "user", "id"]),
        ("Cafe\u0301 ½ ﬁne", ["Cafe\u0301", "½", "½", "ﬁne"]),
        ("ｶﾞｷ", ["ｶﾞｷ", "ｷ"]),
        ("我爱你", ["我爱", "爱你", "你"]),
        ("ﷺ a\u0301b", [*["ﷺ"] * 4, "a\u0301b"]),
        ("👍🏽 🇩🇪", ["👍🏽", "🇩🇪"]),
        ("\x00\ud800word", ["word"]),
    ],
)
def test_places_are_in_the_text_as_it_was_written(text: str, places: list[str]) -> None:
    assert [text[token.start : token.end] for token in tokens(text)] == places


def test_a_sequence_has_neither_names_as_a_whole_nor_extra_parts() -> None:
    text = "my user_name, getName 10kg 北京"
    assert sequence(text) == ["wmy", "wuser", "wname", "wgetname", "x10kg", "c北京", "c京"]
    assert [text[token.start : token.end] for token in sequence_tokens(text)][:4] == ["my", "user", "name", "getName"]


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("wcaroline", "wcarol"),
        ("wcarol", "wcarol"),
        ("wcats", None),
        ("n123456", None),
        ("xuser_name", None),
        ("c北京", None),
        ("c猫", "c猫"),
        ("cที่", "cที่"),
        ("e👍", None),
    ],
)
def test_related_words_have_their_first_five_letters_in_common(token: str, expected: str | None) -> None:
    assert root(token) == expected


def test_one_character_matches_what_begins_with_it() -> None:
    assert is_beginning("c京")
    assert not is_beginning("c北京")
    assert not is_beginning("wa")
    assert [token for token in token_texts("北京大") if fits("c京", token)] == ["c京大"]
    assert not fits("wcat", "wcats")


@pytest.mark.parametrize("text", ["a" * 1000, "Ж" * 1000, "a." * 500, "1" * 1000])
def test_long_tokens_are_cut(text: str) -> None:
    assert max(map(len, token_texts(text))) == LONGEST_TOKEN
    assert token_texts(text)[0] == token_texts(text + text)[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "a" * 200_000,
        "aB" * 30_000,
        "a." * 30_000,
        "a/" * 30_000,
        "a_" * 30_000,
        "1a" * 30_000,
        "a" + "_" * 200_000,
        "=:" * 30_000,
        "北" * 30_000,
        "ที่" * 10_000,
        "👍" * 40_000,
        "👍\u200d" * 30_000,
        "👍" + "🏽" * 30_000,
        "🇩" * 30_000,
        "a" + "\u0301\u0316" * 100_000,
        "\u0301\u0316" * 100_000,
        "\u1161" * 100_000,
        "\u200b" * 100_000,
    ],
    ids=lambda text: ascii(text[:3]),
)
def test_huge_texts_have_tokens(text: str) -> None:
    # If one took quadratic time, this would not end for hours.
    assert len(tokens(text)) == len(token_texts(text))


CODE_POINTS = st.text(st.characters(), max_size=60)  # with lone surrogates
INTERESTING = st.text(
    st.sampled_from(
        "abzABZéßİıẞŁñ0129٣½²①ﬁﷺ _-.,:/\\@#+=?&%'’\"‐>"
        "\u0301\u0308\u0306\u0327\u0345\u200b\u200d\ufe0f\u20e3\u0000\ud800"
        "йиёїіўЖςΣάᾳ北京猫カがｶﾞﾊﾟーかん한국ㅋㅏ각กที่ນີ້ភ្នំမြန်שָׁמُأהिक़ड़ড়தெொ👍🏽👩🇩🇪❤1"
    ),
    max_size=40,
)
TEXTS = CODE_POINTS | INTERESTING


@pytest.mark.slow
@given(TEXTS)
@settings(max_examples=budget.examples(400))
def test_every_text_has_tokens_in_order_at_places_inside(text: str) -> None:
    found = tokens(text)
    assert [token.text for token in found] == token_texts(text)
    assert [token.text for token in sequence_tokens(text)] == sequence(text)
    for places in (found, sequence_tokens(text)):
        assert all(0 <= token.start < token.end <= len(text) for token in places)
        assert [token.start for token in places] == sorted(token.start for token in places)
    assert all(2 <= len(token.text) <= LONGEST_TOKEN and token.text[0] in "wcnxe" for token in found)
    assert all(token.text.encode() for token in found)  # any database takes them


@pytest.mark.slow
@given(TEXTS)
@settings(max_examples=budget.examples(400))
def test_a_text_has_the_same_tokens_in_each_normal_form(text: str) -> None:
    expected = token_texts(text)
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert token_texts(unicodedata.normalize(form, text)) == expected


@pytest.mark.slow
@given(TEXTS)
@settings(max_examples=budget.examples(400))
def test_a_word_is_found_by_its_own_token(text: str) -> None:
    for token in token_texts(text):
        if token[0] == "w":
            assert token_texts(token[1:])[0] == token


@pytest.mark.slow
@given(TEXTS)
@settings(max_examples=budget.examples(400))
def test_each_token_is_found_by_what_was_written_there(text: str) -> None:
    for token in tokens(text):
        if token.text[0] in "wn" and unicodedata.is_normalized("NFKC", text):
            assert token.text in token_texts(text[token.start : token.end])


@pytest.mark.slow
@given(TEXTS)
@settings(max_examples=budget.examples(400))
def test_case_makes_no_difference(text: str) -> None:
    # Only capitals within a word make more parts.
    assert sequence(text.lower()) == sequence(text)
    assert {*token_texts(text.lower())} <= {*token_texts(text)}


@given(st.text(st.sampled_from("北京猫カが한국กที่ນີ້ភ្နំမြန်"), min_size=1, max_size=20))
def test_each_character_of_a_run_begins_a_token(text: str) -> None:
    found = token_texts(text)
    for character in unicodedata.normalize("NFKC", text):
        if unicodedata.category(character)[0] == "L":
            assert any(token.startswith("c" + character) for token in found)
