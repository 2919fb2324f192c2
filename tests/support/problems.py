"""The errors that the REST API has classes for."""

from __future__ import annotations

from collections.abc import Iterator

import chatmemory.rest.urls  # noqa: F401 - all modules of REST
from chatmemory.rest.problems import Problem

__all__ = ["problem_classes"]


def problem_classes(of: type[Problem] = Problem) -> Iterator[type[Problem]]:
    """Yield every class of this app below ``of``."""
    for each in of.__subclasses__():
        if each.__module__.startswith("chatmemory."):
            yield each
            yield from problem_classes(each)
