"""Replace old tool results by placeholders."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from chatmemory.core.entries import RESULT_CLEARED, RESULTS_KEPT, Entry
from chatmemory.core.eviction import Retained
from chatmemory.core.exceptions import InvalidValueError
from chatmemory.core.json_text import require_storable
from chatmemory.core.window import WindowKind, check
from chatmemory.database.change import Change, Target, write
from chatmemory.database.operations.plan import check_size, evicted_rows, oldest_entries, placed_rows
from chatmemory.database.rows import place_columns
from chatmemory.database.stored_windows import window_of
from chatmemory.models import Conversation


def clear_tool_results(
    target: Target, *, keep: int = RESULTS_KEPT, exclude_tools: Collection[str] = (), placeholder: str = RESULT_CLEARED
) -> Change:
    """Replace tool results by placeholders, if the placeholders take fewer tokens. The last turn stays unchanged.

    Args:
        target: the conversation.
        keep: the number of results, the last of the memory, that stay.
        exclude_tools: the names of tools whose results stay.
        placeholder: the text of the placeholders.

    Raises:
        Conversation.DoesNotExist: the conversation is missing.
        TypeError: ``exclude_tools`` is a string.
        InvalidValueError: ``keep`` is negative, or ``placeholder`` is blank or cannot be stored.
        MemoryTooLargeError: the memory is, or would become, larger than the target allows.
    """
    if keep is None:
        raise InvalidValueError("keep must be a whole number of at least zero, but is: null", code="null")
    check("keep_tool_results", keep, "keep")
    if isinstance(exclude_tools, str):
        raise TypeError(f"exclude_tools must be a list of names, but is: {exclude_tools!r:.100}")
    excluded = frozenset(exclude_tools)  # it may be an iterator, and the work may be retried
    if not require_storable(placeholder, "placeholder").strip():
        raise InvalidValueError("placeholder must not be blank", code="blank")

    def work(change: Change) -> None:
        conversation = change.conversation
        memory = _plan(conversation, keep=keep, exclude_tools=excluded, placeholder=placeholder)
        added = placed_rows(memory, conversation.next_position, window_of(conversation))
        if added:
            gone = evicted_rows(memory)
            check_size(target.most, conversation, added, gone)  # fewer tokens may be more characters
            conversation.next_position += len(added)
            write(change, added, gone)

    return target.change(work)


def try_clearing(
    conversation: Conversation, *, keep: int = RESULTS_KEPT, exclude_tools: Collection[str] = ()
) -> tuple[dict[int, int], int]:
    """Return what ``clear_tool_results`` would do. Nothing is written.

    Returns:
        The tokens of each result that would be cleared, by position, and the tokens that this would free.
    """
    memory = _plan(conversation, keep=keep, exclude_tools=exclude_tools, placeholder=RESULT_CLEARED)
    tokens = {place_columns(entry.row)[0]: entry.cost for entry, _reason in memory.evicted}
    return tokens, sum(tokens.values()) - sum(entry.cost for entry in memory.placeholders)


def _plan(
    conversation: Conversation, *, keep: int, exclude_tools: Collection[str], placeholder: str
) -> Retained[Entry]:
    """Return the memory after clearing. Costs are tokens."""
    window = replace(window_of(conversation), kind=WindowKind.TOKENS)  # in messages, nothing would be saved
    memory = Retained(oldest_entries(conversation, window), total=0, window=window)
    memory.clear_tool_results(keep, exclude_tools=exclude_tools, placeholder=placeholder)
    return memory
