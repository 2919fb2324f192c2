"""Give feedback to an answer, and withdraw it.

Both lock the conversation, so that no feedback is written to a message that is being erased.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.utils import timezone

from chatmemory.contrib.feedback.models import LONGEST_COMMENT, Feedback, Thumb
from chatmemory.contrib.feedback.signals import feedback_given
from chatmemory.core.asynchronous import as_async_change
from chatmemory.core.exceptions import InvalidValueError
from chatmemory.core.json_text import require_storable
from chatmemory.database.change import Change, Target, after_commit
from chatmemory.database.reading import is_answer, rows_of
from chatmemory.models import Conversation, require_owner


class NotAnAnswerError(InvalidValueError):
    """The message is not an answer of the model."""

    def __init__(self, position: int) -> None:
        super().__init__(
            "message %(position)s is not an answer of the model; only answers can be rated", position=position
        )


def give_feedback(
    conversation: Conversation,
    position: int,
    user: Any,
    value: str,
    comment: str = "",
    *,
    also: Callable[[Change], None] | None = None,
) -> Feedback:
    """Store what a user thinks of an answer, instead of what the same user thought of it before.

    Whether the user may read the conversation is for the caller to check.

    Args:
        conversation: the conversation.
        position: the position of the answer, which may be evicted.
        user: a saved user.
        value: ``"up"`` or ``"down"``.
        comment: a text of at most 1,000 characters.
        also: called in the same transaction, as in changes of a memory.

    Raises:
        Conversation.DoesNotExist: the conversation has been erased.
        Message.DoesNotExist: there is no message at this position.
        NotAnAnswerError: the message is not an answer.
        ValueError: the value, the comment or the user is invalid.
    """
    if value not in Thumb.values:
        raise ValueError(f'value must be "up" or "down", but is: {value!r}')
    if require_owner(user) is None:
        raise ValueError("user must be a saved user, but is: None")
    if len(require_storable(comment, "comment")) > LONGEST_COMMENT:
        raise ValueError(f"comment must have at most {LONGEST_COMMENT} characters, but has: {len(comment)}")
    given: list[Feedback] = []

    def work(change: Change) -> None:
        found = change.conversation
        if not is_answer(rows_of(found).only("type", "origin", "conversation").get(position=position)):
            raise NotAnAnswerError(position)
        rows = _rows_of(found, position, user)
        row = rows.first() or Feedback(conversation=found, position=position, user=user)
        given[:] = [row]
        if not row._state.adding and (row.value, row.comment) == (value, comment):
            return
        row.value, row.comment, row.updated_at = value, comment, timezone.now()
        if row._state.adding:
            row.created_at = row.updated_at
            row.save(using=found._state.db, force_insert=True)
        else:
            rows.update(value=value, comment=comment, updated_at=row.updated_at)
        after_commit(feedback_given, found, feedback=row)

    Target.of(conversation, also=also).change(work)
    return given[0]


def withdraw_feedback(
    conversation: Conversation, position: int, user: Any, *, also: Callable[[Change], None] | None = None
) -> bool:
    """Delete what a user thinks of an answer. Return whether there was anything.

    Raises:
        Conversation.DoesNotExist: the conversation has been erased.
    """
    deleted: list[int] = []

    def work(change: Change) -> None:
        deleted[:] = [_rows_of(change.conversation, position, user).delete()[0]]

    Target.of(conversation, also=also).change(work)
    return deleted[0] > 0


def _rows_of(conversation: Conversation, position: int, user: Any) -> Any:
    rows = Feedback.objects.using(conversation._state.db)
    return rows.filter(conversation=conversation, position=position, user=user)


agive_feedback = as_async_change(give_feedback)
"""Async version of ``give_feedback``."""

awithdraw_feedback = as_async_change(withdraw_feedback)
"""Async version of ``withdraw_feedback``."""
