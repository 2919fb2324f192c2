"""The check of dotted paths in settings."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from django.utils.module_loading import import_string

__all__ = ["is_assistant", "is_assistant_or_function", "problem_of_path"]


def is_assistant(value: Any) -> bool:
    """Return whether ``value`` is an assistant.

    The class is known by its name, for checks are below the assistant, and import nothing of it.
    """
    names = (f"{kind.__module__}.{kind.__qualname__}" for kind in type(value).__mro__)
    return "chatmemory.assistant.assistant.Assistant" in names


def is_assistant_or_function(value: Any) -> bool:
    """Return whether a setting may name ``value`` as the project's assistant."""
    return callable(value) or is_assistant(value)


def problem_of_path(path: Any, kind: str, holds: Callable[[Any], bool] = callable) -> str | None:
    """Return what is wrong with the dotted path of an object, as the end of a sentence; None if nothing is.

    Args:
        path: the path.
        kind: the object that it must name, with its article: "a function".
        holds: whether an object is such a one; by default anything that can be called is.
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
        except Exception as error:  # whatever the module does when it is imported
            return f"{part!r} raises {type(error).__name__}: {error}"
    if hasattr(found, name):
        return None
    close = get_close_matches(name, dir(found), n=1)
    return f"{module!r} has no {name!r}" + (f"; did you mean {close[0]!r}?" if close else "")
