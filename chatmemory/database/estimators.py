"""What counts the messages of a conversation, and bounds them."""

from __future__ import annotations

from functools import lru_cache

from chatmemory.conf import setting
from chatmemory.core.serialization.storable import require_storable
from chatmemory.core.tokens import OpenAiTokenCountEstimator, TokenCountEstimator
from chatmemory.core.window import Window, WindowKind
from chatmemory.models import MAX_LIMIT, Conversation

__all__ = ["CUSTOM", "check_model", "estimator_for", "estimator_of", "model_name_of", "settings_of", "window_of"]

CUSTOM = "custom:"
"""How the ``model`` of a conversation begins that an estimator of the project's own counts.

That one cannot be made from its name, so such a name must not be taken for a model's.
"""


@lru_cache(maxsize=64)
def _openai(model: str, fallback: str) -> OpenAiTokenCountEstimator:
    return OpenAiTokenCountEstimator(model, fallback_encoding=fallback)


def check_model(model: str) -> None:
    """
    Raises:
        ValueError: ``model`` is not a name that a conversation can have.
    """
    if not isinstance(model, str) or not model.strip() or len(model) > 255:
        raise ValueError(f"model must be a string of 1 to 255 characters, but is: {model!r:.300}")
    require_storable(model, "model")


def estimator_for(model: str) -> TokenCountEstimator:
    """The estimator for what a conversation has as its ``model``: of ``DEFAULT_MODEL`` if only a custom one could."""
    known = setting("DEFAULT_MODEL") if model.startswith(CUSTOM) or not model.strip() else model
    return _openai(known, setting("FALLBACK_ENCODING"))


def model_name_of(estimator: TokenCountEstimator) -> str:
    """What a conversation that ``estimator`` counts has as its ``model``."""
    model = getattr(estimator, "model", "")
    if type(estimator) is OpenAiTokenCountEstimator:
        return str(model)[:255]
    kind = type(estimator)
    return f"{CUSTOM}{kind.__module__}.{kind.__qualname__}:{model}"[:255]


def window_of(conversation: Conversation) -> Window:
    """The window that a conversation's row describes."""
    return Window(
        kind=WindowKind(conversation.window),
        limit=conversation.limit,
        estimator=estimator_for(conversation.model),
        always_keep_system_message_first=conversation.always_keep_system_message_first,
    )


def estimator_of(window: Window | None, model: str) -> TokenCountEstimator:
    """The window's own estimator, or else the one for ``model``."""
    return window.estimator if window is not None and window.estimator is not None else estimator_for(model)


def settings_of(window: Window, conversation: Conversation) -> dict[str, object]:
    """What the columns of ``conversation`` are if ``window`` bounds it."""
    return {
        "window": window.kind.value,
        "limit": min(window.limit, MAX_LIMIT),
        "always_keep_system_message_first": window.always_keep_system_message_first,
        "model": model_name_of(estimator_of(window, conversation.model)),
    }
