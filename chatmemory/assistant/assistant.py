"""The assistant: the model, its memories and its tools put together."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from contextlib import aclosing, closing
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, Unpack

from chatmemory.assistant.background import BackgroundTask, BackgroundTasks, Summaries
from chatmemory.assistant.lease import Added, Lease, LocalLease
from chatmemory.assistant.model import ChatModel, ModelFunction, Thinking, as_chat_model, name_of
from chatmemory.assistant.steps import GoBack, Plan, Recall
from chatmemory.assistant.summaries_and_titles import Titles
from chatmemory.assistant.tools import OnToolError, Tool, Toolbox
from chatmemory.assistant.turn import Turn
from chatmemory.core.asynchronous import as_async_change, async_change, in_thread_for_functions
from chatmemory.core.memory import ChatMemory
from chatmemory.core.messages import AiMessage, SystemMessage, UserMessage
from chatmemory.core.summaries import Summarizer

if TYPE_CHECKING:
    from chatmemory.database.change import Change
    from chatmemory.database.reading import MemoryBound
    from chatmemory.models import Conversation


class TurnOptions(TypedDict, total=False):
    """The options of a turn."""

    idempotency_key: str | None
    """With a memory in Django's database, a second call with the same key and message adds nothing: it returns the
    answer of the first, or goes on if there is none. If another message was said since, it asks the model again, behind
    a synthetic copy of the message; later calls return that answer."""

    context: Any
    """Data of this call for tools: ``ToolContext.data``."""

    wait_timeout: float | None
    """Seconds to wait for another turn; by default the assistant's. With 0 it does not wait."""

    go_back: GoBack | None
    """Goes back in a conversation in Django's database before the message is added. ``conversation.regenerate()`` and
    the REST API use it."""


class BegunTurnOptions(TurnOptions, total=False):
    """The further options of ``begin``, with a memory in Django's database."""

    most: MemoryBound | None
    """The largest memory that the message may find or leave. What the turn adds after it is not bounded, nor is a turn
    without a message."""

    written_by: str
    """The value of ``Message.written_by`` for the message; by default empty, for your own code."""

    also: Callable[[Change], None] | None
    """Called with the change that adds the message, before it is committed; what it raises undoes the change. It is
    called again if the database rolled that back, and for a message that was added before."""


class Assistant:
    """A model with a memory, as LangChain4j's AI Services have it.

    A turn adds what the user says, asks the model with the memory, runs the tools that it calls, asks again, and adds
    the answer. Each message is added as soon as it is there, so that a turn that fails, or a process that is killed,
    leaves what was said: the user's message, a call before it runs, all results of a call together, the answer when it
    is whole. A call that was interrupted gets a result that says so when the next turn begins; it is not run again,
    because its effects are unknown. ``chat(memory_id)`` without a message goes on from wherever a conversation stands.

    There is one turn at a time in a conversation: of a conversation in Django's database across all processes, else
    within this process. Another one waits. While the model thinks, a turn holds no transaction, and gives its database
    connections back. So it must not run within a transaction of yours (``ATOMIC_REQUESTS``): that is a
    ``RuntimeError``.

    Older turns are summarised where ``compact_at`` of a conversation says so, by the setting ``SUMMARIZER`` or the
    assistant's own ``summarizer``: after a turn has given out its answer, in a thread of its own. No turn waits for it,
    and if it fails, the memory stays as it is. With ``compact_keep_calls``, this also happens while tools of a turn
    run.

    One assistant may be used by any number of threads and tasks at once.
    """

    def __init__(
        self,
        model: ChatModel | ModelFunction,
        *,
        memory: ChatMemory | MemoryProvider | None = None,
        system_message: str | Callable[[Any], str | None] | None = None,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        max_sequential_tools_invocations: int = 100,
        max_tool_result_chars: int = 100_000,
        on_tool_error: OnToolError | None = None,
        tool_timeout: float | None = None,
        turn_timeout: float = 120.0,
        wait_timeout: float = 30.0,
        answer_tokens: int = 0,
        summarizer: Summarizer | None = None,
        title: bool = False,
        recall: Literal["preload"] | Recall | None = None,
        stopped_answers: Literal["keep", "discard"] = "keep",
    ) -> None:
        """
        Args:
            model: a ``ChatModel``, or a function of the messages and the tools' specifications that returns an
                ``AiMessage``.
            memory: one for all, or a callable of the memory ID that returns the memory. It is kept for the ID, unless
                it is in Django's database. A ``Conversation`` that is passed instead of an ID has its own memory; None
                takes nothing else.
            system_message: instructions, or a callable of the memory ID, or of the ``Conversation`` given in its place,
                that returns them. They go into the memory, and replace others.
            tools: functions that the model may call.
            max_sequential_tools_invocations: how often in a row the model may call tools.
            max_tool_result_chars: the characters after which a tool's result is cut, with a line that says so. Keep it
                below the setting ``MAX_MESSAGE_CHARS``, or REST refuses a rewrite of that memory.
            on_tool_error: a function of the exception that a tool raised, which returns what the model reads in place
                of a result; by default the model reads only the class of the exception. It is not called for a
                ``ToolError``. What it raises ends the turn.
            tool_timeout: seconds that a call of a tool may take, unless its ``Tool`` has a ``timeout`` of its own; by
                default any time. After that the model reads that the call did not end in time. An async tool is
                cancelled. A sync tool runs in a thread of its own, and cannot be stopped: it continues there, and its
                result is dropped.
            turn_timeout: seconds that one call of the model, a pause between two deltas of its answer, or a tool may
                take at most. After that time without a sign of life, a waiting turn takes over: a killed process
                blocks its conversations no longer than this.
            wait_timeout: seconds that a turn waits for the one before it.
            answer_tokens: the tokens of a conversation's limit to keep free for the answer, if the limit is all that
                the model takes. With those of the tools they become the ``reserve`` of a conversation in Django's
                database that counts tokens, unless that is larger. It says so in the log if they are more than half.
            summarizer: a function, sync or async, of messages and of the summary before them or None, such as a
                ``ChatModelSummarizer``; by default that of the setting ``SUMMARIZER``. It is for memories in Django's
                database only, and does nothing where ``compact_at`` is None.
            title: whether the model names conversations in Django's database that have no title, after the answer.
            recall: ``"preload"`` searches for the text of each message of the user, by an installed app
                (``chatmemory.contrib.search``), in what the memory of its conversation no longer contains. The model
                gets what is found in a message before it, which is not stored. It has at most a tenth of a window of
                tokens, for which the ``reserve`` is raised, or 1,000 tokens. A function looks up something else: it
                takes the conversation, the message and the maximum number of tokens, and returns a
                ``chatmemory.capabilities.Recalled`` or None. Only memories in Django's database recall something.
            stopped_answers: what becomes of the text that a stream has given out of an answer when the turn is
                interrupted. ``"keep"`` stores it as the answer, with ``AiMessage.is_stopped``; ``"discard"`` does not.

        Raises:
            TypeError: the model, the memory, a tool, a function or a number is something else.
            ImportError: a tool needs pydantic (extra ``assistant``), which is not installed.
            ValueError: a number is not above zero, ``turn_timeout`` is infinite, the limit of a tool is not below it,
                two tools have one name, or ``stopped_answers`` is something else.
        """
        if summarizer is not None and not callable(summarizer):
            raise TypeError(f"summarizer must be a function, but is: {type(summarizer).__name__}")
        if on_tool_error is not None and not callable(on_tool_error):
            raise TypeError(f"on_tool_error must be a function, but is: {type(on_tool_error).__name__}")
        counts = {
            "max_sequential_tools_invocations": max_sequential_tools_invocations,
            "max_tool_result_chars": max_tool_result_chars,
        }
        seconds = {"turn_timeout": turn_timeout, "wait_timeout": wait_timeout}
        if tool_timeout is not None:
            seconds["tool_timeout"] = tool_timeout
        for name, value in (counts | seconds).items():
            if not value > 0:
                raise ValueError(f"{name} must be greater than zero, but is: {value}")
            if name in counts and not isinstance(value, int):
                raise TypeError(f"{name} must be an int, but is: {value!r}")
        if isinstance(answer_tokens, bool) or not isinstance(answer_tokens, int):
            raise TypeError(f"answer_tokens must be an int, but is: {answer_tokens!r}")
        if answer_tokens < 0:
            raise ValueError(f"answer_tokens must not be negative, but is: {answer_tokens}")
        self._answer_tokens = answer_tokens
        if recall not in (None, "preload") and not callable(recall):
            raise TypeError(f'recall must be "preload" or a function, but is: {recall!r:.100}')
        self._recall = recall
        if stopped_answers not in ("keep", "discard"):
            raise ValueError(f'stopped_answers must be "keep" or "discard", but is: {stopped_answers!r:.100}')
        self._keeps_stopped = stopped_answers == "keep"
        if math.isinf(turn_timeout):
            raise ValueError("turn_timeout must be finite: a killed process blocks its conversation for so long")
        self._model = as_chat_model(model)
        self.summarizer = summarizer
        if memory is not None and not callable(memory) and not isinstance(memory, ChatMemory):
            raise TypeError(f"memory must be a ChatMemory or a callable, but is: {_kind_of(memory)}")
        self._memory = memory
        self._memory_by_id: dict[Any, ChatMemory] = {}
        self._lock = threading.Lock()
        self._system_message = system_message
        self._tools = Toolbox(tools, max_tool_result_chars, on_tool_error, tool_timeout)
        for name, limit in self._tools.limits().items():
            if limit >= turn_timeout:
                raise ValueError(
                    f"the time limit of tool {name} must be less than turn_timeout, which is {turn_timeout:g} seconds, "
                    f"but is: {limit:g}; lower it, or raise turn_timeout"
                )
        self._max_invocations = max_sequential_tools_invocations
        self._turn_timeout = turn_timeout
        self._wait_timeout = wait_timeout
        kinds: list[BackgroundTask] = [Summaries(summarizer)]
        if title:
            kinds.append(Titles(self._model))
        self._background = BackgroundTasks(kinds)

    def missing_key(self) -> str:
        """Return that of the model or of the summarizer's model, see ``ChatModel.missing_key``."""
        of_summarizer: Callable[[], str] = getattr(self.summarizer, "missing_key", str)
        return self._model.missing_key() or of_summarizer()

    def memory(self, memory_id: Any) -> ChatMemory:
        """Return the memory of an ID, or of a ``Conversation``.

        That of a provider is kept, unless it is in Django's database.

        Raises:
            ValueError: there is one memory for all, and it has another ID.
            TypeError: there is no memory for IDs, or what the provider returned is no memory.
        """
        if (own := memory_of_row(memory_id)) is not None:
            return own
        if self._memory is None:
            raise TypeError(
                f"{memory_id!r:.100} is no Conversation. Give the conversation first, and the message after it: "
                'chat(conversation, "Hello"). To name conversations by IDs, make the assistant with memory=…, such as '
                "memory=lambda pk: Conversation.objects.get(pk=pk).memory"
            )
        if isinstance(self._memory, ChatMemory):
            if memory_id != self._memory.id:
                raise ValueError(
                    f"there is one memory for all, whose ID is {self._memory.id!r}, but the ID given is {memory_id!r}; "
                    "for one memory per ID give a callable: memory=lambda memory_id: …"
                )
            return self._memory
        with self._lock:
            if memory_id in self._memory_by_id:
                return self._memory_by_id[memory_id]
        memory = self._memory(memory_id)
        if not isinstance(memory, ChatMemory):
            raise TypeError(f"the memory of {memory_id!r} must be a ChatMemory, but is: {_kind_of(memory)}")
        if not isinstance(self._open_lease(memory), LocalLease):
            return memory
        with self._lock:
            return self._memory_by_id.setdefault(memory_id, memory)

    def forget(self, memory_id: Any) -> None:
        """Drop the memory object of an ID; the messages in its store stay."""
        with self._lock:
            self._memory_by_id.pop(memory_id, None)

    def chat(
        self,
        memory_id: Any,
        message: str | UserMessage | None = None,
        **options: Unpack[TurnOptions],
    ) -> AiMessage:
        """Take a turn and return its answer.

        Args:
            memory_id: the ID of a memory, or a ``Conversation``.
            message: what the user says. None goes on from where the conversation stands, say after a failure; if it
                stands at an answer, that is returned.
            options: what else a turn takes, see ``TurnOptions``.

        Raises:
            ConversationBusyError: another turn took too long.
            TurnLostError: this turn was interrupted, or took too long and another has taken over.
            TooManyToolInvocationsError: the model did not stop calling tools.
            WindowTooSmallError: the message that the model is to answer does not fit the window, or left it while
                tools ran.
            IdempotencyConflictError: the key was already used for another message.
            AnswerDeletedError: the key came before, messages after it have been deleted, and the answer may be among
                those.
            Conversation.DoesNotExist: the conversation has been erased.
            RuntimeError: the caller is within a transaction.
            Exception: what the model raised.
        """
        turn = self._turn(memory_id, message, streaming=False, **options)
        with closing(turn.events()) as events:
            for event in events:
                last = event
        assert isinstance(last, AiMessage)
        return last

    def stream(
        self,
        memory_id: Any,
        message: str | UserMessage | None = None,
        **options: Unpack[TurnOptions],
    ) -> Generator[str | Thinking | Added, None, None]:
        """Take a turn like ``chat``, and yield the answer's text in deltas, and an ``Added`` for what was stored.

        Thinking comes in deltas as well, as ``Thinking``, if the model gives it out. Text may come before calls of
        tools, too: then these are in the next ``Added``. An answer whose generator is closed before it is whole is not
        stored. If there is an answer already, its text is the only delta.
        """
        turn = self._turn(memory_id, message, streaming=True, **options)
        with closing(turn.events()) as events:
            for event in events:
                if not isinstance(event, AiMessage):
                    yield event

    async def achat(
        self,
        memory_id: Any,
        message: str | UserMessage | None = None,
        **options: Unpack[TurnOptions],
    ) -> AiMessage:
        """Async version of ``chat``. A cancelled task leaves what was added before, and releases its turn."""
        turn = await as_async_change(self._turn)(memory_id, message, streaming=False, **options)
        async with aclosing(turn.aevents()) as events:
            async for event in events:
                last = event
        assert isinstance(last, AiMessage)
        return last

    async def astream(
        self,
        memory_id: Any,
        message: str | UserMessage | None = None,
        **options: Unpack[TurnOptions],
    ) -> AsyncGenerator[str | Thinking | Added, None]:
        """Async version of ``stream``. Close it if you leave it early: ``contextlib.aclosing``."""
        turn = await as_async_change(self._turn)(memory_id, message, streaming=True, **options)
        async with aclosing(turn.aevents()) as events:
            async for event in events:
                if not isinstance(event, AiMessage):
                    yield event

    def begin(
        self,
        memory_id: Any,
        message: str | UserMessage | None = None,
        **options: Unpack[BegunTurnOptions],
    ) -> Turn:
        """Take a turn and add the message, and return before the model is asked.

        It is for views: whether the conversation is free, and the message was added, is known before the response
        begins. The errors are those of ``chat``, too. Run the turn to its end, or release it.

        Raises:
            MemoryTooLargeError: the memory is, or would be, larger than ``most``. Nothing was added.
        """
        turn = self._turn(memory_id, message, streaming=True, **options)
        turn.begin()
        return turn

    abegin = async_change(begin)

    def interrupt(self, memory_id: Any) -> None:
        """End the current turn, in any process: for example, for a stop button.

        What the turn added before stays. What a stream has given out of the answer becomes the answer, with
        ``AiMessage.is_stopped``, unless ``stopped_answers`` is ``"discard"``, or it is no text. The conversation is
        free at once; if the turn runs in another process, when that has stored the answer, but within seconds. The
        turn itself ends with a ``TurnLostError``, whose ``interrupted`` is True: a stream within seconds, any other
        turn when it next adds something.
        """
        before_turn()
        self._open_lease(self.memory(memory_id)).interrupt()

    ainterrupt = async_change(interrupt)

    def wait_for_summaries(self, timeout: float | None = None) -> bool:
        """Wait for the summaries and titles of turns that have ended, and return whether all are done.

        This is for scripts and tests. A process that ends does not wait for them: a later turn or command does the
        rest.

        Args:
            timeout: seconds; by default for ever.
        """
        return self._background.wait(timeout)

    async def await_for_summaries(self, timeout: float | None = None) -> bool:
        """Async version of ``wait_for_summaries``."""
        return await in_thread_for_functions(partial(self.wait_for_summaries, timeout), of_caller=False)

    def _turn(
        self,
        memory_id: Any,
        message: str | UserMessage | None,
        *,
        streaming: bool,
        idempotency_key: str | None = None,
        context: Any = None,
        wait_timeout: float | None = None,
        most: MemoryBound | None = None,
        written_by: str = "",
        also: Callable[[Change], None] | None = None,
        go_back: GoBack | None = None,
    ) -> Turn:
        said = UserMessage(message) if isinstance(message, str) else message
        if said is not None and not isinstance(said, UserMessage):
            raise TypeError(f"message must be a text or a UserMessage, but is: {type(said).__name__}")
        if said is None and idempotency_key is not None:
            raise ValueError("idempotency_key needs a message")
        if wait_timeout is not None and not wait_timeout >= 0:
            raise ValueError(f"wait_timeout must not be negative, but is: {wait_timeout}")
        before_turn()
        memory = self.memory(memory_id)
        system = self._system_message(memory_id) if callable(self._system_message) else self._system_message
        lease = self._open_lease(memory)
        plan = Plan(
            system_message=None if system is None else SystemMessage(system),
            message=said,
            idempotency_key=idempotency_key,
            max_invocations=self._max_invocations,
            wait_timeout=self._wait_timeout if wait_timeout is None else wait_timeout,
            needs_context=self._tools.needs_context,
            model=name_of(self._model),
            tools=self._tools.definitions,
            answer_tokens=self._answer_tokens,
            recall=_recall_of_app() if self._recall == "preload" else self._recall,
            context=context,
            most=most,
            written_by=written_by,
            also=also,
            go_back=go_back,
        )
        return Turn(lease, plan, self._model, self._tools, streaming=streaming, tasks=self._background)

    def _open_lease(self, memory: ChatMemory) -> Lease:
        return open_lease(memory, self._turn_timeout, keeps_stopped=self._keeps_stopped)


def running_turn(conversation: Conversation) -> int | None:
    """Return the number of the turn that runs in a conversation now; None if none runs.

    The number is another for each turn of the conversation. A turn whose process was killed runs until its time is up.
    """
    from chatmemory.assistant.conversation_lease import ConversationLease

    return ConversationLease(conversation.memory, timeout=0).running()


def is_stopping(conversation: Conversation) -> bool:
    """Return whether a turn was interrupted that another process runs, and that may still store its answer."""
    from chatmemory.assistant.conversation_lease import ConversationLease

    return ConversationLease(conversation.memory, timeout=0).is_stopping()


MemoryProvider: TypeAlias = Callable[[Any], ChatMemory]
"""A function of a memory ID that returns its memory."""


def _recall_of_app() -> Recall | None:
    """Return the function of an installed app that recalls messages; None if no memory is in Django's database.

    Raises:
        RuntimeError: there is no such app.
    """
    if "chatmemory.models" not in sys.modules:
        return None
    from chatmemory.capabilities import hook_of_search

    return hook_of_search("recall", 'recall="preload"')


def _kind_of(value: Any) -> str:
    """Return the type of an object that is not a memory, with a hint."""
    hint = "; pass conversation.memory" if isinstance(getattr(value, "memory", None), ChatMemory) else ""
    return f"{type(value).__name__}{hint}"


def open_lease(memory: ChatMemory, timeout: float, *, keeps_stopped: bool = False) -> Lease:
    """Return a lease on the turn of a memory of any kind, not taken yet.

    Args:
        memory: the memory.
        timeout: the seconds after which another may take over, unless the lease is renewed.
        keeps_stopped: whether an interruption stores what was said of the answer.
    """
    if "chatmemory.models" in sys.modules:
        from chatmemory.assistant.conversation_lease import ConversationLease

        if (lease := ConversationLease.of(memory, timeout, keeps_stopped=keeps_stopped)) is not None:
            return lease
    return LocalLease(memory, keeps_stopped=keeps_stopped)


def memory_of_row(given: Any) -> ChatMemory | None:
    """Return the memory of ``given`` if that is a ``Conversation``, else None."""
    if "chatmemory.models" in sys.modules:
        from chatmemory.models import Conversation

        if isinstance(given, Conversation):
            return given.memory
    return None


def before_turn() -> None:
    """Close the connections that are known to be dead: ``memory()`` and ``system_message()`` may ask the database."""
    if "chatmemory.models" in sys.modules:  # else no memory is in the database, and there may be no Django
        from chatmemory.database.connections import close_broken

        close_broken()
