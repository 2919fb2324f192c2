"""The token estimator and the window that a conversation's row describes."""

from __future__ import annotations

from functools import lru_cache

from chatmemory.conf import setting
from chatmemory.core.serialization.storable import require_storable
from chatmemory.core.tokens import OpenAiTokenCountEstimator, TokenCountEstimator
from chatmemory.core.window import Window, WindowKind
from chatmemory.models import MAX_LIMIT, Conversation

__all__ = ["CUSTOM", "check_model", "estimator_for", "estimator_of", "model_name_of", "settings_of", "window_of"]

CUSTOM = "custom:"
"""The prefix of ``model`` in the row of a conversation that an estimator of the project's own counts.

That estimator cannot be made from its name, so the name must not be taken for a model's.
"""


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
    return Window(
        kind=WindowKind(conversation.window),
        limit=conversation.limit,
        estimator=estimator_for(conversation.model),
        always_keep_system_message_first=conversation.always_keep_system_message_first,
    )


def estimator_of(window: Window | None, model: str) -> TokenCountEstimator:
    """Return the window's own estimator, or else the one for ``model``."""
    return window.estimator if window is not None and window.estimator is not None else estimator_for(model)


def settings_of(window: Window, conversation: Conversation) -> dict[str, object]:
    """Return the columns that describe ``window``."""
    return {
        "window": window.kind.value,
        "limit": min(window.limit, MAX_LIMIT),
        "always_keep_system_message_first": window.always_keep_system_message_first,
        "model": model_name_of(estimator_of(window, conversation.model)),
    }
