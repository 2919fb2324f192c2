"""A turn in progress, whose steps are done in a thread that waits or in a task."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeAlias

from chatmemory.assistant.background import BackgroundTasks
from chatmemory.assistant.calls import Call
from chatmemory.assistant.errors import ContextTooLongError, ModelError, TurnLostError
from chatmemory.assistant.lease import Added, Lease
from chatmemory.assistant.model import Answered, ChatModel, Thinking, as_answered, usage_told_by
from chatmemory.assistant.steps import Ask, Do, Pause, Plan, RunTools, ToolCall, turn_steps
from chatmemory.assistant.tools import Toolbox
from chatmemory.core.asynchronous import run_to_the_end
from chatmemory.core.exceptions import gettext_noop as _
from chatmemory.core.json_text import StorableDeltas
from chatmemory.core.messages import AiMessage, ChatMessage, ToolExecutionResultMessage
from chatmemory.core.usage import Usage

if TYPE_CHECKING:
    from chatmemory.database.change import Change

TurnEvent: TypeAlias = "str | Thinking | Added | AiMessage"
"""A delta of text or thinking, stored messages, or, last, the answer."""

_LONGEST_DEAFNESS = 1.0
"""Seconds after which a turn that another process has interrupted stops reading the model's deltas."""

_logger = logging.getLogger("chatmemory.assistant")


class Turn:
    """One request to an assistant and its answer, in progress.

    ``Assistant.begin`` returns it when the user's message is stored, before the model is asked. Run it to its end by
    ``events`` or ``aevents``, in any thread, or ``release`` it. After that others may summarise, and find a title.
    """

    def __init__(
        self,
        lease: Lease,
        plan: Plan,
        model: ChatModel,
        tools: Toolbox,
        *,
        streaming: bool,
        tasks: BackgroundTasks,
    ) -> None:
        self._lease = lease
        self._steps = turn_steps(lease, plan, lambda: self._is_async)
        self._model = model
        self._tools = tools
        self._streaming = streaming
        self._background = tasks
        self._has_asked = False
        self._has_deltas = False
        """Whether the caller has deltas of the answer that is coming."""
        self._is_async = False
        self._begun: Ask | None = None
        self._renewing = threading.Lock()

        self.is_read = True
        """Whether the caller gives out the deltas as they come: what nobody has read is not kept if it is stopped."""

        self.added: list[Added] = []
        """The messages that were stored before the model is asked, such as the user's."""

        self.answer: AiMessage | None = None
        """The answer, if there was one already: then the model is not asked."""

    @property
    def changes(self) -> list[Change]:
        """The changes of ``added``; none if the memory is not in Django's database."""
        return [added.change for added in self.added if added.change is not None]

    @property
    def question(self) -> int | None:
        """The position of the user's message; None if the turn goes on from where the conversation stands."""
        said = [added.change.added for added in self.added if added.messages and added.change is not None]
        positions = [row.position for rows in said for row in rows if row.type == "USER"]
        return positions[-1] if positions else None

    def begin(self) -> None:
        """Do the steps before the model is asked, in this thread.

        ``events`` or ``aevents`` go on from there. Until then the turn is held, unless there is an answer
        already.
        """
        try:
            while True:
                match self._advance(None):
                    case Pause(seconds):
                        self._lease.rest()
                        time.sleep(seconds)
                    case Added() as one:
                        self.added.append(one)
                    case Ask() as ask:
                        self._begun = ask
                        self._lease.rest()
                        return
                    case answer:
                        self.answer = answer
                        self._lease.release()
                        return
        except BaseException:
            self._lease.release()
            raise

    def release(self) -> None:
        """End the turn without asking the model."""
        self._lease.release()

    def interrupt(self) -> None:
        """End this turn, if it is still under way, while another thread or task runs it; a turn after it goes on.

        What the caller has of the answer is stored, unless the assistant discards it.
        """
        self._lease.interrupt_own()

    def events(self) -> Generator[TurnEvent, None, None]:
        """Run the turn to its end in this thread, and yield what happens; the answer comes last.

        Raises:
            Exception: as ``Assistant.chat`` raises it.
        """
        outcome: Any = None  # of the step before; those without one do not look at it
        try:
            try:
                while True:
                    match self._take_begun() or self._advance(outcome):
                        case Pause(seconds):
                            self._lease.rest()
                            time.sleep(seconds)
                        case RunTools(calls):
                            self._lease.rest()
                            self._background.add(self._lease, is_under_way=True)
                            outcome = [self._tools.run(request, context) for request, context in calls]
                        case Ask(messages):
                            self._has_asked = True
                            try:
                                outcome = yield from self._ask(messages)
                            except ContextTooLongError as error:
                                outcome = self._refused(error)
                        case Added() as added:
                            self._lease.rest()  # its reader may take long
                            yield added
                        case answer:
                            break
            except TurnLostError:
                if (kept := self._keep()) is not None:
                    yield kept
                raise
            finally:
                self._lease.release()
            yield from self._said_before(answer)
            yield answer
        finally:
            self._background.add(self._lease)  # it is released, and its caller had all of it or left

    async def aevents(self) -> AsyncGenerator[TurnEvent, None]:
        """Async version of ``events``."""
        outcome: Any = None  # of the step before; those without one do not look at it
        is_released = False
        self._is_async = True
        try:
            try:
                while True:
                    match self._take_begun() or await self._aadvance(outcome):
                        case Pause(seconds):
                            await asyncio.sleep(seconds)
                        case RunTools(calls):
                            self._background.add(self._lease, is_under_way=True)
                            outcome = await self._run_together(calls)
                        case Ask(messages):
                            self._has_asked = True
                            try:
                                async with aclosing(self._aask(messages)) as deltas:
                                    async for outcome in deltas:
                                        if not isinstance(outcome, Answered):
                                            yield outcome
                            except ContextTooLongError as error:
                                outcome = self._refused(error)
                        case Added() as added:
                            yield added
                        case answer:
                            is_released = True
                            break
            except TurnLostError:
                if (kept := await run_to_the_end(self._keep)) is not None:
                    yield kept
                raise
            finally:
                if not is_released:
                    await run_to_the_end(self._lease.release)
            for delta in self._said_before(answer):
                yield delta
            yield answer
        finally:
            self._background.add(self._lease)  # it is released, and its caller had all of it or left

    def _take_begun(self) -> Ask | None:
        """Return the step that ``begin`` left to do, once."""
        begun, self._begun = self._begun, None
        return begun

    def _advance(self, outcome: Any) -> Any:
        """Do the steps that use the memory, until one that does not, or that the caller gets, and return that one."""
        step = self._steps.send(outcome)
        while isinstance(step, Do) or (isinstance(step, Added) and not self._streaming):
            step = self._steps.send(self._do(step.work) if isinstance(step, Do) else None)
        return step

    async def _aadvance(self, outcome: Any) -> Any:
        def advance_and_rest() -> Any:
            step = self._advance(outcome)
            if isinstance(step, AiMessage):
                self._lease.release()  # here and now: another thread would take another connection
            else:
                self._lease.rest()
            return step

        # To the end: a step that went on after the turn was released could take it again.
        return await run_to_the_end(advance_and_rest)

    def _do(self, work: Callable[[], Any]) -> Any:
        self._lease.wake()
        return work()

    async def _run_together(self, calls: Sequence[ToolCall]) -> list[ToolExecutionResultMessage]:
        """Run tools at the same time. If one ends the turn, or the task is cancelled, the others end before it."""
        begin = self._renewal()
        tasks = [asyncio.ensure_future(self._tools.arun(request, context, begin=begin)) for request, context in calls]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def _keep(self) -> Added | None:
        """Store what the caller has of the answer if the turn was interrupted, and return it."""
        try:
            return self._do(self._lease.keep)  # type: ignore[no-any-return]
        except Exception:  # the caller is told in any case that the turn is over
            _logger.exception("What was said in conversation %s before it was stopped is lost", self._lease.name)
            return None
        finally:
            self._lease.rest()

    def _check(self, check: Callable[[], None]) -> None:
        with self._renewing:  # tools in several threads begin when they like
            self._do(check)
            self._lease.rest()

    def _renewal(self) -> Callable[[], None]:
        """Return a function for a tool's thread to call first, so that the tool's time of waiting is not counted."""
        pulse = _Pulse(self._lease)
        return lambda: self._check(self._lease.renew) if pulse.due() else None

    def _said_before(self, answer: AiMessage) -> Sequence[str]:
        """Return the text to stream if the answer was stored before and the model is not asked again."""
        return [answer.text] if self._streaming and not self._has_asked and answer.text else []

    def _refused(self, error: ContextTooLongError) -> ContextTooLongError:
        """Return the error, for the next step to make room. Raise it if the caller has deltas of an answer."""
        if self._has_deltas:
            raise error
        return error

    def _ask(self, messages: list[ChatMessage]) -> Generator[str | Thinking, None, Answered]:
        with Call(self._model, self._lease) as call:
            call.answered = yield from self._answer(messages, call)
        return call.answered

    async def _aask(self, messages: list[ChatMessage]) -> AsyncGenerator[str | Thinking | Answered, None]:
        # Closed here and now: the event loop would close the generator later, and in another task.
        async with Call(self._model, self._lease) as call, aclosing(self._aanswer(messages, call)) as deltas:
            async for delta in deltas:
                if isinstance(delta, Answered):
                    call.answered = delta
                else:
                    yield delta
        if call.answered is not None:
            yield call.answered

    def _answer(self, messages: list[ChatMessage], call: Call) -> Generator[str | Thinking, None, Answered]:
        self._has_deltas = False
        if not self._streaming:
            return as_answered(self._model.chat(messages, self._tools.specifications))
        deltas = self._model.stream(messages, self._tools.specifications)
        pulse, storable = _Pulse(self._lease), _Storable()
        last: Any = None
        try:
            for last in deltas:
                if isinstance(last, (str, Thinking)):
                    if (check := pulse.due()) is not None:
                        self._check(check)
                    if self._is_told(delta := storable.take(last), call):
                        yield delta
            for delta in storable.end():
                if self._is_told(delta, call):
                    yield delta
        finally:
            call.usage = _leave(deltas)
        return _whole(last)

    async def _aanswer(
        self, messages: list[ChatMessage], call: Call
    ) -> AsyncGenerator[str | Thinking | Answered, None]:
        self._has_deltas = False
        if not self._streaming:
            yield as_answered(await self._model.achat(messages, self._tools.specifications))
            return
        deltas = self._model.astream(messages, self._tools.specifications)
        pulse, storable = _Pulse(self._lease), _Storable()
        last: Any = None
        try:
            async for last in deltas:
                if isinstance(last, (str, Thinking)):
                    if (check := pulse.due()) is not None:
                        await run_to_the_end(self._check, check)
                    if self._is_told(delta := storable.take(last), call):
                        yield delta
            for delta in storable.end():
                if self._is_told(delta, call):
                    yield delta
        finally:
            call.usage = await _aleave(deltas)
        yield _whole(last)

    def _is_told(self, delta: str | Thinking, call: Call) -> bool:
        """Note a delta right before the caller gets it, and return whether it says anything."""
        self._lease.say(delta if isinstance(delta, str) and self.is_read else "")
        if not (delta.text if isinstance(delta, Thinking) else delta):
            return False
        call.note_delta()
        self._has_deltas = True
        return True


class _Storable:
    """The deltas of an answer, as ``StorableDeltas`` for its text and for its thinking."""

    def __init__(self) -> None:
        self._text, self._thinking = StorableDeltas(), StorableDeltas()

    def take(self, delta: str | Thinking) -> str | Thinking:
        if isinstance(delta, Thinking):
            return Thinking(self._thinking.take(delta.text))
        return self._text.take(delta)

    def end(self) -> list[str | Thinking]:
        return [Thinking(self._thinking.end()), self._text.end()]


class _Pulse:
    """A clock for the renewals of a turn while an answer comes in deltas, and for looks in between.

    Both show whether the turn was interrupted. A renewal writes, and a look only reads.
    """

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._renewed = self._looked = time.monotonic()

    def due(self) -> Callable[[], None] | None:
        """Return what to do now, if anything."""
        now = time.monotonic()
        if now - self._renewed >= self._lease.timeout / 4:
            self._renewed = self._looked = now
            return self._lease.renew
        if now - self._looked >= _LONGEST_DEAFNESS:
            self._looked = now
            return self._lease.look
        return None


def _leave(deltas: Any) -> Usage | None:
    """End a stream that is not at its end, and return the usage that it tells then."""
    leaving = GeneratorExit()
    try:
        if hasattr(deltas, "throw"):
            deltas.throw(leaving)  # close() would throw one of its own, and let nobody see it
    except (GeneratorExit, StopIteration):
        return usage_told_by(leaving)
    if (close := getattr(deltas, "close", None)) is not None:
        close()
    return None


async def _aleave(deltas: Any) -> Usage | None:
    """Async version of ``_leave``."""
    leaving = GeneratorExit()
    try:
        if hasattr(deltas, "athrow"):
            await deltas.athrow(leaving)
    except (GeneratorExit, StopAsyncIteration):
        return usage_told_by(leaving)
    if (close := getattr(deltas, "aclose", None)) is not None:
        await close()
    return None


def _whole(last: Any) -> Answered:
    if isinstance(last, (str, Thinking)) or last is None:
        raise ModelError(_("The model's stream ended before the answer was whole."))
    return as_answered(last)
