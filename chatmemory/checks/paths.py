"""Dotted paths in settings: what is wrong with one."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import Any

from django.utils.module_loading import import_string

__all__ = ["problem_of_path"]


def problem_of_path(path: Any, kind: str, kinds: type | tuple[type, ...] | None = None) -> str | None:
    """Return what is wrong with the dotted path of an object, as the end of a sentence; None if nothing is.

    Args:
        path: the path.
        kind: the object that it must name, with its article: "a function".
        kinds: the types of such an object; None for anything that can be called.
    """
    if not (isinstance(path, str) and "." in path and all(part.isidentifier() for part in path.split("."))):
        return f"is not the dotted path of {kind}"
    problem = _unimportable(path)
    if problem is not None:
        return f"cannot be imported: {problem}"
    found = import_string(path)
    if callable(found) if kinds is None else isinstance(found, kinds):
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
