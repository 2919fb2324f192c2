"""The assistant of a project, which the setting ``ASSISTANT`` names."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from chatmemory.assistant.assistant import Assistant
from chatmemory.conf import is_assistant_or_function, problem_of_path, setting


def has_assistant() -> bool:
    """Return whether the project names an assistant. It is not imported.

    The addresses are made before the check of the settings runs, which must get its chance to report them.
    """
    try:
        return setting("ASSISTANT") is not None
    except ImproperlyConfigured:
        return False


def project_assistant(request: Any) -> Assistant:
    """Return the assistant that the setting ``ASSISTANT`` names.

    Args:
        request: given to the function, if the setting names one.

    Raises:
        ImproperlyConfigured: it is not set, or names neither an assistant nor a function that returns one.
        Exception: what the function raised.
    """
    path = setting("ASSISTANT")
    if path is None:
        raise ImproperlyConfigured(
            "No ASSISTANT is set, so nobody can answer. Set CHATMEMORY['ASSISTANT'] to the dotted path of an Assistant "
            "of your project, or of a function of the request that returns one."
        )
    problem = problem_of_path(path, "a function or an Assistant", is_assistant_or_function)
    if problem is not None:
        raise ImproperlyConfigured(f"CHATMEMORY['ASSISTANT'], {path!r}, {problem}.")
    named = import_string(path)
    assistant = named if isinstance(named, Assistant) else named(request)
    if not isinstance(assistant, Assistant):
        raise ImproperlyConfigured(
            f"CHATMEMORY['ASSISTANT'], {path!r}, must return an Assistant, but returned: {type(assistant).__name__}"
        )
    return assistant
