"""The sentences and clauses of a text."""

from __future__ import annotations

import re

__all__ = ["ABOUT", "LEAD_IN", "clauses", "is_question", "sentences"]

LEAD_IN = (
    r"(?:(?:hi there|hi|hello|hey|well|so|ok|okay|oh|yes|yeah|no|and|but|also|actually|btw|by the way|please|"
    r"you know|i said|i told you)\b[\s,:!]*(?:that\s+)?)*"
)
"""A pattern for the words that people begin with."""

ABOUT = r"([a-z][a-z' -]{0,40}?)"
"""A pattern for the subject of a statement or question, as a group."""

_ASKS = (
    r"(?:whats|what|whos|who|which|wheres|where|when|how|why|is|are|am|do|does|did|can|could|will|would|tell|say|"
    r"remind|i (?:forgot|forget|wonder))\b"
)
_STATES = (
    r"(?:my\s+[a-z' -]{1,40}?(?:\s+(?:is|are)\b|\s*[=:?]|'s\s)|"
    r"(?:i|i'm|i've|remember|please|(?:people\s+)?call me)\b|the\s+[a-z' -]{1,40}?\s+(?:is|are)\s)"
)

_END_OF_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_END_OF_CLAUSE = re.compile(rf",?\s+(?:and|but)\s+(?={_STATES}|{_ASKS})|,\s*(?={_STATES}|{_ASKS})", re.IGNORECASE)
_QUESTION = re.compile(rf".*\?\W*$|{LEAD_IN}{_ASKS}", re.IGNORECASE)


def sentences(text: str) -> list[str]:
    """Return the sentences of a text."""
    return _parts(_END_OF_SENTENCE, text)


def clauses(sentence: str) -> list[str]:
    """Return the parts of a sentence joined by commas, "and" and "but", each of which states or asks something."""
    return _parts(_END_OF_CLAUSE, sentence)


def is_question(clause: str) -> bool:
    """Return whether a clause is a question."""
    return _QUESTION.match(clause) is not None


def _parts(end: re.Pattern[str], text: str) -> list[str]:
    return [part.strip() for part in end.split(text) if part and part.strip()]
