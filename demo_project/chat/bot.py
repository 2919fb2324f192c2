"""The embedded model: a few patterns and no state. What it is not given, it does not know."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from chatmemory.contents import TextContent
from chatmemory.messages import (
    AiMessage,
    ChatMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from demo_project.chat.facts import Facts, sentences
from demo_project.chat.tools import CALCULATOR, LOOK_UP_ORDER

__all__ = ["answer"]

_MAX_CALLS = 2

_ORDER = re.compile(r"\borders?\s*(?:number|no\.?|#)?\s*(\d{1,10}(?:\s*(?:,|and|&)\s*\d{1,10})*)", re.IGNORECASE)
_ASKS_FOR_ARITHMETIC = re.compile(r"\b(?:what|how much|calculate|compute|work out)\b|=\s*\??\s*$", re.IGNORECASE)
_ARITHMETIC = re.compile(r"[-+(\s]*\d[\d\s.()]*(?:(?:\*\*|//|[-+*/%^×÷−])[\s(+−-]*\d[\d\s.()]*)+", re.ASCII)

_ASKS_FOR_ALL = re.compile(r"\bwhat (?:do|can|did|should|have) you (?:still )?(?:know|remember)\b", re.IGNORECASE)
_ASKS_ABOUT = re.compile(
    r"\b(?:what|who|which|tell me|say|do you (?:still )?(?:know|remember))\b.*?\b(my|the|your)\s+"
    r"([a-z][a-z' -]*?)(?:\s+(?:again|now|still|please|that i|i told|i asked|you|did)\b.*)?\s*[?.!]*$",
    re.IGNORECASE,
)
_ASKS_WHICH = re.compile(r"\b(?:what|which)\s+([a-z]+)\s+(?:did|should|do|have)\b", re.IGNORECASE)
_ASKS_WHO_I_AM = re.compile(r"\bwho am i\b|\bwhat am i called\b", re.IGNORECASE)

_ASKS_WHO_IT_IS = re.compile(r"\b(?:who|what) are you\b|\byour name\b|\bwhat can you do\b|\bhelp\b", re.IGNORECASE)
_GREETS = re.compile(r"^\s*(?:hi|hello|hey|good (?:morning|day|evening))\b", re.IGNORECASE)
_THANKS = re.compile(r"\b(?:thanks|thank you)\b", re.IGNORECASE)

_I_AM = (
    "I am a small program in this demo, not a language model, and I know only what is in my memory. Tell me your name "
    "or your favourite colour, ask me to remember a number, ask what I know about you, give me arithmetic, or ask "
    "where order 1001 is."
)
_GONE = "If you told me, that message has left it."

_READS_CHARS = 2_000  # of a message, for patterns take their time on long ones


def answer(messages: Sequence[ChatMessage]) -> AiMessage:
    """What the bot says next, or the tools that it calls. It uses nothing but ``messages``."""
    results = _trailing_results(messages)
    question = next((message for message in reversed(messages) if isinstance(message, UserMessage)), None)
    if results:
        return AiMessage(_tell(results, messages, question) or "The tools gave me nothing that I can read.")
    if question is None:
        return AiMessage(_I_AM)
    said = _text(question)
    noted = "Noted: I know it as long as your message is in my memory." if Facts().learn_from_user(said) else None
    calls = list(_calls(said))
    if calls:
        first = len(messages)
        return AiMessage(
            noted,
            [
                ToolExecutionRequest(id=f"call_{first}_{index}", name=name, arguments=json.dumps(arguments))
                for index, (name, arguments) in enumerate(calls[:_MAX_CALLS])
            ],
        )
    parts = [noted, *_recalled(said, messages)]
    spoken = " ".join(part for part in parts if part)
    return AiMessage(spoken or _small_talk(said, messages))


def _trailing_results(messages: Sequence[ChatMessage]) -> list[ToolExecutionResultMessage]:
    results: list[ToolExecutionResultMessage] = []
    for message in reversed(messages):
        if not isinstance(message, ToolExecutionResultMessage):
            break
        results.insert(0, message)
    return results


def _tell(
    results: list[ToolExecutionResultMessage], messages: Sequence[ChatMessage], question: UserMessage | None
) -> str:
    told = [text for result in results if (text := _joined(result.contents))]
    sentences_ = [text if text.endswith((".", "!", "?")) else f"{text}." for text in told]
    if question is not None:
        said = _text(question)
        sentences_.extend(_recalled(said, messages))
        left = len(list(_calls(said))) - _MAX_CALLS
        if left > 0:
            sentences_.append(f"I do {_MAX_CALLS} things at a time, so ask me again for the rest.")
    return " ".join(sentences_)


def _calls(said: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The tools that a text needs, in the order of the text."""
    found: list[tuple[int, str, dict[str, str]]] = []
    for match in _ORDER.finditer(said):
        start = match.start(1)
        numbers = re.finditer(r"\d+", match[1])
        found += [(start + number.start(), LOOK_UP_ORDER, {"number": number[0]}) for number in numbers]
    rest = _ORDER.sub(lambda match: "\n" * len(match[0]), said)
    for match in _ARITHMETIC.finditer(rest):
        expression = _balanced(match[0].strip(" .\n"))
        whole = rest.strip(" \n?.!=") == expression
        if whole or _ASKS_FOR_ARITHMETIC.search(said):
            found.append((match.start(), CALCULATOR, {"expression": expression}))
    for _place, name, arguments in sorted(found, key=lambda call: call[0]):
        yield name, arguments


def _balanced(expression: str) -> str:
    """Without the parenthesis of the sentence around it: ``(what is 1+1)``."""
    while expression.endswith(")") and expression.count(")") > expression.count("("):
        expression = expression[:-1].rstrip()
    return expression


def _recalled(said: str, messages: Sequence[ChatMessage]) -> list[str]:
    """Answers to what is asked about earlier messages."""
    if _ASKS_FOR_ALL.search(said) and not _ASKS_ABOUT.search(said):
        return [_everything(messages)]
    return [_recall(about, messages) for sentence in sentences(said) if (about := _asked_about(sentence))]


def _asked_about(sentence: str) -> str | None:
    if _ORDER.search(sentence) or _ARITHMETIC.search(sentence):
        return None
    if _ASKS_WHO_I_AM.search(sentence):
        return "your name"
    if match := _ASKS_ABOUT.search(sentence):
        owner, about = match.groups()
        # What the user calls mine is theirs to tell; what they call yours would be the bot's own.
        return {"my": f"your {about}", "the": f"the {about}"}.get(owner.lower())
    if match := _ASKS_WHICH.search(sentence):
        return f"the {match[1]}"
    return None


def _recall(about: str, messages: Sequence[ChatMessage]) -> str:
    if told := _known(messages, own_answers=False).told(about):
        return told
    if told := _known(messages, own_answers=True).told(about):
        return f"Your own message has left my memory, but an answer of mine is still there: {told[0].lower()}{told[1:]}"
    return f"I do not know {about}, or no longer: no message in my memory says it. {_GONE}"


def _everything(messages: Sequence[ChatMessage]) -> str:
    known = _known(messages, own_answers=True).everything()
    if known:
        return " ".join(known)
    return f"Nothing: no message in my memory tells me anything about you. {_GONE}"


def _known(messages: Sequence[ChatMessage], *, own_answers: bool) -> Facts:
    facts = Facts()
    for message in messages:
        if isinstance(message, UserMessage):
            facts.learn_from_user(_text(message))
        elif own_answers and isinstance(message, AiMessage):
            facts.learn_from_answer(message.text or "")
    return facts


def _small_talk(said: str, messages: Sequence[ChatMessage]) -> str:
    if not said.strip():
        return f"I can read text only. {_I_AM}"
    if _THANKS.search(said):
        return "You are welcome."
    if _GREETS.search(said):
        name = _known(messages, own_answers=False).known.get("your name")
        return f"Hello, {name}!" if name else f"Hello! {_I_AM}"
    if _ASKS_WHO_IT_IS.search(said):
        return _I_AM
    return f"I did not understand that. {_I_AM}"


def _text(message: UserMessage) -> str:
    return _joined(message.contents)


def _joined(contents: Sequence[object]) -> str:
    return "\n".join(content.text for content in contents if isinstance(content, TextContent))[:_READS_CHARS]
