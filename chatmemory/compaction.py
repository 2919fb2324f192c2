"""Summaries of many conversations, for commands and task queues."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import cast

from django.core.exceptions import ImproperlyConfigured
from django.db.models import QuerySet
from django.utils.module_loading import import_string

from chatmemory.conf import problem_of_path, setting
from chatmemory.core.asynchronous import in_thread_for_functions
from chatmemory.core.exceptions import SummarizerTimeoutError, UnusableSummaryError
from chatmemory.core.summaries import Summarizer, check_keep
from chatmemory.database.change import Change
from chatmemory.database.connections import require_no_transaction
from chatmemory.database.operations.compact import compact, due_conversations, due_parts, still_uncovered
from chatmemory.database.operations.compaction_plan import CompactionPlan
from chatmemory.database.reading import on_primary, pages
from chatmemory.models import Conversation

__all__ = [
    "Compacted",
    "CompactionPlan",
    "Summarizer",
    "SummarizerTimeoutError",
    "UnusableSummaryError",
    "acompact_due",
    "compact_due",
    "project_summarizer",
]

# The number of conversations that one statement finds. Few, because a model takes seconds for each, and other processes
# may summarise too.
_PAGE = 20

_IN_TRANSACTION = (
    "Conversations cannot be summarised in a transaction: they would be locked while the model works. Call "
    "compact_due() outside of transaction.atomic()."
)


def project_summarizer() -> Summarizer:
    """Return the function of the setting ``SUMMARIZER``.

    Raises:
        ImproperlyConfigured: the setting is missing, or is not the path of a function.
    """
    path = setting("SUMMARIZER")
    if path is None:
        raise ImproperlyConfigured(
            "SUMMARIZER is not set, so nothing can write a summary. Set CHATMEMORY['SUMMARIZER'] to the dotted path "
            "of a function that takes messages and the summary before them, such as a ChatModelSummarizer."
        )
    problem = problem_of_path(path, "a function")
    if problem is not None:
        raise ImproperlyConfigured(f"CHATMEMORY['SUMMARIZER'], {path!r}, {problem}.")
    return cast(Summarizer, import_string(path))


@dataclass(frozen=True, kw_only=True)
class Compacted:
    """The result of one summary: that it was made, the failure, or, of a dry run, what is due.

    If all three are None, there was nothing to do: another process is summarising, or there is too little to summarise.
    """

    conversation: Conversation

    plan: CompactionPlan | None = None
    """The plan of a summary that is due; None if it was no dry run."""

    change: Change | None = None
    """The change that added a summary to the memory."""

    error: Exception | None = None
    """The failure. The conversation is unchanged, and is due again only after a pause."""

    left: tuple[int, int] = (0, 0)
    """The numbers of messages, and of their tokens, that further parts are to cover; about, if messages are pinned."""


def compact_due(
    conversations: QuerySet[Conversation] | None = None,
    summarizer: Summarizer | None = None,
    *,
    limit: int | None = None,
    keep: int | None = None,
    dry_run: bool = False,
) -> Iterator[Compacted]:
    """Summarise each conversation in which a summary is due, and yield the result of each summary.

    What one call of the summarizer does not take is summarised in parts, one summary after the other. Any number of
    processes may do so at once: each summary is made by one of them.

    Args:
        conversations: the conversations to look at; by default all.
        summarizer: a function, sync or async, of messages and of the summary before them, or None; by default that of
            the setting ``SUMMARIZER``.
        limit: the most summaries to make, those that fail included.
        keep: the percent of the limit, from 0 to 100, that stays in whole turns; by default the ``compact_keep``
            of each conversation. The last turn always stays.
        dry_run: tell what is due; ask nobody, and write nothing. The parts are those that the summarizer would get; if
            there is none, those of a function that says nothing of its input.

    Raises:
        ImproperlyConfigured: there is no ``summarizer``, and ``SUMMARIZER`` is not set.
        RuntimeError: a transaction is open.
        ValueError: ``keep`` is not a percentage, or ``limit`` is not greater than zero.
    """
    if keep is not None:
        check_keep(keep)
    if limit is not None and limit < 1:
        raise ValueError(f"limit must be greater than zero, but is: {limit}")
    if summarizer is None and not (dry_run and setting("SUMMARIZER") is None):
        summarizer = project_summarizer()
    accounts = _accounts(conversations, summarizer, keep, dry_run)
    return accounts if limit is None else _at_most(accounts, limit)


async def acompact_due(
    conversations: QuerySet[Conversation] | None = None,
    summarizer: Summarizer | None = None,
    *,
    limit: int | None = None,
    keep: int | None = None,
    dry_run: bool = False,
) -> AsyncIterator[Compacted]:
    """Async version of ``compact_due``."""
    accounts = compact_due(conversations, summarizer, limit=limit, keep=keep, dry_run=dry_run)
    while account := await in_thread_for_functions(lambda: next(accounts, None)):
        yield account


def _accounts(
    conversations: QuerySet[Conversation] | None, summarizer: Summarizer | None, keep: int | None, dry_run: bool
) -> Iterator[Compacted]:
    found = due_conversations(on_primary(conversations))
    if not dry_run:
        require_no_transaction(found.db, _IN_TRANSACTION)
    for page in pages(found, _PAGE):
        for conversation in page:
            yield from _account(conversation, keep, summarizer, dry_run)


def _account(
    conversation: Conversation, keep: int | None, summarizer: Summarizer | None, dry_run: bool
) -> Iterator[Compacted]:
    """Yield the results of one conversation, at least one."""
    is_done = False
    try:
        if dry_run:
            for plan in due_parts(conversation, keep=keep, summarizer=summarizer):
                is_done = True
                yield Compacted(conversation=conversation, plan=plan)
        else:
            assert summarizer is not None
            for plan, change in compact(conversation, summarizer, keep=keep, if_due=True):
                is_done = True
                yield Compacted(
                    conversation=conversation, change=change, left=still_uncovered(change.conversation, plan)
                )
    except Conversation.DoesNotExist:  # it has been erased meanwhile
        pass
    except Exception as error:
        is_done = True
        yield Compacted(conversation=conversation, error=error)
    if not is_done:
        yield Compacted(conversation=conversation)


def _at_most(accounts: Iterator[Compacted], limit: int) -> Iterator[Compacted]:
    """Yield accounts until ``limit`` summaries were made, or failed, or are due.

    Conversations in which nothing was to be done do not count: at each call they would keep others from their turn.
    """
    done = 0
    for account in accounts:
        yield account
        done += bool(account.plan or account.change or account.error)
        if done == limit:
            return
