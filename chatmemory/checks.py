"""The system checks of the settings. Each error says how to correct it."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.utils.module_loading import import_string

from chatmemory.conf import DEFAULTS, setting
from chatmemory.core.tokens.encodings import ENCODING_NAMES
from chatmemory.core.window import WindowKind
from chatmemory.formats.registry import MessageFormat
from chatmemory.models.window_settings import MAX_LIMIT

__all__ = ["check_settings"]

_NAME = re.compile("[a-z0-9]+([-_][a-z0-9]+)*")
_RATE = re.compile("[1-9][0-9]*/(s|sec|second|m|min|minute|h|hour|d|day)")


def _positive(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _importable(paths: Any) -> bool:
    if not isinstance(paths, (list, tuple)):
        return False
    for path in paths:
        try:
            import_string(path)
        except (ImportError, AttributeError, TypeError):
            return False
    return True


def _unimportable(path: Any) -> str | None:
    """Return which part of the dotted path of a function cannot be imported; None if the function can."""
    if not (isinstance(path, str) and all(part.isidentifier() for part in path.split(".")) and "." in path):
        return "is no dotted path of a function"
    module, _dot, name = path.rpartition(".")
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        part = ".".join(parts[:end])
        try:
            found = import_module(part)
        except ImportError as error:
            return f"cannot be imported: {part!r} raises {type(error).__name__}: {error}"
    if not hasattr(found, name):
        return f"cannot be imported: {module!r} has no {name!r}"
    return None if callable(getattr(found, name)) else f"is no function: {name!r} cannot be called"


def _formats(formats: Any) -> bool:
    if not isinstance(formats, dict):
        return False
    for name, path in formats.items():
        if not (isinstance(name, str) and _NAME.fullmatch(name)):
            return False
        try:
            found = import_string(path)
        except (ImportError, AttributeError, TypeError):
            return False
        if not isinstance(found, MessageFormat):
            return False
    return True


def _rates(rates: Any) -> bool:
    if not isinstance(rates, dict) or not rates.keys() <= DEFAULTS["THROTTLE_RATES"].keys():
        return False
    return all(rate is None or (isinstance(rate, str) and _RATE.fullmatch(rate)) for rate in rates.values())


_RULES: list[tuple[str, str, Callable[[Any], bool], str]] = [
    ("E003", "DEFAULT_WINDOW", lambda v: v in list(WindowKind), 'Set it to "messages" or "tokens".'),
    (
        "E004",
        "DEFAULT_LIMIT",
        lambda v: v is None or (_positive(v) and v <= MAX_LIMIT),
        f"Set it to a whole number from 1 to {MAX_LIMIT}, or to None.",
    ),
    ("E005", "DEFAULT_MODEL", lambda v: isinstance(v, str) and bool(v.strip()), 'Set it to a model such as "gpt-4o".'),
    ("E006", "FALLBACK_ENCODING", lambda v: v in ENCODING_NAMES, f"Set it to one of {', '.join(ENCODING_NAMES)}."),
    ("E007", "KEEP_HISTORY", lambda v: isinstance(v, bool), "Set it to True or False."),
    ("E008", "MAX_MESSAGE_CHARS", _positive, "Set it to a whole number above zero."),
    ("E009", "MAX_BATCH", _positive, "Set it to a whole number above zero."),
    ("E010", "PERMISSION_CLASSES", _importable, "Set it to a list of dotted paths of classes that can be imported."),
    ("E011", "MAX_MEMORY_MESSAGES", _positive, "Set it to a whole number above zero."),
    ("E012", "MAX_BODY_BYTES", _positive, "Set it to a whole number above zero."),
    ("E013", "PAGE_SIZE", _positive, "Set it to a whole number above zero."),
    ("E014", "MAX_PAGE_SIZE", _positive, "Set it to a whole number above zero."),
    ("E019", "MAX_LIMIT", _positive, "Set it to a whole number above zero."),
    ("E020", "MAX_MEMORY_CHARS", _positive, "Set it to a whole number above zero."),
    ("E021", "MAX_PAGE_CHARS", _positive, "Set it to a whole number above zero."),
    ("E016", "MAX_METADATA_CHARS", _positive, "Set it to a whole number above zero."),
    ("E017", "ERASE_USER", lambda v: v in ("erase", "anonymise"), 'Set it to "erase" or "anonymise".'),
    (
        "E018",
        "FORMATS",
        _formats,
        "Set it to a dict of names (small letters, digits, single - or _ between) and dotted paths of MessageFormats.",
    ),
    (
        "E015",
        "THROTTLE_RATES",
        _rates,
        'Set it to a dict of "reads", "writes", "previews" and "searches", each None or a rate such as "100/minute".',
    ),
]


def check_settings(**kwargs: Any) -> list[CheckMessage]:
    """Return an error for each key of ``CHATMEMORY`` that is unknown, or whose value cannot be used."""
    given = getattr(settings, "CHATMEMORY", {})
    if not isinstance(given, dict):
        hint = "Set it to a dict, or leave it out."
        return [Error("CHATMEMORY is not a dict.", hint=hint, id="chatmemory.E001")]
    errors: list[CheckMessage] = [
        Error(
            f"CHATMEMORY has an unknown key: {key!r}.",
            hint=f"Take it out, or use one of {', '.join(DEFAULTS)}.",
            id="chatmemory.E002",
        )
        for key in given
        if key not in DEFAULTS
    ]
    for code, name, holds, hint in _RULES:
        value = setting(name)
        if not holds(value):
            errors.append(Error(f"CHATMEMORY[{name!r}] is {value!r}.", hint=hint, id=f"chatmemory.{code}"))
    path = setting("STAFF_CONVERSATIONS")
    problem = None if path is None else _unimportable(path)
    if problem is not None:
        hint = "Set it to the dotted path of a function that takes a user and returns a queryset of conversations."
        errors.append(
            Error(f"CHATMEMORY['STAFF_CONVERSATIONS'], {path!r}, {problem}.", hint=hint, id="chatmemory.E022")
        )
    return errors
