"""Why a turn has no answer. What the model itself raises comes as it is."""

from __future__ import annotations

__all__ = [
    "AssistantError",
    "ConversationBusyError",
    "ModelError",
    "TooManyToolInvocationsError",
    "ToolError",
    "TurnLostError",
    "WindowTooSmallError",
]


class AssistantError(Exception):
    """What was said so far is kept, and the conversation can go on."""


class ConversationBusyError(AssistantError):
    """Another turn of the conversation did not end within ``wait_timeout``. Nothing was added; try again."""


class TurnLostError(AssistantError):
    """The turn was interrupted, or another one took over, for this one gave no sign of life within ``turn_timeout``.

    Nothing more of this turn was added.
    """


class TooManyToolInvocationsError(AssistantError):
    """The model called tools more often in a row than ``max_sequential_tools_invocations`` allows."""


class WindowTooSmallError(AssistantError):
    """What the model is to answer does not fit the window, so it would never see it."""


class ModelError(AssistantError):
    """What the model gave is no answer: it broke off, or was empty."""


class ToolError(Exception):
    """Raised by a tool, with the text that the model is to read in place of a result."""
