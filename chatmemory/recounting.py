"""Count the tokens of stored messages again, for another model or with another vocabulary."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import QuerySet

from chatmemory.core.asynchronous import as_async_iterator
from chatmemory.core.tokens import stored_count
from chatmemory.core.window import check
from chatmemory.database import operations
from chatmemory.database.change import Change, Target
from chatmemory.database.reading import on_primary, pages, read_in_parts, rows_of
from chatmemory.database.stored_windows import CUSTOM, estimator_for
from chatmemory.models import Conversation, Message


@dataclass(frozen=True, kw_only=True)
class Recounted:
    """The result of one step; in a dry run, the expected result."""

    conversations: int = 0

    messages: int = 0
    """The number of counted messages."""

    evicted: int = 0
    """The number of evicted messages that no longer fit. A dry run does not count them."""

    problem: str = ""
    """The reason why a conversation was left unchanged; otherwise empty."""

    def __add__(self, other: Recounted) -> Recounted:
        return Recounted(
            conversations=self.conversations + other.conversations,
            messages=self.messages + other.messages,
            evicted=self.evicted + other.evicted,
        )


def recount(
    conversations: QuerySet[Conversation] | None = None,
    *,
    model: str | None = None,
    batch_size: int = 500,
    dry_run: bool = False,
) -> Iterator[Recounted]:
    """Count all messages of ``conversations`` again, including evicted messages. Yield after each step.

    A conversation's ``model`` changes last, in one transaction with the counts of the retained messages and the
    eviction of messages that no longer fit. Therefore, an interrupted conversation still has its old model, and can be
    counted again.

    Args:
        conversations: the conversations; by default all.
        model: the new model. By default, each conversation keeps its model, and conversations with the project's own
            estimator are skipped.
        batch_size: the number of evicted messages to write in one transaction and step.
        dry_run: whether to write nothing.

    Raises:
        ValueError: ``model`` is invalid.
    """
    if model is not None:
        check("model", model)
    return _recount_all(conversations, model, batch_size, dry_run)


arecount = as_async_iterator(recount)
"""Async version of ``recount``."""


def _recount_all(
    conversations: QuerySet[Conversation] | None, model: str | None, batch_size: int, dry_run: bool
) -> Iterator[Recounted]:
    for page in pages(on_primary(conversations)):
        for conversation in page:
            if model is None and conversation.model.startswith(CUSTOM):
                continue
            try:
                yield from _recount_one(conversation, model, batch_size, dry_run)
            except Conversation.DoesNotExist:
                continue
            except (TypeError, ValueError) as error:  # another program wrote an invalid row
                yield Recounted(problem=f"conversation {conversation.pk} ({conversation.memory_id!r}): {error}")


def _recount_one(conversation: Conversation, model: str | None, batch_size: int, dry_run: bool) -> Iterator[Recounted]:
    since = conversation.version
    rows = rows_of(conversation)
    if dry_run:
        yield Recounted(conversations=1, messages=rows.count())
        return
    estimator = estimator_for(model or conversation.model)
    counted: list[Message] = []
    # Evicted messages never change, so they are counted without the lock.
    for row in read_in_parts(rows.filter(evicted_in__isnull=False, evicted_in__lte=since)):
        counted.append(Message(pk=row.pk, token_count=stored_count(row.message, estimator)))
        if len(counted) == batch_size:
            _write(conversation, counted)
            yield Recounted(messages=len(counted))
            counted = []
    _write(conversation, counted)
    change = operations.recount(Target.as_read(conversation), model, since=since)
    rest = rows.retained().count() - len(change.added) + len(change.evicted)
    yield Recounted(conversations=1, messages=len(counted) + rest, evicted=len(change.evicted))


def _write(conversation: Conversation, counted: list[Message]) -> None:
    def work(change: Change) -> None:
        # The counters only count retained messages, so they stay.
        rows_of(change.conversation).bulk_update(counted, ["token_count"], batch_size=500)

    if counted:
        Target.as_read(conversation).change(work)
