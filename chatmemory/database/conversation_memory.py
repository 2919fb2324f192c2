"""The memory of one conversation row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any, Unpack

from django.db import router
from django.db.models import Count, Sum

from chatmemory.capabilities import hook_of_search
from chatmemory.core.asynchronous import async_change, async_read, in_thread_for_functions
from chatmemory.core.entries import RESULT_CLEARED, RESULTS_KEPT
from chatmemory.core.exceptions import InvalidValueError
from chatmemory.core.json_text import dumps
from chatmemory.core.memory import ChatMemory
from chatmemory.core.messages import ChatMessage
from chatmemory.core.summaries import Summarizer
from chatmemory.database import operations
from chatmemory.database.change import Change, Target, Terms, WindowTrial
from chatmemory.database.connections import retry
from chatmemory.database.operations.change_window import fit_rows, try_window
from chatmemory.database.operations.clear_tool_results import try_clearing
from chatmemory.database.operations.compact import apply_compaction, apply_text, compact
from chatmemory.database.operations.compaction_plan import CompactionPlan, plan_compaction
from chatmemory.database.operations.replay import Replay, replay
from chatmemory.database.reading import CHARS, rows_of, written_memory
from chatmemory.database.rows import read_size
from chatmemory.database.statements import Key
from chatmemory.database.stored_windows import read_fresh_window, read_window
from chatmemory.models import Conversation, WindowSettings


class ConversationMemory(ChatMemory):
    """The memory of a conversation, ``conversation.memory``, bounded by the current window of the conversation's row.

    Each change is one transaction, and returns its ``Change``. It raises ``Conversation.DoesNotExist`` if the
    conversation has been erased. All changes take the keyword arguments of ``Terms``, which add conditions, and work in
    the same transaction.
    """

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.conversation!r})"

    @property
    def id(self) -> str:
        return str(self.conversation.memory_id)

    def target(self, **terms: Unpack[Terms]) -> Target:
        return Target.of(self.conversation, **terms)

    def add(self, *messages: ChatMessage, idempotency_key: str | None = None, **terms: Unpack[Terms]) -> Change:
        """Add messages one after the other, all or none, and evict what no longer fits.

        Args:
            messages: the messages, in the order in which they were said.
            idempotency_key: 1 to 255 characters. A second call with the same key and messages changes nothing and
                returns the original result.

        Raises:
            TypeError: an argument is not a message.
            ValueError: databases cannot store a text or the key.
            IdempotencyConflictError: the key was already used with different messages.
        """
        return self.add_all(messages, idempotency_key=idempotency_key, **terms)

    aadd = async_change(add)  # type: ignore[arg-type] # which mypy expects as the base class has it

    def add_all(
        self,
        messages: Iterable[ChatMessage],
        *,
        idempotency_key: str | None = None,
        **terms: Unpack[Terms],
    ) -> Change:
        """Add a list of messages or a ``NewMessages``.

        Args:
            messages: the messages, in the order in which they were said.
            idempotency_key: as for ``add``.

        Raises:
            TypeError, ValueError, IdempotencyConflictError: as for ``add``.
        """
        return operations.add(self.target(**terms), messages, idempotency_key=idempotency_key)

    aadd_all = async_change(add_all)

    def set(self, messages: Iterable[ChatMessage], **terms: Unpack[Terms]) -> Change:
        """Make ``messages`` the memory: keep the rows that stay, evict the others and what does not fit.

        Raises:
            TypeError: an item is not a message.
            ValueError: databases cannot store a text.
        """
        return operations.rewrite(self.target(**terms), messages)

    aset = async_change(set)  # type: ignore[arg-type] # which mypy expects as the base class has it

    def clear(self, **terms: Unpack[Terms]) -> Change:
        """Evict all messages. They stay in the history."""
        return operations.clear(self.target(**terms))

    aclear = async_change(clear)  # type: ignore[arg-type] # which mypy expects as the base class has it

    def erase(self, **terms: Unpack[Terms]) -> None:
        """Lock the conversation, then delete it with everything in it."""
        operations.erase(self.target(**terms))

    aerase = async_change(erase)

    def under_lock(self, work: Callable[[Change], None], **terms: Unpack[Terms]) -> Change:
        """Run ``work`` in one transaction with the conversation's row locked. The memory stays unchanged.

        Args:
            work: takes an empty change with the locked row. It is called again, with another change, if the database
                rolled the transaction back.
        """
        return self.target(**terms).change(work)

    aunder_lock = async_change(under_lock)

    def messages(self) -> list[ChatMessage]:
        """Return the messages that the model gets now, in order. Nothing is written, even if the limit was lowered."""
        return read_window(Key.of(self.conversation, self._primary))

    def fitted(self) -> WindowTrial:
        """Return the rows that the model gets now, as in ``messages``, and the rows that no longer fit.

        They are of the version in ``conversation``. If evicted rows are deleted, this version may be gone, and
        ``conversation`` is refreshed.
        """
        return fit_rows(self.conversation)

    afitted = async_read(fitted)

    def size(self, version: int | None = None) -> tuple[int, int]:
        """Return the number of messages and of their characters, including attributes. No text is read.

        Args:
            version: a past version; by default the current memory.
        """
        if version is None:
            return read_size(self.conversation)
        rows = rows_of(self.conversation).in_memory_at(version).order_by()
        found = rows.aggregate(count=Count("pk"), chars=Sum(CHARS))
        return found["count"], found["chars"] or 0

    asize = async_read(size)

    def at(self, version: int) -> list[ChatMessage]:
        """Return the messages that the model got at ``version``, from 0 (none) to the current version.

        The model got the memory of version ``added_in - 1`` for an answer. With ``KEEP_HISTORY = False``, past versions
        lack evicted messages.

        Raises:
            InvalidValueError: there was no such version.
        """
        database = self._primary

        def read() -> list[ChatMessage]:
            row = Conversation.objects.using(database).values_list("version", flat=True)
            current = row.get(pk=self.conversation.pk)
            if isinstance(version, bool) or not isinstance(version, int) or not 0 <= version <= current:
                raise InvalidValueError(
                    "version must be from 0 to %(most)s, but is: %(got)s", most=current, got=repr(version)
                )
            return [row.message for row in self.conversation.messages.using(database).in_memory_at(version)]

        return retry(database, read)

    aat = async_read(at)

    def clear_tool_results(
        self,
        keep: int = RESULTS_KEPT,
        exclude_tools: Collection[str] = (),
        placeholder: str = RESULT_CLEARED,
        **terms: Unpack[Terms],
    ) -> Change:
        """Replace old tool results by placeholders, if the placeholders take fewer tokens. The calls stay.

        Results of the last turn and of pinned calls stay unchanged, and so do placeholders, so a second call changes
        nothing. The history keeps the results.

        Args:
            keep: the number of results, the last of the memory, that stay.
            exclude_tools: the names of tools whose results stay.
            placeholder: the text of the placeholders.

        Raises:
            TypeError: ``exclude_tools`` is a string.
            ValueError: ``keep`` is negative, or ``placeholder`` is blank or cannot be stored.
        """
        target = self.target(**terms)
        return operations.clear_tool_results(target, keep=keep, exclude_tools=exclude_tools, placeholder=placeholder)

    aclear_tool_results = async_change(clear_tool_results)

    def try_clearing(self, keep: int = RESULTS_KEPT, exclude_tools: Collection[str] = ()) -> tuple[dict[int, int], int]:
        """Return what ``clear_tool_results`` would do. Nothing is written.

        Returns:
            The tokens of each result that would be cleared, by position, and the tokens that this would free.
        """
        return try_clearing(self.conversation, keep=keep, exclude_tools=exclude_tools)

    atry_clearing = async_read(try_clearing)

    def pin(self, position: int, **terms: Unpack[Terms]) -> Change:
        """Pin the message at ``position``, so that the window never evicts it, its call or its results.

        With whole turns, the user message of its turn also stays. If the message is already pinned, nothing changes.

        Raises:
            ValueError: the message is not in the memory, or pinned messages would take more than half of the limit.
        """
        return operations.pin(self.target(**terms), position)

    apin = async_change(pin)

    def unpin(self, position: int, **terms: Unpack[Terms]) -> Change:
        """Unpin the message at ``position``, and evict what no longer fits. If it is not pinned, nothing changes.

        Raises:
            ValueError: the message is not in the memory.
        """
        return operations.unpin(self.target(**terms), position)

    aunpin = async_change(unpin)

    def plan_compaction(
        self, keep: int | None = None, *, summarizer: Summarizer | None = None
    ) -> CompactionPlan | None:
        """Plan a summary of the turns before those that stay, or of the first part of them; nothing is written.

        Args:
            keep: the percent of the limit, from 0 to 100, that stays in whole turns. The last turn always stays.
            summarizer: the function that is to write the summary: a part is as large as one call of it takes.

        Returns:
            None if there is too little to summarise (fewer than twice the expected tokens of a summary), or if there is
                no room for a summary.

        Raises:
            ValueError: ``keep`` is not a percentage.
        """
        return plan_compaction(self.conversation, keep=keep, summarizer=summarizer)

    aplan_compaction = async_read(plan_compaction)

    def apply_compaction(self, plan: CompactionPlan, text: str) -> Change | None:
        """Replace the messages that ``plan`` covers by a summary, no matter what was added or evicted since.

        Returns:
            None if nothing was done, because some of the messages have been erased or removed, another summary covers
                them, or they now belong to the last turn.

        Raises:
            ValueError: ``text`` is blank, cannot be stored, is not smaller than what it covers, or does not fit the
                window.
        """
        return apply_compaction(self.target(), plan, text)

    aapply_compaction = async_change(apply_compaction)

    def apply_text(
        self, through: int, text: str, *, idempotency_key: str | None = None, **terms: Unpack[Terms]
    ) -> Change:
        """Replace all turns up to a position by the caller's summary.

        Args:
            through: the position of the last message that the summary covers: the end of a turn, but not of the last
                turn; or, in the last turn, before the calls that ``compact_keep_calls`` keeps.
            text: the summary, which includes the summary before it.
            idempotency_key: as for ``add``.

        Raises:
            CoveredError: everything up to ``through`` is already summarised.
            IdempotencyConflictError: the key was already used for another request.
            UnusableSummaryError: as for ``apply_compaction``.
            ValueError: no turn ends at ``through``.
        """
        return apply_text(self.target(**terms), through, text, idempotency_key=idempotency_key)

    aapply_text = async_change(apply_text)

    def compact(
        self, summarizer: Summarizer, *, keep: int | None = None, if_due: bool = False, limit: int | None = None
    ) -> Change | None:
        """Plan summaries, let ``summarizer`` write them, and apply each. No turn waits; a failure changes nothing.

        Older turns that are too long for one call of ``summarizer`` are summarised in parts, and each summary takes in
        the one before. After a failure those of earlier parts stay.

        Args:
            summarizer: a sync or async function that takes messages and the summary before them (or None).
            keep: the percent of the limit, from 0 to 100, that stays in whole turns. The last turn always stays.
            if_due: whether to do nothing before it is due by ``compact_at``, or while a pause after a failure lasts.
            limit: the most summaries to make; by default as many as there are parts.

        Returns:
            the change of the last part. None, with nothing done, if another is at it, or there is too little to
            summarise, or the messages were erased, taken out or summarised meanwhile.

        Raises:
            Conversation.DoesNotExist: the conversation has been erased.
            RuntimeError: the caller is within a transaction.
            SummarizerTimeoutError: a call of ``summarizer`` took longer than ``SUMMARIZER_TIMEOUT``.
            ValueError: ``keep`` is not a percentage, or the text cannot replace the messages.
            Exception: what ``summarizer`` raised.
        """
        last = None
        for part in islice(compact(self.conversation, summarizer, keep=keep, if_due=if_due), limit):
            last = part
        return None if last is None else last[1]

    async def acompact(
        self, summarizer: Summarizer, *, keep: int | None = None, if_due: bool = False, limit: int | None = None
    ) -> Change | None:
        """Async version of ``compact``."""
        return await in_thread_for_functions(partial(self.compact, summarizer, keep=keep, if_due=if_due, limit=limit))

    def replay(self, *, recall: bool = False, **settings: Unpack[WindowSettings]) -> Replay:
        """Return the figures of this conversation's requests, as they were or as they would be with another window.

        Without arguments, these are the requests that really happened. With settings, they are the requests with these
        settings from the start; missing settings are those of the row. Nothing is written.

        Args:
            recall: also search for what the window had lost, for each user message that was answered.
            settings: the settings of the window.

        Raises:
            RuntimeError: ``recall`` is true, and no app that searches is installed.
            TypeError: a setting is unknown or is ``model``, because a replay uses stored token counts.
            ValueError: a setting is invalid.
        """
        (figures,) = self.replays([settings or None], recall=recall)
        return figures

    areplay = async_read(replay)

    def replays(self, variants: Sequence[WindowSettings | None], *, recall: bool = False) -> list[Replay]:
        """Return the results of ``replay`` for several windows, in one pass over the history.

        Args:
            variants: the settings of each window; None means what really happened.
            recall: as for ``replay``.

        Raises:
            RuntimeError, TypeError, ValueError: as for ``replay``.
        """
        search = hook_of_search("replay_recall", "recall=True") if recall else None
        return replay(self.conversation, variants, search)

    areplays = async_read(replays)

    def set_window(
        self,
        *,
        precondition: Callable[[Conversation], None] | None = None,
        also: Callable[[Change], None] | None = None,
        **settings: Unpack[WindowSettings],
    ) -> Change:
        """Change settings of the window, and evict what no longer fits.

        A larger window never restores messages. Another ``model`` recounts the retained messages. A window of another
        kind without a ``limit`` gets the default limit of that kind.

        Raises:
            TypeError: a setting is unknown.
            ValueError: a setting is invalid, or pinned messages would take more than half of the limit, and a larger
                part than before.
        """
        return operations.set_window(self.target(precondition=precondition, also=also), **settings)

    aset_window = async_change(set_window)

    def try_window(self, *, messages: Iterable[ChatMessage] = (), **settings: Unpack[WindowSettings]) -> WindowTrial:
        """Return what ``set_window``, followed by adding ``messages``, would do. Nothing is written.

        Raises:
            TypeError: a setting is unknown, or an item is not a message.
            ValueError: a setting is invalid; pinned messages would take more than half of the limit, and a larger part
                than before; or databases cannot store a text.
        """
        return try_window(self.conversation, messages=messages, **settings)

    atry_window = async_read(try_window)

    def to_format(self, name: str, *, cache: bool | str = False, tools: Sequence[Any] = ()) -> Any:
        """Return the memory in a registered format, such as ``"openai"``, to send it to a model.

        The model's API accepts the result. If it had to be repaired, the signal ``memory_repaired`` is sent.

        Args:
            name: the format.
            cache: with ``"anthropic"``, whether to mark what the prompt cache keeps: True or ``"5m"``, or ``"1h"`` for
                the part with which all requests begin. Other providers cache without marks.
            tools: the definitions of the tools in the same request, as JSON. In a window of tokens, the result leaves
                room for them, but nothing is evicted. To leave room permanently, use the setting ``reserve``.

        Raises:
            TypeError: ``tools`` are not JSON.
            ValueError: the format is unknown, cannot express a message, or has no cache marks.
        """
        messages, fresh = read_fresh_window(Key.of(self.conversation, self._primary), dumps(tools) if tools else "")
        return written_memory(self.conversation, messages, fresh, name, cache=cache)

    ato_format = async_read(to_format)

    @property
    def _primary(self) -> str:
        # Never a replica, which may lack the latest messages and versions.
        return router.db_for_write(Conversation, instance=self.conversation)
