"""Turns of conversations in Django's database: leases on rows, which hold no transaction and no connection."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any
from weakref import WeakSet

from django.db import Error, connections, transaction
from django.db.models import F, Q, QuerySet

from chatmemory.assistant.calls import tokens_that_fit
from chatmemory.assistant.errors import AnswerDeletedError, ContextTooLongError, TurnLostError
from chatmemory.assistant.lease import Added, Lease
from chatmemory.assistant.steps import GoBack, Recall
from chatmemory.assistant.tool_arguments import ToolContext
from chatmemory.capabilities import Recalled, hooks
from chatmemory.compaction import compact_due
from chatmemory.conf import setting
from chatmemory.core.asynchronous import thread_context
from chatmemory.core.entries import MemoryMessages
from chatmemory.core.exceptions import PinnedTooMuchError
from chatmemory.core.memory import ChatMemory, WindowChatMemory
from chatmemory.core.messages import AiMessage, ChatMessage, ChatMessageType, UserMessage
from chatmemory.core.summaries import Summarizer
from chatmemory.core.usage import Usage
from chatmemory.database import operations
from chatmemory.database.change import Change, MemorySize
from chatmemory.database.connections import UtcNow, close_all, close_if_dead, give_back, retry
from chatmemory.database.conversation_memory import ConversationMemory
from chatmemory.database.idempotency import note_answer, places
from chatmemory.database.new_messages import NewMessages
from chatmemory.database.reading import MemoryBound, pages, rows_of
from chatmemory.models import Conversation, Origin, WrittenBy
from chatmemory.models.branch import on_current_branch
from chatmemory.signals import recall_failed
from chatmemory.stores import DjangoChatMemoryStore

# The messages, from the first on, that a title is made of.
_TITLED_BY = 6

_LONGEST_STOP = 3.0
"""Seconds for which an interrupted turn of another process keeps its place, to store what was said of its answer."""

_logger = logging.getLogger("chatmemory.assistant")


class ConversationLease(Lease):
    """A turn in two columns: ``turn``, which each taking increments, and ``turn_until``, when it may be taken over.

    A turn adds messages under the lock of the row, and only if the number is still its own: a process that was taken
    for dead cannot speak in between.

    The numbers of turns are even. That of a turn which was interrupted is one more. If it runs in another process, it
    may store what was said of its answer until ``turn_until``, and after that until there is another turn.
    """

    def __init__(
        self, memory: ConversationMemory | WindowChatMemory, timeout: float, *, keeps_stopped: bool = False
    ) -> None:
        """
        Args:
            memory: a memory in Django's database.
            timeout: the seconds that the turn lasts unless it is renewed.
            keeps_stopped: see ``Lease``.
        """
        super().__init__(keeps_stopped=keeps_stopped)
        self.name = repr(memory.id)
        self._memory = memory
        self.timeout = timeout
        self._key = self._target().key
        self._number = 0
        """The number of this turn; 0 while it is not held."""
        self._taken: Any = None
        """The primary key of the row, once it is taken: a memory ID may be another row for each tenant."""
        self._held_since = -float("inf")
        """The moment of this process's clock at which the turn was last taken or renewed."""
        self._has_rested = False
        self._adding = threading.RLock()
        """Held while the turn adds to the memory, so that no interruption stores once more what is being stored."""
        self._added_to: Conversation | None = None
        """The row after the last addition; None if nothing was added that others see."""
        self._has_answered = False

    @classmethod
    def of(cls, memory: ChatMemory, timeout: float, *, keeps_stopped: bool = False) -> ConversationLease | None:
        """Return a turn for a memory; None if the memory is not in Django's database."""
        if isinstance(memory, ConversationMemory):
            return cls(memory, timeout, keeps_stopped=keeps_stopped)
        if isinstance(memory, WindowChatMemory) and isinstance(memory.store, DjangoChatMemoryStore):
            return cls(memory, timeout, keeps_stopped=keeps_stopped)
        return None

    def try_take(self) -> bool:
        self.context = thread_context()
        row = self._row()
        is_free = row.filter(Q(turn_until__isnull=True) | Q(turn_until__lte=UtcNow()))

        taken: tuple[Any, ...] = ()  # the row, the number and the end

        def take() -> int:
            nonlocal taken
            taken = ()
            self._held_since = time.monotonic()
            # A transaction of the caller's would hide this from others, and hold the row while the model thinks.
            with transaction.atomic(using=self._key.database, durable=True):
                if not is_free.update(turn=F("turn") + 2 - F("turn") % 2, turn_until=self._end(self.timeout)):
                    return 0
                taken = row.values_list("pk", "turn", "turn_until").get()
            return int(taken[1])

        def has_taken() -> bool:
            with transaction.atomic(using=self._key.database):
                # Under the lock, because the commit may still go on.
                return row.select_for_update().values_list("pk", "turn", "turn_until").first() == taken

        try:
            try:
                self._number = retry(self._key.database, take)
            except Error:
                # If the connection broke during the commit, nobody else would release what was taken.
                if not taken or not retry(self._key.database, has_taken):
                    raise
                self._number = int(taken[1])
        except RuntimeError as error:
            if not connections[self._key.database].in_atomic_block:
                raise
            raise RuntimeError(
                f"The assistant cannot take a turn of conversation {self.name} within a transaction: nobody else would "
                "see the turn, and its row would be locked while the model works. Call the assistant outside of "
                "transaction.atomic(). If the setting ATOMIC_REQUESTS opened the transaction, mark the view with "
                f"@transaction.non_atomic_requests. Django says: {error}"
            ) from None
        if not self._number and not row.exists():
            self._target().change(lambda change: None)  # makes the row, if that is allowed
        if self._number:
            self._taken = taken[0]
            _held.add(self)
        return bool(self._number)

    def renew(self) -> None:
        row = self._row()
        now = time.monotonic()
        own, until = row.filter(turn=self._number, turn_until__isnull=False), self._end(self.timeout)
        if not retry(self._key.database, lambda: own.update(turn_until=until)):
            raise self._lost(row.exists())
        self._held_since = now

    def look(self) -> None:
        row = self._row()
        if not retry(self._key.database, row.filter(turn=self._number, turn_until__isnull=False).exists):
            raise self._lost(row.exists())

    def release(self) -> None:
        row = self._row().filter(turn=self._number)
        try:
            if self._number:
                self.wake()
                retry(self._key.database, lambda: row.update(turn_until=None))
        except Exception:
            # Messages are stored, and the turn ends by itself after a while. No error here may hide the answer.
            _logger.exception("The turn of conversation %s could not be released", self.name)
        finally:
            self._number = 0
            _held.discard(self)
            self.tell_called(self._kept)
            self.rest()

    def rest(self) -> None:
        self._has_rested = True
        give_back()

    def wake(self) -> None:
        if self._has_rested:
            self._has_rested = False
            connection = connections[self._key.database]
            connection.ensure_connection()  # a pool may give a dead one
            close_if_dead(connection)

    def interrupt(self) -> None:
        database, key = self._key.database, self._row().values_list("pk", flat=True).first()
        for held in _held.of(database, key):
            held.keep()
        row = self._row().filter(turn_until__isnull=False)
        number = row.values_list("turn", flat=True).first()
        if number is not None and not number % 2:  # it runs in another process
            until = self._end(_LONGEST_STOP) if self._keeps_stopped else None
            retry(self._key.database, lambda: row.filter(turn=number).update(turn=number + 1, turn_until=until))

    def interrupt_own(self) -> None:
        self.keep()

    def keep(self) -> Added | None:
        with self._alone():
            if number := self._number:
                self._is_stopped = True
                answer = self._stopped_answer()
                try:
                    if answer is not None:
                        self._kept = self.add([answer], answers=self.answers, ends=True)
                except (TurnLostError, Conversation.DoesNotExist):
                    pass  # nothing more may be added
                except ValueError:
                    _logger.exception(
                        "What was said in conversation %s before it was stopped cannot be kept", self.name
                    )
                if self._kept is None:
                    ends = self._row().filter(turn__in=(number, number + 1), turn_until__isnull=False)
                    retry(self._key.database, lambda: ends.update(turn=number + 1, turn_until=None))
                self._number = 0
        return self._kept

    def running(self) -> int | None:
        """Return the number of the current turn of the conversation; None if there is none."""
        number = self._row().filter(turn_until__gt=UtcNow()).values_list("turn", flat=True).first()
        return None if number is None else number - number % 2

    def is_stopping(self) -> bool:
        """Return whether a turn was interrupted that may still store what was said of its answer."""
        number = self._row().filter(turn_until__gt=UtcNow()).values_list("turn", flat=True).first()
        return number is not None and number % 2 == 1

    def messages(self) -> list[ChatMessage]:
        return self._memory.messages()

    def go_back(self, go_back: GoBack, then: Callable[[], list[Any]]) -> list[Any]:
        later: list[Any] = []

        def add(change: Change) -> None:
            later[:] = then()

        with self._alone():  # before its row is locked, as an addition does
            change = go_back(replace(self._target(), precondition=self._require_own, also=add))
        return [Added((), change), *later]

    def recall(self, recall: Recall, message: UserMessage, tools: str, tokens: int) -> Added | None:
        conversation = self.conversation()
        room = 0 if conversation is None else operations.room_to_recall(conversation, tools, tokens)
        if conversation is None or room <= 0:
            return None
        try:
            recalled = recall(conversation, message, room)
        except Exception as error:  # an answer without it is better than none
            _logger.exception("Nothing could be recalled in conversation %s", self.name)
            recall_failed.send_robust(Conversation, conversation=conversation, message=message, error=error)
            return None
        if recalled is None:
            return None
        return Added((), Change(conversation, size=MemorySize.of(conversation)), recalled=recalled)

    def recall_refused(self, recalled: Recalled) -> None:
        try:
            if recalled.refused is not None:
                recalled.refused()
        except Exception:  # as in recall()
            _logger.exception("What was recalled in conversation %s was refused, which is not noted", self.name)

    def sent(
        self, memory: list[ChatMessage], request: list[ChatMessage], tools: str, recalled: str
    ) -> list[ChatMessage]:
        try:
            self.estimated_tokens = operations.estimate_request(self._target(), tools, recalled)
        except Exception:  # no figure is worth an answer
            self.estimated_tokens = None
            _logger.exception("The tokens of a request of conversation %s could not be estimated", self.name)
        sent = request
        changes = hooks("sent")
        conversation = self.conversation() if changes else None
        if conversation is not None:  # it may have been erased meanwhile
            for change in changes:
                sent = change(conversation, sent)
        return memory.changed(sent) if isinstance(memory, MemoryMessages) and sent is not memory else sent

    def conversation(self) -> Conversation | None:
        memory = self._memory
        return memory.conversation if isinstance(memory, ConversationMemory) else self._row().first()

    def tool_context(self, data: Any) -> ToolContext:
        row = self.conversation()
        # The owner is read here: in an async tool it could not be.
        return ToolContext(conversation=row, owner=row and row.owner, memory_id=self._memory.id, data=data)

    def add(
        self,
        messages: Sequence[ChatMessage],
        idempotency_key: str | None = None,
        *,
        answers: str | None = None,
        copy_of: int | None = None,
        written_by: str = "",
        most: MemoryBound | None = None,
        also: Callable[[Change], None] | None = None,
        then: Callable[[], Added] | None = None,
        ends: bool = False,
    ) -> Added:
        later: Added | None = None

        def check(conversation: Conversation) -> None:
            self._require_own(conversation)
            if answers is not None:
                note_answer(conversation, answers)
            if ends:  # a transaction of its own would be one more write to the disk
                self._row().update(turn=number + self._is_stopped, turn_until=None)

        def go_on(change: Change) -> None:
            nonlocal later
            if also is not None:
                also(change)
            later = None if then is None else then()

        writers: dict[str, str] = dict.fromkeys(ChatMessageType, WrittenBy.ASSISTANT)
        writers[ChatMessageType.USER] = written_by
        new = NewMessages(messages, copy_of=copy_of, written_by=writers)
        with self._alone():
            number = self._number
            change = self._add(new, idempotency_key=idempotency_key, precondition=check, most=most, also=go_on)
            self._said.clear()
            if ends:
                self._number = 0
        # Only a test case has a transaction here.
        last_change = change if later is None or later.change is None else later.change
        self._added_to = None if connections[self._key.database].in_atomic_block else last_change.conversation
        last = messages[-1] if messages else None
        self._has_answered = isinstance(last, AiMessage) and not last.tool_execution_requests
        return Added(tuple(messages), change)

    def reserve(self, model: str, tools: str, tokens: int, *, recalls: bool = False) -> Added | None:
        target = replace(self._target(), precondition=self._require_own)
        try:
            change = operations.reserve(target, model, tools, tokens, recalls=recalls)
        except PinnedTooMuchError as error:
            _logger.warning("There is no room for tools in conversation %s: %s", self.name, error)
            return None
        if change is None:
            return None
        row = change.conversation
        if row.reserve * 2 > row.limit:
            _logger.warning(
                "Tools and the answer need %d tokens, more than half of the limit of conversation %s, which is %d. "
                "Make its window larger, or give the assistant fewer tools.",
                row.reserve,
                self.name,
                row.limit,
            )
        return Added((), change) if change.gone else None

    def calibrate(self, model: str, usage: Usage | None) -> None:
        if usage is None or not usage.input_tokens or self.estimated_tokens is None:
            return
        try:
            operations.calibrate(self._target(), model, self.estimated_tokens, usage.input_tokens)
        except Exception:  # no figure is worth an answer
            _logger.exception("The tokens of conversation %s could not be compared with those of the model", self.name)

    def make_room(self, error: ContextTooLongError) -> Added | None:
        change = operations.make_room(
            replace(self._target(), precondition=self._require_own),
            lambda tokens, low_water: tokens_that_fit(tokens, error, low_water),
        )
        if not change.gone:
            return None
        _logger.warning(
            "The model refused conversation %s as too long, so %d messages were evicted. Make its window smaller: %s",
            self.name,
            len(change.gone),
            error,
        )
        return Added((), change)

    def answer_to(self, added: Added, idempotency_key: str) -> tuple[AiMessage | None, int | None]:
        assert added.change is not None
        conversation = added.change.conversation
        position, answered_at = places(conversation, idempotency_key)
        if answered_at is not None:
            row = rows_of(conversation).filter(position=answered_at).first()
            if row is None or not isinstance(row.message, AiMessage):
                raise _deleted(idempotency_key)
            return row.message, None
        # A turn without a message may have answered it, unless another message was said before.
        asked_at, is_last_question = position, True
        for page in pages(rows_of(conversation).filter(position__gt=position), size=20, by="position"):
            for row in page:
                position += 1
                if row.position != position:
                    raise _deleted(idempotency_key)
                message = row.message
                if isinstance(message, UserMessage) and row.origin in {Origin.SAID, Origin.COPY}:
                    is_last_question = False
                if row.synthetic:
                    continue
                if isinstance(message, AiMessage) and not message.tool_execution_requests:
                    return (message, None) if is_last_question else (None, asked_at)
        if position + 1 < conversation.next_position:
            raise _deleted(idempotency_key)
        # Behind another question the model would answer that one.
        return None, None if is_last_question else asked_at

    def summary_key(self, summarizer: Summarizer | None, *, is_under_way: bool) -> Hashable | None:
        row = self._added_to
        if row is None or (summarizer is None and setting("SUMMARIZER") is None):
            return None
        if row.compact_at is None:
            if summarizer is not None:
                warn_of_no_summaries()
            return None
        if is_under_way and row.compact_keep_calls is None:
            return None
        return (self._key.database, row.pk) if row.is_full or row.next_position > row.retained_count else None

    def summarize(self, summarizer: Summarizer | None) -> None:
        assert self._added_to is not None
        rows = Conversation.objects.using(self._key.database).filter(pk=self._added_to.pk)
        try:
            for account in compact_due(rows, summarizer):
                if account.error is not None:
                    raise account.error
        finally:
            close_all()

    def title_key(self) -> Hashable | None:
        row = self._added_to
        # The title may not have been read with the row, or long ago: entitle() looks again.
        if row is None or not self._has_answered or vars(row).get("title"):
            return None
        return self._key.database, row.pk

    def entitle(self, write: Callable[[Sequence[ChatMessage]], str]) -> None:
        assert self._added_to is not None
        database, owner = self._key.database, self._added_to.owner_id
        # Who anonymises a conversation, or gives it away, changes its owner.
        untitled = Conversation.objects.using(database).filter(pk=self._added_to.pk, owner=owner, title="")
        said = (
            self._added_to.messages.using(database)
            .history()
            .filter(on_current_branch(self._added_to), type__in=("USER", "AI"))
        )
        try:
            if not retry(database, untitled.exists):
                return
            rows = retry(database, lambda: list(said[:_TITLED_BY]))
            close_all()
            title = write([row.message for row in rows])

            def give(change: Change) -> None:  # under the lock, so that no message is erased in between
                if rows_of(change.conversation).filter(pk__in=[row.pk for row in rows]).count() == len(rows):
                    untitled.update(title=title)

            self._added_to.memory.under_lock(give)
        except Conversation.DoesNotExist:
            pass  # it has been erased meanwhile
        finally:
            close_all()

    def _add(self, messages: Sequence[ChatMessage], **terms: Any) -> Change:
        memory = self._memory
        if isinstance(memory, ConversationMemory):
            return memory.add_all(messages, **terms)
        assert isinstance(memory.store, DjangoChatMemoryStore)
        return memory.store.add(memory.id, messages, memory.window(), **terms)

    def _target(self) -> Any:
        memory = self._memory
        if isinstance(memory, ConversationMemory):
            return memory.target()
        assert isinstance(memory.store, DjangoChatMemoryStore)
        return memory.store.target(memory.id, memory.window())

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let no other thread add to the memory in this turn. It may need the connection that this one has."""
        if not self._adding.acquire(blocking=False):
            self.rest()
            self._adding.acquire()
        try:
            self.wake()
            yield
        finally:
            self._adding.release()

    def _require_own(self, conversation: Conversation) -> None:
        known = self._memory.conversation if isinstance(self._memory, ConversationMemory) else conversation
        # It may have been anonymised while this turn waited for another.
        is_anonymised = conversation.owner_id is None and vars(known).get("owner_id") is not None
        is_own = conversation.turn == self._number != 0  # a row that was erased and made again has none
        if self._is_stopped and conversation.turn_until is not None:
            is_own |= conversation.turn == self._number + 1
        if not is_own or is_anonymised:
            raise self._lost(not conversation._state.adding)

    def _lost(self, exists: bool) -> Exception:
        """Return the error that ends the turn, whichever step finds out."""
        if not exists and isinstance(self._memory, ConversationMemory):
            return Conversation.DoesNotExist(f"conversation {self.name} has been erased")
        return TurnLostError(
            f"The turn of conversation {self.name} was interrupted, or the conversation was erased, or another turn "
            f"took it over because this one gave no sign of life for {self.timeout:g} seconds: turn_timeout must be "
            "longer than any call of the model or of a tool.",
            # Before the time is up nobody can have taken it over.
            interrupted=exists and (self._is_stopped or time.monotonic() - self._held_since < self.timeout),
        )

    def _row(self) -> QuerySet[Conversation]:
        if self._key.leads_nowhere:  # the conversation may have been made since
            self._key = self._target().key
        return Conversation.objects.using(self._key.database).filter(**self._key.columns)

    def _end(self, seconds: float) -> Any:
        return UtcNow() + timedelta(seconds=seconds)


class _Held:
    """The turns that run in this process."""

    def __init__(self) -> None:
        self._begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin)  # a child runs none of its parent's turns

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._leases: WeakSet[ConversationLease] = WeakSet()

    def add(self, lease: ConversationLease) -> None:
        with self._lock:
            self._leases.add(lease)

    def discard(self, lease: ConversationLease) -> None:
        with self._lock:
            self._leases.discard(lease)

    def of(self, database: str, key: Any) -> list[ConversationLease]:
        """Return those of the conversation with a primary key."""
        with self._lock:
            return [lease for lease in self._leases if (lease._key.database, lease._taken) == (database, key)]


_held = _Held()


@cache
def warn_of_no_summaries() -> None:
    """Say once in this process that a summarizer alone makes no summaries."""
    _logger.warning(
        "The Assistant has a summarizer, but it makes no summaries of a conversation whose compact_at is None. Set "
        "CHATMEMORY['WINDOW']['compact_at'], such as 80, for new conversations, and call "
        "conversation.memory.set_window(compact_at=80) for those that exist. This is said once in each process."
    )


def _deleted(idempotency_key: str) -> AnswerDeletedError:
    return AnswerDeletedError(
        f"The message with the idempotency key {idempotency_key!r} was added before, and messages after it have been "
        "deleted (by KEEP_HISTORY = False or a purge). Its answer may be among them, so the model was not asked again. "
        "To add the message again, use a new key; to continue the conversation as it is, give no message."
    )
