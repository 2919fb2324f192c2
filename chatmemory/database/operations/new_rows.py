"""The rows of new messages, counted before anything is locked."""

from __future__ import annotations

from collections.abc import Callable

from chatmemory.conf import setting
from chatmemory.core.messages import ChatMessage
from chatmemory.core.tokens import TokenCountEstimator
from chatmemory.core.window import Window
from chatmemory.database.estimators import estimator_of, model_name_of
from chatmemory.database.native_forms import NativeForms
from chatmemory.database.target import Target
from chatmemory.models import Conversation, Message
from chatmemory.models.columns import to_columns

__all__ = ["NewRows", "count_beforehand", "new_rows"]

NewRows = Callable[[Conversation, Window], list[Message]]
"""Gives new rows, counted for a conversation under a window, that have no place yet; others at each call."""


def new_rows(messages: list[ChatMessage], estimator: TokenCountEstimator) -> list[Message]:
    """Counted rows that have no place yet.

    Raises:
        ValueError: a text that no database can hold.
    """
    return [
        Message(**to_columns(message), token_count=estimator.estimate_token_count_in_message(message))
        for message in messages
    ]


def _new_rows(
    target: Target, messages: list[ChatMessage], window: Window | None, native: NativeForms | None
) -> NewRows:
    known = target.instance.model if target.instance is not None else setting("DEFAULT_MODEL")
    return count_beforehand(messages, window, known, native)


def count_beforehand(
    messages: list[ChatMessage], window: Window | None, model: str, native: NativeForms | None = None
) -> NewRows:
    """Count ``messages`` now, by the model that most likely is right.

    Counting is what takes time, so it comes before any lock.

    Args:
        native: another framework's forms of them.

    Raises:
        ValueError: a text that no database can hold.
    """
    columns = [to_columns(message) for message in messages]
    if native is not None:
        for values, text in zip(columns, native.columns(), strict=True):
            values["native"] = text

    def count(estimator: TokenCountEstimator) -> list[int]:
        return [estimator.estimate_token_count_in_message(message) for message in messages]

    estimator = estimator_of(window, model)
    counted = {model_name_of(estimator): count(estimator)}

    def rows(conversation: Conversation, bound: Window) -> list[Message]:
        if conversation.model not in counted:
            counted[conversation.model] = count(estimator_of(bound, conversation.model))
        tokens = counted[conversation.model]
        return [Message(**values, token_count=number) for values, number in zip(columns, tokens, strict=True)]

    return rows
