"""Make a summary: plan it, let a summarizer write it, and apply it, while the conversation goes on."""

from __future__ import annotations

import inspect
from typing import Any

from asgiref.sync import async_to_sync

from chatmemory import signals
from chatmemory.core.exceptions import UnusableSummaryError
from chatmemory.core.summaries import Summarizer
from chatmemory.database.change import Change
from chatmemory.database.connections import give_back
from chatmemory.database.operations.compaction.apply import apply_compaction
from chatmemory.database.operations.compaction.due import due_plan
from chatmemory.database.operations.compaction.lease import Lease
from chatmemory.database.operations.compaction.plan import USUAL_KEEP, CompactionPlan, plan_compaction
from chatmemory.database.retry import retry
from chatmemory.database.target import Target
from chatmemory.models import Conversation

__all__ = ["USUAL_LEASE", "compact"]

USUAL_LEASE = 600.0
"""The seconds for which nobody else begins a summary of the same conversation, unless this one is done before."""


def compact(
    conversation: Conversation,
    summarizer: Summarizer,
    *,
    keep: int = USUAL_KEEP,
    if_due: bool = False,
    lease: float = USUAL_LEASE,
) -> Change | None:
    """Summarise the older turns of a conversation.

    While ``summarizer`` works, no transaction is open and no turn waits.

    Args:
        conversation: the conversation; its row is read anew.
        summarizer: a function, sync or async, of messages and of the summary before them or None, that returns a text.
        keep: the percent of the limit that stays in whole turns.
        if_due: whether to do nothing before ``compact_at`` is reached or the window has evicted messages that no
            summary stands for, and while a pause after a failure lasts.
        lease: the seconds for which nobody else begins a summary of this conversation.

    Returns:
        None, with nothing done, if another is at it, or there is nothing to summarise, or the messages were erased,
        taken out or summarised while ``summarizer`` worked.

    Raises:
        Conversation.DoesNotExist: the conversation has been erased, or was anonymised before ``summarizer`` failed.
        RuntimeError: the caller is within a transaction.
        UnusableSummaryError: the text cannot take the place of the messages.
        ValueError: ``keep`` is no percentage, or the conversation was never saved.
        Exception: what ``summarizer`` raised. The failure is noted; nothing else has changed.
    """
    target = Target.of(conversation)
    database = target.key.database
    own = Lease(conversation, database, lease)
    if not own.try_take(also_after_failure=not if_due):
        return None
    try:
        row = retry(database, lambda: Conversation.objects.using(database).get(pk=conversation.pk))
        plan = due_plan(row, keep=keep) if if_due else plan_compaction(row, keep=keep)
        if plan is None:
            return None
        try:
            give_back()
            text = _text_of(summarizer, plan)
        except Exception as error:
            _note(own, conversation, plan, error)
            raise
        try:
            change = apply_compaction(target, plan, text)
        except UnusableSummaryError as error:  # other errors are not the summarizer's
            _note(own, conversation, plan, error)
            raise
        own.note_success()
        return change
    finally:
        own.release()


def _note(own: Lease, conversation: Conversation, plan: CompactionPlan, error: Exception) -> None:
    own.note_failure(error, plan)
    signals.compaction_failed.send_robust(Conversation, conversation=conversation, plan=plan, error=error)


def _text_of(summarizer: Summarizer, plan: CompactionPlan) -> str:
    is_async = inspect.iscoroutinefunction(summarizer) or inspect.iscoroutinefunction(
        getattr(summarizer, "__call__", None)  # noqa: B004
    )
    write: Any = async_to_sync(summarizer) if is_async else summarizer  # type: ignore[arg-type]
    return write(plan.messages, plan.previous)  # type: ignore[no-any-return]
