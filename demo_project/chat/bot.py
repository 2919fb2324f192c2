"""The embedded model: a few patterns and no state. What it is not given, it does not know."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from chatmemory import (
    AiMessage,
    ChatMessage,
    TextContent,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from demo_project.chat.errands import errands, is_errand, lacks_a_number
from demo_project.chat.facts import Facts
from demo_project.chat.questions import Question, asks_for_everything, read_question
from demo_project.chat.sentences import clauses, sentences
from demo_project.chat.summarizer import is_summary, quotes

__all__ = ["answer"]

_MAX_CALLS = 2

_ASKS_WHO_IT_IS = re.compile(r"\b(?:who|what) are you\b|\byour name\b|\bwhat can you do\b|\bhelp\b", re.IGNORECASE)
_GREETS = re.compile(r"^\s*(?:hi|hello|hey|good (?:morning|day|evening))\b", re.IGNORECASE)
_SMALL_TALK = {
    r"\b(?:thanks|thank you)\b": "You are welcome.",
    r"\bhow are you\b": "I am a program, so I am always the same. Thank you for asking.",
    r"^\W*(?:good)?bye\b|\bsee you\b|\bgood night\b": "Goodbye!",
    r"^\W*(?:ok|okay|yes|yeah|no|cool|nice|great|good|fine|sure|all ?right|i see|got it)\W*$": "All right.",
}

_I_AM = (
    "I am a small program in this demo, not a language model, and I know only what is in my memory. Tell me your name "
    "or your favourite colour, ask me to remember a number, ask what I know about you, give me arithmetic, or ask "
    "where order 1001 is."
)
_WHICH_ORDER = "Which order? Give me its number, for example 1001."
_NOT_UNDERSTOOD = "I did not understand that."
_GONE = "If you told me, I have forgotten it or did not understand it."

_READS_CHARS = 2_000  # of a message, because the patterns are slow on long ones


def answer(messages: Sequence[ChatMessage]) -> AiMessage:
    """Return the bot's answer, or the tools that it calls. It uses nothing but ``messages``."""
    results = _trailing_results(messages)
    question = next((message for message in reversed(messages) if isinstance(message, UserMessage)), None)
    if results:
        return AiMessage(_tell(results, messages, question) or "The tools gave me nothing that I can read.")
    if question is None:
        return AiMessage(_I_AM)
    said = _text(question)
    noted = "Noted: I know it as long as your message is in my memory." if Facts().learn_from_user(said) else None
    calls = list(errands(said))
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
        left = len(list(errands(said))) - _MAX_CALLS
        if left > 0:
            sentences_.append(f"I do {_MAX_CALLS} things at a time, so ask me again for the rest.")
    return " ".join(sentences_)


def _recalled(said: str, messages: Sequence[ChatMessage]) -> list[str]:
    """Return the answers to questions about earlier messages."""
    parts = [clause for sentence in sentences(said) for clause in clauses(sentence)]
    asked = [(part, question) for part in parts if not is_errand(part) and (question := read_question(part))]
    if not asked and asks_for_everything(said):
        return [_everything(messages)]
    return [_told(question, messages) or _unknown(part, question) for part, question in asked]


def _told(question: Question, messages: Sequence[ChatMessage]) -> str | None:
    if told := _known(messages, own_answers=False).told(question.topics):
        return told
    if told := _known(messages, own_answers=True).told(question.topics):
        told = f"{told[0].lower()}{told[1:]}"
        return f"None of your messages in my memory tells me that, but an answer of mine does: {told}"
    return None


def _unknown(clause: str, question: Question) -> str:
    if lacks_a_number(clause):
        return _WHICH_ORDER
    return f"Nothing in my memory tells me {question.words}.{f' {_GONE}' if question.asks_back else ''}"


def _everything(messages: Sequence[ChatMessage]) -> str:
    known = _known(messages, own_answers=True).everything()
    if known:
        return " ".join(known)
    return f"Nothing in my memory tells me anything about you. {_GONE}"


def _known(messages: Sequence[ChatMessage], *, own_answers: bool) -> Facts:
    facts = Facts()
    for message in messages:
        if isinstance(message, UserMessage):
            for said in quotes(_text(message)) if is_summary(message) else [_text(message)]:
                facts.learn_from_user(said)
        elif own_answers and isinstance(message, AiMessage):
            facts.learn_from_answer(message.text or "")
    return facts


def _small_talk(said: str, messages: Sequence[ChatMessage]) -> str:
    if not said.strip():
        return f"I can read text only. {_I_AM}"
    if lacks_a_number(said):
        return _WHICH_ORDER
    for pattern, reply in _SMALL_TALK.items():
        if re.search(pattern, said, re.IGNORECASE):
            return reply
    if _GREETS.search(said):
        told = _known(messages, own_answers=False).told(["your name"]) or ""
        if name := re.fullmatch(r"Your name is (.+)\.", told):
            return f"Hello, {name[1]}!"
        return f"Hello! {_introduction(messages)}".rstrip()
    if _ASKS_WHO_IT_IS.search(said):
        return _I_AM
    return f"{_NOT_UNDERSTOOD} {_introduction(messages) or 'Say “help” and I will tell you what I understand.'}"


def _introduction(messages: Sequence[ChatMessage]) -> str:
    """Return what the bot is; empty if an answer in its memory says so already."""
    said = any(isinstance(message, AiMessage) and _I_AM in (message.text or "") for message in messages)
    return "" if said else _I_AM


def _text(message: UserMessage) -> str:
    return _joined(message.contents)


def _joined(contents: Sequence[object]) -> str:
    text = "\n".join(content.text for content in contents if isinstance(content, TextContent))[:_READS_CHARS]
    return text.replace("’", "'")  # what phones type for it
