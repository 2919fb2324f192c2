"""What processes asked of one conversation, and what they were told, with the times of both."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from benchmarks.soak.adversary.model import Messages, Said

__all__ = ["Operation", "messages_in", "read_history"]


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One request and its answer."""

    who: str

    act: str
    """``add``, ``set``, ``clear``, ``bound``, ``read``, ``version`` or ``etag``."""

    given: dict[str, Any]

    invoked: float
    """When it began, by the clock that all processes share."""

    returned: float = inf
    """When its answer came; infinite if its process was killed."""

    result: dict[str, Any] | None = None

    @property
    def is_read(self) -> bool:
        """Whether it changes nothing."""
        return self.act in ("read", "version", "etag")


def messages_in(pairs: Iterable[Any]) -> Messages:
    """Return messages from the pairs of kind and text that JSON has."""
    return tuple(Said(kind, text) for kind, text in pairs)


def read_history(logs: Iterable[Path]) -> list[Operation]:
    """Read the logs of all processes. Each has a line for a request, and another for its answer."""
    found = []
    for log in sorted(logs):
        whole, _, _broken = log.read_text().rpartition("\n")  # it may have been killed while it wrote
        asked: dict[str, Any] | None = None
        for line in map(json.loads, whole.splitlines()):
            if "act" in line:
                asked = line
            elif asked is not None:
                found.append(Operation(who=log.stem, **asked, **line))
                asked = None
        if asked is not None:
            found.append(Operation(who=log.stem, **asked))
    return found
