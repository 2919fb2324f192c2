"""The calls of models: their signals, and how servers say that a request is too long."""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

from chatmemory.assistant.errors import ContextTooLongError, TurnLostError
from chatmemory.assistant.model import Answered, ChatModel, name_of, usage_told_by
from chatmemory.core.asynchronous import release, run_to_the_end
from chatmemory.core.exceptions import gettext_noop as _
from chatmemory.core.summaries import SUMMARISED
from chatmemory.core.usage import Usage

if TYPE_CHECKING:
    from chatmemory.assistant.lease import Lease

_logger = logging.getLogger("chatmemory.assistant")


class Call:
    """One call of a model, ``with`` or ``async with``.

    Before it, ``model_calling`` is sent, whose receivers may refuse it. When it has ended, however it did,
    ``model_called`` is sent: for a call whose answer may be stored, when it is stored or never will be.

    In a turn, an exception by which a server says that the request is too long becomes a ``ContextTooLongError``.
    """

    def __init__(self, model: ChatModel, lease: Lease | None, operation: str = "chat") -> None:
        """
        Args:
            model: the model.
            lease: the turn; None for a summary, whose conversation is ``SUMMARISED``.
            operation: ``"chat"``, ``"summary"`` or ``"title"``.
        """
        self._model = model
        self._lease = lease
        self._operation = operation
        self._estimated_tokens = None if lease is None or operation != "chat" else lease.estimated_tokens
        self._begun = 0.0
        self._first_delta: float | None = None
        self._error: BaseException | None = None

        self.answered: Answered | None = None
        """The answer, which who makes the call sets."""

        self.usage: Usage | None = None
        """The tokens that a stream told before it was left."""

        self.seconds = 0.0
        """The time of the call, once it has ended."""

    def note_delta(self) -> None:
        """Note that a delta has come."""
        if self._first_delta is None:
            self._first_delta = time.monotonic() - self._begun

    def __enter__(self) -> Self:
        if _has_receivers("model_calling"):
            self._announce()
        self._release()
        self._begun = time.monotonic()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        refused = self._end(error)
        if self._lease is not None and self._may_be_stored():
            self._lease.call = self
        else:
            self.tell(None)
        if refused is not None and refused is not error:
            raise refused from error

    async def __aenter__(self) -> Self:
        if _has_receivers("model_calling"):
            await run_to_the_end(self._announce)
        self._begun = time.monotonic()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        refused = self._end(error)
        if self._lease is not None and self._may_be_stored():
            self._lease.call = self
        elif _has_receivers("model_called"):
            await run_to_the_end(self.tell, None)
        if refused is not None and refused is not error:
            raise refused from error

    def tell(self, position: int | None) -> None:
        """Send ``model_called``. Its errors go to the log; the turn's next step releases the connections.

        Args:
            position: that of the stored answer.
        """
        if not _has_receivers("model_called"):
            return
        from chatmemory.signals import model_called

        error = self._error
        try:
            model_called.send_robust(
                _sender(),
                position=position,
                usage=(self.usage or usage_told_by(error)) if self.answered is None else self.answered.usage,
                status="ok" if error is None else "interrupted" if _is_interruption(error) else "failed",
                seconds=self.seconds,
                first_delta_seconds=self._first_delta,
                estimated_tokens=self._estimated_tokens,
                error=error,
                **self._named(),
            )
        except Exception:
            _logger.exception("The receivers of model_called could not be told of a call")

    def _announce(self) -> None:
        from chatmemory.signals import model_calling

        try:
            model_calling.send(_sender(), **self._named())
        finally:
            self._release()

    def _release(self) -> None:
        """Release the connections of this thread, which receivers, and what comes before the call, have used."""
        if self._lease is None:
            release()
        else:
            self._lease.rest()

    def _named(self) -> dict[str, Any]:
        if self._lease is None:
            conversation = SUMMARISED.get()
        else:
            self._lease.wake()
            conversation = self._lease.conversation()
        return {
            "conversation": conversation,
            "model": name_of(self._model),
            "provider": self._model.provider,
            "operation": self._operation,
        }

    def _end(self, error: BaseException | None) -> ContextTooLongError | None:
        self.seconds = time.monotonic() - self._begun
        # What writes a summary asks for no smaller one, so its caller gets the error of the model's server.
        refused = None if self._lease is None else too_long(error)
        self._error = refused or error
        return refused

    def _may_be_stored(self) -> bool:
        """Return whether its answer is still to be stored, or what was said of it."""
        return self._operation == "chat" and (self._error is None or _is_interruption(self._error))


def _is_interruption(error: BaseException) -> bool:
    is_over = (TurnLostError, getattr(_sender(), "DoesNotExist", TurnLostError))  # the conversation has been erased
    return isinstance(error, is_over) or not isinstance(error, Exception)


def _has_receivers(signal: str) -> bool:
    signals = sys.modules.get("chatmemory.signals")  # a receiver has imported it
    return signals is not None and bool(getattr(signals, signal).has_listeners(_sender()))


def _sender() -> object:
    """Return ``Conversation``; None if this process has no models."""
    return getattr(sys.modules.get("chatmemory.models"), "Conversation", None)


_N = r"\(?(?P<{}>\d[\d,]*)"
_USED, _LIMIT, _INPUT, _OUTPUT = (_N.format(name) for name in ("used", "limit", "input", "output"))

# The first that is found holds; those without figures come last.
_TEXTS = [
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        # OpenAI, and servers that took over its text: vLLM, OpenRouter, DeepSeek, Groq, xAI
        rf"maximum context length is {_LIMIT} tokens.{{0,80}}?(?:resulted in|requested(?: about)?|request has) {_USED}",
        rf"passed {_INPUT} input tokens.{{0,80}}?context length is only {_LIMIT}",
        rf"prompt \(length {_USED}\) is longer than the maximum model length of {_LIMIT}",
        rf"maximum prompt length is {_LIMIT} but the request contains {_USED}",
        # Anthropic
        rf"prompt is too long: {_USED} tokens > {_LIMIT}",
        rf"input length and `?max_tokens`? exceed context limit: {_INPUT} \+ {_OUTPUT} > {_LIMIT}",
        # Gemini
        rf"input token count {_USED}\)? exceeds the maximum number of tokens allowed {_LIMIT}",
        rf"input token count exceeds the maximum number of tokens allowed {_LIMIT}",
        # Mistral
        rf"prompt contains {_USED} tokens.{{0,80}}?too large for model with {_LIMIT} maximum context length",
        # llama.cpp and Ollama
        rf"request {_USED} tokens\) exceeds the available context size {_LIMIT}",
        rf"input {_USED} tokens\) is longer than the model's context length {_LIMIT}",
        # Hugging Face
        rf"`?inputs`? tokens \+ `?max_new_tokens`? must be <= {_LIMIT}\. Given: {_INPUT} .{{0,40}}? and {_OUTPUT}",
        rf"maximum context length is {_LIMIT}",
        r"context_length_exceeded|exceed_context_size_error|prompt is too long|prompt too long",
        r"exceeds? the (?:context window|context length|available context size|model's maximum context)",
        r"(?:exceeds?|exceeded) (?:the )?max(?:imum)? context length",
        r"input is too long for requested model",  # Amazon Bedrock
    )
]
_MOST_READ = 20_000
_NOT_ABOUT_LENGTH = (401, 403, 404, 429)  # above all tokens per minute, of which servers speak much alike
_LONGEST_CHAIN = 4


def too_long(error: BaseException | None) -> ContextTooLongError | None:
    """Return the error for a request that was longer than what the model takes; None if ``error`` says something else.

    Args:
        error: the exception of a call of a model, of any package. Those that caused it are looked at, too.
    """
    for one in _chain(error):
        if isinstance(one, ContextTooLongError):
            return one
        if getattr(one, "status_code", None) in _NOT_ABOUT_LENGTH or getattr(one, "code", None) in _NOT_ABOUT_LENGTH:
            return None
        text = f"{one} {getattr(one, 'code', '')} {getattr(one, 'body', '')}"[:_MOST_READ]
        match = next(filter(None, (pattern.search(text) for pattern in _TEXTS)), None)
        if match is not None:
            used, most = _figures(match)
            template = _("The conversation is longer than the model takes: %(reason)s")
            return ContextTooLongError(template, used=used, most=most, reason=str(one)[:500])
    return None


def _chain(error: BaseException | None) -> Iterator[Exception]:
    for _step in range(_LONGEST_CHAIN):
        if not isinstance(error, Exception):
            return
        yield error
        error = error.__cause__


def _figures(match: re.Match[str]) -> tuple[int | None, int | None]:
    """Return the tokens of the request, and the most that there may be."""
    found = {name: int(digits.replace(",", "")) for name, digits in match.groupdict().items() if digits}
    used = found.get("used")
    if used is None and "input" in found:
        used = found["input"] + found.get("output", 0)
    return used, found.get("limit")


_LEAST_SHRINKING = 90
_MOST_PER_TOKEN = 125  # percent: as many tokens are counted here for what the server counts as 100
_SHRINKING_WITHOUT_FIGURES = 50


def tokens_that_fit(tokens: int, error: ContextTooLongError, low_water: int) -> int:
    """Return the most tokens that a memory may have to be taken, as they are counted here.

    Args:
        tokens: those of the memory that was refused.
        error: what the server said. Its figures include tools and room for the answer, so nobody knows what a token
            there is here: what is too much there leaves here, and a quarter more, or more if there are fewer tokens
            there.
        low_water: the window's low-water mark, in percent of what fits.
    """
    if error.used is None or error.most is None or error.used <= error.most:
        return tokens * min(low_water, _SHRINKING_WITHOUT_FIGURES) // 100
    too_many = (error.used - error.most) * max(tokens, error.used) // error.used
    marked = (tokens - too_many) * min(low_water, _LEAST_SHRINKING)
    return max(0, min(marked, tokens * 100 - too_many * _MOST_PER_TOKEN)) // 100
