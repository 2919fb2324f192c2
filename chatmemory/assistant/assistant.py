"""The assistant: the model, its memories and its tools put together."""

from __future__ import annotations

import math
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from contextlib import aclosing, closing
from functools import partial
from typing import Any, TypeAlias

from chatmemory.assistant.driver import Driver
from chatmemory.assistant.model import ChatModel, ModelFunction, as_chat_model
from chatmemory.assistant.steps import Plan, turn_steps
from chatmemory.assistant.summaries import Summaries
from chatmemory.assistant.tools import Tool, Toolbox
from chatmemory.assistant.turns.base import Added
from chatmemory.assistant.turns.local import LocalTurn
from chatmemory.assistant.turns.opening import before_turn, open_turn
from chatmemory.core.asynchronous import as_async_change, in_thread_for_functions
from chatmemory.core.memory import ChatMemory
from chatmemory.core.messages import AiMessage, SystemMessage, UserMessage
from chatmemory.core.summaries import Summarizer

__all__ = ["Assistant"]

MemoryProvider: TypeAlias = Callable[[Any], ChatMemory]


class Assistant:
    """A model with a memory, as LangChain4j's AI Services have it.

    A turn adds what the user says, asks the model with the memory, runs the tools that it calls, asks again, and adds
    the answer. Each message is added as soon as it is there, so that a turn that fails, or a process that is killed,
    leaves what was said: the user's message, a call before it runs, all results of a call together, the answer when it
    is whole. A call that was interrupted gets a result that says so when the next turn begins; it is not run again, for
    nobody knows what it did. ``chat(memory_id)`` without a message goes on from wherever a conversation stands.

    There is one turn at a time in a conversation: of a conversation in Django's database across all processes, else
    within this process. Another one waits. While the model thinks, a turn holds no transaction, and gives its database
    connections back. So it must not run within a transaction of yours (``ATOMIC_REQUESTS``): that is a
    ``RuntimeError``.

    With a ``summarizer`` older turns are summarised where ``compact_at`` of a conversation says so: after a turn has
    given out its answer, in a thread of its own. No turn waits for it, and if it fails, the memory stays as it is.

    One assistant may be used by any number of threads and tasks at once.
    """

    def __init__(
        self,
        model: ChatModel | ModelFunction,
        *,
        memory: ChatMemory | MemoryProvider,
        system_message: str | Callable[[Any], str | None] | None = None,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        max_sequential_tools_invocations: int = 100,
        max_tool_result_chars: int = 100_000,
        turn_timeout: float = 120.0,
        wait_timeout: float = 30.0,
        summarizer: Summarizer | None = None,
    ) -> None:
        """
        Args:
            model: a :class:`ChatModel`, or a function of the messages and the tools' specifications that returns an
                ``AiMessage``.
            memory: one for all, or a callable of the memory ID that returns the memory. It is kept for the ID, unless
                it is in Django's database.
            system_message: instructions, or a callable of the memory ID that returns them. They go into
                the memory, and replace others.
            tools: functions that the model may call.
            max_sequential_tools_invocations: how often in a row the model may call tools.
            max_tool_result_chars: the characters after which a tool's result is cut, with a line that says so. Keep it
                below the setting ``MAX_MESSAGE_CHARS``, or REST refuses a rewrite of that memory.
            turn_timeout: seconds that one call of the model, a pause between two pieces of its answer, or a tool may
                take at most. After that time without a sign of life, a waiting turn takes over: a killed process
                blocks its conversations no longer than this.
            wait_timeout: seconds that a turn waits for the one before it.
            summarizer: a function, sync or async, of messages and of the summary before them or None, such as a
                :class:`ChatModelSummarizer`. It is for memories in Django's database only.

        Raises:
            TypeError: the model, the memory, a tool, a number or the summarizer is something else.
            ValueError: a number is not above zero, ``turn_timeout`` is infinite, or two tools have one name.
        """
        if not callable(memory) and not isinstance(memory, ChatMemory):
            raise TypeError(f"memory must be a ChatMemory or a callable, but is: {_kind_of(memory)}")
        if summarizer is not None and not callable(summarizer):
            raise TypeError(f"summarizer must be a function, but is: {type(summarizer).__name__}")
        counts = {
            "max_sequential_tools_invocations": max_sequential_tools_invocations,
            "max_tool_result_chars": max_tool_result_chars,
        }
        for name, value in (counts | {"turn_timeout": turn_timeout, "wait_timeout": wait_timeout}).items():
            if not value > 0:
                raise ValueError(f"{name} must be greater than zero, but is: {value}")
            if name in counts and not isinstance(value, int):
                raise TypeError(f"{name} must be an int, but is: {value!r}")
        if math.isinf(turn_timeout):
            raise ValueError(
                "turn_timeout must be finite: so long a process that is killed keeps its conversations busy"
            )
        self._model = as_chat_model(model)
        self._memory = memory
        self._system_message = system_message
        self._tools = Toolbox(tools, max_tool_result_chars)
        self._max_invocations = max_sequential_tools_invocations
        self._turn_timeout = turn_timeout
        self._wait_timeout = wait_timeout
        self._summaries = None if summarizer is None else Summaries(summarizer)
        self._memories: dict[Any, ChatMemory] = {}
        self._memories_lock = threading.Lock()

    def memory(self, memory_id: Any) -> ChatMemory:
        """Return the memory of an ID.

        Raises:
            ValueError: there is one memory for all, and it has another ID.
            TypeError: what the provider returned is no memory.
        """
        if isinstance(self._memory, ChatMemory):
            if memory_id != self._memory.id:
                raise ValueError(
                    f"there is one memory for all, whose ID is {self._memory.id!r}, but the ID given is {memory_id!r}; "
                    "for one memory per ID give a callable: memory=lambda memory_id: …"
                )
            return self._memory
        with self._memories_lock:
            if memory_id in self._memories:
                return self._memories[memory_id]
        memory = self._memory(memory_id)
        if not isinstance(memory, ChatMemory):
            raise TypeError(f"the memory of {memory_id!r} must be a ChatMemory, but is: {_kind_of(memory)}")
        if not isinstance(open_turn(memory, self._turn_timeout), LocalTurn):
            return memory
        with self._memories_lock:
            return self._memories.setdefault(memory_id, memory)

    def forget(self, memory_id: Any) -> None:
        """Drop the memory object of an ID; the messages in its store stay."""
        with self._memories_lock:
            self._memories.pop(memory_id, None)

    def chat(
        self, memory_id: Any, message: str | UserMessage | None = None, *, idempotency_key: str | None = None
    ) -> AiMessage:
        """Take a turn and return its answer.

        Args:
            memory_id: whose conversation.
            message: what the user says. None goes on from where the conversation stands, say after a failure; if it
                stands at an answer, that is returned.
            idempotency_key: with a memory in Django's database, a second call with the same key and message adds
                nothing: it returns the answer of the first, or goes on if there is none. If another message was said
                and answered since, it asks the model again, behind a synthetic copy of the message; later calls return
                that answer.

        Raises:
            ConversationBusyError: another turn took too long.
            TurnLostError: this turn was interrupted, or took too long and another has taken over.
            TooManyToolInvocationsError: the model did not stop calling tools.
            WindowTooSmallError: the message that the model is to answer does not fit the window, or left it while
                tools ran.
            IdempotencyConflictError: the key came before, with another message.
            AnswerDeletedError: the key came before, messages after it have been deleted, and the answer may be among
                those.
            Conversation.DoesNotExist: the conversation has been erased.
            RuntimeError: the caller is within a transaction.
            Exception: what the model raised.
        """
        with closing(self._driver(memory_id, message, idempotency_key, streaming=False).run()) as events:
            for event in events:
                last = event
        assert isinstance(last, AiMessage)
        return last

    def stream(
        self, memory_id: Any, message: str | UserMessage | None = None, *, idempotency_key: str | None = None
    ) -> Generator[str | Added, None, None]:
        """Take a turn like :meth:`chat`, and yield the answer's text in pieces, and an ``Added`` for what was stored.

        Text may come before calls of tools, too: then these are in the next ``Added``. An answer whose generator is
        closed before it is whole is not stored. If there is an answer already, its text is the only piece.
        """
        with closing(self._driver(memory_id, message, idempotency_key, streaming=True).run()) as events:
            for event in events:
                if not isinstance(event, AiMessage):
                    yield event

    async def achat(
        self, memory_id: Any, message: str | UserMessage | None = None, *, idempotency_key: str | None = None
    ) -> AiMessage:
        """Async twin of :meth:`chat`. A cancelled task leaves what was added before, and releases its turn."""
        driver = await as_async_change(self._driver)(memory_id, message, idempotency_key, streaming=False)
        async with aclosing(driver.arun()) as events:
            async for event in events:
                last = event
        assert isinstance(last, AiMessage)
        return last

    async def astream(
        self, memory_id: Any, message: str | UserMessage | None = None, *, idempotency_key: str | None = None
    ) -> AsyncGenerator[str | Added, None]:
        """Async twin of :meth:`stream`. Close it if you leave it early: ``contextlib.aclosing``."""
        driver = await as_async_change(self._driver)(memory_id, message, idempotency_key, streaming=True)
        async with aclosing(driver.arun()) as events:
            async for event in events:
                if not isinstance(event, AiMessage):
                    yield event

    def interrupt(self, memory_id: Any) -> None:
        """End the turn that is under way, in whatever process, for a button to stop, say.

        The conversation is free at once. The turn itself ends with ``TurnLostError`` when it next adds something; what
        it added before stays.
        """
        before_turn()
        open_turn(self.memory(memory_id), self._turn_timeout).interrupt()

    async def ainterrupt(self, memory_id: Any) -> None:
        """Async twin of :meth:`interrupt`."""
        await as_async_change(self.interrupt)(memory_id)

    def wait_for_summaries(self, timeout: float | None = None) -> bool:
        """Wait for the summaries of turns that have ended, and return whether all are done, for scripts and tests.

        A process that ends does not wait for them. What is not done then, a later turn or command does.

        Args:
            timeout: seconds; by default for ever.
        """
        return self._summaries is None or self._summaries.wait(timeout)

    async def await_for_summaries(self, timeout: float | None = None) -> bool:
        """Async twin of :meth:`wait_for_summaries`."""
        return await in_thread_for_functions(partial(self.wait_for_summaries, timeout), of_caller=False)

    def _driver(
        self, memory_id: Any, message: str | UserMessage | None, idempotency_key: str | None, *, streaming: bool
    ) -> Driver:
        said = UserMessage(message) if isinstance(message, str) else message
        if said is not None and not isinstance(said, UserMessage):
            raise TypeError(f"message must be a text or a UserMessage, but is: {type(said).__name__}")
        if said is None and idempotency_key is not None:
            raise ValueError("idempotency_key needs a message")
        before_turn()
        system = self._system_message(memory_id) if callable(self._system_message) else self._system_message
        turn = open_turn(self.memory(memory_id), self._turn_timeout)
        plan = Plan(
            system_message=None if system is None else SystemMessage(system),
            message=said,
            idempotency_key=idempotency_key,
            max_invocations=self._max_invocations,
            wait_timeout=self._wait_timeout,
        )
        steps = turn_steps(turn, plan)
        return Driver(turn, steps, self._model, self._tools, streaming=streaming, summaries=self._summaries)


def _kind_of(value: Any) -> str:
    """Return the type of what is no memory, with a hint if it has one."""
    hint = "; pass conversation.memory" if isinstance(getattr(value, "memory", None), ChatMemory) else ""
    return f"{type(value).__name__}{hint}"
