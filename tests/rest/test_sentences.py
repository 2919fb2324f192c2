"""The catalogue of the errors' sentences: it has every one that the sources raise."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.utils import translation
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.rest.sentences import SENTENCES
from chatmemory.rest.translation import NESTED, found_pattern, translated
from tests.support.paths import ROOT
from tests.support.translations import LOCALES

APP = ROOT / "chatmemory"
SOURCES = [
    "core/*.py",
    "core/serialization/*.py",
    "formats/**/*.py",
    "models/identifiers.py",
    "models/message_columns.py",
    "database/idempotency.py",
    "database/operations/**/*.py",
    "assistant/*answer*.py",
    "assistant/driver.py",
    "assistant/steps.py",
    "assistant/summarizer.py",
    "rest/**/*.py",
]
"""What raises errors that a client of REST may read. All else becomes a 500 or a problem with words of its own."""

RAISED = {
    "CannotExpressError",
    "Conflict",
    "CoveredError",
    "IdempotencyConflictError",
    "Interrupted",
    "InvalidMessageError",
    "LengthRequired",
    "MemoryTooLarge",
    "ModelError",
    "ModelFailed",
    "NotExpressible",
    "NotFound",
    "NotRetainedError",
    "NothingSaid",
    "ParseError",
    "PreconditionFailed",
    "TooLarge",
    "UnusableSummaryError",
    "ValidationError",
    "WindowTooSmallError",
    "__init__",
    "_broken",
    "_kept",
    "_items",
    "MediaRule",
    "expected",
    "invalid",
    "refuse",
    "translated",
    "value",
}
"""The calls whose arguments are sentences, or words within them."""

HOLDS_WORDS = re.compile("(?i)refused|^(detail|known|thought|_FILES|_KINDS|_PLURALS)$")
"""The names to which sentences are assigned, or words within them, before they are raised."""

VALUE_ERRORS = {
    "core/arguments.py",
    "core/contents.py",
    "core/json_text.py",
    "core/messages.py",
    "core/serialization/reader.py",
    "database/operations/compaction/apply.py",
    "models/identifiers.py",
    "rest/parsers.py",
}
"""The modules whose ``ValueError`` becomes a 400. Elsewhere it is a mistake in the project's code."""

X = "⟦x⟧"


def said(node: ast.AST, constants: dict[str, str]) -> str | None:
    """The text of a literal, with ``X`` for what it puts in; None if it is none."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = [constants.get(getattr(getattr(each, "value", None), "id", ""), said(each, {})) for each in node.values]
        return "".join(X if part is None else part for part in parts)
    return None


def texts(node: ast.AST, constants: dict[str, str]) -> Iterator[str]:
    """The texts of an argument: it may be a list, or a dict by place."""
    if isinstance(node, (ast.List, ast.Tuple)):
        for each in node.elts:
            yield from texts(each, constants)
    elif isinstance(node, ast.Dict):
        for value in node.values:
            yield from texts(value, constants)
    elif isinstance(node, ast.Call):  # dict.fromkeys()
        yield from (text for each in node.args for text in texts(each, constants))
    elif isinstance(node, ast.IfExp):
        yield from texts(node.body, constants)
        yield from texts(node.orelse, constants)
    elif (text := said(node, constants)) is not None:
        yield text


def raised(path: Path) -> Iterator[str]:
    """The sentences that a module raises."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    calls = RAISED | ({"ValueError"} if path.relative_to(APP).as_posix() in VALUE_ERRORS else set())
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    constants = {
        target.id: text
        for node in assigned
        for target in node.targets
        if isinstance(target, ast.Name) and (text := said(node.value, {})) is not None
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in calls:
            for argument in node.args:
                yield from texts(argument, constants)
            for keyword in node.keywords:
                if keyword.arg == "kind":
                    yield from texts(keyword.value, constants)
        elif isinstance(node, ast.Assign) and HOLDS_WORDS.search(ast.unparse(node.targets[0])):
            yield from texts(node.value, constants)
        elif isinstance(node, ast.FunctionDef) and (node.name == "_kind_of" or "rest" in path.parts):
            yield from (text for each in node.args.defaults for text in texts(each, {}))
            yield from (
                text for each in ast.walk(node) if isinstance(each, ast.Return) for text in texts(each.value, constants)
            )


def is_sentence(text: str) -> bool:
    """Whether a text is more than a key, a place or a placeholder."""
    return " " in text.replace(X, "").strip(". ")


def is_known(sentence: str) -> bool:
    """Whether one pattern makes a sentence, and each placeholder stands for a name, a number or something known."""
    pattern, values = found_pattern(sentence)
    if pattern is None:
        return False
    USED.add(pattern.english)
    return all(
        is_known(value) if name in NESTED and value.replace(X, "") else not is_sentence(value)
        for name, value in values.items()
    )


USED: set[str] = set()
FOUND = sorted(
    {
        (path.relative_to(APP).as_posix(), text)
        for pattern in SOURCES
        for path in APP.glob(pattern)
        if "openapi" not in path.parts
        for text in raised(path)
        if is_sentence(text)
    }
)


@pytest.mark.parametrize(("file", "sentence"), FOUND)
def test_every_sentence_that_is_raised_is_in_the_catalogue(file: str, sentence: str) -> None:
    assert is_known(sentence), f"add it to rest/sentences.py, or to rest/message_sentences.py: {sentence}"


def test_no_pattern_is_left_over() -> None:
    by_parts = {
        "expected %(what)s or null",
        "half of a surrogate pair (%(code)s)",
        "message %(index)s (%(type)s): %(problem)s",
    }
    assert all(is_known(text) for _, text in FOUND)
    words = {text for path in APP.glob("**/*.py") for text in words_of(path)}
    assert set(SENTENCES) - USED - by_parts - words == set()


def words_of(path: Path) -> set[str]:
    """The texts of a module that are no sentences by themselves."""
    if path.name.endswith("sentences.py"):
        return set()
    return {
        node.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 60
    }


@given(st.sampled_from(SENTENCES), st.data())
def test_in_english_a_sentence_stays_as_it_is(pattern: str, data: st.DataObject) -> None:
    """Whatever is put in, and whichever pattern it is taken for."""
    sentence = re.sub(r"%\(\w+\)s", lambda _: data.draw(st.text(max_size=30) | st.sampled_from(SENTENCES)), pattern)
    with translation.override("en"):
        assert translated(sentence) == sentence


@pytest.mark.parametrize("language", LOCALES)
@given(st.sampled_from(SENTENCES), st.data())
def test_what_is_put_in_is_there_in_another_language(language: str, pattern: str, data: st.DataObject) -> None:
    """For instance a field's name, or what was sent."""
    quoted = st.text("abcÄ春%()s{}'\"", min_size=1, max_size=30)
    values = {name: data.draw(quoted) for name in re.findall(r"%\((\w+)\)s", pattern)}
    with translation.override(language):
        shown = translated(pattern % values if values else pattern)
    assert [value for value in values.values() if value not in shown] == []


def test_a_long_sentence_takes_no_time() -> None:
    """Text that looks like the patterns, over and over, is read in one pass for each of them."""
    sentence = "expected one of " + ", got a; ask for; expected one of ".join(["x"] * 20_000)
    with translation.override("ja"):
        assert translated(sentence).startswith("次のいずれかが必要です")


@pytest.mark.parametrize(
    ("language", "sentence", "shown"),
    [
        ("ja", "expected a string, got nothing", "文字列が必要です（実際：値なし）"),
        ("ja", "expected one of USER, AI, got 'a list'", "次のいずれかが必要です：USER, AI（実際：'a list'）"),
        ("zh-hans", "has U+0000 at index 3; take it out", "索引 3 处有U+0000；请将其去掉"),
        (
            "zh-hans",
            "has half of a surrogate pair (U+D800) at index 3; take it out",
            "索引 3 处有半个代理对（U+D800）；请将其去掉",
        ),
        (
            "zh-hans",
            "The model failed, so there is no answer yet. What was said is kept. Try again.",
            "模型出错，因此还没有回答。已发送的消息会保留。请重试。",
        ),
        ("ja", "something that another package says", "something that another package says"),
        ("de", "expected a string, got nothing", "expected a string, got nothing"),
    ],
)
def test_words_within_a_sentence_are_translated(language: str, sentence: str, shown: str) -> None:
    with translation.override(language):
        assert translated(sentence) == shown
