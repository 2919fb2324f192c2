"""What somebody was told: read from the texts of a conversation, and from nothing else."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

__all__ = ["Facts", "sentences"]

_ASKS = r"(?:what|who|which|where|when|how|why|is|are|do|does|did|can|could|tell)\b"
_END_OF_SENTENCE = re.compile(
    rf"(?<=[.!?;])\s+|\n+|,?\s+\band\s+(?=my\b|remember\b|{_ASKS})|,\s*(?=my\b|{_ASKS})", re.IGNORECASE
)
_QUESTION = re.compile(rf"\?\s*$|^{_ASKS}", re.IGNORECASE)

_MY = re.compile(r"\bmy\s+([a-z][a-z' -]{0,40}?)\s*(?:\bis\b|\bare\b|'s\b|=)\s*(.+)", re.IGNORECASE)
_CALL_ME = re.compile(r"\b(?:call me|i am called|i'm called)\s+(.+)", re.IGNORECASE)
_REMEMBER = re.compile(r"\bremember\b\s*(?:(?:that|this|to)\b|:)?\s*(.+)", re.IGNORECASE)
_THE_IS = re.compile(r"the\s+([a-z][a-z' -]{0,40}?)\s+(?:is|are)\s+(.+)", re.IGNORECASE)
_THE_NUMBER = re.compile(r"(?:the\s+)?([a-z][a-z' -]{0,40}?)\s+(\S*\d\S*)", re.IGNORECASE)
_A_NUMBER = re.compile(r"\S*\d\S*")

_TOLD_BACK = re.compile(r"(?:^|: )(your|the) ([a-z][a-z' -]{0,40}?) is (.+)", re.IGNORECASE)
_NOTE = "You asked me to remember: "


def sentences(text: str) -> list[str]:
    """The sentences of a text, and what is strung together by "and my"."""
    return [part.strip() for part in _END_OF_SENTENCE.split(text) if part and part.strip()]


@dataclass
class Facts:
    """What is known, the latest of each kind."""

    known: dict[str, str] = field(default_factory=dict)
    """By what they are about: ``"your name"``, ``"the number"``."""

    notes: list[str] = field(default_factory=list)
    """What was to be remembered and is nothing else."""

    def learn_from_user(self, text: str) -> bool:
        """Take in what a user says; whether there was anything."""
        learnt = [self._learn(sentence) for sentence in sentences(text)]
        return any(learnt)

    def learn_from_answer(self, text: str) -> None:
        """Take in what an answer repeated."""
        for sentence in sentences(text):
            if sentence.startswith(_NOTE):
                self._note(_plain(sentence.removeprefix(_NOTE)))
            elif match := _TOLD_BACK.search(sentence):
                owner, about, value = match.groups()
                self._know(f"{owner} {about}", value)

    def told(self, about: str) -> str | None:
        """A sentence with what is known about it."""
        value = self.known.get(topic(about))
        return None if value is None else f"{topic(about).capitalize()} is {value}."

    def everything(self) -> list[str]:
        """All of it, in sentences."""
        facts = [f"{about.capitalize()} is {value}." for about, value in self.known.items()]
        return [*facts, *(f"{_NOTE}{note}." for note in self.notes)]

    def _learn(self, sentence: str) -> bool:
        if _QUESTION.search(sentence):
            return False
        if match := _REMEMBER.search(sentence):
            return self._remember(match[1])
        if match := _CALL_ME.search(sentence):
            return self._know("your name", match[1])
        if match := _MY.search(sentence):
            return self._know(f"your {match[1]}", match[2])
        return False

    def _remember(self, what: str) -> bool:
        what = _plain(what)
        if match := _MY.search(what):
            return self._know(f"your {match[1]}", match[2])
        if match := _THE_IS.fullmatch(what) or _THE_NUMBER.fullmatch(what):
            return self._know(f"the {match[1]}", match[2])
        if _A_NUMBER.fullmatch(what):
            return self._know("the number", what)
        return self._note(what)

    def _note(self, what: str) -> bool:
        if what and what not in self.notes:
            self.notes.append(what)
        return bool(what)

    def _know(self, about: str, value: str) -> bool:
        value = _plain(value)
        if value:
            self.known[topic(about)] = value
        return bool(value)


def topic(about: str) -> str:
    """What a fact is filed under, however it is spelt."""
    words = " ".join(about.lower().split())
    return words.replace("favorite", "favourite").replace("color", "colour")


def _plain(value: str) -> str:
    return re.sub(r"[.!;,\s]+$", "", value.strip())
