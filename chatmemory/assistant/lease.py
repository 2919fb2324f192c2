"""The right to speak in a conversation, for any kind of memory; and that of a memory which only this process has."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack
from weakref import WeakValueDictionary

from chatmemory.assistant.calls import tokens_that_fit
from chatmemory.assistant.errors import ContextTooLongError, TurnLostError
from chatmemory.assistant.tool_arguments import ToolContext
from chatmemory.core.asynchronous import ThreadContext
from chatmemory.core.entries import Entry
from chatmemory.core.eviction import Retained
from chatmemory.core.memory import ChatMemory, WindowChatMemory
from chatmemory.core.messages import STOPPED, AiMessage, ChatMessage, UserMessage
from chatmemory.core.summaries import Summarizer
from chatmemory.core.tokens import OpenAiTokenCountEstimator, stored_count, tokens_of_request
from chatmemory.core.usage import Usage
from chatmemory.core.window import Window, WindowKind

if TYPE_CHECKING:
    from chatmemory.assistant.calls import Call
    from chatmemory.assistant.steps import GoBack, Recall
    from chatmemory.capabilities import Recalled
    from chatmemory.database.change import Change
    from chatmemory.database.reading import MemoryBound
    from chatmemory.models import Conversation


@dataclass(frozen=True)
class Added:
    """Messages that a turn added to the memory in one change."""

    messages: tuple[ChatMessage, ...]

    change: Change | None = None
    """The result of the change, with what was evicted; None for memories that are not in Django's database."""

    usage: Usage | None = None
    """The tokens of the model's call whose answer this is; None for other messages, or if the model did not say."""

    recalled: Recalled | None = None
    """The quotations that the model gets with the user's message. If there are any, there are no messages."""


class AdditionOptions(TypedDict, total=False):
    """The options of an addition to a memory."""

    answers: str | None
    """The idempotency key of the message that the first of the messages answers."""

    copy_of: int | None
    """The position at which the history has the message already, if it was said before."""

    written_by: str
    """The value of ``Message.written_by`` for the user's message; other messages are the assistant's."""

    most: MemoryBound | None
    """The largest memory that may be found or left."""

    also: Callable[[Change], None] | None
    """Called with the change in its transaction; what it raises undoes the change."""

    then: Callable[[], Added] | None
    """Called in the same transaction, to add more; what it raises undoes this change, too."""

    ends: bool
    """Whether the turn ends with the messages, and may be released in the same transaction."""


class Lease(ABC):
    """The right to speak in one conversation. It is tried for, held, and released; nothing here waits.

    By default nothing is done for what only memories in Django's database have: connections, summaries, titles.
    """

    name: str
    """The name of the conversation in errors."""

    timeout: float
    """The seconds after which it may be taken over, unless it is renewed: no killed process blocks for longer."""

    def __init__(self, *, keeps_stopped: bool) -> None:
        """
        Args:
            keeps_stopped: whether an interruption stores what was said of the answer.
        """
        self._keeps_stopped = keeps_stopped

        self.context: ThreadContext = nullcontext
        """The context of the thread that took the turn, for threads that work for it afterwards."""

        self.answers: str | None = None
        """The idempotency key of the message that the turn answers."""

        self._said: list[str] = []
        """The deltas of an answer that is not stored yet."""

        self._is_stopped = False
        """Whether the turn was interrupted in this process."""

        self._kept: Added | None = None

        self.call: Call | None = None
        """The call of the model whose answer is not stored yet."""

        self.estimated_tokens: int | None = None
        """The estimate of the tokens of the last request; None if there is none."""

    def say(self, delta: str) -> None:
        """Note a storable delta of the answer's text, right before the caller gets it; an empty one only looks.

        Raises:
            TurnLostError: the turn was interrupted in this process, so nobody may read on.
        """
        if delta and self._keeps_stopped:
            self._said.append(delta)
        if self._is_stopped:  # looked at last: an interruption first says so, and then reads what was said
            raise TurnLostError(f"The turn of conversation {self.name} was interrupted.", interrupted=True)

    def _stopped_answer(self) -> AiMessage | None:
        """Return what was said as an answer that was stopped; None if it says nothing."""
        text = "".join(self._said)
        return AiMessage(text, attributes={STOPPED: True}) if text.strip() else None

    @abstractmethod
    def keep(self) -> Added | None:
        """End this turn if it is still under way or was interrupted, and store what was said of the answer.

        Any thread may call it while another works on the turn.

        Returns:
            what was stored, by this call or an earlier one; None if nothing was.
        """

    @abstractmethod
    def try_take(self) -> bool:
        """Take the turn, unless another has it, and return whether it is taken."""

    @abstractmethod
    def renew(self) -> None:
        """Extend the turn by its timeout.

        Raises:
            TurnLostError: another has taken over.
            Conversation.DoesNotExist: the conversation has been erased.
        """

    @abstractmethod
    def look(self) -> None:
        """Raise an error if the turn is over.

        Raises:
            TurnLostError: it was interrupted, or another has taken over.
            Conversation.DoesNotExist: the conversation has been erased.
        """

    @abstractmethod
    def release(self) -> None:
        """Release the turn, if it is taken, and rest."""

    def rest(self) -> None:
        """Release the database connections, because the turn does not need them for a while."""
        return

    def wake(self) -> None:
        """Replace the database connection if it died during a rest.

        Raises:
            OperationalError: it does not answer.
        """
        return

    @abstractmethod
    def interrupt(self) -> None:
        """End the current turn of this conversation, in any process."""

    @abstractmethod
    def interrupt_own(self) -> None:
        """End the turn that is under way if it is this one. Any thread may call it while another works on the turn."""

    @abstractmethod
    def messages(self) -> list[ChatMessage]:
        """Return the messages of the memory."""

    def go_back(self, go_back: GoBack, then: Callable[[], list[Any]]) -> list[Any]:
        """Go back in the conversation, and add messages in the same transaction.

        Args:
            go_back: goes back.
            then: adds the messages; what it raises undoes everything.

        Returns:
            an ``Added`` for what left and returned, and what ``then`` returned.

        Raises:
            TypeError: the memory is not that of a conversation in Django's database.
        """
        raise TypeError("only a Conversation can go back: give the assistant the row, or a memory in its database")

    def recall(self, recall: Recall, message: UserMessage, tools: str, tokens: int) -> Added | None:
        """Return what the model gets with a message of the user, with a change of nothing; None if it gets nothing.

        Args:
            recall: looks it up.
            message: the message, which is in the memory.
            tools: the definitions of tools, as JSON; empty if there are none.
            tokens: those of the answer.
        """
        return None

    def recall_refused(self, recalled: Recalled) -> None:
        """Tell what recalled it that the model answers without it, because the request was too long."""
        return

    def sent(
        self, memory: list[ChatMessage], request: list[ChatMessage], tools: str, recalled: str
    ) -> list[ChatMessage]:
        """Return what the model is sent, and estimate its tokens.

        Args:
            memory: the messages of the memory.
            request: these, and what was recalled.
            tools: the definitions of tools, as JSON; empty if there are none.
            recalled: the text that was recalled, or an empty one.
        """
        return request

    def conversation(self) -> Conversation | None:
        """Return the row of the conversation; None if the memory is not in Django's database, or has no row."""
        return None

    @abstractmethod
    def tool_context(self, data: Any) -> ToolContext:
        """Return what tools are told about the conversation, with the ``data`` of the caller."""

    @abstractmethod
    def add(
        self,
        messages: Sequence[ChatMessage],
        idempotency_key: str | None = None,
        **options: Unpack[AdditionOptions],
    ) -> Added:
        """Add messages to the memory, as one change.

        Args:
            messages: the messages, in order.
            idempotency_key: a second call with the same key and messages adds nothing.
            options: see ``AdditionOptions``.

        Raises:
            TurnLostError: another has taken over; nothing was added.
            MemoryTooLargeError: the memory is, or would be, larger than ``most``; nothing was added.
            ValueError: ``idempotency_key``, ``most`` or ``also`` for a memory that is not in Django's database.
        """

    def reserve(self, model: str, tools: str, tokens: int, *, recalls: bool = False) -> Added | None:
        """Keep room in a window of tokens for what a request has beside the memory; return the change if one leaves.

        Args:
            model: the name of the model that is asked.
            tools: the definitions of tools, as JSON; empty if there are none.
            tokens: for the answer.
            recalls: whether there is room for what is recalled.
        """
        return None

    def tell_called(self, added: Added | None) -> None:
        """Send the signal ``model_called`` for the call of which it was not sent yet, if there is one.

        Args:
            added: its answer; None if none was stored.
        """
        call, self.call = self.call, None
        if call is not None:
            rows = [] if added is None or added.change is None else added.change.added
            call.tell(next((row.position for row in rows if row.type == AiMessage.type), None))

    def calibrate(self, model: str, usage: Usage | None) -> None:
        """Store the input tokens that the server reported for the last request, to compare them with the estimate."""
        return

    @abstractmethod
    def make_room(self, error: ContextTooLongError) -> Added | None:
        """Evict what a model refused as too long, and return the change; None if nothing can leave.

        The question of the last turn, pinned messages, and a call at the end with its results stay.

        Raises:
            TurnLostError: another has taken over; nothing was evicted.
        """

    def answer_to(self, added: Added, idempotency_key: str) -> tuple[AiMessage | None, int | None]:
        """Return the answer to a message that was added with a key, and the message's position if no answer will come.

        Each is None otherwise. No answer will come if another message was said since.

        Raises:
            AnswerDeletedError: messages after them have been deleted, and the answer may be among those.
        """
        return None, None

    def summary_key(self, summarizer: Summarizer | None, *, is_under_way: bool) -> Hashable | None:
        """Return the key of the conversation if a summary may be due since this turn added to it; no database is asked.

        None is for memories that have no summaries, too, for a project without a summarizer, and for a turn that is
        under way and that no summary may cover.
        """
        return None

    def summarize(self, summarizer: Summarizer | None) -> None:
        """Make the summaries that are due. This thread releases all its connections.

        Args:
            summarizer: writes them; None is that of the setting ``SUMMARIZER``.

        Raises:
            Exception: what ``summarizer`` raised, or its text is no summary; the memory stays as it was.
        """
        return

    def title_key(self) -> Hashable | None:
        """Return the key of the conversation if this turn answered and there may be no title; no database is asked.

        None is for memories that have no titles, too.
        """
        return None

    def entitle(self, write: Callable[[Sequence[ChatMessage]], str]) -> None:
        """Give the conversation a title if it has none. This thread releases all its connections.

        Nothing is written if a message that the title was made of has been erased since, or the owner is another.

        Args:
            write: returns the title for the messages that a conversation begins with.

        Raises:
            Exception: what ``write`` raised; nothing has changed.
        """
        return


_SLOTS: WeakValueDictionary[Any, _Slot] = WeakValueDictionary()

_SLOTS_LOCK = threading.Lock()


class LocalLease(Lease):
    """A turn of a memory that only this process has, or whose store has no turns: a note in this process."""

    timeout = float("inf")  # no process is left that could take it over

    def __init__(self, memory: ChatMemory, *, keeps_stopped: bool) -> None:
        super().__init__(keeps_stopped=keeps_stopped)
        self._memory = memory
        self.name = repr(memory.id)
        # A provider may build a memory anew each time, on the same store.
        store = getattr(memory, "store", None)
        key = (id(memory),) if store is None else (id(store), memory.id)
        with _SLOTS_LOCK:
            self._slot = _SLOTS.setdefault(key, _Slot())

    def try_take(self) -> bool:
        with self._slot.lock:
            if self._slot.holder is None:
                self._slot.holder = self
            return self._slot.holder is self

    def renew(self) -> None:
        if self._slot.holder is not self:
            raise TurnLostError(f"The turn of conversation {self.name} was interrupted.", interrupted=True)

    def look(self) -> None:
        self.renew()

    def release(self) -> None:
        with self._slot.lock:
            if self._slot.holder is self:
                self._slot.holder = None
        self.tell_called(self._kept)

    def interrupt(self) -> None:
        if (holder := self._slot.holder) is not None:
            holder.keep()

    def interrupt_own(self) -> None:
        self.keep()

    def keep(self) -> Added | None:
        with self._slot.lock:
            if self._slot.holder is self:
                self._is_stopped = True
                self._slot.holder = None
                if (answer := self._stopped_answer()) is not None:
                    self._memory.add(answer)
                    self._kept = Added((answer,))
        return self._kept

    def messages(self) -> list[ChatMessage]:
        return self._memory.messages()

    def tool_context(self, data: Any) -> ToolContext:
        return ToolContext(memory_id=self._memory.id, data=data)

    def add(
        self,
        messages: Sequence[ChatMessage],
        idempotency_key: str | None = None,
        **options: Unpack[AdditionOptions],
    ) -> Added:
        if idempotency_key is not None or options.get("then") is not None:  # the message with the key comes then
            raise ValueError("idempotency_key needs a memory in Django's database")
        for name in ("most", "also"):
            if options.get(name) is not None:
                raise ValueError(f"{name} needs a memory in Django's database")
        with self._slot.lock:
            self.renew()
            self._memory.add(*messages)
            self._said.clear()
        return Added(tuple(messages))

    def make_room(self, error: ContextTooLongError) -> Added | None:
        memory = self._memory
        window = memory.window() if isinstance(memory, WindowChatMemory) else None
        estimator = (window and window.estimator) or OpenAiTokenCountEstimator("gpt-4o")
        with self._slot.lock:
            self.renew()
            entries = [Entry(message, stored_count(message, estimator)) for message in memory.messages()]
            tokens = sum(entry.cost for entry in entries) + tokens_of_request(estimator)
            rules = window or Window(kind=WindowKind.TOKENS, limit=tokens)
            most = tokens_that_fit(tokens, error, rules.low_water)
            bound = replace(rules, kind=WindowKind.TOKENS, estimator=estimator, limit=most, low_water=100, reserve=0)
            retained = Retained(entries, total=tokens, window=bound)
            retained.make_room()
            if not retained.evicted:
                return None
            memory.set([entry.message for entry in retained.entries()])
        return Added(())


class _Slot:
    """The holder of the turn of one memory."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holder: LocalLease | None = None
