"""The calls of models, and the receivers of the signal ``model_called``."""

from __future__ import annotations

import logging
import sys
import time

from chatmemory.assistant.deltas import Answered, Usage, usage_told_by
from chatmemory.assistant.model import ChatModel, name_of
from chatmemory.assistant.turns.base import Lease

__all__ = ["Call"]

_logger = logging.getLogger("chatmemory.assistant")


class Call:
    """One call of a model, from the moment at which this object is made."""

    def __init__(self, model: ChatModel, lease: Lease) -> None:
        self._model = name_of(model)
        self._lease = lease
        self._begun = time.monotonic()
        self._seconds = 0.0

        self.usage: Usage | None = None
        """The tokens that a stream told before it was left."""

    def end(self) -> bool:
        """Note the end of the call, and return whether the signal has receivers: then call :meth:`tell`."""
        self._seconds = time.monotonic() - self._begun
        signals = sys.modules.get("chatmemory.signals")  # whoever receives the signal has imported it
        return signals is not None and bool(signals.model_called.has_listeners(_sender()))

    def tell(self, answered: Answered | None, error: BaseException | None) -> None:
        """Send the signal ``model_called``. Its errors go to the log; the turn's next step gives the connections back.

        Args:
            answered: the answer; None if there is none.
            error: the exception that ended the call.
        """
        from chatmemory.signals import model_called

        usage = (self.usage or usage_told_by(error)) if answered is None else answered.usage
        try:
            self._lease.wake()
            model_called.send_robust(
                _sender(),
                conversation=self._lease.conversation(),
                usage=usage,
                model=self._model,
                seconds=self._seconds,
                error=error,
            )
        except Exception:
            _logger.exception("The receivers of model_called could not be told of a call")


def _sender() -> object:
    """Return ``Conversation``; None if this process has no models."""
    return getattr(sys.modules.get("chatmemory.models"), "Conversation", None)
