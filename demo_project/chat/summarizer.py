"""The demo's summarizer, which is no model: it repeats the first words of what the user said, and counts the rest."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from chatmemory import AiMessage, ChatMessage, TextContent, ToolExecutionResultMessage, UserMessage

__all__ = ["is_summary", "quotes", "summarize", "text_of"]

_SAYS_WHAT_IT_IS = "Made by a small program, not by a model: the beginnings of what the user said."
_COUNTS = re.compile(r"Of the user: (\d+)\. Answers: (\d+)\. Results of tools: (\d+)\.")
_QUOTE = re.compile(r"^“(.+)”$", re.MULTILINE)
_LONGEST_QUOTE = 70
_MOST_QUOTES = 15


def summarize(messages: Sequence[ChatMessage], previous: str | None) -> str:
    """Return a summary of messages, and of the summary before them.

    It has at most a third of the characters that it stands for, so that it always saves room.
    """
    said = [text for message in messages if isinstance(message, UserMessage) and (text := text_of(message))]
    counts = _counts(messages) + _counted(previous or "")
    head = (
        f"{_SAYS_WHAT_IT_IS}\n"
        f"Of the user: {counts[UserMessage]}. Answers: {counts[AiMessage]}. "
        f"Results of tools: {counts[ToolExecutionResultMessage]}."
    )
    room = (sum(len(text_of(message)) for message in messages) + len(previous or "")) // 3 - len(head)
    chosen: list[str] = []
    # The latest first: they are what the user may still refer to.
    for quote in reversed([*quotes(previous or ""), *map(_beginning, said)]):
        room -= len(quote) + 3
        if room < 0 or len(chosen) == _MOST_QUOTES:
            break
        chosen.insert(0, f"“{quote}”")
    return "\n".join([head, *chosen])


def is_summary(message: ChatMessage) -> bool:
    """Return whether a message of a memory is a summary."""
    return isinstance(message, UserMessage) and (message.text or "").startswith("<summary>\n")


def quotes(summary: str) -> list[str]:
    """Return what a summary of ``summarize``, or an answer of the bot's, repeats of the user's words."""
    return _QUOTE.findall(summary)


def _beginning(text: str) -> str:
    line = " ".join(text.split())
    if len(line) <= _LONGEST_QUOTE:
        return line
    cut = line[:_LONGEST_QUOTE]
    whole_words, space, _rest = cut.rpartition(" ")
    # Not every language has spaces between its words.
    return f"{whole_words if space and len(whole_words) > _LONGEST_QUOTE // 2 else cut} …"


def _counts(messages: Sequence[ChatMessage]) -> Counter[type[ChatMessage]]:
    return Counter(type(message) for message in messages)


def _counted(summary: str) -> Counter[type[ChatMessage]]:
    """Return the counts that a summary has; none if another program made it."""
    found = _COUNTS.search(summary)
    kinds: list[type[ChatMessage]] = [UserMessage, AiMessage, ToolExecutionResultMessage]
    return Counter(dict(zip(kinds, map(int, found.groups()), strict=True))) if found else Counter()


def text_of(message: ChatMessage) -> str:
    """Return the texts of a message that was said, line by line."""
    if isinstance(message, (UserMessage, ToolExecutionResultMessage)):
        return "\n".join(content.text for content in message.contents if isinstance(content, TextContent))
    return message.text or "" if isinstance(message, AiMessage) else ""
