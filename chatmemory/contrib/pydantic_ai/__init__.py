"""Pydantic AI's message history and its conversation store.

Django imports this package before models can be imported, so the names are imported when they are first used.
``DjangoMessageHistory`` needs no tables; ``DjangoConversationStore`` needs ``"chatmemory.contrib.pydantic_ai"`` in
``INSTALLED_APPS``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chatmemory.contrib.pydantic_ai.history import DjangoMessageHistory
    from chatmemory.contrib.pydantic_ai.store import DjangoConversationStore

__all__ = ["DjangoConversationStore", "DjangoMessageHistory"]

_MODULES = {"DjangoConversationStore": "store", "DjangoMessageHistory": "history"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
