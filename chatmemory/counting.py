"""What counts the messages of a conversation, and bounds them."""

from __future__ import annotations

from functools import lru_cache

from chatmemory.conf import setting
from chatmemory.models import Conversation
from chatmemory.tokens import OpenAiTokenCountEstimator, TokenCountEstimator
from chatmemory.window import Window, WindowKind

__all__ = ["estimator_for", "model_of", "window_of"]

# An estimator of the project's own cannot be made from its name, so such a name must not be taken for a model's.
_CUSTOM = "custom:"


@lru_cache(maxsize=64)
def _openai(model: str, fallback: str) -> OpenAiTokenCountEstimator:
    return OpenAiTokenCountEstimator(model, fallback_encoding=fallback)


def estimator_for(model: str) -> TokenCountEstimator:
    """The estimator for what a conversation has as its ``model``: of ``DEFAULT_MODEL`` if only a custom one could."""
    known = setting("DEFAULT_MODEL") if model.startswith(_CUSTOM) or not model.strip() else model
    return _openai(known, setting("FALLBACK_ENCODING"))


def model_of(estimator: TokenCountEstimator) -> str:
    """What a conversation that ``estimator`` counts has as its ``model``."""
    model = getattr(estimator, "model", "")
    if type(estimator) is OpenAiTokenCountEstimator:
        return str(model)[:255]
    kind = type(estimator)
    return f"{_CUSTOM}{kind.__module__}.{kind.__qualname__}:{model}"[:255]


def window_of(conversation: Conversation) -> Window:
    """The window that a conversation's row describes."""
    return Window(
        kind=WindowKind(conversation.window),
        limit=conversation.limit,
        estimator=estimator_for(conversation.model),
        always_keep_system_message_first=conversation.always_keep_system_message_first,
    )
