"""The driver of a turn's steps, in a thread that waits or in a task."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import aclosing
from typing import Any

from chatmemory.assistant.errors import ModelError
from chatmemory.assistant.model import ChatModel
from chatmemory.assistant.steps import Ask, Do, Pause, RunTool, Steps
from chatmemory.assistant.summaries import Summaries
from chatmemory.assistant.tools import Toolbox
from chatmemory.assistant.turns.base import Added, Turn
from chatmemory.core.asynchronous import run_to_the_end
from chatmemory.core.messages import AiMessage, ChatMessage

__all__ = ["Driver"]


class Driver:
    """A loop that does the steps of one turn, and releases the turn however they end.

    It yields text in pieces, an ``Added`` for each addition, and at last the answer. After that others may summarise.
    """

    def __init__(
        self,
        turn: Turn,
        steps: Steps,
        model: ChatModel,
        tools: Toolbox,
        *,
        streaming: bool,
        summaries: Summaries | None = None,
    ) -> None:
        self._turn = turn
        self._steps = steps
        self._model = model
        self._tools = tools
        self._streaming = streaming
        self._summaries = summaries
        self._has_asked = False

    def run(self) -> Generator[str | Added | AiMessage, None, None]:
        """Do each step in this thread."""
        outcome: Any = None  # of the step before; those without one do not look at it
        try:
            try:
                while True:
                    match self._advance(outcome):
                        case Pause(seconds):
                            self._turn.rest()
                            time.sleep(seconds)
                        case RunTool(request):
                            self._turn.rest()
                            outcome = self._tools.run(request)
                        case Ask(messages):
                            self._has_asked = True
                            self._turn.rest()
                            outcome = yield from self._ask(messages)
                        case Added() as added:
                            self._turn.rest()  # whoever gets it may take their time
                            yield added
                        case answer:
                            break
            finally:
                self._turn.release()
            yield from self._said_before(answer)
            yield answer
        finally:
            self._leave_summary()

    async def arun(self) -> AsyncGenerator[str | Added | AiMessage, None]:
        """Async twin of :meth:`run`."""
        outcome: Any = None  # of the step before; those without one do not look at it
        try:
            try:
                while True:
                    match await self._aadvance(outcome):
                        case Pause(seconds):
                            await asyncio.sleep(seconds)
                        case RunTool(request):
                            outcome = await self._tools.arun(request, self._renewal())
                        case Ask(messages):
                            self._has_asked = True
                            # Closed here and now: the event loop would close the generator later, and in another task.
                            async with aclosing(self._aask(messages)) as pieces:
                                async for outcome in pieces:
                                    if isinstance(outcome, str):
                                        yield outcome
                        case Added() as added:
                            yield added
                        case answer:
                            break
            finally:
                await run_to_the_end(self._turn.release)
            for piece in self._said_before(answer):
                yield piece
            yield answer
        finally:
            self._leave_summary()

    def _leave_summary(self) -> None:
        """Let a summary be made if one may be due: the turn is released, and its caller had all of it or left."""
        if self._summaries is not None:
            self._summaries.add(self._turn)

    def _advance(self, outcome: Any) -> Any:
        """Do the steps that use the memory; return the first step that does not, or that the caller gets."""
        step = self._steps.send(outcome)
        while isinstance(step, Do) or (isinstance(step, Added) and not self._streaming):
            step = self._steps.send(self._do(step.work) if isinstance(step, Do) else None)
        return step

    async def _aadvance(self, outcome: Any) -> Any:
        def advance_and_rest() -> Any:
            step = self._advance(outcome)
            if not isinstance(step, AiMessage):  # then the turn is released at once
                self._turn.rest()
            return step

        # To the end: a step that went on after the turn was released could take it again.
        return await run_to_the_end(advance_and_rest)

    def _do(self, work: Callable[[], Any]) -> Any:
        self._turn.wake()
        return work()

    def _renew(self) -> None:
        self._do(self._turn.renew)
        self._turn.rest()

    def _renewal(self) -> Callable[[], None]:
        """Return what the thread of a tool calls first, so that the time for which the tool waited does not count."""
        pulse = _Pulse(self._turn.timeout)
        return lambda: self._renew() if pulse.is_due() else None

    def _said_before(self, answer: AiMessage) -> Sequence[str]:
        """Return the text to stream if the answer was stored before and the model is not asked again."""
        return [answer.text] if self._streaming and not self._has_asked and answer.text else []

    def _ask(self, messages: list[ChatMessage]) -> Generator[str, None, AiMessage]:
        if not self._streaming:
            return self._model.chat(messages, self._tools.specifications)
        pieces = self._model.stream(messages, self._tools.specifications)
        pulse = _Pulse(self._turn.timeout)
        last: Any = None
        try:
            for last in pieces:
                if isinstance(last, str):
                    if pulse.is_due():
                        self._renew()
                    if last:
                        yield last
        finally:
            if (close := getattr(pieces, "close", None)) is not None:
                close()
        return _whole(last)

    async def _aask(self, messages: list[ChatMessage]) -> AsyncGenerator[str | AiMessage, None]:
        if not self._streaming:
            yield await self._model.achat(messages, self._tools.specifications)
            return
        pieces = self._model.astream(messages, self._tools.specifications)
        pulse = _Pulse(self._turn.timeout)
        last: Any = None
        try:
            async for last in pieces:
                if isinstance(last, str):
                    if pulse.is_due():
                        await run_to_the_end(self._renew)
                    if last:
                        yield last
        finally:
            if (close := getattr(pieces, "aclose", None)) is not None:
                await close()
        yield _whole(last)


class _Pulse:
    """A clock for the renewals of a turn while an answer comes in pieces."""

    def __init__(self, timeout: float) -> None:
        self._interval = timeout / 4
        self._last = time.monotonic()

    def is_due(self) -> bool:
        now = time.monotonic()
        if now - self._last < self._interval:
            return False
        self._last = now
        return True


def _whole(last: Any) -> AiMessage:
    if isinstance(last, str) or last is None:
        raise ModelError("The model's stream ended before the answer was whole.")
    answer: AiMessage = last
    return answer
