"""The token estimator and the window that a conversation's row describes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from chatmemory.conf import setting
from chatmemory.core.serialization.storable import require_storable
from chatmemory.core.tokens import OpenAiTokenCountEstimator, TokenCountEstimator
from chatmemory.core.window import Window, WindowKind
from chatmemory.models import MAX_LIMIT, WINDOW_SETTINGS, Conversation

__all__ = [
    "CUSTOM",
    "check_model",
    "estimator_for",
    "estimator_of",
    "model_name_of",
    "settings_of",
    "window_of",
    "window_with",
]

CUSTOM = "custom:"
"""The prefix of ``model`` in the row of a conversation that an estimator of the project's own counts.

That estimator cannot be made from its name, so the name must not be taken for a model's.
"""

_NOT_OF_WINDOW = ("window", "model", "compact_at")
"""The settings that are no arguments of a ``Window``: two have other names there, and one evicts nothing."""


@lru_cache(maxsize=64)
def _openai(model: str, fallback: str) -> OpenAiTokenCountEstimator:
    return OpenAiTokenCountEstimator(model, fallback_encoding=fallback)


def check_model(model: str) -> None:
    """Raise if a conversation cannot have ``model`` as its model.

    Raises:
        ValueError: it is no string of 1 to 255 characters that a database can hold.
    """
    if not isinstance(model, str) or not model.strip() or len(model) > 255:
        raise ValueError(f"model must be a string of 1 to 255 characters, but is: {model!r:.300}")
    require_storable(model, "model")


def estimator_for(model: str) -> TokenCountEstimator:
    """Return the estimator for the ``model`` of a row; for a custom estimator's name that of ``DEFAULT_MODEL``."""
    known = setting("DEFAULT_MODEL") if model.startswith(CUSTOM) or not model.strip() else model
    return _openai(known, setting("FALLBACK_ENCODING"))


def model_name_of(estimator: TokenCountEstimator) -> str:
    """Return the ``model`` of the rows that ``estimator`` counts."""
    model = getattr(estimator, "model", "")
    if type(estimator) is OpenAiTokenCountEstimator:
        return str(model)[:255]
    kind = type(estimator)
    return f"{CUSTOM}{kind.__module__}.{kind.__qualname__}:{model}"[:255]


def window_of(conversation: Conversation) -> Window:
    """Return the window that a conversation's row describes."""
    return window_with({name: getattr(conversation, name) for name in WINDOW_SETTINGS})


def window_with(settings: dict[str, Any]) -> Window:
    """Return the window that the values of :data:`WINDOW_SETTINGS` describe."""
    others = {name: value for name, value in settings.items() if name not in _NOT_OF_WINDOW}
    return Window(kind=WindowKind(settings["window"]), estimator=estimator_for(settings["model"]), **others)


def estimator_of(window: Window | None, model: str) -> TokenCountEstimator:
    """Return the window's own estimator, or else the one for ``model``."""
    return window.estimator if window is not None and window.estimator is not None else estimator_for(model)


def settings_of(window: Window, conversation: Conversation) -> dict[str, object]:
    """Return the columns that describe ``window``."""
    return {
        "window": window.kind.value,
        "limit": min(window.limit, MAX_LIMIT),
        "always_keep_system_message_first": window.always_keep_system_message_first,
        "low_water": window.low_water,
        "whole_turns": window.whole_turns,
        "keep_tool_results": window.keep_tool_results,
        "model": model_name_of(estimator_of(window, conversation.model)),
    }
