"""The calls of models, and the receivers of the signal ``model_called``."""

from __future__ import annotations

import logging
import sys
import time
from typing import Self

from chatmemory.assistant.deltas import Answered, Usage, usage_told_by
from chatmemory.assistant.lease import Lease
from chatmemory.assistant.model import ChatModel, name_of
from chatmemory.core.asynchronous import run_to_the_end

_logger = logging.getLogger("chatmemory.assistant")


class Call:
    """One call of a model, ``with`` or ``async with``. When it has ended, however it did, ``model_called`` is sent."""

    def __init__(self, model: ChatModel, lease: Lease) -> None:
        self._model = name_of(model)
        self._lease = lease
        self._begun = time.monotonic()

        self.answered: Answered | None = None
        """The answer, which who makes the call sets."""

        self.usage: Usage | None = None
        """The tokens that a stream told before it was left."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        seconds = time.monotonic() - self._begun
        if _has_receivers():
            self._tell(seconds, error)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        seconds = time.monotonic() - self._begun
        if _has_receivers():
            await run_to_the_end(self._tell, seconds, error)

    def _tell(self, seconds: float, error: BaseException | None) -> None:
        """Send the signal. Its errors go to the log; the turn's next step gives the connections back."""
        from chatmemory.signals import model_called

        usage = (self.usage or usage_told_by(error)) if self.answered is None else self.answered.usage
        try:
            self._lease.wake()
            model_called.send_robust(
                _sender(),
                conversation=self._lease.conversation(),
                usage=usage,
                model=self._model,
                seconds=seconds,
                error=error,
            )
        except Exception:
            _logger.exception("The receivers of model_called could not be told of a call")


def _has_receivers() -> bool:
    signals = sys.modules.get("chatmemory.signals")  # a receiver has imported it
    return signals is not None and bool(signals.model_called.has_listeners(_sender()))


def _sender() -> object:
    """Return ``Conversation``; None if this process has no models."""
    return getattr(sys.modules.get("chatmemory.models"), "Conversation", None)
