"""The windows of stored conversations: their settings, checked and set, and their estimators."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

from chatmemory.conf import default_limit, setting, window_default
from chatmemory.core.entries import Entry, MemoryMessages
from chatmemory.core.eviction import Retained
from chatmemory.core.tokens import OpenAiTokenCountEstimator, TokenCountEstimator, stored_count, tool_tokens
from chatmemory.core.window import RULES, Window, WindowKind, without_preset
from chatmemory.database.rows import Row, read_memory
from chatmemory.database.statements import Key
from chatmemory.models import MAX_LIMIT, WINDOW_SETTINGS, Conversation, Origin, WindowSettings
from chatmemory.models.message import from_columns, is_pin_open
from chatmemory.models.window_settings import NULLABLE, check_stored


def check_window_settings(settings: WindowSettings) -> WindowSettings:
    """Return the settings, with a preset replaced by its settings.

    Raises:
        TypeError: a setting is unknown.
        ValueError: a setting is invalid.
    """
    settings = cast(WindowSettings, without_preset(settings))
    unknown = settings.keys() - set(WINDOW_SETTINGS)
    if unknown:
        raise TypeError(f"unknown settings of a window: {', '.join(sorted(unknown))}; use {', '.join(WINDOW_SETTINGS)}")
    for name, value in settings.items():
        if value is not None:
            check_stored(name, value)
    return settings


def apply_window_settings(conversation: Conversation, settings: WindowSettings) -> bool:
    """Set columns of ``conversation``, unsaved. Return whether another model now counts its tokens.

    A window of another kind without a limit gets the default limit of that kind.
    """
    counted_by = conversation.model
    window = settings.get("window")
    if window not in (None, conversation.window):
        conversation.limit = default_limit(window)
    for name, value in settings.items():
        if value is not None or name in NULLABLE:
            setattr(conversation, name, value)
    return bool(conversation.model != counted_by)


CUSTOM = "custom:"
"""The prefix of ``model`` in the row of a conversation with the project's own estimator.

The estimator cannot be created from its name, so the name must not be taken for a model.
"""


@lru_cache(maxsize=64)
def _openai(model: str, fallback: str) -> OpenAiTokenCountEstimator:
    return OpenAiTokenCountEstimator(model, fallback_encoding=fallback)


def estimator_for(model: str) -> TokenCountEstimator:
    """Return the estimator for the ``model`` of a row; for a custom estimator's name, that of new conversations."""
    known = window_default("model") if model.startswith(CUSTOM) or not model.strip() else model
    return _openai(known, setting("FALLBACK_ENCODING"))


def tokens_of_tools(tools: str, model: str) -> int:
    """Return the tokens of tool definitions, given as JSON, for the ``model`` of a row."""
    return _tokens_of_tools(tools, model, setting("FALLBACK_ENCODING"))


@lru_cache(maxsize=64)
def _tokens_of_tools(tools: str, model: str, fallback: str) -> int:
    return tool_tokens(tools, estimator_for(model))


def model_name_of(estimator: TokenCountEstimator) -> str:
    """Return the ``model`` for rows that ``estimator`` counts."""
    model = getattr(estimator, "model", "")
    if type(estimator) is OpenAiTokenCountEstimator:
        return str(model)[:255]
    kind = type(estimator)
    return f"{CUSTOM}{kind.__module__}.{kind.__qualname__}:{model}"[:255]


def window_of(conversation: Conversation) -> Window:
    """Return the window that a conversation's row describes."""
    return window_with({name: getattr(conversation, name) for name in WINDOW_SETTINGS})


def window_with(settings: dict[str, Any]) -> Window:
    """Return the window that the values of ``WINDOW_SETTINGS`` describe."""
    rules = {name: settings[name] for name in RULES}
    return Window(kind=WindowKind(settings["window"]), estimator=estimator_for(settings["model"]), **rules)


def estimator_of(window: Window | None, model: str) -> TokenCountEstimator:
    """Return the window's own estimator, or the one for ``model``."""
    return window.estimator if window is not None and window.estimator is not None else estimator_for(model)


def settings_of(window: Window, conversation: Conversation) -> dict[str, object]:
    """Return the columns that describe ``window``."""
    return {
        **{name: getattr(window, name) for name in RULES},
        "window": window.kind.value,
        "limit": min(window.limit, MAX_LIMIT),
        "model": model_name_of(estimator_of(window, conversation.model)),
    }


# In a row of Statements.memory.
_MESSAGE = slice(0, 3)
_TOKENS, _ADDED_IN, _ORIGIN, _PINS, _PREFIX_VERSION = range(3, 8)
_SETTINGS = slice(8, None)


def read_window(key: Key, window: Window | None = None) -> MemoryMessages:
    """Return the messages of a memory that fit ``window``, by default its own; empty if the conversation is missing.

    A window may have become smaller since the last change. Then the result is shorter, and nothing is written.
    """
    messages, _ = _fit(read_memory(key), window)
    return messages


def read_fresh_window(key: Key, tools: str = "") -> tuple[MemoryMessages, list[int]]:
    """Return the result of ``read_window``, and the indexes of the messages with an unchanged prefix.

    Args:
        key: the key of the conversation.
        tools: tool definitions, for which a window of tokens leaves room.
    """
    rows = read_memory(key)
    messages, is_whole = _fit(rows, None, tools)
    if not is_whole:
        return messages, []
    return messages, [index for index, row in enumerate(rows) if row[_ADDED_IN] > row[_PREFIX_VERSION]]


def _fit(rows: list[Row], window: Window | None, tools: str = "") -> tuple[MemoryMessages, bool]:
    """Return the messages of ``rows`` that fit, and whether all of them fit."""
    if not rows:
        return MemoryMessages(), True
    settings = dict(zip(WINDOW_SETTINGS, rows[0][_SETTINGS], strict=True))
    window = window or window_with(settings)
    if tools:
        window = replace(window, reserve=max(window.reserve, tokens_of_tools(tools, settings["model"])))
    messages = [from_columns(*row[_MESSAGE]) for row in rows]
    costs = [1] * len(rows)
    if window.kind is WindowKind.TOKENS and window.estimator is not None:
        if settings["model"] == model_name_of(window.estimator):
            costs = [row[_TOKENS] for row in rows]
        else:
            costs = [stored_count(message, window.estimator) for message in messages]
    entries = (
        Entry(
            message,
            cost,
            pinned=is_pin_open(row[_PINS]),
            is_placeholder=row[_ORIGIN] == Origin.CLEARED,
            is_summary=row[_ORIGIN] == Origin.SUMMARY,
        )
        for message, cost, row in zip(messages, costs, rows, strict=True)
    )
    retained = Retained(entries, total=window.overhead + sum(costs), window=window)
    retained.evict()
    if retained.evicted:
        messages = [entry.message for entry in retained.entries()]
    return MemoryMessages(messages, retained.lasting()), not retained.evicted
