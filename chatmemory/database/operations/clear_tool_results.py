"""Put placeholders in the place of old tool results."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from chatmemory.core.entries import RESULT_CLEARED, RESULTS_KEPT, Entry
from chatmemory.core.eviction import Retained
from chatmemory.core.serialization.storable import require_storable
from chatmemory.core.window import WindowKind, check_keep_tool_results
from chatmemory.database.change import Change
from chatmemory.database.estimators import window_of
from chatmemory.database.operations.plan import evicted_rows, oldest_entries, placed_rows
from chatmemory.database.target import Target
from chatmemory.database.write_change import write
from chatmemory.models import Conversation

__all__ = ["clear_tool_results", "plan_clearing"]


def clear_tool_results(
    target: Target, *, keep: int = RESULTS_KEPT, exclude_tools: Collection[str] = (), placeholder: str = RESULT_CLEARED
) -> Change:
    """Put placeholders in the place of tool results that take more tokens than they. The last turn stays as it is.

    Args:
        target: the conversation.
        keep: the number of results, the last of the memory, that stay.
        exclude_tools: the names of tools whose results stay.
        placeholder: the text of the placeholders.

    Raises:
        Conversation.DoesNotExist: the conversation is missing.
        TypeError: ``exclude_tools`` is one text.
        ValueError: ``keep`` is below zero, or ``placeholder`` is blank or no database can hold it.
    """
    if keep is None:
        raise ValueError("keep must be a whole number of at least zero, but is: null")
    check_keep_tool_results(keep, "keep")
    if isinstance(exclude_tools, str):
        raise TypeError(f"exclude_tools must be a list of names, but is: {exclude_tools!r:.100}")
    excluded = frozenset(exclude_tools)  # it may be an iterator, and the work is done again after a deadlock
    if not require_storable(placeholder, "placeholder").strip():
        raise ValueError("placeholder must not be blank")

    def work(change: Change) -> None:
        conversation = change.conversation
        memory = plan_clearing(conversation, keep=keep, exclude_tools=excluded, placeholder=placeholder)
        added = placed_rows(memory, conversation.next_position, window_of(conversation))
        if added:
            conversation.next_position += len(added)
            write(change, added, evicted_rows(memory))

    return target.change(work)


def plan_clearing(
    conversation: Conversation, *, keep: int, exclude_tools: Collection[str] = (), placeholder: str = RESULT_CLEARED
) -> Retained[Entry]:
    """Return the memory as :func:`clear_tool_results` would leave it; nothing is written. Costs are tokens."""
    window = replace(window_of(conversation), kind=WindowKind.TOKENS)  # a placeholder is not fewer messages
    memory = Retained(oldest_entries(conversation, window), total=0, window=window)
    memory.clear_tool_results(keep, exclude_tools=exclude_tools, placeholder=placeholder)
    return memory
