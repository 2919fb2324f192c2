"""Public sets of conversations with questions, read from their files. Nothing of them is in this repository."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Chat", "Dataset", "Question", "beam", "locomo"]


@dataclass(frozen=True)
class Question:
    """A question about a conversation."""

    kind: str

    text: str

    evidence: frozenset[int]
    """The positions of the messages that contain the answer, at least one."""


@dataclass(frozen=True)
class Chat:
    """A conversation."""

    texts: list[str]
    """What was said, by position."""

    questions: list[Question]

    part: str = ""
    """The part of the set that it belongs to."""


@dataclass(frozen=True)
class Dataset:
    """A set of conversations."""

    name: str

    chats: list[Chat]

    files: int

    sha256: str
    """The SHA-256 of the file; of several files, that of their hexadecimal SHA-256s in the order of their paths."""


_LOCOMO_KINDS = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}  # 5: no answer was said


def locomo(path: Path) -> Dataset:
    """Read LoCoMo's ``locomo10.json``: texts without the speakers' names and the captions of images."""
    chats = [_of_locomo(sample, number) for number, sample in enumerate(json.loads(path.read_bytes()), 1)]
    return Dataset("LoCoMo", chats, 1, _digest(path))


def _of_locomo(sample: dict[str, Any], number: int) -> Chat:
    conversation = sample["conversation"]
    sessions = sorted((key for key in conversation if re.fullmatch(r"session_\d+", key)), key=lambda key: int(key[8:]))
    turns = [turn for session in sessions for turn in conversation[session]]
    positions = {turn["dia_id"]: position for position, turn in enumerate(turns)}
    questions = []
    for question in sample["qa"]:
        # Some IDs are misspelt: "D8:6; D9:17" is two, and "D" none.
        named = re.findall(r"D\d+:\d+", " ".join(question["evidence"]))
        evidence = frozenset(positions[name] for name in named if name in positions)
        if evidence and question["category"] in _LOCOMO_KINDS:
            questions.append(Question(_LOCOMO_KINDS[question["category"]], question["question"], evidence))
    part = "conversations 1 to 5, which constants were chosen on" if number <= 5 else "the other conversations"
    return Chat([turn["text"] for turn in turns], questions, part)


def beam(folder: Path) -> Dataset:
    """Read a folder of BEAM, such as ``chats/100K``: the conversations that BEAM's own evaluation reads."""
    chats, files = [], []
    for place in sorted((path for path in folder.iterdir() if path.name.isdigit()), key=lambda path: int(path.name)):
        # Some conversations were cut to the length of the set.
        cut = place / "chat_trunecated.json"
        read = [cut if cut.exists() else place / "chat.json", place / "probing_questions" / "probing_questions.json"]
        files += read
        chats.append(_of_beam(*(json.loads(path.read_bytes()) for path in read)))
    return Dataset(f"BEAM-{folder.name}", chats, len(files), _digest(*files))


def _of_beam(batches: list[dict[str, Any]], asked: dict[str, list[dict[str, Any]]]) -> Chat:
    messages = [message for batch in batches for turn in batch["turns"] for message in turn]
    positions = {message["id"]: position for position, message in enumerate(messages)}
    questions = []
    for kind, some in asked.items():
        for question in some if kind != "abstention" else ():
            ids = _numbers(question.get("source_chat_ids"))
            evidence = frozenset(positions[number] for number in ids if number in positions)
            if evidence:
                questions.append(Question(kind.replace("_", " "), question["question"], evidence))
    # The generator ends user messages with the number of its plan: "… ->-> 1,4".
    return Chat([re.sub(r"\s*->->.*", "", message["content"], flags=re.DOTALL) for message in messages], questions)


def _numbers(ids: Any) -> Iterator[int]:
    """Yield the numbers in lists and dictionaries of lists."""
    if isinstance(ids, int):
        yield ids
    elif isinstance(ids, Sequence) and not isinstance(ids, str):
        for some in ids:
            yield from _numbers(some)
    elif isinstance(ids, dict):
        yield from _numbers([*ids.values()])


def _digest(*paths: Path) -> str:
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]
    return digests[0] if len(digests) == 1 else hashlib.sha256("\n".join(digests).encode()).hexdigest()
