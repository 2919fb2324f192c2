"""The declaration of a call, which stands once, at its view: checks and the document derive from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rest_framework import serializers

from chatmemory.staff import Act

__all__ = ["Call", "call"]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Call:
    """One method of one route. The docstring of its view's method is its summary (a line) and its description."""

    id: str
    """The operation's ID in the document."""

    permission: tuple[Act, ...]
    """What staff need permissions for if they name another owner."""

    body: type[serializers.BaseSerializer[Any]] | None = None
    """Reads the body; None if there is none."""

    answer: type[serializers.BaseSerializer[Any]] | None = None
    """Describes the answer; None if it has no body."""

    parameters: Mapping[str, serializers.Field[Any, Any, Any, Any]] = field(default_factory=dict)
    """The query parameters, beside those of every call and of filters and pages. Their fields read them."""

    headers: tuple[str, ...] = ()
    """The headers of the request, such as ``If-Match``, and of the answer, such as ``ETag``."""

    whole_memory: bool = False
    """Whether the answer is one whole memory and no other messages. Only then every format can be asked for."""

    statuses: Mapping[int, str] = field(default_factory=dict)
    """What further statuses of success mean. Their answer is the same; 204 has none."""

    problems: tuple[int, ...] = ()
    """The statuses of errors that not every call has."""

    streams: bool = False
    """Whether the answer can be, or is, a stream of server-sent events."""

    throttle: str = ""
    """The key of ``THROTTLE_RATES`` that bounds it, instead of ``reads`` or ``writes``."""

    example: Any = None
    """A body. Examples of answers are made from those of their serializers."""


def call(id: str, permission: tuple[Act, ...], **declared: Any) -> Callable[[F], F]:
    """Declare a method of a view as a call of the API; see :class:`Call` for the arguments."""

    def declare(method: F) -> F:
        method.call = Call(id=id, permission=permission, **declared)  # type: ignore[attr-defined]
        return method

    return declare
