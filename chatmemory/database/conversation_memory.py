"""The memory of one conversation row."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from typing import Any, Unpack

from asgiref.sync import sync_to_async
from django.db import router

from chatmemory.core.asynchronous import as_async_change, in_thread_for_functions
from chatmemory.core.entries import RESULT_CLEARED, RESULTS_KEPT
from chatmemory.core.memory import ChatMemory
from chatmemory.core.messages import ChatMessage
from chatmemory.core.summaries import Summarizer
from chatmemory.database import operations
from chatmemory.database.change import Change
from chatmemory.database.key import Key
from chatmemory.database.operations.compaction import (
    USUAL_KEEP,
    CompactionPlan,
    apply_compaction,
    compact,
    plan_compaction,
)
from chatmemory.database.operations.replay import Replay, replay
from chatmemory.database.operations.try_window import WindowTrial, try_window
from chatmemory.database.read import read_fresh_window, read_window
from chatmemory.database.retry import retry
from chatmemory.database.target import Target
from chatmemory.database.to_format import written_memory
from chatmemory.models import Conversation, WindowSettings

__all__ = ["ConversationMemory"]


class ConversationMemory(ChatMemory):
    """The memory of a conversation, ``conversation.memory``. Its window is the row's, as it is when a change happens.

    Each change is one transaction, returns its :class:`~chatmemory.database.change.Change`, and raises
    ``Conversation.DoesNotExist`` if the conversation has been erased.
    """

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.conversation!r})"

    @property
    def id(self) -> str:
        return str(self.conversation.memory_id)

    def add(self, *messages: ChatMessage, idempotency_key: str | None = None) -> Change:
        """Add messages, all or none, as if one after the other; evict what no longer fits.

        Args:
            messages: in the order in which they were said.
            idempotency_key: 1 to 255 characters. A second call with the same key and messages changes nothing and
                returns the first call's account.

        Raises:
            TypeError: one of ``messages`` is no message.
            ValueError: a text or key that no database can hold.
            IdempotencyConflictError: the key came before, with other messages.
        """
        return operations.add(Target.of(self.conversation), messages, idempotency_key=idempotency_key)

    async def aadd(self, *messages: ChatMessage, idempotency_key: str | None = None) -> Change:
        """Async twin of :meth:`add`."""
        return await as_async_change(self.add)(*messages, idempotency_key=idempotency_key)

    def set(self, messages: Iterable[ChatMessage]) -> Change:
        """Make ``messages`` the memory: keep the rows that stay, evict the others and what does not fit.

        Raises:
            TypeError: one of ``messages`` is no message.
            ValueError: a text that no database can hold.
        """
        return operations.rewrite(Target.of(self.conversation), messages)

    async def aset(self, messages: Iterable[ChatMessage]) -> Change:
        """Async twin of :meth:`set`."""
        return await as_async_change(self.set)(messages)

    def clear(self) -> Change:
        """Evict every message. The history keeps them."""
        return operations.clear(Target.of(self.conversation))

    async def aclear(self) -> Change:
        """Async twin of :meth:`clear`."""
        return await as_async_change(self.clear)()

    def messages(self) -> list[ChatMessage]:
        """Return what the model gets now, in order. Nothing is written, even if the limit has become smaller."""
        return read_window(Key.of(self.conversation, self._primary))

    def at(self, version: int) -> list[ChatMessage]:
        """Return the messages that the model got at ``version``, from 0 (none) to the current one.

        An answer was made from the memory at its ``added_in - 1``. With ``KEEP_HISTORY = False``
        evicted messages are gone from past versions as well.

        Raises:
            ValueError: there was no such version.
        """
        database = self._primary

        def read() -> list[ChatMessage]:
            row = Conversation.objects.using(database).values_list("version", flat=True)
            current = row.get(pk=self.conversation.pk)
            if isinstance(version, bool) or not isinstance(version, int) or not 0 <= version <= current:
                raise ValueError(f"version must be from 0 to {current}, but is: {version!r}")
            return [row.message for row in self.conversation.messages.using(database).in_memory_at(version)]

        return retry(database, read)

    async def aat(self, version: int) -> list[ChatMessage]:
        """Async twin of :meth:`at`."""
        return await sync_to_async(self.at)(version)

    def clear_tool_results(
        self, keep: int = RESULTS_KEPT, exclude_tools: Collection[str] = (), placeholder: str = RESULT_CLEARED
    ) -> Change:
        """Put placeholders in the place of old tool results that take more tokens than they. The calls stay.

        The results of the last turn and of pinned calls, and placeholders, stay as they are, so a second call changes
        nothing. The history keeps the results.

        Args:
            keep: the number of results, the last of the memory, that stay.
            exclude_tools: the names of tools whose results stay.
            placeholder: the text of the placeholders.

        Raises:
            TypeError: ``exclude_tools`` is one text.
            ValueError: ``keep`` is below zero, or ``placeholder`` is blank or no database can hold it.
        """
        target = Target.of(self.conversation)
        return operations.clear_tool_results(target, keep=keep, exclude_tools=exclude_tools, placeholder=placeholder)

    async def aclear_tool_results(
        self, keep: int = RESULTS_KEPT, exclude_tools: Collection[str] = (), placeholder: str = RESULT_CLEARED
    ) -> Change:
        """Async twin of :meth:`clear_tool_results`."""
        return await as_async_change(self.clear_tool_results)(keep, exclude_tools, placeholder)

    def pin(self, position: int) -> Change:
        """Pin the message at ``position``: the window never evicts it, nor its call or its results.

        If whole turns leave, the user message of its turn stays as well. If it is pinned already, nothing changes.

        Raises:
            ValueError: the message is not in the memory, or pinned messages would take more than half of the limit.
        """
        return operations.pin(Target.of(self.conversation), position)

    async def apin(self, position: int) -> Change:
        """Async twin of :meth:`pin`."""
        return await as_async_change(self.pin)(position)

    def unpin(self, position: int) -> Change:
        """Unpin the message at ``position``, and evict what no longer fits. If it is not pinned, nothing changes.

        Raises:
            ValueError: the message is not in the memory.
        """
        return operations.unpin(Target.of(self.conversation), position)

    async def aunpin(self, position: int) -> Change:
        """Async twin of :meth:`unpin`."""
        return await as_async_change(self.unpin)(position)

    def plan_compaction(self, keep: int = USUAL_KEEP) -> CompactionPlan | None:
        """Plan a summary of the turns before those that stay; nothing is written.

        Args:
            keep: the percent of the limit, from 0 to 100, that stays in whole turns. The last turn always stays.

        Returns:
            None if there is too little to summarise, fewer than twice the tokens that a summary is expected to have, or
            no room for such a summary.

        Raises:
            ValueError: ``keep`` is no percentage.
        """
        return plan_compaction(self.conversation, keep=keep)

    async def aplan_compaction(self, keep: int = USUAL_KEEP) -> CompactionPlan | None:
        """Async twin of :meth:`plan_compaction`."""
        return await sync_to_async(self.plan_compaction)(keep)

    def apply_compaction(self, plan: CompactionPlan, text: str) -> Change | None:
        """Put a summary in the place of the messages that ``plan`` covers, whatever was said or evicted since.

        Returns:
            None, with nothing done, if some of them have been erased or taken out, another summary stands for them, or
            they belong to the last turn now.

        Raises:
            ValueError: ``text`` is blank, no database can hold it, it is not smaller than what it stands for, or too
                large for the window.
        """
        return apply_compaction(Target.of(self.conversation), plan, text)

    async def aapply_compaction(self, plan: CompactionPlan, text: str) -> Change | None:
        """Async twin of :meth:`apply_compaction`."""
        return await as_async_change(self.apply_compaction)(plan, text)

    def compact(self, summarizer: Summarizer, *, keep: int = USUAL_KEEP, if_due: bool = False) -> Change | None:
        """Plan a summary, let ``summarizer`` write it, and apply it. No turn waits; a failure changes nothing.

        Args:
            summarizer: a function, sync or async, of messages and of the summary before them, or None.
            keep: the percent of the limit, from 0 to 100, that stays in whole turns. The last turn always stays.
            if_due: whether to do nothing before it is due by ``compact_at``, or while a pause after a failure lasts.

        Returns:
            None, with nothing done, if another is at it, or there is too little to summarise, or the messages were
            erased, taken out or summarised meanwhile.

        Raises:
            Conversation.DoesNotExist: the conversation has been erased.
            RuntimeError: the caller is within a transaction.
            ValueError: ``keep`` is no percentage, or the text cannot take the place of the messages.
            Exception: what ``summarizer`` raised.
        """
        return compact(self.conversation, summarizer, keep=keep, if_due=if_due)

    async def acompact(self, summarizer: Summarizer, *, keep: int = USUAL_KEEP, if_due: bool = False) -> Change | None:
        """Async twin of :meth:`compact`."""
        return await in_thread_for_functions(partial(self.compact, summarizer, keep=keep, if_due=if_due))

    def replay(self, **settings: Unpack[WindowSettings]) -> Replay:
        """Return the figures of this conversation's requests, as they were or would have been under another window.

        Without arguments these are the requests that really happened. With settings, they are the requests that would
        have happened if the window had had these settings from the start; settings that are not given are the row's.
        Nothing is written.

        Raises:
            TypeError: a setting that does not exist, or ``model``: the tokens of a replay are those that are stored.
            ValueError: a setting has no meaning.
        """
        (figures,) = replay(self.conversation, [settings or None])
        return figures

    async def areplay(self, **settings: Unpack[WindowSettings]) -> Replay:
        """Async twin of :meth:`replay`."""
        return await sync_to_async(self.replay)(**settings)

    def set_window(self, **settings: Unpack[WindowSettings]) -> Change:
        """Change the given settings of the window, and evict at once what no longer fits.

        A wider window never brings messages back. Another ``model`` counts the retained messages again. A window of
        another kind without a ``limit`` gets the default limit of that kind.

        Raises:
            TypeError: a setting that does not exist.
            ValueError: a setting has no meaning, or pinned messages would take more than half of the limit, and a
                larger part than before.
        """
        return operations.set_window(Target.of(self.conversation), **settings)

    async def aset_window(self, **settings: Unpack[WindowSettings]) -> Change:
        """Async twin of :meth:`set_window`."""
        return await as_async_change(self.set_window)(**settings)

    def try_window(self, *, messages: Iterable[ChatMessage] = (), **settings: Unpack[WindowSettings]) -> WindowTrial:
        """Return what :meth:`set_window`, and then adding ``messages``, would do; nothing is written.

        Raises:
            TypeError: a setting that does not exist, or one of ``messages`` is no message.
            ValueError: a setting has no meaning; pinned messages would take more than half of the limit, and a larger
                part than before; or a text that no database can hold.
        """
        return try_window(self.conversation, messages=messages, **settings)

    async def atry_window(
        self, *, messages: Iterable[ChatMessage] = (), **settings: Unpack[WindowSettings]
    ) -> WindowTrial:
        """Async twin of :meth:`try_window`."""
        return await sync_to_async(self.try_window)(messages=messages, **settings)

    def to_format(self, name: str) -> Any:
        """Return the memory in a format of the registry, ``"openai"`` for example, as it is sent to a model.

        The model's API accepts it. Where something had to be changed for that, the signal ``memory_repaired`` is sent.

        Raises:
            ValueError: there is no such format, or it cannot express a message.
        """
        messages, fresh = read_fresh_window(Key.of(self.conversation, self._primary))
        return written_memory(self.conversation, messages, fresh, name)

    async def ato_format(self, name: str) -> Any:
        """Async twin of :meth:`to_format`."""
        return await sync_to_async(self.to_format)(name)

    @property
    def _primary(self) -> str:
        # Never a replica: it may not have the latest messages and versions yet.
        return router.db_for_write(Conversation, instance=self.conversation)
