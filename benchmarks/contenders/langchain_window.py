"""LangChain's messages, and its ``trim_messages`` as a window: what its histories and LangGraph are documented with."""

from __future__ import annotations

from collections.abc import Iterator

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, trim_messages

from benchmarks.texts import PER_MESSAGE, count_tokens, message_text
from benchmarks.windows import Window

__all__ = ["batches", "texts", "trim"]

_MESSAGES_AT_ONCE = 5_000


def batches(history: int) -> Iterator[list[BaseMessage]]:
    """Yield the first ``history`` messages, some at a time."""
    for start in range(0, history, _MESSAGES_AT_ONCE):
        positions = range(start, min(history, start + _MESSAGES_AT_ONCE))
        yield [(AIMessage if position % 2 else HumanMessage)(message_text(position)) for position in positions]


def trim(messages: list[BaseMessage], window: Window) -> list[BaseMessage]:
    """Return the newest messages that fit."""
    counter = len if window.kind == "messages" else _tokens
    return trim_messages(messages, max_tokens=window.limit, token_counter=counter, strategy="last")


def _tokens(messages: list[BaseMessage]) -> int:
    return sum(count_tokens(str(message.content)) + PER_MESSAGE for message in messages)


def texts(messages: list[BaseMessage]) -> list[str]:
    """Return the texts of messages."""
    return [str(message.content) for message in messages]
