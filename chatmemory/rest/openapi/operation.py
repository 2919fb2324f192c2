"""The description of one operation, for its users."""

from __future__ import annotations

from dataclasses import dataclass, field

from chatmemory.rest.openapi.shapes import Schema

__all__ = ["IF_SEEN", "SAME", "Operation", "links"]


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One method of one route."""

    id: str
    summary: str
    description: str = ""
    body: str | None = None
    """The schema of the request."""

    answer: str | None = None
    """The schema of the answer; none: it has no body."""

    formatted: bool = True
    """Whether messages come in or go out, so that a format can be asked for."""

    stream: str = ""
    """The schema of the answer if a stream is asked for; empty if there is none."""

    headers: tuple[str, ...] = ()
    """The headers of the request."""

    answer_headers: tuple[str, ...] = ()
    accepted: str = ""
    """The meaning of an answer 202; empty if there is none."""

    problems: frozenset[str] = frozenset()
    """The names of errors that only this operation has."""

    links: dict[str, Schema] = field(default_factory=dict)


def links(description: str, *operations: str, **parameters: str) -> dict[str, Schema]:
    """Return the links from an answer to ``operations``, by name, with one description and the same parameters."""
    return {name: {"operationId": name, "description": description, "parameters": parameters} for name in operations}


SAME = {"conversation_id": "$request.path.conversation_id"}
"""The parameters of a link to the same conversation."""

IF_SEEN = {"If-Match": "$response.header.ETag"}
"""The parameters of a link to an operation that is refused if something has changed since the answer."""
