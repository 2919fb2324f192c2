"""The refusal of the product's statements that find a conversation by its name alone, where names are in a table.

Where the tables are on several nodes, such a statement asks all of them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import chatmemory

__all__ = ["StatementByNameError", "is_by_name", "is_by_the_product", "refuse_by_name"]

_PRODUCT = f"{Path(chatmemory.__file__).parent}/"
_TESTS = f"{Path(__file__).parents[1]}/"
_RECORDER = f"{_TESTS}support/statement_texts.py"  # stands around every statement
# A view may be REST framework's throughout; and a middleware of the tests stands around it.
_ANSWERING = "/django/core/handlers/base.py"

_VALUE = r" (?:=|IN) \(?%s"
# All owners together may have several conversations of one memory ID.
_NAMES = [
    (re.compile(rf'"memory_id"{_VALUE}'), re.compile(rf'"owner_(?:id|key)"(?:{_VALUE}| = CAST\(%s| IS NULL)')),
    (re.compile(rf'"scope"{_VALUE}'), re.compile(rf'"key"{_VALUE}')),
]
_ID = re.compile(rf'(?:(?<!\.)|c\.|"chatmemory_conversation"\.)"id"{_VALUE}|"conversation_id"{_VALUE}')


class StatementByNameError(AssertionError):
    """A statement was to find a conversation by its name alone."""


def refuse_by_name(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
    """Execute a statement; a wrapper of ``django.db.connection.execute_wrapper``.

    Raises:
        StatementByNameError: the product finds a conversation by its name alone.
    """
    if is_by_name(sql) and is_by_the_product(sys._getframe(1)):
        raise StatementByNameError(f"By a name alone, without the conversation's primary key: {sql}")
    return execute(sql, params, many, context)


def is_by_name(sql: str) -> bool:
    """Return whether a statement's condition has an owner's memory ID or idempotency key, and no conversation."""
    condition = sql.partition(" WHERE ")[2]
    is_named = any(all(part.search(condition) for part in name) for name in _NAMES)
    return is_named and _ID.search(condition) is None


def is_by_the_product(frame: FrameType | None) -> bool:
    """Return whether the code that asks is the product's: tests look at rows as they like."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_PRODUCT) or file.endswith(_ANSWERING):
            return True
        if file.startswith(_TESTS) and file != _RECORDER:
            return False
        frame = frame.f_back
    return True  # in a thread that somebody else's code has started
