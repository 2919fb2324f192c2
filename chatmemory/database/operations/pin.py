"""Pin a message of a memory, so that the window never evicts it, and unpin it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from chatmemory.core.eviction import Retained
from chatmemory.core.exceptions import NotRetainedError, PinnedTooMuchError
from chatmemory.core.window import Window
from chatmemory.database.change import Change, Target, write, write_version
from chatmemory.database.operations.plan import entry_of, plan_eviction
from chatmemory.database.reading import rows_of
from chatmemory.database.stored_windows import window_of
from chatmemory.models import Conversation, Message
from chatmemory.models.message import close_pin, open_pin


def pin(target: Target, position: int) -> Change:
    """Pin a message. If it is already pinned, nothing changes.

    Raises:
        Conversation.DoesNotExist: the conversation is missing.
        NotRetainedError: the message is not in the memory.
        PinnedTooMuchError: pinned messages would take more than half of the limit.
    """

    def work(change: Change) -> None:
        rows = list(rows_of(change.conversation).retained())
        row = _row_at(rows, position)
        if not row.is_pinned:
            _set_pins(change.conversation, row, open_pin)
            check_pins(rows, window_of(change.conversation))
            write_version(change)

    return target.change(work)


def unpin(target: Target, position: int) -> Change:
    """Unpin a message, and evict what no longer fits. If it is not pinned, nothing changes.

    Raises:
        Conversation.DoesNotExist: the conversation is missing.
        NotRetainedError: the message is not in the memory.
    """

    def work(change: Change) -> None:
        conversation = change.conversation
        row = _row_at(rows_of(conversation).retained().filter(position=position), position)
        if row.is_pinned:
            _set_pins(conversation, row, close_pin)
            added, gone = plan_eviction(conversation, window_of(conversation))
            if added or gone:
                write(change, added, gone)
            else:
                write_version(change)

    return target.change(work)


def require_room_for_pins(conversation: Conversation, window: Window, *, before: Window) -> None:
    """Raise an error if the pinned messages of ``conversation`` do not fit ``window``: see ``check_pins``."""
    rows = rows_of(conversation)
    if rows.pinned().exists():
        check_pins(list(rows.retained()), window, before=before)


def check_pins(rows: Sequence[Message], window: Window, *, before: Window | None = None) -> None:
    """Raise an error if the pinned messages of a memory would leave too little room for others.

    Args:
        rows: the memory, in order.
        window: the window of the memory.
        before: the previous window, if it is replaced. The results of a pinned call may have been added since.

    Raises:
        PinnedTooMuchError: the pinned messages, with the messages that stay with them, would take more than half of the
            limit, and a larger part than before.
    """
    cost = _pinned_cost(rows, window)
    if cost * 2 > window.room and (before is None or cost * before.room > _pinned_cost(rows, before) * window.room):
        raise PinnedTooMuchError(cost, window.room, window.kind.value)


def _pinned_cost(rows: Sequence[Message], window: Window) -> int:
    return Retained([entry_of(row, window) for row in rows], total=0, window=window).pinned_cost()


def _row_at(rows: Iterable[Message], position: int) -> Message:
    row = next((row for row in rows if row.position == position), None)
    if row is None:
        raise NotRetainedError(
            "position must be that of a message in the memory, but is: %(position)s", position=repr(position)[:100]
        )
    return row


def _set_pins(conversation: Conversation, row: Message, changed: Callable[[str, int], str]) -> None:
    """Write the pins of a row for the next version."""
    row.pins = changed(row.pins, conversation.version + 1)
    rows_of(conversation).filter(pk=row.pk).update(pins=row.pins)
