"""Summaries: messages that replace others, and the functions that write them."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Any, TypeAlias

from chatmemory.core.entries import Entry
from chatmemory.core.exceptions import InvalidMessageError, UnusableSummaryError
from chatmemory.core.json_text import require_storable
from chatmemory.core.messages import ChatMessage, UserMessage

Summarizer: TypeAlias = Callable[[Sequence[ChatMessage], "str | None"], "str | Awaitable[str]"]
"""A function, sync or async, of messages, and of the summary before them or None. It returns one summary of both.

An object that is called may have an attribute ``input_tokens``, the most tokens of messages that one call takes, and a
method ``requests`` of messages, which returns the tokens of messages in each call of its model.
"""

SUMMARISED: ContextVar[Any] = ContextVar("chatmemory_summarised", default=None)
"""The conversation of which a summary is being written, for what notes the calls of models."""

SUMMARY_INPUT_TOKENS = 60_000
"""The tokens of messages that one call takes of a summarizer that does not say it."""

USUAL_SUMMARY_TOKENS = 200
"""The expected number of tokens of a first summary. Summarising fewer than twice as many tokens is not worth it."""

_OPENING, _CLOSING = "<summary>\n", "\n</summary>"
_TAG = re.compile(r"<(\\*)(?=\s*/\s*summary)", re.IGNORECASE)
_ESCAPED_TAG = re.compile(r"<\\(\\*)(?=\s*/\s*summary)", re.IGNORECASE)


def input_tokens_of(summarizer: Summarizer | None) -> int:
    """Return the most tokens of messages that one call of a summarizer takes."""
    return int(getattr(summarizer, "input_tokens", SUMMARY_INPUT_TOKENS))


def requests_of(summarizer: Summarizer | None, messages: Sequence[ChatMessage]) -> list[int] | None:
    """Return the tokens of messages in each call that a summarizer makes of its model; None if it does not say it."""
    requests: Callable[[Sequence[ChatMessage]], list[int]] | None = getattr(summarizer, "requests", None)
    return None if requests is None else requests(messages)


def summary_message(text: str) -> UserMessage:
    """Return the message that contains a summary in a memory.

    It is a user message, and never part of the system message, because what users said is not an instruction. Closing
    tags in ``text`` are escaped, so that text from the conversation cannot end the summary early.
    """
    return UserMessage(_OPENING + _TAG.sub(r"<\\\1", text) + _CLOSING)


def summary_text(message: ChatMessage) -> str:
    """Return the text that was passed to ``summary_message``."""
    text = (message.text or "") if isinstance(message, UserMessage) else ""
    return _ESCAPED_TAG.sub(r"<\1", text.removeprefix(_OPENING).removesuffix(_CLOSING))


def is_summary_text(text: str) -> bool:
    """Return whether ``text`` was written by ``summary_message``."""
    return text.startswith(_OPENING) and text.endswith(_CLOSING)


def check_summary(text: Any) -> str:
    """Return a summary without surrounding white space.

    Raises:
        UnusableSummaryError: the summary is not a string, is blank, or cannot be stored in databases.
    """
    if not isinstance(text, str):
        raise UnusableSummaryError(
            "a summary must be a text, but is: %(got)s", code="invalid_type", got=type(text).__name__
        )
    if not text.strip():
        raise UnusableSummaryError("a summary must not be blank", code="blank")
    try:
        return require_storable(text).strip()
    except InvalidMessageError as error:
        raise UnusableSummaryError("a summary %(problem)s", code=error.code, problem=error) from error


def check_keep(keep: Any) -> int:
    """Return ``keep``.

    Raises:
        ValueError: ``keep`` is not a whole number from 0 to 100.
    """
    if not _is_percentage(keep, 0):
        raise ValueError(f"keep must be a percentage from 0 to 100, but is: {keep!r:.300}")
    return keep  # type: ignore[no-any-return]


def _is_percentage(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= 100


def first_kept(entries: Sequence[Entry], most: float) -> int:
    """Return the index of the first entry that a summary does not replace. As many whole turns stay as fit in ``most``.

    Args:
        entries: a memory, in order.
        most: the maximum cost of what stays. The last turn always stays.
    """
    kept, cost = 0, 0
    is_last_turn = True
    for index in reversed(range(len(entries))):
        entry = entries[index]
        cost += entry.cost
        if entry.begins_turn:
            if not is_last_turn and cost > most:
                break
            kept, is_last_turn = index, False
    return kept


def first_kept_call(entries: Sequence[Entry], calls: int) -> int:
    """Return the index of the first entry that a summary of the last turn does not replace, after the question.

    Args:
        entries: a memory, in order.
        calls: the number of tool calls, the last of the turn, that stay.
    """
    start = first_kept(entries, 0)
    made = [index for index in range(start, len(entries)) if entries[index].has_calls]
    if len(made) > calls:
        return made[-calls]
    return start + 1 if start < len(entries) and entries[start].begins_turn else start
