"""What counts the messages of a conversation, and bounds them."""

from __future__ import annotations

from functools import lru_cache

from chatmemory.conf import setting
from chatmemory.messages import ChatMessage
from chatmemory.models import Conversation, Message
from chatmemory.reader import require_storable
from chatmemory.rows import to_columns
from chatmemory.tokens import OpenAiTokenCountEstimator, TokenCountEstimator
from chatmemory.window import Window, WindowKind

__all__ = ["CUSTOM", "check_model", "estimator_for", "model_of", "new_rows", "window_of"]

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


def model_of(estimator: TokenCountEstimator) -> str:
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


def new_rows(messages: list[ChatMessage], estimator: TokenCountEstimator) -> list[Message]:
    """Counted rows that have no place yet.

    Raises:
        ValueError: a text that no database can hold.
    """
    return [
        Message(**to_columns(message), token_count=estimator.estimate_token_count_in_message(message))
        for message in messages
    ]
