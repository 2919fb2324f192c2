"""What searches find, in sets that can be reckoned by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.recall.datasets import Chat, Dataset, Question, beam, locomo
from benchmarks.recall.measuring import measure
from benchmarks.recall.rankings import OURS, rankings
from benchmarks.recall.report import markdown

pytestmark = pytest.mark.django_db

TEXTS = ["Who has a cat?", "My cats sleep.", "Nice.", "It is raining today.", "Tea or coffee?", "Coffee, please."]


def test_a_set_of_locomo_has_its_evidence_as_positions(tmp_path: Path) -> None:
    turns = [{"speaker": "Ann", "dia_id": f"D{session}:1", "text": f"In {session}"} for session in (1, 2, 10)]
    conversation = {"speaker_a": "Ann", **{f"session_{turn['dia_id'][1:-2]}": [turn] for turn in reversed(turns)}}
    asked = [(1, ["D10:1 D2:1", "D"]), (4, ["D1:1; D3:9"]), (2, []), (5, ["D1:1"])]
    questions = [{"question": "When?", "category": kind, "evidence": evidence} for kind, evidence in asked]
    path = tmp_path / "locomo10.json"
    path.write_text(json.dumps([{"conversation": conversation, "qa": questions}]))
    [chat] = locomo(path).chats
    assert chat.texts == ["In 1", "In 2", "In 10"]
    assert [(question.kind, {*question.evidence}) for question in chat.questions] == [
        ("multi-hop", {1, 2}),
        ("single-hop", {0}),
    ]


def test_a_set_of_beam_has_its_evidence_as_positions(tmp_path: Path) -> None:
    messages = [{"id": number, "content": f"Say {number}. ->-> 1,{number}"} for number in (4, 6)]
    asked = {
        "abstention": [{"question": "Who?", "source_chat_ids": [4]}],
        "knowledge_update": [{"question": "How many?", "source_chat_ids": {"original": [4], "updated": [6, 7]}}],
        "summarization": [{"question": "What?"}],
    }
    (tmp_path / "3" / "probing_questions").mkdir(parents=True)
    (tmp_path / "3" / "probing_questions" / "probing_questions.json").write_text(json.dumps(asked))
    (tmp_path / "3" / "chat.json").write_text(json.dumps([{"turns": [messages[:1], messages[1:]]}]))
    dataset = beam(tmp_path)
    assert dataset.files == 2
    assert dataset.chats == [
        Chat(["Say 4.", "Say 6."], [Question("knowledge update", "How many?", frozenset({0, 1}))]),
    ]


def questions(*asked: tuple[str, str, set[int]]) -> Dataset:
    return Dataset(
        "A set", [Chat(TEXTS, [Question(kind, text, frozenset(found)) for kind, text, found in asked])], 1, ""
    )


def test_a_hit_is_any_evidence_and_recall_its_share() -> None:
    far = ["tea"] * 20
    chats = [Chat([*far, "rum"], [Question("one", "rum", frozenset({20, 0})), Question("two", "ale", frozenset({1}))])]
    rows = measure(Dataset("A set", chats, 1, ""), {OURS: rankings()[OURS]})["rows"]
    assert {row["kind"]: (row["hit@5"], row["hit@10"], row["recall@10"], row["questions"]) for row in rows} == {
        "all": (0.5, 0.5, 0.25, 2),
        "one": (1, 1, 0.5, 1),
        "two": (0, 0, 0, 1),
    }


@pytest.mark.parametrize(
    ("ranking", "found"),
    [
        (OURS, 1),
        ("all words, newest first", 0),
        ("SQLite `bm25()`, unicode61", 0),
        ("SQLite `bm25()`, porter", 0.5),
    ],
)
def test_only_our_ranking_finds_an_answer_without_a_word_of_the_question(ranking: str, found: float) -> None:
    dataset = questions(("one", "A cat that sleeps", {1}), ("two", "Is it raining?", {2}))
    [row] = [row for row in measure(dataset, {ranking: rankings()[ranking]})["rows"] if row["kind"] == "all"]
    assert row["hit@10"] == found


def test_stop_words_are_left_out_of_questions() -> None:
    dataset = questions(("one", "What IS raining?", {3}))
    found = measure(dataset, {"words": rankings()["all words, newest first"]}, {"what", "is"})
    assert [(row["without_stop_words"], row["hit@5"]) for row in found["rows"] if row["kind"] == "all"] == [
        (False, 0),
        (True, 1),
    ]
    text = markdown({"date": "today", "versions": {"SQLite": "3"}, "datasets": [found]})
    assert "hit@10, no stop words" in text
    assert "1 questions about 1 conversations with 6 messages" in text
