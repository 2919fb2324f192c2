"""The settings: one dict, ``CHATMEMORY``, read on every access. Every key is optional."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from chatmemory.core.window import PRESETS, SETTINGS, USUAL_LIMITS, WindowKind

DEFAULTS: dict[str, Any] = {
    # The settings of the window of a new conversation. These are also the defaults of settings that a project omits.
    "WINDOW": {name: declared.default for name, declared in SETTINGS.items()},
    # The dotted path of a function that takes messages and the summary before them (or None), and returns one summary.
    "SUMMARIZER": None,
    # The seconds that one call of a summarizer may take.
    "SUMMARIZER_TIMEOUT": 300,
    # The dotted path of the Assistant that answers over HTTP, or of a function of the request that returns one (None:
    # nobody answers).
    "ASSISTANT": None,
    # The dotted path of a function that is called in the thread of a request, and returns a function that returns a
    # context manager for each thread in which the work of the request goes on (None: the context variables are enough).
    "THREAD_CONTEXT": None,
    # The encoding for models that tiktoken does not know: "o200k_base" or "cl100k_base".
    "FALLBACK_ENCODING": "o200k_base",
    # True corrects the room of windows of tokens by the input tokens that the models' servers report.
    "CALIBRATE_TOKENS": False,
    # False deletes a message when it is evicted, instead of keeping it in the history.
    "KEEP_HISTORY": True,
    # What erase_user() does with a user's conversations: "erase" them, or "anonymise" them and keep the figures.
    "ERASE_USER": "erase",
    # Limits of REST requests: the characters of one message, the characters of a conversation's metadata, the messages
    # to add at once, and the bytes of one body.
    "MAX_MESSAGE_CHARS": 400_000,
    "MAX_METADATA_CHARS": 20_000,
    "MAX_BATCH": 100,
    "MAX_BODY_BYTES": 6_000_000,
    # Limits of memories over REST: messages and characters; and the maximum limit of a window, in either unit.
    "MAX_MEMORY_MESSAGES": 5_000,
    "MAX_MEMORY_CHARS": 3_000_000,
    "MAX_LIMIT": 2_000_000,
    # The size of one page: the default, the maximum, and the number of characters of messages after which a page ends.
    "PAGE_SIZE": 50,
    "MAX_PAGE_SIZE": 200,
    "MAX_PAGE_CHARS": 1_000_000,
    # The rates of each user for reads, writes, previews, searches and turns, such as "100/minute". None means no limit.
    "THROTTLE_RATES": {"reads": None, "writes": None, "previews": None, "searches": None, "turns": None},
    # The dotted path of a function that takes a staff user and returns a queryset of the conversations that the user
    # may reach in the admin and over REST (None: all).
    "STAFF_CONVERSATIONS": None,
    # What users may do over REST with their own conversations: "turns": chat, read, name and erase them; or "all".
    "USERS": "turns",
    # What they see with "turns" beside what was said: any of "instructions" and "tools".
    "USERS_SEE": [],
    # The prices per million tokens, by model: {"gpt-4o": {"input": 2.5, "cache_read": 1.25, "output": 10}}.
    "PRICES": {},
    # The project's own message formats: name -> dotted path of a chatmemory.formats.MessageFormat.
    "FORMATS": {},
    # Dotted paths of the DRF permission classes of every REST view.
    "PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
}


def setting(name: str) -> Any:
    """Return the value of a setting, or its default.

    Raises:
        ImproperlyConfigured: ``CHATMEMORY`` is not a dict.
    """
    given = getattr(settings, "CHATMEMORY", {})
    if not isinstance(given, dict):
        raise ImproperlyConfigured(f"CHATMEMORY must be a dict, but is: {given!r:.100}")
    return given.get(name, DEFAULTS[name])


def prices_of(model: str, day: date) -> Mapping[str, Any] | None:
    """Return the prices of a model on a day from ``PRICES``; None if there are none.

    A model has one dict, or a list of them with the first day of each as ``"from"``.
    """
    given = setting("PRICES").get(model)
    entries = given if isinstance(given, (list, tuple)) else [] if given is None else [given]
    begun = [entry for entry in entries if first_day_of(entry) <= day]
    return max(begun, key=first_day_of, default=None)


def first_day_of(entry: Mapping[str, Any]) -> date:
    """Return the first day on which prices hold.

    Raises:
        ValueError: the text is no day such as 2026-01-31.
    """
    first = entry.get("from", date.min)
    return date.fromisoformat(first) if isinstance(first, str) else first


def window_default(name: str) -> Any:
    """Return the default of a window setting from ``WINDOW``, for the model field.

    Raises:
        ImproperlyConfigured: ``WINDOW`` is not a dict.
    """
    given = setting("WINDOW")
    if not isinstance(given, dict):
        raise ImproperlyConfigured(f"CHATMEMORY['WINDOW'] must be a dict, but is: {given!r:.100}")
    preset = PRESETS.get(str(given.get("preset")))  # the check of the settings reports an unknown preset
    settings = {} if preset is None else preset.settings
    return given.get(name, settings.get(name, SETTINGS[name].default))


def default_limit(window: str | None = None) -> int:
    """Return the default limit of a window.

    It is the ``limit`` of ``WINDOW`` if that is set and the window has the same kind as ``WINDOW``. Otherwise, it is 20
    messages or 4,000 tokens, because a good number of tokens is not a good number of messages.

    Args:
        window: the kind; by default that of ``WINDOW``.
    """
    limit, usual = window_default("limit"), window_default("window")
    if limit is not None and window in (None, usual):
        return int(limit)
    # The check of the settings reports an unknown kind.
    return USUAL_LIMITS[WindowKind.MESSAGES if (window or usual) == WindowKind.MESSAGES else WindowKind.TOKENS]


def is_assistant(value: Any) -> bool:
    """Return whether ``value`` is an assistant.

    The class is found by its name, because checks must not import the assistant.
    """
    names = (f"{kind.__module__}.{kind.__qualname__}" for kind in type(value).__mro__)
    return "chatmemory.assistant.assistant.Assistant" in names


def is_assistant_or_function(value: Any) -> bool:
    """Return whether the setting ``ASSISTANT`` may name ``value``."""
    return callable(value) or is_assistant(value)


def problem_of_path(path: Any, kind: str, holds: Callable[[Any], bool] = callable) -> str | None:
    """Return the problem of a dotted path, as the end of a sentence; None if there is no problem.

    Args:
        path: the path.
        kind: what the path must name, with an article: "a function".
        holds: returns whether an object is of this kind; by default whether it is callable.
    """
    if not (isinstance(path, str) and "." in path and all(part.isidentifier() for part in path.split("."))):
        return f"is not the dotted path of {kind}"
    problem = _unimportable(path)
    if problem is not None:
        return f"cannot be imported: {problem}"
    found = import_string(path)
    if holds(found):
        return None
    return f"is not the path of {kind}, but of: {found!r:.100}"


def _unimportable(path: str) -> str | None:
    """Return which part of a path cannot be imported, and why."""
    module, _dot, name = path.rpartition(".")
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        part = ".".join(parts[:end])
        try:
            found = import_module(part)
        except Exception as error:  # an imported module may raise anything
            return f"{part!r} raises {type(error).__name__}: {error}"
    if hasattr(found, name):
        return None
    close = get_close_matches(name, dir(found), n=1)
    return f"{module!r} has no {name!r}" + (f"; did you mean {close[0]!r}?" if close else "")
