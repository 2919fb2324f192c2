"""Facts that one clause states about the user."""

from __future__ import annotations

import re

from demo_project.chat.sentences import ABOUT, LEAD_IN

__all__ = ["Fact", "plain", "read_fact", "read_named", "read_told"]

Fact = tuple[str, str]
"""The subject of a fact, such as "your name", and the clause that repeats it: "your name is Ann"."""

_VERBS = "live|work|study|like|love|hate"

_MY_IS = re.compile(rf"{LEAD_IN}my\s+{ABOUT}(?:\s+(is|are)\s+|\s*[=:]\s*)(.+)", re.IGNORECASE)
# Only where no verb follows: "my dog's name is Rex" is about the dog's name.
_MY_S = re.compile(rf"{LEAD_IN}my\s+{ABOUT}'s\s+(?!(?:name|age|birthday)\b)(.+)", re.IGNORECASE)
_THE_NAME_OF = re.compile(rf"{LEAD_IN}the\s+name\s+of\s+my\s+{ABOUT}\s+is\s+(.+)", re.IGNORECASE)
_I_HAVE = re.compile(
    rf"{LEAD_IN}i(?:'ve| have)(?: got)? (?:an?|one) {ABOUT},? (?:named|called|whose name is)\s+(.+)", re.IGNORECASE
)
_CALL_ME = re.compile(
    rf"{LEAD_IN}(?:(?:just|you can|you may|people|everybody|everyone|they|my friends)\s+)*"
    r"(?:call me|i am called|i'm called)\s+"
    r"(?!(?:an?|the|at|on|in|by|when|if|back|later|again|now|after|before|as|tomorrow)\b)([^\d]+)",
    re.IGNORECASE,
)
_I_AM_OLD = re.compile(rf"{LEAD_IN}(?:i am|i'?m)\s+(\d{{1,3}})(?:\s+years?(?:\s+old)?)?\W*", re.IGNORECASE)
_I_AM_FROM = re.compile(rf"{LEAD_IN}(?:i am|i'?m|i come)\s+from\s+(.+)", re.IGNORECASE)
# Names have capitals and moods have none. "I am German" is repeated as it was said, not as a name.
_I_AM = re.compile(rf"(?i:{LEAD_IN}(?:i am|i'?m))\s+(.+)")
_CAPITALS = re.compile(r"(?!OK\b)[^\W\d_a-z][\w'-]*(?:\s+[^\W\d_a-z][\w'-]*){0,3}")
_I_DO = re.compile(rf"{LEAD_IN}i\s+({_VERBS})\s+(?!(?:it|this|that|these|those|them|how|what)\b)(.+)", re.IGNORECASE)

_THE_IS = re.compile(rf"the\s+{ABOUT}\s+(is|are)\s+(.+)", re.IGNORECASE)
_NAMED_NUMBER = re.compile(
    r"(?:the\s+([a-z][a-z' -]{0,40}?)|((?:[a-z]+\s+){0,2}(?:number|code|pin|password|room|gate|seat|year|date)))"
    r"\s+(\S*\d\S*)",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\S*\d\S*")

_QUOTED = re.compile(r"(?:^|: )you said: “(.+)”", re.IGNORECASE)
_TOLD = re.compile(rf"(?:^|: )((?:your|the) {ABOUT}) (is|are) (.+)", re.IGNORECASE)
_YOU_DO = re.compile(rf"(?:^|: )you ({_VERBS}|are from) (.+)", re.IGNORECASE)
_YOU_ARE = re.compile(r"(?:^|: )(?i:you are) (.+)")

# The sentence may go on after a value. Lists and dates have commas of their own.
_GOES_ON = re.compile(
    r"(?:,?\s+(?:by the way|btw|but|because|and (?:my|i|i'm|it|it's|you|we|nice))\b|,\s+(?:not|nice|what|how)\b"
    r"|\s[-–—]\s).*",
    re.IGNORECASE | re.DOTALL,
)
_COMMA = re.compile(r",\s+(?!\d).*", re.DOTALL)
_FILLERS = re.compile(r"^(?:(?:now|actually|really)\s+)+", re.IGNORECASE)
_NEGATION = re.compile(r"(?:not|no longer|never)\b", re.IGNORECASE)
_CALLED = re.compile(r"(?:called|named)\s+", re.IGNORECASE)
_NO_NOUN = re.compile(r"\b(?:that|this|it|i|me|you|what|which|who|to)\b", re.IGNORECASE)
_PERSON = re.compile(r"(?i:\b(?:my|me|mine|i'm|you|your|yours)\b)|\bI\b")


def read_fact(clause: str) -> Fact | None:
    """Return the fact that a user's clause states."""
    if match := _I_HAVE.match(clause) or _THE_NAME_OF.match(clause):
        return _fact(f"your {match[1]}'s name", "is", match[2], clause)
    if match := _CALL_ME.match(clause):
        return _fact("your name", "is", match[1], clause)
    if match := _MY_IS.match(clause):
        return _fact(f"your {match[1]}", match[2] or "is", match[3], clause)
    if match := _MY_S.match(clause):
        return _fact(f"your {match[1]}", "is", match[2], clause)
    return _read_person(clause)


def _read_person(clause: str) -> Fact | None:
    if match := _I_AM_OLD.fullmatch(clause):
        return _fact("your age", "is", match[1], clause)
    if match := _I_AM_FROM.match(clause):
        return _fact("you", "are from", match[1], clause)
    if match := _I_DO.match(clause):
        return _fact("you", match[1].lower(), match[2], clause)
    if (match := _I_AM.match(clause)) and _CAPITALS.fullmatch(_value(match[1])):
        return _fact("you", "are", match[1], clause)
    return None


def read_named(clause: str) -> Fact | None:
    """Return the fact in a clause that the user wants remembered, which may be about anything."""
    if match := _THE_IS.fullmatch(clause):
        return _fact(f"the {match[1]}", match[2], match[3], clause)
    if match := _NAMED_NUMBER.fullmatch(clause):
        return _fact(f"the {match[1] or match[2]}", "is", match[3], clause)
    if _NUMBER.fullmatch(clause):
        return _fact("the number", "is", clause, clause)
    return None


def read_told(sentence: str) -> Fact | None:
    """Return the fact that an answer repeats."""
    if match := _QUOTED.search(sentence):
        return read_fact(match[1])
    if match := _TOLD.search(sentence):
        return _fact(match[1].lower(), match[3], match[4], sentence)
    if match := _YOU_DO.search(sentence):
        return _fact("you", match[1].lower(), match[2], sentence)
    if (match := _YOU_ARE.search(sentence)) and _CAPITALS.fullmatch(plain(match[1])):
        return _fact("you", "are", match[1], sentence)
    return None


def plain(text: str) -> str:
    """Return a text without the punctuation at its end."""
    return re.sub(r"[.!?;,\s]+$", "", text.strip())


def _fact(about: str, verb: str, value: str, clause: str) -> Fact | None:
    verb, value = verb.lower(), _FILLERS.sub("", value)
    if called := _CALLED.match(value):
        about, value = f"{about}'s name", value[called.end() :]
    value = _value(value, is_list=verb == "are")
    if not value or _NEGATION.match(value) or _NO_NOUN.search(about.partition(" ")[2]):
        return None
    # Somebody else's "my" and "you" are not turned round, but left as they were said.
    told = f"you said: “{plain(clause)}”" if _PERSON.search(value) else f"{about} {verb} {value}"
    return (about if about != "you" else f"you {verb}"), told


def _value(text: str, *, is_list: bool = False) -> str:
    text = _GOES_ON.sub("", text)
    if not is_list:
        text = _COMMA.sub("", text)
    return plain(text.lstrip())
