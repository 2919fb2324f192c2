"""The settings: one dict, ``CHATMEMORY``, every key optional, read anew on every access."""

from __future__ import annotations

from typing import Any

from django.conf import settings

__all__ = ["DEFAULTS", "default_limit", "default_model", "default_window", "setting"]

DEFAULTS: dict[str, Any] = {
    # The window of a new conversation: "messages" or "tokens", how many of them, and the model that counts tokens.
    "DEFAULT_WINDOW": "tokens",
    "DEFAULT_LIMIT": 4000,
    "DEFAULT_MODEL": "gpt-4o",
    # Counts for models that tiktoken does not know: "o200k_base" or "cl100k_base".
    "FALLBACK_ENCODING": "o200k_base",
    # False deletes a message when it is evicted, instead of keeping it as history.
    "KEEP_HISTORY": True,
    # What erase_user() does with a user's conversations: "erase" them, or "anonymise" and keep the figures.
    "ERASE_USER": "erase",
    # The most that REST takes: of one message, of a conversation's metadata, of messages to add at once, of messages of
    # a memory that is written whole, and of one body.
    "MAX_MESSAGE_CHARS": 400_000,
    "MAX_METADATA_CHARS": 20_000,
    "MAX_BATCH": 100,
    "MAX_MEMORY_MESSAGES": 2_000,
    "MAX_BODY_BYTES": 10_000_000,
    # The results of one page: unless the request says otherwise, and at most.
    "PAGE_SIZE": 50,
    "MAX_PAGE_SIZE": 200,
    # How often each user may read, write and preview, such as "100/minute"; None is without limit.
    "THROTTLE_RATES": {"reads": None, "writes": None, "previews": None},
    # The project's own message formats: name -> dotted path of a chatmemory.formats.registry.MessageFormat.
    "FORMATS": {},
    # Dotted paths of the DRF permission classes of every REST view.
    "PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
}


def setting(name: str) -> Any:
    """Return the value of one setting; its default if the project does not set it."""
    return getattr(settings, "CHATMEMORY", {}).get(name, DEFAULTS[name])


def default_window() -> str:
    """Return ``DEFAULT_WINDOW``, for the model field."""
    return str(setting("DEFAULT_WINDOW"))


def default_limit() -> int:
    """Return ``DEFAULT_LIMIT``, for the model field."""
    return int(setting("DEFAULT_LIMIT"))


def default_model() -> str:
    """Return ``DEFAULT_MODEL``, for the model field."""
    return str(setting("DEFAULT_MODEL"))
