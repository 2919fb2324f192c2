"""Summaries of conversations, for programs."""

from __future__ import annotations

from typing import cast

from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from chatmemory.conf import setting
from chatmemory.core.summaries import Summarizer

__all__ = ["project_summarizer"]


def project_summarizer() -> Summarizer:
    """Return the function that the setting ``SUMMARIZER`` names.

    Raises:
        ImproperlyConfigured: it is not set.
    """
    path = setting("SUMMARIZER")
    if path is None:
        raise ImproperlyConfigured("No SUMMARIZER is set, so nothing can write a summary.")
    return cast(Summarizer, import_string(path))
