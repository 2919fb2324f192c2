"""Questions about earlier messages."""

from __future__ import annotations

import re
from dataclasses import dataclass

from demo_project.chat.sentences import ABOUT, LEAD_IN

__all__ = ["Question", "asks_for_everything", "read_question"]

_START = (
    r"(?:whats|what|whos|who|which|wheres|where|when|how|tell me|say|remind me|can you|could you|do you|did i|"
    r"i (?:forgot|forget|wonder))\b"
)
_ASKS = re.compile(rf"{LEAD_IN}(?:{_START}|(?:my|the) {ABOUT}\?)|.*\b{_START}.*\?\W*$", re.IGNORECASE)
_WHO_AM_I = re.compile(
    r"\bwho (?:am i|i am)\b|\bwhat (?:am i|i am) called\b|\bdo you (?:still )?know me\b", re.IGNORECASE
)
_HOW_OLD_AM_I = re.compile(r"\bhow old (?:am i|i am)\b", re.IGNORECASE)
_AM_I_FROM = re.compile(r"\bwhere (?:am i|i am|i'm|do i come|i come) from\b", re.IGNORECASE)
_DO_I = re.compile(r"\b(?:what|where|who|which)\b.*\bi (live|work|study|like|love|hate)\b", re.IGNORECASE)
_NAME_OF = re.compile(rf"\bname of (my|the) {ABOUT}\s*(?:again)?[?.!\s]*$", re.IGNORECASE)
_CALLED = re.compile(rf"\b(my|the) {ABOUT}(?: is| are)? (?:called|named)[?.!\s]*$", re.IGNORECASE)
_OWNED = re.compile(
    rf"\b(my|the|your) {ABOUT}"
    r"(?:\s+(?:is|are|was|were)|\s+(?:again|now|still|today|please|like|that i|i told|i asked|i said|you|did)\b.*)?"
    r"[?.!\s]*$",
    re.IGNORECASE,
)
_WHICH = re.compile(r"\b(?:what|which) ([a-z]+) (?:did|should|do|have)\b", re.IGNORECASE)
_ASKS_BACK = re.compile(r"\b(?:was|were|did|told|said|say|again|remember|still|forgot)\b", re.IGNORECASE)

_EVERYTHING = re.compile(
    r"\b(?:what|everything|anything|all)\b.*\byou (?:still )?(?:know|remember)\b"
    r"|\bwhat (?:did|have) i (?:tell|told|say|said)\b|\bdo you (?:know|remember) (?:any|some)thing\b"
    r"|\b(?:remember|know|tell me) (?:everything|about me)\b|\bremember me\b",
    re.IGNORECASE,
)

_PLACES = ("city", "town", "country", "home", "address")


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question about something said earlier."""

    words: str
    """The subject, in the user's words."""

    topics: list[str]
    """The keys that may have the answer, the best first."""

    asks_back: bool
    """Whether only the user can have said it."""


def read_question(clause: str) -> Question | None:
    """Return the question of a clause, if earlier messages could answer it."""
    if not _ASKS.match(clause):
        return None
    if _WHO_AM_I.search(clause):
        return _personal("your name", "you are")
    if _HOW_OLD_AM_I.search(clause):
        return _personal("your age")
    if _AM_I_FROM.search(clause):
        return _personal("where you are from", "you are from", "you live")
    if match := _DO_I.search(clause):
        where = "where" if match[1].lower() in ("live", "work", "study") else "what"
        return _personal(f"{where} you {match[1].lower()}", f"you {match[1]}")
    if match := _NAME_OF.search(clause) or _CALLED.search(clause):
        return _owned(clause, match[1], f"{match[2]}'s name")
    if match := _OWNED.search(clause):
        return _owned(clause, match[1], match[2])
    if match := _WHICH.search(clause):
        return _owned(clause, "the", match[1])
    return None


def asks_for_everything(text: str) -> bool:
    """Return whether a text asks for everything that is known."""
    return _EVERYTHING.search(text) is not None


def _personal(words: str, *topics: str) -> Question:
    return Question(words=words, topics=[words, *topics], asks_back=True)


def _owned(clause: str, owner: str, about: str) -> Question | None:
    owner, other = {"my": ("your", "the"), "the": ("the", "your")}.get(owner.lower(), ("", ""))
    if not owner:  # "your" would be about the bot itself
        return None
    topics = [f"{owner} {about}", f"{other} {about}", f"{owner} {about}'s name"]
    if about.lower().endswith("'s name"):
        topics.append(owner + " " + about.rpartition("'")[0])
    if owner == "your" and about.lower() == "name":
        topics.append("you are")
    if owner == "your" and about.lower() in _PLACES:
        topics.append("you live")
    return Question(words=topics[0], topics=topics, asks_back=owner == "your" or bool(_ASKS_BACK.search(clause)))
