"""The errors of turns. Exceptions of the model itself are passed on as they are."""

from __future__ import annotations

from typing import Any

from chatmemory.core.exceptions import CodedError
from chatmemory.core.usage import Usage


class AssistantError(Exception):
    """A turn that ended without an answer. What was said so far is kept, and the conversation can go on."""


class ConversationBusyError(AssistantError):
    """Another turn of the conversation did not end within ``wait_timeout``. Nothing was added; try again."""


class TurnLostError(AssistantError):
    """The turn was interrupted, or another one took over, because it gave no sign of life within ``turn_timeout``.

    Nothing more of this turn was added, apart from what its caller has of an answer that was interrupted.
    """

    interrupted: bool
    """Whether it is certain that the turn was interrupted: nobody could have taken it over yet."""

    def __init__(self, *args: object, interrupted: bool = False) -> None:
        super().__init__(*args)
        self.interrupted = interrupted


class AnswerDeletedError(AssistantError):
    """The message was added before with the same idempotency key, and its answer may have been deleted since."""


class TooManyToolInvocationsError(AssistantError):
    """The model called tools more often in a row than ``max_sequential_tools_invocations`` allows."""


class WindowTooSmallError(CodedError, AssistantError):
    """The message that the model is to answer does not fit the window, or left it, so the model would not see it."""

    code = "window_too_small"


class NothingSaidError(AssistantError, ValueError):
    """The turn has no message, and the memory has none that could be answered."""


class ModelError(CodedError, AssistantError):
    """The model's answer broke off, was empty, or cannot be understood."""

    code = "model_failed"

    usage: Usage | None
    """The tokens of the call, as far as the model's server told them."""

    def __init__(self, message: str = "", /, *, usage: Usage | None = None, **params: Any) -> None:
        super().__init__(message, **params)
        self.usage = usage


class ContextTooLongError(ModelError):
    """The request was longer than what the model takes, also after the memory was made smaller once."""

    code = "context_too_long"

    used: int | None
    """The tokens of the request, its answer's room included, as the server counts them; None if it did not say."""

    most: int | None
    """The most tokens that the model takes; None if the server did not say."""

    def __init__(
        self,
        message: str = "",
        /,
        *,
        used: int | None = None,
        most: int | None = None,
        usage: Usage | None = None,
        **params: Any,
    ) -> None:
        super().__init__(message, usage=usage, **params)
        self.used = used
        self.most = most


class CallRefusedError(CodedError, AssistantError):
    """A receiver of ``model_calling`` refused a call of the model, with a message that the user reads.

    REST translates the message with the project's catalogues.
    """

    code = "call_refused"


class ToolError(Exception):
    """An error that a tool raises, with the text that the model reads instead of a result."""
