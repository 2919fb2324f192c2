"""How often a search finds the messages that contain the answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

from benchmarks.recall.datasets import Chat, Dataset
from benchmarks.recall.rankings import Search

__all__ = ["ALL", "measure"]

ALL = "all"
_K = 10


def measure(
    dataset: Dataset, rankings: dict[str, Callable[[list[str]], Search]], stop_words: Collection[str] = ()
) -> dict[str, Any]:
    """Ask all questions of a set, each as it is.

    Args:
        dataset: the set.
        rankings: the rankings by name.
        stop_words: if there are any, each question is asked once more, without these words.
    """
    rows = []
    parts = {chat.part for chat in dataset.chats}
    for without in [(), stop_words] if stop_words else [()]:
        for name, make in rankings.items():
            found: dict[str, list[tuple[bool, bool, float]]] = {}
            for chat in dataset.chats:
                _ask(chat, make(chat.texts), without, found)
            rows += [
                {"ranking": name, "without_stop_words": bool(without), "kind": kind, **_figures(results)}
                for kind, results in sorted(found.items(), key=lambda item: item[0] in parts)
            ]
    return {
        "name": dataset.name,
        "files": dataset.files,
        "sha256": dataset.sha256,
        "conversations": len(dataset.chats),
        "messages": sum(len(chat.texts) for chat in dataset.chats),
        "rows": rows,
    }


def _ask(
    chat: Chat, search: Search, stop_words: Collection[str], found: dict[str, list[tuple[bool, bool, float]]]
) -> None:
    for question in chat.questions:
        hits = search(_without(stop_words, question.text), _K)
        evidence = question.evidence
        result = bool(evidence & {*hits[:5]}), bool(evidence & {*hits}), len(evidence & {*hits}) / len(evidence)
        for kind in filter(None, (ALL, question.kind, chat.part)):
            found.setdefault(kind, []).append(result)


def _figures(results: list[tuple[bool, bool, float]]) -> dict[str, float]:
    names = ("hit@5", "hit@10", "recall@10")
    means = (sum(column) / len(results) for column in zip(*results, strict=True))
    return {"questions": len(results), **dict(zip(names, (round(mean, 4) for mean in means), strict=True))}


def _without(stop_words: Collection[str], text: str) -> str:
    return re.sub(r"\w+", lambda word: "" if word.group().casefold() in stop_words else word.group(), text)
