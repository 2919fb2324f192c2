"""Facts about the user, read from the texts of a conversation, and from nothing else."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from demo_project.chat.sentences import clauses, is_question, sentences
from demo_project.chat.statements import Fact, plain, read_fact, read_named, read_told

__all__ = ["Facts"]

_REMEMBER = re.compile(
    r"(?:please[,\s]+|(?:can|could|will|would) you\s+)*(?:remember|do not forget|don't forget)\b"
    r"\s*(?:(?:that|this|to)\b)?[:\s]*(.+)",
    re.IGNORECASE,
)
_NOTE = "You asked me to remember: "


@dataclass
class Facts:
    """The known facts, the latest of each kind."""

    known: dict[str, str] = field(default_factory=dict)
    """Clauses such as ``"your name is Ann"``, by what they are about."""

    notes: list[str] = field(default_factory=list)
    """Texts to remember that are no facts of a known kind."""

    def learn_from_user(self, text: str) -> bool:
        """Learn the facts in a user's text, and return whether there were any."""
        learnt = [self._learn(sentence) for sentence in sentences(text)]
        return any(learnt)

    def learn_from_answer(self, text: str) -> None:
        """Learn the facts that an answer repeats."""
        for sentence in sentences(text):
            if sentence.startswith(_NOTE):
                self._note(plain(sentence.removeprefix(_NOTE)))
            else:
                self._know(read_told(sentence))

    def told(self, topics: list[str]) -> str | None:
        """Return a sentence about the first of the topics that is known; None if none is."""
        for about in topics:
            if known := self.known.get(_key(about)):
                return _sentence(known)
        for about in topics:
            words = set(_key(about).split()[1:])
            for note in reversed(self.notes):
                if words - {"name"} and words <= set(_key(note).split()):
                    return f"{_NOTE}{note}."
        return None

    def everything(self) -> list[str]:
        """Return all facts and notes, in sentences."""
        return [*map(_sentence, self.known.values()), *(f"{_NOTE}{note}." for note in self.notes)]

    def _learn(self, sentence: str) -> bool:
        first, *others = clauses(sentence)
        others = [clause for clause in others if not is_question(clause)]
        if match := _REMEMBER.match(first):
            return self._remember([match[1], *others], is_asked=first.endswith("?"))
        stated = others if is_question(first) else [first, *others]
        learnt = [self._know(read_fact(clause)) for clause in stated]
        return any(learnt)

    def _remember(self, what: list[str], *, is_asked: bool) -> bool:
        facts = [read_fact(clause) or read_named(plain(clause)) for clause in what]
        if all(facts):
            for fact in facts:
                self._know(fact)
            return True
        # "Can you remember my name?" asks for it.
        return not is_asked and self._note(plain(" and ".join(what)))

    def _note(self, what: str) -> bool:
        if what and what not in self.notes:
            self.notes.append(what)
        return bool(what)

    def _know(self, fact: Fact | None) -> bool:
        if fact is None:
            return False
        about, clause = fact
        # The latest fact comes last.
        self.known.pop(_key(about), None)
        self.known[_key(about)] = clause
        return True


def _key(words: str) -> str:
    """Return the same key for other spellings, and for singular and plural."""
    text = " ".join(words.lower().split()).replace("favorite", "favourite").replace("color", "colour")
    return re.sub(r"(?<=[a-rt-z])s\b", "", text.replace("'s ", " "))


def _sentence(clause: str) -> str:
    return f"{clause[0].upper()}{clause[1:]}."
