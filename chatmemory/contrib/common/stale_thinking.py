"""Anthropic's thinking in the messages that adapters return: the API may refuse it where its prefix has changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from chatmemory.core.messages import ChatMessage
from chatmemory.database.reading import fresh_rows
from chatmemory.formats.thinking import stale_answers
from chatmemory.formats.validity import Valid
from chatmemory.models import Message

__all__ = ["without_stale_thinking"]

T = TypeVar("T")


def without_stale_thinking(
    rows: Sequence[tuple[Message, ChatMessage]], forms: Sequence[T], without: Callable[[T], T | None]
) -> list[T]:
    """Return a framework's messages without the thinking that is stale; see :mod:`chatmemory.formats.thinking`.

    Args:
        rows: the rows of the memory with their messages, in memory order.
        forms: the framework's message of each.
        without: returns a message without its signed thinking; None if it has none.
    """
    kept = list(forms)
    if rows:
        fresh = fresh_rows([row for row, _ in rows], vars(rows[0][0])["prefix_version"])  # see NativeMemory.messages
        memory = Valid([message for _, message in rows], list(range(len(rows))), [])
        for index, rest in stale_answers(memory, fresh, lambda index: without(forms[index])):
            kept[index] = rest
    return kept
