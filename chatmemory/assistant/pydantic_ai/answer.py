"""The answer in responses of Pydantic AI, and its errors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from pydantic_ai import exceptions
from pydantic_ai.messages import (
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
)

from chatmemory.assistant.deltas import Answered, Thinking, Usage
from chatmemory.assistant.errors import ModelError
from chatmemory.assistant.provider import Answer, Tools, described
from chatmemory.core.exceptions import gettext_noop as _
from chatmemory.core.messages import AiMessage
from chatmemory.formats.kept_parts import with_attributes
from chatmemory.formats.pydantic_ai import answer, kept_beside

_MOST_PAUSES = 10

_ERRORS: dict[type[Exception], str] = {
    exceptions.ModelContextWindowExceededError: _("%(name)s cannot read so much: the conversation is too long for it."),
    exceptions.ModelRateLimitError: _("%(name)s gets too many requests. Try again later."),
    exceptions.ModelQuotaExceededError: _("The quota of %(name)s is used up."),
    exceptions.ModelUnavailableError: _("%(name)s is not available. Try again later."),
    exceptions.ModelRequestTimeout: _("%(name)s did not answer in time."),
    exceptions.ModelTimeoutError: _("%(name)s did not answer in time."),
    exceptions.ModelAuthenticationError: _("%(name)s refuses the API key, or does not allow the request."),
    exceptions.ModelNotFoundError: _("%(name)s does not exist, or not at this address."),
    exceptions.ModelRequestRejectedError: _("%(name)s refused the request."),
    exceptions.ModelConnectionError: _("The connection to %(name)s failed."),
    exceptions.ModelAPIError: _("%(name)s failed."),
    exceptions.UnexpectedModelBehavior: _("%(name)s gave an answer that cannot be understood: %(answer)s"),
}
"""The texts for errors, the most specific first. The provider's own text may quote the key: it goes to the log only."""

_IN_PROCESS = ("test", "function")
"""The providers of Pydantic AI's models for tests, which give no reason for the end of an answer."""

_logger = logging.getLogger("chatmemory.assistant")


@dataclass(eq=False)
class PydanticAiAnswer(Answer):
    """An answer in one response, or in several if it paused."""

    cut_off = {
        "length": "the model's limit was reached",
        "content_filter": "a content filter stopped it",
        "error": "the provider reported an error",
    }

    tools: Tools = ()
    response: ModelResponse | None = None
    """The responses so far as one."""

    counted: Any = None
    """The figures of the response that comes now."""

    def requests(self) -> Iterator[dict[str, Any]]:
        yield self.request
        for _pause in range(_MOST_PAUSES):
            if self.response is None or self.response.state != "suspended":
                return
            yield {**self.request, "messages": [*self.request["messages"], self.response]}
        if self.response is not None and self.response.state == "suspended":
            template = _("%(name)s paused more than %(count)s times, and did not finish its answer.")
            raise self._error(template, count=_MOST_PAUSES)

    def read(self, response: ModelResponse) -> None:
        before, self.counted = self.response, None
        if before is None or (response.provider_response_id or 0) == before.provider_response_id:
            self.response = response  # the same job, asked again, tells all of it
        else:
            usage = before.usage + response.usage
            self.response = replace(response, parts=[*before.parts, *response.parts], usage=usage)
        self.stop_reason = response.finish_reason

    def take(self, piece: Any) -> list[str | Thinking]:
        match piece:
            case PartStartEvent(part=TextPart(content=text)):
                return [text]
            case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                return [text]
            case PartStartEvent(part=ThinkingPart(content=thought)) if thought:
                return [Thinking(thought)]
            case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=str(thought))) if thought:
                return [Thinking(thought)]
        return [""]

    def require_end(self, provider: str) -> None:
        """Raise a ``ModelError`` if a stream ended without a reason: Pydantic AI takes it for whole."""
        is_paused = self.response is not None and self.response.state == "suspended"
        if not (self.stop_reason or is_paused or provider in _IN_PROCESS):
            raise self._broken_off()

    def whole(self) -> Answered:
        answered = super().whole()
        assert self.response is not None
        tools = described(self.tools, "parameters")
        return replace(answered, message=kept_beside(answered.message, self.response, self.messages, tools))

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raise a ``ModelError`` for an error in the ``with`` block, unless Pydantic AI says the set-up is wrong."""
        try:
            yield
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Its own, which would look like one of the caller's, and no reader of a stream would hear of it.
            raise self._broken_off() from error
        except (ModelError, exceptions.UserError):
            raise
        except Exception as error:  # others come of answers whose types nobody has checked
            _logger.warning("%s failed", self.name, exc_info=True)
            found = (template for kind, template in _ERRORS.items() if isinstance(error, kind))
            template = next(found, _ERRORS[exceptions.ModelAPIError])
            raise self._error(template, answer=getattr(error, "message", "")) from error

    def _message(self) -> AiMessage:
        with self._readable(self.response and self.response.parts):
            assert self.response is not None
            message = answer(self.response)
        return with_attributes(message, {})

    def _usage(self) -> Usage:
        used: list[Any] = [one for one in (self.response and self.response.usage, self.counted) if one is not None]
        # Pydantic AI has 0 for what the provider does not tell, and no call uses none.
        of_input, of_output, cached = (
            sum(getattr(one, what) or 0 for one in used) or None
            for what in ("input_tokens", "output_tokens", "cache_read_tokens")
        )
        reasoning = [one.details["reasoning_tokens"] for one in used if "reasoning_tokens" in one.details]
        return Usage(
            input_tokens=of_input,
            output_tokens=of_output,
            cached_input_tokens=cached,
            reasoning_tokens=sum(reasoning) if reasoning else None,
        )
