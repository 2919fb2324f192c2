"""Where the URLs of a project contain the REST API: below which namespaces, and with which arguments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.urls import URLResolver

_APP_NAME = "chatmemory"


@dataclass(frozen=True, kw_only=True)
class ApiPlace:
    """A place of the REST API in the URLs of a project."""

    namespace: str
    """The namespaces of its views, from the outermost one, separated by colons."""

    arguments: tuple[str, ...]
    """The names of the arguments that come before the API's own, such as ``tenant`` in ``<slug:tenant>/api/``."""


def api_places(resolver: URLResolver) -> Iterator[ApiPlace]:
    """Yield the places of the REST API below a resolver, in their order."""
    yield from _below(resolver, (), ())


def _below(resolver: URLResolver, namespaces: tuple[str, ...], arguments: tuple[str, ...]) -> Iterator[ApiPlace]:
    for pattern in resolver.url_patterns:
        if not isinstance(pattern, URLResolver):
            continue
        inner = (*namespaces, pattern.namespace) if pattern.namespace else namespaces
        before = (*arguments, *pattern.pattern.regex.groupindex)
        if pattern.app_name == _APP_NAME:
            yield ApiPlace(namespace=":".join(inner), arguments=before)
        else:
            yield from _below(pattern, inner, before)
